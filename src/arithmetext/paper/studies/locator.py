"""How many words determine their place in the text (not in the paper)."""

import time
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from ...evaluation.estimates import Estimate, wilson
from ...integers import format_integer
from ...search.locate import EFFORTS, locate
from ...text.sieve import words
from ..figures import LINES, plot_estimates, token_axis
from ..study import Table, Verdict

TITLE = "How many words determine their place"
ORDER = 210
COST = {"laptop": 25, "gpu": 500}

_COLOURS = ("#1b9e77", "#d95f02", "#4a46a8", "#444444")
SEVERAL = 0.001  # places by chance; below this, a prompt has practically one continuation


@dataclass(frozen=True)
class Settings:
    scales: tuple[int, ...]
    lengths: tuple[int, ...]  # of windows, in words
    windows: int  # for each scale and length
    efforts: int  # how many of search.locate.EFFORTS are tried
    seed: int


@dataclass(frozen=True)
class Row:
    """Windows of one length below one bound."""

    scale: int
    length: int
    found: int  # windows located at their own place and nowhere else
    windows: int
    located: Estimate  # share, with Wilson's interval
    seconds: float  # mean per window
    expected: float  # places that a window has by chance, median


@dataclass(frozen=True)
class Longest:
    """The longest windows, below all bounds together."""

    length: int
    found: int
    windows: int
    expected: float  # places by chance, the largest of all bounds


@dataclass(frozen=True)
class Result:
    rows: list[Row]
    longest: Longest
    efforts: int


def settings(scale: str) -> Settings:
    return Settings(
        scales=(10**9, 10**11, 10**13, 10**15),
        lengths=(12, 16, 24, 32, 48, 64, 128),
        windows=5 if scale == "laptop" else 25,
        efforts=1 if scale == "laptop" else len(EFFORTS),
        seed=0,
    )


def run(settings: Settings) -> Result:
    rows = []
    for scale in settings.scales:
        random = np.random.default_rng([settings.seed, scale])
        rows += [_measure(scale, length, random, settings) for length in settings.lengths]
    return Result(rows, summarise_longest(rows), settings.efforts)


def _measure(scale: int, length: int, random: np.random.Generator, settings: Settings) -> Row:
    found, seconds, expected = 0, 0.0, []
    for n in random.integers(2, scale, settings.windows).tolist():
        window = words(n, n + length)
        start = time.perf_counter()
        location = locate(window, scale, efforts=EFFORTS[: settings.efforts])
        seconds += time.perf_counter() - start
        found += location.places == [n]
        expected.append(location.expected)
    windows = settings.windows
    located = wilson(found, windows)
    median = float(np.median(expected))
    return Row(scale, length, found, windows, located, seconds / windows, median)


def summarise_longest(rows: list[Row]) -> Longest:
    length = max(row.length for row in rows)
    longest = [row for row in rows if row.length == length]
    found, windows = sum(row.found for row in longest), sum(row.windows for row in longest)
    return Longest(length, found, windows, max(row.expected for row in longest))


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    scales = sorted({row.scale for row in result.rows})
    for scale, marker, line, colour in zip(scales, "osD^", LINES, _COLOURS, strict=False):
        rows = [row for row in result.rows if row.scale == scale]
        lengths = [row.length for row in rows]
        style = {"marker": marker, "linestyle": line, "color": colour, "ms": 5}
        label = f"below {format_integer(scale)}"
        plot_estimates(left, lengths, [row.located for row in rows], label=label, **style)
        right.plot(lengths, [row.seconds for row in rows], **style)
    for axes in (left, right):
        token_axis(axes, lengths, "words in the window")
        axes.grid(alpha=0.3)
    left.set_ylabel("share of windows located")
    left.legend(fontsize=8)
    right.set_yscale("log")
    right.set_ylabel("seconds per window, one core")
    return figure


def caption(result: Result) -> str:
    text = (
        f"Left: the share of {result.rows[0].windows} windows of consecutive words, drawn uniformly"
        " below each bound, whose first integer was found from the words alone, with 95 %"
        " intervals (Wilson). Right: the time that the search took. A window counts as located only"
        " if it was found at its place and nowhere else. If a window also has other places by"
        " chance, no method can tell which of them it comes from."
    )
    if result.efforts < len(EFFORTS):
        text += " The search was stopped early; a longer search finds more of the short windows."
    return text


def table(result: Result) -> Table:
    header = ["below", "words", "located", "of", "seconds", "places by chance (median)"]
    rows = [
        [
            format_integer(row.scale),
            row.length,
            row.found,
            row.windows,
            round(row.seconds, 3),
            float(f"{row.expected:.2g}"),
        ]
        for row in result.rows
    ]
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    longest = result.longest
    return [
        Verdict(
            key="several-continuations",
            claim="A prompt of 1024 tokens may have several valid continuations, so that accuracy"
            " is slightly underestimated.",
            paper="slightly",
            ours=f"a window of {longest.length} words has {longest.expected:.0e} places by chance;"
            f" {longest.found} of {longest.windows} were located, each at one place only",
            criterion=f"a window of this length has more than {SEVERAL} places by chance",
            agrees=longest.expected > SEVERAL,
            why="A word carries one to three nats, and a place below 1e15 needs 35.",
        )
    ]
