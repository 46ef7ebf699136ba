"""What was generated against what stands there, word by word.

Everywhere `predicted` and `true` hold the words of one prompt each. There are at least as many true
ones; those beyond the last that was generated are left out. A malformed word is 0: it matches none.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..text.sieve import Words
from .estimates import Estimate, ratio, wilson

MALFORMED = 0
PRIME = 2

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def hits(predicted: Words, true: Words) -> int:
    """How many words are right.

    >>> hits(np.array([2, 12, 10], np.uint64), np.array([2, 10, 10, 12], np.uint64))
    2
    """
    shared = min(len(predicted), len(true))
    return int(np.count_nonzero(predicted[:shared] == true[:shared]))


def accuracies(predicted: Sequence[Words], true: Sequence[Words]) -> Floats:
    """The share of the words that are right, for each prompt; 0 where there is no word."""
    pairs = zip(predicted, true, strict=True)
    return np.array([hits(said, there) / max(1, len(said)) for said, there in pairs], np.float64)


def malformed(predicted: Sequence[Words]) -> tuple[Integers, Integers]:
    """How many words of each prompt are malformed, and how many words it has."""
    wrong = [np.count_nonzero(words == MALFORMED) for words in predicted]
    return np.array(wrong, np.int64), np.array([len(words) for words in predicted], np.int64)


class Divergences(NamedTuple):
    """How far the frequencies of the words are from the true ones, in nats, for each prompt."""

    paper: Floats  # Σ f ln(f / f̂) over the words that were generated, as the paper has it
    left_out: Floats  # the share of the true words of which this sum says nothing
    proper: Floats  # the Kullback–Leibler divergence: the sum over all true words
    shannon: Floats  # the Jensen–Shannon divergence, 0 to ln 2


def divergences(predicted: Sequence[Words], true: Sequence[Words]) -> Divergences:
    """Compare frequencies within each sentence; all malformed words are one word there."""
    prompt, said, there = _flat(predicted, true)
    vocabulary = np.unique(np.concatenate([said, there]))
    lengths = np.bincount(prompt, minlength=len(predicted))
    some = lengths > 0
    p, q = (
        _counts(prompt, words, vocabulary, len(predicted)) / np.maximum(1, lengths)[:, None]
        for words in (there, said)
    )
    mean = (p + q) / 2
    # A prompt without a word has said nothing of the truth: all is left out, and the two are as far
    # from each other as sentences without a common word.
    paper = _relative(p, q)
    left_out = np.where(some, (p * (q == 0)).sum(1), 1.0)
    proper = np.where(left_out > 0, np.inf, paper)
    shannon = np.where(some, (_relative(p, mean) + _relative(q, mean)) / 2, np.log(2))
    # That of nearly equal frequencies may come out as a negative rounding error.
    return Divergences(paper, left_out, proper, np.maximum(shannon, 0))


def _relative(p: Floats, q: Floats) -> Floats:
    """Σ p ln(p / q) of each row, over the words that both have."""
    both = (p > 0) & (q > 0)
    sums: Floats = (p * np.log(np.where(both, p, 1) / np.where(both, q, 1))).sum(1)
    return sums


class WordScore(NamedTuple):
    """How well one word is predicted, with intervals over prompts."""

    word: int  # packed
    true: int  # how often it stands there
    predicted: int  # how often it was generated
    precision: Estimate  # of those that were generated, the share that are right
    recall: Estimate  # of those that stand there, the share that were generated
    f1: Estimate  # the harmonic mean of both


def word_scores(predicted: Sequence[Words], true: Sequence[Words]) -> list[WordScore]:
    """Every word that was generated or stands there, the commonest of the truth first."""
    prompt, said, there = _flat(predicted, true)
    vocabulary = np.unique(np.concatenate([said, there]))
    vocabulary = vocabulary[vocabulary != MALFORMED]
    right, valid = said == there, said != MALFORMED
    stand, found, hit = (
        _counts(prompt[chosen], words[chosen], vocabulary, len(predicted)).T
        for words, chosen in ((there, slice(None)), (said, valid), (said, right))
    )
    total, generated = stand.sum(1), found.sum(1)
    return [
        WordScore(
            word=int(vocabulary[i]),
            true=int(total[i]),
            predicted=int(generated[i]),
            precision=_rate(hit[i], found[i]),
            recall=_rate(hit[i], stand[i]),
            f1=_rate(2 * hit[i], found[i] + stand[i]),
        )
        for i in np.argsort(-total, kind="stable")
    ]


def _rate(hits: Integers, among: Integers) -> Estimate:
    """The share over all prompts.

    Where all or none are hits, drawing prompts again would show no doubt: words are counted as if
    they were independent then.
    """
    some, n = int(hits.sum()), int(among.sum())
    return ratio(hits, among) if 0 < some < n else wilson(some, n)


class Confusion(NamedTuple):
    """Which words are taken for which.

    A row for each labelled word where it stands, and one for all others; a column for each where it
    was generated, one for all others, and one for malformed words.
    """

    labels: list[int]
    counts: Integers


def confusion(predicted: Sequence[Words], true: Sequence[Words], size: int = 12) -> Confusion:
    """Count pairs of words; labelled are the `size` commonest of the truth, or all if fewer."""
    _, said, there = _flat(predicted, true)
    labels = [word for word, _ in _commonest(there)[:size]]
    rows, columns = len(labels) + 1, len(labels) + 2
    column = _places(said, labels)
    column[said == MALFORMED] = columns - 1
    cells = np.bincount(_places(there, labels) * columns + column, minlength=rows * columns)
    return Confusion(labels, cells.reshape(rows, columns))


def _places(words: Words, labels: list[int]) -> Integers:
    """The place of each word among the labels; their number for a word that is not there."""
    places = np.full(len(words), len(labels))
    for place, label in enumerate(labels):
        places[words == label] = place
    return places


def at_primes(
    predicted: Sequence[Words], true: Sequence[Words], word: int = PRIME
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """What is generated where this word stands, and what stands where it is generated.

    Words and how often each comes, the commonest first; the first list may have malformed ones.
    """
    _, said, there = _flat(predicted, true)
    return _commonest(said[there == word]), _commonest(there[said == word])


def _commonest(words: Words) -> list[tuple[int, int]]:
    """Words and their counts, the commonest first, of equally common ones the least."""
    distinct, counts = np.unique(words, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return list(zip(distinct[order].tolist(), counts[order].tolist(), strict=True))


def _flat(predicted: Sequence[Words], true: Sequence[Words]) -> tuple[Integers, Words, Words]:
    """All words in a row: the number of their prompt, what was generated and what stands there."""
    lengths = [len(words) for words in predicted]
    for i, (length, words) in enumerate(zip(lengths, true, strict=True)):
        if len(words) < length:
            raise InputError(f"prompt {i}: {length} words to compare with {len(words)} true ones")
    cut = [words[:length] for length, words in zip(lengths, true, strict=True)]
    none = np.zeros(0, np.uint64)  # there may be no prompts
    prompt = np.repeat(np.arange(len(lengths)), lengths)
    return prompt, np.concatenate([none, *predicted]), np.concatenate([none, *cut])


def _counts(prompt: Integers, words: Words, vocabulary: Words, prompts: int) -> Integers:
    """How often each word of the vocabulary, which is sorted, occurs in each prompt."""
    cells = prompt * len(vocabulary) + np.searchsorted(vocabulary, words)
    counts = np.bincount(cells, minlength=prompts * len(vocabulary))
    return counts.reshape(prompts, len(vocabulary))
