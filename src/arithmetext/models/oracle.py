"""The residue oracle as a language model; `search.residues` says what it knows."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..counting.histograms import ranks_of
from ..errors import InputError
from ..search.residues import Rests, count_rests, smooth_parts
from ..text.sieve import Words, check_range
from ..tokens import WordTokens
from ..tokens.spelling import letters
from .language import LanguageModel, Prompts
from .spelled import Probabilities, WordReading

ROOM = 1 << 20  # integers to answer for: the paper's far windows are of 10^6
COUNT = 1 << 22  # integers after them to estimate from


class Oracle(LanguageModel):
    """Knows the residues of at ≤ n < at + ROOM modulo all powers of the primes up to a bound."""

    at: int
    can_score = False  # it must be told where a sequence stands

    def __init__(self, rests: Rests, at: int, tokens: WordTokens) -> None:
        self.rests, self.at, self.tokens = rests, at, tokens
        self.vocabulary = tokens.size
        self.ranks = ranks_of(tokens.words)
        # What is known of different integers is often the same.
        self._rests_of = lru_cache(1 << 10)(self._find_rests)
        self.by_rank = lru_cache(1 << 14)(self._find_by_rank)

    @classmethod
    def estimate(cls, bound: int, at: int, *, tokens: WordTokens, count: int = COUNT) -> "Oracle":
        """Estimate it from integers of the same scale, but none of those that it answers for."""
        lo, hi = at + ROOM, at + ROOM + count
        if count < 1 or hi - at > at // 8:
            raise InputError(
                f"{count} integers do not tell of the scale of {at}: take 1 or more, and fewer"
                f" than an eighth of it together with the {ROOM} before them"
            )
        check_range(lo, hi)
        [(first, second)] = count_rests(lo, hi, [bound])
        keys = np.concatenate([first.keys, second.keys])
        counts = np.concatenate([first.counts, second.counts])
        return cls(Rests(bound, hi, keys, counts), at, tokens)

    def word_distribution(self, n: int) -> tuple[Words, Probabilities]:
        """The words that n may have as far as its residues tell, and their probabilities."""
        [known] = self.known(np.array([n], np.uint64))
        return self.distribution(*known)

    def known(self, integers: NDArray[np.uint64]) -> list[tuple[int, int]]:
        """All that it knows of integers: how the word begins, and the bin of the cofactor."""
        for n in integers.min(), integers.max():
            if not self.at <= n < self.at + ROOM:
                raise InputError(f"it answers for {self.at} ≤ n < {self.at + ROOM}, not {n}")
        parts, beginnings = smooth_parts(integers, self.rests.bound)
        bins = self.rests.grid.bins(integers, parts)
        return list(zip(beginnings.tolist(), bins.tolist(), strict=True))

    def distribution(self, beginning: int, cofactor: int) -> tuple[Words, Probabilities]:
        """The words that begin so, for a bin of the cofactor, and their probabilities."""
        rests, probabilities = self._rests_of(cofactor)
        return np.uint64(beginning) << 2 * np.bitwise_count(rests) | rests, probabilities

    def _find_rests(self, cofactor: int) -> tuple[Words, Probabilities]:
        if cofactor == 1:  # the bin of 1 alone
            return np.zeros(1, np.uint64), np.ones(1)
        # No rest is the word of an integer larger than the cofactor.
        known, end = self.rests.dictionary, self.rests.grid.end(cofactor)
        ranks = np.arange(1, 1 + np.searchsorted(known.least, end), dtype=np.uint64)
        probabilities = self.rests.probabilities(np.full_like(ranks, cofactor), ranks)
        return known.words[: len(ranks)], probabilities / probabilities.sum()

    def _find_by_rank(self, beginning: int, cofactor: int) -> Probabilities:
        """Of all words without a token together, then of each with one."""
        words, probabilities = self.distribution(beginning, cofactor)
        sums = np.bincount(self.ranks[words], probabilities, minlength=1 + len(self.tokens.words))
        return sums.astype(np.float64)

    def read(self, prompts: Prompts, *, stride: int = 1) -> WordReading:
        """Take the integers of the prompts, and the letters of a word that a prompt ends inside."""
        if prompts.integers is None:
            raise InputError("the oracle needs the integers at which prompts stand")
        reading = WordReading(self.tokens, _Places(self, prompts.integers.astype(np.uint64)))
        for i, row in enumerate(prompts.ids.cpu().numpy()):
            reading.spell(i, letters(self.tokens.decode(row, inside=True).tail).tolist())
        return reading

    @property
    def description(self) -> str:
        return f"oracle, told n modulo the primes up to {self.rests.bound}"


class _Places:
    """The integers that come next."""

    def __init__(self, oracle: Oracle, integers: NDArray[np.uint64]) -> None:
        self.oracle, self.integers = oracle, integers

    def probabilities(self) -> Probabilities:
        oracle = self.oracle
        return np.stack([oracle.by_rank(*known) for known in oracle.known(self.integers)])

    def others(self, prompt: int) -> tuple[Words, Probabilities]:
        words, probabilities = self.oracle.word_distribution(int(self.integers[prompt]))
        others = self.oracle.ranks[words] == 0
        return words[others], probabilities[others]

    def advance(self, prompts: NDArray[np.int64], words: Words) -> None:
        self.integers[prompts] += np.uint64(1)
