"""Prompts with runs of square-free words, made in three ways."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import Estimate, all_decided_above, all_of, decided_above
from ...evaluation.separation import SHORT_RUNS, RunsSummary, RunSummary, runs_over_seeds
from ...evaluation.square_free import LONGEST_RUN, RUNS, WAYS, RunLikelihoods, Way, runs
from ...evaluation.subjects import EvaluatedModel
from ...models.hmm import HMM
from ...text.splits import blocks_near
from ..figures import COLOURS, LINES, legend_above, ridges, styles
from ..outputs import Arrays
from ..runs import TESTS_FAR, TrainedModel, hmm, ntp, several_seeds
from ..study import Table, Verdict, if_papers_model
from ..wording import (
    format_estimate,
    format_integer,
    format_percent,
    format_percents,
    join,
    seeds_in_words,
    sentences,
    undecided,
)

TITLE = "Four square-free words in a row"
ORDER = 145
COST = {"laptop": 15, "gpu": 150}

FILTER = "HMM as a filter"  # predicts from all tokens, though it was trained to predict from one

# The verdicts are about these prompts, of the greatest length, whatever the outcome: the paper's
# "consist exclusively of" such sequences.
PRIMARY: Way = "by residue"
# The ways that fit the paper's description, by which runs of two and three must be possible.
FITTING: tuple[Way, ...] = ("by residue", "inserted")
# Share of prompts that are likely, or in the bulk, where true prompts have 0.975 and 0.95; unlikely
# runs: below 0.2.
IN_BULK = 0.8
SEPARATE = 0.9  # area under the ROC curve for "consistently lower": 9 pairs of 10

# The styles of the GPT-2 and of the HMM, whose line is dash-dotted as in the paper.
_STYLES = (styles()[0], styles()[1] | {"ls": LINES[2]})


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

    way: str  # one of `WAYS`
    length: int
    models: dict[str, RunsSummary]

    def short(self, model: str) -> list[RunSummary]:
        """Runs that occur; see `SHORT_RUNS`."""
        return [each for each in self.models[model].runs if each.run in SHORT_RUNS[self.way]]

    def long(self, model: str) -> list[RunSummary]:
        """Runs that never occur."""
        return [each for each in self.models[model].runs if each.run > LONGEST_RUN]


@dataclass(frozen=True)
class Result:
    prompts: PromptsOfRuns
    seeds: dict[str, int]  # number of trained models
    stand_in: dict[str, str]  # why a model is not the paper's; empty if it is
    scored: list[Scored]  # for each way, for each length
    # Log-likelihoods per token of the primary prompts for the first seed, by model: true prompts,
    # then runs of 2, 3, …
    values: dict[str, list[list[float]]]

    @property
    def primary(self) -> Scored:
        [found] = [
            each
            for each in self.scored
            if (each.way, each.length) == (PRIMARY, self.prompts.lengths[-1])
        ]
        return found


def settings(scale: str) -> Settings:
    lengths = (16, 64, 256) if scale == "laptop" else (16, 64, 256, 1024)
    prompts = PromptsOfRuns(
        TESTS_FAR[0], lengths, sequences=30 if scale == "laptop" else 512, blocks=10, seed=0
    )
    models = {"GPT-2": several_seeds(ntp(scale), scale), "HMM": several_seeds(hmm(scale), scale, 5)}
    return Settings(models, prompts)


def run(settings: Settings) -> Result:
    prompts, models = settings.prompts, settings.models
    outputs = {
        name: [model.outputs(run_likelihoods, prompts) for model in seeds]
        for name, seeds in models.items()
    }
    outputs[FILTER] = [model.outputs(filtered_run_likelihoods, prompts) for model in models["HMM"]]
    return summarise(outputs, prompts, {name: seeds[0].stand_in for name, seeds in models.items()})


def run_likelihoods(model: EvaluatedModel, prompts: PromptsOfRuns) -> Arrays:
    """The log-likelihoods per token of all prompts, [prompts] for each length, way and run."""
    arrays: Arrays = {}
    for each in runs(
        model.model,
        model.tokenizer,
        blocks_near(prompts.at, model.seen, prompts.blocks),
        model.trained,
        ways=WAYS,
        number=prompts.sequences,
        lengths=prompts.lengths,
        seed=prompts.seed,
    ):
        arrays[f"{each.length} true"] = each.true
        arrays |= {f"{each.length} {each.way} {count}": row for count, row in each.runs.items()}
    return arrays


def filtered_run_likelihoods(model: EvaluatedModel, prompts: PromptsOfRuns) -> Arrays:
    """The same for an HMM that filters whole prompts, however it was trained."""
    whole = cast(HMM, model.model).conditioned_on("sequence")
    return run_likelihoods(replace(model, model=whole), prompts)


def summarise(
    outputs: dict[str, list[Arrays]], prompts: PromptsOfRuns, stand_in: dict[str, str]
) -> Result:
    """Statistics over seeds; `outputs` has the arrays of each seed of each model."""
    scored = [
        Scored(
            way,
            length,
            {
                name: runs_over_seeds([_likelihoods(each, way, length) for each in seeds])
                for name, seeds in outputs.items()
            },
        )
        for way in WAYS
        for length in prompts.lengths
    ]
    values = {}
    for name in ("GPT-2", "HMM"):
        shown = _likelihoods(outputs[name][0], PRIMARY, prompts.lengths[-1])
        values[name] = [row.round(4).tolist() for row in (shown.true, *shown.runs.values())]
    seeds = {name: len(arrays) for name, arrays in outputs.items()}
    return Result(prompts, seeds, stand_in, scored, values)


def _likelihoods(arrays: Arrays, way: Way, length: int) -> RunLikelihoods:
    made = {run: arrays[f"{length} {way} {run}"] for run in RUNS}
    return RunLikelihoods(way, length, arrays[f"{length} true"], made)


# The paper's four observations


class Observation(NamedTuple):
    label: str  # in the figure
    claim: str
    paper: str
    criterion: str
    holds: Callable[[Scored], bool | None]  # None: not decided
    found: Callable[[Scored], str]
    models: tuple[str, ...] = ("GPT-2",)
    why: Callable[[Scored], str] = lambda scored: ""
    holds_for_filter: Callable[[Scored], bool | None] | None = None  # if the HMM filters


def _unlikely(scored: Scored) -> bool | None:
    shares = [_complement(each.above_low) for each in scored.long("GPT-2")]
    return all_decided_above(shares, IN_BULK)


def _short_likely(scored: Scored) -> bool | None:
    return all_decided_above([each.above_low for each in scored.short("GPT-2")], IN_BULK)


def _separate(scored: Scored) -> bool | None:
    return decided_above(scored.models["GPT-2"].separation, SEPARATE)


def _hmm_in_bulk(scored: Scored) -> bool | None:
    return all_decided_above([each.in_bulk for each in scored.long("HMM")], IN_BULK)


def _filter_in_bulk(scored: Scored) -> bool | None:
    return all_decided_above([each.in_bulk for each in scored.long(FILTER)], IN_BULK)


_LIKELY = "likelier than the least likely 2.5 % of the true prompts"
_INSIDE = "between the 2.5 % and the 97.5 % quantile of the true prompts"

OBSERVATIONS = {
    "long-runs-unlikely": Observation(
        "longer runs\nunlikely",
        "Prompts with more than three square-free words in a row are much less likely than true"
        " prompts.",
        "very low likelihood",
        f"for all these run lengths, the interval of the share that is {_LIKELY} is below"
        f" {1 - IN_BULK:.1f} (true prompts: 0.975)",
        _unlikely,
        lambda scored: _likely(scored.long("GPT-2")),
    ),
    "short-runs-within": Observation(
        "runs of 2 and 3\nlikely",
        "Prompts with runs of two or three lie within the learned distribution.",
        "comparatively high likelihood, within the learned distribution",
        f"the interval of the share that is {_LIKELY} is above {IN_BULK} (true prompts: 0.975), for"
        " both run lengths; by residue for runs of three, since those of two are improbable by"
        " construction",
        _short_likely,
        lambda scored: _likely(scored.short("GPT-2")),
        why=lambda scored: f"{_in_bulk(scored.short('GPT-2'))}.",
    ),
    "long-below-short": Observation(
        "longer runs\nbelow 2 and 3",
        "The likelihood separates runs of more than three from shorter runs.",
        "consistently and substantially lower for the longer ones",
        "the interval of the ROC area of runs of three against each longer run is above"
        f" {SEPARATE} (by residue; otherwise also runs of two): the shorter run is likelier in nine"
        " pairs of ten",
        _separate,
        lambda scored: (
            "smallest area under the ROC curve of a shorter against a longer run"
            f" {format_estimate(scored.models['GPT-2'].separation)}"
        ),
    ),
    "hmm-long-runs-within": Observation(
        "HMM: longer runs\nin the bulk",
        "The HMM places prompts with more than three square-free words in a row inside the bulk of"
        " the true prompts.",
        "it does",
        f"for all these run lengths, the interval of the share {_INSIDE} is above {IN_BULK} (true"
        " prompts: 0.95)",
        _hmm_in_bulk,
        lambda scored: f"{_in_bulk(scored.long('HMM'))}; {FILTER}: {_in_bulk(scored.long(FILTER))}",
        models=("HMM",),
        holds_for_filter=_filter_in_bulk,
    ),
}


def _any(outcomes: Iterable[bool | None]) -> bool | None:
    """True if one is, False if all are False, otherwise None."""
    found = list(outcomes)
    return True if True in found else None if None in found else False


def _all_somewhere(
    every: list[Callable[[Scored], bool | None]], scored: list[Scored]
) -> bool | None:
    """Whether all of these hold for prompts made in one way and of one length."""
    return _any(all_of(holds(each) for holds in every) for each in scored)


def _complement(share: Estimate) -> Estimate:
    value, low, high = (None if each is None else 1 - each for each in share)
    return Estimate(value, high, low)


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 7.8), layout="constrained")
    above, below = figure.subplots(2, 1, height_ratios=(3, 2))
    _plot_histograms(above, result)
    legend_above(above, 2)
    _plot_observations(below, result)
    return figure


def _plot_histograms(axes: Axes, result: Result) -> None:
    names = ["true text", *(f"runs of {run}" for run in RUNS)]
    ridges(axes, result.values, names, bins=60, styles=_STYLES)
    for rows, style in zip(result.values.values(), _STYLES, strict=True):
        axes.axvline(float(np.quantile(rows[0], 0.025)), color=style["color"], ls=":", lw=1.2)
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
    rows = {observation.label: observation.holds for observation in OBSERVATIONS.values()}
    rows["HMM as a filter:\nthe same"] = _filter_in_bulk
    lengths = len(result.prompts.lengths)
    columns = [k + k // lengths * 0.7 for k in range(len(result.scored))]
    for outcome, (label, marker, colour) in marks.items():
        points = [
            (x, -row)
            for x, scored in zip(columns, result.scored, strict=True)
            for row, holds in enumerate(rows.values())
            if holds(scored) is outcome
        ]
        x, y = zip(*points, strict=True) if points else ((), ())
        axes.scatter(x, y, 90, colour, marker=marker, label=label)
    axes.set_xticks(columns, [str(each.length) for each in result.scored])
    for k, way in enumerate(WAYS):
        inside = columns[k * lengths : (k + 1) * lengths]
        axes.text(sum(inside) / lengths, 0.62, way, ha="center", va="bottom", fontsize=10)
    axes.set_yticks([-row for row in range(len(rows))], list(rows))
    axes.set_ylim(0.6 - len(rows), 0.6)
    axes.tick_params(length=0)
    axes.set_xlabel("tokens of a prompt")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.1), ncols=3, frameon=False, fontsize=9)


def in_short(result: Result) -> str:
    short, long = result.primary.short("GPT-2")[-1], result.primary.long("GPT-2")[0]
    theirs = result.primary.long("HMM")[0]
    return (
        f"To the GPT-2, {format_percents(long.above_low)} of prompts with {long.run} square-free"
        " words in a row, which never occur, are as likely as true prompts, and"
        f" {format_percents(short.above_low)} of prompts with {short.run}, which do occur. To the"
        f" HMM, {format_percents(theirs.in_bulk)} of the prompts with {theirs.run} lie in the bulk"
        " of the true prompts."
    )


def caption(result: Result) -> str:
    prompts = result.prompts
    seeds = seeds_in_words({name: n for name, n in result.seeds.items() if name != FILTER})
    spread = ", widened by the spread over seeds" if max(result.seeds.values()) > 1 else ""
    return (
        f"Prompts near {format_integer(prompts.at)} (seed {prompts.seed}), {prompts.sequences} of"
        f" each kind. Trained models, one per seed: {seeds}. Above: log-likelihoods of true"
        f" prompts and of prompts with runs of square-free words ({PRIMARY},"
        f" {prompts.lengths[-1]} tokens; first seed). Runs longer than {LONGEST_RUN}, above the"
        " black line, never occur. Dotted, one line per model: 97.5 % of its true prompts lie to"
        " the right. All histograms have the same height. Below: which of the paper's four"
        " observations hold, by the way the prompts are made and by their length, decided on"
        " intervals of 95 %"
        f"{spread}. By frequency: all words are drawn with their frequencies. By residue: words of"
        " consecutive integers n are drawn given n modulo 36. Runs of two are then improbable by"
        " construction, and only runs of three count as short. Inserted: one run replaces words in"
        " the middle of true text. The HMM predicts from one token, as it was trained; in the last"
        " row from the whole prompt, as a filter. The paper does not say which."
    )


def table(result: Result) -> Table:
    header = ["prompts", "tokens", "model", "compared", "log-likelihood, nats per token"]
    header += ["area under the ROC curve", "share above the 2.5 % quantile of the true prompts"]
    header += ["share between the 2.5 % and the 97.5 % quantile"]
    rows: list[list[str | float]] = []
    for scored in result.scored:
        for name, summary in scored.models.items():
            about: list[str | float] = [scored.way, scored.length, name]
            rows.append([*about, "true prompts", format_estimate(summary.true), "", "", ""])
            for each in summary.runs:
                area = f"{format_estimate(each.auc)} (true is likelier)"
                shares = [format_estimate(share) for share in (each.above_low, each.in_bulk)]
                name_of_run, mean = f"runs of {each.run}", format_estimate(each.mean)
                rows.append([*about, name_of_run, mean, area, *shares])
            area = f"{format_estimate(summary.separation)} (smallest area, shorter run likelier)"
            shorter = join(str(run) for run in SHORT_RUNS[scored.way])
            rows.append([*about, f"runs of {shorter} against longer runs", "", area, "", ""])
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    verdicts = [
        (_verdict(result, key, observation), observation.models)
        for key, observation in OBSERVATIONS.items()
    ]
    return [
        each
        for verdict, models in [*verdicts, (_all_four(result), tuple(result.stand_in))]
        for each in if_papers_model([verdict], sentences(*(result.stand_in[m] for m in models)))
    ]


def _verdict(result: Result, key: str, observation: Observation) -> Verdict:
    primary = result.primary
    held = observation.holds(primary)
    readings = [observation.holds, *filter(None, [observation.holds_for_filter])]
    fitting = [each for each in result.scored if each.way in FITTING]
    elsewhere = _any(holds(each) for holds in readings for each in fitting)
    where = [_places([each for each in result.scored if holds(each)]) for holds in readings]
    agrees = held or (None if elsewhere else elsewhere)
    why = f"It holds for: {'. For the HMM as a filter: '.join(where)}."
    if held is False and elsewhere:
        what = join(["how the prompts are made", "how the HMM is read"][: len(readings)])
        why = f"It depends on {what}, which the paper does not say. {why}"
    elif not held:
        why = sentences(undecided(agrees, "intervals contain the bound"), why)
    return Verdict(
        key=key,
        claim=observation.claim,
        paper=observation.paper,
        ours=f"{primary.way}, {primary.length} tokens: {observation.found(primary)}",
        criterion=f"{observation.criterion}. The way and length were fixed in advance. Differs if"
        f" it holds for no length, neither {' nor '.join(FITTING)}"
        + ", however the HMM is read"
        * (len(readings) > 1),
        agrees=agrees,
        why=sentences(why, observation.why(primary)),
    )


def _all_four(result: Result) -> Verdict:
    every = [o.holds for o in OBSERVATIONS.values()]
    counts = [sum(holds(each) is True for holds in every) for each in result.scored]
    most = [each for each, count in zip(result.scored, counts, strict=True) if count == max(counts)]
    together = _all_somewhere(every, result.scored)
    filtering = [o.holds_for_filter or o.holds for o in OBSERVATIONS.values()]
    if_filter = _all_somewhere(filtering, result.scored)
    agrees = together or (False if together is if_filter is False else None)
    held = "all four hold" if max(counts) == 4 else f"at most {max(counts)} hold together,"
    why = undecided(agrees, "intervals contain the bound")
    if if_filter and not together:
        shown = [each for each in result.scored if all(holds(each) for holds in filtering)]
        why = (
            "It depends on how the HMM is read, which the paper does not say: if it filters whole"
            f" prompts, all four hold for prompts {_places(shown)}."
        )
    return Verdict(
        key="same-prompts",
        claim="The four observations hold for the same prompts.",
        paper="one figure shows all four",
        ours=f"{held} for prompts {_places(most)}",
        criterion="prompts of some length, made in one of our three ways, show all four. Differs if"
        " none do, however the HMM is read",
        agrees=agrees,
        why=sentences(why, "The paper may have made its prompts in a way that we did not try."),
    )


def _places(scored: list[Scored]) -> str:
    """The ways and lengths of prompts in words."""
    by_way: dict[str, list[str]] = {}
    for each in scored:
        by_way.setdefault(each.way, []).append(str(each.length))
    parts = [f"{way} ({join(lengths)} tokens)" for way, lengths in by_way.items()]
    return join(parts) if parts else "no prompts"


def _likely(prompts: list[RunSummary]) -> str:
    areas = "; ".join(format_estimate(each.auc) for each in prompts)
    return (
        f"{_shares(prompts, [each.above_low for each in prompts])} are {_LIKELY}; area under the"
        f" ROC curve of true prompts against them {areas}"
    )


def _in_bulk(prompts: list[RunSummary]) -> str:
    text = f"{_shares(prompts, [each.in_bulk for each in prompts])} lie {_INSIDE}"
    above = {each.run: _share_above(each) for each in prompts}
    higher = [
        f"{format_percent(share)} of runs of {run}"
        for run, share in above.items()
        if share > 1 - IN_BULK
    ]
    return f"{text}; {join(higher)} are likelier than almost all true prompts" if higher else text


def _share_above(runs: RunSummary) -> float:
    """The share that is likelier than 97.5 % of the true prompts."""
    return (runs.above_low.value or 0) - (runs.in_bulk.value or 0)


def _shares(prompts: list[RunSummary], shares: list[Estimate]) -> str:
    return ", ".join(
        f"{format_percents(share)} of runs of {each.run}"
        for each, share in zip(prompts, shares, strict=True)
    )
