"""Precision and recall of every word, for the GPT-2 and the HMM."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from ...evaluation.estimates import (
    UNKNOWN,
    Estimate,
    decided_above,
    overlaps,
    wilson,
    within,
)
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
from ..study import Table, Verdict, if_papers_model
from ..wording import UNDECIDED, cell, format_estimate, format_integer, join

TITLE = "Precision and recall of words"
ORDER = 130
COST = {"laptop": 1, "gpu": 1}

COMMON = 30  # a share of fewer occurrences says little
LISTED = 75  # words of each model in the table, the most common first
HMM_BOUND = 0.2
PRIMES = "10"
# What rounds to the paper's numbers: "close to 0.3" and "close to 0.4–0.5".
NEAR_PRIMES = (0.25, 0.35)
NEAR_SQUARE_FREE = (0.35, 0.55)
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

FILTER = "HMM as a filter"  # predicts from all tokens, though it was trained to predict from one

READINGS = (
    "The HMM predicts from the last token, as it was trained; the paper does not say whether its"
    " HMM does, or filters whole prompts."
)

FAINT: dict[str, Any] = {"s": 9, "alpha": 0.45, "linewidths": 0.1, "zorder": 3}
CLEAR: dict[str, Any] = {"s": 38, "alpha": 1, "linewidths": 0.5, "zorder": 4}

Scores = dict[str, WordScore]  # by word; the most common in the text first


@dataclass(frozen=True)
class Result:
    at: int
    generation: PromptSettings
    seeds: dict[str, int]  # by model
    stand_in: str  # why the GPT-2 is not the paper's; empty if it is
    words: dict[str, Scores]  # by model, over all seeds
    compared: dict[str, int]  # words of the text that the model's words are compared with
    drawn: dict[str, int]  # distinct words in the figure
    hmm_highest: dict[str, HighestF1]  # by reading; of words that occur at least COMMON times
    f1: F1Comparison  # of the GPT-2 with the HMM, for the same words


def settings(scale: str) -> Comparison:
    return comparison(scale)


def run(settings: Comparison) -> Result:
    words = {}
    for name in settings.models:
        words[name] = _by_word(word_scores(*settings.words(name)))
    words[FILTER] = _by_word(word_scores(*settings.words("HMM", filtered=True)))
    return summarise(settings, words)


def _by_word(scores: Sequence[WordScore]) -> Scores:
    return {unpack(score.word): score for score in scores}


def summarise(settings: Comparison, words: dict[str, Scores]) -> Result:
    return Result(
        settings.at,
        settings.generation,
        {name: len(models) for name, models in settings.models.items()},
        settings.stand_in,
        words,
        compared={name: sum(s.true for s in scores.values()) for name, scores in words.items()},
        drawn={name: len(_occurring(scores)) for name, scores in words.items()},
        hmm_highest={name: highest_f1(words[name], COMMON) for name in ("HMM", FILTER)},
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
    seeds = join(f"{count} of the {name}" for name, count in result.seeds.items())
    return (
        "Precision and recall of each word: circles for the GPT-2, squares for the HMM, triangles"
        " for the HMM that filters whole prompts though it was trained on pairs of tokens."
        " Precision is the share of a word's occurrences in the continuations that are right."
        " Recall is the share of its occurrences in the text that were generated. The"
        " continuations are the"
        f" likeliest (β = ∞) of {how.prompts} prompts of {how.tokens} tokens near"
        f" {format_integer(result.at)}, each as long as its prompt, for all seeds together"
        f" ({seeds}). The HMM predicts from the last token, as it was trained. Red rings mark"
        f" primes; dashed lines connect equal F1.{''.join(without)} Words with fewer than {COMMON}"
        " occurrences in the text or in the continuations are small and faint. Words without any"
        f" occurrence in one of the two are left out. That leaves {join(left)}. The 95 % intervals"
        " in the table are bootstrapped over prompts and widened by the spread over seeds."
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
    compared = result.f1
    found = [
        *(_at_primes(result, name, measure) for name, measure in PAPER_PRIMES),
        _close(result, (PRIMES,), NEAR_PRIMES, "0.3", "primes-near-0.3"),
        _close(result, SQUARE_FREE, NEAR_SQUARE_FREE, "0.4–0.5", "square-free-near-0.4"),
        _hmm_below(result),
        Verdict(
            key="outperforms-hmm",
            claim="The GPT-2 clearly outperforms the HMM in precision and recall of words.",
            paper="it does",
            ours=f"among the words that occur at least {COMMON} times, the F1 of the GPT-2 is"
            f" higher for {compared.higher}, lower for {compared.lower} and equal for"
            f" {compared.equal}; share that is higher, among the words whose F1 differs:"
            f" {format_estimate(compared.higher_share)}",
            criterion="the interval of this share is above one half; differs if it is below",
            agrees=(outperforms := decided_above(compared.higher_share, 0.5)),
            why="F1 is equal for words that neither model ever has right."
            + (f" {UNDECIDED}" if outperforms is None else ""),
        ),
    ]
    return if_papers_model(found, result.stand_in)


def _hmm_below(result: Result) -> Verdict:
    highest = result.hmm_highest
    too_high = [decided_above(each.f1, HMM_BOUND) for each in highest.values()]
    agrees = True if False in too_high else None if None in too_high else False
    return Verdict(
        key="hmm-f1-below-0.2",
        claim=f"The F1 of the HMM is below {HMM_BOUND} for all words.",
        paper=f"below {HMM_BOUND}",
        ours="; ".join(
            f"{name}: the highest F1 is {format_estimate(each.f1)}, for {each.word}, among"
            f" {each.words} words that occur at least {COMMON} times; {each.never_right} of them"
            " have 0"
            if each.word
            else f"{name}: no word occurs often enough"
            for name, each in highest.items()
        ),
        criterion="the interval of the highest F1 is below the paper's bound in one of the two"
        " readings of the HMM; differs if it is above in both",
        agrees=agrees,
        why=READINGS + (f" {UNDECIDED}" if agrees is None else ""),
    )


def _at_primes(result: Result, name: str, measure: str) -> Verdict:
    right, among = PAPER_PRIMES[name, measure]
    paper, low, high = PAPER_INTERVALS[name, measure]
    readings = ("HMM", FILTER) if name == "HMM" else (name,)
    ours = {each: _measured(result, each, measure) for each in readings}
    known = [estimate for estimate in ours.values() if estimate.value is not None]
    either = " in one of the two readings" if name == "HMM" else ""
    return Verdict(
        key=f"{measure}-at-primes-{name}",
        claim=f"The {measure} of the {name} at primes is {paper:.4f}.",
        paper=f"{paper:.4f}",
        ours="; ".join(f"{each} {format_estimate(found)}" for each, found in ours.items()),
        criterion=f"the interval overlaps the paper's interval, [{low:.3f}, {high:.3f}]{either}",
        agrees=any(overlaps(each, low, high) for each in known) if known else None,
        why=f"The paper's number is {right}/{among} to all digits of its source. It seems to"
        " come from one sentence."
        + (f" {READINGS}" if name == "HMM" else "")
        + ("" if known else " No prime is generated, so there is no share."),
    )


def _measured(result: Result, name: str, measure: str) -> Estimate:
    score = result.words[name].get(PRIMES)
    estimate: Estimate = getattr(score, measure) if score else UNKNOWN
    return estimate


def _close(
    result: Result, words: Sequence[str], span: tuple[float, float], paper: str, key: str
) -> Verdict:
    """Precision, recall and F1 of the GPT-2 are close to the paper's."""
    gpt = result.words["GPT-2"]
    scores = {word: gpt[word] for word in words if word in gpt}
    estimates = [each for s in scores.values() for each in (s.precision, s.recall, s.f1)]
    f1 = [f"{format_estimate(score.f1)} for {word}" for word, score in scores.items()]
    others = [
        f"{format_estimate(score.precision)} and {format_estimate(score.recall)}"
        for score in scores.values()
    ]
    all_inside = len(scores) == len(words) and all(within(each, *span) for each in estimates)
    one_outside = len(scores) < len(words) or not all(overlaps(each, *span) for each in estimates)
    undecided = "" if all_inside or one_outside else f" {UNDECIDED}"
    return Verdict(
        key=key,
        claim=f"For {join(words)}, precision, recall and F1 are close to {paper}.",
        paper=paper,
        ours=f"F1 {', '.join(f1) or 'not known'}",
        criterion=f"the whole intervals of precision, recall and F1 of each word lie in {span[0]:g}"
        f" to {span[1]:g}, which rounds to {paper}; differs if one lies wholly outside",
        agrees=True if all_inside else False if one_outside else None,
        why=f"Precision and recall: {', '.join(others) or 'not known'}.{undecided}",
    )
