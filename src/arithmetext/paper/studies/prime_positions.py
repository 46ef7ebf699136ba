"""Words generated where primes stand, and words that stand where primes are generated."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, pi
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ...evaluation.estimates import Estimate, above, difference, wilson
from ...evaluation.words import PRIME, WordScore, at_primes, word_scores
from ...trees import square_free, unpack
from ..figures import COLOURS
from ..runs import Comparison, Generation, comparison
from ..study import Table, Verdict
from ..wording import format_estimate, format_integer

TITLE = "Words at the positions of primes"
PLACE = 132
COST = {"laptop": 1, "gpu": 1}

PRIME_WORD = "10"
SHOWN = 12  # bars
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

    counts: list[tuple[str, int]]  # the most frequent word first
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
        primes[name] = {
            "generated": side(
                [(unpack(word) or "malformed", count) for word, count in generated],
                score.recall,
                _square_free_share(scores, "predicted"),
            ),
            "standing": side(
                [(unpack(word), count) for word, count in standing],
                score.precision,
                _square_free_share(scores, "true"),
            ),
        }
    return summarise(settings.at, settings.generation, primes)


def _square_free_share(scores: Sequence[WordScore], kind: str) -> float:
    """The share of square-free words among all words but primes."""
    counts = [
        (square_free(unpack(score.word)), int(getattr(score, kind)))
        for score in scores
        if score.word != PRIME
    ]
    return sum(count for free, count in counts if free) / max(1, sum(count for _, count in counts))


def side(counts: list[tuple[str, int]], right: Estimate, square_free_share: float) -> Side:
    places = sum(count for _, count in counts)
    wrong = [(word, count) for word, count in counts if word != PRIME_WORD]
    shown = [pair for i, pair in enumerate(counts) if i < SHOWN or pair[0] == PRIME_WORD]
    rest = places - sum(count for _, count in shown)
    if rest:
        shown.append(("all others", rest))
    return Side(
        counts,
        places,
        [Bar(word, count, count / places) for word, count in shown],
        right,
        wilson(
            sum(count for word, count in wrong if square_free(word)),
            sum(count for _, count in wrong),
        ),
        square_free_share,
    )


def summarise(at: int, generation: Generation, primes: dict[str, dict[str, Side]]) -> Result:
    gpt, hmm = primes["GPT-2"], primes["HMM"]
    density = 1 / log(at)
    return Result(
        at,
        generation,
        primes,
        excess={name: difference(gpt[name].right, hmm[name].right) for name in SIDES},
        odd_square_free=(8 / pi**2 - 2 * density) / (1 - 2 * density),
    )


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
    return {"facecolor": COLOURS[2] if square_free(word) else "0.85"}


def caption(result: Result) -> str:
    how = result.generation
    right = "; ".join(
        f"{name} {format_estimate(sides['generated'].right)} and"
        f" {format_estimate(sides['standing'].right)}"
        for name, sides in result.primes.items()
    )
    return (
        "Left: the words generated where primes stand. Right: the words that stand where primes are"
        f" generated. Shown are the {SHOWN} most frequent words and the sum of the others, as"
        " shares of the number of places above each panel. Hatched bars are the places where the"
        " text and the continuation both have the word of a prime. Continuations (β = ∞) of"
        f" {how.prompts} prompts of {how.tokens} tokens near {format_integer(result.at)} by as many"
        f" tokens, seed {how.seed}. Shares of the hatched bars, left and right, with"
        f" intervals of 95 % over prompts: {right}."
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
    more = [_more_primes(result, key) for key in SIDES]
    return more + [_confuses_square_free(result, key) for key in SIDES]


def _more_primes(result: Result, key: str) -> Verdict:
    gpt, hmm = (result.primes[name][key] for name in ("GPT-2", "HMM"))
    excess = result.excess[key]
    return Verdict(
        key=f"more-primes-{key}",
        claim=f"Of the words {SIDES[key]}, more are 10 for the GPT-2 than for the HMM.",
        paper="more",
        ours=f"GPT-2 {format_estimate(gpt.right)}, HMM {format_estimate(hmm.right)}; difference"
        f" {format_estimate(excess)}",
        criterion="the interval of the difference is above 0",
        agrees=above(excess, 0),
        why=f"Over {gpt.places:,} and {hmm.places:,} places. A model that generates no prime has no"
        " share.",
    )


def _confuses_square_free(result: Result, key: str) -> Verdict:
    gpt, hmm = (result.primes[name][key] for name in ("GPT-2", "HMM"))
    whole = {"generated": "all generated words", "standing": "all words of the text"}[key]
    return Verdict(
        key=f"square-free-{key}",
        claim=f"Primes are very frequently confused with square-free words ({SIDES[key]}).",
        paper="very frequently",
        ours=f"{format_estimate(gpt.wrong_square_free)} of the wrong words are square-free; of"
        f" {whole} except primes, {gpt.square_free:.3f} are; HMM"
        f" {format_estimate(hmm.wrong_square_free)}",
        criterion="the interval for the wrong words is above the share for all words",
        agrees=above(gpt.wrong_square_free, gpt.square_free),
        why=f"Of the odd numbers that are not prime, {result.odd_square_free:.3f} are square-free,"
        " so a model that knew only which numbers are odd would reach that share. Places are"
        " treated as independent.",
    )
