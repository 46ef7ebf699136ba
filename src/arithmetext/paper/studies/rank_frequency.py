"""Frequency against rank, at several scales (the paper: scale-stable, and not Zipf's law)."""

from collections.abc import Sequence
from dataclasses import asdict
from math import exp, log
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ... import trees
from ...counting.census import census
from ...counting.divergence import fit_ranks, rank_frequency
from ..study import Verdict

TITLE = "Rank and frequency"
PLACE = 30
COST = {"laptop": 1, "gpu": 5}

LISTED = 20


def settings(scale: str) -> dict[str, Any]:
    powers = [7, 9, 11, 12] if scale == "laptop" else [7, 9, 11, 13]
    return {"powers": powers}


def run(settings: dict[str, Any]) -> dict[str, Any]:
    curves, fits, tops = {}, {}, {}
    for power in settings["powers"]:
        counts = census(10**power)
        frequencies = rank_frequency(counts)
        # Enough ranks to draw a smooth line, evenly spaced on the logarithmic axis.
        ranks = np.unique(np.geomspace(1, len(frequencies), 300).round().astype(int))
        curves[str(power)] = [[int(r), float(frequencies[r - 1])] for r in ranks]
        fits[str(power)] = asdict(fit_ranks(frequencies))
        tops[str(power)] = [[trees.unpack(w), c] for w, c in list(counts.items())[:LISTED]]
    return {"curves": curves, "fits": fits, "tops": tops}


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.subplots()
    styles = ["-", "--", "-.", ":"]
    for (power, curve), style in zip(data["curves"].items(), styles, strict=True):
        axes.loglog(*zip(*curve, strict=True), style, label=f"2..$10^{{{power}}}$")
    power, curve = list(data["curves"].items())[-1]
    ranks = [rank for rank, _ in curve]
    for name, label, colour, width in (
        ("parabola", "parabola fitted to the last", "0.85", 4),
        ("zipf", "power law fitted to the last", "0.3", 0.8),
    ):
        fit = data["fits"][power][name]
        fitted = [exp(fit["a"] - fit["b"] * log(r) - fit["c"] * log(r) ** 2) for r in ranks]
        axes.loglog(ranks, fitted, color=colour, linewidth=width, zorder=1, label=label)
    axes.set_ylim(bottom=1e-14)
    axes.set_xlabel("rank")
    axes.set_ylabel("share of the text")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure


def caption(data: dict[str, Any]) -> str:
    power, fits = list(data["fits"].items())[-1]
    return (
        "Share of the text against rank, exact counts of every word. The frequent words keep their"
        " shares over orders of magnitude while the tail grows longer. Grey: least-squares fits at"
        f" 1e{power} on these axes, every factor of two in rank weighing alike: a power law"
        f" (Zipf, exponent {fits['zipf']['b']:.2f}, R² = {fits['zipf']['r_squared']:.3f}) and a"
        f" parabola (R² = {fits['parabola']['r_squared']:.4f})."
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    powers = list(data["tops"])
    header = ["rank", *(name for p in powers for name in (f"word, 2..1e{p}", "count"))]
    rows = [
        [rank + 1, *(cell for p in powers for cell in data["tops"][p][rank])]
        for rank in range(LISTED)
    ]
    return header, rows


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    powers = list(data["fits"])
    zipf, parabola = (data["fits"][powers[-1]][name] for name in ("zipf", "parabola"))
    first = [word for word, _ in data["tops"][powers[1]]]
    last = [word for word, _ in data["tops"][powers[-1]]]
    kept = len(set(first) & set(last))
    return [
        Verdict(
            claim="The rank–frequency distribution departs from Zipf's law.",
            paper="departs",
            ours=f"rms residual of ln f at 1e{powers[-1]}: power law {zipf['rms']:.2f},"
            f" parabola {parabola['rms']:.2f}",
            agrees=zipf["rms"] > 2 * parabola["rms"],
        ),
        Verdict(
            claim="The rank–frequency hierarchy is nearly the same at every scale.",
            paper="nearly invariant",
            ours=f"{kept} of the {LISTED} commonest words of 1e{powers[1]} are among those of"
            f" 1e{powers[-1]}",
            agrees=kept >= 0.8 * LISTED,
        ),
    ]
