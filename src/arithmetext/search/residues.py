"""The residue oracle: how much of the text the residues modulo small primes decide.

The oracle knows n modulo every power of every prime p ≤ B, and the scale of n, and nothing else. So
it knows the B-smooth part S of n, which is the beginning of the word, and the size of the cofactor
c = n / S. What it does not know is the *rest*, the children of the primes above B. Given c the rest
does not depend on S, so one distribution of rests for each size of c is all there is to estimate.

Sizes are binned on a grid of log c that has the powers of B among its edges: no integer below B^k
without primes ≤ B has k primes, so below B² the rest is surely `10`. The rest is empty exactly when
c = 1. With B = 1 the smooth part is 1, the rest is the word, and its distribution the unigram.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from math import ceil, exp, inf, isqrt, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..counting.dictionary import first_occurrences
from ..counting.histograms import Counts, Table, ranks_of
from ..errors import InputError
from ..integers import format_integer
from ..text.kernels import CHILD_LENGTHS, CHILDREN
from ..text.ranges import over_ranges, spans
from ..text.sieve import Words, base_primes, check_range, passing_words, segment_size

COUNT = 1 << 24  # integers scored: a standard error of 1.2e-4 in accuracy at the most
LEAST_AT = 10**6
LARGEST_BOUND = 10**7

_BINS = 16  # at least so many in a nat of log c
# A bin is trusted as if its back-off, the bins between two powers of B, had been seen so often in
# it. Anything from 2 to 256 gives the same nats to 1e-3.
_TRUST = 64

# The two halves of the integers take turns after so many of them, which also fit the cache.
_STRETCH = 1 << 13

_U = np.uint64


@dataclass(frozen=True)
class Score:
    """How good the oracle of a bound is, with standard errors."""

    bound: int
    accuracy: float
    accuracy_error: float
    nats: float
    nats_error: float


@dataclass(frozen=True)
class Horizon:
    """The least bound whose oracle is as good as asked, and the one before it, if there is one."""

    reached: Score
    before: Score | None


def horizon(
    at: int, *, accuracy: float | None = None, nats: float | None = None, count: int = COUNT
) -> Horizon:
    """The least prime B, or 1, whose oracle has this accuracy or no more than these nats a word.

    It is searched for on a few of the integers first, then from there on all of them. All bounds
    are scored on the same integers, so that chance moves them up or down together.
    """
    if (accuracy is None) == (nats is None):
        raise InputError("ask for an accuracy or for nats a word: one of the two")
    if accuracy is not None and not 0 < accuracy <= 1:
        raise InputError(f"an accuracy is above 0 and at most 1, not {accuracy:g}")
    if nats is not None and not 0 < nats < inf:
        raise InputError(f"nats a word are a number above 0, not {nats:g}")
    # Above the square root of n the cofactor is 1 or a prime, and nothing is left to know.
    limit = min(isqrt(_end(at, count)) + 1, LARGEST_BOUND)
    bounds = [1, *kept_primes(limit).tolist()]

    def good(score: Score) -> bool:
        if nats is not None:
            return score.nats <= nats
        return accuracy is not None and score.accuracy >= accuracy

    def search(start: int, count: int) -> tuple[int, Callable[[int], Score]]:
        score = cache(lambda i: curve(at, [bounds[i]], count=count)[0])
        return _least(lambda i: good(score(i)), start, len(bounds)), score

    nearby, _ = search(0, max(2, count >> 4))
    found, score = search(min(nearby, len(bounds) - 1), count)
    if found == len(bounds):
        best = score(found - 1)
        raise InputError(
            f"more than the primes up to {limit} tell at {format_integer(at)}: they give an"
            " accuracy of"
            f" {best.accuracy:.4f} and {best.nats:.4g} nats a word"
        )
    return Horizon(score(found), score(found - 1) if found else None)


def _least(good: Callable[[int], bool], start: int, end: int) -> int:
    """The least i < end that is good, as all after it are; or else end. Fast if start is near."""
    if good(start):
        bad, least, step = start - 1, start, 1
        while bad >= 0 and good(bad):
            step *= 2
            bad, least = max(-1, bad - step), bad
    else:
        bad, least, step = start, start + 1, 1
        while least < end and not good(least):
            step *= 2
            bad, least = least, min(end, least + step)
    while least - bad > 1:
        middle = (bad + least) // 2
        bad, least = (bad, middle) if good(middle) else (middle, least)
    return least


def curve(at: int, bounds: Sequence[int], *, count: int = COUNT) -> list[Score]:
    """The scores of the oracles of increasing bounds at the scale of `at`.

    Every integer of [at, at + count), or of [at, 2 at) if that is less, is scored by an oracle
    estimated on the other half of them.
    """
    return [_score(*halves) for halves in count_rests(at, _end(at, count), bounds)]


def _end(at: int, count: int) -> int:
    if at < LEAST_AT:
        raise InputError(f"the oracle needs a scale of {LEAST_AT} or larger, not {at}")
    if count < 2:
        raise InputError(f"{count} integers are too few to estimate on some and score on others")
    end = at + min(count, at)
    check_range(at, end)
    return end


def _score(first: "Rests", second: "Rests") -> Score:
    """Each half scored by what the other half tells."""
    nats, right, counts = (
        np.concatenate(parts)
        for parts in zip(_tried(first, second), _tried(second, first), strict=True)
    )
    accuracy, mean = np.average(right, weights=counts), np.average(nats, weights=counts)
    variance = np.average((nats - mean) ** 2, weights=counts)
    number = counts.sum()
    return Score(
        first.bound,
        accuracy=float(accuracy),
        accuracy_error=float(np.sqrt(accuracy * (1 - accuracy) / number)),
        nats=float(mean),
        nats_error=float(np.sqrt(variance / number)),
    )


def _tried(on: "Rests", by: "Rests") -> tuple[NDArray[np.float64], NDArray[np.bool_], Counts]:
    """Of every key of one half, in the eyes of the other: its nats, whether it is the guess."""
    bins, ranks = on.bins_and_ranks
    return -np.log(by.probabilities(bins, ranks)), by.commonest(bins) == ranks, on.counts


def count_rests(lo: int, hi: int, bounds: Sequence[int]) -> list[tuple["Rests", "Rests"]]:
    """For every bound the rests of lo ≤ n < hi, of each half apart: every other stretch."""
    if not bounds or min(bounds) < 1 or list(bounds) != sorted(set(bounds)):
        raise InputError(f"bounds increase from 1 or more on, not {list(bounds)}")
    if max(bounds) > LARGEST_BOUND:
        raise InputError(f"{max(bounds)} is too large a bound: at most {LARGEST_BOUND}")
    halves = [(Table(hi - lo), Table(hi - lo)) for _ in bounds]
    job = partial(_count_piece, bounds, dictionary(hi))
    for piece in over_ranges(job, lo, hi, size=segment_size(hi), title="residues"):
        for tables, found in zip(halves, piece, strict=True):
            for table, (keys, counts) in zip(tables, found, strict=True):
                table.add(keys, counts)
    return [
        (Rests(bound, hi, *first.items()), Rests(bound, hi, *second.items()))
        for bound, (first, second) in zip(bounds, halves, strict=True)
    ]


def _count_piece(
    bounds: Sequence[int], known: "Dictionary", lo: int, hi: int
) -> list[tuple[tuple[Words, Counts], tuple[Words, Counts]]]:
    """For every bound the keys of a piece and their counts, of each half of the text apart."""
    words = passing_words(lo, hi)
    parts, lengths = np.ones(hi - lo, np.uint64), np.zeros(hi - lo, np.uint8)
    primes = kept_primes(bounds[-1])
    entered = 0
    counted = []
    for bound in bounds:
        here = int(np.searchsorted(primes, np.uint32(bound), side="right"))
        _enter(lo, primes[entered:here], CHILD_LENGTHS, parts, lengths)
        entered = here
        halves = Table(hi - lo), Table(hi - lo)
        grid = Grid(bound)
        for a, b in spans(lo, hi, _STRETCH):
            at = slice(a - lo, b - lo)
            bins, rests = np.empty(b - a, np.uint64), np.empty(b - a, np.uint64)
            _split(a, words[at], parts[at], lengths[at], grid.per_nat, bins, rests)
            halves[a // _STRETCH % 2].add(
                bins * known.stride + known.ranks[rests].astype(np.uint64)
            )
        counted.append((halves[0].items(), halves[1].items()))
    return counted


class Rests:
    """How often each rest came with each bin of the cofactor, at one bound.

    A key is a bin and the rank of a rest in the dictionary, in one number; 0 is the empty rest.
    """

    def __init__(self, bound: int, end: int, keys: Words, counts: Counts) -> None:
        """`end`: neither the integers counted nor those asked about reach it."""
        self.bound, self.grid, self.dictionary = bound, Grid(bound), dictionary(end)
        self.keys, self.counts = keys, counts
        bins, ranks = self.bins_and_ranks
        self._narrow = _Seen(self.dictionary.stride, bins, ranks, counts)
        self._wide = _Seen(self.dictionary.stride, self.grid.intervals(bins), ranks, counts)

    @property
    def bins_and_ranks(self) -> tuple[Words, Words]:
        """What the keys are made of."""
        bins, ranks = np.divmod(self.keys, self.dictionary.stride)
        return bins, ranks

    def probabilities(self, bins: Words, ranks: Words) -> NDArray[np.float64]:
        """Of the rests of these ranks, given the bins.

        What was seen in the bin is interpolated with what was seen between the same two powers of
        the bound, and with one observation that could have been any word of the dictionary. So
        every word has a probability, and together they have 1.
        """
        intervals = self.grid.intervals(bins)
        prior = self.dictionary.prior[ranks]
        seen, total = self._wide(intervals, ranks)
        around = np.where(total > 0, seen / np.maximum(total, 1), prior)
        seen, total = self._narrow(bins, ranks)
        found = (seen + _TRUST * around + prior) / (total + _TRUST + 1)
        # Up to the square of the bound there is no choice: c is 1, or else a prime.
        known: NDArray[np.float64] = np.where(intervals <= 2, ranks == intervals - _U(1), found)
        return known

    def commonest(self, bins: Words) -> Counts:
        """The rank of the commonest rest of each bin; of one never seen, of what is around it."""
        narrow, wide = self._narrow.commonest(bins), self._wide.commonest(self.grid.intervals(bins))
        return np.where(narrow >= 0, narrow, np.where(wide >= 0, wide, 1))


class _Seen:
    """How often each rank was seen in each of some groups."""

    def __init__(self, stride: np.uint64, groups: Words, ranks: Words, counts: Counts) -> None:
        self._stride = stride
        self._both, self._totals, self._best = (Table(len(counts)) for _ in range(3))
        self._both.add(groups * stride + ranks, counts)
        self._totals.add(groups, counts)
        keys, sums = self._both.items()
        groups, ranks = np.divmod(keys, stride)
        order = np.lexsort((ranks, -sums, groups))
        groups, first = np.unique(groups[order], return_index=True)
        self._best.add(groups, ranks[order][first].astype(np.int64) + 1)

    def __call__(self, groups: Words, ranks: Words) -> tuple[Counts, Counts]:
        """The counts of the ranks in the groups, and those of the groups."""
        return self._both[groups * self._stride + ranks], self._totals[groups]

    def commonest(self, groups: Words) -> Counts:
        """The rank seen most often in each group, or -1."""
        return self._best[groups] - 1


class Grid:
    """Bins of log c, numbered from 1, with every power of the bound among their edges."""

    def __init__(self, bound: int) -> None:
        unit = log(bound) if bound > 1 else 1.0
        self._in_interval = _U(ceil(_BINS * unit))
        self.per_nat = float(self._in_interval) / unit

    def bins(self, integers: NDArray[np.uint64], parts: Words) -> Words:
        """The bins of the cofactors that smooth parts leave."""
        return (np.log(integers / parts) * self.per_nat).astype(np.uint64) + _U(1)

    def end(self, number: int) -> float:
        """Where a bin ends: a cofactor that is larger than all in it."""
        return exp(number / self.per_nat)

    def intervals(self, bins: Words) -> Words:
        """Between which powers of the bound bins lie, numbered from 1."""
        return (bins - _U(1)) // self._in_interval + _U(1)


class Dictionary:
    """The words of the integers below some end, in the order of their least integers."""

    def __init__(self, end: int) -> None:
        self.least = np.array(first_occurrences(end - 1), np.uint64)
        _, self.words = smooth_parts(self.least, 64)  # below 2^63 their primes are smaller
        self.ranks = ranks_of(self.words)  # from 1; the empty word is not there and has 0
        self.stride = _U(len(self.words) + 1)
        # How likely a word is, by rank, if nothing is known but its least integer: of the powers
        # of that tried, the root makes the words that one half of the text has alone cheapest.
        roots = np.concatenate([[0], self.least**-0.5])
        self.prior = roots / roots.sum()


dictionary = lru_cache(8)(Dictionary)


def kept_primes(bound: int) -> NDArray[np.uint32]:
    """The primes up to the bound, of those that are made once and kept."""
    primes = base_primes(bound)
    # Of the same type, or all primes would be converted, which can be very many.
    return primes[: np.searchsorted(primes, np.uint32(bound), side="right")]


def smooth_parts(integers: NDArray[np.uint64], bound: int) -> tuple[Words, Words]:
    """The largest divisors without primes above the bound, and their words (0 for 1)."""
    parts, words = np.empty(len(integers), np.uint64), np.empty(len(integers), np.uint64)
    _divide(integers, kept_primes(bound), CHILDREN, CHILD_LENGTHS, parts, words)
    return parts, words


@kernel
def _divide(
    integers: Any, primes: Any, children: Any, lengths: Any, parts: Any, words: Any
) -> None:
    """Smooth parts by trial division."""
    for i in range(len(integers)):
        c, word = integers[i], _U(0)
        for prime in primes:
            p = _U(prime)
            if p * p > c:  # what is left is 1 or a prime
                if _U(1) < c <= _U(primes[-1]):
                    word = word << _U(2) | _U(2)
                    c = _U(1)
                break
            e = 0
            while c % p == 0:
                c //= p
                e += 1
            word = word << lengths[e] | children[e]
        parts[i], words[i] = integers[i] // c, word


@kernel
def _enter(lo: Any, primes: Any, lengths_of: Any, parts: Any, lengths: Any) -> None:
    """Multiply primes into the smooth parts of lo, lo + 1, …, and note how long their words get.

    With every power p^e the child of p becomes that of e instead of that of e - 1.
    """
    first, m = _U(lo), _U(len(parts))
    last = first + m - _U(1)
    for prime in primes:
        p = q = _U(prime)
        e = 1
        while q <= last:
            longer = np.uint8(lengths_of[e] - lengths_of[e - 1])
            i = (q - first % q) % q
            while i < m:
                parts[i] *= p
                lengths[i] += longer
                i += q
            if q > last // p:
                break
            q *= p
            e += 1


@kernel
def _split(
    lo: Any, words: Any, parts: Any, lengths: Any, per_nat: Any, bins: Any, rests: Any
) -> None:
    """The bins of the cofactors, and the ends of the words that the smooth parts leave."""
    for i in range(len(words)):
        bins[i] = _U(np.log((lo + i) / parts[i]) * per_nat) + _U(1)
        length = _U(2) * _ones(words[i]) - lengths[i]
        rests[i] = words[i] & ((_U(1) << length) - _U(1))


@kernel
def _ones(x: Any) -> Any:
    """How many of 64 bits are 1."""
    x -= x >> _U(1) & _U(0x5555555555555555)
    x = (x & _U(0x3333333333333333)) + (x >> _U(2) & _U(0x3333333333333333))
    x = x + (x >> _U(4)) & _U(0x0F0F0F0F0F0F0F0F)
    return x * _U(0x0101010101010101) >> _U(56)
