"""What is generated where primes stand, and what stands where primes are generated."""

from collections.abc import Sequence
from math import log, pi
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from ...evaluation.codec import to_json
from ...evaluation.estimates import Estimate, difference, said, wilson
from ...evaluation.words import PRIME, WordScore, at_primes, word_scores
from ...integers import format_integer
from ...trees import square_free, unpack
from ..figures import COLOURS
from ..runs import compared, continuations
from ..study import Verdict

TITLE = "Words at the places of primes"
PLACE = 132
COST = {"laptop": 1, "gpu": 1}

PRIMES = "10"
SHOWN = 12
SIDES = {
    "generated": "generated where primes stand",
    "standing": "standing where primes are generated",
}

Counts = list[tuple[str, int]]


def settings(scale: str) -> dict[str, Any]:
    return compared(scale)


def run(settings: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, recipe in settings["models"].items():
        _, made = continuations(recipe, settings["at"], settings["continuing"])
        generated, standing = at_primes(made.predicted, made.true)
        scores = word_scores(made.predicted, made.true)
        primes = next(score for score in scores if score.word == PRIME)
        found[name] = {
            "generated": [[unpack(word) or "malformed", count] for word, count in generated],
            "standing": [[unpack(word), count] for word, count in standing],
            "right": {"generated": to_json(primes.recall), "standing": to_json(primes.precision)},
            "square_free": {
                "generated": _square_free_share(scores, "predicted"),
                "standing": _square_free_share(scores, "true"),
            },
        }
    return {"at": settings["at"], "primes": found, **settings["continuing"]}


def _square_free_share(scores: list[WordScore], kind: str) -> float:
    """Of all words but primes, how many are square-free."""
    counts = [
        (square_free(unpack(score.word)), int(getattr(score, kind)))
        for score in scores
        if score.word != PRIME
    ]
    free = sum(count for is_free, count in counts if is_free)
    return free / max(1, sum(count for _, count in counts))


def plot(data: dict[str, Any]) -> Figure:
    models = data["primes"]
    figure = Figure(figsize=(9.6, 3.4 * len(models)), layout="constrained")
    grid = figure.subplots(len(models), len(SIDES), sharey=True, squeeze=False)
    for row, (name, found) in zip(grid, models.items(), strict=True):
        for axes, (side, title) in zip(row, SIDES.items(), strict=True):
            _bars(axes, found[side])
            axes.set_title(f"{name}: {title} ({_total(found[side]):,})", fontsize=10)
        row[0].set_ylabel("share of these places")
    kinds = {"10, which is right": PRIMES, "other square-free words": "1010", "others": "1100"}
    patches = [Patch(label=label, **_style(word)) for label, word in kinds.items()]
    grid[0, 0].set_ylim(0, grid[0, 0].get_ylim()[1] * 1.1)
    grid[0, 1].legend(handles=patches, fontsize=8, loc="upper right")
    return figure


def _bars(axes: Axes, counts: Counts) -> None:
    shown = _shown(counts)
    total = max(1, _total(counts))
    for place, (word, count) in enumerate(shown):
        axes.bar(place, count / total, edgecolor="black", linewidth=0.6, **_style(word))
    axes.set_xticks(range(len(shown)), [word for word, _ in shown], rotation=60, ha="right")
    axes.tick_params(axis="x", labelsize=8, length=2, pad=1)
    for label in axes.get_xticklabels():
        label.set_rotation_mode("anchor")
        label.set_color(COLOURS[1] if label.get_text() == PRIMES else "black")
    axes.grid(alpha=0.3, axis="y")
    axes.set_axisbelow(True)
    if not counts:
        axes.text(0.5, 0.5, "there are none", transform=axes.transAxes, ha="center")


def _style(word: str) -> dict[str, Any]:
    if word == PRIMES:
        return {"facecolor": COLOURS[1], "hatch": "///"}
    return {"facecolor": COLOURS[2] if square_free(word) else "0.85"}


def _shown(counts: Counts) -> Counts:
    """The commonest words, `10` wherever it stands, and the sum of all others."""
    shown = [pair for i, pair in enumerate(counts) if i < SHOWN or pair[0] == PRIMES]
    rest = _total(counts) - _total(shown)
    return [*shown, ("all others", rest)] if rest else shown


def caption(data: dict[str, Any]) -> str:
    right = "; ".join(
        f"{name} {said(found['right']['generated'])} and {said(found['right']['standing'])}"
        for name, found in data["primes"].items()
    )
    return (
        "Left, the words that were generated where primes stand; right, the words that stand where"
        f" primes were generated: the {SHOWN} commonest and the sum of the others, as shares of the"
        " number of places above each panel. Hatched bars are the places where both are prime. The"
        f" continuations (β = ∞) are those of {data['prompts']} prompts of {data['tokens']} tokens"
        f" near {format_integer(data['at'])} by as many tokens, seed {data['seed']}. Shares of the"
        " hatched"
        f" bars, left and right, with intervals of 95 % over prompts: {right}."
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    rows = [
        [name, title, word, count, round(count / _total(found[side]), 4)]
        for name, found in data["primes"].items()
        for side, title in SIDES.items()
        for word, count in _shown(found[side])
    ]
    return ["model", "words", "word", "places", "share"], rows


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    models = data["primes"]
    return [
        *(_higher(models, side) for side in SIDES),
        *(_confused(models, side, data["at"]) for side in SIDES),
    ]


def _higher(models: dict[str, Any], side: str) -> Verdict:
    ours, theirs = (Estimate(**models[name]["right"][side]) for name in ("GPT-2", "HMM"))
    places = (f"{_total(models[name][side]):,} places" for name in ("GPT-2", "HMM"))
    excess = difference(ours, theirs)
    return Verdict(
        claim=f"Of the words {SIDES[side]}, more are 10 for the GPT-2 than for the HMM.",
        paper="more",
        ours=f"GPT-2 {said(ours)}, HMM {said(theirs)}; difference {said(excess)} (agrees if its"
        " interval is above 0)",
        agrees=excess.low is not None and excess.low > 0,
        why=f"Over {' and '.join(places)}; where no prime is generated nothing is known.",
    )


def _confused(models: dict[str, Any], side: str, at: int) -> Verdict:
    """Whether wrong words are square-free more often than the words that come on that side."""
    ours, theirs = (_wrong_square_free(models[name][side]) for name in ("GPT-2", "HMM"))
    expected = models["GPT-2"]["square_free"][side]
    primes = 1 / log(at)
    odd = (8 / pi**2 - 2 * primes) / (1 - 2 * primes)
    return Verdict(
        claim=f"Primes are very frequently confused with square-free words ({SIDES[side]}).",
        paper="very frequently",
        ours=f"square-free are {said(ours)} of the wrong ones; of all that are {side}, primes left"
        f" out, {expected:.3f} are (agrees if the interval is above that); HMM {said(theirs)}",
        agrees=ours.low is not None and ours.low > expected,
        why=f"Of odd numbers that are no primes {odd:.3f} are square-free, so a model that knew"
        " only which numbers are odd would come to that. Places are taken for independent.",
    )


def _wrong_square_free(counts: Counts) -> Estimate:
    wrong = [(word, count) for word, count in counts if word != PRIMES]
    return wilson(_total([pair for pair in wrong if square_free(pair[0])]), _total(wrong))


def _total(counts: Counts) -> int:
    return sum(count for _, count in counts)
