"""Sentences whose fate arithmetic decides: each searched for, and checked against its theorem."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ...integers import format_integer
from ...search.sentences import find, find_runs, parse_sentence
from ..study import Verdict

TITLE = "Sentences that arithmetic decides"
PLACE = 15
COST = {"laptop": 2, "gpu": 350}

# A sentence, where it begins, and why.
SENTENCES: tuple[tuple[str, list[int], str], ...] = (
    ("10 10", [2], "one of two consecutive primes is even"),
    ("1100 10", [4], "p^q + 1 is prime only for 2² + 1"),
    ("1100 1100", [8], "8 and 9 are the only consecutive powers (Mihăilescu 2004)"),
    ("111000 10", [16, 256], "Fermat primes of prime index; whether there is a third is open"),
    ("10 111000", [], "2^(q^s) − 1 has the divisor 2^(q^(s−1)) − 1"),
)
# A property that never holds for so many integers in a row, whether the paper says so, and why.
RUNS: tuple[tuple[str, int, bool, str], ...] = (
    ("square-free", 4, True, "one of any four consecutive integers is divisible by 4"),
    ("same word", 4, False, "of four, one is divisible by 4 and another is twice an odd number"),
)
# Recurrent sentences, for contrast.
COUNTED = ("10 1100", "1010 10", "10 1010", "101010 101010")


def settings(scale: str) -> dict[str, Any]:
    return {"searched_to": 10**8 if scale == "laptop" else 10**10}


def run(settings: dict[str, Any]) -> dict[str, Any]:
    hi = settings["searched_to"] + 1
    decided = [
        {"what": text, "expected": expected, "in_paper": True, "why": why}
        | _gather(find(parse_sentence(text), 2, hi, title=text))
        for text, expected, why in SENTENCES
    ]
    decided += [
        {"what": f"{kind}, {length} in a row", "expected": [], "in_paper": in_paper, "why": why}
        | _gather(find_runs(kind, length, 2, hi, title=kind))
        for kind, length, in_paper, why in RUNS
    ]
    counted = [
        {"what": text} | _gather(find(parse_sentence(text), 2, hi, title=text)) for text in COUNTED
    ]
    return {"searched_to": settings["searched_to"], "decided": decided, "counted": counted}


def _gather(pieces: Iterator[Any]) -> dict[str, Any]:
    """How many there are up to every power of ten, and the first few."""
    first: list[int] = []
    by_power = np.zeros(20, np.int64)
    for starts in pieces:
        first += starts[: 5 - len(first)].tolist()
        by_power += np.array([np.count_nonzero(starts <= 10**k) for k in range(19)] + [len(starts)])
    return {"count": int(by_power[-1]), "first": first, "up_to_power": by_power[:-1].tolist()}


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(7.2, 4.2), layout="constrained")
    axes = figure.subplots()
    powers = range(1, len(str(data["searched_to"])))
    occurring = [row for row in data["decided"] if row["count"]]
    for row, marker in zip(occurring, "os^D", strict=True):
        axes.plot(*_curve(row, powers), color="0.6", marker=marker, label=row["what"])
    for row, style in zip(data["counted"], ["-", "--", "-.", ":"], strict=True):
        axes.plot(*_curve(row, powers), style, label=row["what"])
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("n")
    axes.set_ylabel("occurrences that begin at or before n")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    return figure


def _curve(row: dict[str, Any], powers: Sequence[int]) -> tuple[list[int], list[int]]:
    found = [k for k in powers if row["up_to_power"][k]]
    return [10**k for k in found], [row["up_to_power"][k] for k in found]


def caption(data: dict[str, Any]) -> str:
    nowhere = [row["what"] for row in data["decided"] if not row["count"]]
    return (
        f"Occurrences of sentences up to n; every start up to"
        f" {format_integer(data['searched_to'])} was"
        " examined. Grey: sentences that occur a settled number of times; coloured: some that"
        f" recur. Found nowhere, as arithmetic demands: {'; '.join(nowhere)}."
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    rows = [
        [row["what"], row["count"], ", ".join(map(str, row["first"])), row.get("why", "recurs")]
        for row in [*data["decided"], *data["counted"]]
    ]
    return ["sentence", "occurrences", "first at", "why"], rows


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    return [
        Verdict(
            claim=f"“{row['what']}” {_begins(row['expected'])}.",
            paper=_places(row["expected"]),
            ours=f"{_places(row['first'])} up to {format_integer(data['searched_to'])} (all"
            " examined)",
            agrees=row["first"] == row["expected"] and row["count"] == len(row["expected"]),
            why=row["why"],
        )
        for row in data["decided"]
        if row["in_paper"]
    ]


def _begins(starts: list[int]) -> str:
    return f"begins at {_places(starts)}" if starts else "never occurs"


def _places(starts: list[int]) -> str:
    return " and ".join(map(str, starts)) or "nowhere"
