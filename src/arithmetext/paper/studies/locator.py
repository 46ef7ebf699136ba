"""How often words occur again, and how many determine their place."""

import time
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from matplotlib.figure import Figure

from ...evaluation.estimates import Estimate, wilson
from ...integers import format_integer
from ...search.locate import EFFORTS, MOST_BY_CHANCE, locate
from ...text.sieve import Words, words
from ..figures import LINES, plot_estimates, token_axis
from ..study import Table, Verdict
from ..wording import join

TITLE = "How many words determine their place"
ORDER = 215
COST = {"laptop": 15, "gpu": 510}

_COLOURS = ("#1b9e77", "#d95f02", "#4a46a8", "#444444")

_MIXER = np.uint64(0x9E3779B97F4A7C15)  # an odd number with many bits, for hashing


@dataclass(frozen=True)
class Settings:
    scales: tuple[int, ...]
    lengths: tuple[int, ...]  # of windows, in words
    windows: int  # for each scale and length
    efforts: int  # how many of search.locate.EFFORTS are tried
    seed: int
    counted: int  # repeated windows are counted among all words below this integer
    counted_lengths: tuple[int, ...]  # of these windows, in words


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
class Repeats:
    """All windows of one length near the beginning of the text."""

    length: int
    windows: int
    repeated: int  # windows whose words occur at another place too
    share: float


@dataclass(frozen=True)
class Result:
    rows: list[Row]
    longest: Longest
    efforts: int
    counted: int
    repeats: list[Repeats]


def settings(scale: str) -> Settings:
    return Settings(
        scales=(10**9, 10**11, 10**13, 10**15),
        lengths=(12, 16, 24, 32, 48, 64, 128),
        windows=3 if scale == "laptop" else 25,
        efforts=1 if scale == "laptop" else len(EFFORTS),
        seed=0,
        counted=10**6 if scale == "laptop" else 10**7,
        counted_lengths=(4, 8, 12, 16, 24),
    )


def run(settings: Settings) -> Result:
    rows = []
    for scale in settings.scales:
        random = np.random.default_rng([settings.seed, scale])
        rows += [_measure(scale, length, random, settings) for length in settings.lengths]
    text = words(2, settings.counted)
    repeats = [count_repeats(text, length) for length in settings.counted_lengths]
    return Result(rows, summarise_longest(rows), settings.efforts, settings.counted, repeats)


def count_repeats(text: Words, length: int) -> Repeats:
    """Count the windows of `length` words that occur at several places of a text.

    Windows are compared by a hash of 64 bits. Among 10^7 windows, different windows have the same
    hash with a probability of 3e-6.
    """
    keys = np.zeros(len(text) - length + 1, np.uint64)
    for k in range(length):
        keys = (keys ^ text[k : k + len(keys)]) * _MIXER
        keys ^= keys >> np.uint64(32)
    keys.sort()
    same = np.concatenate([[False], keys[1:] == keys[:-1], [False]])
    repeated = int(np.sum(same[1:] | same[:-1]))
    return Repeats(length, len(keys), repeated, repeated / len(keys))


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
    sides = np.linspace(-0.09, 0.09, 4)  # so that error bars do not hide each other
    for scale, side, marker, line, colour in zip(
        scales, sides, "osD^", LINES, _COLOURS, strict=False
    ):
        rows = [row for row in result.rows if row.scale == scale]
        lengths = [row.length for row in rows]
        beside = np.array(lengths) * 2.0**side
        style = {"marker": marker, "linestyle": line, "color": colour, "ms": 5}
        label = f"below {format_integer(scale)}"
        plot_estimates(left, beside, [row.located for row in rows], label=label, **style)
        right.plot(lengths, [row.seconds for row in rows], **style)
    for axes in (left, right):
        token_axis(axes, lengths, "words in the window")
        axes.grid(alpha=0.3)
    left.set_ylabel("share of windows located")
    left.legend(fontsize=8)
    right.set_yscale("log")
    right.set_ylabel("seconds per window, one core")
    return figure


def in_short(result: Result) -> str:
    longest, shortest = result.longest, result.repeats[0]
    return (
        f"{longest.found} of {longest.windows} windows of {longest.length} words were located, at"
        f" one place only. Of the windows of {shortest.length} words below"
        f" {format_integer(result.counted)}, a share of {shortest.share:.2g} occurs there more than"
        " once."
    )


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
    longest, shares = result.longest, [each.share for each in result.repeats]
    falling = all(a > b for a, b in pairwise(shares))
    return [
        Verdict(
            key="several-continuations",
            claim="A sequence of words can occur at several places of the infinite text, so that"
            " several continuations are valid; the longer the sequence, the rarer this is.",
            paper="possible; accuracy after 1024 tokens is slightly underestimated",
            ours=f"of the windows of {join(str(each.length) for each in result.repeats)} words"
            f" below {format_integer(result.counted)}, shares of"
            f" {join(f'{share:.2g}' for share in shares)} occur there more than once; a window of"
            f" {longest.length} words has {longest.expected:.0e} other places by chance (median,"
            f" the largest of all bounds), and {longest.found} of {longest.windows} were located at"
            " one place only",
            criterion="windows that occur more than once exist, their share falls with every"
            f" length, and the longest windows have less than {MOST_BY_CHANCE:g} other place by"
            " chance",
            agrees=shares[0] > 0 and falling and longest.expected < MOST_BY_CHANCE,
            why=f"A prompt of 1024 tokens has more than {longest.length} words, and so even fewer"
            " other places: accuracy is underestimated even less often. A word carries one to"
            " three nats, and a place below 1e15 needs 35.",
        )
    ]
