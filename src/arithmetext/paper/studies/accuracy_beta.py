"""Word accuracy and divergence against the inverse temperature, for the GPT-2 and the HMM.

The paper averages KL^w over prompts, so the verdicts do too. The frequencies of all prompts
together ("pooled") are shown beside it: in a prompt of some fifty words, most of KL^w is noise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import (
    Estimate,
    decided_above,
    intervals_overlap,
    over_seeds_and_blocks,
    overlaps,
    within,
)
from ...evaluation.evaluate import BETAS
from ...evaluation.generation import Continuations
from ...evaluation.scoring import score
from ...evaluation.subjects import EvaluatedModel
from ...evaluation.temperatures import (
    BestRange,
    BetaMeasures,
    Resampled,
    best_range,
    beta_measures,
    estimate,
    loss,
    resampled_measures,
)
from ...models.hmm import HMM
from ..figures import COLOURS, LINES, MARKERS, beta_axis, beta_position, plot_estimates
from ..outputs import Arrays
from ..runs import (
    Comparison,
    PromptSettings,
    TrainedModel,
    comparison,
    draw_prompts,
)
from ..study import Table, Verdict, if_papers_model
from ..wording import (
    UNDECIDED,
    format_beta,
    format_estimate,
    format_integer,
    format_percent,
    format_percents,
    join,
)

TITLE = "Accuracy and divergence against β"
ORDER = 120
COST = {"laptop": 40, "gpu": 240}

PAPER_BEST = {"accuracy": (3.3, 10.0), "kl_paper": (1.4, 3.3)}  # the paper's best β
POOLED = {"kl_paper": "kl_pooled", "jensen_shannon": "jensen_shannon_pooled"}
DIVERGENCES = ("kl_paper", "kl_pooled", "jensen_shannon", "jensen_shannon_pooled")
HIGH = 1.4  # the paper's "higher β": from its best KL^w on
MOST_MALFORMED = 0.0025  # the paper's upper bound for the share of malformed words
LABELLED = (0.1, 0.2, 0.5, 1.0, 2.0, 3.3, 5.0, 10.0)  # β with a label at the axis
LAST_TOKEN, ALL_TOKENS = "the last token", "all tokens"  # what the HMM predicts from

Curve = Mapping[float, Mapping[str, Resampled]]  # by β and measure


@dataclass(frozen=True)
class Settings(Comparison):
    betas: tuple[float, ...]  # in increasing order
    generated: int  # tokens


@dataclass(frozen=True)
class Place:
    """Which prompts."""

    at: int
    how: PromptSettings


@dataclass(frozen=True)
class HMMReading:
    """The HMM in one of its two readings, over all seeds."""

    nats: Estimate  # per token of the prompts
    accuracy: Estimate  # at β = 1
    kl_paper: Estimate  # at β = 1


@dataclass(frozen=True)
class Result:
    at: int
    generated: int
    generation: PromptSettings
    seeds: dict[str, int]  # by model
    stand_in: str  # why the GPT-2 is not the paper's; empty if it is
    curves: dict[str, list[BetaMeasures]]  # by model
    best: dict[str, BestRange]  # of the GPT-2, by measure
    # How much worse the GPT-2 is at each β than at β = 1, by measure; paired differences.
    worse_than_one: dict[str, list[Estimate]]
    fewer_malformed: list[Estimate]  # share at the lowest β minus the share at each β, paired
    readings: dict[str, HMMReading]
    accuracy_ratio: float  # the GPT-2's best accuracy divided by the HMM's

    def row(self, model: str, beta: float) -> BetaMeasures:
        return next(row for row in self.curves[model] if row.beta == beta)

    def most_accurate(self, model: str) -> BetaMeasures:
        return max(self.curves[model], key=lambda row: row.accuracy.value or 0)


def settings(scale: str) -> Settings:
    shared = comparison(scale)
    prompts = shared.generation.prompts if scale == "laptop" else 1024
    generation = replace(shared.generation, prompts=prompts)
    return Settings(shared.models, shared.at, generation, betas=(*BETAS, inf), generated=32)


def run(settings: Settings) -> Result:
    curves = {name: _curve(settings, models) for name, models in settings.models.items()}
    return summarise(settings, curves, _readings(settings, curves["HMM"]))


def _curve(settings: Settings, models: Sequence[TrainedModel]) -> Curve:
    at, how, count = settings.at, settings.generation, settings.generated
    made: dict[float, list[Continuations]] = {beta: [] for beta in settings.betas}
    for model in models:  # one after the other, so that each is loaded once
        for beta in settings.betas:
            made[beta].append(model.continuations(at, how, beta=beta, tokens=count)[1])
    return {beta: resampled_measures(by_seed) for beta, by_seed in made.items()}


def _readings(settings: Settings, curve: Curve) -> dict[str, HMMReading]:
    """Both readings of the HMM; `curve` has the reading from the last token."""
    at, how, models = settings.at, settings.generation, settings.models["HMM"]
    filtered = [
        model.continuations(at, how, beta=1.0, tokens=settings.generated, filtered=True)[1]
        for model in models
    ]
    measures = {LAST_TOKEN: curve[1.0], ALL_TOKENS: resampled_measures(filtered)}
    nats = [model.outputs(nats_in_both_readings, Place(at, how)) for model in models]
    return {
        name: HMMReading(
            over_seeds_and_blocks([each[name] for each in nats], how.blocks),
            estimate(measures[name]["accuracy"]),
            estimate(measures[name]["kl_paper"]),
        )
        for name in measures
    }


def nats_in_both_readings(model: EvaluatedModel, place: Place) -> Arrays:
    """Nats per token of each prompt, by what the HMM predicts from: [prompts] each."""
    hmm = cast(HMM, model.model)
    ids = draw_prompts(model.tokenizer, model.seen, place.at, place.how).ids
    views = {LAST_TOKEN: hmm.conditioned_on("token"), ALL_TOKENS: hmm.conditioned_on("sequence")}
    return {name: -score(view, ids).logs.mean(1) for name, view in views.items()}


def summarise(
    settings: Settings, curves: Mapping[str, Curve], readings: dict[str, HMMReading]
) -> Result:
    rows = {
        name: [beta_measures(beta, measures) for beta, measures in curve.items()]
        for name, curve in curves.items()
    }
    gpt = curves["GPT-2"]
    losses = {
        measure: {beta: loss(measure, gpt[beta][measure]) for beta in gpt}
        for measure in ("accuracy", *DIVERGENCES)
    }
    ranges = {"accuracy": PAPER_BEST["accuracy"]} | dict.fromkeys(
        DIVERGENCES, PAPER_BEST["kl_paper"]
    )
    lowest = next(iter(gpt.values()))["malformed"]
    highest = {name: max(row.accuracy.value or 0 for row in each) for name, each in rows.items()}
    return Result(
        settings.at,
        settings.generated,
        settings.generation,
        {name: len(models) for name, models in settings.models.items()},
        settings.stand_in,
        rows,
        best={measure: best_range(losses[measure], *span) for measure, span in ranges.items()},
        worse_than_one={
            measure: [estimate(values - by_beta[1.0]) for values in by_beta.values()]
            for measure, by_beta in losses.items()
        },
        fewer_malformed=[estimate(lowest - measures["malformed"]) for measures in gpt.values()],
        readings=readings,
        accuracy_ratio=highest["GPT-2"] / max(highest["HMM"], 1e-9),
    )


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 7.6), layout="constrained")
    panels = figure.subplots(2, 2).flat
    for axes, (measure, label) in zip(
        panels,
        {
            "accuracy": "share of words that are right",
            "kl_paper": "$\\mathrm{KL}^w$ in nats, mean over prompts",
            "kl_pooled": "$\\mathrm{KL}^w$ in nats, all prompts together",
        }.items(),
        strict=False,
    ):
        axes.axvspan(*_claimed(measure), color="0.9", label="best in the paper")
        _plot_measure(axes, result, measure)
        axes.set(ylim=_limits(result, measure), ylabel=label)
    _plot_differences(figure.axes[3], result)
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return figure


def _limits(result: Result, measure: str) -> tuple[float, float]:
    """Without the HMM at β = ∞, which repeats a few words and would flatten the other curves."""
    shown = [
        row.estimate(measure)
        for name, rows in result.curves.items()
        for row in rows
        if name != "HMM" or row.beta < inf
    ]
    low, high = min(e.low or 0 for e in shown), max(e.high or 0 for e in shown)
    return min(0, low - 0.05 * (high - low)), high + 0.05 * (high - low)


def _claimed(measure: str) -> tuple[float, float]:
    return PAPER_BEST["accuracy" if measure == "accuracy" else "kl_paper"]


def _plot_measure(axes: Axes, result: Result, measure: str) -> None:
    """One curve for each model; the HMM's is slightly to the right, and β = ∞ is not connected."""
    curves = zip(result.curves.items(), COLOURS, (LINES[0], LINES[3]), MARKERS, strict=False)
    for (name, rows), colour, line, marker in curves:
        betas = [row.beta for row in rows]
        style = {"color": colour, "ls": line, "marker": marker, "lw": 1.3, "ms": 4}
        for infinite in (False, True):
            part = [row for row in rows if (row.beta == inf) == infinite]
            x = [beta_position(row.beta, betas) * (1.05 if name == "HMM" else 1) for row in part]
            estimates = [row.estimate(measure) for row in part]
            plot_estimates(axes, x, estimates, label=None if infinite else name, **style)
    beta_axis(axes, betas, LABELLED)


