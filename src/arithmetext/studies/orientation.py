"""Whether the text can be told from the same text read backwards."""

from collections.abc import Sequence
from statistics import mean, stdev
from typing import Any

from matplotlib.figure import Figure

from ..integers import short
from ..text.order import orientation
from . import Verdict

TITLE = "The text read backwards"
PLACE = 35


def settings(scale: str) -> dict[str, Any]:
    return {
        "starts": [2, 10**8, 10**10, 10**13],
        "count": 10**7 if scale == "laptop" else 10**8,
        "words": 2,
        "seeds": [0, 1, 2, 3, 4],
    }


def run(settings: dict[str, Any]) -> dict[str, Any]:
    rows = []
    for start in settings["starts"]:
        found = [
            orientation(start, start + settings["count"], settings["words"], seed=seed)
            for seed in settings["seeds"]
        ]
        floors = [each.turned.divergence for each in found]
        rows.append(
            {
                "start": start,
                "text": found[0].text.divergence,
                "floor": mean(floors),
                "spread": stdev(floors),
                "shuffled": mean(each.shuffled.divergence for each in found),
                "one_way": found[0].text.one_way,
            }
        )
    return {"count": settings["count"], "seeds": len(settings["seeds"]), "rows": rows}


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(7.2, 3.8), layout="constrained")
    axes = figure.subplots()
    rows = data["rows"]
    places = range(len(rows))
    for offset, key, label, colour, hatch in (
        (-0.25, "text", "text", "black", ""),
        (0.0, "floor", "floor: each pair turned or not by a coin", "0.75", ""),
        (0.25, "shuffled", "words shuffled", "white", "///"),
    ):
        axes.bar(
            [place + offset for place in places],
            [row[key] for row in rows],
            width=0.23,
            color=colour,
            edgecolor="black",
            hatch=hatch,
            label=label,
            yerr=[row["spread"] for row in rows] if key == "floor" else None,
        )
    axes.set_xticks(list(places), [f"from {short(row['start'])}" for row in rows])
    axes.set_ylabel("divergence from the reversed text (bits)")
    axes.legend(frameon=False)
    return figure


def caption(data: dict[str, Any]) -> str:
    return (
        "Jensen–Shannon divergence between the pairs of consecutive words and the same pairs read"
        f" backwards, in {data['count']:,} integers from each start. The floor is what chance makes"
        " of a text without direction: the same pairs, each occurrence turned round or not by the"
        f" toss of a coin ({data['seeds']} seeds, bars one standard deviation). A text with its"
        " words shuffled has other pairs, and so another floor."
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    header = ["start", "text", "floor", "its deviation", "shuffled", "pairs only one way"]
    keys = ["start", "text", "floor", "spread", "shuffled", "one_way"]
    return header, [[row[key] for key in keys] for row in data["rows"]]


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    return [
        Verdict(
            claim=f"The text is measurably oriented (from {short(row['start'])}).",
            paper="oriented",
            ours=f"{row['text']:.3g} bits against a floor of {row['floor']:.3g} ±"
            f" {row['spread']:.1g} (n = {short(data['count'])}, {data['seeds']} seeds)",
            agrees=row["text"] > row["floor"] + 3 * row["spread"],
            why=""
            if row["text"] > row["floor"] + 3 * row["spread"]
            else "remainders are symmetric under n → −n; only size, which drifts, has a direction",
        )
        for row in data["rows"]
    ]
