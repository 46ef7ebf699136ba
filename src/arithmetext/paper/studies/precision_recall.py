"""Precision and recall of every word, for the GPT-2 and the HMM."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from ...evaluation.estimates import (
    UNKNOWN,
    Estimate,
    all_of,
    decided_above,
    decided_within,
    overlaps,
    wilson,
)
from ...evaluation.words import (
    F1Comparison,
    HighestF1,
    WordCounts,
    WordScore,
    compare_f1,
    highest_f1,
    word_counts,
    word_scores,
)
from ...trees import unpack
from ..figures import MARKERS
from ..runs import Comparison, PromptSettings, comparison
from ..study import Table, Verdict, if_papers_model, unless_trained_less
from ..wording import (
    cell,
    describe_continuations,
    describe_seeds,
    format_estimate,
    format_number,
    format_percent,
    format_share,
    join,
    over_prompts_in_words,
    sentences,
    undecided,
)

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

CHANCE = 1 / 40  # of the intervals, so many are above 0 if nothing differs, and as many below

GREEDY = "HMM, β = ∞"
BOTH = "; the same at β = 1 and at β = ∞"
SAMPLED = (
    "The HMM samples at β = 1. The paper's caption has β = ∞, perhaps for the GPT-2 only: its HMM"
    " generated 53 primes where the text has 58, and 2 of them were right. About 2 are right by"
    " chance, since one word in 25 to 30 is a prime. At β = ∞ our HMM repeats a few words."
)

FAINT: dict[str, Any] = {"s": 9, "alpha": 0.45, "linewidths": 0.1, "zorder": 3}
CLEAR: dict[str, Any] = {"s": 38, "alpha": 1, "linewidths": 0.5, "zorder": 4}

Scores = dict[str, WordScore]  # by word; the most common in the text first


@dataclass(frozen=True)
class Result:
    at: int
    generation: PromptSettings
    seeds: dict[str, int]  # by model
    stand_ins: dict[str, str]  # why a model is not the paper's, by model; empty if it is
    trained_on: int  # tokens, in the training of the GPT-2
    words: dict[str, Scores]  # by model, over all seeds
    other_hmm: dict[str, Scores]  # the HMM in other readings, for the table
    compared: dict[str, float]  # words of the text that the model's words are compared with
    hmm_highest: HighestF1  # of words that occur at least COMMON times
    greedy_hmm_highest: HighestF1  # the same at β = ∞
    f1: F1Comparison  # of the GPT-2 with the HMM, for the same words


def settings(scale: str) -> Comparison:
    return comparison(scale)


def run(settings: Comparison) -> Result:
    counts = {name: word_counts(*settings.words(name)) for name in settings.models}
    other = {
        GREEDY: word_counts(*settings.words("HMM", beta=inf)),
        "HMM as a filter, β = ∞": word_counts(*settings.words("HMM", beta=inf, filtered=True)),
    }
    return summarise(settings, counts, other)


def summarise(
    settings: Comparison, counts: dict[str, WordCounts], other: dict[str, WordCounts]
) -> Result:
    words = {name: _by_word(each) for name, each in counts.items()}
    return Result(
        settings.at,
        settings.generation,
        settings.seeds,
        settings.stand_ins,
        settings.trained_on,
        words,
        {name: _by_word(each) for name, each in other.items()},
        compared={name: sum(s.true for s in scores.values()) for name, scores in words.items()},
        hmm_highest=highest_f1(counts["HMM"], COMMON),
        greedy_hmm_highest=highest_f1(other[GREEDY], COMMON),
        f1=compare_f1(counts["GPT-2"], counts["HMM"], COMMON),
    )


def _by_word(counts: WordCounts) -> Scores:
    return {unpack(score.word): score for score in word_scores(counts)}


def _occurring(scores: Scores, least: int = 0) -> Scores:
    """The words that occur in the text and in the continuations, at least `least` times."""
    return {word: s for word, s in scores.items() if min(s.true, s.predicted) >= max(least, 1e-9)}


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(7.2, 5.8), layout="constrained")
    axes = figure.subplots()
    drawn = {name: _occurring(scores) for name, scores in result.words.items()}
    counts = [score.true for scores in drawn.values() for score in scores.values()]
    positions = max(2.0, *result.compared.values())
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
    """Outline the primes, and label some words in a column beside the points, bottom up."""
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


def in_short(result: Result) -> str:
    at_primes = "; ".join(
        f"the {name} {_number_beside_papers(result, name, 'precision')} and"
        f" {_number_beside_papers(result, name, 'recall')}"
        for name in ("GPT-2", "HMM")
    )
    return (
        f"Precision and recall at primes, with the paper's in parentheses: {at_primes}. The F1 of"
        f" the GPT-2 is higher than that of the HMM for {result.f1.higher} of {result.f1.words}"
        f" words, and lower for {result.f1.lower}."
    )


def caption(result: Result) -> str:
    without = [
        f" The {name} never generates a prime."
        for name, scores in result.words.items()
        if PRIMES not in scores or not scores[PRIMES].predicted
    ]
    return (
        "Precision and recall of each word: circles for the GPT-2, squares for the HMM. Precision"
        " is the share of a word's occurrences in the continuations that are right. Recall is the"
        " share of its occurrences in the text that were generated."
        f" {describe_continuations(result.at, result.generation)} {describe_seeds(result.seeds)}"
        " Colour: frequency in the text. Red outlines mark the word of the primes, 10."
        f"{''.join(without)} Labelled: the words that the paper names. Dashed lines connect equal"
        f" F1. Small faint marks: words with fewer than {COMMON} occurrences in the text or in the"
        " continuations. Words that are missing from one of them are not drawn. The 95 % intervals"
        f" in the table are {over_prompts_in_words(result.seeds)}. The table also has the HMM at"
        " β = ∞, from the last token and as a filter."
    )


def table(result: Result) -> Table:
    header = ["model", "word", "in the text", "generated"]
    header += [
        f"{name}{end}" for name in ("precision", "recall", "F1") for end in ("", " low", " high")
    ]
    rows = [
        [name, word, round(score.true, 1), round(score.predicted, 1)]
        + [cell(number) for number in (*score.precision, *score.recall, *score.f1)]
        for name, scores in (result.words | result.other_hmm).items()
        for word, score in list(scores.items())[:LISTED]
        if score.true >= COMMON
    ]
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    gpt, hmm = result.stand_ins["GPT-2"], result.stand_ins["HMM"]
    of_gpt = [
        _gpt_at_primes(result, "precision"),
        _gpt_at_primes(result, "recall"),
        _close(result, (PRIMES,), NEAR_PRIMES, "0.3", "primes-near-0.3"),
        _close(result, SQUARE_FREE, NEAR_SQUARE_FREE, "0.4–0.5", "square-free-near-0.4"),
    ]
    of_hmm = [
        _at_primes(result, "HMM", "precision"),
        _at_primes(result, "HMM", "recall"),
        _hmm_below(result),
    ]
    return [
        *if_papers_model(of_gpt, gpt),
        *if_papers_model(of_hmm, hmm),
        *if_papers_model([_outperforms(result)], sentences(gpt, hmm)),
    ]


def _outperforms(result: Result) -> Verdict:
    f1 = result.f1
    clear = 2 * f1.higher >= f1.words and f1.lower <= CHANCE * f1.words
    agrees = True if f1.words and clear else False if f1.lower > f1.higher else None
    verdict = Verdict(
        key="outperforms-hmm",
        claim="The GPT-2 clearly outperforms the HMM in precision and recall of words.",
        paper="it does",
        ours=f"among {f1.words} words that occur at least {COMMON} times and that a model has"
        f" right, the F1 of the GPT-2 is higher for {f1.higher} and lower for {f1.lower}; the"
        " intervals do not decide the others",
        criterion="the interval of the paired difference of F1 is above 0 for at least half of the"
        f" words, and below 0 for at most {format_percent(CHANCE, 1)}, as many as chance gives;"
        " differs if it is below 0 for more words than above",
        agrees=agrees,
        why=sentences(
            "Both models continue the same prompts, and resamples are of prompts.",
            undecided(agrees, "too many words are not decided, or too many are lower"),
        ),
    )
    return unless_trained_less(verdict, worse=True, tokens=result.trained_on)


def _hmm_below(result: Result) -> Verdict:
    highest, greedy = result.hmm_highest, result.greedy_hmm_highest
    outcome = _below_bound(highest)
    agrees = _in_both(outcome, _below_bound(greedy))
    return Verdict(
        key="hmm-f1-below-0.2",
        claim=f"The F1 of the HMM is below {HMM_BOUND} for all words.",
        paper=f"below {HMM_BOUND}",
        ours=f"{_describe_highest(highest)}; at β = ∞: {_describe_highest(greedy)}",
        criterion="the interval of the highest F1, each resample with its own highest, is below"
        f" the paper's bound; differs if it is above{BOTH}",
        agrees=agrees,
        why=sentences(
            _on_beta(outcome, agrees),
            SAMPLED,
            undecided(outcome, _contains(highest.f1, f"{HMM_BOUND}")),
        ),
    )


def _below_bound(highest: HighestF1) -> bool | None:
    too_high = decided_above(highest.f1, HMM_BOUND)
    return None if too_high is None else not too_high


def _describe_highest(highest: HighestF1) -> str:
    if not highest.word:
        return "no word occurs often enough"
    return (
        f"the highest F1 is {format_estimate(highest.f1)}, for {unpack(highest.word)}, among"
        f" {highest.words} words that occur at least {COMMON} times; {highest.never_right} of them"
        " have 0"
    )


def _in_both(sampled: bool | None, greedy: bool | None) -> bool | None:
    """An outcome of the HMM; None if sampling and β = ∞ give different ones."""
    return sampled if sampled is greedy else None


def _on_beta(outcome: bool | None, agrees: bool | None) -> str:
    if outcome is None or agrees is not None:
        return ""
    return f"It depends on β: it {'agrees' if outcome else 'differs'} at β = 1, and not at β = ∞."


def _contains(estimate: Estimate, what: str) -> str:
    return "nothing is known" if estimate.value is None else f"the interval contains {what}"


def _gpt_at_primes(result: Result, measure: str) -> Verdict:
    right, among = PAPER_PRIMES["GPT-2", measure]
    worse = (_measured(result, "GPT-2", measure).value or 0) < right / among
    verdict = _at_primes(result, "GPT-2", measure)
    return unless_trained_less(verdict, worse=worse, tokens=result.trained_on)


def _at_primes(result: Result, name: str, measure: str) -> Verdict:
    right, among = PAPER_PRIMES[name, measure]
    paper, low, high = PAPER_INTERVALS[name, measure]
    ours = _measured(result, name, measure)
    outcome = agrees = _same_share(ours, low or 0, high or 0)
    found = format_share(ours, _undefined(name, measure, PRIMES))
    if name == "HMM":
        greedy = _measure_of(result.other_hmm[GREEDY], measure)
        agrees = _in_both(outcome, _same_share(greedy, low or 0, high or 0))
        found += f"; at β = ∞: {format_share(greedy, _undefined(name, measure, PRIMES))}"
    return Verdict(
        key=f"{measure}-at-primes-{name}",
        claim=f"The {measure} of the {name} at primes is {paper:.4f}.",
        paper=f"{paper:.4f}",
        ours=found,
        criterion=f"the interval overlaps the paper's interval, [{low:.3f}, {high:.3f}], and is no"
        " wider; differs if the two are disjoint" + BOTH * (name == "HMM"),
        agrees=agrees,
        why=sentences(
            _on_beta(outcome, agrees),
            f"The paper's number is {right}/{among} to all digits of its source. It seems to"
            " come from one sentence.",
            SAMPLED if name == "HMM" else "",
            undecided(
                outcome,
                "an undefined share has no interval"
                if ours.value is None
                else "our interval is wider than the paper's",
            ),
        ),
    )


def _same_share(ours: Estimate, low: float, high: float) -> bool | None:
    """Whether an interval agrees with another that is at least as wide."""
    if ours.low is None or ours.high is None:
        return None
    if not overlaps(ours, low, high):
        return False
    return True if ours.high - ours.low <= high - low else None


def _measured(result: Result, name: str, measure: str, word: str = PRIMES) -> Estimate:
    return _measure_of(result.words[name], measure, word)


def _measure_of(scores: Scores, measure: str, word: str = PRIMES) -> Estimate:
    score = scores.get(word)
    estimate: Estimate = getattr(score, measure) if score else UNKNOWN
    return estimate


def _number_beside_papers(result: Result, name: str, measure: str) -> str:
    right, among = PAPER_PRIMES[name, measure]
    return f"{format_number(_measured(result, name, measure).value)} ({right / among:.4f})"


def _undefined(name: str, measure: str, word: str) -> str:
    """Why a measure of a word is undefined, if it is."""
    what = "prime" if word == PRIMES else word
    return {
        "precision": f"the {name} generates no {what}",
        "recall": f"the text has no {what}",
        "f1": f"there is no {what}",
    }[measure]


def _close(
    result: Result, words: Sequence[str], span: tuple[float, float], paper: str, key: str
) -> Verdict:
    """Precision, recall and F1 of some words by the GPT-2 are close to the paper's."""
    found = {
        (word, measure): _measured(result, "GPT-2", measure, word)
        for word in words
        for measure in ("precision", "recall", "f1")
    }
    close = {which: decided_within(estimate, *span) for which, estimate in found.items()}
    agrees = all_of(close.values())
    ours = [
        f"{word}: "
        + ", ".join(
            f"{measure} {format_share(each, _undefined('GPT-2', measure, word))}"
            for (of, measure), each in found.items()
            if of == word
        )
        for word in words
    ]
    verdict = Verdict(
        key=key,
        claim=f"For {join(words)}, precision, recall and F1 are close to {paper}.",
        paper=paper,
        ours="; ".join(ours).replace("f1", "F1"),
        criterion=f"every interval lies wholly in {span[0]:g} to {span[1]:g}, which rounds to"
        f" {paper}; differs if one lies wholly outside",
        agrees=agrees,
        why=undecided(agrees, f"an interval contains {span[0]:g} or {span[1]:g}, or is unknown"),
    )
    low = [
        which
        for which, inside in close.items()
        if inside is False and (found[which].value or 0) < span[0]
    ]
    return unless_trained_less(verdict, worse=bool(low), tokens=result.trained_on)