def _plot_differences(axes: Axes, result: Result) -> None:
    """How much worse the GPT-2's KL^w is than at β = 1, per prompt and pooled."""
    betas = [row.beta for row in result.curves["GPT-2"]]
    shown = {"kl_paper": "mean over prompts", "kl_pooled": "all prompts together"}
    axes.axhline(0, color="0.5", lw=0.8)
    for (measure, label), colour, marker in zip(
        shown.items(), COLOURS[2:], MARKERS[2:], strict=False
    ):
        style = {"color": colour, "marker": marker, "ls": "none", "lw": 1.3, "ms": 4}
        shift = 0.97 if measure == "kl_paper" else 1.03
        x = [beta_position(beta, betas) * shift for beta in betas]
        plot_estimates(axes, x, result.worse_than_one[measure], label=label, **style)
    axes.set_ylabel("GPT-2: $\\mathrm{KL}^w$ minus that at β = 1")
    axes.legend(fontsize=8)
    beta_axis(axes, betas, LABELLED)


def caption(result: Result) -> str:
    how = result.generation
    last = {name: rows[-1] for name, rows in result.curves.items()}
    left_out = [f"{_left_out(row)} of the true words for the {name}" for name, row in last.items()]
    seeds = join(f"{count} of the {name}" for name, count in result.seeds.items())
    nats = {name: format_estimate(reading.nats) for name, reading in result.readings.items()}
    return (
        "Top left: share of words that are right. Top right and bottom left: the paper's KL^w, a"
        " divergence of the word frequencies from the true frequencies, of each prompt and of all"
        f" prompts together. {how.prompts:,} prompts of {how.tokens} tokens near"
        f" {format_integer(result.at)} are continued by {result.generated} tokens at each inverse"
        f" temperature β. Seeds: {seeds}. Bars are 95 % intervals (bootstrap over prompts, widened"
        " by the spread over seeds). Bottom right: paired differences, with the same prompts in"
        " each resample at every β. Grey marks the β that are best in the paper. KL^w sums only"
        " over words that were generated, so a low value may mean that much is left out: at β ="
        f" {format_beta(last['GPT-2'].beta)}, {join(left_out)}. The HMM predicts from the last"
        f" token, as it was trained; true prompts then cost {nats[LAST_TOKEN]} nats a token, and"
        f" {nats[ALL_TOKENS]} if it filters whole prompts. At β = ∞ it repeats a few words and may"
        " lie outside a panel."
    )


