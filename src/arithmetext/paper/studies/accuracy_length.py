"""Word accuracy against the number of tokens generated, far beyond the training text."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.alignment import align_prompts
from ...evaluation.clusters import (
    Clusters,
    ContinuationScores,
    ScoreSummary,
    score_continuations,
    summarise_scores,
)
from ...evaluation.estimates import (
    Estimate,
    all_of,
    decided_above,
    decided_within,
    overlaps,
    share,
    within,
)
from ...evaluation.evaluate import MAX_SHIFT
from ...evaluation.generation import Continuations
from ...evaluation.lengths import (
    FEW,
    LengthScores,
    LengthSpread,
    Trends,
    score_lengths,
    spread,
    trends,
)
from ...evaluation.prompts import TextPrompts
from ...integers import format_integer
from ...search.residues import closest_bound, curve, estimate
from ...text.splits import TRAINED_TO
from ..constants import PAPER_ACCURACY, TOLERANCE
from ..figures import plot_estimates, styles, swarm, token_axis
from ..runs import (
    TEST_NEAR,
    TESTS_FAR,
    PromptSettings,
    TrainedModel,
    TrainingFacts,
    ntp,
    prompt_settings,
    several_seeds,
)
from ..study import Table, Verdict, if_papers_model, unless_trained_less
from ..wording import (
    cell,
    format_estimate,
    format_number,
    interval_header,
    join,
    plural,
    sentences,
    undecided,
)

TITLE = "Accuracy against the length generated"
ORDER = 110
COST = {"laptop": 40, "gpu": 400}

MAJORITY = (0.3, 0.5)  # around 0.4, for a single continuation
LOW = 0.12  # the paper's "just below 0.1", plus the noise of one continuation

# "Just below 0.1" is less than 0.1 and rounds to it.
JUST_BELOW = (0.05, 0.1)
# The paper shows 128 continuations at each place. Two of a hundred are the fewest that make a group
# there rather than a single exception.
LEAST_SHARE = 0.02
# The oracle of this bound is about as good as the paper's model, and it cannot slip. So slips that
# alignment finds in its answers are false.
CANNOT_SLIP = 19


@dataclass(frozen=True)
class Settings:
    models: tuple[TrainedModel, ...]  # one for each seed
    places: tuple[int, ...]
    generation: PromptSettings
    bounds: tuple[int, ...]  # of the oracles
    integers: int  # that the oracles are measured on


@dataclass(frozen=True)
class Measured:
    """Scores of continuations of prompts near one integer."""

    at: int
    lengths: list[LengthScores]
    scores: ContinuationScores
    false_slips: list[int]  # found in the answers of the oracle that cannot slip, [prompts]
    oracles: dict[int, float]  # accuracy of an oracle, by its bound (search/residues.py)


@dataclass(frozen=True)
class Place:
    measured: Measured
    by_tokens: list[LengthSpread]
    summary: ScoreSummary
    falsely_slipped: Estimate  # the share of continuations that cannot slip, but seem to

    @property
    def name(self) -> str:
        return format_integer(self.measured.at)

    @property
    def whole(self) -> LengthSpread:
        """The accuracy over all tokens."""
        return self.by_tokens[-1]


@dataclass(frozen=True)
class Result:
    places: list[Place]
    oracle_bound: int  # of the oracle whose accuracy is closest to the model's
    far: Trends  # over the places beyond the training text
    far_summary: ScoreSummary
    seeds: int
    training: TrainingFacts  # of the first seed
    generation: PromptSettings


def settings(scale: str) -> Settings:
    models = several_seeds(ntp(scale), scale)
    bounds = (1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)
    integers = 2**21 if scale == "laptop" else 2**24
    return Settings(models, (TEST_NEAR, *TESTS_FAR), prompt_settings(scale), bounds, integers)


def run(settings: Settings) -> Result:
    pairs = {
        (seed, at): model.continuations(at, settings.generation)
        for seed, model in enumerate(settings.models)  # outside, so that each is loaded once
        for at in settings.places
    }
    places = []
    for at in settings.places:
        prompts = pairs[0, at][0]
        by_seed = [pairs[seed, at][1] for seed in range(len(settings.models))]
        oracles = curve(at, settings.bounds, count=settings.integers)
        places.append(
            Measured(
                at,
                score_lengths(prompts, by_seed),
                score_continuations(prompts, by_seed),
                _false_slips(prompts, by_seed[0], at, settings.integers),
                {oracle.bound: oracle.accuracy for oracle in oracles},
            )
        )
    return summarise(places, settings.models[0].training(), settings.generation)


def _false_slips(prompts: TextPrompts, like: Continuations, at: int, integers: int) -> list[int]:
    """The slips that alignment finds in answers of an oracle, as long as these continuations."""
    # Prompts lie within 2 % of the place.
    [oracle] = estimate(at, at + integers, [CANNOT_SLIP], below=at * 51 // 50)
    lengths = [len(words) for words in like.predicted]
    starts = prompts.integers.tolist()
    answers = [
        oracle.answers(np.arange(n, n + length, dtype=np.uint64))
        for n, length in zip(starts, lengths, strict=True)
    ]
    around = prompts.true_words(lengths, margin=MAX_SHIFT)
    slips: list[int] = align_prompts(answers, around, MAX_SHIFT).slips.tolist()
    return slips


def summarise(
    measured: list[Measured], training: TrainingFacts, generation: PromptSettings
) -> Result:
    blocks = generation.blocks
    places = [
        Place(
            each,
            [spread(length, blocks) for length in each.lengths],
            summarise_scores([each.scores], blocks, MAJORITY, LOW),
            share(np.array(each.false_slips) > 0),
        )
        for each in measured
    ]
    far = [place.measured for place in far_places(places)]
    accuracies = [place.whole.accuracy.value or 0 for place in places]
    oracles = [each.oracles for each in measured]
    return Result(
        places,
        closest_bound(list(zip(oracles, accuracies, strict=True))),
        trends([each.lengths for each in far], blocks),
        summarise_scores([each.scores for each in far], blocks, MAJORITY, LOW),
        len(measured[0].scores.known),
        training,
        generation,
    )


def far_places(places: list[Place]) -> list[Place]:
    """The places beyond the training text: the paper's claims are about these."""
    return [place for place in places if place.measured.at > TRAINED_TO]


