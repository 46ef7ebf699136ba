"""Whether the text can be told from the same text read backwards."""

from dataclasses import dataclass

from matplotlib.figure import Figure

from ...counting.order import orientation
from ...integers import format_integer
from ..figures import MARKERS
from ..study import Table, Verdict

TITLE = "The text read backwards"
ORDER = 35
COST = {"laptop": 3, "gpu": 30}


@dataclass(frozen=True)
class Settings:
    starts: tuple[int, ...]
    counts: tuple[int, ...]
    words: int
    seed: int


@dataclass(frozen=True)
class Row:
    """The pairs of words among the integers from `start` to `start + count - 1`."""

    start: int
    count: int
    text: float  # divergence from the reversed text, in bits
    floor: float  # mean divergence of texts whose pairs are reversed at random
    spread: float  # standard deviation of their divergence
    one_way: float  # share of the pairs that occur in one order only

    @property
    def above_floor(self) -> bool:
        return self.text > self.floor + 3 * self.spread


@dataclass(frozen=True)
class Result:
    rows: list[Row]

    def by_start(self) -> dict[int, list[Row]]:
        starts = sorted({row.start for row in self.rows})
        return {start: [row for row in self.rows if row.start == start] for start in starts}


def settings(scale: str) -> Settings:
    counts = (10**6, 10**7, 10**8) if scale == "laptop" else (10**7, 10**8, 10**9)
    return Settings(starts=(2, 10**8, 10**10, 10**13), counts=counts, words=2, seed=0)


def run(settings: Settings) -> Result:
    return Result(
        [_measure(start, count, settings) for start in settings.starts for count in settings.counts]
    )


def _measure(start: int, count: int, settings: Settings) -> Row:
    measured = orientation(start, start + count, settings.words, seed=settings.seed)
    text = measured.text
    return Row(start, count, text.divergence, measured.floor, measured.spread, text.one_way)


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.subplots()
    for (start, rows), marker in zip(result.by_start().items(), MARKERS, strict=True):
        axes.errorbar(
            [row.count for row in rows],
            [row.text / row.floor for row in rows],
            yerr=[3 * row.spread / row.floor for row in rows],
            marker=marker,
            capsize=3,
            label=f"from {format_integer(start)}",
        )
    axes.axhline(1, color="0.5", linestyle="--", label="noise floor: pairs reversed at random")
    axes.set_xscale("log")
    axes.set_xlabel("integers counted")
    axes.set_ylabel("divergence from the reversed\ntext, as a multiple of the floor")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    return figure


def in_short(result: Result) -> str:
    row, *further = _longest(result)
    oriented = [each for each in further if each.above_floor]
    return (
        f"From {format_integer(row.start)} on, the pairs of words differ from the reversed pairs by"
        f" {row.text:.3g} bits, and random reversal would give {row.floor:.3g}. Of the"
        f" {len(further)} ranges that begin later, {len(oriented)} are above this noise floor."
    )


def caption(result: Result) -> str:
    return (
        "Jensen–Shannon divergence between the pairs of consecutive words and the same pairs"
        " reversed. The noise floor is the divergence after reversing each occurrence of a pair"
        " with probability 1/2 (mean of 20 draws; error bars are three standard deviations). A"
        " text whose bar is above the dashed line is oriented. Below it nothing follows: frequent"
        " pairs are spread more evenly than random reversal would make them, so the floor is"
        " somewhat too high. The larger the integers, the more integers are needed to rise above"
        " the floor."
    )


def table(result: Result) -> Table:
    header = ["start", "integers", "text", "floor", "its deviation", "pairs only one way"]
    rows = [[r.start, r.count, r.text, r.floor, r.spread, r.one_way] for r in result.rows]
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    """The paper names no range, so the verdict is about the text from its beginning.

    A divergence below the noise floor proves nothing; then the claim is not tested.
    """
    row, *further = _longest(result)
    return [
        Verdict(
            key="oriented",
            claim="The text is measurably oriented.",
            paper="oriented",
            ours="; ".join(_describe(each) for each in (row, *further)) + " (20 draws, seed 0)",
            criterion=f"the divergence from {format_integer(row.start)} on is above the noise floor"
            " by more than three standard deviations",
            agrees=True if row.above_floor else None,
            why="Among larger integers the direction is fainter. The floor is somewhat too high, so"
            " a text that is not above it may still be oriented; more integers may show that.",
        )
    ]


def _longest(result: Result) -> list[Row]:
    """The longest range from each start."""
    return [max(rows, key=lambda row: row.count) for rows in result.by_start().values()]


def _describe(row: Row) -> str:
    return (
        f"from {format_integer(row.start)}: divergence {row.text:.3g} bits, noise floor"
        f" {row.floor:.3g} ± {row.spread:.1g} (n = {format_integer(row.count)})"
    )
