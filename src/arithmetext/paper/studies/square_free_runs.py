"""Prompts with runs of square-free words, and controls that the paper does not have."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.codec import to_json
from ...evaluation.estimates import said
from ...evaluation.square_free import impossible, runs
from ...integers import format_integer
from ...text.splits import unseen
from ..figures import COLOURS, LINES, MARKS
from ..runs import FAR, hmm, model, ntp
from ..study import Verdict

TITLE = "Four square-free words in a row"
PLACE = 145
COST = {"laptop": 10, "gpu": 20}

LONGEST = 3  # square-free words in a row, by arithmetic

# A model's colour, line and mark; the paper's HMM is dash-dotted.
_LOOKS = ((COLOURS[0], LINES[0], MARKS[0]), (COLOURS[1], LINES[2], MARKS[1]))


def settings(scale: str) -> dict[str, Any]:
    return {
        "models": {"GPT-2": ntp(scale), "HMM": hmm(scale)},
        "at": FAR[0],
        "tokens": 256 if scale == "laptop" else 1024,
        "sequences": 128 if scale == "laptop" else 512,
        "seed": 0,
    }


def run(settings: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, recipe in settings["models"].items():
        it = model(recipe)
        about = (it.model, it.tokenizer, unseen(settings["at"], it.trained), it.trained)
        how = {
            "number": settings["sequences"],
            "length": settings["tokens"],
            "seed": settings["seed"],
        }
        made = runs(*about, **how)
        found[name] = {
            "runs": to_json(made.summary()),
            "true": made.true.round(4).tolist(),
            "values": {str(run): values.round(4).tolist() for run, values in made.runs.items()},
            "impossible": to_json(impossible(*about, **how).summary()),
        }
    return {
        "at": settings["at"],
        "tokens": settings["tokens"],
        "sequences": settings["sequences"],
        "seed": settings["seed"],
        "models": found,
    }


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(9.6, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    _ridges(left, data)
    _prices(right, data)
    left.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False, fontsize=9)
    right.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False, fontsize=9)
    return figure


def _ridges(axes: Axes, data: dict[str, Any]) -> None:
    models = data["models"]
    kinds = ["true", *next(iter(models.values()))["values"]]
    every = {
        name: [np.array(found["true"]), *map(np.array, found["values"].values())]
        for name, found in models.items()
    }
    together = np.concatenate([values for rows in every.values() for values in rows])
    bins = np.linspace(together.min(), together.max(), 91)
    for (name, rows), (colour, line, _) in zip(every.items(), _LOOKS, strict=False):
        axes.axvspan(*_bulk(rows[0]), color=colour, alpha=0.12, lw=0)
        for k, values in enumerate(rows):
            counts, _ = np.histogram(values, bins)
            inside = slice(counts.nonzero()[0][0], counts.nonzero()[0][-1] + 1)
            heights = k + 0.85 * counts[inside] / counts.max()
            edges = bins[inside.start : inside.stop + 1]
            label = name if k == 0 else None
            axes.stairs(heights, edges, baseline=k, fill=True, color=colour, alpha=0.3)
            axes.stairs(heights, edges, baseline=k, color=colour, ls=line, label=label)
    for k in range(len(kinds)):
        axes.axhline(k, color="0.6", lw=0.6, zorder=0)
    border = kinds.index(str(LONGEST)) + 1
    axes.axhline(border, color="black", lw=1.2)
    beside = axes.get_yaxis_transform()
    for middle, label in (((border + len(kinds)) / 2, "never occur"), (border / 2, "occur")):
        axes.text(1.01, middle, label, rotation=90, va="center", fontsize=9, transform=beside)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(0, len(kinds))
    axes.set_yticks(
        range(len(kinds)), ["true text", *(f"runs of {kind}" for kind in kinds[1:])], va="bottom"
    )
    axes.set_xlabel("log-likelihood in nats a token")
    axes.grid(axis="x", alpha=0.3)


def _prices(axes: Axes, data: dict[str, Any]) -> None:
    kinds = list(next(iter(data["models"].values()))["impossible"]["nats"])
    for (name, found), (colour, line, mark) in zip(data["models"].items(), _LOOKS, strict=False):
        nats = [found["impossible"]["nats"][kind] for kind in kinds]
        values, lows, highs = (
            np.array([each[end] for each in nats], float) for end in ("value", "low", "high")
        )
        axes.errorbar(
            range(len(kinds)),
            values,
            yerr=[values - lows, highs - values],
            color=colour,
            ls=line,
            marker=mark,
            capsize=3,
            label=name,
        )
    shown = {"true": "as in\nthe text", "here": "allowed\nhere", "elsewhere": "allowed\nelsewhere"}
    axes.set_xticks(range(len(kinds)), [shown.get(kind, kind) for kind in kinds], fontsize=9)
    axes.set_xlim(-0.4, len(kinds) - 0.6)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("price of four words in nats")
    axes.grid(alpha=0.3)


def caption(data: dict[str, Any]) -> str:
    control = next(iter(data["models"].values()))["impossible"]
    return (
        f"Left: log-likelihoods of {data['sequences']} true prompts of {data['tokens']} tokens at"
        f" {format_integer(data['at'])}, seed {data['seed']}, and of as many for each length of"
        " runs, whose"
        " words are drawn from their frequencies: so many square-free ones, then one that is not,"
        f" and so on. Runs longer than {LONGEST}, above the black line, never occur. Shaded:"
        " where the middle 95 % of the true prompts of each model lie. All histograms have the same"
        " height. Right, a control: in the middle of the text four words are replaced by"
        " square-free ones (impossible everywhere) or by four that are as common, and allowed at"
        " this place or only at others; means over"
        f" {control['left']} of {control['asked']} places, where such words exist, with intervals"
        " of 95 %. The step from allowed here to elsewhere is the price of the wrong place, that"
        " from elsewhere to impossible the price of the rule."
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    header = [
        "model",
        "what",
        "mean",
        "unit",
        "area under the ROC curve",
        "within the range of true prompts",
    ]
    rows: list[Sequence[Any]] = []
    for name, found in data["models"].items():
        unit = "log-likelihood, nats a token"
        rows.append([name, "true prompts", said(found["runs"]["true"]), unit, "", ""])
        rows += [
            [
                name,
                f"runs of {row['run']}",
                said(row["mean"]),
                unit,
                f"{said(row['auc'])} (true is likelier)",
                round(_within(found, row["run"]), 3),
            ]
            for row in found["runs"]["runs"]
        ]
        control = found["impossible"]
        rows += [
            [
                name,
                f"four words: {kind}",
                said(nats),
                "price, nats",
                f"{said(control['auc'][kind])} (likelier than impossible)"
                if kind in control["auc"]
                else "",
                "",
            ]
            for kind, nats in control["nats"].items()
        ]
    return header, rows


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    gpt, hmm_found = data["models"]["GPT-2"], data["models"]["HMM"]
    rows = {row["run"]: row for row in gpt["runs"]["runs"]}
    possible = [run for run in rows if run <= LONGEST]
    never = [run for run in rows if run > LONGEST]
    lowest, highest = (
        min(rows[run]["mean"]["low"] for run in possible),
        max(rows[run]["mean"]["high"] for run in never),
    )
    within, hmm_within = ({run: _within(found, run) for run in rows} for found in (gpt, hmm_found))
    hmm_areas = {row["run"]: row["auc"] for row in hmm_found["runs"]["runs"]}
    return [
        Verdict(
            claim="Prompts with more than three square-free words in a row are much less likely"
            " than true ones.",
            paper="very low likelihood",
            ours=f"{_means(rows, never)} nats a token, true prompts"
            f" {said(gpt['runs']['true'])}; area at least"
            f" {said(min((rows[run]['auc'] for run in never), key=_value))}",
            agrees=all(rows[run]["auc"]["low"] > 0.9 for run in never),
            why="Agrees if the intervals of all areas lie above 0.9.",
        ),
        Verdict(
            claim="Prompts with runs of two or three lie within the learned distribution.",
            paper="they do",
            ours=f"{_shares(within, possible)} lie in the middle 95 % of the true prompts; area"
            f" {'; '.join(said(rows[run]['auc']) for run in possible)}",
            agrees=all(within[run] > 0.5 for run in possible),
            why="Agrees if more than half of them do. The words of these prompts are drawn, so that"
            " they have no place in the text either; an area of 1 is as far outside as it gets.",
        ),
        Verdict(
            claim="The likelihood separates runs of more than three from shorter ones.",
            paper="higher for two and three",
            ours=f"{_means(rows, [*possible, *never])} nats a token",
            agrees=lowest > highest,
            why="Agrees if the intervals of the means for two and three lie above all others. A run"
            " of three and a word that is not square-free keep the text's period of four; all other"
            f" runs break it.{_price(gpt)}",
        ),
        Verdict(
            claim="The HMM places prompts with more than three in a row inside the bulk of the true"
            " ones.",
            paper="it does",
            ours=f"{_shares(hmm_within, never)} lie in the middle 95 % of the true prompts; area"
            f" {'; '.join(said(hmm_areas[run]) for run in never)}",
            agrees=all(hmm_within[run] > 0.5 for run in never),
            why="Agrees if more than half of them do. Runs change how often each word comes, which"
            " a model sees that knows frequencies only, if prompts are long. This HMM learned to"
            " predict from one token and reads all of them here.",
        ),
    ]


def _price(found: dict[str, Any]) -> str:
    """What is paid for the impossible rather than for the wrong place, in words."""
    control = found["impossible"]
    if not control["left"]:
        return ""
    nats = (f"{control['nats'][kind]['value']:.1f}" for kind in ("here", "elsewhere", "impossible"))
    return (
        " Of four words in place of true ones, as common as each other, those allowed here cost"
        " {}, those allowed elsewhere {}, the impossible {} nats".format(*nats)
        + f"; the impossible are less likely in {said(control['paired']['elsewhere'])} of pairs"
        " with those allowed elsewhere."
    )


def _bulk(values: Any) -> tuple[float, float]:
    """Where the middle 95 % lie."""
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)


def _within(found: dict[str, Any], run: int) -> float:
    """The share of prompts that lie where the middle 95 % of the true ones do."""
    low, high = _bulk(found["true"])
    return float(np.mean([low <= value <= high for value in found["values"][str(run)]]))


def _means(rows: dict[int, dict[str, Any]], which: list[int]) -> str:
    return ", ".join(f"runs of {run} {said(rows[run]['mean'])}" for run in which)


def _shares(shares: dict[int, float], which: list[int]) -> str:
    return ", ".join(f"{100 * shares[run]:.0f} % of runs of {run}" for run in which)


def _value(estimate: dict[str, Any]) -> float:
    return float(estimate["value"])