def plot(result: Result) -> Figure:
    # The points are drawn as an image: thousands of them would make the SVG large.
    figure = Figure(figsize=(12.6, 4.4), layout="constrained", dpi=200)
    left, middle, right = figure.subplots(1, 3, width_ratios=(1.25, 1, 1))
    _plot_lengths(left, result.places)
    _plot_continuations(middle, result, "known")
    _plot_continuations(right, result, "split")
    middle.set_title("integers known", fontsize=10)
    right.set_title("after text.split()", fontsize=10)
    return figure


def _plot_lengths(axes: Axes, places: list[Place]) -> None:
    random = np.random.default_rng(0)
    tokens = [length.tokens for length in places[0].by_tokens]
    for place, side, style in zip(places, np.linspace(-0.27, 0.27, 4), styles(), strict=True):
        beside = np.array(tokens) * 2.0**side
        values = [length.values.ravel() for length in place.measured.lengths]
        y = np.concatenate(values)
        x = np.repeat(beside, len(values[0])) * 2 ** random.uniform(-0.08, 0.08, len(y))
        points: dict[str, Any] = {"s": 5, "linewidths": 0, "alpha": 0.1, "rasterized": True}
        axes.scatter(x, y, color=style["color"], marker=style["marker"], **points)
        means = [length.accuracy for length in place.by_tokens]
        style |= {"ms": 5, "mec": "white", "mew": 0.6}
        plot_estimates(axes, beside, means, label=place.name, **style)
    token_axis(axes, tokens, "tokens generated")
    axes.set(ylabel="word accuracy", ylim=(-0.03, 1.2), yticks=np.linspace(0, 1, 6))
    axes.grid(alpha=0.3)
    axes.legend(title="integers near", ncols=4, loc="upper right", fontsize=8, title_fontsize=8)


