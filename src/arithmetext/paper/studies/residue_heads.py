"""Which attention heads hold what the model knows of a prime? (not in the paper)"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ...evaluation.ablation import (
    PRIMES,
    Attention,
    Distance,
    Head,
    HeadRoles,
    HeadSettings,
    attention_at,
    costliest_head,
    head_scores,
    main_distances,
    main_offsets,
    summarise,
)
from ...evaluation.estimates import Estimate, above
from ...integers import format_integer
from ..figures import COLOURS, plot_estimates
from ..runs import TEST_NEAR, TrainedModel, TrainingFacts, several_seeds, word_model
from ..study import Table, Verdict
from ..wording import cell, format_number, join, sentences

TITLE = "Which heads know which prime?"
ORDER = 222
COST = {"laptop": 40, "gpu": 360}


_DISTANCES = 4  # that are shown for each head

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Settings:
    models: tuple[TrainedModel, ...]
    chosen: HeadSettings  # where the head of each prime is chosen
    shown: HeadSettings  # other text, on which all numbers are measured


@dataclass(frozen=True)
class Best:
    """The head whose loss costs the group of a prime most, and where it looks."""

    prime: int
    head: int  # its index
    offset: int  # modulo the prime: where most of its attention is if the prime divides n
    there: Attention  # at this offset
    same_class: Estimate  # to the integers of this class modulo the prime, if it does not divide n
    other_offset: int  # where most of its attention is if the prime does not divide n
    elsewhere: Attention  # at this offset
    distances: list[Distance]


@dataclass(frozen=True)
class ModelHeads:
    """The heads of one model."""

    roles: HeadRoles
    best: list[Best]  # heads and offsets are chosen on other text; some primes have none


@dataclass(frozen=True)
class Result:
    models: list[ModelHeads]  # one for each seed; the figure has the first
    shown: HeadSettings
    training: TrainingFacts


def settings(scale: str) -> Settings:
    small = scale == "laptop"
    return Settings(
        several_seeds(word_model(scale), scale),
        HeadSettings(TEST_NEAR, windows=5 if small else 60, blocks=5, seed=1),
        HeadSettings(TEST_NEAR, windows=20 if small else 100, blocks=10, seed=0),
    )


def run(settings: Settings) -> Result:
    models = []
    for model in settings.models:
        first = model.outputs(head_scores, settings.chosen)
        second = model.outputs(head_scores, settings.shown)
        choosing, roles = summarise(first, settings.chosen), summarise(second, settings.shown)
        best = [_best(first, second, settings.shown, choosing, prime) for prime in PRIMES]
        models.append(ModelHeads(roles, [each for each in best if above(_damage(roles, each), 0)]))
    return Result(models, settings.shown, settings.models[0].training())


def _damage(roles: HeadRoles, best: Best) -> Estimate:
    """What losing the head of a prime costs its group."""
    return roles.heads[best.head].damage[PRIMES.index(best.prime)]


def _best(
    first: Arrays, second: Arrays, how: HeadSettings, choosing: HeadRoles, prime: int
) -> Best:
    index = costliest_head(choosing, prime)
    head = choosing.heads[index]
    offset, other = main_offsets(first, head, prime)
    return Best(
        prime,
        index,
        offset,
        attention_at(second, how, head, prime, offset),
        attention_at(second, how, head, prime, -offset % prime, "classes").otherwise,
        other,
        attention_at(second, how, head, prime, other),
        main_distances(second, head, prime, _DISTANCES),
    )


class Specialist(NamedTuple):
    prime: int
    head: Head
    damage: Estimate
    largest_other: float  # the largest damage in another group


def specialists(model: ModelHeads) -> list[Specialist]:
    """The heads of a model that matter for one prime above all.

    Losing them costs its group over twice as much as any other, and over 0.05 nats a word; both for
    the low end of the interval.
    """
    found = []
    for best in model.best:
        head, group = model.roles.heads[best.head], PRIMES.index(best.prime)
        others = max(e.value or 0.0 for i, e in enumerate(head.damage) if i != group)
        damage = head.damage[group]
        if above(damage, max(2 * others, 0.05)):
            found.append(Specialist(best.prime, head, damage, others))
    return found


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(12, 6.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.1))
    _plot_damage(left, result.models[0].roles)
    _plot_attention(right, result.models[0])
    return figure


def _plot_damage(axes: Axes, roles: HeadRoles) -> None:
    heads = [each for each in roles.heads if _matters(each)] or roles.heads
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


def _plot_attention(axes: Axes, model: ModelHeads) -> None:
    """Attention of the best head of each prime at its offset."""
    x = np.arange(len(model.best))
    points = {
        "p divides n: at n − r − kp": [best.there.divides for best in model.best],
        "otherwise: at n − r − kp": [best.there.otherwise for best in model.best],
        "otherwise: at multiples of p, less r": [best.same_class for best in model.best],
    }
    for (label, estimates), side, colour in zip(
        points.items(), (-0.15, 0, 0.15), COLOURS, strict=False
    ):
        plot_estimates(axes, x + side, estimates, color=colour, marker="o", ls="", label=label)
    uniform = [1 / best.prime for best in model.best]
    axes.plot(x, uniform, color="0.5", ls=":", marker="_", label="uniform: 1/p")
    names = [
        f"{best.prime}\n{name(model.roles.heads[best.head])}\n{best.offset}" for best in model.best
    ]
    axes.set_xticks(x, names)
    axes.set(xlabel="prime p, its best head, and the offset r", ylim=(0, 1.05))
    axes.set_ylabel("share of the head's attention")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8)


def in_short(result: Result) -> str:
    found, *others = map(specialists, result.models)
    which = f"In the first of {len(result.models)} models with different seeds:" if others else ""
    primes = [join(str(each.prime) for each in some) if some else "none" for some in others]
    elsewhere = f"Primes with such a head in the other models: {'; '.join(primes)}."
    if not found:
        return sentences(
            which,
            f"No prime up to {PRIMES[-1]} has a head of its own: the head that matters most for it"
            " matters at least half as much for other integers, or too little to tell.",
            elsewhere if others else "",
        )
    damage = join(
        f"{format_number(each.damage.value, 2)} nats more where {each.prime} is that prime"
        f" (head {name(each.head)})"
        for each in found
    )
    rest = [p for p in PRIMES if p not in {each.prime for each in found}]
    return sentences(
        which,
        f"For {len(found)} of the {len(PRIMES)} primes up to {PRIMES[-1]}, one head matters for"
        " this prime above all. Among the integers that only one of these primes divides, words"
        f" cost, without this head, {damage}, and at most"
        f" {format_number(max(each.largest_other for each in found), 2)} nats more in any other"
        " group.",
        f"For {join(map(str, rest))} there is no such head." if rest else "",
        elsewhere if others else "",
    )


def caption(result: Result) -> str:
    how, first = result.shown, result.models[0]
    return sentences(
        f"Left: what is lost if the output of one head is replaced by its mean, near"
        f" {format_integer(how.at)} ({how.windows} windows from {how.blocks} blocks of unseen text;"
        f" {join(map(str, first.roles.words))} words in the columns). A column has the integers n"
        " whose only prime up to 19 is that one; the last has those without such primes. Heads that"
        " cost less than 0.1 everywhere are left out."
        + (
            f" The first of {len(result.models)} models."
            if len(result.models) > 1
            else " One model."
        ),
        "Right: for each prime the head whose loss costs its column most beyond the last column"
        " (left out if its interval contains 0), and the attention that it pays, while the model"
        " predicts the word of n, to integers n − r, n − r − p, … if p divides n and if not; and"
        " in the second case to those integers that it looks at in the first (r = 0: multiples of"
        " p). r is where most of its attention is if p divides n. Heads and r were chosen on other"
        " windows; 95 % intervals over blocks.",
        "If the first two points are equal and above 1/p, the head looks at fixed distances. If the"
        " other two are low, it attends to these integers only if p divides n.",
    )


def table(result: Result) -> Table:
    header = [
        "seed", "head", *(f"nats lost, {p} divides n" for p in PRIMES), "no prime up to 19",
        "best for",
        "attention if p divides n / if not", "most at distance, if p divides n / if not",
    ]  # fmt: skip
    rows = []
    for seed, model in enumerate(result.models):
        for index, head in enumerate(model.roles.heads):
            best = [each for each in model.best if each.head == index]
            damage = [cell(estimate.value) for estimate in head.damage]
            primes = ", ".join(str(each.prime) for each in best)
            attention = "; ".join(map(_attention, best))
            distances = "; ".join(map(_distances, best))
            rows.append([seed, name(head), *damage, primes, attention, distances])
    return header, rows


def _attention(best: Best) -> str:
    offsets = {best.offset: best.there, best.other_offset: best.elsewhere}
    shares = (
        f"n − {r} − {best.prime}k: {format_number(each.divides.value)} /"
        f" {format_number(each.otherwise.value)}"
        for r, each in offsets.items()
    )
    return f"{', '.join(shares)}; same class otherwise: {format_number(best.same_class.value)}"


def _distances(best: Best) -> str:
    return ", ".join(f"{d}: {yes:.2f} / {no:.2f}" for d, yes, no in best.distances)


def verdicts(result: Result) -> list[Verdict]:
    """None: the paper does not look inside the model."""
    return []
