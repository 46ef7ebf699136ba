"""The likelihood of the text and of tokens drawn one by one, by length."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.codec import to_json
from ...evaluation.estimates import said
from ...evaluation.evaluate import doubling
from ...evaluation.likelihood import separation
from ...integers import format_integer
from ...text.splits import unseen
from ..figures import COLOURS, LINES, MARKS
from ..runs import NEAR, model, ntp, training
from ..study import Verdict

TITLE = "True text against drawn tokens"
PLACE = 140
COST = {"laptop": 8, "gpu": 30}

PAPER_DISJOINT = 32  # tokens beyond which the supports are disjoint


def settings(scale: str) -> dict[str, Any]:
    return {
        "model": ntp(scale),
        "at": NEAR,
        "longest": 256 if scale == "laptop" else 1024,
        "sequences": 128 if scale == "laptop" else 1000,
        "seed": 0,
    }


def run(settings: dict[str, Any]) -> dict[str, Any]:
    it = model(settings["model"])
    compared = separation(
        it.model,
        it.tokenizer,
        unseen(settings["at"], it.trained),
        it.trained,
        number=settings["sequences"],
        lengths=doubling(2, settings["longest"]),
        seed=settings["seed"],
    )
    return {
        "at": settings["at"],
        "sequences": settings["sequences"],
        "seed": settings["seed"],
        "training": training(settings["model"]),
        "figures": [to_json(each.summary()) for each in compared],
        "values": [
            {
                "length": each.length,
                "true": each.true.round(4).tolist(),
                "unigram": each.other.round(4).tolist(),
            }
            for each in compared
            if each.control == "unigram"
        ],
    }


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(9.6, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    _ridges(left, data)
    _areas(right, data)
    return figure


def _ridges(axes: Axes, data: dict[str, Any]) -> None:
    rows = data["values"]
    every = np.concatenate([row[kind] for row in rows for kind in ("true", "unigram")])
    bins = np.linspace(every.min(), every.max(), 61)
    looks = (("unigram", COLOURS[1], LINES[1]), ("true", COLOURS[0], LINES[0]))
    for k, row in enumerate(rows):
        for kind, colour, line in looks:
            counts, _ = np.histogram(row[kind], bins)
            inside = slice(counts.nonzero()[0][0], counts.nonzero()[0][-1] + 1)
            heights = k + 0.85 * counts[inside] / counts.max()
            edges = bins[inside.start : inside.stop + 1]
            label = ("drawn tokens" if kind == "unigram" else "true text") if k == 0 else None
            axes.stairs(heights, edges, baseline=k, fill=True, color=colour, alpha=0.3)
            axes.stairs(heights, edges, baseline=k, color=colour, ls=line, label=label)
        axes.axhline(k, color="0.6", lw=0.6, zorder=0)
    axes.set_yticks(range(len(rows)), [str(row["length"]) for row in rows], va="bottom")
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(0, len(rows))
    axes.set_ylabel("tokens of a sequence")
    axes.set_xlabel("log-likelihood in nats a token")
    axes.grid(axis="x", alpha=0.3)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False, fontsize=9)


def _areas(axes: Axes, data: dict[str, Any]) -> None:
    controls = list(dict.fromkeys(row["control"] for row in data["figures"]))
    looks = zip([*COLOURS, "0.45"], [*LINES, (0, (5, 1, 1, 1, 1, 1))], [*MARKS, "x"], strict=True)
    for k, (control, (colour, line, mark)) in enumerate(zip(controls, looks, strict=True)):
        rows = [row for row in data["figures"] if row["control"] == control]
        areas = np.array([[row["auc"][end] for end in ("value", "low", "high")] for row in rows])
        # Next to each other, since several are 1 from some length on.
        places = [row["length"] * 2 ** (0.12 * (k - 2)) for row in rows]
        axes.errorbar(
            places,
            areas[:, 0],
            yerr=[areas[:, 0] - areas[:, 1], areas[:, 2] - areas[:, 0]],
            color=colour,
            ls=line,
            marker=mark,
            ms=4,
            lw=1.2,
            capsize=2,
            label={"unigram": "drawn tokens", "deleted": "word deleted"}.get(control, control),
        )
    lengths = [row["length"] for row in data["values"]]
    axes.axhline(0.5, color="black", lw=1)
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.minorticks_off()
    axes.set_xlabel("tokens of a sequence")
    axes.set_ylabel("area under the ROC curve")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=3, frameon=False, fontsize=9)


def caption(data: dict[str, Any]) -> str:
    shortest, longest = data["values"][0]["length"], data["values"][-1]["length"]
    return (
        f"Left: log-likelihoods of {data['sequences']} sequences of the text at"
        f" {format_integer(data['at'])}, seed {data['seed']}, and of as many of tokens drawn one"
        " by one with"
        " the frequencies of the training text, by length; every histogram is scaled to the same"
        " height. Right: the area under the ROC curve, the probability that a true sequence is"
        " likelier than one of a control, with intervals of 95 %: tokens drawn, words shuffled,"
        " words shuffled within blocks of eight, the text backwards, one word deleted."
        " Nothing is told apart at 0.5."
        f" From {shortest} to {longest} tokens the area goes from {_span(data, 'unigram')} for"
        f" drawn tokens, from {_span(data, 'shuffled in eights')} for words shuffled in eights and"
        f" from {_span(data, 'backwards')} for the text backwards; a deleted word is diluted in"
        f" longer sequences ({_span(data, 'deleted')})."
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    header = [
        "tokens",
        "control",
        "true, nats a token",
        "control, nats a token",
        "area under the ROC curve",
        "true one of a pair likelier",
    ]
    rows = [
        [row["length"], row["control"]]
        + [said(row[what]) for what in ("true", "other", "auc", "paired")]
        for row in data["figures"]
    ]
    return header, rows


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    rows = data["values"]
    first, last = rows[0], rows[-1]
    overlap = _overlap(first["true"], first["unigram"])
    distances = [_distance(row["true"], row["unigram"]) for row in rows]
    grows = [b > a for a, b in pairwise(distances)]
    longer = [row for row in rows if row["length"] > PAPER_DISJOINT]
    overlapping = [row["length"] for row in rows if not _disjoint(row)]
    disjoint_from = [row["length"] for row in rows if row["length"] > max(overlapping, default=0)]
    shuffled, eights = (_area(data, control, -1) for control in ("shuffled", "shuffled in eights"))
    backwards = _area(data, "backwards", -1)
    direction = "does not tell" if backwards["low"] < 0.5 < backwards["high"] else "tells"
    return [
        Verdict(
            claim=f"At {first['length']} tokens the likelihoods of true and of drawn sequences"
            " largely overlap.",
            paper="they do",
            ours=f"overlap {overlap:.2f} (1 minus the largest difference of the distribution"
            f" functions), area {said(_area(data, 'unigram', 0))}",
            agrees=overlap > 0.5,
            why="Agrees if the overlap is above one half.",
        ),
        Verdict(
            claim="The separation grows monotonically with the length.",
            paper="it does",
            ours=f"difference of the means {distances[0]:.1f} standard deviations at"
            f" {first['length']} tokens, {distances[-1]:.1f} at {last['length']}; it grows at"
            f" {sum(grows)} of {len(grows)} doublings",
            agrees=all(grows),
            why="The area itself cannot grow any more where nothing overlaps.",
        ),
        Verdict(
            claim=f"Beyond {PAPER_DISJOINT} tokens no drawn sequence is as likely as a true one.",
            paper=f"disjoint above {PAPER_DISJOINT} (1000 of each)",
            ours=(
                f"disjoint from {disjoint_from[0]} tokens on" if disjoint_from else "never disjoint"
            )
            + f" ({len(first['true'])} of each)",
            agrees=bool(longer) and all(map(_disjoint, longer)),
            why="The most likely drawn one against the least likely true one, at every length; with"
            " more sequences the extremes lie farther out.",
        ),
        Verdict(
            claim="The likelihood depends on the order of the words, not only on which they are.",
            paper="concluded from drawn tokens",
            ours=f"area at {last['length']} tokens {said(shuffled)} against shuffled words,"
            f" {said(eights)} against words shuffled in eights",
            agrees=min(shuffled["low"], eights["low"]) > 0.5,
            why=f"A token is {data['training']['token']}; shuffled words keep all that is inside"
            f" them. The likelihood {direction} the direction: area {said(backwards)} against the"
            " text backwards. Divisibility by small primes is the same from n down as from n up.",
        ),
    ]


def _area(data: dict[str, Any], control: str, which: int) -> dict[str, float]:
    """The area for the first or the last length."""
    found: dict[str, float] = [r for r in data["figures"] if r["control"] == control][which]["auc"]
    return found


def _span(data: dict[str, Any], control: str) -> str:
    first, last = (_area(data, control, which)["value"] for which in (0, -1))
    return f"{first:.2f} to {last:.2f}"


def _overlap(one: list[float], other: list[float]) -> float:
    places = np.sort([*one, *other])
    below = [np.searchsorted(np.sort(kind), places, side="right") for kind in (one, other)]
    return float(1 - np.abs(below[0] / len(one) - below[1] / len(other)).max())


def _distance(one: list[float], other: list[float]) -> float:
    spread = np.sqrt((np.var(one, ddof=1) + np.var(other, ddof=1)) / 2)
    return float((np.mean(one) - np.mean(other)) / spread)


def _disjoint(row: dict[str, Any]) -> bool:
    return bool(max(row["unigram"]) < min(row["true"]))