def _plot_continuations(axes: Axes, result: Result, scoring: str) -> None:
    """Every whole continuation in one scoring: "known" or "split"."""
    circle: dict[str, Any] = {
        "s": 14,
        "facecolors": "none",
        "edgecolors": "black",
        "linewidths": 0.6,
    }
    cross: dict[str, Any] = {"s": 18, "marker": "x", "color": "black", "linewidths": 0.8}
    line: dict[str, Any] = {"color": "black", "lw": 1}
    points: dict[str, Any] = {"rasterized": True}
    for column, (place, style) in enumerate(zip(result.places, styles(), strict=True)):
        scores = place.measured.scores
        values = np.ravel(getattr(scores, scoring))
        order = np.argsort(values, kind="stable")
        values, differs = values[order], np.ravel(scores.first_differs)[order]
        slipped = np.ravel(scores.slips)[order] > 0
        x, plain = column + swarm(values, bin_width=0.01, most=0.45), ~differs & ~slipped
        axes.scatter(x[plain], values[plain], s=6, color=style["color"], linewidths=0, **points)
        axes.scatter(x[differs], values[differs], **circle, **points)
        axes.scatter(x[slipped], values[slipped], **cross, **points)
        ends = (column - 0.48, column + 0.48)
        axes.hlines(place.summary.chance.value or 0, *ends, linestyle="--", **line)
        axes.hlines(place.measured.oracles[result.oracle_bound], *ends, **line)
    if _any_differs(result):
        axes.scatter([], [], label="space in one text only", **circle)
    if _any_slipped(result):
        axes.scatter([], [], label="slipped", **cross)
    axes.plot([], [], label=f"oracle, primes up to {result.oracle_bound}", **line)
    axes.plot([], [], "--", label="chance level", **line)
    axes.set_xticks(range(len(result.places)), [place.name for place in result.places])
    highest = max(np.max(place.measured.scores.known) for place in result.places)
    axes.set(xlim=(-0.6, len(result.places) - 0.4), ylim=(0, 1.3 * highest or 1))
    axes.set(xlabel="integers near", ylabel="word accuracy of a whole continuation")
    axes.grid(alpha=0.3)
    axes.legend(ncols=2, loc="upper center", fontsize=7.5, handletextpad=0.5, columnspacing=1)


def _any_differs(result: Result) -> bool:
    return any(np.any(place.measured.scores.first_differs) for place in result.places)


def _any_slipped(result: Result) -> bool:
    return any(place.summary.slips for place in result.places)


def in_short(result: Result) -> str:
    first, *others = far_places(result.places)
    means = join(
        [
            f"{format_number(first.whole.accuracy.value)} are right near {first.name}",
            *(f"{format_number(each.whole.accuracy.value)} near {each.name}" for each in others),
        ]
    )
    model = "a stand-in for the paper's model" if result.training.stand_in else "the model"
    return (
        f"Of the words that {model} generates, {means}; the paper has around {PAPER_ACCURACY:g}."
        f" From {result.far.quarter_tokens} to {result.places[0].whole.tokens} tokens the accuracy"
        f" changes by {format_estimate(result.far.late_change)}."
    )


def caption(result: Result) -> str:
    how, several = result.generation, result.seeds > 1
    models = (
        f"{result.seeds} models with different seeds continue the same"
        if several
        else "One model continues"
    )
    return sentences(
        "Word accuracy of continuations that take the likeliest token each time (β = ∞).",
        f"{models} {how.prompts} prompts of {how.tokens} tokens (each token is"
        f" {result.training.token}) from {how.blocks} blocks near each of"
        f" {join(place.name for place in result.places)}.",
        "Left: accuracy of the first tokens generated, a point for each continuation, and means"
        f" with 95 % intervals over blocks{' and seeds' * several}.",
        "Middle: whole continuations; each generated word is compared with the word of its own"
        " integer.",
        "Right: the same continuations, with generated and true text split by text.split() and"
        " compared word by word.",
        "Circles: only one of the two texts begins with a space, so split() compares each word with"
        " a neighbour of the right word." * _any_differs(result),
        "Crosses: the continuation left out or added words (it slipped)." * _any_slipped(result),
        "Dashed: chance level Σ f̂ f, the accuracy if the generated words were shuffled (words drawn"
        " from the text itself have a little less).",
        "Solid: the oracle that knows n modulo the powers of the primes up to"
        f" {result.oracle_bound}. It is estimated again near each place, and of such oracles it"
        " matches the model best.",
    )


