"""Does the likelihood tell the text from what is made up?

Sequences of the text are scored by a model, and beside each of them what is made of the same place
in one of these ways:

    unigram             tokens drawn one by one, as often as they come in training
    shuffled            the words of the stretch in any order
    shuffled in eights  words change places within blocks of eight
    backwards           the words in reverse order
    deleted             one word is missing, in the middle of the sequence

Words are altered before they are encoded, and some tokens at the beginning are thrown away: like
those of the text, the sequences begin and end anywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError
from ..models.language import LanguageModel
from ..progress import Advance, no_progress, progress
from ..text.sieve import Words, passing_words
from ..text.splits import Range
from ..text.windows import TEST, generator
from ..tokens import Tokenizer
from ..tokens.windows import ENCODER_WARMUP, LongIds, TokenWindows, cut
from .estimates import UNKNOWN, Estimate, Z, ratio, share
from .scoring import score

CONTROLS = ("unigram", "shuffled", "shuffled in eights", "backwards", "deleted")
BLOCK = 8

Values = NDArray[np.float64]

_COUNTED = 1024, 256  # windows, and tokens of each, in which frequencies are counted
_HALVINGS = 60  # of an interval from 0 to 1: more than a float can tell


@dataclass(frozen=True)
class Compared:
    """Sequences of the text and what was made of the same places, in the same order."""

    length: int  # tokens of each
    control: str
    true: Values  # log-likelihoods per token
    other: Values

    def figures(self) -> dict[str, Any]:
        """What there is to report."""
        return {
            "length": self.length,
            "control": self.control,
            "true": mean(self.true),
            "other": mean(self.other),
            "auc": auc(self.true, self.other),
            "paired": paired(self.true, self.other),
        }


def separation(
    model: LanguageModel,
    tokenizer: Tokenizer,
    window: Range,
    train: Sequence[Range],
    *,
    number: int,
    lengths: Sequence[int],
    seed: int,
) -> list[Compared]:
    """Compare so many sequences of each length with every control.

    Each length has its own sequences. Sequence k of a control is a pure function of (seed, window,
    control, length, k). Unigrams are counted in the training ranges.
    """
    check(number, *lengths)
    frequencies = token_frequencies(tokenizer, train, seed)
    found = []
    total = number * len(lengths) * (1 + len(CONTROLS))
    with progress("likelihood", total, "sequences") as advance:
        for length in lengths:
            places = Places(tokenizer, window, length=length, seed=seed)
            true = per_token(model, [places.true(k) for k in range(number)], advance)
            for control in CONTROLS:
                ids = [places.made_up(control, k, frequencies) for k in range(number)]
                found.append(Compared(length, control, true, per_token(model, ids, advance)))
    return found


def check(number: int, *lengths: int) -> None:
    """Refuse sequences of which nothing can be scored."""
    if number < 1 or min(lengths, default=2) < 2:
        raise InputError("give a number of 1 or more, and lengths of 2 tokens or more")


# Sequences


class Places:
    """Random places of a range, and sequences of so many tokens made there."""

    def __init__(self, tokenizer: Tokenizer, window: Range, *, length: int, seed: int) -> None:
        self.tokenizer, self.length, self.seed = tokenizer, length, seed
        self._words: dict[int, Words] = {}  # kept, since far out it takes long to sieve them
        # One token more than needed, so that a control may delete a word.
        self.windows = TokenWindows(tokenizer, [window], length + 1)

    def start(self, k: int) -> int:
        """The integer that place k begins at."""
        return self.windows.random_start(self.random(k))

    def words(self, k: int) -> Words:
        """The words of the stretch there."""
        if k not in self._words:
            start = self.start(k)
            self._words[k] = passing_words(start, start + self.windows.length).copy()
        return self._words[k]

    def random(self, k: int, use: int = 0) -> np.random.Generator:
        """Chance for one use at place k; the first is to find the place."""
        first = self.windows.ranges[0][0]
        return generator(self.seed, TEST, first, k, use=self.length << 8 | use)

    def true(self, k: int) -> LongIds:
        return cut(self.tokenizer, self.words(k), self.length)

    def made_up(self, control: str, k: int, frequencies: Values) -> LongIds:
        """What a control makes of place k; `frequencies` are those of the tokens."""
        random = self.random(k, 1 + CONTROLS.index(control))
        if control == "unigram":
            return random.choice(len(frequencies), self.length, p=frequencies)
        words = self.words(k)
        if control == "shuffled":
            words = random.permutation(words)
        elif control == "shuffled in eights":
            words = shuffled_in_blocks(words, random)
        elif control == "backwards":
            words = words[::-1]
        else:
            words = np.delete(words, self._middle(words))
        return cut(self.tokenizer, words, self.length)

    def _middle(self, words: Words) -> int:
        """Which word the middle token of the sequence begins in."""
        ids = self.tokenizer.encode(words, threads=1)
        return int(self.tokenizer.words_ended[ids[: ENCODER_WARMUP + self.length // 2]].sum())


def shuffled_in_blocks(words: Words, random: np.random.Generator) -> Words:
    """Words that change places within blocks of eight."""
    return words[np.argsort(np.arange(len(words)) // BLOCK + random.random(len(words)))]


def token_frequencies(tokenizer: Tokenizer, ranges: Sequence[Range], seed: int) -> Values:
    """The share of every token in random windows of the ranges, 2^18 tokens in all."""
    number, tokens = _COUNTED
    windows = TokenWindows(tokenizer, ranges, tokens)
    counts = np.zeros(tokenizer.size, np.int64)
    for k in range(number):
        ids = windows.draw(generator(seed, TEST, 0, k))
        counts += np.bincount(ids, minlength=tokenizer.size)
    shares: Values = counts / counts.sum()
    return shares


def per_token(model: LanguageModel, ids: list[LongIds], advance: Advance = no_progress) -> Values:
    """The log-likelihood of each sequence, its first token given, by the tokens after that."""
    values: Values = score(model, torch.from_numpy(np.stack(ids)), advance).logs.mean(1)
    return values


# Figures


def mean(values: Values) -> Estimate:
    """The mean; none if something was held to be impossible."""
    return ratio(values)


def auc(true: Values, other: Values) -> Estimate:
    """P(true > other) + ½ P(true = other): the area under the ROC curve.

    The interval is method 5 of Newcombe (2006), a score interval, which has a width also where the
    two are wholly apart: of m and n values, and with N = (m + n)/2, it ends at those θ that are

        z √(θ(1 − θ) (1 + (N − 1) ((1 − θ)/(2 − θ) + θ/(1 + θ))) / (mn))

    away from the estimate. It takes all values for independent of each other; where those of one
    place are alike, as pairs often are, it is wider than it need be.
    """
    m, n = len(true), len(other)
    if not m or not n:
        return UNKNOWN
    _, kinds, counts = np.unique(
        np.concatenate([true, other]), return_inverse=True, return_counts=True
    )
    ranks = np.cumsum(counts) - (counts - 1) / 2  # of equal values, that in their middle
    area = (float(ranks[kinds[:m]].sum()) - m * (m + 1) / 2) / (m * n)
    return Estimate(area, _lower_end(area, m, n), 1 - _lower_end(1 - area, m, n))


def _lower_end(area: float, m: int, n: int) -> float:
    """Where Newcombe's interval begins; by symmetry, it ends where that of 1 - area begins."""
    low, high = 0.0, area
    for _ in range(_HALVINGS):
        theta = (low + high) / 2
        spread = (1 - theta) / (2 - theta) + theta / (1 + theta)
        variance = theta * (1 - theta) * (1 + ((m + n) / 2 - 1) * spread) / (m * n)
        if area - theta > Z * sqrt(variance):
            low = theta
        else:
            high = theta
    return low


def paired(true: Values, other: Values) -> Estimate:
    """The share of pairs whose true one is likelier; two that are equal count one half."""
    return share((true > other) + 0.5 * (true == other))
