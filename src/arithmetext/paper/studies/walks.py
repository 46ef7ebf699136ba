"""How unevenly single words are spread, near the beginning of the text and far from it."""

from dataclasses import dataclass

from matplotlib.figure import Figure

from ...counting.walks import Walk, walk
from ...integers import format_integer
from ..figures import LINES
from ..study import Table, Verdict

TITLE = "Walks of single words"
ORDER = 40
COST = {"laptop": 1, "gpu": 10}

SUPERDIFFUSIVE = 1.2  # walks with a greater exponent; a walk without memory has exponent 1
DRIFT = (
    "In general, a word whose density drifts within the range varies more in long windows, and"
    " densities drift less where the integers are larger."
)


@dataclass(frozen=True)
class Settings:
    words: tuple[str, ...]
    starts: tuple[int, ...]
    count: int  # integers from each start


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
class Result:
    count: int
    stretches: list[Stretch]


def settings(scale: str) -> Settings:
    words = ("10", "1010", "101010", "11001010")
    return Settings(words, starts=(2, 10**10), count=10**7 if scale == "laptop" else 10**8)


def run(settings: Settings) -> Result:
    count = settings.count
    return Result(
        count,
        [
            summarise(start, [walk(word, start, start + count) for word in settings.words])
            for start in settings.starts
        ],
    )


def summarise(start: int, walks: list[Walk]) -> Stretch:
    before = [each.crossover.before for each in walks]
    after = [each.crossover.after for each in walks]
    crossing = sum(a < SUPERDIFFUSIVE < b for a, b in zip(before, after, strict=True))
    return Stretch(start, walks, (min(before), max(before)), (min(after), max(after)), crossing)


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    panels = figure.subplots(1, len(result.stretches), sharey=True)
    for axes, stretch in zip(panels, result.stretches, strict=True):
        for each, line in zip(stretch.walks, LINES, strict=True):
            first = each.fluctuations[0]
            values = zip(each.fluctuations, each.lags, strict=True)
            spread = [fluctuation / first / lag for fluctuation, lag in values]
            axes.loglog(each.lags, spread, line, label=each.word)
        axes.set_title(f"from {format_integer(stretch.start)}", fontsize=10)
        axes.set_xlabel("length of the window")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("variance relative to independent draws")
    panels[0].legend(frameon=False)
    return figure


def caption(result: Result) -> str:
    crossings = " ".join(
        f"From {format_integer(stretch.start)}, {stretch.crossing} of {len(stretch.walks)} words"
        " become superdiffusive in long windows."
        for stretch in result.stretches
    )
    return (
        "Variance of the number of occurrences of a word in windows of each length, divided by the"
        f" variance of independent draws, over {result.count:,} integers from each start."
        f" {crossings} {DRIFT}"
    )


def table(result: Result) -> Table:
    header = ["word", "start", "occurrences", "exponent before", "break at lag", "exponent after"]
    rows = [
        [each.word, stretch.start, each.occurrences, bend.before, bend.lag, bend.after]
        for stretch in result.stretches
        for each in stretch.walks
        for bend in [each.crossover]
    ]
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    return [
        Verdict(
            key=f"crossover-{format_integer(stretch.start)}",
            claim="Walks cross over from diffusive to superdiffusive"
            f" (from {format_integer(stretch.start)}).",
            paper="they do",
            ours=f"exponents {stretch.before[0]:.2f}–{stretch.before[1]:.2f}, then"
            f" {stretch.after[0]:.2f}–{stretch.after[1]:.2f}; {stretch.crossing} of"
            f" {len(stretch.walks)} words rise from below {SUPERDIFFUSIVE} to above it"
            f" (n = {format_integer(result.count)})",
            criterion=f"the exponents of most words rise above {SUPERDIFFUSIVE}",
            agrees=stretch.mostly_crossing,
            why="" if stretch.mostly_crossing else DRIFT,
        )
        for stretch in result.stretches
    ]