def _left_out(row: BetaMeasures) -> str:
    return format_percent(row.kl_left_out.value or 0)


def table(result: Result) -> Table:
    columns = {
        "accuracy": "accuracy",
        "kl_paper": "KL^w of the paper (nats)",
        "kl_left_out": "true words it leaves out",
        "kl_pooled": "KL^w, prompts pooled",
        "kl_pooled_left_out": "true words it leaves out, pooled",
        "jensen_shannon": "Jensen–Shannon (nats)",
        "jensen_shannon_pooled": "Jensen–Shannon, pooled",
        "malformed": "malformed words",
    }
    rows = [
        [
            name,
            format_beta(row.beta),
            *(format_estimate(row.estimate(measure), 4) for measure in columns),
            *(
                format_estimate(result.worse_than_one[measure][i], 4) if name == "GPT-2" else ""
                for measure in ("accuracy", "kl_paper", "kl_pooled")
            ),
        ]
        for name, rows in result.curves.items()
        for i, row in enumerate(rows)
    ]
    worse = ("accuracy", "KL^w", "KL^w, pooled")
    return ["model", "β", *columns.values(), *(f"{m}: worse than at β = 1" for m in worse)], rows


def verdicts(result: Result) -> list[Verdict]:
    found = [
        _best_range(result, "accuracy", "Word accuracy", "best-accuracy"),
        _best_range(result, "kl_paper", "KL^w", "best-kl"),
        _worse_below_1(result, "accuracy", "Word accuracy", "accuracy-worse-below-1"),
        _worse_below_1(result, "kl_paper", "KL^w", "kl-worse-below-1"),
        *_malformed(result),
        *_against_hmm(result),
    ]
    return if_papers_model(found, result.stand_in)


