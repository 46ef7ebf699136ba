"""The residue oracle as a language model; `search.residues` explains what it knows."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ..counting.histograms import ranks_of
from ..errors import InputError
from ..search.residues import RestCounts, estimate, smooth_parts
from ..text.sieve import Words, check_range
from ..tokens import WordTokens
from ..tokens.spelling import letters
from .language import LanguageModel, Prompts
from .spelled import Probabilities, WordReading

SPAN = 1 << 20  # integers that the oracle predicts; the paper's far windows have 10^6
SAMPLE = 1 << 22  # integers after the span, from which the probabilities are estimated


class Oracle(LanguageModel):
    """Knows the residues of at ≤ n < at + SPAN modulo all powers of the primes up to a bound."""

    at: int
    can_score = False  # it needs the integers of a sequence

    def __init__(self, rests: RestCounts, at: int, tokens: WordTokens) -> None:
        self.rests, self.at, self.tokens = rests, at, tokens
        self.vocabulary = tokens.size
        self.ranks = ranks_of(tokens.words)
        # Cached: many integers have the same beginning and the same cofactor bin.
        self._rests_of = lru_cache(1 << 10)(self._find_rests)
        self.by_rank = lru_cache(1 << 14)(self._find_by_rank)

    @classmethod
    def estimate(cls, bound: int, at: int, *, tokens: WordTokens, count: int = SAMPLE) -> "Oracle":
        """Estimate the oracle from integers of the same size that it never predicts."""
        if bound < 1:
            raise InputError(f"oracle-B needs a bound B of 1 or more, not {bound}")
        lo, hi = at + SPAN, at + SPAN + count
        if count < 1 or hi - at > at // 8:
            raise InputError(
                f"an oracle needs n of {8 * (SPAN + max(1, count))} or more, not {at}: it is"
                f" estimated from the {SPAN + max(1, count)} integers after n, which must be of"
                " about the same size"
            )
        check_range(lo, hi)
        [rests] = estimate(lo, hi, [bound])
        return cls(rests, at, tokens)

    def word_distribution(self, n: int) -> tuple[Words, Probabilities]:
        """The words that n can have given its residues, and their probabilities."""
        [evidence] = self.evidence(np.array([n], np.uint64))
        return self.distribution(*evidence)

    def evidence(self, integers: NDArray[np.uint64]) -> list[tuple[int, int]]:
        """The beginning of the word of each integer, and the bin of its cofactor."""
        for n in integers.min(), integers.max():
            if not self.at <= n < self.at + SPAN:
                raise InputError(f"the oracle predicts {self.at} ≤ n < {self.at + SPAN}, not {n}")
        parts, beginnings = smooth_parts(integers, self.rests.bound)
        bins = self.rests.grid.bins(integers, parts)
        return list(zip(beginnings.tolist(), bins.tolist(), strict=True))

    def distribution(self, beginning: int, cofactor_bin: int) -> tuple[Words, Probabilities]:
        """The words with this beginning and this bin of the cofactor, and their probabilities."""
        rests, probabilities = self._rests_of(cofactor_bin)
        return np.uint64(beginning) << 2 * np.bitwise_count(rests) | rests, probabilities

    def _find_rests(self, cofactor_bin: int) -> tuple[Words, Probabilities]:
        if cofactor_bin == 1:  # this bin holds the cofactor 1 alone
            return np.zeros(1, np.uint64), np.ones(1)
        # No rest is the word of an integer larger than the cofactor.
        dictionary, end = self.rests.dictionary, self.rests.grid.end(cofactor_bin)
        ranks = np.arange(1, 1 + np.searchsorted(dictionary.least, end), dtype=np.uint64)
        probabilities = self.rests.probabilities(np.full_like(ranks, cofactor_bin), ranks)
        return dictionary.words[: len(ranks)], probabilities / probabilities.sum()

    def _find_by_rank(self, beginning: int, cofactor_bin: int) -> Probabilities:
        """Probabilities of all words without a token together, then of each word with one."""
        words, probabilities = self.distribution(beginning, cofactor_bin)
        sums = np.bincount(self.ranks[words], probabilities, minlength=1 + len(self.tokens.words))
        return sums.astype(np.float64)

    def read(self, prompts: Prompts, *, stride: int = 1) -> WordReading:
        """Read the integers of the prompts; of their ids, only an incomplete word at the end."""
        if prompts.integers is None:
            raise InputError("the oracle needs the integers of the prompts")
        reading = WordReading(self.tokens, _NextIntegers(self, prompts.integers.astype(np.uint64)))
        for i, row in enumerate(prompts.ids.cpu().numpy()):
            reading.spell(i, letters(self.tokens.decode(row, inside=True).tail).tolist())
        return reading

    @property
    def description(self) -> str:
        return f"oracle, knows n modulo all powers of the primes up to {self.rests.bound}"


class _NextIntegers:
    """The integer whose word comes next in each prompt."""

    def __init__(self, oracle: Oracle, integers: NDArray[np.uint64]) -> None:
        self.oracle, self.integers = oracle, integers

    def probabilities(self) -> Probabilities:
        oracle = self.oracle
        return np.stack([oracle.by_rank(*pair) for pair in oracle.evidence(self.integers)])

    def others(self, prompt: int) -> tuple[Words, Probabilities]:
        words, probabilities = self.oracle.word_distribution(int(self.integers[prompt]))
        others = self.oracle.ranks[words] == 0
        return words[others], probabilities[others]

    def advance(self, prompts: NDArray[np.int64], words: Words) -> None:
        self.integers[prompts] += np.uint64(1)
