"""Frequency against rank at several scales. The paper: the same at all scales, not Zipf's law."""

from dataclasses import dataclass
from math import exp, log

import numpy as np
from matplotlib.figure import Figure

from ... import trees
from ...counting.census import census
from ...counting.divergence import Fit, RankFits, fit_ranks, rank_frequency
from ..figures import LINES
from ..study import Table, Verdict

TITLE = "Rank and frequency"
ORDER = 30
COST = {"laptop": 1, "gpu": 5}

LISTED = 20  # most frequent words of each scale
LEAST_STABLE = 16  # the hierarchy is stable if at least this many of them stay


@dataclass(frozen=True)
class Settings:
    powers: tuple[int, ...]  # of ten: the texts are 2..10^power


@dataclass(frozen=True)
class Result:
    """Each number by the power of ten up to which the words are counted."""

    curves: dict[int, list[tuple[int, float]]]  # ranks, and shares of the text
    fits: dict[int, RankFits]
    tops: dict[int, list[tuple[str, int]]]  # the most frequent words with their counts
    stable_words: int  # words that are among the most frequent at the second and at the last power


def settings(scale: str) -> Settings:
    return Settings(powers=(7, 9, 11, 12) if scale == "laptop" else (7, 9, 11, 13))


def run(settings: Settings) -> Result:
    curves, fits, tops = {}, {}, {}
    for power in settings.powers:
        counts = census(10**power)
        frequencies = rank_frequency(counts)
        # Enough ranks to draw a smooth line, evenly spaced on the logarithmic axis.
        ranks = np.unique(np.geomspace(1, len(frequencies), 300).round().astype(int))
        curves[power] = [(int(r), float(frequencies[r - 1])) for r in ranks]
        fits[power] = fit_ranks(frequencies)
        tops[power] = [(trees.unpack(w), c) for w, c in list(counts.items())[:LISTED]]
    _, second, *_, last = settings.powers
    return Result(curves, fits, tops, words_in_both(tops[second], tops[last]))


def words_in_both(first: list[tuple[str, int]], second: list[tuple[str, int]]) -> int:
    return len(dict(first).keys() & dict(second).keys())


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.subplots()
    for (power, curve), line in zip(result.curves.items(), LINES, strict=True):
        axes.loglog(*zip(*curve, strict=True), line, label=f"2..$10^{{{power}}}$")
    power, curve = list(result.curves.items())[-1]
    ranks = [rank for rank, _ in curve]
    fits = result.fits[power]
    for fit, label, colour, width in (
        (fits.parabola, "parabola fitted to the last", "0.85", 4),
        (fits.zipf, "power law fitted to the last", "0.3", 0.8),
    ):
        fitted = [_fitted(fit, rank) for rank in ranks]
        axes.loglog(ranks, fitted, color=colour, linewidth=width, zorder=1, label=label)
    axes.set_ylim(bottom=1e-14)
    axes.set_xlabel("rank")
    axes.set_ylabel("share of the text")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    return figure


def _fitted(fit: Fit, rank: int) -> float:
    return exp(fit.a - fit.b * log(rank) - fit.c * log(rank) ** 2)


def in_short(result: Result) -> str:
    _, second, *_, last = result.fits
    fits = result.fits[last]
    return (
        f"At 1e{last} a power law misses ln f by {fits.zipf.rms:.2f} on average, and a parabola by"
        f" {fits.parabola.rms:.2f} (root mean square). Of the {LISTED} most frequent words up to"
        f" 1e{second}, {result.stable_words} are still among the {LISTED} most frequent up to"
        f" 1e{last}."
    )


def caption(result: Result) -> str:
    power, fits = list(result.fits.items())[-1]
    return (
        "Share of the text against rank, from exact counts of every word. Frequent words keep their"
        " shares over orders of magnitude, while the tail grows longer. Grey: least-squares fits at"
        f" 1e{power} on these axes, where every factor of two in rank has the same weight: a power"
        f" law (Zipf, exponent {fits.zipf.b:.2f}, R² = {fits.zipf.r_squared:.3f}) and a parabola"
        f" (R² = {fits.parabola.r_squared:.4f})."
    )


def table(result: Result) -> Table:
    header = ["rank", *(name for p in result.tops for name in (f"word, 2..1e{p}", "count"))]
    rows = [
        [rank, *(cell for word in words for cell in word)]
        for rank, words in enumerate(zip(*result.tops.values(), strict=True), start=1)
    ]
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    _, second, *_, last = result.fits
    zipf, parabola = result.fits[last].zipf, result.fits[last].parabola
    return [
        Verdict(
            key="departs-from-zipf",
            claim="The rank–frequency distribution departs from Zipf's law.",
            paper="departs",
            ours=f"rms residual of ln f at 1e{last}: power law {zipf.rms:.2f}, parabola"
            f" {parabola.rms:.2f}",
            criterion="the residual of the power law is more than twice that of the parabola",
            agrees=zipf.rms > 2 * parabola.rms,
        ),
        Verdict(
            key="stable-hierarchy",
            claim="The rank–frequency hierarchy is nearly the same at every scale.",
            paper="nearly invariant",
            ours=f"{result.stable_words} of the {LISTED} most frequent words up to 1e{second} are"
            f" also among the most frequent up to 1e{last}",
            criterion=f"at least {LEAST_STABLE} of the {LISTED} words are in both lists",
            agrees=result.stable_words >= LEAST_STABLE,
        ),
    ]
