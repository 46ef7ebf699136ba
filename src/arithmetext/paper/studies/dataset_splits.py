"""Which integers are for training, validation and test (the paper's data figure)."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from matplotlib.figure import Figure

from ...integers import format_integer
from ...text.splits import CHUNKS, far_window, splits
from ..figures import COLOURS
from ..study import Verdict

TITLE = "Training, validation and test"
PLACE = 50
COST = {"laptop": 1, "gpu": 1}

# The lightest of the three is what most is used for; hatching tells them apart without colour.
_LOOKS = {
    "training": ("#dfe3f4", ""),
    "validation": (COLOURS[3], "////"),
    "test": (COLOURS[1], ""),
}


def settings(scale: str) -> dict[str, Any]:
    return {"n": 10**11, "powers": [13, 14, 15]}


def run(settings: dict[str, Any]) -> dict[str, Any]:
    cut = splits(settings["n"])
    named = [
        *(("training", chunk, bounds) for chunk, bounds in enumerate(cut.train, 1)),
        *(("validation", chunk, bounds) for chunk, bounds in enumerate(cut.validation, 1)),
        ("test", CHUNKS, cut.test),
        *(("test", None, far_window(power)) for power in settings["powers"]),
    ]
    ranges: list[dict[str, Any]] = [
        {"use": use, "chunk": chunk, "first": lo, "last": hi - 1, "words": hi - lo}
        for use, chunk, (lo, hi) in sorted(named, key=lambda each: each[2])
    ]
    return {
        "n": settings["n"],
        "powers": settings["powers"],
        "ranges": ranges,
        # How many integers lie between each range and the next one; negative if they overlap.
        "between": [after["first"] - before["last"] - 1 for before, after in pairwise(ranges)],
    }


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(7.2, 3.3), layout="constrained")
    above, below = figure.subplots(2, height_ratios=(1, 1))
    text, far = _text(data), _far(data)
    chunk = data["n"] / CHUNKS
    for use, (colour, hatch) in _LOOKS.items():
        spans = [(row["first"], row["words"]) for row in text if row["use"] == use]
        above.broken_barh(
            spans, (0, 1), facecolor=colour, hatch=hatch, edgecolor="0.25", lw=0.6, label=use
        )
    for k in range(CHUNKS):
        above.text((k + 0.375) * chunk, 0.5, str(k + 1), ha="center", va="center", fontsize=9)
        above.axvline(k * chunk, color="black", lw=1.6)
    above.set_xlim(0, data["n"])
    above.set_xticks([k * chunk for k in range(0, CHUNKS + 1, 2)])
    above.set_xticklabels(["2", *(format_integer(int(k * chunk)) for k in range(2, CHUNKS + 1, 2))])
    above.set_title(
        f"{CHUNKS} chunks of the text of 2..{format_integer(data['n'])}, to scale", fontsize=10
    )
    below.broken_barh([(2, data["n"] - 1)], (0, 1), facecolor="0.9", edgecolor="0.25")
    below.text(data["n"] ** 0.5, 0.5, "the ten chunks", ha="center", va="center", fontsize=9)
    starts = [row["first"] for row in far]
    below.plot(starts, [0.4] * len(starts), "D", color=_LOOKS["test"][0], mec="black", ms=8)
    for row in far:
        below.text(row["first"], 0.68, format_integer(row["first"]), ha="center", fontsize=9)
    below.set_xscale("log")
    below.set_xlim(2, 10 ** (max(data["powers"]) + 1))
    below.set_title(
        f"and {len(far)} windows of {far[0]['words']:,} integers for test, far beyond",
        fontsize=10,
    )
    below.set_xlabel("integer (logarithmic)")
    for axes in above, below:
        axes.set_ylim(0, 1)
        axes.set_yticks([])
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return figure


def caption(data: dict[str, Any]) -> str:
    totals = ", ".join(f"{total:,} words for {use}" for use, total in _totals(data).items())
    windows = ", ".join(format_integer(row["first"]) for row in _far(data))
    overlaps = sum(between < 0 for between in data["between"])
    covered = sum(row["words"] for row in _text(data))
    return (
        f"Above, the text of 2..{format_integer(data['n'])} in {CHUNKS} chunks, to scale: three"
        " quarters of"
        " each are for training, the last quarter is for validation, and that of the last chunk for"
        f" test. Below, on a logarithmic axis, the windows for test that begin at {windows}; drawn"
        f" to scale none could be seen. In all {totals}; these counts are exact. Of the"
        f" {len(data['ranges'])} ranges {overlaps or 'no two'} overlap, and those of the text hold"
        f" {covered:,} of its {data['n'] - 1:,} words."
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    rows: list[Sequence[Any]] = [
        [row["chunk"] or "far beyond", row["use"], row["first"], row["last"], row["words"]]
        for row in data["ranges"]
    ]
    rows += [["all", use, "", "", total] for use, total in _totals(data).items()]
    return ["chunk", "for", "first integer", "last integer", "words"], rows


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    chunk = data["n"] // CHUNKS
    sizes = [
        sum(row["words"] for row in _text(data) if row["chunk"] == k) for k in range(1, CHUNKS + 1)
    ]
    shares = [
        row["words"] / sizes[row["chunk"] - 1] for row in _text(data) if row["use"] == "training"
    ]
    last = next(row for row in _text(data) if row["use"] == "test")
    far, totals = _far(data), _totals(data)
    longer = {row["words"] for row in far}
    overlaps = sum(between < 0 for between in data["between"])
    covered = sum(sizes)
    found = [
        Verdict(
            claim=f"The text of 2..{format_integer(data['n'])} is cut into {CHUNKS} chunks of"
            f" {format_integer(chunk)} words, the first of them shorter by one.",
            paper=f"{format_integer(chunk)} − 1, then {CHUNKS - 1} times {format_integer(chunk)}",
            ours=f"{sizes[0]:,}, then {CHUNKS - 1} times {' or '.join(sorted(_many(sizes[1:])))}",
            agrees=sizes == [chunk - 1] + [chunk] * (CHUNKS - 1),
        ),
        Verdict(
            claim="Of each chunk three quarters are for training; the rest is for validation, but"
            " that of the last chunk for test.",
            paper="3/4, 1/4, and 1/4 of the tenth",
            ours=f"{min(shares):.3f} of every chunk for training;"
            f" {last['words']:,} words of chunk {last['chunk']} for test",
            agrees=all(abs(share - 0.75) < 1 / chunk for share in shares)
            and last["chunk"] == CHUNKS
            and 4 * last["words"] == chunk,
            why="The first chunk begins at 2 and lacks one word of its first three quarters.",
        ),
        Verdict(
            claim="In all, three quarters of the text are for training.",
            paper=f"{format_integer(data['n'] * 3 // 4)} words, from its shares",
            ours=f"{totals['training']:,} words",
            agrees=totals["training"] == data["n"] * 3 // 4 - 1,
        ),
        Verdict(
            claim="Three windows of 1e6 words far beyond the text are for test as well.",
            paper="1e6 each, in [10^k, 10^k + 10^6], k = 13, 14, 15",
            ours=f"{' or '.join(sorted(_many(list(longer))))} each, from"
            f" {', '.join(format_integer(row['first']) for row in far)}",
            agrees=longer == {10**6 + 1} and data["powers"] == [13, 14, 15],
            why="The closed interval that the paper writes has one integer more than the 10^6 it"
            " says; we take the interval.",
        ),
        Verdict(
            claim="Nothing that is tested on was trained on.",
            paper="the sets are disjoint",
            ours=f"{overlaps} overlaps between {len(data['ranges'])} ranges, which hold"
            f" {covered:,} of the {data['n'] - 1:,} words of the text",
            agrees=overlaps == 0,
        ),
    ]
    return [replace(verdict, by_construction=True) for verdict in found]


def _text(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in data["ranges"] if row["chunk"] is not None]


def _far(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [row for row in data["ranges"] if row["chunk"] is None]


def _totals(data: dict[str, Any]) -> dict[str, int]:
    return {use: sum(row["words"] for row in data["ranges"] if row["use"] == use) for use in _LOOKS}


def _many(numbers: list[int]) -> set[str]:
    return {f"{number:,}" for number in numbers}