def table(result: Result) -> Table:
    header = ["integers near", "tokens", *interval_header("word accuracy"), "standard deviation"]
    header += ["minimum", "lower quartile", "median", "upper quartile", "maximum", "continuations"]
    header.append(f"oracle, powers of primes up to {result.oracle_bound}")
    header += [*interval_header("share where only one text begins with a space")]
    header += [f"number below {LOW}, integers known", f'number below {LOW} after split(" ")']
    header += interval_header(f"share below {LOW} after split()")
    header += interval_header(f"mean accuracy of those below {LOW}")
    header += ["mean accuracy of the others"]
    header += [f"number from {LOW} to {MAJORITY[0]}"]
    header += ["share that slipped", "share of oracle answers that seem to slip"]
    rows = []
    for place in result.places:
        oracle, summary = cell(place.measured.oracles[result.oracle_bound]), place.summary
        split = summary.split
        clusters = [*summary.first_differs, summary.known.low, summary.split_at_spaces.low]
        clusters += [*split.low_share, *split.low_mean, split.other_mean.value, split.between]
        clusters += [summary.slipped.value, place.falsely_slipped.value]
        for length in place.by_tokens:
            numbers = map(cell, [*length.accuracy, length.deviation, *length.quantiles])
            whole = map(cell, clusters) if length is place.whole else [""] * len(clusters)
            rows.append([place.name, length.tokens, *numbers, length.continuations, oracle, *whole])
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    far, trends = far_places(result.places), result.far
    first, last = far[0].by_tokens[0].tokens, far[0].whole.tokens
    means = [f"{format_number(place.whole.accuracy.value)} near {place.name}" for place in far]
    chance = [f"{format_estimate(place.summary.text_chance)} near {place.name}" for place in far]
    text_chance = result.far_summary.text_chance
    just_below = decided_within(text_chance, *JUST_BELOW)
    oracle = [f"{place.measured.oracles[result.oracle_bound]:.3f}" for place in far]
    change = trends.scale_change
    falls, varies = (decided_above(e, 0) for e in (trends.fall, trends.deviation_fall))
    shown = within(change, -TOLERANCE, TOLERANCE) and not overlaps(change, 0, 0)
    less_than_shown = (
        f"Accuracy {'rises' if (change.value or 0) > 0 else 'falls'} by"
        f" {abs(change.value or 0):.3f}, less than the paper's figure can show. "
        if shown
        else ""
    )
    found = [
        *(_settling_verdict(place, result.training.tokens) for place in far),
        _interval_verdict(
            "change",
            change,
            0,
            key="same-at-all-scales",
            claim=f"Accuracy does not depend on the scale, from {far[0].name} to {far[-1].name}.",
            paper="seems not to be affected; around 0.4 at each",
            ours=f"{', '.join(means)}; change from the first to the last:"
            f" {format_estimate(change)}",
            criterion=f"the interval of the change is within ±{TOLERANCE}: the paper gives"
            " accuracies to one digit",
            why=less_than_shown + "Of the oracles that are estimated again near each place, the one"
            f" that knows n modulo the powers of the primes up to {result.oracle_bound} matches the"
            f" model best. Its accuracy is {', '.join(oracle)}.",
        ),
        Verdict(
            key="highest-for-few",
            claim="Accuracy is highest on average when few tokens are generated.",
            paper="it is",
            ours=f"{format_estimate(trends.few_accuracy)} over at most {FEW} tokens, the mean of"
            f" lengths 1, 2, … {FEW}; the same minus the accuracy over {last} tokens:"
            f" {format_estimate(trends.fall)}",
            criterion="the interval of the difference is above 0, over the continuations that have"
            f" a word at every length; few means at most {FEW} of {last} tokens",
            agrees=falls,
            why=sentences(
                _doubt(falls, ("difference", trends.fall, [0])),
                f"{trends.few_continuations:,} continuations have a word at every length: a prompt"
                " may end inside a word, and the first token may only complete it.",
            ),
        ),
        Verdict(
            key="varies-for-few",
            claim="Accuracy varies more between prompts when few tokens are generated.",
            paper="it does",
            ours=f"standard deviation {format_estimate(trends.deviation_first)} at"
            f" {plural(first, 'token')}, {format_estimate(trends.deviation_last)} at {last};"
            f" difference {format_estimate(trends.deviation_fall)}",
            criterion="the interval of the difference is above 0",
            agrees=varies,
            why=sentences(
                _doubt(varies, ("difference", trends.deviation_fall, [0])),
                "Among one or two words the share of right words is 0, 1/2 or 1, so it varies,"
                " whatever the model knows.",
            ),
            by_construction=True,
        ),
        _interval_verdict(
            "change",
            trends.late_change,
            0,
            key="independent-of-length",
            claim="Accuracy becomes largely independent of the length as more is generated.",
            paper="it does",
            ours=f"{format_number(trends.quarter_accuracy)} over"
            f" {plural(trends.quarter_tokens, 'token')}, {format_number(trends.whole_accuracy)}"
            f" over {last}: change {format_estimate(trends.late_change)}",
            criterion=f"the interval of the change is within ±{TOLERANCE}",
            why="The paper's accuracy is over all tokens. It averages over the earlier tokens, so"
            " it falls more slowly than the accuracy of the last words.",
        ),
        _clusters_verdict(result.far_summary),
        Verdict(
            key="chance-level",
            claim="An accuracy just below 0.1 is that of random prediction.",
            paper="just below 0.1 coincides with random prediction",
            ours=f"{', '.join(chance)}; mean {format_estimate(text_chance)}",
            criterion=f"the interval of the mean is within {JUST_BELOW[0]} to {JUST_BELOW[1]}:"
            " below 0.1, and rounded to it",
            agrees=just_below,
            why=sentences(
                _doubt(just_below, ("mean", text_chance, JUST_BELOW)),
                "Random prediction draws words with the frequencies f of the true words, and is"
                " right with probability Σ f². If the model's own words, with frequencies f̂, were"
                f" shuffled, Σ f̂ f = {format_estimate(result.far_summary.chance)} of them would be"
                " right.",
            ),
        ),
    ]
    *of_model, of_text = found
    return [*if_papers_model(of_model, result.training.stand_in), of_text]


