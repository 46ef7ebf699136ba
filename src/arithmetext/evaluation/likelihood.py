"""Does a model find the text likelier than made-up sequences?

The model scores sequences of the text, and for each sequence a control made from the same words:

    unigram             random tokens, with their frequencies in the training text
    shuffled            the words in random order
    shuffled in eights  the words shuffled within blocks of eight
    backwards           the words of the sequence in reverse order
    deleted             one word in the middle of the sequence is missing

Words are altered before they are encoded, and the encoder's warm-up is skipped. So controls, like
sequences of the text, may begin and end inside a word.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, sqrt
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError
from ..models.language import LanguageModel
from ..progress import Advance, no_progress, progress
from ..text.sieve import Words, words_in_buffer
from ..text.splits import Range
from ..text.windows import TEST, generator
from ..tokens import Tokenizer
from ..tokens.windows import ENCODER_WARMUP, LongIds, TokenWindows, cut
from .estimates import UNKNOWN, Estimate, Z, ratio, share, with_seed_spread
from .scoring import score

CONTROLS = ("unigram", "shuffled", "shuffled in eights", "backwards", "deleted")
BLOCK = 8

Values = NDArray[np.float64]

_COUNTED_TOKENS = 1024, 256  # token frequencies are counted in 1024 windows of 256 tokens
_BISECTIONS = 60  # of the interval from 0 to 1: to beyond the precision of a float


class ControlSummary(NamedTuple):
    """How well the likelihood tells sequences of the text from sequences of a control."""

    length: int  # tokens of each
    control: str
    true: Estimate  # mean log-likelihood per token
    other: Estimate
    auc: Estimate  # area under the ROC curve
    paired: Estimate  # share of places where the text is likelier


@dataclass(frozen=True)
class Distributions:
    """Log-likelihoods per token of the text and of a control, and how far they overlap."""

    length: int
    true: list[float]
    other: list[float]
    overlap: float  # see `overlap`
    distance: float  # see `standardised_difference`
    disjoint: bool  # every sequence of the text is likelier than all of the control


@dataclass(frozen=True)
class ControlComparison:
    """Log-likelihoods per token of sequences of the text and of a control, [sequences] each."""

    length: int  # tokens of a sequence
    control: str
    true: Values
    other: Values  # other[k] is made from the same words as true[k]

    def summary(self) -> ControlSummary:
        true, other = self.true, self.other
        means = mean(true), mean(other)
        return ControlSummary(
            self.length, self.control, *means, auc(true, other), paired(true, other)
        )

    def distributions(self) -> Distributions:
        true, other = self.true.round(4), self.other.round(4)
        return Distributions(
            self.length,
            true.tolist(),
            other.tolist(),
            overlap(true, other),
            standardised_difference(true, other),
            disjoint=bool(other.max() < true.min()),
        )


def compare_with_controls(
    model: LanguageModel,
    tokenizer: Tokenizer,
    windows: Sequence[Range],
    train: Sequence[Range],
    *,
    number: int,
    lengths: Sequence[int],
    seed: int,
) -> list[ControlComparison]:
    """Compare `number` sequences of each length with every control.

    Each length has its own sequences. Sequence k of a control is a pure function of (seed, windows,
    control, length, k). Token frequencies are counted in the training ranges.
    """
    check_sizes(number, *lengths)
    frequencies = token_frequencies(tokenizer, train, seed)
    comparisons = []
    total = number * len(lengths) * (1 + len(CONTROLS))
    with progress("likelihood", total, "sequences") as advance:
        for length in lengths:
            sequences = Sequences(tokenizer, windows, length=length, seed=seed)
            true = per_token(model, [sequences.true(k) for k in range(number)], advance)
            for control in CONTROLS:
                ids = [sequences.made_up(control, k, frequencies) for k in range(number)]
                other = per_token(model, ids, advance)
                comparisons.append(ControlComparison(length, control, true, other))
    return comparisons


def check_sizes(number: int, *lengths: int) -> None:
    """Raise if there is nothing to score."""
    if number < 1 or min(lengths, default=2) < 2:
        raise InputError("give a number of 1 or more, and lengths of 2 tokens or more")


# Sequences


class Sequences:
    """Sequences of `length` tokens from random places of some ranges, and their controls."""

    def __init__(
        self, tokenizer: Tokenizer, ranges: Sequence[Range], *, length: int, seed: int
    ) -> None:
        self.tokenizer, self.length, self.seed = tokenizer, length, seed
        self._words: dict[int, Words] = {}  # cached, since sieving takes long for large integers
        # One token more than needed, so that a control may delete a word, and text after the
        # sequence, where encoding begins if it is read backwards.
        self.windows = TokenWindows(tokenizer, ranges, length + 1 + ENCODER_WARMUP)

    def start(self, k: int) -> int:
        """The first integer of sequence k."""
        return self.windows.random_start(self.random(k))

    def words(self, k: int) -> Words:
        """The words from which sequence k and its controls are made."""
        if k not in self._words:
            start = self.start(k)
            self._words[k] = words_in_buffer(start, start + self.windows.length).copy()
        return self._words[k]

    def random(self, k: int, use: int = 0) -> np.random.Generator:
        """The random numbers for one use at sequence k; use 0 is to draw its place."""
        first = self.windows.ranges[0][0]
        return generator(self.seed, TEST, first, k, use=self.length << 8 | use)

    def true(self, k: int) -> LongIds:
        """Sequence k of the text, [length]."""
        return cut(self.tokenizer, self.words(k), self.length)

    def made_up(self, control: str, k: int, frequencies: Values | None = None) -> LongIds:
        """Sequence k of a control, [length].

        The control "unigram" needs the frequency of each token, [D].
        """
        random = self.random(k, 1 + CONTROLS.index(control))
        if control == "unigram":
            assert frequencies is not None
            return random.choice(len(frequencies), self.length, p=frequencies)
        words = self.words(k)
        if control == "shuffled":
            words = random.permutation(words)
        elif control == "shuffled in eights":
            words = shuffled_in_blocks(words, random)
        elif control == "backwards":
            return self._backwards(words)
        else:
            words = np.delete(words, self.middle(words))
        return cut(self.tokenizer, words, self.length)

    def _backwards(self, words: Words) -> LongIds:
        """The words of the sequence in reverse order.

        The sequence is as far from the end of the reversed text as it is from the beginning of the
        text. A few words at its ends may differ, since tokens can span words.
        """
        ids = self.tokenizer.encode(words, threads=1)[: self.length + 2 * ENCODER_WARMUP]
        used = words[: int(self.tokenizer.words_ended[ids].sum())]
        reverse = self.tokenizer.encode(np.ascontiguousarray(used[::-1]), threads=1)
        end = len(reverse) - ENCODER_WARMUP
        return reverse[end - self.length : end].astype(np.int64)

    def middle(self, words: Words) -> int:
        """The index of the word in which the middle token of the sequence begins."""
        ids = self.tokenizer.encode(words, threads=1)
        return int(self.tokenizer.words_ended[ids[: ENCODER_WARMUP + self.length // 2]].sum())


def shuffled_in_blocks(words: Words, random: np.random.Generator) -> Words:
    """The words, shuffled within blocks of eight."""
    return words[np.argsort(np.arange(len(words)) // BLOCK + random.random(len(words)))]


def token_frequencies(tokenizer: Tokenizer, ranges: Sequence[Range], seed: int) -> Values:
    """The frequency of every token in 2^18 tokens of random windows of the ranges, [D]."""
    number, tokens = _COUNTED_TOKENS
    windows = TokenWindows(tokenizer, ranges, tokens)
    counts = np.zeros(tokenizer.size, np.int64)
    for k in range(number):
        ids = windows.draw(generator(seed, TEST, 0, k))
        counts += np.bincount(ids, minlength=tokenizer.size)
    shares: Values = counts / counts.sum()
    return shares


def per_token(model: LanguageModel, ids: list[LongIds], advance: Advance = no_progress) -> Values:
    """The mean log-likelihood of the tokens of each sequence after its first, [sequences]."""
    values: Values = score(model, torch.from_numpy(np.stack(ids)), advance).logs.mean(1)
    return values


# Statistics


def mean(values: Values) -> Estimate:
    """The mean; UNKNOWN if a value is infinite, that is, a sequence has probability 0."""
    return ratio(values)


def auc(true: Values, other: Values) -> Estimate:
    """The area under the ROC curve: P(true > other) + ½ P(true = other).

    The interval is method 5 of Newcombe (2006), a score interval. It has a positive width even if
    the area is 0 or 1. For m and n values, with N = (m + n)/2, it ends at the two θ whose distance
    from the estimate is

        z √(θ(1 − θ) (1 + (N − 1) ((1 − θ)/(2 − θ) + θ/(1 + θ))) / (mn)).

    It assumes that all values are independent. Here the two values of a pair are often similar,
    which makes the interval wider than necessary.
    """
    m, n = len(true), len(other)
    if not m or not n:
        return UNKNOWN
    _, kinds, counts = np.unique(
        np.concatenate([true, other]), return_inverse=True, return_counts=True
    )
    ranks = np.cumsum(counts) - (counts - 1) / 2  # equal values share their mean rank
    area = (float(ranks[kinds[:m]].sum()) - m * (m + 1) / 2) / (m * n)
    return Estimate(area, _lower_end(area, m, n), 1 - _lower_end(1 - area, m, n))


def _lower_end(area: float, m: int, n: int) -> float:
    """The lower end of Newcombe's interval; by symmetry it gives the upper end for 1 - area."""
    low, high = 0.0, area
    for _ in range(_BISECTIONS):
        theta = (low + high) / 2
        spread = (1 - theta) / (2 - theta) + theta / (1 + theta)
        variance = theta * (1 - theta) * (1 + ((m + n) / 2 - 1) * spread) / (m * n)
        if area - theta > Z * sqrt(variance):
            low = theta
        else:
            high = theta
    return low


