"""How many different words the text has used up to n (the paper's figure of |ND_n|)."""

from dataclasses import dataclass
from math import log

from matplotlib.figure import Figure

from ...counting.dictionary import dictionary_size, first_occurrences
from ...integers import format_integer
from ..study import Table, Verdict

TITLE = "Growth of the dictionary"
ORDER = 10
COST = {"laptop": 1, "gpu": 1}


@dataclass(frozen=True)
class Settings:
    listed_to: int  # first occurrences are listed up to this integer
    counted_to_power: int  # words are counted up to this power of ten
    counts_per_decade: int


@dataclass(frozen=True)
class Result:
    first_occurrences: list[int]
    counted_at: list[int]
    counts: list[int]  # different words among 2..n, for each n in `counted_at`
    exponent: float  # of growth, between 1e11 and 1e12

    def words_at(self, n: int) -> int:
        return self.counts[self.counted_at.index(n)]


def settings(scale: str) -> Settings:
    # Nothing is sampled and everything takes a second, so every scale goes beyond the paper's.
    return Settings(listed_to=10**12, counted_to_power=30, counts_per_decade=4)


def run(settings: Settings) -> Result:
    per_decade, power = settings.counts_per_decade, settings.counted_to_power
    counted_at = [round(10 ** (k / per_decade)) for k in range(per_decade, power * per_decade)]
    counted_at.append(10**power)
    return Result(
        first_occurrences(settings.listed_to),
        counted_at,
        [dictionary_size(n) for n in counted_at],
        growth_exponent(10**11, 10**12),
    )


def growth_exponent(lo: int, hi: int) -> float:
    """The exponent of the power law through the sizes of the dictionary at `lo` and `hi`."""
    return log(dictionary_size(hi) / dictionary_size(lo)) / log(hi / lo)


def plot(result: Result) -> Figure:
    first = result.first_occurrences
    # The paper's axis needs ln ln n > 0, so its curve begins at the second word.
    listed = [(n, size) for size, n in enumerate(first, start=1) if n > 2]
    counted = zip(result.counted_at, result.counts, strict=True)
    beyond = [(n, size) for n, size in counted if n >= first[-1]]
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, height in ((left, _rescaled), (right, lambda n, size: size)):
        for points, style, name in (
            (listed, {"color": "black"}, "every first occurrence"),
            (beyond, {"color": "tab:blue", "linestyle": "--"}, "exact counts beyond the paper"),
        ):
            heights = [height(n, size) for n, size in points]
            axes.plot([float(n) for n, _ in points], heights, label=name, **style)
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


def in_short(result: Result) -> str:
    last = format_integer(result.counted_at[-1])
    return (
        f"The integers up to 1e11 make {result.words_at(10**11):,} different words, and those up to"
        f" {last} make {result.counts[-1]:,}. Between 1e11 and 1e12 the number of words grows like"
        f" n^{result.exponent:.3f}."
    )


def caption(result: Result) -> str:
    return (
        "Number of different words among 2..n. Left: on the paper's axes. Right: the number itself."
        " Black: every first occurrence up to 1e12, the paper's range. Dashed: exact counts up to"
        f" {format_integer(result.counted_at[-1])}, where the dictionary has"
        f" {result.counts[-1]:,} words. A word enters the dictionary at its least integer, so no"
        " integer had to be enumerated."
    )


def table(result: Result) -> Table:
    return ["n", "words"], list(zip(result.counted_at, result.counts, strict=True))


def verdicts(result: Result) -> list[Verdict]:
    size = result.words_at(10**11)
    return [
        Verdict(
            key="size-1e11",
            claim="The dictionary at 1e11 has more than 2000 words.",
            paper="> 2000",
            ours=f"{size} words (exact)",
            criterion="the number of words is above the paper's bound",
            agrees=size > 2000,
        ),
        Verdict(
            key="sublinear",
            claim="The dictionary grows sublinearly up to 1e12.",
            paper="sublinear",
            ours=f"local exponent {result.exponent:.3f} between 1e11 and 1e12 (exact)",
            criterion="the local exponent is below one",
            agrees=result.exponent < 1,
        ),
    ]
