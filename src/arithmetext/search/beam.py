"""Find the integers n such that a given window can be the words of n, n + 1, …

A word says how many primes its integer has and what their exponents look like, smallest prime
first, but not which primes they are. If n is known modulo every prime up to y, we know which
children of each word these primes account for. The other children, the *rest* of the word, must be
the word of an integer of known size without primes up to y. The true residues make all rests likely
(`densities`); most wrong ones make some rest impossible.

So the search has two stages:

1. A beam of residues goes through the primes in increasing order, with powers of the smallest. Each
   residue modulo the primes so far is extended in every possible way and scored by the densities
   of its rests. The `width` best residues stay in the beam. One residue and one prime cost one or
   two table look-ups for each word: 0.2 µs for 64 words.
2. When few enough integers have one of these residues, the Chinese remainder theorem lists them.
   The next primes p rule out most: if a word has only one prime left and this prime must be large,
   its integer cannot be a multiple of p. Most integers cost two or three divisions.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..text.kernels import primes_to
from ..text.sieve import MAX, Words
from .densities import LAST_PRIME, POINTS, POINTS_PER_NAT, density, split_first_child

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
SmallIntegers = NDArray[np.uint16]

LONGEST_WINDOW = 256  # the most words that one search can use
FILTER_PRIMES = 16  # primes that rule out most integers
LARGEST_PRIME = 1 << 16  # integers that pass the filters are divided by all primes up to this
MOST_CANDIDATES = 1 << 12  # a window with more candidates is too short

# A search is watched after so much work, 0.2 s or less.
SCORED_AT_ONCE = 1 << 24  # look-ups
TRIED_AT_ONCE = 1 << 20  # integers

# Scores (log-probabilities) and sizes (logarithms of integers) are integers in 64ths of a nat. They
# fit their types for windows of at most LONGEST_WINDOW words and integers below 2^63, because:
# - A size is the sum of at most 15 rounded logarithms, one for each prime of an integer, so its
#   error is at most 7.5. SLACK is larger, so nothing possible is ruled out. `_account` keeps the
#   sizes of impossible residues within 16 bits.
# - Sizes are at most 64 · 63 log 2 + SLACK + 1/2 = 2803, less than POINTS · UNITS_PER_POINT.
# - LONGEST_WINDOW times IMPOSSIBLE fits 32 bits. A possible word scores LEAST_POSSIBLE or more from
#   a table and −2840 or more from the odds of its exponent, so LONGEST_WINDOW possible words
#   together score more than IMPOSSIBLE / 2.
# - A word has at most 31 children, so a window has at most 2 (2 + 31 LONGEST_WINDOW) < 2^16 rests.
UNIT = 64
UNITS_PER_POINT = UNIT // POINTS_PER_NAT
SLACK = UNIT // 8
LARGEST_SIZE = np.iinfo(np.uint16).max
IMPOSSIBLE = -(1 << 22)
LEAST_POSSIBLE = -64 * UNIT
RAREST = 1e-12  # the least probability that `rarity` gives a word

# Ids of rests: no primes are left (EMPTY); the residues contradict the word (UNEXPLAINED).
EMPTY, UNEXPLAINED = 0, 1


class Effort(NamedTuple):
    """How much a search tries before it gives up."""

    width: int  # residues kept in the beam
    # Stop the beam when at most this many integers have the kept residues; then try each of them.
    integers: int


@dataclass(frozen=True)
class SearchResult:
    """The result of a search through one range."""

    candidates: Integers  # integers at which the window may begin, in increasing order
    complete: bool  # the window begins nowhere else, because the beam dropped nothing
    expected: float  # how many integers would fit by chance


@dataclass(frozen=True)
class BeamState:
    """What a search knows about n once the beam has used the primes up to p; first, p is 1."""

    lo: int  # lo ≤ n < hi
    hi: int
    p: int
    modulus: int
    residues: Integers  # the residues of n modulo `modulus` in the beam; empty if none is possible
    scores: Integers  # [residue]

    @property
    def integers(self) -> float:
        """About how many integers of the range have one of the residues."""
        return len(self.residues) * ((self.hi - self.lo) / self.modulus)

    def moved(self, by: int) -> "BeamState":
        """The same knowledge of n + by."""
        residues = (self.residues + by) % self.modulus
        return replace(self, lo=self.lo + by, hi=self.hi + by, residues=residues)

    def probabilities(self, m: int) -> Floats:
        """The probability of each residue of n modulo m, a divisor of the modulus."""
        weights = np.exp((self.scores - self.scores.max(initial=IMPOSSIBLE)) / UNIT)
        by_residue = np.bincount(self.residues % m, weights, minlength=m)
        shares: Floats = by_residue / max(weights.sum(), 1.0)  # the largest weight is 1
        return shares


# Called after each prime, and with an unchanged state several times in longer steps. An exception
# that it raises ends the search.
Watch = Callable[[BeamState], None]


class Rests(NamedTuple):
    """The rests that the words of a window can have, by id.

    If a prime may have several exponents, the size of the cofactor is uncertain. The id of such a
    *vague* rest is `vague` plus the usual id of the rest.
    """

    vague: int
    following: SmallIntegers  # [rest]: the id of the rest without its first prime
    primes: Integers  # [rest]: the number of primes of the rest
    allowed: NDArray[np.bool_]  # [rest, v]: whether the first prime can have exponent v
    least: Integers  # [rest, a]: the least allowed exponent v ≥ a, or 0


class _Beam(NamedTuple):
    """The residues of n modulo `modulus` in the beam, each with the rests of all words."""

    residues: Integers  # [residue]
    modulus: int
    rest: SmallIntegers  # [residue, word]: the id of the rest
    used: SmallIntegers  # [residue, word]: the size of the primes accounted for
    scores: Integers  # [residue]


class _Step(NamedTuple):
    """One step of the beam: the modulus is multiplied by q = p^power."""

    p: int
    valuations: Integers  # [q]: the exponent of p in 0..q − 1, where 0 counts as `power`
    sizes: Integers  # [v]: the size of p^v
    odds: Integers  # [v]: the log-probability of exponent v, given that it is `power` or more


class _Scoring(NamedTuple):
    """How the rests are scored in one step."""

    table: NDArray[np.int32]  # [rest, size]: the score of a rest of a given size
    top: int  # the size of the largest integer
    floor: Integers  # [word]: the least score of each word


class _Trial(NamedTuple):
    """The conditions that an integer must meet in the second stage."""

    rests: Rests
    primes: Integers
    logs: Floats  # the sizes of the primes, not rounded
    done: int  # the beam has accounted for this many of the primes
    is_known: NDArray[np.bool_]  # [word]: False for a word that can be any
    wrong: int  # how many words may be wrong


def find_candidates(
    window: Words,
    floor: Integers,
    lo: int,
    hi: int,
    effort: Effort,
    *,
    wrong: int = 0,
    watch: Watch | None = None,
) -> SearchResult:
    """Find the integers lo ≤ n < hi at which the window may begin.

    `floor` is the least score of each word: IMPOSSIBLE, or the penalty for a wrong word. At most
    `wrong` words may be wrong. A word with floor 0 is not known. All integers of the windows must
    lie below 2^63.
    """
    end = hi + len(window) - 1  # n + i < end for word i of a window that begins at n
    if len(window) > LONGEST_WINDOW or not 2 <= lo < hi or end > MAX:
        raise ValueError(f"no search for {len(window)} words in {lo}..{hi - 1}")
    is_known = floor < 0
    words, first, rests = _rests(window, is_known)
    zero = np.zeros(1, np.int64)
    beam = _Beam(zero, 1, first[None], np.zeros((1, len(window)), np.uint16), zero)
    state = BeamState(lo, hi, 1, 1, zero, zero)
    top = round(UNIT * log(end)) + SLACK
    complete, dropped = True, 0.0
    log_unsifted_share = 0.0  # log of the share of integers without primes up to p, ∏ (1 − 1/p)

    def expected(scores: NDArray[np.int32] | Integers, modulus: int) -> float:
        """How many integers with these residues have these words by chance.

        Densities are shares of all integers. The residues restrict n to the integers without primes
        up to p, which are a share exp(log_unsifted_share) of all integers.
        """
        logs = scores / UNIT - is_known.sum() * log_unsifted_share + log((hi - lo) / modulus)
        return float(np.exp(np.minimum(logs, 100)).sum())

    # Many residues modulo a power longer than the window are equivalent for this window. If all
    # words must fit exactly, few other residues survive, so longer powers pay. If some words may be
    # wrong, the equivalent residues would fill the beam.
    reach = len(window) if wrong else 4 * len(window)
    primes, logs = _trial_primes()
    for level, p in enumerate(primes.tolist(), start=1):
        power = _power(p, reach)
        q = p**power
        # The beam always uses the smallest primes: the number expected by chance needs them.
        few = level > 4 and len(beam.residues) * (hi - lo) <= effort.integers * beam.modulus
        if few or beam.modulus * q >= 1 << 62 or p > LAST_PRIME:
            break
        log_unsifted_share += log(1 - 1 / p)
        step = _step(p, power)
        scores = np.empty((len(beam.residues), q), np.int32)
        scoring = _Scoring(_table(words, level, lo, hi, end), top, floor)
        look_ups = len(window) * (power + 1 + q // p)  # for each residue
        for part in _parts(len(beam.residues), SCORED_AT_ONCE // look_ups):
            _score(_part(beam, part), rests, scoring, step, scores[part])
            if watch:
                watch(state)
        flat = scores.ravel()
        kept = np.flatnonzero(flat > IMPOSSIBLE // 2)
        if len(kept) > effort.width:
            complete = False
            order = np.argpartition(flat[kept], len(kept) - effort.width)
            dropped += expected(flat[kept[order[: -effort.width]]], beam.modulus * q)
            kept = kept[order[-effort.width :]]
        parent, phase = np.divmod(kept, q)
        rest, used = beam.rest[parent], beam.used[parent]
        _account(rest, used, rests, step, phase)
        ahead = (-phase - beam.residues[parent]) % q * pow(beam.modulus, -1, q) % q
        residues = beam.residues[parent] + beam.modulus * ahead
        beam = _Beam(residues, beam.modulus * q, rest, used, flat[kept].astype(np.int64))
        state = BeamState(lo, hi, p, beam.modulus, residues, beam.scores)
        if watch:
            watch(state)
        if not len(residues):
            return SearchResult(np.zeros(0, np.int64), complete, dropped)
    trial = _Trial(rests, primes, logs, level - 1, is_known, wrong)
    candidates = np.zeros(0, np.int64)
    for part in _parts(len(beam.residues), TRIED_AT_ONCE * beam.modulus // (hi - lo)):
        candidates = np.append(candidates, _sift(_part(beam, part), trial, lo, hi - lo))
        if watch:
            watch(state)
        if len(candidates) >= MOST_CANDIDATES:
            break
    by_chance = dropped + expected(beam.scores, beam.modulus)
    complete = complete and len(candidates) < MOST_CANDIDATES
    return SearchResult(np.sort(candidates), complete, by_chance)


def _parts(count: int, size: int) -> list[slice]:
    """Slices of at most `size` items, at least one, that cover `count` items."""
    size = max(1, size)
    return [slice(first, first + size) for first in range(0, count, size)]


def _part(beam: _Beam, part: slice) -> _Beam:
    """The beam with a part of its residues."""
    rest, used = beam.rest[part], beam.used[part]
    return _Beam(beam.residues[part], beam.modulus, rest, used, beam.scores[part])


def rarity(window: Words, hi: int) -> Integers:
    """The score of each word for an integer of which only n < hi is known.

    A word that is ANY has score 0.
    """
    point = min(int(log(hi) * POINTS_PER_NAT), POINTS - 1)
    shares = [max(float(density(int(word))[0, point]), RAREST) if word else 1.0 for word in window]
    return in_units(np.log(shares))


def in_units(nats: NDArray[Any]) -> Integers:
    units: Integers = np.rint(UNIT * nats).astype(np.int64)
    return units


@cache
def _trial_primes() -> tuple[Integers, Floats]:
    """The primes up to LARGEST_PRIME and their sizes."""
    primes = primes_to(LARGEST_PRIME).astype(np.int64)
    return primes, UNIT * np.log(primes)


def _rests(window: Words, is_known: NDArray[np.bool_]) -> tuple[list[int], SmallIntegers, Rests]:
    """The rests as packed words by id, the id of each word of the window, and the rests' tables."""
    ids = {0: EMPTY, -1: UNEXPLAINED}
    following = [EMPTY, UNEXPLAINED]
    exponents: list[tuple[int, ...]] = [(), ()]

    def id_of(word: int) -> int:
        if word not in ids:
            possible, rest = split_first_child(word)
            next_id = id_of(rest)
            ids[word] = len(ids)
            following.append(next_id)
            exponents.append(possible)
        return ids[word]

    first = [id_of(int(w)) if k else UNEXPLAINED for w, k in zip(window, is_known, strict=True)]
    primes = np.zeros(len(ids), np.int64)
    allowed = np.zeros((len(ids), 64), np.bool_)
    least = np.zeros((len(ids), 64), np.int64)
    for rest, possible in enumerate(exponents[2:], start=2):
        primes[rest] = primes[following[rest]] + 1
        allowed[rest, list(possible)] = True
        for v in sorted(possible, reverse=True):
            least[rest, : v + 1] = v
    vague = len(ids)
    rests = Rests(
        vague,
        np.array([*following, *(rest + vague for rest in following)], np.uint16),
        np.tile(primes, 2),
        np.tile(allowed, (2, 1)),
        np.tile(least, (2, 1)),
    )
    return list(ids), np.array(first, np.uint16), rests


