"""Word accuracy against the number of tokens generated, far beyond the training text."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation import lengths
from ...evaluation.estimates import above, overlaps, within
from ...evaluation.evaluate import AlignmentSummary, by_tokens, summarise_alignments
from ...evaluation.lengths import AccuracyCounts, LengthSpread, Trends
from ...integers import format_integer
from ...search.residues import closest_bound, curve
from ...text.splits import TRAINED_TO
from ..figures import plot_estimates, styles, swarm, token_axis
from ..runs import (
    TEST_NEAR,
    TESTS_FAR,
    PromptSettings,
    TrainedModel,
    TrainingFacts,
    ntp,
    prompt_settings,
)
from ..study import Table, Verdict
from ..wording import cell, format_estimate, format_number, join, plural

TITLE = "Accuracy against the length generated"
ORDER = 110
COST = {"laptop": 90, "gpu": 370}

SETTLED = (0.35, 0.45)  # near 0.4
STEADY = 0.02  # a smaller change of accuracy counts as none
MAJORITY = (0.3, 0.5)  # around 0.4, for a single continuation
LOW = 0.12  # the paper's "just below 0.1", plus the noise of one continuation


@dataclass(frozen=True)
class Settings:
    model: TrainedModel
    places: tuple[int, ...]
    generation: PromptSettings
    bounds: tuple[int, ...]  # of the oracles
    integers: int  # that the oracles are measured on


@dataclass(frozen=True)
class Place:
    """Continuations of prompts near one integer."""

    at: int
    by_tokens: list[LengthSpread]
    alignment: AlignmentSummary
    oracles: dict[int, float]  # accuracy of an oracle, by its bound (search/residues.py)

    @property
    def name(self) -> str:
        return format_integer(self.at)

    @property
    def whole(self) -> LengthSpread:
        """The accuracy over all tokens."""
        return self.by_tokens[-1]


@dataclass(frozen=True)
class Result:
    places: list[Place]
    counts: AccuracyCounts
    oracle_bound: int  # of the oracle whose accuracy is closest to the model's
    far: Trends  # over the places beyond the training text
    far_counts: AccuracyCounts
    far_chance: float  # mean chance level
    training: TrainingFacts
    generation: PromptSettings


def settings(scale: str) -> Settings:
    bounds = (1, 2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)
    integers = 2**21 if scale == "laptop" else 2**24
    return Settings(ntp(scale), (TEST_NEAR, *TESTS_FAR), prompt_settings(scale), bounds, integers)


def run(settings: Settings) -> Result:
    places = []
    for at in settings.places:
        prompts, continuations = settings.model.continuations(at, settings.generation)
        spreads = [lengths.add_spread(length) for length in by_tokens(prompts, continuations)]
        oracles = curve(at, settings.bounds, count=settings.integers)
        accuracies = {oracle.bound: oracle.accuracy for oracle in oracles}
        places.append(Place(at, spreads, summarise_alignments(prompts, continuations), accuracies))
    return summarise(places, settings.model.training(), settings.generation)


def summarise(places: list[Place], training: TrainingFacts, generation: PromptSettings) -> Result:
    far = far_places(places)
    aligned, far_aligned = ([place.alignment for place in each] for each in (places, far))
    return Result(
        places,
        lengths.count_accuracies(aligned, MAJORITY, LOW),
        closest_bound([(place.oracles, place.whole.accuracy.value or 0) for place in places]),
        lengths.trends([place.by_tokens for place in far]),
        lengths.count_accuracies(far_aligned, MAJORITY, LOW),
        float(np.mean([alignment.chance.value for alignment in far_aligned])),
        training,
        generation,
    )


def far_places(places: list[Place]) -> list[Place]:
    """The places beyond the training text: the paper's claims are about these."""
    return [place for place in places if place.at > TRAINED_TO]


def plot(result: Result) -> Figure:
    # The points are drawn as an image: thousands of them would make the SVG large.
    figure = Figure(figsize=(9.6, 4.2), layout="constrained", dpi=200)
    left, right = figure.subplots(1, 2, width_ratios=(1.25, 1))
    _plot_lengths(left, result.places)
    _plot_continuations(right, result)
    return figure


