"""Prompts with runs of square-free words, made in three ways, and a control of our own."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import Estimate, decided_above
from ...evaluation.square_free import (
    KINDS,
    LONGEST_RUN,
    RUNS,
    WAYS,
    RunLikelihoods,
    RunsSummary,
    RunSummary,
    Stretches,
    StretchesSummary,
    Way,
    impossible,
    runs,
    runs_over_seeds,
    stretches_over_seeds,
)
from ...evaluation.subjects import EvaluatedModel
from ...text.splits import blocks_near
from ..figures import COLOURS, LINES, legend_above, plot_estimates, ridges, styles
from ..outputs import Arrays
from ..runs import TESTS_FAR, TrainedModel, hmm, ntp, several_seeds
from ..study import Table, Verdict, if_papers_model
from ..wording import format_estimate, format_integer, format_percents, join

TITLE = "Four square-free words in a row"
ORDER = 145
COST = {"laptop": 40, "gpu": 150}

# The ways to make prompts that fit the paper's description: some prompts "consist exclusively of
# sequences containing no more than three consecutive square-free integers", the others "contain
# sequences with more than three". Runs of two and three must then be possible.
FITTING: tuple[Way, ...] = ("by residue", "inserted")
UNLIKELY = 0.9  # area under the ROC curve for "very low" and "consistently lower": 9 pairs of 10
BULK = 0.5  # more than half of the prompts lie inside

# The paper's four observations, in short, by the keys of the verdicts.
OBSERVATIONS = {
    "long-runs-unlikely": "longer runs\nunlikely",
    "short-runs-within": "runs of 2 and 3\nin the bulk",
    "long-below-short": "longer runs\nbelow 2 and 3",
    "hmm-long-runs-within": "HMM: longer runs\nin the bulk",
}

# The styles of the GPT-2 and of the HMM, whose line is dash-dotted as in the paper.
_STYLES = (styles()[0], styles()[1] | {"ls": LINES[2]})
_KINDS = {
    "true": "as in\nthe text",
    "here": "allowed\nhere",
    "elsewhere": "allowed\nelsewhere",
    "impossible": "impossible",
}


@dataclass(frozen=True)
class PromptsOfRuns:
    """Which prompts are scored."""

    at: int
    lengths: tuple[int, ...]  # tokens
    sequences: int  # of each kind
    blocks: int
    seed: int


@dataclass(frozen=True)
class Settings:
    models: dict[str, tuple[TrainedModel, ...]]  # one for each seed
    prompts: PromptsOfRuns


@dataclass(frozen=True)
class Scored:
    """Summaries of prompts made in one way, of one length, by model."""

    way: str
    length: int
    models: dict[str, RunsSummary]

    def observed(self) -> dict[str, bool | None]:
        """Whether each observation holds; None if an interval does not decide."""
        gpt, markov = self.models["GPT-2"], self.models["HMM"]
        return {
            "long-runs-unlikely": _all_above([each.auc for each in _long(gpt)], UNLIKELY),
            "short-runs-within": _all_above([each.within for each in _short(gpt)], BULK),
            "long-below-short": decided_above(gpt.separation, UNLIKELY),
            "hmm-long-runs-within": _all_above([each.within for each in _long(markov)], BULK),
        }

    @property
    def name(self) -> str:
        return f"{self.way}, {self.length} tokens"


@dataclass(frozen=True)
class Result:
    prompts: PromptsOfRuns
    seeds: dict[str, int]  # number of trained models
    stand_in: str  # why the GPT-2 is not the paper's; empty if it is
    scored: list[Scored]  # for each way, for each length
    # Log-likelihoods per token for the first seed, by model: true prompts, then runs of 2, 3, …;
    # the prompts are those that the verdicts are about.
    values: dict[str, list[list[float]]]
    impossible: dict[str, StretchesSummary]

    @property
    def judged(self) -> Scored:
        return judged(self.scored)


def settings(scale: str) -> Settings:
    lengths = (16, 64, 256) if scale == "laptop" else (16, 64, 256, 1024)
    prompts = PromptsOfRuns(
        TESTS_FAR[0], lengths, sequences=128 if scale == "laptop" else 512, blocks=10, seed=0
    )
    models = {"GPT-2": several_seeds(ntp(scale), scale), "HMM": several_seeds(hmm(scale), scale, 5)}
    return Settings(models, prompts)


def run(settings: Settings) -> Result:
    prompts = settings.prompts
    outputs = {
        name: [
            model.outputs(run_likelihoods, prompts) | model.outputs(stretch_nats, prompts)
            for model in models
        ]
        for name, models in settings.models.items()
    }
    return summarise(outputs, prompts, settings.models["GPT-2"][0].stand_in)


def run_likelihoods(model: EvaluatedModel, prompts: PromptsOfRuns) -> Arrays:
    """The log-likelihoods per token of all prompts, [prompts] for each length, way and run."""
    arrays: Arrays = {}
    windows = blocks_near(prompts.at, model.seen, prompts.blocks)
    for length in prompts.lengths:
        for way in WAYS:
            found = runs(
                model.model,
                model.tokenizer,
                windows,
                model.trained,
                way=way,
                number=prompts.sequences,
                length=length,
                seed=prompts.seed,
            )
            arrays[f"{length} true"] = found.true
            arrays |= {f"{length} {way} {run}": values for run, values in found.runs.items()}
    return arrays


def stretch_nats(model: EvaluatedModel, prompts: PromptsOfRuns) -> Arrays:
    """The nats of four replaced words, [places] for each kind."""
    found = impossible(
        model.model,
        model.tokenizer,
        blocks_near(prompts.at, model.seen, prompts.blocks),
        model.trained,
        number=prompts.sequences,
        length=prompts.lengths[-1],
        seed=prompts.seed,
    )
    return {f"four {kind}": nats for kind, nats in found.nats.items()}


def summarise(outputs: dict[str, list[Arrays]], prompts: PromptsOfRuns, stand_in: str) -> Result:
    """Statistics over seeds; `outputs` has the arrays of each seed of each model."""
    scored = [
        Scored(
            way,
            length,
            {
                name: runs_over_seeds([_likelihoods(each, way, length).summary() for each in seeds])
                for name, seeds in outputs.items()
            },
        )
        for way in WAYS
        for length in prompts.lengths
    ]
    shown = judged(scored)
    values = {}
    for name, seeds in outputs.items():
        likelihoods = _likelihoods(seeds[0], shown.way, shown.length)
        rows = [likelihoods.true, *likelihoods.runs.values()]
        values[name] = [row.round(4).tolist() for row in rows]
    return Result(
        prompts,
        {name: len(seeds) for name, seeds in outputs.items()},
        stand_in,
        scored,
        values,
        {name: _stretches(seeds, prompts) for name, seeds in outputs.items()},
    )


def _likelihoods(arrays: Arrays, way: str, length: int) -> RunLikelihoods:
    return RunLikelihoods(
        arrays[f"{length} true"], {run: arrays[f"{length} {way} {run}"] for run in RUNS}
    )


def _stretches(seeds: list[Arrays], prompts: PromptsOfRuns) -> StretchesSummary:
    return stretches_over_seeds(
        [
            Stretches(prompts.sequences, {kind: arrays[f"four {kind}"] for kind in KINDS}).summary()
            for arrays in seeds
        ]
    )


def judged(scored: list[Scored]) -> Scored:
    """The prompts that the verdicts are about.

    Of the ways that fit the paper's description, and of all lengths, these show most of its four
    observations; if several show as many, the longest prompts.
    """
    return max(
        (each for each in scored if each.way in FITTING),
        key=lambda each: (sum(held is True for held in each.observed().values()), each.length),
    )


def _short(summary: RunsSummary) -> list[RunSummary]:
    return [each for each in summary.runs if each.run <= LONGEST_RUN]


def _long(summary: RunsSummary) -> list[RunSummary]:
    return [each for each in summary.runs if each.run > LONGEST_RUN]


def _all_above(estimates: list[Estimate], level: float) -> bool | None:
    decided = [decided_above(each, level) for each in estimates]
    return False if False in decided else None if None in decided else True


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 8.2), layout="constrained")
    grid = figure.add_gridspec(2, 5, height_ratios=(3, 2))
    left, right = figure.add_subplot(grid[0, :3]), figure.add_subplot(grid[0, 3:])
    _plot_histograms(left, result)
    for (name, stretches), style in zip(result.impossible.items(), _STYLES, strict=True):
        nats = [stretches.nats[kind] for kind in _KINDS]
        plot_estimates(right, range(len(_KINDS)), nats, label=name, **style)
    right.set_xticks(range(len(_KINDS)), list(_KINDS.values()), fontsize=9)
    right.set_xlim(-0.4, len(_KINDS) - 0.6)
    right.set_ylim(bottom=0)
    right.set_ylabel("cost of four words in nats")
    right.grid(alpha=0.3)
    for axes in (left, right):
        legend_above(axes, 2)
    _plot_observations(figure.add_subplot(grid[1, :]), result)
    return figure


def _plot_histograms(axes: Axes, result: Result) -> None:
    for rows, style in zip(result.values.values(), _STYLES, strict=True):
        low, high = np.quantile(rows[0], [0.025, 0.975])
        axes.axvspan(low, high, color=style["color"], alpha=0.12, lw=0)
    names = ["true text", *(f"runs of {run}" for run in RUNS)]
    ridges(axes, result.values, names, bins=60, styles=_STYLES)
    border = RUNS.index(LONGEST_RUN) + 2
    axes.axhline(border, color="black", lw=1.2)
    beside = axes.get_yaxis_transform()
    for middle, label in (((border + len(names)) / 2, "never occur"), (border / 2, "occur")):
        axes.text(1.01, middle, label, rotation=90, va="center", fontsize=9, transform=beside)
    axes.set_xlabel("log-likelihood in nats per token")


def _plot_observations(axes: Axes, result: Result) -> None:
    """A row for each observation and a column for each way and length."""
    marks = {
        True: ("holds", "o", COLOURS[2]),
        False: ("does not hold", "x", COLOURS[1]),
        None: ("not decided", "$?$", "0.45"),
    }
    lengths = len(result.prompts.lengths)
    columns = [k + k // lengths * 0.7 for k in range(len(result.scored))]
    held = [list(each.observed().values()) for each in result.scored]
    for outcome, (label, marker, colour) in marks.items():
        points = [
            (x, -row)
            for x, outcomes in zip(columns, held, strict=True)
            for row, each in enumerate(outcomes)
            if each is outcome
        ]
        x, y = zip(*points, strict=True) if points else ((), ())
        axes.scatter(x, y, 90, colour, marker=marker, label=label)
    shown = columns[result.scored.index(result.judged)]
    axes.axvspan(shown - 0.45, shown + 0.45, color="0.9", zorder=0)
    axes.set_xticks(columns, [str(each.length) for each in result.scored])
    for k, way in enumerate(WAYS):
        inside = columns[k * lengths : (k + 1) * lengths]
        axes.text(sum(inside) / lengths, 0.62, way, ha="center", va="bottom", fontsize=10)
    axes.set_yticks([-row for row in range(len(OBSERVATIONS))], list(OBSERVATIONS.values()))
    axes.set_ylim(0.6 - len(OBSERVATIONS), 0.6)
    axes.tick_params(length=0)
    axes.set_xlabel("tokens of a prompt")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.1), ncols=3, frameon=False, fontsize=9)


def caption(result: Result) -> str:
    prompts, shown = result.prompts, result.judged
    control = result.impossible["GPT-2"]
    seeds = join(f"{count} of the {name}" for name, count in result.seeds.items())
    return (
        f"Prompts near {format_integer(prompts.at)} (seed {prompts.seed}), {prompts.sequences} of"
        f" each kind. Trained models, with different seeds: {seeds}. Above, left: log-likelihoods"
        f" of true prompts and of prompts with runs of square-free words ({shown.name}; first"
        f" seed). Runs longer than {LONGEST_RUN}, above the black line, never occur. Shaded: the"
        " middle 95 % of the true prompts, for each model. All histograms have the same height."
        " Right, a control: in the middle of the text four words are replaced. The new ones are"
        " square-free (impossible everywhere), or equally frequent and allowed at this place, or"
        " allowed only at other places. Their cost is the negative log-likelihood, averaged over"
        f" {control.left} of {control.asked} places, where such words exist, with intervals of"
        " 95 %. Below: which of the paper's four observations hold, by the way the prompts are"
        " made and by their length. By frequency: all words are drawn with their frequencies. By"
        " residue: words of consecutive integers n are drawn given n modulo 36. Inserted: one run"
        " replaces words in the middle of true text. Grey: the prompts of the verdicts."
    )


def table(result: Result) -> Table:
    header = ["prompts", "tokens", "model", "what", "mean", "unit", "area under the ROC curve"]
    header += ["share in the middle 95 % of true prompts"]
    rows: list[list[str | float]] = []
    for scored in result.scored:
        for name, summary in scored.models.items():
            about: list[str | float] = [scored.way, scored.length, name]
            unit = "log-likelihood, nats per token"
            rows.append([*about, "true prompts", format_estimate(summary.true), unit, "", ""])
            for each in summary.runs:
                area = f"{format_estimate(each.auc)} (true is likelier)"
                mean, within = format_estimate(each.mean), format_estimate(each.within)
                rows.append([*about, f"runs of {each.run}", mean, unit, area, within])
            area = f"{format_estimate(summary.separation)} (the shorter run is likelier; least)"
            rows.append([*about, "runs of 2 and 3 against longer runs", "", "", area, ""])
    for name, stretches in result.impossible.items():
        for kind, nats in stretches.nats.items():
            against = stretches.auc.get(kind)
            area = f"{format_estimate(against)} (likelier than impossible)" if against else ""
            about = ["four words replaced", result.prompts.lengths[-1], name]
            cost = "cost of the four words, nats"
            rows.append([*about, kind, format_estimate(nats), cost, area, ""])
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    shown = result.judged
    gpt, markov = shown.models["GPT-2"], shown.models["HMM"]
    observed = shown.observed()
    least = min((each.auc for each in _long(gpt)), key=lambda area: area.value or 0)
    texts = {
        "long-runs-unlikely": (
            "Prompts with more than three square-free words in a row are much less likely than"
            " true prompts.",
            "very low likelihood",
            f"{_means(_long(gpt))} nats per token, true prompts: {format_estimate(gpt.true)};"
            f" area under the ROC curve at least {format_estimate(least)}",
            f"the intervals of the areas for all these run lengths are above {UNLIKELY}, that is,"
            " nine true prompts of ten are likelier",
        ),
        "short-runs-within": (
            "Prompts with runs of two or three lie within the learned distribution.",
            "they do",
            _within(_short(gpt)),
            "for both run lengths, the interval of this share is above one half",
        ),
        "long-below-short": (
            "The likelihood separates runs of more than three from shorter runs.",
            "consistently and substantially lower for the longer ones",
            f"{_means(gpt.runs)} nats per token; least area under the ROC curve of a shorter"
            f" against a longer run {format_estimate(gpt.separation)}",
            f"the interval of this area is above {UNLIKELY}",
        ),
        "hmm-long-runs-within": (
            "The HMM places prompts with more than three square-free words in a row inside the"
            " bulk of the true prompts.",
            "it does",
            _within(_long(markov)),
            "for all run lengths, the interval of this share is above one half",
        ),
    }
    extra = {
        "long-below-short": _cost(result.impossible["GPT-2"]),
        "hmm-long-runs-within": " The HMM is read as it was trained, from one token.",
    }
    return if_papers_model(
        [
            Verdict(
                key=key,
                claim=claim,
                paper=paper,
                ours=f"{shown.name}: {ours}",
                criterion=criterion,
                agrees=observed[key],
                why=_where(result, key) + extra.get(key, ""),
            )
            for key, (claim, paper, ours, criterion) in texts.items()
        ],
        result.stand_in,
    )


def _where(result: Result, key: str) -> str:
    """Which prompts the verdict is about and why, and which others show the observation."""
    shown = result.judged
    number = sum(held is True for held in shown.observed().values())
    others = [
        f"{way} ({join(str(each.length) for each in holding)} tokens)"
        for way in WAYS
        if (
            holding := [
                each
                for each in result.scored
                if each.way == way and each.observed()[key] and each is not shown
            ]
        )
    ]
    undecided = "" if shown.observed()[key] is not None else " The interval does not decide."
    return (
        "The paper does not say how it makes these prompts. Two of our three ways fit its"
        f" description; of their prompts, these show most of its four observations: {number}."
        f"{undecided} Other prompts that show this one: {join(others) if others else 'none'}."
    )


def _means(prompts: list[RunSummary]) -> str:
    return ", ".join(f"runs of {each.run}: {format_estimate(each.mean)}" for each in prompts)


def _within(prompts: list[RunSummary]) -> str:
    shares = ", ".join(f"{format_percents(each.within)} of runs of {each.run}" for each in prompts)
    areas = "; ".join(format_estimate(each.auc) for each in prompts)
    return f"{shares} lie in the middle 95 % of the true prompts; areas under the ROC curve {areas}"


def _cost(control: StretchesSummary) -> str:
    if not control.left:
        return ""
    allowed, misplaced, impossible_words = (
        f"{control.nats[kind].value:.1f}" for kind in ("here", "elsewhere", "impossible")
    )
    return (
        " If four words of the text are replaced by others, all equally frequent, words allowed"
        f" here cost {allowed}, words allowed elsewhere {misplaced} and impossible words"
        f" {impossible_words} nats. In {format_estimate(control.paired['elsewhere'])} of the pairs"
        " the impossible words are less likely than the words allowed elsewhere."
    )