@kernel
def _remove_first(rests: Rests, s: int, v: int, power: int) -> tuple[int, int]:
    """Remove the child of p, the first one, from rest s: the new rest and the exponent of p.

    v is the exponent of p. If v equals `power`, the exponent can also be larger, and the result is
    the least possible exponent. If the first child cannot be that of p, the result is UNEXPLAINED
    and 0.
    """
    exponent = v if v < power else rests.least[s, v]
    if not rests.allowed[s, exponent]:
        return UNEXPLAINED, 0
    left = int(rests.following[s])
    if v == power and rests.least[s, exponent + 1] and s < rests.vague:
        left += rests.vague
    return left, exponent


def _table(words: list[int], level: int, lo: int, hi: int, end: int) -> NDArray[np.int32]:
    """The scores of rests by log(end / s), where s is the part of n that is accounted for."""
    table = np.full((2, len(words), POINTS), IMPOSSIBLE, np.int32)
    for rest, word in enumerate(words[2:], start=2):
        row = density(word)[level]
        table[:, rest, row > 0] = np.maximum(UNIT * np.log(row[row > 0]), LEAST_POSSIBLE)
    # An integer with an empty rest is s itself, one of (hi − lo) / s multiples of s. It is at least
    # lo; the size that is looked up may be too large by 2 · SLACK.
    size = np.arange(POINTS) / POINTS_PER_NAT
    table[:, EMPTY] = -UNIT * (size + log((hi - lo) / end))
    table[0, EMPTY, size > log(end / lo) + 2 * SLACK / UNIT] = IMPOSSIBLE
    return table.reshape(-1, POINTS)


