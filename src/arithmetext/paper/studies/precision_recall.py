"""Precision and recall of every word, for the GPT-2 and the HMM."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from ...evaluation.estimates import UNKNOWN, Estimate, above, overlaps, wilson
from ...evaluation.words import (
    F1Comparison,
    HighestF1,
    WordScore,
    compare_f1,
    highest_f1,
    word_scores,
)
from ...trees import unpack
from ..figures import MARKERS
from ..runs import Comparison, PromptSettings, comparison
from ..study import Table, Verdict
from ..wording import cell, format_estimate, format_integer, format_number, join

TITLE = "Precision and recall of words"
ORDER = 130
COST = {"laptop": 1, "gpu": 1}

COMMON = 30  # a share of fewer occurrences says little
LISTED = 75  # words of each model in the table, the most common first
HMM_BOUND = 0.2
PRIMES = "10"
SQUARE_FREE = ("1010", "101010", "10101010")
# The paper's 0.3137, 0.2759, 0.0377 and 0.0345 at primes: to all the digits in its source, they are
# these fractions.
PAPER_PRIMES = {
    ("GPT-2", "precision"): (16, 51),
    ("GPT-2", "recall"): (16, 58),
    ("HMM", "precision"): (2, 53),
    ("HMM", "recall"): (2, 58),
}
PAPER_INTERVALS = {which: wilson(*fraction) for which, fraction in PAPER_PRIMES.items()}

FAINT: dict[str, Any] = {"s": 9, "alpha": 0.45, "linewidths": 0.1, "zorder": 3}
CLEAR: dict[str, Any] = {"s": 38, "alpha": 1, "linewidths": 0.5, "zorder": 4}

Scores = dict[str, WordScore]  # by word; the most common in the text first


@dataclass(frozen=True)
class Result:
    at: int
    generation: PromptSettings
    words: dict[str, Scores]  # by model
    compared: dict[str, int]  # words of the text that the model's words are compared with
    drawn: dict[str, int]  # distinct words in the figure
    hmm_highest: HighestF1  # among the words that occur at least COMMON times in the text
    f1: F1Comparison  # of the GPT-2 with the HMM, for the same words


def settings(scale: str) -> Comparison:
    return comparison(scale)


def run(settings: Comparison) -> Result:
    words = {}
    for name, model in settings.models.items():
        _, continuations = model.continuations(settings.at, settings.generation)
        scores = word_scores(continuations.predicted, continuations.true)
        words[name] = {unpack(score.word): score for score in scores}
    return summarise(settings, words)


def summarise(settings: Comparison, words: dict[str, Scores]) -> Result:
    return Result(
        settings.at,
        settings.generation,
        words,
        compared={name: sum(s.true for s in scores.values()) for name, scores in words.items()},
        drawn={name: len(_occurring(scores)) for name, scores in words.items()},
        hmm_highest=highest_f1(words["HMM"], COMMON),
        f1=compare_f1(words["GPT-2"], words["HMM"], COMMON),
    )


def _occurring(scores: Scores, least: int = 1) -> Scores:
    """The words that occur at least `least` times in the text and in the continuations."""
    return {word: s for word, s in scores.items() if min(s.true, s.predicted) >= least}


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(7.2, 5.8), layout="constrained")
    axes = figure.subplots()
    drawn = {name: _occurring(scores) for name, scores in result.words.items()}
    counts = [score.true for scores in drawn.values() for score in scores.values()]
    positions = max(2, *result.compared.values())
    colours = LogNorm(1 / positions, max(max(counts, default=1) / positions, 1e-3))
    _plot_contours(axes)
    for (name, scores), marker in zip(drawn.items(), MARKERS, strict=False):
        common = _occurring(scores, COMMON)
        rare = {word: score for word, score in scores.items() if word not in common}
        for shown, style in ((rare, FAINT), (common, CLEAR)):
            points = axes.scatter(
                [score.precision.value or 0 for score in shown.values()],
                [score.recall.value or 0 for score in shown.values()],
                c=[score.true / result.compared[name] for score in shown.values()],
                norm=colours,
                cmap="viridis",
                marker=marker,
                edgecolors="black",
                clip_on=False,  # many words have a recall of 0 and lie on the axis
                **style,
            )
        axes.scatter([], [], s=38, marker=marker, color="0.5", ec="black", lw=0.5, label=name)
    _label_words(axes, drawn)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="precision", ylabel="recall")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right")
    figure.colorbar(points, ax=axes, label="frequency of the word in the text")
    return figure


def _plot_contours(axes: Axes) -> None:
    text: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8, "color": "0.35"}
    for f1 in (0.2, 0.4, 0.6, 0.8):
        precision = np.append(np.linspace(f1 / (2 - f1), 1, 200), 0.93)
        recall = f1 * precision / (2 * precision - f1)
        axes.plot(precision[:-1], recall[:-1], "--", color="0.55", lw=0.8)
        box = {"color": "white", "pad": 1}
        axes.text(precision[-1], recall[-1], f"F1 = {f1}", bbox=box, **text)


def _label_words(axes: Axes, drawn: dict[str, Scores]) -> None:
    """Ring the primes, and label some words in a column beside the points, from the bottom up."""
    labelled = [
        (score.recall.value or 0, score.precision.value or 0, name, word, marker)
        for (name, scores), marker in zip(drawn.items(), MARKERS, strict=False)
        for word, score in scores.items()
        if word == PRIMES or (name == "GPT-2" and word in SQUARE_FREE)
    ]
    common = [s for scores in drawn.values() for s in _occurring(scores, COMMON).values()]
    rightmost = max((score.precision.value or 0 for score in common), default=0)
    x, height = min(0.7, rightmost + 0.1), -1.0
    for recall, precision, name, word, marker in sorted(labelled):
        height = max(recall, height + 0.05)
        colour, line, shrink = ("red", "red", 6) if word == PRIMES else ("black", "0.3", 4)
        if word == PRIMES:
            ring: dict[str, Any] = {"marker": marker, "fc": "none", "ec": "red", "lw": 1.6}
            axes.scatter(precision, recall, 130, zorder=5, **ring)
        arrow = {"arrowstyle": "-", "color": line, "lw": 0.8, "relpos": (0, 0.5), "shrinkB": shrink}
        axes.annotate(
            f"{word} ({name})",
            (precision, recall),
            (x, height),
            va="center",
            fontsize=9,
            color=colour,
            arrowprops=arrow,
            bbox={"color": "white", "pad": 1},
            zorder=6,
        )


def caption(result: Result) -> str:
    how = result.generation
    left = [
        f"{result.drawn[name]} words of the {name} (from {result.compared[name]:,} positions)"
        for name in result.words
    ]
    without = [
        f" The {name} never generates a prime."
        for name, scores in result.words.items()
        if PRIMES not in scores or not scores[PRIMES].predicted
    ]
    return (
        "Precision and recall of each word: circles for the GPT-2, squares for the HMM. Precision"
        " is the share of a word's occurrences in the continuations that are right. Recall is the"
        " share of its occurrences in the text that were generated. The continuations are the"
        f" likeliest (β = ∞) of {how.prompts} prompts of {how.tokens} tokens near"
        f" {format_integer(result.at)}, each as long as its prompt, seed {how.seed}. Red rings mark"
        f" primes; dashed lines connect equal F1.{''.join(without)} Words with fewer than {COMMON}"
        " occurrences in the text or in the continuations are small and faint. Words without any"
        f" occurrence in one of the two are left out. That leaves {join(left)}. The 95 % intervals"
        " in the table are bootstrapped over prompts."
    )


def table(result: Result) -> Table:
    header = ["model", "word", "in the text", "generated"]
    header += [
        f"{name}{end}" for name in ("precision", "recall", "F1") for end in ("", " low", " high")
    ]
    rows = [
        [name, word, score.true, score.predicted]
        + [cell(number) for number in (*score.precision, *score.recall, *score.f1)]
        for name, scores in result.words.items()
        for word, score in list(scores.items())[:LISTED]
        if score.true >= COMMON
    ]
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    highest, compared = result.hmm_highest, result.f1
    return [
        *(_at_primes(result, name, measure) for name, measure in PAPER_PRIMES),
        _close(result, (PRIMES,), (0.25, 0.35), "0.3", "primes-near-0.3"),
        _close(result, SQUARE_FREE, (0.4, 0.5), "0.4–0.5", "square-free-near-0.4"),
        Verdict(
            key="hmm-f1-below-0.2",
            claim=f"The F1 of the HMM is below {HMM_BOUND} for all words.",
            paper=f"below {HMM_BOUND}",
            ours=f"the highest F1 is {format_estimate(highest.f1)}, for {highest.word}, among"
            f" {highest.words} words that occur at least {COMMON} times; {highest.never_right} of"
            " them have 0"
            if highest.word
            else "no word occurs often enough",
            criterion="the highest F1 is below the paper's bound",
            agrees=highest.f1.value is not None and highest.f1.value < HMM_BOUND,
        ),
        Verdict(
            key="outperforms-hmm",
            claim="The GPT-2 clearly outperforms the HMM in precision and recall of words.",
            paper="it does",
            ours=f"among the words that occur at least {COMMON} times, the F1 of the GPT-2 is"
            f" higher for {compared.higher}, lower for {compared.lower} and equal for"
            f" {compared.equal}; share that is higher, among the words whose F1 differs:"
            f" {format_estimate(compared.higher_share)}",
            criterion="the interval of this share is above one half",
            agrees=above(compared.higher_share, 0.5),
            why="F1 is equal for words that neither model ever has right."
            if compared.equal
            else "",
        ),
    ]


def _at_primes(result: Result, name: str, measure: str) -> Verdict:
    right, among = PAPER_PRIMES[name, measure]
    paper, low, high = PAPER_INTERVALS[name, measure]
    score = result.words[name].get(PRIMES)
    ours: Estimate = getattr(score, measure) if score else UNKNOWN
    return Verdict(
        key=f"{measure}-at-primes-{name}",
        claim=f"The {measure} of the {name} at primes is {paper:.4f}.",
        paper=f"{paper:.4f}",
        ours=format_estimate(ours),
        criterion=f"the interval overlaps the paper's interval, [{low:.3f}, {high:.3f}]",
        agrees=overlaps(ours, low, high),
        why=f"The paper's number is {right}/{among} to all digits of its source. It seems to"
        " come from one sentence.",
    )


def _close(
    result: Result, words: Sequence[str], span: tuple[float, float], paper: str, key: str
) -> Verdict:
    """Precision, recall and F1 of the GPT-2 are close to the paper's."""
    gpt = result.words["GPT-2"]
    scores = {word: gpt[word] for word in words if word in gpt}
    estimates = [each for s in scores.values() for each in (s.precision, s.recall, s.f1)]
    f1 = [f"{format_estimate(score.f1)} for {word}" for word, score in scores.items()]
    others = [
        f"{format_number(score.precision.value)} and {format_number(score.recall.value)}"
        for score in scores.values()
    ]
    return Verdict(
        key=key,
        claim=f"For {join(words)}, precision, recall and F1 are close to {paper}.",
        paper=paper,
        ours=f"F1 {', '.join(f1) or 'not known'}",
        criterion="the intervals of precision, recall and F1 of each word overlap"
        f" {span[0]:g} to {span[1]:g}",
        agrees=len(scores) == len(words) and all(overlaps(each, *span) for each in estimates),
        why=f"Precision and recall: {', '.join(others) or 'not known'}.",
    )
