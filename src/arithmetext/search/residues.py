"""The residue oracle: how much of the text the residues modulo small primes decide.

The oracle knows the scale of n and n modulo every power of every prime p ≤ B, and nothing else. So
it knows the B-smooth part S of n, which gives the beginning of the word, and the size of the
cofactor c = n / S. It does not know the *rest* of the word, the children of the primes above B.
Given c, the rest does not depend on S. So the oracle is one distribution of rests for each size of
c, estimated by counting.

Sizes are binned on a grid of log c with every power of B among its edges. An integer below B^k
without primes ≤ B has fewer than k primes, so for 1 < c < B² the rest is certainly `10`. The rest
is empty exactly when c = 1. With B = 1 the smooth part is 1, the rest is the whole word, and its
distribution is the unigram distribution.

An oracle may be used far from the integers that it was estimated on (`transfer`). A bin that it has
not counted then has the distribution of the nearest bin that it has counted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from math import ceil, exp, inf, isqrt, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..counting.dictionary import first_occurrences
from ..counting.histograms import Counts, HashTable, ranks_of
from ..errors import InputError
from ..integers import format_integer
from ..text.kernels import CHILD_LENGTHS, CHILDREN
from ..text.ranges import over_ranges, spans
from ..text.sieve import Words, base_primes, check_range, segment_size, words_in_buffer

INTEGERS_SCORED = 1 << 24  # for a standard error of at most 1.2e-4 in accuracy
LEAST_SCALE = 10**6
LARGEST_BOUND = 10**7

_BINS_PER_NAT = 16  # at least, on the grid of log c
# The counts of a bin are mixed with this many pseudo-counts, distributed as in all bins between the
# same two powers of B. Anything from 2 to 256 gives the same nats to 1e-3.
_PSEUDO_COUNTS = 64

# Blocks of this many consecutive integers go to the two halves in turn. A block fits the cache.
_BLOCK = 1 << 13

_U = np.uint64


@dataclass(frozen=True)
class OracleScore:
    """How well the oracle of one bound predicts words, with standard errors."""

    bound: int
    accuracy: float
    accuracy_error: float
    nats: float
    nats_error: float


@dataclass(frozen=True)
class TransferScores:
    """The oracle of one bound at one scale, estimated there or at another scale."""

    re_estimated: OracleScore
    frozen: OracleScore  # estimated elsewhere; knows the size of n
    size_unknown: OracleScore  # estimated elsewhere; takes n to have the size of integers there


@dataclass(frozen=True)
class Horizon:
    """The score of the least bound that reaches the target, and of the bound before it, if any."""

    reached: OracleScore
    before: OracleScore | None


def find_horizon(
    at: int,
    *,
    accuracy: float | None = None,
    nats: float | None = None,
    count: int = INTEGERS_SCORED,
) -> Horizon:
    """Find the least B, 1 or a prime, whose oracle reaches this accuracy or these nats a word.

    A first search uses a sixteenth of the integers. A second search starts from its result and uses
    all integers. All bounds are scored on the same integers, so that they share random errors.
    """
    if (accuracy is None) == (nats is None):
        raise InputError("give either an accuracy or nats a word: one of the two")
    if accuracy is not None and not 0 < accuracy <= 1:
        raise InputError(f"the accuracy must be above 0 and at most 1, not {accuracy:g}")
    if nats is not None and not 0 < nats < inf:
        raise InputError(f"the nats a word must be a finite number above 0, not {nats:g}")
    # With B ≥ √n the cofactor is 1 or a prime, and the oracle knows every word.
    limit = min(isqrt(_end(at, count)) + 1, LARGEST_BOUND)
    bounds = [1, *primes_up_to(limit).tolist()]

    def good(score: OracleScore) -> bool:
        if nats is not None:
            return score.nats <= nats
        return accuracy is not None and score.accuracy >= accuracy

    def least_good(start: int, count: int) -> tuple[int, Callable[[int], OracleScore]]:
        score = cache(lambda i: curve(at, [bounds[i]], count=count)[0])
        return _least(lambda i: good(score(i)), start, len(bounds)), score

    nearby, _ = least_good(0, max(2, count >> 4))
    index, score = least_good(min(nearby, len(bounds) - 1), count)
    if index == len(bounds):
        best = score(index - 1)
        raise InputError(
            f"the primes up to {limit} are not enough at {format_integer(at)}: with them the"
            f" accuracy is {best.accuracy:.4f}, at {best.nats:.4g} nats a word"
        )
    return Horizon(score(index), score(index - 1) if index else None)


def _least(good: Callable[[int], bool], start: int, end: int) -> int:
    """The least i < end that is good, or end if there is none; all i after a good one are good.

    Steps from `start` double, then bisection: few calls of `good` if the result is close to
    `start`.
    """
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


def curve(at: int, bounds: Sequence[int], *, count: int = INTEGERS_SCORED) -> list[OracleScore]:
    """The scores of the oracles of increasing bounds, at the scale of `at`.

    The integers of [at, at + count), or of [at, 2 at) if that is shorter, are split into two
    halves. Each half is scored by an oracle estimated on the other half.
    """
    return [_score(*halves) for halves in count_rests(at, _end(at, count), bounds)]


def transfer(
    estimated_at: int, places: Sequence[int], bounds: Sequence[int], *, count: int = INTEGERS_SCORED
) -> dict[int, list[TransferScores]]:
    """Scores at each place, of oracles estimated there and of oracles estimated at `estimated_at`.

    Two oracles are frozen: their distributions of rests stay those of `estimated_at`.
    `TransferScores.frozen` knows the size of n. A cofactor larger than all that it has counted has
    the distribution of the largest. `TransferScores.size_unknown` divides every cofactor by
    place / `estimated_at`, so it answers for n as for an integer near `estimated_at` with the same
    smooth part. It knows that the rest is empty if c = 1, and otherwise takes c to be above B².
    """
    below = max(_end(place, count) for place in places)
    frozen = estimate(estimated_at, _end(estimated_at, count), bounds, below=below)
    scores = {}
    for place in places:
        counted, shrink = count_rests(place, _end(place, count), bounds), place / estimated_at
        scores[place] = [
            TransferScores(_score(*halves), _score_by(by, halves), _score_by(by, halves, shrink))
            for by, halves in zip(frozen, counted, strict=True)
        ]
    return scores


def closest_bound(scales: Sequence[tuple[Mapping[int, float], float]]) -> int:
    """The bound whose oracle has an accuracy closest to a model's: least squares over scales.

    Each scale has the oracles' accuracies by bound, and the model's accuracy.
    """
    bounds = list(scales[0][0])
    return min(bounds, key=lambda bound: sum((oracle[bound] - a) ** 2 for oracle, a in scales))


def _end(at: int, count: int) -> int:
    if at < LEAST_SCALE:
        raise InputError(f"the oracle needs a scale of {LEAST_SCALE} or larger, not {at}")
    if count < 2:
        raise InputError(
            f"{count} integers are too few to estimate on one half and score on the other"
        )
    end = at + min(count, at)
    check_range(at, end)
    return end


def _score(first: "RestCounts", second: "RestCounts") -> OracleScore:
    """Score each half by the counts of the other."""
    return _summarise(first.bound, _score_keys(first, second), _score_keys(second, first))


def _score_by(
    by: "RestCounts", halves: tuple["RestCounts", "RestCounts"], shrink: float = 1
) -> OracleScore:
    """Score both halves by the same counts."""
    return _summarise(by.bound, *(_score_keys(half, by, shrink) for half in halves))


def _summarise(bound: int, *scored: "_KeyScores") -> OracleScore:
    nats, right, counts = (np.concatenate(parts) for parts in zip(*scored, strict=True))
    accuracy, mean = np.average(right, weights=counts), np.average(nats, weights=counts)
    variance = np.average((nats - mean) ** 2, weights=counts)
    number = counts.sum()
    return OracleScore(
        bound,
        accuracy=float(accuracy),
        accuracy_error=float(np.sqrt(accuracy * (1 - accuracy) / number)),
        nats=float(mean),
        nats_error=float(np.sqrt(variance / number)),
    )


_KeyScores = tuple[NDArray[np.float64], NDArray[np.bool_], Counts]


def _score_keys(scored: "RestCounts", by: "RestCounts", shrink: float = 1) -> _KeyScores:
    """The nats of each key, whether `by` predicts it, and how often it occurs.

    `by` takes all cofactors to be `shrink` times smaller than they are.
    """
    bins, ranks = scored.bins_and_ranks
    if shrink != 1:
        bins = by.grid.shrink(bins, shrink)
    return -np.log(by.probabilities(bins, ranks)), by.commonest(bins) == ranks, scored.counts


def estimate(
    lo: int, hi: int, bounds: Sequence[int], *, below: int | None = None
) -> list["RestCounts"]:
    """The oracles of increasing bounds, estimated on lo ≤ n < hi.

    They can predict integers below `below`, or below `hi` if it is not given.
    """
    return [first + second for first, second in count_rests(lo, hi, bounds, below=below)]


def count_rests(
    lo: int, hi: int, bounds: Sequence[int], *, below: int | None = None
) -> list[tuple["RestCounts", "RestCounts"]]:
    """Count the rests of lo ≤ n < hi for each bound, separately for the two halves.

    The counts can predict integers below `below`, or below `hi` if it is not given.
    """
    end = max(hi, below or hi)
    if not bounds or min(bounds) < 1 or list(bounds) != sorted(set(bounds)):
        raise InputError(f"the bounds must be 1 or more and increase, not {list(bounds)}")
    if max(bounds) > LARGEST_BOUND:
        raise InputError(f"the bound {max(bounds)} is too large: at most {LARGEST_BOUND}")
    halves = [(HashTable(hi - lo), HashTable(hi - lo)) for _ in bounds]
    job = partial(_count_piece, bounds, dictionary(end))
    for piece in over_ranges(job, lo, hi, size=segment_size(hi), title="residues"):
        for tables, pairs in zip(halves, piece, strict=True):
            for table, (keys, counts) in zip(tables, pairs, strict=True):
                table.add(keys, counts)
    return [
        (RestCounts(bound, end, *first.items()), RestCounts(bound, end, *second.items()))
        for bound, (first, second) in zip(bounds, halves, strict=True)
    ]


def _count_piece(
    bounds: Sequence[int], words_below: "Dictionary", lo: int, hi: int
) -> list[tuple[tuple[Words, Counts], tuple[Words, Counts]]]:
    """The keys of a piece and their counts, for each bound and each half."""
    words = words_in_buffer(lo, hi)
    parts, lengths = np.ones(hi - lo, np.uint64), np.zeros(hi - lo, np.uint8)
    primes = primes_up_to(bounds[-1])
    done = 0  # primes multiplied into the smooth parts so far
    counted = []
    for bound in bounds:
        end = int(np.searchsorted(primes, np.uint32(bound), side="right"))
        _extend_smooth_parts(lo, primes[done:end], CHILD_LENGTHS, parts, lengths)
        done = end
        halves = HashTable(hi - lo), HashTable(hi - lo)
        grid = Grid(bound)
        for a, b in spans(lo, hi, _BLOCK):
            block = slice(a - lo, b - lo)
            bins, rests = np.empty(b - a, np.uint64), np.empty(b - a, np.uint64)
            _split(a, words[block], parts[block], lengths[block], grid.per_nat, bins, rests)
            ranks = words_below.ranks[rests].astype(np.uint64)
            halves[a // _BLOCK % 2].add(bins * words_below.stride + ranks)
        counted.append((halves[0].items(), halves[1].items()))
    return counted


class RestCounts:
    """How often each rest occurs in each bin of the cofactor, for one bound.

    A key is bin · stride + rank, where rank is the rank of the rest in the dictionary, or 0 for the
    empty rest.
    """

    def __init__(self, bound: int, end: int, keys: Words, counts: Counts) -> None:
        """All integers, whether counted or predicted, lie below `end`."""
        self.bound, self.end = bound, end
        self.grid, self.dictionary = Grid(bound), dictionary(end)
        self.keys, self.counts = keys, counts
        bins, ranks = self.bins_and_ranks
        self._counted = np.unique(bins[~self.grid.certain(bins)])
        self._narrow = _GroupCounts(self.dictionary.stride, bins, ranks, counts)
        self._wide = _GroupCounts(self.dictionary.stride, self.grid.intervals(bins), ranks, counts)

    def __add__(self, other: "RestCounts") -> "RestCounts":
        """The counts of both together."""
        keys = np.concatenate([self.keys, other.keys])
        counts = np.concatenate([self.counts, other.counts])
        return RestCounts(self.bound, self.end, keys, counts)

    @property
    def bins_and_ranks(self) -> tuple[Words, Words]:
        """The bin and the rank of each key."""
        bins, ranks = np.divmod(self.keys, self.dictionary.stride)
        return bins, ranks

    def probabilities(self, bins: Words, ranks: Words) -> NDArray[np.float64]:
        """The probabilities of the rests of these ranks, each given its bin.

        The counts of the bin are smoothed with the counts of all bins between the same two powers
        of the bound, and with one pseudo-count spread over the whole dictionary. So every word has
        a probability above 0, and all probabilities add up to 1.
        """
        counted = self._nearest(bins)
        prior = self.dictionary.prior[ranks]
        seen, total = self._wide(self.grid.intervals(counted), ranks)
        around = np.where(total > 0, seen / np.maximum(total, 1), prior)
        seen, total = self._narrow(counted, ranks)
        smoothed = (seen + _PSEUDO_COUNTS * around + prior) / (total + _PSEUDO_COUNTS + 1)
        mixed: NDArray[np.float64] = np.where(
            self.grid.certain(bins), ranks == self.grid.intervals(bins) - _U(1), smoothed
        )
        return mixed

    def commonest(self, bins: Words) -> Counts:
        """The rank of the commonest rest of each bin."""
        known = self.grid.intervals(bins).astype(np.int64) - 1
        found = self._narrow.commonest(self._nearest(bins))
        return np.where(self.grid.certain(bins), known, np.maximum(found, 1))

    def answers(self, integers: NDArray[np.uint64]) -> Words:
        """The likeliest word of each integer, given its smooth part and its size."""
        parts, beginnings = smooth_parts(integers, self.bound)
        ranks = self.commonest(self.grid.bins(integers, parts))
        rests = np.concatenate([np.zeros(1, np.uint64), self.dictionary.words])[ranks]
        answers: Words = beginnings << 2 * np.bitwise_count(rests) | rests
        return answers

    def _nearest(self, bins: Words) -> Words:
        """The nearest counted bin; of two, the lower one."""
        if not len(self._counted):
            return bins
        after = np.minimum(np.searchsorted(self._counted, bins), len(self._counted) - 1)
        above, below = self._counted[after], self._counted[np.maximum(after, 1) - 1]
        # Distances as signed numbers: `above` is below the bins that lie beyond all counted ones.
        up, down = (
            np.abs(side.astype(np.int64) - bins.astype(np.int64)) for side in (above, below)
        )
        return np.where(up < down, above, below)


class _GroupCounts:
    """How often each rank occurs in each group."""

    def __init__(self, stride: np.uint64, groups: Words, ranks: Words, counts: Counts) -> None:
        self._stride = stride
        self._both, self._totals, self._best = (HashTable(len(counts)) for _ in range(3))
        self._both.add(groups * stride + ranks, counts)
        self._totals.add(groups, counts)
        keys, sums = self._both.items()
        groups, ranks = np.divmod(keys, stride)
        order = np.lexsort((ranks, -sums, groups))
        groups, first = np.unique(groups[order], return_index=True)
        self._best.add(groups, ranks[order][first].astype(np.int64) + 1)

    def __call__(self, groups: Words, ranks: Words) -> tuple[Counts, Counts]:
        """The count of each rank in its group, and the total of the group."""
        return self._both[groups * self._stride + ranks], self._totals[groups]

    def commonest(self, groups: Words) -> Counts:
        """The most frequent rank of each group, or -1 if the group has no counts."""
        return self._best[groups] - 1


class Grid:
    """Bins of log c, numbered from 1. Every power of the bound is an edge."""

    def __init__(self, bound: int) -> None:
        unit = log(bound) if bound > 1 else 1.0
        self._in_interval = _U(ceil(_BINS_PER_NAT * unit))
        self.per_nat = float(self._in_interval) / unit

    def bins(self, integers: NDArray[np.uint64], parts: Words) -> Words:
        """The bins of the cofactors, integers / smooth parts."""
        return (np.log(integers / parts) * self.per_nat).astype(np.uint64) + _U(1)

    def end(self, number: int) -> float:
        """The upper edge of a bin: all its cofactors are smaller."""
        return exp(number / self.per_nat)

    def intervals(self, bins: Words) -> Words:
        """The interval between two powers of the bound in which each bin lies, numbered from 1."""
        return (bins - _U(1)) // self._in_interval + _U(1)

    def certain(self, bins: Words) -> NDArray[np.bool_]:
        """Whether the rest is certain: below the square of the bound c is 1 or a prime."""
        below: NDArray[np.bool_] = self.intervals(bins) <= 2
        return below

    def shrink(self, bins: Words, factor: float) -> Words:
        """The bins of cofactors smaller by `factor`, but above the square of the bound.

        The first bin stays: it holds the cofactor 1 alone.
        """
        smaller = bins.astype(np.int64) - round(log(factor) * self.per_nat)
        least_uncertain = 2 * int(self._in_interval) + 1
        return np.where(bins == 1, bins, np.maximum(least_uncertain, smaller).astype(np.uint64))


class Dictionary:
    """The words of the integers below `end`, ordered by their least integers."""

    def __init__(self, end: int) -> None:
        self.least = np.array(first_occurrences(end - 1), np.uint64)
        # A least integer below 2^63 has no prime above 64.
        _, self.words = smooth_parts(self.least, 64)
        self.ranks = ranks_of(self.words)  # from 1; the empty word has 0
        self.stride = _U(len(self.words) + 1)
        # By rank, the probability of a word of which only its least integer is known: proportional
        # to least^−1/2. Of the exponents tried, this one costs the fewest nats for words that occur
        # in one half only.
        roots = np.concatenate([[0], self.least**-0.5])
        self.prior = roots / roots.sum()


dictionary = lru_cache(8)(Dictionary)


def primes_up_to(bound: int) -> NDArray[np.uint32]:
    """The primes up to the bound, as a slice of the cached ones."""
    primes = base_primes(bound)
    # The same type as the primes: otherwise searchsorted would convert all of them.
    return primes[: np.searchsorted(primes, np.uint32(bound), side="right")]


def smooth_parts(integers: NDArray[np.uint64], bound: int) -> tuple[Words, Words]:
    """The largest divisors without primes above the bound, and their words (0 for 1)."""
    parts, words = np.empty(len(integers), np.uint64), np.empty(len(integers), np.uint64)
    _divide(integers, primes_up_to(bound), CHILDREN, CHILD_LENGTHS, parts, words)
    return parts, words


@kernel
def _divide(
    integers: Any, primes: Any, children: Any, lengths: Any, parts: Any, words: Any
) -> None:
    """Smooth parts and their words, by trial division."""
    for i in range(len(integers)):
        c, word = integers[i], _U(0)
        for prime in primes:
            p = _U(prime)
            if p * p > c:  # c is 1 or a prime
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
def _extend_smooth_parts(lo: Any, primes: Any, lengths_of: Any, parts: Any, lengths: Any) -> None:
    """Multiply more primes into the smooth parts of lo, lo + 1, …, and add up their words' lengths.

    At each multiple of p^e the child of p changes from the child of exponent e − 1 to that of e.
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
    """The bins of the cofactors, and the rests, which end the words."""
    for i in range(len(words)):
        bins[i] = _U(np.log((lo + i) / parts[i]) * per_nat) + _U(1)
        length = _U(2) * _ones(words[i]) - lengths[i]
        rests[i] = words[i] & ((_U(1) << length) - _U(1))


@kernel
def _ones(x: Any) -> Any:
    """The number of ones in 64 bits."""
    x -= x >> _U(1) & _U(0x5555555555555555)
    x = (x & _U(0x3333333333333333)) + (x >> _U(2) & _U(0x3333333333333333))
    x = x + (x >> _U(4)) & _U(0x0F0F0F0F0F0F0F0F)
    return x * _U(0x0101010101010101) >> _U(56)