def _power(p: int, reach: int) -> int:
    """The largest power, at least 1, with p^power ≤ reach."""
    power = 1
    while p ** (power + 1) <= reach:
        power += 1
    return power


@cache
def _step(p: int, power: int) -> _Step:
    q = p**power
    valuations = np.zeros(q, np.int64)
    for v in range(1, power):
        valuations[:: p**v] = v
    valuations[0] = power
    exponents = np.arange(64)
    odds = log(1 - 1 / p) - np.maximum(exponents - power, 0) * log(p)
    return _Step(p, valuations, in_units(exponents * log(p)), in_units(odds))


@kernel
def _score(
    beam: _Beam, rests: Rests, scoring: _Scoring, step: _Step, scores: NDArray[np.int32]
) -> None:
    """Fill in scores[h, r]: residue h extended by phase r, which means n ≡ −r mod q.

    For each residue, first compute the score of every word if p does not divide its integer, and
    the gain in score for each exponent of p. Then add, for every phase, the gains of its multiples
    of p.
    """
    table, floor = scoring.table, scoring.floor
    p, q, power = step.p, len(step.valuations), step.valuations[0]
    length = beam.rest.shape[1]
    gains = np.empty((power + 1, length), np.int64)
    for h in range(len(beam.rest)):
        base = 0
        for i in range(length):
            s = beam.rest[h, i]
            left = scoring.top - beam.used[h, i]
            without = max(table[s, max(left, 0) // UNITS_PER_POINT], floor[i])
            base += without
            for v in range(1, power + 1):
                new, exponent = _remove_first(rests, s, v, power)
                score = table[new, max(left - step.sizes[exponent], 0) // UNITS_PER_POINT]
                if v == power:
                    score += step.odds[exponent]
                gains[v, i] = max(score, floor[i]) - without
        for r in range(q):
            score = base
            for i in range(r % p, length, p):
                score += gains[step.valuations[(i - r) % q], i]
            scores[h, r] = score


@kernel
def _account(
    rest: SmallIntegers, used: SmallIntegers, rests: Rests, step: _Step, phase: Integers
) -> None:
    """Remove p from the rests of its multiples, and add its size to the sizes accounted for."""
    p, q, power = step.p, len(step.valuations), step.valuations[0]
    for h in range(len(rest)):
        for i in range(phase[h] % p, rest.shape[1], p):
            s = rest[h, i]
            v = step.valuations[(i - phase[h]) % q]
            rest[h, i], exponent = _remove_first(rests, s, v, power)
            used[h, i] = min(used[h, i] + step.sizes[exponent], LARGEST_SIZE)


@kernel
def _sift(beam: _Beam, trial: _Trial, lo: int, span: int) -> Integers:
    """The integers lo ≤ n < lo + span that have one of the residues and survive the other primes.

    lo + span may be 2^63, which does not fit an int64 and is not computed.

    If a word has one prime left, with exponent 1, and this prime must be larger than p, then the
    integer of this word is no multiple of p. For each residue, `mistakes` counts the
    words that contradict each phase of the next primes. Most integers are ruled out by these counts
    alone, after two or three divisions.
    """
    rests, primes, logs, done = trial.rests, trial.primes, trial.logs, trial.done
    length = beam.rest.shape[1]
    mistakes = np.zeros((FILTER_PRIMES, primes[done + FILTER_PRIMES]), np.uint8)
    candidates = np.empty(MOST_CANDIDATES, np.int64)
    count = 0
    for h in range(len(beam.residues)):
        mistakes[:] = 0
        for j in range(FILTER_PRIMES):
            for i in range(length):
                s = beam.rest[h, i]
                last = s < rests.vague and rests.primes[s] == 1 and rests.allowed[s, 1]
                larger = beam.used[h, i] + logs[done + j] < UNIT * np.log(float(lo)) - SLACK
                mistakes[j, i % primes[done + j]] += last and larger
        for ahead in range((beam.residues[h] - lo) % beam.modulus, span, beam.modulus):
            n = lo + ahead
            errors = 0
            for j in range(FILTER_PRIMES):
                p = primes[done + j]
                errors += mistakes[j, (-n) % p]
                # The same word can be wrong for several primes.
                if errors > 2 * trial.wrong:
                    break
            else:
                if _survives(n, beam.rest[h], beam.used[h], trial):
                    if count == MOST_CANDIDATES:
                        return candidates
                    candidates[count] = n
                    count += 1
    return candidates[:count]


@kernel
def _survives(n: int, rest: SmallIntegers, used: SmallIntegers, trial: _Trial) -> bool:
    """Whether the rests fit the primes of n, n + 1, … that the beam has not accounted for."""
    rests, primes, logs = trial.rests, trial.primes, trial.logs
    length = len(rest)
    left = rest.copy()
    gap = np.empty(length)  # the size of the cofactor that is not accounted for
    errors = 0
    for i in range(length):
        gap[i] = UNIT * np.log(float(n + i)) - used[i]
        errors += left[i] == UNEXPLAINED and trial.is_known[i]
    for j in range(trial.done, len(primes)):
        p = primes[j]
        for i in range((-n) % p, length, p):
            s = left[i]
            if s == UNEXPLAINED:
                continue
            v = 1
            cofactor = (n + i) // p
            while cofactor % p == 0:
                cofactor //= p
                v += 1
            new = rests.following[s]
            gap[i] -= v * logs[j]
            fits = rests.allowed[s, v]
            if rests.primes[new]:  # primes that must be larger than p
                fits = fits and gap[i] > rests.primes[new] * logs[j] - SLACK
            elif s < rests.vague:
                fits = fits and gap[i] < SLACK
            else:
                fits = fits and _is_smooth(n + i, primes, j)
            if not fits:
                new = np.uint16(UNEXPLAINED)
                errors += 1
            left[i] = new
        if errors > trial.wrong:
            return False
    return True


@kernel
def _is_smooth(n: int, primes: Integers, last: int) -> bool:
    """Whether n has no primes beyond primes[last]."""
    for j in range(last + 1):
        while n % primes[j] == 0:
            n //= primes[j]
    return n == 1