Tested = tuple[str, Estimate, Sequence[float]]  # a name, its interval, and bounds


def _doubt(agrees: bool | None, *tested: Tested) -> str:
    """Why a claim is not decided: which intervals contain which bounds; empty if it is decided."""
    doubts = []
    for name, interval, bounds in tested:
        inside = [f"{bound:g}" for bound in bounds if overlaps(interval, bound, bound)]
        if interval.value is None:
            doubts.append(f"the {name} is not known")
        elif inside:
            doubts.append(f"the interval of the {name} contains {join(inside)}")
    return undecided(agrees, "; ".join(doubts))


def _settling_verdict(place: Place, tokens: int) -> Verdict:
    found = _interval_verdict(
        "accuracy",
        place.whole.accuracy,
        PAPER_ACCURACY,
        key=f"settles-{place.name}",
        claim=f"Word accuracy settles near 0.4 (integers near {place.name}).",
        paper="around 0.4",
        ours=f"{format_estimate(place.whole.accuracy)} over {place.whole.tokens} tokens",
        criterion=f"the interval is within {PAPER_ACCURACY} ± {TOLERANCE}: the paper gives"
        " accuracies to one digit",
        why=f"Of the continuations, {format_estimate(place.summary.slipped)} slipped; alignment"
        f" finds slips in {format_estimate(place.falsely_slipped)} of those of an oracle, which"
        " cannot slip. After alignment the accuracy is"
        f" {format_estimate(place.summary.realigned)}.",
    )
    worse = (place.whole.accuracy.value or 0) < PAPER_ACCURACY
    return unless_trained_less(found, worse=worse, tokens=tokens)