def _best_range(result: Result, measure: str, name: str, key: str) -> Verdict:
    least, greatest = PAPER_BEST[measure]
    found = result.best[measure]
    best = result.row("GPT-2", found.best)
    outside = [r.beta for r in result.curves["GPT-2"] if not least <= r.beta <= greatest]
    why = (
        "Differences are paired: the same prompts at every β. A range of best values must not be"
        " beaten from outside, and must stand out from most of the other β."
    )
    if measure in POOLED:
        pooled, shannon = result.best[POOLED[measure]], result.best["jensen_shannon"]
        why += (
            f" From pooled frequencies the best β is {format_beta(pooled.best)}, and"
            f" {_betas(pooled.better_outside)} beat the range. KL^w leaves out"
            f" {_left_out(best)} of the true words at β = {format_beta(best.beta)}; the"
            " Jensen–Shannon divergence leaves out nothing and is least at β ="
            f" {format_beta(shannon.best)}."
        )
    return Verdict(
        key=key,
        claim=f"{name} is best for {least:g} ≤ β ≤ {greatest:g}.",
        paper=f"{least:g} to {greatest:g}",
        ours=f"best at β = {format_beta(best.beta)}, {format_estimate(best.estimate(measure))};"
        f" not worse: β = {_betas(found.as_good)}. Of the {len(outside)} β outside the range,"
        f" {len(found.worse_outside)} are worse than all in it; better than the best in it:"
        f" {_betas(found.better_outside)}",
        criterion="no β outside the range is better than the best β in it, and at least half of"
        " them are worse than every β in it; better and worse mean that the interval of the paired"
        " difference does not reach 0",
        agrees=not found.better_outside and 2 * len(found.worse_outside) >= len(outside),
        why=why,
    )


def _betas(betas: Sequence[float]) -> str:
    return join(map(format_beta, betas)) if betas else "none"


def _worse_below_1(result: Result, measure: str, name: str, key: str) -> Verdict:
    betas = [row.beta for row in result.curves["GPT-2"]]
    below = [i for i, beta in enumerate(betas) if beta < 1]

    def differences(measure: str) -> str:
        worse = result.worse_than_one[measure]
        return ", ".join(f"{format_estimate(worse[i])} at β = {betas[i]:g}" for i in below)

    agrees = _all_above_0([result.worse_than_one[measure][i] for i in below])
    why = "Paired differences: the same prompts at both β."
    if agrees is None:
        why += f" {UNDECIDED}"
    if measure in POOLED:
        why += f" From pooled frequencies: {differences(POOLED[measure])}."
    return Verdict(
        key=key,
        claim=f"{name} gets worse when β < 1.",
        paper="it does",
        ours=f"worse than at β = 1 by {differences(measure)}",
        criterion=f"the interval of the difference is above 0 for all {len(below)} β below 1;"
        " differs if it is below 0 for one of them",
        agrees=agrees,
        why=why,
    )


def _all_above_0(estimates: Sequence[Estimate]) -> bool | None:
    """True if all intervals are above 0, False if one is below, None if that is not decided."""
    found = [decided_above(each, 0) for each in estimates]
    return False if False in found else None if None in found else True


def _below(estimate: Estimate, bound: float) -> Estimate:
    """How far an estimate is below a bound."""
    value, low, high = (bound - (part or 0) for part in estimate)
    return Estimate(value, high, low)


