"""How many different words the text has used up to n (the paper's figure of |ND_n|)."""

from collections.abc import Sequence
from math import log
from typing import Any

from matplotlib.figure import Figure

from ...counting.dictionary import dictionary_size, first_occurrences
from ...integers import format_integer
from ..study import Verdict

TITLE = "Growth of the dictionary"
PLACE = 10
COST = {"laptop": 1, "gpu": 1}


def settings(scale: str) -> dict[str, Any]:
    # Nothing here is sampled and all of it takes a second, so every scale is the paper's and more.
    return {"listed_to": 10**12, "counted_to_power": 30, "counts_per_decade": 4}


def run(settings: dict[str, Any]) -> dict[str, Any]:
    listed_to, per_decade = settings["listed_to"], settings["counts_per_decade"]
    last = settings["counted_to_power"] * per_decade
    counted_at = [round(10 ** (k / per_decade)) for k in range(per_decade, last)]
    counted_at.append(10 ** settings["counted_to_power"])
    return {
        "first_occurrences": first_occurrences(listed_to),
        "counted_at": counted_at,
        "counts": [dictionary_size(n) for n in counted_at],
    }


def plot(data: dict[str, Any]) -> Figure:
    first = data["first_occurrences"]
    # The paper's ordinate needs ln ln n > 0; its curve begins at the second word.
    listed = [(n, size) for size, n in enumerate(first, start=1) if n > 2]
    beyond = [
        (n, size)
        for n, size in zip(data["counted_at"], data["counts"], strict=True)
        if n >= first[-1]
    ]
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, ordinate in ((left, _rescaled), (right, lambda n, size: size)):
        for points, style, name in (
            (listed, {"color": "black"}, "every first occurrence"),
            (beyond, {"color": "tab:blue", "linestyle": "--"}, "exact counts beyond the paper"),
        ):
            axes.plot(
                [float(n) for n, _ in points],
                [ordinate(n, size) for n, size in points],
                label=name,
                **style,
            )
        axes.set_xscale("log")
        axes.set_xlabel("n")
        axes.grid(alpha=0.3)
    left.set_ylabel(r"$\ln|\mathrm{ND}_n|\;\ln\ln n\,/\,\ln n$")
    right.set_ylabel(r"words in the dictionary, $|\mathrm{ND}_n|$")
    right.set_yscale("log")
    right.legend(loc="upper left", frameon=False)
    return figure


def _rescaled(n: int, size: int) -> float:
    return log(size) * log(log(n)) / log(n)


def caption(data: dict[str, Any]) -> str:
    n, size = data["counted_at"][-1], data["counts"][-1]
    return (
        "Number of different words among 2..n. Left, on the paper's axes; right, the number itself."
        f" Black: every first occurrence up to 1e12, the paper's"
        f" range. Dashed: exact counts up to {format_integer(n)}, where the dictionary"
        f" has {size:,} words."
        " No integer was enumerated: a word enters the dictionary at its least integer."
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    return ["n", "words"], list(zip(data["counted_at"], data["counts"], strict=True))


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    size = dict(zip(data["counted_at"], data["counts"], strict=True))
    exponent = log(size[10**12] / size[10**11]) / log(10)
    return [
        Verdict(
            claim="The dictionary at 1e11 has more than 2000 words.",
            paper="> 2000",
            ours=f"{size[10**11]} (exact)",
            agrees=size[10**11] > 2000,
        ),
        Verdict(
            claim="The dictionary grows sublinearly up to 1e12.",
            paper="sublinear",
            ours=f"local exponent {exponent:.3f} between 1e11 and 1e12 (exact)",
            agrees=exponent < 1,
        ),
    ]
