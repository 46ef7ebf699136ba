"""Whether the text can be told from the same text read backwards."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from ...counting.order import orientation
from ...integers import short
from . import Verdict

TITLE = "The text read backwards"
PLACE = 35
COST = {"laptop": 3, "gpu": 30}


def settings(scale: str) -> dict[str, Any]:
    return {
        "starts": [2, 10**8, 10**10, 10**13],
        "counts": [10**6, 10**7, 10**8] if scale == "laptop" else [10**7, 10**8, 10**9],
        "words": 2,
        "seed": 0,
    }


def run(settings: dict[str, Any]) -> dict[str, Any]:
    rows = []
    for start in settings["starts"]:
        for count in settings["counts"]:
            found = orientation(start, start + count, settings["words"], seed=settings["seed"])
            rows.append(
                {
                    "start": start,
                    "count": count,
                    "text": found.text.divergence,
                    "floor": found.floor,
                    "spread": found.spread,
                    "one_way": found.text.one_way,
                }
            )
    return {"rows": rows}


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.subplots()
    for start, marker in zip(_starts(data), "os^D", strict=True):
        rows = [row for row in data["rows"] if row["start"] == start]
        axes.errorbar(
            [row["count"] for row in rows],
            [row["text"] / row["floor"] for row in rows],
            yerr=[3 * row["spread"] / row["floor"] for row in rows],
            marker=marker,
            capsize=3,
            label=f"from {short(start)}",
        )
    axes.axhline(1, color="0.5", linestyle="--", label="floor: each pair turned by a coin")
    axes.set_xscale("log")
    axes.set_xlabel("integers counted")
    axes.set_ylabel("divergence from the reversed\ntext, as a multiple of the floor")
    axes.legend(frameon=False)
    axes.grid(alpha=0.3)
    return figure


def caption(data: dict[str, Any]) -> str:
    return (
        "Jensen–Shannon divergence between the pairs of consecutive words and the same pairs read"
        " backwards, against what chance makes of as many pairs, each occurrence turned round or"
        " not by the toss of a coin (20 tosses; bars three standard deviations). Above the dashed"
        " line the text is oriented. Below it nothing follows: frequent pairs are spread more"
        " evenly than tosses would be, so the floor is somewhat too high, and the further up, the"
        " more integers it takes to rise above it."
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    header = ["start", "integers", "text", "floor", "its deviation", "pairs only one way"]
    keys = ["start", "count", "text", "floor", "spread", "one_way"]
    return header, [[row[key] for key in keys] for row in data["rows"]]


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    """Above the noise floor the text is oriented.

    Below it nothing follows, so the claim is not tested.
    """
    found = []
    for start in _starts(data):
        row = max((r for r in data["rows"] if r["start"] == start), key=lambda r: r["count"])
        oriented = row["text"] > row["floor"] + 3 * row["spread"]
        found.append(
            Verdict(
                claim=f"The text is measurably oriented (from {short(start)}).",
                paper="oriented",
                ours=f"{row['text']:.3g} bits against a floor of {row['floor']:.3g} ±"
                f" {row['spread']:.1g} (n = {short(row['count'])}, 20 tosses, seed 0; agrees if"
                " above the floor by three standard deviations)",
                agrees=True if oriented else None,
                why=""
                if oriented
                else "Not above the noise floor. The floor is somewhat too high, so the text may"
                " still be oriented; more integers may show it.",
            )
        )
    return found


def _starts(data: dict[str, Any]) -> list[int]:
    return sorted({row["start"] for row in data["rows"]})