def _interval_verdict(
    name: str, estimate: Estimate, target: float, *, why: str, **words: Any
) -> Verdict:
    """Whether an interval is within the tolerance of a target; not decided if it is partly."""
    bounds = (target - TOLERANCE, target + TOLERANCE)
    agrees = decided_within(estimate, *bounds)
    doubt = _doubt(agrees, (name, estimate, bounds))
    return Verdict(agrees=agrees, why=sentences(doubt, why), **words)


def _clusters_verdict(summary: ScoreSummary) -> Verdict:
    known, split = summary.known, summary.split
    agrees, after_split = _two_clusters(known), _two_clusters(split)
    reason = _cluster_doubt(agrees, known)
    if agrees is False and after_split is not False:
        agrees = None
        reason = _DEPENDS if after_split else _cluster_doubt(None, split)
    same = _counted(split) == _counted(known)
    counted = "the same" if same else _counted(split)
    return Verdict(
        key="two-clusters",
        claim="The accuracy of a whole continuation is either around 0.4 (the majority) or just"
        " below 0.1.",
        paper="two clusters; this may suggest that some sequences are hard",
        ours=f"with the integers known, {_counted(known)}; after text.split(), {counted}",
        criterion="with the integers known, more than half of the continuations have"
        f" {MAJORITY[0]} to {MAJORITY[1]}, fewer are between the groups than below {LOW}, the"
        f" interval of the share below {LOW} is above {LEAST_SHARE} (two or three of the paper's"
        f" 128) and that of their mean is within {JUST_BELOW[0]} to {JUST_BELOW[1]}; differs if"
        " this does not hold after text.split() either",
        agrees=agrees,
        why=sentences(reason, "" if same else _why_split_differs(summary)),
    )


_DEPENDS = (
    "It depends on the scoring, which the paper does not state: after text.split() there are two"
    " clusters, with the integers known there are not."
)


def _cluster_doubt(agrees: bool | None, clusters: Clusters) -> str:
    return _doubt(
        agrees,
        (f"share below {LOW}", clusters.low_share, [LEAST_SHARE]),
        (f"mean of those below {LOW}", clusters.low_mean, JUST_BELOW),
    )


def _why_split_differs(summary: ScoreSummary) -> str:
    return (
        "Only one of the two texts, generated or true, begins with a space in"
        f" {format_estimate(summary.first_differs)} of the continuations. {_who_is_low(summary)}"
        f' After text.split(" "), {summary.split_at_spaces.low} are below {LOW}. With the integers'
        " known, the accuracy of the continuations with one space minus that of the others is"
        f" {format_estimate(summary.easier)}. We have not seen the paper's code: this shows"
        " what such a scoring alone does, not that the paper used it."
    )


def _two_clusters(clusters: Clusters) -> bool | None:
    return all_of(
        [
            clusters.majority > clusters.continuations / 2,
            clusters.between < clusters.low,
            decided_above(clusters.low_share, LEAST_SHARE),
            decided_within(clusters.low_mean, *JUST_BELOW),
        ]
    )


def _who_is_low(summary: ScoreSummary) -> str:
    if summary.exceptions > summary.split.low / 20:
        return (
            f"These are not the low ones after text.split(): {summary.exceptions} continuations"
            " are in one of the two groups only."
        )
    exceptions = plural(summary.exceptions, "exception")
    return f"These are the low ones after text.split(), with {exceptions}."


def _counted(clusters: Clusters) -> str:
    counts = (
        f"{clusters.majority} of {clusters.continuations} continuations have {MAJORITY[0]} to"
        f" {MAJORITY[1]}, {clusters.between} are between, {clusters.above} above and"
        f" {clusters.low} below {LOW}"
    )
    if not clusters.low:
        return counts
    return (
        f"{counts}: a share of {format_estimate(clusters.low_share)} with mean"
        f" {format_estimate(clusters.low_mean)}"
    )
