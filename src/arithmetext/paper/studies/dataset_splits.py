"""Which integers are for training, validation and test (the paper's data figure)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise

from matplotlib.figure import Figure

from ...text.splits import CHUNKS, far_window, splits
from ..figures import COLOURS
from ..study import Table, Verdict
from ..wording import format_integer, join

TITLE = "Training, validation and test"
ORDER = 50
COST = {"laptop": 1, "gpu": 1}

USES = ("training", "validation", "test")

# Colour and hatching of each use. Training, the largest, has the lightest colour.
_STYLES = {
    "training": ("#dfe3f4", ""),
    "validation": (COLOURS[3], "////"),
    "test": (COLOURS[1], ""),
}


@dataclass(frozen=True)
class Settings:
    n: int  # the text is that of 2..n
    powers: tuple[int, ...]  # of ten, where the test windows far beyond begin


@dataclass(frozen=True)
class SplitRange:
    use: str  # training, validation or test
    chunk: int | None  # from 1; None far beyond the text
    first: int
    last: int
    words: int


@dataclass(frozen=True)
class Result:
    n: int
    ranges: list[SplitRange]
    overlaps: int  # ranges that overlap the next one
    chunks: list[int]  # words in the ranges of each chunk
    covered: int  # words in the ranges of all chunks
    training_shares: tuple[float, float]  # the smallest and the largest share of a chunk
    totals: dict[str, int]  # words for each use

    @property
    def far(self) -> list[SplitRange]:
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
    split_ranges = [SplitRange(use, chunk, lo, hi - 1, hi - lo) for use, chunk, (lo, hi) in ranges]
    return summarise(settings.n, split_ranges)


def summarise(n: int, ranges: list[SplitRange]) -> Result:
    ordered = sorted(ranges, key=lambda each: each.first)
    chunks = [sum(each.words for each in ranges if each.chunk == k + 1) for k in range(CHUNKS)]
    shares = [
        each.words / chunks[each.chunk - 1]
        for each in ranges
        if each.chunk is not None and each.use == "training"
    ]
    return Result(
        n,
        ordered,
        overlaps=sum(after.first <= before.last for before, after in pairwise(ordered)),
        chunks=chunks,
        covered=sum(chunks),
        training_shares=(min(shares), max(shares)),
        totals={use: sum(each.words for each in ranges if each.use == use) for use in USES},
    )


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(7.2, 3.3), layout="constrained")
    above, below = figure.subplots(2)
    n, far, chunk = result.n, result.far, result.n // CHUNKS
    for use, (colour, hatch) in _STYLES.items():
        spans = [(r.first, r.words) for r in result.ranges if r.use == use and r not in far]
        style = {"facecolor": colour, "hatch": hatch, "edgecolor": "0.25", "lw": 0.6}
        above.broken_barh(spans, (0, 1), label=use, **style)
    for k in range(CHUNKS):
        above.text((k + 0.375) * chunk, 0.5, str(k + 1), ha="center", va="center", fontsize=9)
        above.axvline(k * chunk, color="black", lw=1.6)
    above.set_xlim(0, n)
    ticks = range(0, n + 1, 2 * chunk)
    above.set_xticks(ticks, [format_integer(max(2, tick)) for tick in ticks])
    above.set_title(f"{CHUNKS} chunks of the text of 2..{format_integer(n)}, to scale", fontsize=10)
    below.broken_barh([(2, n - 1)], (0, 1), facecolor="0.9", edgecolor="0.25")
    below.text(n**0.5, 0.5, "the ten chunks", ha="center", va="center", fontsize=9)
    for each in far:
        below.plot(each.first, 0.4, "D", color=_STYLES["test"][0], mec="black", ms=8)
        below.text(each.first, 0.68, format_integer(each.first), ha="center", fontsize=9)
    below.set_xscale("log")
    below.set_xlim(2, 10 * far[-1].first)
    below.set_title(
        f"and {len(far)} windows of {far[0].words:,} integers for test, far beyond", fontsize=10
    )
    below.set_xlabel("integer (logarithmic)")
    for axes in above, below:
        axes.set_ylim(0, 1)
        axes.set_yticks([])
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def in_short(result: Result) -> str:
    totals = join(f"{total:,} words for {use}" for use, total in result.totals.items())
    return (
        f"The text of 2..{format_integer(result.n)} and the windows beyond it have {totals}. Of"
        f" their {len(result.ranges)} ranges, {result.overlaps or 'none'} overlap."
    )


def caption(result: Result) -> str:
    totals = ", ".join(f"{total:,} words for {use}" for use, total in result.totals.items())
    return (
        f"Top: the text of 2..{format_integer(result.n)} in {CHUNKS} chunks, to scale. Three"
        " quarters of each chunk are for training. The last quarter is for validation, except in"
        " the last chunk, where it is for test. Bottom, on a logarithmic axis: the test windows"
        f" that begin at {_starts(result.far)}; drawn to scale they would be invisible. In all"
        f" there are {totals}; these counts are exact. There are {result.overlaps or 'no'} overlaps"
        f" between the {len(result.ranges)} ranges, and the ranges of the text hold"
        f" {result.covered:,} of its {result.n - 1:,} words."
    )


def table(result: Result) -> Table:
    rows: list[list[int | str]] = [
        [each.chunk or "far beyond", each.use, each.first, each.last, each.words]
        for each in result.ranges
    ]
    rows += [["all", use, "", "", total] for use, total in result.totals.items()]
    return ["chunk", "use", "first integer", "last integer", "words"], rows


def verdicts(result: Result) -> list[Verdict]:
    n, chunk = result.n, result.n // CHUNKS
    test = next(each for each in result.ranges if each.use == "test")
    checked = [
        Verdict(
            key="chunks",
            claim=f"The text of 2..{format_integer(n)} is cut into {CHUNKS} chunks of"
            f" {format_integer(chunk)} words; the first is shorter by one.",
            paper=f"{format_integer(chunk)} − 1, then {CHUNKS - 1} times {format_integer(chunk)}",
            ours=f"{result.chunks[0]:,}, then {CHUNKS - 1} times {_either(result.chunks[1:])}",
            criterion="the sizes of all chunks are the paper's",
            agrees=result.chunks == [chunk - 1] + [chunk] * (CHUNKS - 1),
        ),
        Verdict(
            key="quarters",
            claim="Three quarters of each chunk are for training; the rest is for validation, and"
            " in the last chunk for test.",
            paper="3/4, 1/4, and 1/4 of the tenth",
            ours=f"{result.training_shares[0]:.3f} of every chunk for training; {test.words:,}"
            f" words of chunk {test.chunk} for test",
            criterion="the shares are the paper's, up to one word",
            agrees=all(abs(share - 0.75) < 1 / chunk for share in result.training_shares)
            and test.chunk == CHUNKS
            and 4 * test.words == chunk,
            why="The first chunk begins at 2, so its first three quarters lack one word.",
        ),
        Verdict(
            key="training-in-all",
            claim="In all, three quarters of the text are for training.",
            paper=f"{format_integer(n * 3 // 4)} words, from its shares",
            ours=f"{result.totals['training']:,} words",
            criterion="the number of training words is three quarters of the last integer, less one"
            " because the text begins at two",
            agrees=result.totals["training"] == n * 3 // 4 - 1,
        ),
        Verdict(
            key="far-windows",
            claim="Three windows of 1e6 words far beyond the text are for test as well.",
            paper="1e6 each, in [10^k, 10^k + 10^6], k = 13, 14, 15",
            ours=f"{_either(each.words for each in result.far)} each, from {_starts(result.far)}",
            criterion="the windows are the paper's closed intervals",
            agrees=[(each.first, each.words) for each in result.far]
            == [(10**power, 10**6 + 1) for power in (13, 14, 15)],
            why="The paper's closed interval holds one integer more than the 10^6 that it states;"
            " we take the interval.",
        ),
        Verdict(
            key="disjoint",
            claim="No integer of the test set was trained on.",
            paper="the sets are disjoint",
            ours=f"{result.overlaps} overlaps between {len(result.ranges)} ranges, which hold"
            f" {result.covered:,} of the {n - 1:,} words of the text",
            criterion="no two ranges overlap",
            agrees=result.overlaps == 0,
        ),
    ]
    return [replace(verdict, by_construction=True) for verdict in checked]


def _either(numbers: Iterable[int]) -> str:
    return " or ".join(sorted({f"{number:,}" for number in numbers}))


def _starts(windows: Iterable[SplitRange]) -> str:
    return ", ".join(format_integer(each.first) for each in windows)
