"""The posterior over n modulo a small number, given the word of n and some words before it.

A Bayesian reader knows the scale of n and how words depend on n mod M, and reads the words of
n, n + 1, … one by one. Its hidden state r = n mod M moves to r + 1 with each word. The probability
of a word given r is that of the residue oracle (`search.residues`): r fixes the exponents of the
primes of M, except where r is divisible by the full power in M. There, all higher exponents are
summed over. The reader takes the words to be independent given r, so

    log P(r | w₁ … w_k) = Σᵢ log P(wᵢ | r + i) + constant.

They are not quite independent, since a prime beyond M that divides n does not divide n + 1. With
M = 12 and up to three words near 10^6, the posterior is 2 % from the shares of all integers with
the same words (total variation), half of which is chance. With 11 M instead of M = 5040, beliefs
change by at most 1 % of their variance.
"""

from collections.abc import Sequence
from math import lcm

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..search.residues import RestCounts, estimate, primes_up_to, smooth_parts
from ..text.sieve import Words
from ..text.splits import Range

_BATCH = 32  # windows read together
_LARGEST_PART = 10**9  # smooth parts above this have a probability below 1e-8 in all
_IMPOSSIBLE = -80.0  # log-probability of a word that contradicts its residue

Floats = NDArray[np.float64]


class Reader:
    """The Bayesian reader of words near one integer, who knows n modulo `modulus` from words only.

    The modulus must contain every prime up to its largest: then the rest of a word is the word of
    an integer without these primes.
    """

    def __init__(self, modulus: int, at: int, rests: RestCounts) -> None:
        self.modulus, self.at, self._rests = modulus, at, rests
        self._divisors = np.array([d for d in range(1, modulus + 1) if modulus % d == 0])

    @classmethod
    def estimate(cls, modulus: int, at: int, counted: Range) -> "Reader":
        """For integers of the size of `at`, from the words of the `counted` integers."""
        primes = [p for p in primes_up_to(modulus).tolist() if modulus % p == 0]
        bound = max(primes, default=1)
        if primes != primes_up_to(bound).tolist():
            raise InputError(f"the modulus {modulus} must contain every prime up to its largest")
        lo, hi = counted
        [rests] = estimate(lo, hi, [bound], below=max(hi, at + 1))
        return cls(modulus, at, rests)

    def probabilities(self, words: Words) -> Floats:
        """The probability of each word given gcd(n, modulus), [words, divisors of the modulus]."""
        parts = _smooth_numbers(self._rests.bound, min(self.at, _LARGEST_PART))
        classes = np.searchsorted(self._divisors, np.gcd(parts.astype(np.int64), self.modulus))
        weights: Floats = 1 / parts  # n has the smooth part S with probability ∏ (1 − 1/p) / S
        weights /= np.bincount(classes, weights)[classes]
        _, beginnings = smooth_parts(parts, self._rests.bound)
        bins = self._rests.grid.bins(np.full(len(parts), self.at, np.uint64), parts)
        # The pairs of a word and a smooth part whose word begins it: [words, parts]
        longer = np.bitwise_count(words)[:, None].astype(np.int64) - np.bitwise_count(beginnings)
        digits = np.maximum(2 * longer, 0).astype(np.uint64)
        word, part = np.nonzero((longer >= 0) & (words[:, None] >> digits == beginnings))
        rests = words[word] & ((np.uint64(1) << digits[word, part]) - np.uint64(1))
        ranks = self._rests.dictionary.ranks[rests].astype(np.uint64)
        likely = weights[part] * self._rests.probabilities(bins[part], ranks)
        cells = word * len(self._divisors) + classes[part]
        size = len(words) * len(self._divisors)
        found = np.bincount(cells, likely, minlength=size).astype(np.float64)
        return found.reshape(len(words), -1)

    def marginals(self, words: Words, moduli: Sequence[int]) -> dict[int, Tensor]:
        """For each m, the posterior over n mod m, [windows, words, m].

        words: [windows, words]. At word k, n is the integer of this word, and the words up to k are
        known. Every m divides the modulus.
        """
        kinds, codes = np.unique(words, return_inverse=True)
        residues = np.arange(self.modulus)
        classes = np.searchsorted(self._divisors, np.gcd(residues, self.modulus))
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(self.probabilities(kinds)), _IMPOSSIBLE)[:, classes]
        # Twice in a row, so that the residues r + k are a slice: [kinds, 2 · modulus]
        table = torch.from_numpy(np.tile(logs, 2)).float()
        needed = lcm(*moduli)
        membership = torch.cat([torch.eye(m).repeat(needed // m, 1) for m in moduli], 1)
        windows, length = words.shape
        rows = torch.from_numpy(codes.reshape(words.shape))
        found = torch.empty(windows, length, membership.shape[1])
        for first in range(0, windows, _BATCH):  # few enough that a batch fits the cache
            batch = rows[first : first + _BATCH]
            score = torch.zeros(len(batch), self.modulus)  # by the residue of the first integer
            for k in range(length):
                shift = k % self.modulus
                score += table[:, shift : shift + self.modulus].index_select(0, batch[:, k])
                score -= score.amax(1, keepdim=True)
                score.clamp_(min=_IMPOSSIBLE)  # the exponential is slow where it underflows
                weights = score.exp().reshape(len(batch), -1, needed).sum(1)
                found[first : first + _BATCH, k] = weights @ membership
        result = {}
        for m, part in zip(moduli, torch.split(found, list(moduli), 2), strict=True):
            # From the residues of the first integer to those of the integer of word k.
            residues_of_first = (torch.arange(m) - torch.arange(length)[:, None]) % m
            shifted = part.gather(2, residues_of_first.expand(windows, -1, -1))
            result[m] = shifted / shifted.sum(2, keepdim=True)
        return result


def _smooth_numbers(bound: int, limit: int) -> Words:
    """The integers up to `limit` without primes above the bound."""
    found = [1]
    for p in primes_up_to(bound).tolist():
        for part in found:  # which grows meanwhile
            if part * p <= limit:
                found.append(part * p)
    return np.array(found, np.uint64)
