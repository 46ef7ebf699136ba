"""Sentences whose occurrences arithmetic decides: a search for each, against its theorem."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...integers import format_integer
from ...search.sentences import find, find_runs, parse_sentence
from ..figures import LINES, MARKERS
from ..study import Table, Verdict
from ..wording import plural

TITLE = "Sentences that arithmetic decides"
ORDER = 15
COST = {"laptop": 2, "gpu": 350}

# A sentence, where it begins, and why.
SENTENCES: tuple[tuple[str, list[int], str], ...] = (
    ("10 10", [2], "one of two consecutive primes is even"),
    ("1100 10", [4], "p^q + 1 is prime only for 2² + 1"),
    ("1100 1100", [8], "8 and 9 are the only consecutive powers (Mihăilescu 2004)"),
    ("111000 10", [16, 256], "Fermat primes of prime index; whether there is a third is open"),
    ("10 111000", [], "2^(q^s) − 1 has the divisor 2^(q^(s−1)) − 1"),
)
# A property, for how many consecutive integers it never holds, whether the paper says so, and why.
RUNS: tuple[tuple[str, int, bool, str], ...] = (
    ("square-free", 4, True, "one of any four consecutive integers is divisible by 4"),
    ("same word", 4, False, "of four, one is divisible by 4 and another is twice an odd number"),
)
RECURRENT = ("10 1100", "1010 10", "10 1010", "101010 101010")  # sentences that recur, for contrast

FIRST = 5  # occurrences that are listed


@dataclass(frozen=True)
class Settings:
    searched_to: int


@dataclass(frozen=True)
class Occurrences:
    what: str  # a sentence, or a property of consecutive integers
    count: int
    first: list[int]  # the least integers at which it begins
    up_to_power: list[int]  # how often it begins at or before 10^0, 10^1, …, 10^18


@dataclass(frozen=True)
class Decided(Occurrences):
    expected: list[int]  # where it begins, according to the theorem
    in_paper: bool
    why: str  # the theorem


@dataclass(frozen=True)
class Result:
    searched_to: int
    decided: list[Decided]
    recurrent: list[Occurrences]


def settings(scale: str) -> Settings:
    return Settings(searched_to=10**8 if scale == "laptop" else 10**10)


def run(settings: Settings) -> Result:
    hi = settings.searched_to + 1
    decided = [
        Decided(text, *_search(text, hi), expected, in_paper=True, why=why)
        for text, expected, why in SENTENCES
    ]
    for kind, length, in_paper, why in RUNS:
        occurrences = summarise(find_runs(kind, length, 2, hi, title=kind))
        decided.append(Decided(f"{kind}, {length} in a row", *occurrences, [], in_paper, why))
    recurrent = [Occurrences(text, *_search(text, hi)) for text in RECURRENT]
    return Result(settings.searched_to, decided, recurrent)


def _search(text: str, hi: int) -> tuple[int, list[int], list[int]]:
    return summarise(find(parse_sentence(text), 2, hi, title=text))


def summarise(pieces: Iterator[Any]) -> tuple[int, list[int], list[int]]:
    """How many starts there are, the first few, and how many up to each power of ten."""
    first: list[int] = []
    by_power = np.zeros(20, np.int64)
    for starts in pieces:
        first += starts[: FIRST - len(first)].tolist()
        by_power += np.array([np.count_nonzero(starts <= 10**k) for k in range(19)] + [len(starts)])
    return int(by_power[-1]), first, by_power[:-1].tolist()


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    powers = range(1, len(str(result.searched_to)))
    occurring = [row for row in result.decided if row.count]
    for row, marker in zip(occurring, MARKERS, strict=True):
        _plot_counts(axes, row, powers, color="0.6", marker=marker)
    for recurrent, line in zip(result.recurrent, LINES, strict=True):
        _plot_counts(axes, recurrent, powers, linestyle=line)
    axes.loglog()
    axes.set(xlabel="n", ylabel="occurrences that begin at or before n")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _plot_counts(axes: Axes, row: Occurrences, powers: range, **style: Any) -> None:
    counts = {10**k: row.up_to_power[k] for k in powers if row.up_to_power[k]}
    axes.plot(list(counts), list(counts.values()), label=row.what, **style)


def in_short(result: Result) -> str:
    as_expected = [row for row in result.decided if _as_expected(row)]
    rarest = min(result.recurrent, key=lambda row: row.count)
    return (
        f"{len(as_expected)} of {len(result.decided)} sentences that arithmetic decides occur up to"
        f" {format_integer(result.searched_to)} exactly where it says. The rarest of"
        f" {len(result.recurrent)} other sentences, “{rarest.what}”, begins at"
        f" {plural(rarest.count, 'integer')}."
    )


def caption(result: Result) -> str:
    nowhere = [row.what for row in result.decided if not row.count]
    return (
        "Occurrences of sentences up to n. Every start up to"
        f" {format_integer(result.searched_to)} was examined. Grey: sentences whose occurrences"
        " arithmetic decides. Coloured: sentences that recur. Never found, as arithmetic demands:"
        f" {'; '.join(nowhere)}."
    )


def table(result: Result) -> Table:
    reasons = [row.why for row in result.decided] + ["recurs"] * len(result.recurrent)
    rows = [
        [row.what, row.count, ", ".join(map(str, row.first)), why]
        for row, why in zip([*result.decided, *result.recurrent], reasons, strict=True)
    ]
    return ["sentence", "occurrences", "first at", "why"], rows


def verdicts(result: Result) -> list[Verdict]:
    return [
        Verdict(
            key=re.sub(r"\W+", "-", row.what),
            claim=f"“{row.what}” {_occurs(row.expected)}.",
            paper=_places(row.expected),
            ours=f"{_places(row.first)} up to {format_integer(result.searched_to)} (every start"
            " examined)",
            criterion="the search finds exactly the paper's starts",
            agrees=_as_expected(row),
            why=row.why,
        )
        for row in result.decided
        if row.in_paper
    ]


def _as_expected(row: Decided) -> bool:
    return row.first == row.expected and row.count == len(row.expected)


def _places(starts: list[int]) -> str:
    return " and ".join(map(str, starts)) or "nowhere"


def _occurs(starts: list[int]) -> str:
    only = "only " * (len(starts) == 1)  # the paper says of two starts that there may be more
    return f"occurs {only}at {_places(starts)}" if starts else "never occurs"