def over_seeds(
    estimates: Sequence[Estimate], least: float = -inf, greatest: float = inf
) -> Estimate:
    """The mean over models that were trained with different seeds and measured on the same prompts.

    Prompts count once, however many seeds there are: the interval is the mean interval, widened by
    the spread over seeds. Its ends are kept between `least` and `greatest`, such as 0 and 1.
    """
    if UNKNOWN in estimates:
        return UNKNOWN
    mean_estimate = Estimate(*np.array(estimates, np.float64).mean(0).tolist())
    value, low, high = with_seed_spread(mean_estimate, [each.value or 0.0 for each in estimates])
    assert low is not None and high is not None
    return Estimate(value, max(least, low), min(greatest, high))


def paired(true: Values, other: Values) -> Estimate:
    """The share of pairs in which the true sequence is likelier; ties count one half."""
    return share((true > other) + 0.5 * (true == other))


def overlap(true: Values, other: Values) -> float:
    """1 minus the largest difference of the two distribution functions (Kolmogorov–Smirnov)."""
    points = np.sort(np.concatenate([true, other]))
    below, below_other = (
        np.searchsorted(np.sort(values), points, side="right") / len(values)
        for values in (true, other)
    )
    return float(1 - np.abs(below - below_other).max())


def standardised_difference(true: Values, other: Values) -> float:
    """The difference of the means in standard deviations (Cohen's d for samples of equal size)."""
    deviation = np.sqrt((np.var(true, ddof=1) + np.var(other, ddof=1)) / 2)
    return float((np.mean(true) - np.mean(other)) / deviation)
