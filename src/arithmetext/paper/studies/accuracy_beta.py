"""Word accuracy and divergence against the inverse temperature, for the GPT-2 and the HMM.

The paper averages KL^w over prompts, so the verdicts do too. The frequencies of all prompts
together ("pooled") are shown beside it: in a prompt of some fifty words, most of KL^w is noise. How
much is noise, and what a random guess has right, is measured on other text: true words from
elsewhere, in place of the generated words.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log
from typing import Any, NamedTuple, cast

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import (
    Estimate,
    above,
    all_decided_above,
    all_of,
    decided_above,
    decided_within,
    over_seeds_and_blocks,
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
    difference,
    estimate,
    loss,
    other_text,
    resampled_measures,
)
from ...models.hmm import HMM
from ..figures import COLOURS, LINES, MARKERS, beta_axis, beta_position, plot_estimates
from ..outputs import Arrays
from ..runs import Comparison, Generation, PromptSettings, TrainedModel, comparison, draw_prompts
from ..study import Table, Verdict, if_papers_model, unless_trained_less
from ..wording import (
    describe_seeds,
    format_beta,
    format_estimate,
    format_integer,
    format_number,
    format_percent,
    format_percents,
    join,
    over_prompts_in_words,
    sentences,
    undecided,
)

TITLE = "Accuracy and divergence against β"
ORDER = 120
COST = {"laptop": 30, "gpu": 240}

PAPER_BEST = {"accuracy": (3.3, 10.0), "kl_paper": (1.4, 3.3)}  # the paper's best β
DIVERGENCES = ("kl_paper", "kl_pooled", "jensen_shannon", "jensen_shannon_pooled")
HIGH = 1.4  # the paper's "higher β": from its best KL^w on
MOST_MALFORMED = 0.0025  # the paper's upper bound for the share of malformed words
ACCURACY_MARGIN = 0.01  # a smaller difference of accuracies is not seen in the paper's figure
KL_MARGIN = 1 / 10  # of the KL^w of other text: the same for divergences
KL_TOLERANCE = 1 / 4  # of the KL^w of other text, for "approximately the same"
GUESS_TOLERANCE = 0.02  # for "comparable to a random guess", which is right one time in ten
LABELLED = (0.1, 0.2, 0.5, 1.0, 2.0, 3.3, 5.0, 10.0)  # β with a label at the axis
PANELS = {
    "accuracy": "share of words that are right",
    "kl_paper": "$\\mathrm{KL}^w$ in nats, mean over prompts",
    "kl_pooled": "$\\mathrm{KL}^w$ in nats, all prompts together",
}
LAST_TOKEN, ALL_TOKENS = "the last token", "all tokens"  # what the HMM predicts from

Measures = Mapping[str, Resampled]
Curve = Mapping[float, Measures]  # by β


@dataclass(frozen=True)
class Settings(Comparison):
    betas: tuple[float, ...]  # in increasing order
    generated: int  # tokens


class AtBeta(NamedTuple):
    beta: float
    difference: Estimate


@dataclass(frozen=True)
class Result:
    at: int
    generated: int
    generation: PromptSettings
    seeds: dict[str, int]  # by model
    stand_ins: dict[str, str]  # why a model is not the paper's, by model; empty if it is
    trained_on: int  # tokens, in the training of the GPT-2
    curves: dict[str, list[BetaMeasures]]  # by model
    other_text: BetaMeasures  # true words from elsewhere, in place of the generated words
    best: dict[str, BestRange]  # of the GPT-2, by measure
    # How much worse the GPT-2 is at each β than at β = 1, by measure; paired differences.
    worse_than_one: dict[str, list[Estimate]]
    fewer_malformed: list[Estimate]  # share at the lowest β minus the share at each β, paired
    nats: dict[str, Estimate]  # per token of true prompts, by what the HMM predicts from
    uniform_nats: float  # of a uniform guess
    filter: BetaMeasures  # the HMM at β = 1 if it predicts from all tokens
    # Differences of the two models for the same prompts.
    over_twice: Estimate  # the GPT-2's best accuracy minus twice the HMM's
    over_guess: Estimate  # the accuracy of the HMM at β = 1 minus that of other text
    kl_over_gpt: list[AtBeta]  # KL^w of the HMM at β = 1 minus that of the GPT-2 at high finite β

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
    at, how, count = settings.at, settings.generation, settings.generated
    curves = {name: _curve(settings, models) for name, models in settings.models.items()}
    first, hmm = settings.models["GPT-2"][0], settings.models["HMM"]
    prompts, made = first.continuations(at, how, beta=1.0, tokens=count)
    filtered = [
        model.continuations(at, how, beta=1.0, tokens=count, filtered=True)[1] for model in hmm
    ]
    at_one = Generation(at, how, 1.0, count)
    nats = [model.outputs(nats_in_both_readings, at_one) for model in hmm]
    return summarise(
        settings,
        curves,
        # Prompts that are so far apart are from the same block of the text.
        resampled_measures([other_text(prompts, made, how.blocks)]),
        resampled_measures(filtered),
        {
            reading: over_seeds_and_blocks([each[reading] for each in nats], how.blocks)
            for reading in (LAST_TOKEN, ALL_TOKENS)
        },
    )


def _curve(settings: Settings, models: Sequence[TrainedModel]) -> Curve:
    at, how, count = settings.at, settings.generation, settings.generated
    made: dict[float, list[Continuations]] = {beta: [] for beta in settings.betas}
    for model in models:  # one after the other, so that each is loaded once
        for beta in settings.betas:
            made[beta].append(model.continuations(at, how, beta=beta, tokens=count)[1])
    return {beta: resampled_measures(by_seed) for beta, by_seed in made.items()}


def nats_in_both_readings(model: EvaluatedModel, which: Generation) -> Arrays:
    """Nats per token of each prompt, by what the HMM predicts from: [prompts] each."""
    hmm = cast(HMM, model.model)
    ids = draw_prompts(model.tokenizer, model.seen, which.at, which.how).ids
    views = {LAST_TOKEN: hmm.conditioned_on("token"), ALL_TOKENS: hmm.conditioned_on("sequence")}
    return {name: -score(view, ids).logs.mean(1) for name, view in views.items()}


def summarise(
    settings: Settings,
    curves: Mapping[str, Curve],
    chance: Measures,
    filtered: Measures,
    nats: dict[str, Estimate],
) -> Result:
    rows = {
        name: [beta_measures(beta, measures) for beta, measures in curve.items()]
        for name, curve in curves.items()
    }
    gpt, hmm = curves["GPT-2"], curves["HMM"]
    losses = {
        measure: {beta: loss(measure, gpt[beta][measure]) for beta in gpt}
        for measure in ("accuracy", *DIVERGENCES)
    }
    ranges = PAPER_BEST | dict.fromkeys(DIVERGENCES, PAPER_BEST["kl_paper"])
    lowest = next(iter(gpt.values()))["malformed"]
    highest = {
        name: max((each["accuracy"] for each in curve.values()), key=lambda all_: all_[:, 0].mean())
        for name, curve in curves.items()
    }
    return Result(
        settings.at,
        settings.generated,
        settings.generation,
        settings.seeds,
        settings.stand_ins,
        settings.trained_on,
        rows,
        beta_measures(1.0, chance),
        best={measure: best_range(losses[measure], *span) for measure, span in ranges.items()},
        worse_than_one={
            measure: [estimate(values - by_beta[1.0]) for values in by_beta.values()]
            for measure, by_beta in losses.items()
        },
        fewer_malformed=[estimate(lowest - measures["malformed"]) for measures in gpt.values()],
        nats=nats,
        uniform_nats=log(settings.models["HMM"][0].config.tokens.size),
        filter=beta_measures(1.0, filtered),
        over_twice=difference(highest["GPT-2"], 2 * highest["HMM"]),
        over_guess=difference(hmm[1.0]["accuracy"], chance["accuracy"]),
        kl_over_gpt=[
            AtBeta(beta, difference(hmm[1.0]["kl_paper"], measures["kl_paper"]))
            for beta, measures in gpt.items()
            if HIGH <= beta < inf
        ],
    )


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 7.6), layout="constrained")
    *panels, last = figure.subplots(2, 2).flat
    for axes, (measure, label) in zip(panels, PANELS.items(), strict=True):
        best = PAPER_BEST["accuracy" if measure == "accuracy" else "kl_paper"]
        axes.axvspan(*best, color="0.9", label="best in the paper")
        chance = result.other_text.estimate(measure).value or 0
        axes.axhline(chance, color="0.4", ls="--", lw=1, label="other text")
        curves = {
            name: [row.estimate(measure) for row in rows] for name, rows in result.curves.items()
        }
        _plot_curves(axes, result, curves, [LINES[0], LINES[3]])
        axes.set(ylim=_limits(result, measure), ylabel=label)
    last.axhline(0, color="0.5", lw=0.8)
    differences = {
        "mean over prompts": result.worse_than_one["kl_paper"],
        "all prompts together": result.worse_than_one["kl_pooled"],
    }
    _plot_curves(last, result, differences, ["none", "none"], first=2)
    last.set_ylabel("GPT-2: $|\\mathrm{KL}^w|$ minus that at β = 1")
    last.legend(fontsize=8)
    handles, names = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside upper center", ncols=4, frameon=False, fontsize=9)
    return figure


def _limits(result: Result, measure: str) -> tuple[float, float]:
    """Of a panel, for all but the HMM at β = ∞, which would flatten the other curves."""
    rows = [*result.curves["GPT-2"], *result.curves["HMM"][:-1]]
    shown = [row.estimate(measure) for row in rows]
    low = min(each.low or 0 for each in shown)
    high = max(result.other_text.estimate(measure).value or 0, *(each.high or 0 for each in shown))
    space = 0.05 * (high - low)
    return min(0, low - space), high + space


def _plot_curves(
    axes: Axes,
    result: Result,
    curves: Mapping[str, Sequence[Estimate]],
    lines: Sequence[Any],
    first: int = 0,
) -> None:
    """Two curves; the second is slightly to the right, and β = ∞ is not connected."""
    betas = [row.beta for row in result.curves["GPT-2"]]
    for i, (name, estimates) in enumerate(curves.items()):
        style = {"color": COLOURS[first + i], "marker": MARKERS[first + i], "lw": 1.3, "ms": 4}
        for infinite in (False, True):
            part = [k for k, beta in enumerate(betas) if (beta == inf) == infinite]
            x = [beta_position(betas[k], betas) * (1 + 0.05 * i) for k in part]
            label = None if infinite else name
            plot_estimates(axes, x, [estimates[k] for k in part], label=label, ls=lines[i], **style)
    beta_axis(axes, betas, LABELLED)


def in_short(result: Result) -> str:
    gpt, hmm = (result.most_accurate(name) for name in ("GPT-2", "HMM"))
    lowest = result.curves["GPT-2"][0]
    return (
        f"Near {format_integer(result.at)} the best word accuracy of the GPT-2 is"
        f" {format_number(gpt.accuracy.value)}, at β = {format_beta(gpt.beta)}, and that of the HMM"
        f" is {format_number(hmm.accuracy.value)}, at β = {format_beta(hmm.beta)}. At β ="
        f" {format_beta(lowest.beta)}, {format_percents(lowest.malformed, 2)} of the words of the"
        " GPT-2 are malformed."
    )


def caption(result: Result) -> str:
    how, gpt, hmm = result.generation, result.curves["GPT-2"][-1], result.curves["HMM"][-1]
    values = {measure: hmm.estimate(measure).value or 0 for measure in PANELS}
    limits = {measure: _limits(result, measure) for measure in PANELS}
    outside = any(not limits[m][0] <= value <= limits[m][1] for m, value in values.items())
    return (
        "Top left: share of words that are right. Top right and bottom left: the paper's KL^w, a"
        " divergence of the word frequencies from the true frequencies, of each prompt and of all"
        " prompts together. Bottom right: |KL^w| of the GPT-2 at each β minus that at β = 1, for"
        f" the same prompts (above 0: worse). {how.prompts:,} prompts of {how.tokens} tokens near"
        f" {format_integer(result.at)} are continued by {result.generated} tokens at each inverse"
        f" temperature β. {describe_seeds(result.seeds)} Bars are 95 % intervals,"
        f" {over_prompts_in_words(result.seeds)}. Grey marks the β that are best in the paper."
        " Dashed: true words from elsewhere in the text, scored like generated words. Their"
        " accuracy is that of a random guess, and their KL^w is the noise of frequencies from few"
        " words. KL^w sums only over words that are generated, so it can be negative; the best"
        f" value is the one closest to 0. At β = ∞ the sum leaves out {_left_out(gpt)} of the true"
        f" words for the GPT-2 and {_left_out(hmm)} for the HMM. The HMM predicts from the last"
        " token, as it was trained. At β = ∞ the HMM repeats a few words"
        f"{' and lies outside a panel' if outside else ''}."
    )


def _left_out(row: BetaMeasures) -> str:
    return format_percent(row.kl_left_out.value or 0)


def _reading(result: Result) -> str:
    """What the HMM predicts from, and what both readings cost."""
    last, whole = result.nats[LAST_TOKEN], result.nats[ALL_TOKENS]
    which = "better" if (last.value or 0) < (whole.value or 0) else "worse"
    uniform = f"A uniform guess costs {result.uniform_nats:.2f}"
    return (
        f"The HMM predicts from the last token, as it was trained. That is {which} in nats:"
        f" true prompts cost {format_estimate(last)} nats a token, and {format_estimate(whole)} if"
        f" it filters whole prompts. {uniform}"
        f"{', less than the filter' if above(whole, result.uniform_nats) else ''}."
    )


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
    worse = {"accuracy": "accuracy", "kl_paper": "|KL^w|", "kl_pooled": "|KL^w|, pooled"}
    curves = result.curves | {"HMM as a filter": [result.filter], "other text": [result.other_text]}
    nats = {"HMM": result.nats[LAST_TOKEN], "HMM as a filter": result.nats[ALL_TOKENS]}
    rows = [
        [
            name,
            "" if name == "other text" else format_beta(row.beta),
            *(format_estimate(row.estimate(measure), 4) for measure in columns),
            *(
                format_estimate(result.worse_than_one[measure][i], 4) if name == "GPT-2" else ""
                for measure in worse
            ),
            format_estimate(nats[name], 4) if name in nats and row.beta == 1 else "",
        ]
        for name, rows in curves.items()
        for i, row in enumerate(rows)
    ]
    ends = [f"{label}: worse than at β = 1" for label in worse.values()]
    return ["model", "β", *columns.values(), *ends, "nats per token of true prompts"], rows


def verdicts(result: Result) -> list[Verdict]:
    kl_noise = abs(result.other_text.kl_paper.value or 0)
    of_gpt = [
        _best_range(
            result,
            "accuracy",
            ACCURACY_MARGIN,
            f"{ACCURACY_MARGIN:g}",
            claim="Word accuracy is best",
            key="best-accuracy",
        ),
        _best_range(
            result,
            "kl_paper",
            KL_MARGIN * kl_noise,
            f"{KL_MARGIN * kl_noise:.3f} nats, a tenth of the KL^w of other text",
            claim="KL^w is best",
            key="best-kl",
        ),
        _worse_below_1(result, "accuracy", "Word accuracy", "accuracy-worse-below-1"),
        _worse_below_1(result, "kl_paper", "KL^w", "kl-worse-below-1"),
        *_malformed(result),
    ]
    of_both = [_outperforms(result), _kl_of_hmm(result, KL_TOLERANCE * kl_noise)]
    gpt, hmm = result.stand_ins["GPT-2"], result.stand_ins["HMM"]
    return [
        *if_papers_model(of_gpt, gpt),
        *if_papers_model(of_both, sentences(gpt, hmm)),
        *if_papers_model([_like_random_guess(result)], hmm),
    ]


def _best_range(
    result: Result, measure: str, margin: float, in_words: str, *, claim: str, key: str
) -> Verdict:
    least, greatest = PAPER_BEST[measure]
    found = result.best[measure]
    best = result.row("GPT-2", found.best)
    shown = [each for each in found.outside if each.beta in (found.best, *found.neighbours)]
    worse = [f"{format_estimate(each.worse)} at β = {format_beta(each.beta)}" for each in shown]
    inside = f"; best in the range: {format_beta(found.best_inside)}"
    if found.best == found.best_inside:
        inside = ""
    next_to_it = join(map(format_beta, found.neighbours))
    one = len(found.neighbours) == 1
    neighbours = f"neighbour β = {next_to_it} is" if one else f"neighbours β = {next_to_it} are"
    agrees = found.is_best(margin)
    others = ""
    if measure == "kl_paper":
        pooled, shannon = result.best["kl_pooled"], result.best["jensen_shannon"]
        others = (
            f"From pooled frequencies the best finite β is {format_beta(pooled.best)}; these are"
            " too high as well, by the noise of few words. KL^w leaves out"
            f" {_left_out(best)} of the true words at β = {format_beta(best.beta)}; the"
            " Jensen–Shannon divergence leaves out nothing and is least at β ="
            f" {format_beta(shannon.best)}."
        )
    return Verdict(
        key=key,
        claim=f"{claim} for {least:g} ≤ β ≤ {greatest:g}.",
        paper=f"{least:g} to {greatest:g}",
        ours=f"best finite β: {format_beta(best.beta)}, with"
        f" {format_estimate(best.estimate(measure))}{inside}; compared with that, worse by"
        f" {join(worse)}",
        criterion=f"no finite β outside the range beats the best β inside by {in_words}, and the"
        f" {neighbours} worse; differs if one beats it by that. Intervals of paired differences"
        " decide",
        agrees=agrees,
        why=sentences(
            undecided(
                agrees, "a neighbour of the range is not clearly worse, or an interval is too wide"
            ),
            "The paper names a range of finite β; β = ∞ is shown and does not count. Differences"
            " are paired: the same prompts at every β.",
            others,
        ),
    )


def _worse_below_1(result: Result, measure: str, name: str, key: str) -> Verdict:
    betas = [row.beta for row in result.curves["GPT-2"]]
    below = [i for i, beta in enumerate(betas) if beta < 1]

    def differences(measure: str) -> str:
        worse = result.worse_than_one[measure]
        return ", ".join(f"{format_estimate(worse[i])} at β = {betas[i]:g}" for i in below)

    agrees = all_decided_above([result.worse_than_one[measure][i] for i in below], 0)
    return Verdict(
        key=key,
        claim=f"{name} gets worse when β < 1.",
        paper="it does",
        ours=f"worse than at β = 1 by {differences(measure)}",
        criterion=f"the interval of the difference is above 0 for all {len(below)} β below 1;"
        " differs if it is below 0 for one of them",
        agrees=agrees,
        why=sentences(
            undecided(agrees, "the interval contains 0 for some β"),
            "Paired differences: the same prompts at both β.",
            f"Differences are of |KL^w|. From pooled frequencies: {differences('kl_pooled')}."
            if measure == "kl_paper"
            else "",
        ),
    )


def _malformed(result: Result) -> list[Verdict]:
    rows, bound = result.curves["GPT-2"], format_percent(MOST_MALFORMED, 2)
    most = max(rows, key=lambda row: row.malformed.value or 0)
    too_many = [decided_above(row.malformed, MOST_MALFORMED) for row in rows]
    few = all_of(None if each is None else not each for each in too_many)
    shares = [f"{format_percents(row.malformed, 2)} at β = {format_beta(row.beta)}" for row in rows]
    none = not most.malformed.value
    at_lowest = None if none else all_decided_above(result.fewer_malformed[1:], 0)
    hmm = format_percent(result.row("HMM", most.beta).malformed.value or 0, 2)
    too_many_here = Verdict(
        key="few-malformed",
        claim=f"Malformed words stay below {bound} for all β ≥ 1/10.",
        paper=f"below {bound}",
        ours=f"at most {shares[rows.index(most)]}",
        criterion="the interval is below the paper's bound at every β; differs if it is above"
        " at one",
        agrees=few,
        why=sentences(
            f"The HMM has {hmm} at the same β.",
            undecided(few, f"an interval contains {bound}"),
        ),
    )
    return [
        unless_trained_less(too_many_here, worse=True, tokens=result.trained_on),
        Verdict(
            key="most-malformed-at-lowest",
            claim="Malformed words are most common at the lowest β, 1/10.",
            paper="the highest value is reached there",
            ours=", ".join(shares[:3]),
            criterion="the interval of the paired difference from every other β is above 0;"
            " differs if it is below 0 for one of them",
            agrees=at_lowest,
            why="No word is malformed at any β."
            if none
            else undecided(at_lowest, "the interval contains 0 for some β"),
        ),
    ]


def _outperforms(result: Result) -> Verdict:
    gpt, hmm = (result.most_accurate(name) for name in ("GPT-2", "HMM"))
    twice = decided_above(result.over_twice, 0)
    verdict = Verdict(
        key="outperforms-hmm",
        claim="GPT-2 predicts words far better than the HMM.",
        paper="largely outperforms it",
        ours=f"{format_estimate(gpt.accuracy)} against {format_estimate(hmm.accuracy)}, each at"
        f" its best β, {format_beta(gpt.beta)} and {format_beta(hmm.beta)}; the first minus"
        f" twice the second is {format_estimate(result.over_twice)}",
        criterion="twice as many words are right: the interval of this difference is above 0;"
        " differs if it is below",
        agrees=twice,
        why=sentences(
            _reading(result), undecided(twice, "the interval of the difference contains 0")
        ),
    )
    return unless_trained_less(verdict, worse=True, tokens=result.trained_on)


def _like_random_guess(result: Result) -> Verdict:
    guess, last = _near_0(result.over_guess, GUESS_TOLERANCE), result.curves["HMM"][-1]
    return Verdict(
        key="hmm-like-random-guess",
        claim="The accuracy of the HMM is comparable to a random guess.",
        paper="comparable",
        ours=f"{format_estimate(result.row('HMM', 1).accuracy)} at β = 1; the words of other"
        f" text have {format_estimate(result.other_text.accuracy)}; difference"
        f" {format_estimate(result.over_guess)}",
        criterion=f"the interval of the difference lies within ± {GUESS_TOLERANCE:g}, a fifth"
        " of what a guess has right; differs if it lies wholly outside",
        agrees=guess,
        why=sentences(
            "A random guess is a word drawn with the frequencies of the text. The paper's HMM is"
            " one line for all β, which suggests that it samples at β = 1. At β ="
            f" {format_beta(last.beta)} our HMM repeats a few words and has"
            f" {format_estimate(last.accuracy)}.",
            undecided(guess, f"the interval contains {GUESS_TOLERANCE:g}, or its negative"),
        ),
    )


def _near_0(estimate: Estimate, tolerance: float) -> bool | None:
    return decided_within(estimate, -tolerance, tolerance)


def _kl_of_hmm(result: Result, tolerance: float) -> Verdict:
    near = {each.beta: _near_0(each.difference, tolerance) for each in result.kl_over_gpt}
    outcomes = set(near.values())
    same = outcomes.pop() if len(outcomes) == 1 else None
    holds = [f"{beta:g}" for beta, each in near.items() if each]
    hmm, last = result.row("HMM", 1), result.curves["HMM"][-1]
    differences = [
        f"{format_estimate(each.difference)} at β = {each.beta:g}" for each in result.kl_over_gpt
    ]
    verdict = Verdict(
        key="same-kl-as-hmm",
        claim="The HMM has about the same KL^w as GPT-2 at high β.",
        paper="approximately the same",
        ours=f"HMM {format_estimate(hmm.kl_paper)} at β = 1; minus that of GPT-2:"
        f" {', '.join(differences)}",
        criterion=f"for each finite β from {HIGH:g} on, the interval of the paired difference lies"
        f" within ± {tolerance:.3f} nats, a quarter of the KL^w of other text; differs if it lies"
        " wholly outside for each of them",
        agrees=same,
        why=sentences(
            "The paper's HMM is one line for all β, which suggests that it samples at β = 1. The"
            f" words of other text have {format_estimate(result.other_text.kl_paper)}. KL^w leaves"
            f" out {_left_out(hmm)} of the true words for the HMM. At β ="
            f" {format_beta(last.beta)} the HMM has {format_estimate(last.kl_paper)} and leaves"
            f" out {_left_out(last)}; as a filter at β = 1 it has"
            f" {format_estimate(result.filter.kl_paper)}.",
            undecided(
                same,
                f"it holds for β = {join(holds)}, and the paper names no β"
                if holds
                else f"some intervals lie partly within ± {tolerance:.3f}",
            ),
        ),
    )
    worse = all((each.difference.value or 0) < 0 for each in result.kl_over_gpt)
    return unless_trained_less(verdict, worse=worse, tokens=result.trained_on)