def _plot_lengths(axes: Axes, places: list[Place]) -> None:
    random = np.random.default_rng(0)
    tokens = [length.tokens for length in places[0].by_tokens]
    for place, side, style in zip(places, np.linspace(-0.27, 0.27, 4), styles(), strict=True):
        beside = np.array(tokens) * 2.0**side
        x = np.repeat(beside, [length.prompts for length in place.by_tokens])
        y = np.concatenate([lengths.drop_missing(length.each) for length in place.by_tokens])
        jittered = x * 2 ** random.uniform(-0.08, 0.08, len(x))
        points: dict[str, Any] = {"s": 7, "linewidths": 0, "alpha": 0.2, "rasterized": True}
        axes.scatter(jittered, y, color=style["color"], marker=style["marker"], **points)
        means = [length.accuracy for length in place.by_tokens]
        style |= {"ms": 5, "mec": "white", "mew": 0.6}
        plot_estimates(axes, beside, means, label=place.name, **style)
    token_axis(axes, tokens, "tokens generated")
    axes.set(ylabel="word accuracy", ylim=(-0.03, 1.2), yticks=np.linspace(0, 1, 6))
    axes.grid(alpha=0.3)
    axes.legend(title="integers near", ncols=4, loc="upper right", fontsize=8, title_fontsize=8)


def _plot_continuations(axes: Axes, result: Result) -> None:
    cross: dict[str, Any] = {"s": 22, "marker": "x", "color": "black", "linewidths": 1}
    line: dict[str, Any] = {"color": "black", "lw": 1}
    for column, (place, style) in enumerate(zip(result.places, styles(), strict=True)):
        each = sorted(place.alignment.each, key=lambda one: one.accuracy)
        values = np.array([one.accuracy for one in each])
        slipped = np.array([one.slips > 0 for one in each], bool)
        x = column + swarm(values, bin_width=0.01, most=0.45)
        dot: dict[str, Any] = {"s": 9, "color": style["color"], "marker": style["marker"]}
        axes.scatter(x[~slipped], values[~slipped], linewidths=0, **dot)
        axes.scatter(x[slipped], values[slipped], **cross)
        ends = (column - 0.48, column + 0.48)
        axes.hlines(place.alignment.chance.value or 0, *ends, linestyle="--", **line)
        axes.hlines(place.oracles[result.oracle_bound], *ends, **line)
    axes.scatter([], [], s=9, color="0.4", label="in step to the end")
    axes.scatter([], [], label="slipped", **cross)
    axes.plot([], [], label=f"oracle, powers of primes up to {result.oracle_bound}", **line)
    axes.plot([], [], "--", label="chance level", **line)
    axes.set_xticks(range(len(result.places)), [place.name for place in result.places])
    axes.set(xlim=(-0.6, len(result.places) - 0.4), ylim=(0, axes.get_ylim()[1] * 1.2))
    axes.set(xlabel="integers near", ylabel="word accuracy of a whole continuation")
    axes.grid(alpha=0.3)
    axes.legend(ncols=2, loc="upper center", fontsize=8, handletextpad=0.5, columnspacing=1)


def caption(result: Result) -> str:
    how, counts = result.generation, result.counts
    means = [place.whole.accuracy.value or 0 for place in result.places]
    return (
        "Word accuracy of continuations that take the likeliest token each time (β = ∞):"
        f" {how.prompts} prompts of {how.tokens} tokens (each token is {result.training.token})"
        f" near each of {join(place.name for place in result.places)}, seed {how.seed}. Left:"
        " accuracy of the first tokens generated, a point for each prompt, and means with 95 %"
        " intervals (bootstrap over prompts). The places are drawn side by side. Right: each"
        f" continuation of {result.places[0].whole.tokens} tokens. Crosses mark continuations"
        " that slipped: they left out or added words. Dashed: the chance level, the accuracy of"
        " unrelated text with the same word frequencies. Solid: the oracle that knows n modulo the"
        f" powers of the primes up to {result.oracle_bound}, the one that matches the model best."
        f" Over all tokens the mean accuracy is {min(means):.3f} to {max(means):.3f}, depending on"
        f" the place. Of {counts.continuations} continuations, {counts.low} have an accuracy below"
        f" {LOW}, {counts.collapsed} are no better than chance, and {counts.slipped} slipped."
    )


