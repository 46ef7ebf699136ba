"""How many words tell where in the text they stand (not in the paper)."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ...integers import format_integer
from ...search.locate import EFFORTS, locate
from ...text.sieve import words
from ..study import Verdict

TITLE = "How many words tell where they stand"
PLACE = 210
COST = {"laptop": 25, "gpu": 500}

_LINES = ("-", "--", "-.", ":")
_COLOURS = ("#1b9e77", "#d95f02", "#4a46a8", "#444444")


def settings(scale: str) -> dict[str, Any]:
    return {
        "scales": [10**9, 10**11, 10**13, 10**15],
        "lengths": [12, 16, 24, 32, 48, 64, 128],
        "windows": 5 if scale == "laptop" else 25,
        "efforts": 1 if scale == "laptop" else len(EFFORTS),
        "seed": 0,
    }


def run(settings: dict[str, Any]) -> dict[str, Any]:
    rows = []
    for scale in settings["scales"]:
        random = np.random.default_rng([settings["seed"], scale])
        for length in settings["lengths"]:
            found, seconds, chance = 0, 0.0, []
            for n in random.integers(2, scale, settings["windows"]).tolist():
                window = words(n, n + length)
                start = time.perf_counter()
                location = locate(window, scale, efforts=EFFORTS[: settings["efforts"]])
                seconds += time.perf_counter() - start
                found += location.places == [n]
                chance.append(location.expected)
            rows.append(
                {
                    "scale": scale,
                    "length": length,
                    "found": found,
                    "windows": settings["windows"],
                    "seconds": seconds / settings["windows"],
                    "expected": float(np.median(chance)),
                }
            )
    return {"rows": rows, "efforts": settings["efforts"]}


def interval(found: int, windows: int) -> tuple[float, float]:
    """Wilson's interval for a share, at 95 %."""
    z = 1.96
    centre = (found + z * z / 2) / (windows + z * z)
    half = z * np.sqrt(found * (windows - found) / windows + z * z / 4) / (windows + z * z)
    return max(0.0, centre - float(half)), min(1.0, centre + float(half))


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    scales = sorted({row["scale"] for row in data["rows"]})
    for scale, marker, line, colour in zip(scales, "osD^", _LINES, _COLOURS, strict=False):
        rows = [row for row in data["rows"] if row["scale"] == scale]
        lengths = [row["length"] for row in rows]
        shares = np.array([row["found"] / row["windows"] for row in rows])
        lows, highs = np.array([interval(row["found"], row["windows"]) for row in rows]).T
        style = {"marker": marker, "linestyle": line, "color": colour, "ms": 5}
        left.errorbar(
            lengths,
            shares,
            yerr=[shares - lows, highs - shares],
            capsize=2,
            label=f"below {format_integer(scale)}",
            **style,
        )
        right.plot(lengths, [row["seconds"] for row in rows], **style)
    for axes in (left, right):
        axes.set_xscale("log", base=2)
        axes.set_xticks(sorted({row["length"] for row in data["rows"]}))
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.set_xlabel("words in the window")
        axes.grid(alpha=0.3)
    left.set_ylabel("share of windows located")
    left.legend(fontsize=8)
    right.set_yscale("log")
    right.set_ylabel("seconds a window, one core")
    return figure


def caption(data: dict[str, Any]) -> str:
    windows = data["rows"][0]["windows"]
    effort = (
        " The search was given up early; longer ones find more of the short windows."
        if data["efforts"] < len(EFFORTS)
        else ""
    )
    return (
        f"Of {windows} windows of consecutive words, drawn uniformly below each bound, the share"
        " whose first integer was found from the words alone, with 95 % intervals, and the time it"
        " took. A window counts as found only if it was found at its place and nowhere else. Where"
        f" a window has other places by chance no method can tell which it is.{effort}"
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    header = ["below", "words", "located", "of", "seconds", "places by chance (median)"]
    rows = [
        [
            format_integer(row["scale"]),
            row["length"],
            row["found"],
            row["windows"],
            round(row["seconds"], 3),
            float(f"{row['expected']:.2g}"),
        ]
        for row in data["rows"]
    ]
    return header, rows


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    longest = max(row["length"] for row in data["rows"])
    rows = [row for row in data["rows"] if row["length"] == longest]
    found, windows = sum(row["found"] for row in rows), sum(row["windows"] for row in rows)
    chance = max(row["expected"] for row in rows)
    return [
        Verdict(
            claim="A prompt of 1024 tokens may have several valid continuations, so that accuracy"
            " is slightly underestimated.",
            paper="slightly",
            ours=f"by chance a window of {longest} words has {chance:.0e} places; {found} of"
            f" {windows} were located, all at one place",
            agrees=chance > 0.001,
            why="A word carries one to three nats, and a place below 1e15 needs 35.",
        )
    ]