def _malformed(result: Result) -> list[Verdict]:
    rows, bound = result.curves["GPT-2"], format_percent(MOST_MALFORMED, 2)
    most = max(rows, key=lambda row: row.malformed.value or 0)
    lowest, *others = rows
    other = max(others, key=lambda row: row.malformed.value or 0)
    few = _all_above_0([_below(row.malformed, MOST_MALFORMED) for row in rows])
    agrees = _all_above_0(result.fewer_malformed[1:])
    none = not most.malformed.value
    return [
        Verdict(
            key="few-malformed",
            claim=f"Malformed words stay below {bound} for all β ≥ 1/10.",
            paper=f"below {bound}",
            ours=f"at most {format_percents(most.malformed, 2)}, at β = {format_beta(most.beta)}",
            criterion="the interval is below the paper's bound at every β; differs if it is above"
            " at one",
            agrees=few,
            why="The HMM has"
            f" {format_percent(result.row('HMM', most.beta).malformed.value or 0, 2)} at the same"
            f" β.{f' {UNDECIDED}' if few is None else ''}",
        ),
        Verdict(
            key="most-malformed-at-lowest",
            claim="Malformed words are most common at the lowest β, 1/10.",
            paper="the highest value is reached there",
            ours=f"{format_percents(lowest.malformed, 2)} at β = {format_beta(lowest.beta)};"
            f" elsewhere at most {format_percents(other.malformed, 2)}, at β ="
            f" {format_beta(other.beta)}",
            criterion="the interval of the paired difference from every other β is above 0;"
            " differs if it is below 0 for one of them",
            agrees=None if none else agrees,
            why="No word is malformed at any β; none can be if tokens are words."
            if none
            else UNDECIDED
            if agrees is None
            else "",
        ),
    ]


def _against_hmm(result: Result) -> list[Verdict]:
    gpt, hmm = (result.most_accurate(name) for name in ("GPT-2", "HMM"))
    high = [row.kl_paper for row in result.curves["GPT-2"] if row.beta >= HIGH]
    low, top = min(e.low or 0 for e in high), max(e.high or 0 for e in high)
    hmm_one, hmm_last = result.row("HMM", 1), result.curves["HMM"][-1]
    both = (hmm_one.kl_paper, hmm_last.kl_paper)
    inside = any(within(each, low, top) for each in both)
    touching = any(overlaps(each, low, top) for each in both)
    last, filtered = result.readings[LAST_TOKEN], result.readings[ALL_TOKENS]
    reading = (
        " The HMM predicts from the last token, as it was trained. That is the better reading: true"
        f" prompts cost {format_estimate(last.nats)} nats a token, and"
        f" {format_estimate(filtered.nats)} if it filters whole prompts."
    )
    same = True if inside else None if touching else False
    return [
        Verdict(
            key="outperforms-hmm",
            claim="GPT-2 predicts words far better than the HMM.",
            paper="largely outperforms it; the HMM is comparable to a random guess",
            ours=f"{format_estimate(gpt.accuracy)} against {format_estimate(hmm.accuracy)}, each at"
            f" its best β, {format_beta(gpt.beta)} and {format_beta(hmm.beta)}:"
            f" {result.accuracy_ratio:.1f} times as many words are right",
            criterion="at least twice as many words are right and the two intervals do not overlap",
            agrees=result.accuracy_ratio >= 2 and not intervals_overlap(gpt.accuracy, hmm.accuracy),
            why=reading.strip(),
        ),
        Verdict(
            key="same-kl-as-hmm",
            claim="The HMM has about the same KL^w as GPT-2 at high β.",
            paper="approximately the same",
            ours=f"HMM {format_estimate(hmm_one.kl_paper)} at β = 1 and"
            f" {format_estimate(hmm_last.kl_paper)} at β = {format_beta(hmm_last.beta)}; GPT-2 from"
            f" {low:.3f} to {top:.3f} for β ≥ {HIGH:g}, with intervals",
            criterion="the HMM's interval, at β = 1 or the highest, lies in this range: the HMM"
            " then differs from GPT-2 no more than GPT-2 at one high β from another; differs if"
            " both intervals lie outside",
            agrees=same,
            why="The paper does not say at which β its HMM was used. KL^w leaves out"
            f" {_left_out(hmm_one)} of the true words for the HMM at β = 1 and"
            f" {_left_out(hmm_last)} at β = {format_beta(hmm_last.beta)}. From pooled frequencies"
            f" the HMM has {format_estimate(hmm_one.kl_pooled)} at β = 1, and as a filter"
            f" {format_estimate(filtered.kl_paper)} per prompt.{reading}"
            f"{f' {UNDECIDED}' if same is None else ''}",
        ),
    ]
