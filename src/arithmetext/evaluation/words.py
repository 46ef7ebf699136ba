"""Metrics of generated words: accuracy, divergence, precision and recall, confusion.

In all functions, `predicted` and `true` hold one array of packed words per prompt. There are at
least as many true words as predicted words; the rest of the true words are ignored. A malformed
word is 0, which equals no true word. Where several models, trained with other seeds, continue the
same prompts, the prompts of one `seed` follow those of another.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..text.sieve import Words
from .estimates import UNKNOWN, Estimate, decided_above, over_prompts, rate

MALFORMED = 0
PRIME = 2  # the word 10, of every prime

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def hits(predicted: Words, true: Words) -> int:
    """The number of predicted words that are right.

    >>> hits(np.array([2, 12, 10], np.uint64), np.array([2, 10, 10, 12], np.uint64))
    2
    """
    shared = min(len(predicted), len(true))
    return int(np.count_nonzero(predicted[:shared] == true[:shared]))


def accuracies(predicted: Sequence[Words], true: Sequence[Words]) -> Floats:
    """The share of predicted words that are right, [prompts]; 0 for a prompt without words."""
    pairs = zip(predicted, true, strict=True)
    return np.array([hits(guess, truth) / max(1, len(guess)) for guess, truth in pairs], np.float64)


def malformed(predicted: Sequence[Words]) -> tuple[Integers, Integers]:
    """The number of malformed words and the number of words of each prompt, [prompts] each."""
    wrong = [np.count_nonzero(words == MALFORMED) for words in predicted]
    return np.array(wrong, np.int64), np.array([len(words) for words in predicted], np.int64)


class Divergences(NamedTuple):
    """Divergences of predicted word frequencies f̂ from true frequencies f, in nats.

    One for each prompt, [prompts], or for each way to pool them, [weightings].
    """

    paper: Floats  # Σ f ln(f / f̂) over the predicted words, as in the paper
    left_out: Floats  # the share of true words that this sum leaves out
    proper: Floats  # the Kullback–Leibler divergence, the sum over all true words
    shannon: Floats  # the Jensen–Shannon divergence, 0 to ln 2


def divergences(
    predicted: Sequence[Words], true: Sequence[Words], weights: Floats | None = None
) -> Divergences:
    """Compare word frequencies; all malformed words count as the same word.

    Without weights, prompt by prompt. With weights, [weightings, prompts], the frequencies are
    those of all prompts together, each counted as often as its weight says.
    """
    prompt, guess, truth = _flat(predicted, true)
    vocabulary = np.unique(np.concatenate([guess, truth]))
    true_counts, predicted_counts = (
        _counts(prompt, words, vocabulary, len(predicted)).astype(np.float64)
        for words in (truth, guess)
    )
    if weights is not None:
        true_counts, predicted_counts = weights @ true_counts, weights @ predicted_counts
    lengths = true_counts.sum(1)  # as many words are predicted
    has_words = lengths > 0
    p, q = (
        counts / np.where(has_words, lengths, 1)[:, None]
        for counts in (true_counts, predicted_counts)
    )
    mean = (p + q) / 2
    # Without predicted words all true words are left out, and the Jensen–Shannon divergence is the
    # greatest possible, as if no word were shared.
    paper = _relative(p, q)
    left_out = np.where(has_words, (p * (q == 0)).sum(1), 1.0)
    proper = np.where(left_out > 0, np.inf, paper)
    shannon = np.where(has_words, (_relative(p, mean) + _relative(q, mean)) / 2, np.log(2))
    # Rounding may make the last one slightly negative for nearly equal frequencies.
    return Divergences(paper, left_out, proper, np.maximum(shannon, 0))


def _relative(p: Floats, q: Floats) -> Floats:
    """Σ p ln(p / q) of each row, over the columns where both are positive."""
    both = (p > 0) & (q > 0)
    sums: Floats = (p * np.log(np.where(both, p, 1) / np.where(both, q, 1))).sum(1)
    return sums


class WordCounts(NamedTuple):
    """How often each word is true, predicted and both, in each prompt and for each seed."""

    words: Words  # packed, in increasing order
    counts: Integers  # [seeds, prompts, words, 3]: true, predicted, right

    @property
    def true(self) -> Floats:
        """How often each word is the true word, a mean over seeds."""
        mean: Floats = self.counts[..., 0].sum(1).mean(0)
        return mean

    def chosen(self, words: Words) -> "WordCounts":
        """The counts of some of the words."""
        return WordCounts(words, self.counts[:, :, np.searchsorted(self.words, words)])


def word_counts(predicted: Sequence[Words], true: Sequence[Words], seeds: int = 1) -> WordCounts:
    """Counts of every true or predicted word."""
    prompt, guess, truth = _flat(predicted, true)
    vocabulary = np.unique(np.concatenate([guess, truth]))
    vocabulary = vocabulary[vocabulary != MALFORMED]
    right, valid = guess == truth, guess != MALFORMED
    counts = [
        _counts(prompt[chosen], words[chosen], vocabulary, len(predicted))
        for words, chosen in ((truth, slice(None)), (guess, valid), (guess, right))
    ]
    shape = seeds, len(predicted) // seeds, len(vocabulary), 3
    return WordCounts(vocabulary, np.stack(counts, -1).reshape(shape))


class WordScore(NamedTuple):
    """How well one word is predicted, with intervals over prompts."""

    word: int  # packed
    true: float  # how often it is the true word, a mean over seeds
    predicted: float  # how often it is predicted, a mean over seeds
    precision: Estimate  # the share of its predictions that are right
    recall: Estimate  # the share of its true occurrences that are predicted
    f1: Estimate  # the harmonic mean of precision and recall


def word_scores(counts: WordCounts) -> list[WordScore]:
    """Scores of every true or predicted word, sorted by how often it is the true word."""
    seeds = len(counts.counts)
    scores = []
    for i in np.argsort(-counts.true, kind="stable"):
        true, predicted, right = np.moveaxis(counts.counts[:, :, i], -1, 0)
        scores.append(
            WordScore(
                word=int(counts.words[i]),
                true=int(true.sum()) / seeds,
                predicted=int(predicted.sum()) / seeds,
                precision=rate(right, predicted),
                recall=rate(right, true),
                f1=rate(right, (predicted + true) / 2),
            )
        )
    return scores


def _f1(sums: Floats) -> Floats:
    """F1 from sums of counts, [..., 3]; 0 for a word that is never right."""
    true, predicted, right = np.moveaxis(sums, -1, 0)
    f1: Floats = 2 * right / np.maximum(1e-9, true + predicted)
    return f1


class HighestF1(NamedTuple):
    """The highest F1 among some words."""

    word: int | None  # packed; None if there are no words
    f1: Estimate
    words: int
    never_right: int  # words with an F1 of 0


def highest_f1(counts: WordCounts, least: int) -> HighestF1:
    """The highest F1 among the words that are the true word at least `least` times.

    Each resample has its own highest F1, so the interval allows for the choice of the word.
    """
    common = counts.chosen(counts.words[counts.true >= least])
    if not len(common.words):
        return HighestF1(None, UNKNOWN, 0, 0)
    f1 = _f1(common.counts.sum((0, 1)))
    highest = over_prompts(lambda sums: _f1(sums).max(1), common.counts)
    return HighestF1(
        int(common.words[f1.argmax()]), highest, len(f1), int(np.count_nonzero(f1 == 0))
    )


class F1Comparison(NamedTuple):
    """For how many words one model has a higher or a lower F1 than another.

    A word counts where the interval of the difference, over the same prompts, does not reach 0.
    """

    words: int  # that at least one of the models has right
    higher: int
    lower: int


def compare_f1(ours: WordCounts, theirs: WordCounts, least: int) -> F1Comparison:
    """Compare the words that are the true word at least `least` times for both models."""
    common = np.intersect1d(ours.words[ours.true >= least], theirs.words[theirs.true >= least])
    one, other = ours.chosen(common).counts, theirs.chosen(common).counts
    right = (one.sum((0, 1)) + other.sum((0, 1)))[:, 2] > 0
    differences = [
        over_prompts(lambda a, b: _f1(a) - _f1(b), one[:, :, i], other[:, :, i])
        for i in np.flatnonzero(right)
    ]
    decided = [decided_above(each, 0) for each in differences]
    return F1Comparison(len(decided), decided.count(True), decided.count(False))


class Confusion(NamedTuple):
    """How often each true word is predicted as each word."""

    labels: list[int]  # packed words
    counts: Integers  # [true: labels + others, predicted: labels + others + malformed]


def confusion(predicted: Sequence[Words], true: Sequence[Words], size: int = 12) -> Confusion:
    """The confusion matrix; its labels are the `size` most common true words, or all if fewer."""
    labels, counts = confusion_by_prompt(predicted, true, size)
    return Confusion(labels, counts.sum(0))


def confusion_by_prompt(predicted: Sequence[Words], true: Sequence[Words], size: int) -> Confusion:
    """A confusion matrix for each prompt with the labels of `confusion`; prompts come first."""
    prompt, guess, truth = _flat(predicted, true)
    labels = [word for word, _ in _commonest(truth)[:size]]
    shape = len(predicted), len(labels) + 1, len(labels) + 2
    column = _label_indices(guess, labels)
    column[guess == MALFORMED] = shape[2] - 1
    cells = np.ravel_multi_index((prompt, _label_indices(truth, labels), column), shape)
    counts = np.bincount(cells, minlength=int(np.prod(shape)))
    return Confusion(labels, counts.reshape(shape))


def _label_indices(words: Words, labels: list[int]) -> Integers:
    """The index of each word in the labels; len(labels) for any other word."""
    indices = np.full(len(words), len(labels))
    for index, label in enumerate(labels):
        indices[words == label] = index
    return indices


def words_confused_with(
    predicted: Sequence[Words], true: Sequence[Words], word: int = PRIME
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """The predicted words where `word` is true, and the true words where `word` is predicted.

    Each is a list of (word, count), most common first; the first may hold the malformed word.
    """
    _, guess, truth = _flat(predicted, true)
    return _commonest(guess[truth == word]), _commonest(truth[guess == word])


def _commonest(words: Words) -> list[tuple[int, int]]:
    """(word, count), most common first; equally common words in increasing order."""
    distinct, counts = np.unique(words, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return list(zip(distinct[order].tolist(), counts[order].tolist(), strict=True))


def _flat(predicted: Sequence[Words], true: Sequence[Words]) -> tuple[Integers, Words, Words]:
    """Concatenate all prompts: prompt number, predicted word and true word, [words] each."""
    lengths = [len(words) for words in predicted]
    for i, (length, words) in enumerate(zip(lengths, true, strict=True)):
        if len(words) < length:
            raise InputError(f"prompt {i}: {length} predicted words, only {len(words)} true")
    cut = [words[:length] for length, words in zip(lengths, true, strict=True)]
    none = np.zeros(0, np.uint64)  # in case there are no prompts
    prompt = np.repeat(np.arange(len(lengths)), lengths)
    return prompt, np.concatenate([none, *predicted]), np.concatenate([none, *cut])


def _counts(prompt: Integers, words: Words, vocabulary: Words, prompts: int) -> Integers:
    """How often each word of a sorted vocabulary occurs in each prompt, [prompts, vocabulary]."""
    cells = prompt * len(vocabulary) + np.searchsorted(vocabulary, words)
    counts = np.bincount(cells, minlength=prompts * len(vocabulary))
    return counts.reshape(prompts, len(vocabulary))