def table(result: Result) -> Table:
    header = ["integers near", "tokens", "word accuracy", "low", "high", "standard deviation"]
    header += ["minimum", "lower quartile", "median", "upper quartile", "maximum", "prompts"]
    header.append(f"oracle, powers of primes up to {result.oracle_bound}")
    rows = []
    for place in result.places:
        oracle = cell(place.oracles[result.oracle_bound])
        for length in place.by_tokens:
            numbers = map(cell, [*length.accuracy, length.deviation, *length.quantiles])
            rows.append([place.name, length.tokens, *numbers, length.prompts, oracle])
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    far, trends, counts = far_places(result.places), result.far, result.far_counts
    first, last = far[0].by_tokens[0].tokens, far[0].whole.tokens
    means = [f"{format_number(place.whole.accuracy.value)} near {place.name}" for place in far]
    chance = [f"{format_estimate(place.alignment.chance)} near {place.name}" for place in far]
    oracle = [f"{place.oracles[result.oracle_bound]:.3f}" for place in far]
    return [
        *(_settling_verdict(place, result.training) for place in far),
        Verdict(
            key="same-at-all-scales",
            claim=f"Accuracy does not depend on the scale, from {far[0].name} to {far[-1].name}.",
            paper="not affected",
            ours=f"{', '.join(means)}; change from the first to the last:"
            f" {format_estimate(trends.scale_change)}",
            criterion=f"the interval of the change is within ±{STEADY}",
            agrees=within(trends.scale_change, -STEADY, STEADY),
            why="The oracle that knows n modulo the powers of the primes up to"
            f" {result.oracle_bound} matches the model best. Its accuracy is {', '.join(oracle)}:"
            " the text itself changes by that much.",
        ),
        Verdict(
            key="highest-for-few",
            claim="Accuracy is highest on average when few tokens are generated.",
            paper="it is",
            ours=f"highest at {plural(trends.best_tokens, 'token')},"
            f" {format_number(trends.best_accuracy)}; accuracy at {plural(first, 'token')} minus"
            f" accuracy at {last}: {format_estimate(trends.fall)}, the same prompts near"
            f" {join(place.name for place in far)}",
            criterion="accuracy is highest at 8 tokens or fewer and the interval of the difference"
            " is above 0",
            agrees=trends.best_tokens <= 8 and above(trends.fall, 0),
            why="Unless every token is a word, a prompt may end inside a word, and the first token"
            " may only complete it.",
        ),
        Verdict(
            key="varies-for-few",
            claim="Accuracy varies more between prompts when few tokens are generated.",
            paper="it does",
            ours=f"standard deviation {format_estimate(trends.deviation_first)} at"
            f" {plural(first, 'token')}, {format_estimate(trends.deviation_last)} at {last};"
            f" difference {format_estimate(trends.deviation_fall)}",
            criterion="the interval of the difference is above 0",
            agrees=above(trends.deviation_fall, 0),
            why="A share of one or two words varies by chance alone, whatever the model knows.",
        ),
        Verdict(
            key="independent-of-length",
            claim="Accuracy becomes largely independent of the length as more is generated.",
            paper="it does",
            ours=f"{format_number(trends.quarter_accuracy)} over"
            f" {plural(trends.quarter_tokens, 'token')}, {format_number(trends.whole_accuracy)}"
            f" over {last}: change {format_estimate(trends.late_change)}",
            criterion=f"the interval of the change is within ±{STEADY}",
            agrees=within(trends.late_change, -STEADY, STEADY),
            why="The paper's accuracy is over all tokens. It averages over the earlier tokens, so"
            " it falls more slowly than the accuracy of the last words.",
        ),
        Verdict(
            key="two-clusters",
            claim="The accuracy of a whole continuation is either around 0.4 (the majority) or just"
            " below 0.1.",
            paper="two clusters",
            ours=f"of {counts.continuations} continuations, {counts.majority} have {MAJORITY[0]} to"
            f" {MAJORITY[1]}, {counts.low_or_collapsed} have less than {LOW} or have collapsed (no"
            f" better than chance), {counts.between} are between; share that has collapsed:"
            f" {format_estimate(counts.collapsed_share)}",
            criterion="more than half of the continuations are in the first group, and fewer are"
            " between the groups than in the second group",
            agrees=counts.majority > counts.continuations / 2
            and counts.between < counts.low_or_collapsed,
            why=f"Of the {counts.collapsed} collapsed continuations, {counts.explained} are well"
            " above chance with each word compared at its own shift. These left out or added"
            " words, and need not be hard to predict. A continuation that slips later has an"
            " accuracy between the two groups.",
        ),
        Verdict(
            key="chance-level",
            claim="The chance level is just below 0.1.",
            paper="just below 0.1",
            ours=", ".join(chance),
            criterion="the mean of these chance levels is from 0.08 to 0.1",
            agrees=0.08 <= result.far_chance <= 0.1,
            why="The chance level is Σ f̂ f over all words, with the frequencies f̂ in the"
            " continuations and f in the text. It depends on the model.",
        ),
    ]


def _settling_verdict(place: Place, training: TrainingFacts) -> Verdict:
    return Verdict(
        key=f"settles-{place.name}",
        claim=f"Word accuracy settles near 0.4 (integers near {place.name}).",
        paper="around 0.4",
        ours=f"{format_estimate(place.whole.accuracy)} over {place.whole.tokens} tokens",
        criterion=f"the interval overlaps {SETTLED[0]} to {SETTLED[1]}",
        agrees=overlaps(place.whole.accuracy, *SETTLED),
        why=f"The model was trained for {training.seconds / 60:.1f} minutes on"
        f" {training.tokens / 1e6:.3g} million tokens. With each word compared at its own shift,"
        f" the accuracy is {format_estimate(place.alignment.realigned_accuracy)}. The share of"
        f" continuations that slipped is {format_estimate(place.alignment.slipped)}.",
    )
