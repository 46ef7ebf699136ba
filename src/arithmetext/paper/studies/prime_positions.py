"""Words generated where primes stand, and words that stand where primes are generated."""

from dataclasses import dataclass
from math import log, pi
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ...evaluation.estimates import Estimate, above, difference, wilson
from ...evaluation.words import PRIME, at_primes, word_scores
from ...trees import is_square_free, unpack
from ..figures import COLOURS
from ..runs import Comparison, Generation, comparison
from ..study import Table, Verdict
from ..wording import describe_continuations, format_estimate

TITLE = "Words at the positions of primes"
PLACE = 132
COST = {"laptop": 1, "gpu": 1}

PRIME_WORD = "10"
SHOWN = 12  # bars
Counts = list[tuple[str, int]]  # words, and how often they occur
SIDES = {
    "generated": "generated where primes stand",
    "standing": "standing where primes are generated",
}


@dataclass(frozen=True)
class Bar:
    word: str
    count: int
    share: float


@dataclass(frozen=True)
class Side:
    """The words generated where primes stand, or those standing where primes are generated."""

    counts: Counts  # the most frequent word first
    places: int
    bars: list[Bar]  # the most frequent words, 10, and all others together
    right: Estimate  # share of 10
    wrong_square_free: Estimate  # share of square-free words among the others
    square_free: float  # that share among all words generated, or all words of the text, but 10


@dataclass(frozen=True)
class Result:
    at: int
    generation: Generation
    primes: dict[str, dict[str, Side]]  # by model, then by SIDES
    excess: dict[str, Estimate]  # `right` of the GPT-2 minus `right` of the HMM, by SIDES
    odd_square_free: float  # share of square-free numbers among odd numbers that are not prime


def settings(scale: str) -> Comparison:
    return comparison(scale)


def run(settings: Comparison) -> Result:
    primes = {}
    for name, model in settings.models.items():
        _, made = model.continuations(settings.at, settings.generation)
        generated, standing = at_primes(made.predicted, made.true)
        scores = word_scores(made.predicted, made.true)
        score = next(score for score in scores if score.word == PRIME)
        all_generated = [(each.word, each.predicted) for each in scores]
        all_standing = [(each.word, each.true) for each in scores]
        primes[name] = {
            "generated": side(_spelled(generated), score.recall, _spelled(all_generated)),
            "standing": side(_spelled(standing), score.precision, _spelled(all_standing)),
        }
    return summarise(settings.at, settings.generation, primes)


def _spelled(counts: list[tuple[int, int]]) -> Counts:
    return [(unpack(word) or "malformed", count) for word, count in counts]


def side(counts: Counts, right: Estimate, everywhere: Counts) -> Side:
    """Words at the primes and how often; `everywhere` counts words at all places."""
    places = sum(count for _, count in counts)
    shown = [pair for i, pair in enumerate(counts) if i < SHOWN or pair[0] == PRIME_WORD]
    rest = places - sum(count for _, count in shown)
    if rest:
        shown.append(("all others", rest))
    bars = [Bar(word, count, count / places) for word, count in shown]
    free, among = _count_square_free(everywhere)
    wrong = wilson(*_count_square_free(counts))
    return Side(counts, places, bars, right, wrong, free / max(1, among))


def _count_square_free(counts: Counts) -> tuple[int, int]:
    """Occurrences of square-free words except 10, and of all words except 10."""
    others = [(word, count) for word, count in counts if word != PRIME_WORD]
    free = sum(count for word, count in others if is_square_free(word))
    return free, sum(count for _, count in others)


def summarise(at: int, generation: Generation, primes: dict[str, dict[str, Side]]) -> Result:
    gpt, hmm = primes["GPT-2"], primes["HMM"]
    excess = {name: difference(gpt[name].right, hmm[name].right) for name in SIDES}
    # Of the odd numbers, about 8/π² are square-free and 2 / ln(n) are prime.
    odd_primes = 2 / log(at)
    odd_square_free = (8 / pi**2 - odd_primes) / (1 - odd_primes)
    return Result(at, generation, primes, excess, odd_square_free)


