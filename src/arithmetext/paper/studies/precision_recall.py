"""Precision and recall of every word, for the GPT-2 and the HMM."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from ...evaluation.estimates import UNKNOWN, Estimate, above, meets, wilson
from ...evaluation.words import word_scores
from ...trees import unpack
from ..figures import MARKERS
from ..runs import Comparison, Generation, comparison
from ..study import Table, Verdict
from ..wording import cell, format_estimate, format_integer, format_number, join

TITLE = "Precision and recall of words"
PLACE = 130
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


@dataclass(frozen=True)
class Score:
    """How well one word is predicted (`evaluation.words.WordScore`)."""

    word: str
    true: int  # occurrences in the text
    predicted: int  # occurrences in the continuations
    precision: Estimate
    recall: Estimate
    f1: Estimate

    @property
    def is_drawn(self) -> bool:
        return self.predicted > 0 and self.true > 0

    @property
    def is_common(self) -> bool:
        return min(self.true, self.predicted) >= COMMON


@dataclass(frozen=True)
class HighestF1:
    """The highest F1 among the words that occur at least COMMON times in the text."""

    word: str | None  # None if there are no such words
    f1: Estimate
    words: int
    never_right: int  # words with an F1 of 0


@dataclass(frozen=True)
class F1Comparison:
    """For how many words the GPT-2 has a higher, a lower or the same F1 as the HMM."""

    higher: int
    lower: int
    equal: int
    higher_share: Estimate  # of the words whose F1 differs


@dataclass(frozen=True)
class Result:
    at: int
    generation: Generation
    words: dict[str, list[Score]]  # by model; the most common in the text first
    compared: dict[str, int]  # words of the text that the model's words are compared with
    drawn: dict[str, int]  # distinct words in the figure
    hmm_highest: HighestF1
    f1: F1Comparison

    def score(self, model: str, word: str) -> Score | None:
        return next((score for score in self.words[model] if score.word == word), None)


def settings(scale: str) -> Comparison:
    return comparison(scale)


def run(settings: Comparison) -> Result:
    words = {}
    for name, model in settings.models.items():
        _, made = model.continuations(settings.at, settings.generation)
        scores = word_scores(made.predicted, made.true)
        words[name] = [Score(unpack(score.word), *score[1:]) for score in scores]
    return summarise(settings, words)


def summarise(settings: Comparison, words: dict[str, list[Score]]) -> Result:
    return Result(
        at=settings.at,
        generation=settings.generation,
        words=words,
        compared={name: sum(score.true for score in scores) for name, scores in words.items()},
        drawn={name: sum(score.is_drawn for score in scores) for name, scores in words.items()},
        hmm_highest=highest_f1(words["HMM"]),
        f1=compare_f1(words["GPT-2"], words["HMM"]),
    )


def highest_f1(scores: list[Score]) -> HighestF1:
    f1 = {score.word: score.f1 for score in scores if score.true >= COMMON}
    best = max(f1, key=lambda word: f1[word].value or 0, default=None)
    never = sum(estimate.value == 0 for estimate in f1.values())
    return HighestF1(best, f1[best] if best else UNKNOWN, len(f1), never)


def compare_f1(ours: list[Score], theirs: list[Score]) -> F1Comparison:
    a, b = ({s.word: s.f1.value or 0 for s in each if s.true >= COMMON} for each in (ours, theirs))
    both = a.keys() & b.keys()
    higher, lower = sum(a[word] > b[word] for word in both), sum(a[word] < b[word] for word in both)
    share = wilson(higher, higher + lower)
    return F1Comparison(higher, lower, len(both) - higher - lower, share)


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(7.2, 5.8), layout="constrained")
    axes = figure.subplots()
    drawn = [score.true for scores in result.words.values() for score in scores if score.is_drawn]
    most = max(drawn, default=1) / max(1, *result.compared.values())
    colours = LogNorm(1 / max(2, *result.compared.values()), max(most, 1e-3))
    _plot_contours(axes)
    for (name, scores), marker in zip(result.words.items(), MARKERS, strict=False):
        for common in (False, True):
            shown = [each for each in scores if each.is_drawn and each.is_common == common]
            points = axes.scatter(
                [each.precision.value or 0 for each in shown],
                [each.recall.value or 0 for each in shown],
                c=[each.true / result.compared[name] for each in shown],
                norm=colours,
                cmap="viridis",
                s=38 if common else 9,
                alpha=1 if common else 0.45,
                marker=marker,
                edgecolors="black",
                linewidths=0.5 if common else 0.1,
                clip_on=False,  # many words have a recall of 0 and lie on the axis
                zorder=4 if common else 3,
            )
        axes.scatter([], [], s=38, marker=marker, color="0.5", ec="black", lw=0.5, label=name)
    _label_words(axes, result)
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    axes.set_xlabel("precision")
    axes.set_ylabel("recall")
    axes.grid(alpha=0.3)
    axes.legend(loc="upper right")
    figure.colorbar(points, ax=axes, label="frequency of the word in the text")
    return figure


def _plot_contours(axes: Axes) -> None:
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


def _label_words(axes: Axes, result: Result) -> None:
    """Ring the primes, and label some words in a column beside the points, from the bottom up."""
    named = [
        (each.recall.value or 0, each.precision.value or 0, name, each.word, marker)
        for (name, scores), marker in zip(result.words.items(), MARKERS, strict=False)
        for each in scores
        if each.is_drawn and (each.word == PRIMES or (name == "GPT-2" and each.word in SQUARE_FREE))
    ]
    cloud = [
        s.precision.value or 0 for scores in result.words.values() for s in scores if s.is_common
    ]
    height = -1.0
    for recall, precision, name, word, marker in sorted(named):
        height = max(recall, height + 0.05)
        prime = word == PRIMES
        if prime:
            axes.scatter(
                precision, recall, 130, marker=marker, fc="none", ec="red", lw=1.6, zorder=5
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


def caption(result: Result) -> str:
    how = result.generation
    left = [
        f"{result.drawn[name]} words of the {name} (from {result.compared[name]:,} positions)"
        for name in result.words
    ]
    primes = {name: result.score(name, PRIMES) for name in result.words}
    without = [
        f" The {name} never generates a prime."
        for name, score in primes.items()
        if score is None or not score.predicted
    ]
    return (
        "Precision and recall of each word: circles for the GPT-2, squares for the HMM. Precision"
        " is the share of a word's occurrences in the continuations that are right. Recall is the"
        " share of its occurrences in the text that were generated. The continuations are the"
        f" likeliest (β = ∞) of {how.prompts} prompts of {how.tokens} tokens near"
        f" {format_integer(result.at)}, each as long as its prompt, seed {how.seed}. Red rings mark"
        f" primes; dashed lines connect equal F1.{''.join(without)} Words with fewer than {COMMON}"
        " occurrences in the text or in the continuations are small and faint. Words without any"
        " occurrence in one of the two are"
        f" left out. That leaves {join(left)}. The 95 % intervals in the table are bootstrapped"
        " over prompts."
    )


def table(result: Result) -> Table:
    measures = ("precision", "recall", "F1")
    header = ["model", "word", "in the text", "generated"]
    header += [f"{measure}{end}" for measure in measures for end in ("", " low", " high")]
    rows = [
        [name, each.word, each.true, each.predicted]
        + [cell(number) for number in (*each.precision, *each.recall, *each.f1)]
        for name, scores in result.words.items()
        for each in scores[:LISTED]
        if each.true >= COMMON
    ]
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    return [
        *(_at_primes(result, name, measure) for name, measure in PAPER_PRIMES),
        _close(result, (PRIMES,), (0.25, 0.35), "0.3", "primes-near-0.3"),
        _close(result, SQUARE_FREE, (0.4, 0.5), "0.4–0.5", "square-free-near-0.4"),
        _hmm_below(result.hmm_highest),
        _outperforms(result.f1),
    ]


def _at_primes(result: Result, name: str, measure: str) -> Verdict:
    right, among = PAPER_PRIMES[name, measure]
    _, low, high = PAPER_INTERVALS[name, measure]
    score = result.score(name, PRIMES)
    ours: Estimate = getattr(score, measure) if score else UNKNOWN
    return Verdict(
        key=f"{measure}-at-primes-{name}",
        claim=f"The {measure} of the {name} at primes is {right / among:.4f}.",
        paper=f"{right / among:.4f}",
        ours=format_estimate(ours),
        criterion=f"the interval overlaps that of the paper, [{low:.3f}, {high:.3f}]",
        agrees=meets(ours, low, high),
        why=f"The paper's number is {right}/{among} to all digits of its source. It seems to"
        " come from one sentence.",
    )


def _close(
    result: Result, words: Sequence[str], span: tuple[float, float], paper: str, key: str
) -> Verdict:
    """That precision, recall and F1 of the GPT-2 are about what the paper says."""
    scores = [score for word in words if (score := result.score("GPT-2", word))]
    estimates = [each for score in scores for each in (score.precision, score.recall, score.f1)]
    f1 = [f"{format_estimate(score.f1)} for {score.word}" for score in scores]
    others = [
        f"{format_number(score.precision.value)} and {format_number(score.recall.value)}"
        for score in scores
    ]
    return Verdict(
        key=key,
        claim=f"For {join(words)}, precision, recall and F1 are close to {paper}.",
        paper=paper,
        ours=f"F1 {', '.join(f1) or 'not known'}",
        criterion="the intervals of precision, recall and F1 of each word overlap"
        f" {span[0]:g} to {span[1]:g}",
        agrees=len(scores) == len(words) and all(meets(each, *span) for each in estimates),
        why=f"Precision and recall: {', '.join(others) or 'not known'}.",
    )


def _hmm_below(found: HighestF1) -> Verdict:
    return Verdict(
        key="hmm-f1-below-0.2",
        claim=f"The F1 of the HMM is below {HMM_BOUND} for all words.",
        paper=f"below {HMM_BOUND}",
        ours=f"the highest is {format_estimate(found.f1)}, for {found.word}, among {found.words}"
        f" words that occur at least {COMMON} times; {found.never_right} of them have 0"
        if found.word
        else "no word occurs often enough",
        criterion="the highest is below the paper's bound",
        agrees=found.f1.value is not None and found.f1.value < HMM_BOUND,
    )


def _outperforms(found: F1Comparison) -> Verdict:
    return Verdict(
        key="outperforms-hmm",
        claim="The GPT-2 clearly outperforms the HMM in precision and recall of words.",
        paper="it does",
        ours=f"F1 is higher for {found.higher} words, lower for {found.lower} and equal for"
        f" {found.equal}, of those that occur at least {COMMON} times; share that is higher,"
        f" of those that differ: {format_estimate(found.higher_share)}",
        criterion="the interval is above one half",
        agrees=above(found.higher_share, 0.5),
        why="F1 is equal for words that neither model ever has right." if found.equal else "",
    )
