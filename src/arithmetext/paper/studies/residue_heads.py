"""Which attention heads hold what the model knows of a prime? (not in the paper)"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import Estimate
from ...evaluation.head_roles import (
    PRIMES,
    Head,
    HeadRoles,
    HeadSettings,
    attention_at,
    head_scores,
    summarise,
    telling_offset,
)
from ...integers import format_integer
from ..figures import COLOURS, plot_estimates
from ..runs import TEST_NEAR, TrainedModel, TrainingFacts, word_model
from ..study import Table, Verdict
from ..wording import cell, format_number, join, sentences

TITLE = "Which heads know which prime?"
ORDER = 222
COST = {"laptop": 35, "gpu": 120}


@dataclass(frozen=True)
class Settings:
    models: tuple[TrainedModel, ...]
    chosen: HeadSettings  # where the head of each prime is chosen
    shown: HeadSettings  # other text, on which all numbers are measured


@dataclass(frozen=True)
class Best:
    """The head whose loss costs the group of a prime most beyond all other groups."""

    prime: int
    head: int  # its index
    offset: int  # modulo the prime: attention there tells most whether the prime divides n
    divides: Estimate  # attention at this offset, if the prime divides n
    otherwise: Estimate


@dataclass(frozen=True)
class Result:
    roles: HeadRoles
    best: list[Best]  # heads and offsets are chosen on other text
    shown: HeadSettings
    training: TrainingFacts


def settings(scale: str) -> Settings:
    small = scale == "laptop"
    return Settings(
        (word_model(scale),),
        HeadSettings(TEST_NEAR, windows=5 if small else 60, blocks=5, seed=1),
        HeadSettings(TEST_NEAR, windows=20 if small else 100, blocks=10, seed=0),
    )


def run(settings: Settings) -> Result:
    [model] = settings.models
    first = model.outputs(head_scores, settings.chosen)
    second = model.outputs(head_scores, settings.shown)
    choosing, roles = summarise(first, settings.chosen), summarise(second, settings.shown)
    best = []
    for prime, index in zip(PRIMES, costliest(choosing), strict=True):
        head = choosing.heads[index]
        offset = telling_offset(first, head, prime)
        both = attention_at(second, settings.shown, head, prime, offset)
        best.append(Best(prime, index, offset, *both))
    return Result(roles, best, settings.shown, model.training())


def costliest(roles: HeadRoles) -> list[int]:
    """By prime: the head whose loss raises the nats of its group most above those of all others."""

    def excess(head: Head, prime: int) -> float:
        damage = [estimate.value or 0.0 for estimate in head.damage]
        return damage[prime] - max(damage[:prime] + damage[prime + 1 :])

    return [
        max(range(len(roles.heads)), key=lambda k: excess(roles.heads[k], prime))
        for prime in range(len(PRIMES))
    ]


class Specialist(NamedTuple):
    prime: int
    head: Head
    damage: Estimate
    largest_other: float  # the largest damage in another group


def specialists(result: Result) -> list[Specialist]:
    """The heads that matter for one prime above all.

    Losing them costs its group over twice as much as any other, and over 0.05 nats a word; both for
    the low end of the interval.
    """
    found = []
    for k, best in enumerate(result.best):
        head = result.roles.heads[best.head]
        others = max(e.value or 0.0 for i, e in enumerate(head.damage) if i != k)
        if (head.damage[k].low or 0.0) > max(2 * others, 0.05):
            found.append(Specialist(PRIMES[k], head, head.damage[k], others))
    return found


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(12, 6.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.1))
    _plot_damage(left, result)
    _plot_attention(right, result)
    return figure


def _plot_damage(axes: Axes, result: Result) -> None:
    heads = [each for each in result.roles.heads if _matters(each)] or result.roles.heads
    damage = np.array([[e.value or 0.0 for e in head.damage] for head in heads])
    image = axes.imshow(damage, vmin=0, vmax=1, cmap="magma_r", aspect="auto")
    for row, column in np.argwhere(damage >= 0.05):
        value = damage[row, column]
        colour = "white" if value > 0.6 else "black"
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
    axes.set_xticks(range(len(PRIMES) + 1), [*map(str, PRIMES), "none"])
    axes.set_yticks(range(len(heads)), [name(head) for head in heads], fontsize=8)
    axes.set(
        xlabel="the only prime up to 19 that divides n", ylabel="head without which (layer.head)"
    )
    assert axes.figure is not None
    axes.figure.colorbar(image, ax=axes, label="nats lost per word")


def _matters(head: Head) -> bool:
    return any((estimate.value or 0.0) >= 0.1 for estimate in head.damage)


def name(head: Head) -> str:
    """Layers and heads count from 1.

    >>> from types import SimpleNamespace
    >>> name(SimpleNamespace(layer=5, head=1))
    '6.2'
    """
    return f"{head.layer + 1}.{head.head + 1}"


def _plot_attention(axes: Axes, result: Result) -> None:
    """Attention of the best head of each prime at its offset."""
    x = np.arange(len(PRIMES))
    both = {
        "p divides n": [best.divides for best in result.best],
        "p does not divide n": [best.otherwise for best in result.best],
    }
    for (label, estimates), side, colour in zip(both.items(), (-0.1, 0.1), COLOURS, strict=False):
        plot_estimates(axes, x + side, estimates, color=colour, marker="o", ls="", label=label)
    axes.plot(x, [1 / p for p in PRIMES], color="0.5", ls=":", marker="_", label="uniform: 1/p")
    names = [
        f"{best.prime}\n{name(result.roles.heads[best.head])}\n{best.offset}"
        for best in result.best
    ]
    axes.set_xticks(x, names)
    axes.set(xlabel="prime p, its best head, and the offset r", ylim=(0, 1))
    axes.set_ylabel("attention at all n − r − kp")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8)


def in_short(result: Result) -> str:
    found = specialists(result)
    if not found:
        return (
            f"No prime up to {PRIMES[-1]} has a head of its own: the head that matters most for it"
            " matters at least half as much for other integers, or too little to tell."
        )
    damage = join(
        f"{format_number(each.damage.value, 2)} nats more where {each.prime} is that prime"
        f" (head {name(each.head)})"
        for each in found
    )
    return (
        f"For {len(found)} of the {len(PRIMES)} primes up to {PRIMES[-1]}, one head matters for"
        " this prime above all. Among the integers that only one of these primes divides, words"
        f" cost, without this head, {damage}, and at most"
        f" {format_number(max(each.largest_other for each in found), 2)} nats more in any other"
        " group."
    )


def caption(result: Result) -> str:
    how = result.shown
    return sentences(
        f"Left: what is lost if the output of one head is replaced by its mean, near"
        f" {format_integer(how.at)} ({how.windows} windows from {how.blocks} blocks of unseen text;"
        f" {join(map(str, result.roles.words))} words in the columns). A column has the integers n"
        " whose only prime up to 19 is that one; the last has those without such primes. Heads that"
        " cost less than 0.1 everywhere are left out. One model.",
        "Right: for each prime the head whose loss costs its column most beyond all others, and the"
        " attention that it pays to the integers n − r, n − r − p, … while the model predicts the"
        " word of n (r = 0: to multiples of p, if p divides n). Heads and offsets r were chosen on"
        " other windows; 95 % intervals over blocks.",
        "If the two points are far apart, the head finds its integers by what they are; if they are"
        " equal and above 1/p, it looks at fixed distances.",
    )


def table(result: Result) -> Table:
    header = [
        "head", *(f"nats lost, {p} divides n" for p in PRIMES), "no prime up to 19",
        "best for", "attention at n − r − kp, if p divides n / if not",
    ]  # fmt: skip
    rows = []
    for index, head in enumerate(result.roles.heads):
        best = [each for each in result.best if each.head == index]
        attention = (
            f"r = {each.offset}: {format_number(each.divides.value)} /"
            f" {format_number(each.otherwise.value)}"
            for each in best
        )
        damage = [cell(estimate.value) for estimate in head.damage]
        primes = ", ".join(str(each.prime) for each in best)
        rows.append([name(head), *damage, primes, "; ".join(attention)])
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    """None: the paper does not look inside the model."""
    return []
