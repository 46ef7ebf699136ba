"""Which integers are for training, validation and test (the paper's data figure)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from matplotlib.figure import Figure

from ...text.splits import CHUNKS, far_window, splits
from ..figures import COLOURS
from ..study import Table, Verdict
from ..wording import format_integer

TITLE = "Training, validation and test"
PLACE = 50
COST = {"laptop": 1, "gpu": 1}

# Colour and hatching of each use. Training, the largest, has the lightest colour.
_STYLES = {
    "training": ("#dfe3f4", ""),
    "validation": (COLOURS[3], "////"),
    "test": (COLOURS[1], ""),
}


@dataclass(frozen=True)
class Settings:
    n: int
    powers: tuple[int, ...]


@dataclass(frozen=True)
class Range:
    use: str  # training, validation or test
    chunk: int | None  # from 1; None far beyond the text
    first: int
    last: int
    words: int


@dataclass(frozen=True)
class Result:
    n: int
    powers: tuple[int, ...]
    ranges: list[Range]
    between: list[int]  # integers between a range and the next one; negative if they overlap
    overlaps: int
    chunks: list[int]  # words in the ranges of each chunk
    covered: int  # words in the ranges of all chunks
    training_shares: tuple[float, float]  # the smallest and the largest share of a chunk
    totals: dict[str, int]  # words for each use

    @property
    def text(self) -> list[Range]:
        return [each for each in self.ranges if each.chunk is not None]

    @property
    def far(self) -> list[Range]:
        return [each for each in self.ranges if each.chunk is None]


def settings(scale: str) -> Settings:
    return Settings(n=10**11, powers=(13, 14, 15))


def run(settings: Settings) -> Result:
    cut = splits(settings.n)
    ranges = [
        *(("training", chunk, bounds) for chunk, bounds in enumerate(cut.train, 1)),
        *(("validation", chunk, bounds) for chunk, bounds in enumerate(cut.validation, 1)),
        ("test", CHUNKS, cut.test),
        *(("test", None, far_window(power)) for power in settings.powers),
    ]
    return summarise(
        settings.n,
        settings.powers,
        [Range(use, chunk, lo, hi - 1, hi - lo) for use, chunk, (lo, hi) in ranges],
    )


def summarise(n: int, powers: tuple[int, ...], ranges: Sequence[Range]) -> Result:
    ordered = sorted(ranges, key=lambda each: each.first)
    between = [after.first - before.last - 1 for before, after in pairwise(ordered)]
    chunks = [sum(each.words for each in ranges if each.chunk == k + 1) for k in range(CHUNKS)]
    shares = [
        each.words / chunks[each.chunk - 1]
        for each in ranges
        if each.chunk is not None and each.use == "training"
    ]
    return Result(
        n=n,
        powers=powers,
        ranges=ordered,
        between=between,
        overlaps=sum(distance < 0 for distance in between),
        chunks=chunks,
        covered=sum(chunks),
        training_shares=(min(shares), max(shares)),
        totals={use: sum(each.words for each in ranges if each.use == use) for use in _STYLES},
    )


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(7.2, 3.3), layout="constrained")
    above, below = figure.subplots(2, height_ratios=(1, 1))
    n, far, chunk = result.n, result.far, result.n / CHUNKS
    for use, (colour, hatch) in _STYLES.items():
        spans = [(each.first, each.words) for each in result.text if each.use == use]
        above.broken_barh(
            spans, (0, 1), facecolor=colour, hatch=hatch, edgecolor="0.25", lw=0.6, label=use
        )
    for k in range(CHUNKS):
        above.text((k + 0.375) * chunk, 0.5, str(k + 1), ha="center", va="center", fontsize=9)
        above.axvline(k * chunk, color="black", lw=1.6)
    above.set_xlim(0, n)
    above.set_xticks([k * chunk for k in range(0, CHUNKS + 1, 2)])
    above.set_xticklabels(["2", *(format_integer(int(k * chunk)) for k in range(2, CHUNKS + 1, 2))])
    above.set_title(f"{CHUNKS} chunks of the text of 2..{format_integer(n)}, to scale", fontsize=10)
    below.broken_barh([(2, n - 1)], (0, 1), facecolor="0.9", edgecolor="0.25")
    below.text(n**0.5, 0.5, "the ten chunks", ha="center", va="center", fontsize=9)
    starts = [each.first for each in far]
    below.plot(starts, [0.4] * len(starts), "D", color=_STYLES["test"][0], mec="black", ms=8)
    for start in starts:
        below.text(start, 0.68, format_integer(start), ha="center", fontsize=9)
    below.set_xscale("log")
    below.set_xlim(2, 10 ** (max(result.powers) + 1))
    below.set_title(
        f"and {len(far)} windows of {far[0].words:,} integers for test, far beyond", fontsize=10
    )
    below.set_xlabel("integer (logarithmic)")
    for axes in above, below:
        axes.set_ylim(0, 1)
        axes.set_yticks([])
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def caption(result: Result) -> str:
    totals = ", ".join(f"{total:,} words for {use}" for use, total in result.totals.items())
    windows = ", ".join(format_integer(each.first) for each in result.far)
    return (
        f"Top: the text of 2..{format_integer(result.n)} in {CHUNKS} chunks, to scale. Three"
        " quarters of each chunk are for training. The last quarter is for validation, except in"
        " the last chunk, where it is for test. Bottom, on a logarithmic axis: the test windows"
        f" that begin at {windows}; drawn to scale they would be invisible. In all there are"
        f" {totals}; these counts are exact. There are {result.overlaps or 'no'} overlaps between"
        f" the {len(result.ranges)} ranges, and those of the text hold {result.covered:,} of its"
        f" {result.n - 1:,} words."
    )


def table(result: Result) -> Table:
    rows: list[Sequence[Any]] = [
        [each.chunk or "far beyond", each.use, each.first, each.last, each.words]
        for each in result.ranges
    ]
    rows += [["all", use, "", "", total] for use, total in result.totals.items()]
    return ["chunk", "use", "first integer", "last integer", "words"], rows


def verdicts(result: Result) -> list[Verdict]:
    n, chunk = result.n, result.n // CHUNKS
    smallest, largest = result.training_shares
    test = next(each for each in result.text if each.use == "test")
    windows = {each.words for each in result.far}
    found = [
        Verdict(
            key="chunks",
            claim=f"The text of 2..{format_integer(n)} is cut into {CHUNKS} chunks of"
            f" {format_integer(chunk)} words; the first is shorter by one.",
            paper=f"{format_integer(chunk)} − 1, then {CHUNKS - 1} times {format_integer(chunk)}",
            ours=f"{result.chunks[0]:,}, then {CHUNKS - 1} times {_either(result.chunks[1:])}",
            criterion="the sizes are the same",
            agrees=result.chunks == [chunk - 1] + [chunk] * (CHUNKS - 1),
        ),
        Verdict(
            key="quarters",
            claim="Three quarters of each chunk are for training; the rest is for validation, and"
            " in the last chunk for test.",
            paper="3/4, 1/4, and 1/4 of the tenth",
            ours=f"{smallest:.3f} of every chunk for training; {test.words:,} words of chunk"
            f" {test.chunk} for test",
            criterion="these are the paper's shares, up to one word",
            agrees=abs(smallest - 0.75) < 1 / chunk
            and abs(largest - 0.75) < 1 / chunk
            and test.chunk == CHUNKS
            and 4 * test.words == chunk,
            why="The first chunk begins at 2, so its first three quarters lack one word.",
        ),
        Verdict(
            key="training-in-all",
            claim="In all, three quarters of the text are for training.",
            paper=f"{format_integer(n * 3 // 4)} words, from its shares",
            ours=f"{result.totals['training']:,} words",
            criterion="it is three quarters less one word, since the text begins at two",
            agrees=result.totals["training"] == n * 3 // 4 - 1,
        ),
        Verdict(
            key="far-windows",
            claim="Three windows of 1e6 words far beyond the text are for test as well.",
            paper="1e6 each, in [10^k, 10^k + 10^6], k = 13, 14, 15",
            ours=f"{_either(windows)} each, from"
            f" {', '.join(format_integer(each.first) for each in result.far)}",
            criterion="these are the paper's closed intervals",
            agrees=windows == {10**6 + 1} and result.powers == (13, 14, 15),
            why="The paper's closed interval holds one integer more than the 10^6 that it states;"
            " we take the interval.",
        ),
        Verdict(
            key="disjoint",
            claim="No integer of the test set was trained on.",
            paper="the sets are disjoint",
            ours=f"{result.overlaps} overlaps between {len(result.ranges)} ranges, which hold"
            f" {result.covered:,} of the {n - 1:,} words of the text",
            criterion="there is no overlap",
            agrees=result.overlaps == 0,
        ),
    ]
    return [replace(verdict, by_construction=True) for verdict in found]


def _either(numbers: Iterable[int]) -> str:
    return " or ".join(sorted({f"{number:,}" for number in numbers}))
