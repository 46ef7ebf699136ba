"""How unevenly single words are spread: in the whole text, far up, and without the drift."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ...counting.walks import LOCAL, LocalWalks, Walk, local_walks, walk
from ...evaluation.estimates import Estimate, above, bootstrap, format_estimate, ratio
from ...integers import format_integer
from ..figures import COLOURS, LINES
from ..study import Table, Verdict
from ..wording import join

TITLE = "Walks of single words"
ORDER = 40
COST = {"laptop": 6, "gpu": 220}

# Walks with a greater exponent are superdiffusive. A walk without memory has exponent 1. Any border
# from 1.05 to 1.6 gives the same verdict: from 2 on, the exponents are at most 1.00 at short lags
# and at least 1.61 at long ones. From 1e10 on, and around the local trend, none is above 1.
SUPERDIFFUSIVE = 1.2
LONG_LAGS = 100  # an exponent of long lags is fitted from the longest lag divided by this


@dataclass(frozen=True)
class Settings:
    words: tuple[str, ...]
    starts: tuple[int, ...]
    count: int  # integers from each start
    below: int  # the local walks are those of 2 ≤ n < below
    lags: tuple[int, ...]  # of the local walks
    parts: int  # of 2 ≤ n < below, for the bootstrap


@dataclass(frozen=True)
class Stretch:
    """The walks from one start, with the least and the greatest of their exponents."""

    start: int
    walks: list[Walk]
    before: tuple[float, float]  # exponents before the crossover
    after: tuple[float, float]  # exponents after it
    crossing: int  # walks that become superdiffusive

    @property
    def mostly_crossing(self) -> bool:
        return self.crossing > len(self.walks) / 2


@dataclass(frozen=True)
class LocalWalk:
    """The walk of a word around its mean density, and around the local trend of its density."""

    word: str
    density: float
    around_mean: list[float]  # F² for each lag
    mean_exponent: float  # of long lags
    around_trend: list[Estimate]  # F² for each lag, bootstrapped over the parts of the range
    trend_exponent: Estimate  # of long lags

    @property
    def superdiffusive(self) -> bool:
        """Whether the word stays superdiffusive when the local trend is removed."""
        return above(self.trend_exponent, SUPERDIFFUSIVE)


@dataclass(frozen=True)
class Result:
    count: int
    stretches: list[Stretch]
    below: int
    lags: list[int]
    parts: int
    local: list[LocalWalk]

    @property
    def long_lags(self) -> list[int]:
        return _long(self.lags)


def settings(scale: str) -> Settings:
    decades = range(3, 6 if scale == "laptop" else 8)
    longest = 10**decades.stop
    return Settings(
        words=("10", "1010", "101010", "11001010"),
        starts=(2, 10**10),
        count=10**7 if scale == "laptop" else 10**8,
        below=1000 * longest,
        lags=(*(m * 10**e for e in decades for m in (1, 2, 5)), longest),
        parts=100,
    )


def run(settings: Settings) -> Result:
    count, words, lags = settings.count, list(settings.words), list(settings.lags)
    return Result(
        count,
        [
            summarise(start, [walk(word, start, start + count) for word in words])
            for start in settings.starts
        ],
        settings.below,
        lags,
        settings.parts,
        summarise_local(words, lags, local_walks(words, settings.below, lags, settings.parts)),
    )


def summarise(start: int, walks: list[Walk]) -> Stretch:
    before = [each.crossover.before for each in walks]
    after = [each.crossover.after for each in walks]
    crossing = sum(a < SUPERDIFFUSIVE < b for a, b in zip(before, after, strict=True))
    return Stretch(start, walks, (min(before), max(before)), (min(after), max(after)), crossing)


def summarise_local(words: list[str], lags: list[int], found: LocalWalks) -> list[LocalWalk]:
    x, windows = np.log(_long(lags)), found.windows.astype(np.float64)

    def slope(squares: NDArray[np.float64]) -> float:
        return float(np.polyfit(x, np.log(squares[-len(x) :]), 1)[0])

    def trend_exponent(parts: NDArray[np.float64]) -> float:  # [part, 2, lag]
        deviations, windows = parts.sum(0)
        return slope(deviations / windows)

    walks = []
    for k, word in enumerate(words):
        deviations = found.deviations[:, k]  # [part, lag]
        around_mean = found.around_mean[k]
        walks.append(
            LocalWalk(
                word,
                float(found.means[:, k, 0].mean() / lags[0]),
                around_mean.tolist(),
                slope(around_mean),
                [ratio(*lag) for lag in zip(deviations.T, windows.T, strict=True)],
                bootstrap(trend_exponent, np.stack([deviations, windows], 1)),
            )
        )
    return walks


def _long(lags: list[int]) -> list[int]:
    return [lag for lag in lags if lag >= lags[-1] / LONG_LAGS]


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    *panels, last = figure.subplots(1, len(result.stretches) + 1, sharey=True)
    for axes, stretch in zip(panels, result.stretches, strict=True):
        for each, colour, line in zip(stretch.walks, COLOURS, LINES, strict=True):
            spread = np.array(each.fluctuations) / each.fluctuations[0] / each.lags
            axes.plot(each.lags, spread, color=colour, ls=line, label=each.word)
        start, count = format_integer(stretch.start), format_integer(result.count)
        axes.set_title(f"{count} integers from {start}", fontsize=10)
    _draw_local(last, result)
    for axes in (*panels, last):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("length of the window")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("variance relative to independent draws")
    panels[0].legend(frameon=False)
    return figure


def _draw_local(axes: Axes, result: Result) -> None:
    lags = np.array(result.lags)
    for each, colour, line in zip(result.local, COLOURS, LINES, strict=True):
        independent = each.density * (1 - each.density) * lags
        axes.plot(lags, each.around_mean / independent, color=colour, ls=line, lw=0.8, alpha=0.6)
        value, low, high = np.array(each.around_trend, np.float64).T / independent
        axes.fill_between(lags, low, high, color=colour, alpha=0.25, lw=0)
        axes.plot(lags, value, color=colour, ls=line)
    axes.set_title(f"all integers below {format_integer(result.below)}", fontsize=10)
    for label, height in (("around the overall mean", 0.92), ("around the local trend", 0.03)):
        axes.text(0.04, height, label, transform=axes.transAxes, fontsize=9)


def in_short(result: Result) -> str:
    crossing = "; ".join(
        f"from {format_integer(each.start)}, {each.crossing} of {len(each.walks)}"
        for each in result.stretches
    )
    remaining = sum(each.superdiffusive for each in result.local)
    return (
        f"Words whose walks become superdiffusive in long windows: {crossing}. Around the local"
        f" trend of the density, {remaining} of {len(result.local)} stay superdiffusive."
    )


def caption(result: Result) -> str:
    crossings = " ".join(
        f"From {format_integer(stretch.start)}, {stretch.crossing} of {len(stretch.walks)} words"
        " become superdiffusive in long windows."
        for stretch in result.stretches
    )
    return (
        "Variance of the number of occurrences of a word in windows of each length, divided by the"
        f" variance of independent draws. Left and middle: {result.count:,} integers from two"
        f" starts. {crossings} Right: all integers below {format_integer(result.below)}. Thin lines"
        " show the variance around the mean of the whole range. Thick lines show the variance"
        " around the local trend: each window is compared with the mean of the windows before and"
        f" after it (Hadamard variance), for windows that begin at {LOCAL} times their length or"
        f" later (shaded: 95 % bootstrap intervals over {result.parts} parts of the range)."
        f" {_without_drift(result)}"
    )


def _without_drift(result: Result) -> str:
    """What is left of the superdiffusion when the drift of the density is removed."""
    remaining = sum(each.superdiffusive for each in result.local)
    around_trend = join(format_estimate(each.trend_exponent, 2) for each in result.local)
    first, *_, last = result.long_lags
    return (
        f"Below {format_integer(result.below)}, at lags from {format_integer(first)} to"
        f" {format_integer(last)}, the exponents are"
        f" {join(f'{each.mean_exponent:.2f}' for each in result.local)} around the overall mean and"
        f" {around_trend} around the local trend; {remaining} of {len(result.local)} words stay"
        " superdiffusive."
        + ("" if remaining else " So the crossover comes from the slow drift of the density.")
    )


def table(result: Result) -> Table:
    header = ["word", "integers", "exponent, short lags", "long lags from", "exponent, long lags"]
    rows: list[list[str | float]] = []
    for stretch in result.stretches:
        integers = f"{format_integer(result.count)} from {format_integer(stretch.start)}"
        for each in stretch.walks:
            bend = each.crossover
            rows.append([each.word, integers, bend.before, bend.lag, bend.after])
    below, lag = f"below {format_integer(result.below)}", result.long_lags[0]
    for local in result.local:
        rows.append([local.word, f"{below}, around the overall mean", "", lag, local.mean_exponent])
        exponent = format_estimate(local.trend_exponent)
        rows.append([local.word, f"{below}, around the local trend", "", lag, exponent])
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    first, *others = result.stretches
    return [
        Verdict(
            key="crossover",
            claim="The walks of single words cross over from diffusive to superdiffusive.",
            paper="they do",
            ours=f"on {format_integer(result.count)} integers from {format_integer(first.start)}"
            f" the exponents are {_exponents(first)}",
            criterion=f"the exponents of most words rise from below {SUPERDIFFUSIVE} to above it"
            " (1: no memory, 2: ballistic)",
            agrees=first.mostly_crossing,
            why=" ".join(
                f"On as many integers from {format_integer(stretch.start)} they are"
                f" {_exponents(stretch)}."
                for stretch in others
            )
            + f" {_without_drift(result)}",
        )
    ]


def _exponents(stretch: Stretch) -> str:
    (least, most), (least_after, most_after) = stretch.before, stretch.after
    return (
        f"{least:.2f}–{most:.2f}, then {least_after:.2f}–{most_after:.2f}; {stretch.crossing} of"
        f" {len(stretch.walks)} words rise above {SUPERDIFFUSIVE}"
    )
