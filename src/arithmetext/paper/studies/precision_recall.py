"""Precision and recall of every word, of the GPT-2 and of the HMM."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from ...evaluation.codec import to_json
from ...evaluation.estimates import UNKNOWN, Estimate, meets, said, share
from ...evaluation.words import word_scores
from ...integers import format_integer
from ...trees import unpack
from ..figures import MARKS
from ..runs import compared, continuations
from ..study import Verdict

TITLE = "Precision and recall of words"
PLACE = 130
COST = {"laptop": 1, "gpu": 1}

OFTEN = 30  # occurrences, of which a share means something
LISTED = 75  # of the commonest words, for a table that can be read
PRIMES = "10"
SQUARE_FREE = ("1010", "101010", "10101010")
# The paper's 0.3137, 0.2759 and 0.0377, 0.0345: to all the digits in its source they are 16 of 51
# and of 58, 2 of 53 and of 58.
PAPER = {
    "GPT-2": {"precision": (16, 51), "recall": (16, 58)},
    "HMM": {"precision": (2, 53), "recall": (2, 58)},
}


def settings(scale: str) -> dict[str, Any]:
    return compared(scale)


def run(settings: dict[str, Any]) -> dict[str, Any]:
    words = {}
    for name, recipe in settings["models"].items():
        _, made = continuations(recipe, settings["at"], settings["continuing"])
        scores = word_scores(made.predicted, made.true)
        words[name] = [to_json(score) | {"word": unpack(score.word)} for score in scores]
    return {"at": settings["at"], "words": words, **settings["continuing"]}


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(7.2, 5.8), layout="constrained")
    axes = figure.subplots()
    drawn = [score for scores in data["words"].values() for score in scores if _known(score)]
    total = {name: sum(each["true"] for each in scores) for name, scores in data["words"].items()}
    most = max((each["true"] for each in drawn), default=1) / max(1, *total.values())
    colours = LogNorm(1 / max(2, *total.values()), max(most, 1e-3))
    _contours(axes)
    for (name, scores), mark in zip(data["words"].items(), MARKS, strict=False):
        for often in (False, True):
            shown = [each for each in scores if _known(each) and _often(each) == often]
            points = axes.scatter(
                [each["precision"]["value"] for each in shown],
                [each["recall"]["value"] for each in shown],
                c=[each["true"] / total[name] for each in shown],
                norm=colours,
                cmap="viridis",
                s=38 if often else 9,
                alpha=1 if often else 0.45,
                marker=mark,
                edgecolors="black",
                linewidths=0.5 if often else 0.1,
                # Above the axes: many words have a recall of 0.
                clip_on=False,
                zorder=4 if often else 3,
            )
        axes.scatter([], [], s=38, marker=mark, color="0.5", ec="black", lw=0.5, label=name)
    _name(axes, data["words"])
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_xlabel("precision")
    axes.set_ylabel("recall")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right")
    figure.colorbar(points, ax=axes, label="share of the true words that are this one")
    return figure


def _contours(axes: Axes) -> None:
    for f1 in (0.2, 0.4, 0.6, 0.8):
        precision = np.linspace(f1 / (2 - f1), 1, 200)
        axes.plot(precision, f1 * precision / (2 * precision - f1), "--", color="0.55", lw=0.8)
        axes.text(
            0.93,
            f1 * 0.93 / (2 * 0.93 - f1),
            f"F1 = {f1}",
            ha="center",
            va="center",
            fontsize=8,
            color="0.35",
            bbox={"color": "white", "pad": 1},
        )


def _name(axes: Axes, words: dict[str, list[dict[str, Any]]]) -> None:
    """Ring primes and name some words in a column beside the cloud, the lowest first."""
    named = [
        (each["recall"]["value"], each["precision"]["value"], name, each["word"], mark)
        for (name, scores), mark in zip(words.items(), MARKS, strict=False)
        for each in scores
        if _known(each)
        and (each["word"] == PRIMES or (name == "GPT-2" and each["word"] in SQUARE_FREE))
    ]
    cloud = [
        each["precision"]["value"] for found in words.values() for each in found if _often(each)
    ]
    height = -1.0
    for recall, precision, name, word, mark in sorted(named):
        height = max(recall, height + 0.05)
        prime = word == PRIMES
        if prime:
            axes.scatter(
                precision, recall, s=130, marker=mark, facecolors="none", ec="red", lw=1.6, zorder=5
            )
        axes.annotate(
            f"{word} ({name})",
            (precision, recall),
            (min(0.7, max(cloud, default=0) + 0.1), height),
            va="center",
            fontsize=9,
            color="red" if prime else "black",
            arrowprops={
                "arrowstyle": "-",
                "color": "red" if prime else "0.3",
                "lw": 0.8,
                "relpos": (0, 0.5),
                "shrinkB": 6 if prime else 4,
            },
            bbox={"color": "white", "pad": 1},
            zorder=6,
        )


def caption(data: dict[str, Any]) -> str:
    models = " and ".join(
        f"{sum(map(_known, scores))} of the {name}, from {sum(each['true'] for each in scores):,}"
        " places"
        for name, scores in data["words"].items()
    )
    without = [
        f" The {name} never generates a prime."
        for name, scores in data["words"].items()
        if not any(each["word"] == PRIMES and each["predicted"] for each in scores)
    ]
    return (
        "Precision (of the times that a word was generated, the share that are right) and recall"
        " (of the times that it stands there, the share that was generated) of each word: circles"
        f" for the GPT-2, squares for the HMM, β = ∞, {data['prompts']} prompts of"
        f" {data['tokens']} tokens near {format_integer(data['at'])} continued by as many, seed"
        f" {data['seed']}. Red rings: primes; dashed: equal F1.{''.join(without)} Words that"
        f" stand or were generated fewer than {OFTEN} times are small and faint, and those that"
        f" were never generated, or stand nowhere, are left out. That leaves {models}. Intervals of"
        " 95 % in the table are from the bootstrap over prompts."
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    header = ["model", "word", "stands", "generated"]
    header += [f"{what}{end}" for what in _MEASURES for end in ("", " low", " high")]
    rows = [
        [name, score["word"], score["true"], score["predicted"]]
        + [
            "" if score[what][key] is None else round(score[what][key], 4)
            for what in _MEASURES
            for key in ("value", "low", "high")
        ]
        for name, scores in data["words"].items()
        for score in scores[:LISTED]
        if score["true"] >= OFTEN
    ]
    return header, rows


_MEASURES = ("precision", "recall", "f1")


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    scores = {name: {each["word"]: each for each in found} for name, found in data["words"].items()}
    primes = [
        _primes(name, what, scores[name].get(PRIMES)) for name in PAPER for what in PAPER[name]
    ]
    return [
        *primes,
        _close("10", (PRIMES,), 0.25, 0.35, "0.3", scores["GPT-2"]),
        _close("1010, 101010 and 10101010", SQUARE_FREE, 0.4, 0.5, "0.4–0.5", scores["GPT-2"]),
        _below(scores["HMM"]),
        _exceeds(scores),
    ]


def _primes(name: str, what: str, score: dict[str, Any] | None) -> Verdict:
    right, among = PAPER[name][what]
    theirs = share([1] * right + [0] * (among - right))
    ours = Estimate(**score[what]) if score else UNKNOWN
    return Verdict(
        claim=f"Of the primes that {'are generated' if what == 'precision' else 'stand there'}, the"
        f" {name} has the share of {right / among:.4f} right ({what}).",
        paper=f"{right / among:.4f}",
        ours=f"{said(ours)} (agrees if the interval meets that of the paper,"
        f" [{theirs.low:.3f}, {theirs.high:.3f}])",
        agrees=meets(ours, theirs.low, theirs.high),
        why=f"The paper's number is {right}/{among} to all digits of its source: one sentence, it"
        " seems.",
    )


def _close(
    named: str,
    words: Sequence[str],
    low: float,
    high: float,
    paper: str,
    scores: dict[str, dict[str, Any]],
) -> Verdict:
    """That all three measures of some words are about what the paper says."""
    found = {word: scores[word] for word in words if word in scores}
    return Verdict(
        claim=f"For {named} precision, recall and F1 are close to {paper}.",
        paper=paper,
        ours="F1 "
        + ", ".join(f"{said(Estimate(**each['f1']))} for {w}" for w, each in found.items())
        + f" (agrees if the intervals of all three of each meet {low:g} to {high:g})",
        agrees=len(found) == len(words)
        and all(
            meets(Estimate(**each[what]), low, high)
            for each in found.values()
            for what in _MEASURES
        ),
        why="Precision and recall: "
        + ", ".join(
            f"{_number(each['precision']['value'])} and {_number(each['recall']['value'])}"
            for each in found.values()
        )
        + ".",
    )


def _below(scores: dict[str, dict[str, Any]]) -> Verdict:
    common = [each for each in scores.values() if each["true"] >= OFTEN]
    best = max(common, key=lambda each: each["f1"]["value"] or 0, default=None)
    never = sum(each["f1"]["value"] == 0 for each in common)
    return Verdict(
        claim="The F1 of the HMM is below 0.2 for all words.",
        paper="below 0.2",
        ours=f"the highest is {said(Estimate(**best['f1']))}, for {best['word']}, of"
        f" {len(common)} words that stand at least {OFTEN} times; {never} of them have 0"
        if best
        else "no word stands often enough",
        agrees=best is not None and (best["f1"]["value"] or 0) < 0.2,
    )


def _exceeds(scores: dict[str, dict[str, dict[str, Any]]]) -> Verdict:
    gpt, hmm_scores = scores["GPT-2"], scores["HMM"]
    common = [
        word
        for word in gpt.keys() & hmm_scores.keys()
        if min(gpt[word]["true"], hmm_scores[word]["true"]) >= OFTEN
    ]
    excess = [gpt[word]["f1"]["value"] - hmm_scores[word]["f1"]["value"] for word in common]
    better = share([e > 0 for e in excess if e])
    equal = excess.count(0)
    return Verdict(
        claim="The GPT-2 clearly outperforms the HMM in precision and recall of words.",
        paper="it does",
        ours=f"F1 is higher for {sum(e > 0 for e in excess)} words, lower for"
        f" {sum(e < 0 for e in excess)} and equal for {equal}, of those that stand at least"
        f" {OFTEN} times; share of those that differ: {said(better)} (agrees if the interval is"
        " above one half)",
        agrees=better.low is not None and better.low > 0.5,
        why="Equal are words that neither ever has right." if equal else "",
    )


def _known(score: dict[str, Any]) -> bool:
    return score["precision"]["value"] is not None and score["recall"]["value"] is not None


def _often(score: dict[str, Any]) -> bool:
    return bool(min(score["true"], score["predicted"]) >= OFTEN)


def _number(value: float | None) -> str:
    return "not known" if value is None else f"{value:.3f}"