def plot(result: Result) -> Figure:
    models = result.primes
    figure = Figure(figsize=(9.6, 3.4 * len(models)), layout="constrained")
    grid = figure.subplots(len(models), len(SIDES), sharey=True, squeeze=False)
    for row, (name, sides) in zip(grid, models.items(), strict=True):
        for axes, (key, title) in zip(row, SIDES.items(), strict=True):
            _plot_bars(axes, sides[key].bars)
            axes.set_title(f"{name}: {title} ({sides[key].places:,})", fontsize=10)
        row[0].set_ylabel("share of these places")
    kinds = {"10, correct": PRIME_WORD, "other square-free words": "1010", "others": "1100"}
    patches = [Patch(label=label, **_style(word)) for label, word in kinds.items()]
    grid[0, 0].set_ylim(0, grid[0, 0].get_ylim()[1] * 1.1)
    grid[0, 1].legend(handles=patches, fontsize=8, loc="upper right")
    return figure


def _plot_bars(axes: Axes, bars: list[Bar]) -> None:
    for x, bar in enumerate(bars):
        axes.bar(x, bar.share, edgecolor="black", linewidth=0.6, **_style(bar.word))
    axes.set_xticks(range(len(bars)), [bar.word for bar in bars], rotation=60, ha="right")
    axes.tick_params(axis="x", labelsize=8, length=2, pad=1)
    for label in axes.get_xticklabels():
        label.set_rotation_mode("anchor")
        label.set_color(COLOURS[1] if label.get_text() == PRIME_WORD else "black")
    axes.grid(alpha=0.3, axis="y")
    axes.set_axisbelow(True)
    if not bars:
        axes.text(0.5, 0.5, "there are none", transform=axes.transAxes, ha="center")


def _style(word: str) -> dict[str, Any]:
    if word == PRIME_WORD:
        return {"facecolor": COLOURS[1], "hatch": "///"}
    return {"facecolor": COLOURS[2] if is_square_free(word) else "0.85"}


def caption(result: Result) -> str:
    right = "; ".join(
        f"{name} {format_estimate(sides['generated'].right)} and"
        f" {format_estimate(sides['standing'].right)}"
        for name, sides in result.primes.items()
    )
    return (
        "Left: the words generated where primes stand. Right: the words that stand where primes are"
        f" generated. Shown are the {SHOWN} most frequent words and the sum of the others, as"
        " shares of the number of places above each panel. Hatched bars are the places where the"
        " text and the continuation both have the word of a prime. "
        f"{describe_continuations(result.at, result.generation)}. Shares of the hatched bars, left"
        f" and right, with intervals of 95 % over prompts: {right}."
    )


def table(result: Result) -> Table:
    rows = [
        [name, title, bar.word, bar.count, round(bar.share, 4)]
        for name, sides in result.primes.items()
        for key, title in SIDES.items()
        for bar in sides[key].bars
    ]
    return ["model", "words", "word", "places", "share"], rows


def verdicts(result: Result) -> list[Verdict]:
    gpt, hmm = result.primes["GPT-2"], result.primes["HMM"]
    everywhere = {"generated": "all generated words", "standing": "all words of the text"}
    more = [
        Verdict(
            key=f"more-primes-{key}",
            claim=f"Of the words {title}, more are 10 for the GPT-2 than for the HMM.",
            paper="more",
            ours=f"GPT-2 {format_estimate(gpt[key].right)}, HMM {format_estimate(hmm[key].right)};"
            f" difference {format_estimate(result.excess[key])}",
            criterion="the interval of the difference is above 0",
            agrees=above(result.excess[key], 0),
            why=f"Over {gpt[key].places:,} and {hmm[key].places:,} places. A model that generates"
            " no prime has no share.",
        )
        for key, title in SIDES.items()
    ]
    confused = [
        Verdict(
            key=f"square-free-{key}",
            claim=f"Primes are very frequently confused with square-free words ({title}).",
            paper="very frequently",
            ours=f"{format_estimate(gpt[key].wrong_square_free)} of the wrong words are"
            f" square-free; of {everywhere[key]} except primes, {gpt[key].square_free:.3f} are; HMM"
            f" {format_estimate(hmm[key].wrong_square_free)}",
            criterion="the interval for the wrong words is above the share for all words",
            agrees=above(gpt[key].wrong_square_free, gpt[key].square_free),
            why=f"Of the odd numbers that are not prime, {result.odd_square_free:.3f} are"
            " square-free, so a model that knew only which numbers are odd would reach that share."
            " Places are treated as independent.",
        )
        for key, title in SIDES.items()
    ]
    return more + confused
