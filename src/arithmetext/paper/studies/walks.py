"""How unevenly single words are spread, near the beginning of the text and far from it."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from matplotlib.figure import Figure

from ...counting.walks import walk
from ...integers import format_integer
from ..study import Verdict

TITLE = "Walks of single words"
PLACE = 40
COST = {"laptop": 1, "gpu": 10}


def settings(scale: str) -> dict[str, Any]:
    return {
        "words": ["10", "1010", "101010", "11001010"],
        "starts": [2, 10**10],
        "count": 10**7 if scale == "laptop" else 10**8,
    }


def run(settings: dict[str, Any]) -> dict[str, Any]:
    count = settings["count"]
    return {
        "count": count,
        "walks": [
            {"start": start} | asdict(walk(word, start, start + count))
            for start in settings["starts"]
            for word in settings["words"]
        ],
    }


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    starts = sorted({each["start"] for each in data["walks"]})
    panels = figure.subplots(1, len(starts), sharey=True)
    for axes, start in zip(panels, starts, strict=True):
        shown = [each for each in data["walks"] if each["start"] == start]
        for each, style in zip(shown, ["-", "--", "-.", ":"], strict=True):
            first = each["fluctuations"][0]
            spread = [
                f / first / lag for f, lag in zip(each["fluctuations"], each["lags"], strict=True)
            ]
            axes.loglog(each["lags"], spread, style, label=each["word"])
        axes.set_title(f"from {format_integer(start)}", fontsize=10)
        axes.set_xlabel("length of the window")
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("variance, as a multiple of no memory")
    panels[0].legend(frameon=False)
    return figure


def caption(data: dict[str, Any]) -> str:
    return (
        "Variance of the number of occurrences of a word in windows of every length, divided by"
        " what independent draws would give, over"
        f" {data['count']:,} integers. Left, from the beginning of the text: beyond some thousand"
        " integers the variance runs away, as the density of every word drifts. Right, the same"
        " number of integers from 1e10, where the density hardly drifts: it does not."
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    header = ["word", "start", "occurrences", "exponent before", "break at lag", "exponent after"]
    rows = [
        [
            each["word"],
            each["start"],
            each["occurrences"],
            each["crossover"]["before"],
            each["crossover"]["lag"],
            each["crossover"]["after"],
        ]
        for each in data["walks"]
    ]
    return header, rows


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    found = []
    for start in sorted({each["start"] for each in data["walks"]}):
        bends = [each["crossover"] for each in data["walks"] if each["start"] == start]
        before = [bend["before"] for bend in bends]
        after = [bend["after"] for bend in bends]
        crossing = sum(bend["before"] < 1.2 < bend["after"] for bend in bends)
        crosses = crossing > len(bends) / 2
        found.append(
            Verdict(
                claim=f"Walks cross over from diffusive to superdiffusive"
                f" (from {format_integer(start)}).",
                paper="they do",
                ours=f"exponents {min(before):.2f}–{max(before):.2f}, then"
                f" {min(after):.2f}–{max(after):.2f}; {crossing} of {len(bends)} words rise from"
                f" below 1.2 to above it (n = {format_integer(data['count'])}; agrees if most do)",
                agrees=crosses,
                why="" if crosses else "The density of words hardly drifts here.",
            )
        )
    return found
