"""Which residues of n make a window of words, those of n, n + 1, …, likely.

Each word says what the primes of its integer look like, smallest first, but not which they are. If
n is known modulo all primes up to y, the first children of every word are accounted for, and what
is left, the rest, is that of an integer of known size without primes up to y. Of all residues, the
true ones make the rests likely (`densities`); most others make some of them impossible.

So a beam of residues goes through the primes in increasing order, and through powers of the
smallest, until their product nears the bound. The Chinese remainder theorem gives the integers that
are left, and the next primes strike most of those: a multiple of p must have a prime to spare.

One residue and one prime cost a look-up or two a word: 0.2 µs for 64 words. Most integers cost two
or three divisions.
"""

from dataclasses import dataclass
from functools import cache
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..text.kernels import primes_to
from ..text.sieve import MAX, Words
from .densities import LAST, PER_NAT, PLACES, density, parted

Integers = NDArray[np.int64]
Numbers = NDArray[np.uint16]

LONGEST = 256  # words of a window that are searched for
FILTERS = 16  # primes that most integers fall by
LARGEST = 1 << 16  # prime that the integers left are tried by
ROOM = 1 << 12  # candidates; a window that has more is too short

# Scores and sizes are integers, in 64ths of a nat. Why they fit their types, with windows of at
# most LONGEST words and integers below 2^63:
# - A size is the sum of at most 15 rounded logarithms, one for each prime of an integer, so it is
#   off by 7.5 at most: SLACK is more than that, and nothing possible is ruled out. `_account` keeps
#   the sizes of impossible residues within 16 bits.
# - Sizes are at most 64 · 63 log 2 + SLACK + 1/2 = 2803, so PLACES are enough for them.
# - LONGEST times IMPOSSIBLE fits 32 bits. A possible word scores LEAST_POSSIBLE or more from a
#   table and −2840 or more from the odds of its exponent, and so LONGEST of them together score
#   more than IMPOSSIBLE / 2.
# - A word has at most 31 children, so a window has at most 2 (2 + 31 LONGEST) rests: 16 bits.
UNIT = 64
FINE = UNIT // PER_NAT
SLACK = UNIT // 8
LARGEST_SIZE = np.iinfo(np.uint16).max
IMPOSSIBLE = -(1 << 22)
LEAST_POSSIBLE = -64 * UNIT
RAREST = 1e-12  # no word is taken to be rarer

EMPTY, UNEXPLAINED = 0, 1  # rests: no primes left; no rest of this word


class Rests(NamedTuple):
    """What can be left of the words of a window, by number.

    Where the exponent of a prime is not certain, neither is the size of what it leaves. Such rests
    are vague and have numbers of their own, `vague` above the others.
    """

    vague: int
    following: Numbers  # the rest without its first prime
    primes: Integers  # how many it has
    allowed: NDArray[np.bool_]  # [rest, v]: whether its first prime can have exponent v
    least: Integers  # [rest, a]: the least such v from a on, or 0


@dataclass(frozen=True)
class Search:
    """What a search through one range came to."""

    candidates: Integers  # the only places where the window may stand, in increasing order, if…
    complete: bool  # … nothing was dropped on the way
    expected: float  # how many places there would be by chance


class _Beam(NamedTuple):
    """Residues of n, and what they leave of each word, [residue, place]."""

    residues: Integers
    modulus: int
    rest: Numbers
    used: Numbers  # the log of the primes accounted for
    scores: Integers


def search(
    window: Words, floor: Integers, lo: int, hi: int, *, width: int, most: int, wrong: int
) -> Search:
    """The integers in lo..hi−1 where the window may stand, by a beam of `width` residues.

    When they leave no more than `most` integers, these are tried one by one.
    `floor` is the least score of each word: IMPOSSIBLE, or what a wrong word costs, of which there
    may be `wrong`. A word whose floor is 0 can be any. All integers of the windows lie below 2^63.
    """
    end = hi + len(window) - 1  # n + i < end for the i-th word of a window that stands at n
    if len(window) > LONGEST or not 2 <= lo < hi or end > MAX:
        raise ValueError(f"no search for {len(window)} words in {lo}..{hi - 1}")
    known = floor < 0
    words, first, rests = _rests(window, known)
    one = np.zeros(1, np.int64)
    beam = _Beam(one, 1, first[None], np.zeros((1, len(window)), np.uint16), one)
    top = round(UNIT * log(end)) + SLACK
    complete, dropped, rough = True, 0.0, 0.0

    def expected(scores: NDArray[np.int32] | Integers, modulus: int) -> float:
        """So many places have these residues and, by chance, these words."""
        logs = scores / UNIT - known.sum() * rough + log((hi - lo) / modulus)
        return float(np.exp(np.minimum(logs, 100)).sum())

    # Of a power longer than the window many residues are alike. Where words must fit exactly, the
    # others are so few that it pays; where they need not, those alike would fill the beam.
    reach = len(window) if wrong else 4 * len(window)
    primes = primes_to(LARGEST).astype(np.int64)
    for level, p in enumerate(primes.tolist(), start=1):
        power = _power(p, reach)
        q = p**power
        # The smallest primes are taken in any case, for what is to be expected by chance.
        few = level > 4 and len(beam.residues) * (hi - lo) <= most * beam.modulus
        if few or beam.modulus * q >= 1 << 62 or p > LAST:
            break
        rough += log(1 - 1 / p)
        step = _step(p, power)
        scores = np.empty((len(beam.residues), q), np.int32)
        table = _table(words, level, lo, hi, end)
        _score(beam.rest, beam.used, rests, table, top, floor, step, scores)
        flat = scores.ravel()
        kept = np.flatnonzero(flat > IMPOSSIBLE // 2)
        if not len(kept):
            return Search(np.zeros(0, np.int64), complete, dropped)
        if len(kept) > width:
            complete = False
            order = np.argpartition(flat[kept], len(kept) - width)
            dropped += expected(flat[kept[order[:-width]]], beam.modulus * q)
            kept = kept[order[-width:]]
        parent, phase = np.divmod(kept, q)
        rest, used = beam.rest[parent], beam.used[parent]
        _account(rest, used, rests, step, phase)
        ahead = (-phase - beam.residues[parent]) % q * pow(beam.modulus, -1, q) % q
        residues = beam.residues[parent] + beam.modulus * ahead
        beam = _Beam(residues, beam.modulus * q, rest, used, flat[kept].astype(np.int64))
    candidates = _sift(beam, lo, hi - lo, rests, primes, level - 1, known, wrong)
    by_chance = dropped + expected(beam.scores, beam.modulus)
    return Search(np.sort(candidates), complete and len(candidates) < ROOM, by_chance)


def rarity(window: Words, hi: int) -> Integers:
    """The scores of words of which nothing is known but their scale; of one that is ANY, none."""
    place = min(int(log(hi) * PER_NAT), PLACES - 1)
    shares = [max(float(density(int(word))[0, place]), RAREST) if word else 1.0 for word in window]
    return in_units(np.log(shares))


def _rests(window: Words, known: NDArray[np.bool_]) -> tuple[list[int], Numbers, Rests]:
    """The rests as packed words, the number of each word of the window, and the rests' laws."""
    numbers = {0: EMPTY, -1: UNEXPLAINED}
    following = [EMPTY, UNEXPLAINED]
    exponents: list[tuple[int, ...]] = [(), ()]

    def number(word: int) -> int:
        if word not in numbers:
            possible, rest = parted(word)
            after = number(rest)
            numbers[word] = len(numbers)
            following.append(after)
            exponents.append(possible)
        return numbers[word]

    first = [number(int(w)) if k else UNEXPLAINED for w, k in zip(window, known, strict=True)]
    primes = np.zeros(len(numbers), np.int64)
    allowed = np.zeros((len(numbers), 64), np.bool_)
    least = np.zeros((len(numbers), 64), np.int64)
    for rest, possible in enumerate(exponents[2:], start=2):
        primes[rest] = primes[following[rest]] + 1
        allowed[rest, list(possible)] = True
        for v in sorted(possible, reverse=True):
            least[rest, : v + 1] = v
    vague = len(numbers)
    rests = Rests(
        vague,
        np.array([*following, *(rest + vague for rest in following)], np.uint16),
        np.tile(primes, 2),
        np.tile(allowed, (2, 1)),
        np.tile(least, (2, 1)),
    )
    return list(numbers), np.array(first, np.uint16), rests


@kernel
def _after(rests: Rests, s: int, v: int, power: int) -> tuple[int, int]:
    """What is left of a rest when p takes its first child, and p's exponent, 0 if it cannot.

    v is the exponent, or `power` if it can be that or more; then the least is taken.
    """
    exponent = v if v < power else rests.least[s, v]
    if not rests.allowed[s, exponent]:
        return UNEXPLAINED, 0
    after = int(rests.following[s])
    if v == power and rests.least[s, exponent + 1] and s < rests.vague:
        after += rests.vague
    return after, exponent


def _table(words: list[int], level: int, lo: int, hi: int, end: int) -> NDArray[np.int32]:
    """Scores of rests by log(end / s), s the part of the integer that is accounted for."""
    table = np.full((2, len(words), PLACES), IMPOSSIBLE, np.int32)
    for rest, word in enumerate(words[2:], start=2):
        row = density(word)[level]
        table[:, rest, row > 0] = np.maximum(UNIT * np.log(row[row > 0]), LEAST_POSSIBLE)
    # An integer without a rest is s itself, one of the (hi − lo) / s multiples of s. It is at least
    # lo; the size that is looked up may be too large by 2 · SLACK.
    size = np.arange(PLACES) / PER_NAT
    table[:, EMPTY] = -UNIT * (size + log((hi - lo) / end))
    table[0, EMPTY, size > log(end / lo) + 2 * SLACK / UNIT] = IMPOSSIBLE
    return table.reshape(-1, PLACES)


class _Step(NamedTuple):
    """One prime p, or a power of it, q = p^power."""

    p: int
    valuations: Integers  # of 0..q − 1, with power for 0
    sizes: Integers  # of p^v
    odds: Integers  # the log of how likely v is, if it is `power` or more


def _power(p: int, reach: int) -> int:
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


def in_units(nats: NDArray[Any]) -> Integers:
    units: Integers = np.rint(UNIT * nats).astype(np.int64)
    return units


@kernel
def _score(
    rest: Numbers,
    used: Numbers,
    rests: Rests,
    table: NDArray[np.int32],
    top: int,
    floor: Integers,
    step: _Step,
    scores: NDArray[np.int32],
) -> None:
    """Fill in the score of every phase r, that is n ≡ −r mod q, after every residue."""
    p, q, power = step.p, len(step.valuations), step.valuations[0]
    length = rest.shape[1]
    gains = np.empty((power + 1, length), np.int64)
    for h in range(len(rest)):
        base = 0
        for i in range(length):
            s = rest[h, i]
            left = top - used[h, i]
            without = max(table[s, max(left, 0) // FINE], floor[i])
            base += without
            for v in range(1, power + 1):
                after, exponent = _after(rests, s, v, power)
                score = table[after, max(left - step.sizes[exponent], 0) // FINE]
                if v == power:
                    score += step.odds[exponent]
                gains[v, i] = max(score, floor[i]) - without
        for r in range(q):
            score = base
            for i in range(r % p, length, p):
                score += gains[step.valuations[(i - r) % q], i]
            scores[h, r] = score


@kernel
def _account(rest: Numbers, used: Numbers, rests: Rests, step: _Step, phase: Integers) -> None:
    """Take p from the rests of its multiples."""
    p, q, power = step.p, len(step.valuations), step.valuations[0]
    for h in range(len(rest)):
        for i in range(phase[h] % p, rest.shape[1], p):
            s = rest[h, i]
            v = step.valuations[(i - phase[h]) % q]
            rest[h, i], exponent = _after(rests, s, v, power)
            used[h, i] = min(used[h, i] + step.sizes[exponent], LARGEST_SIZE)


@kernel
def _sift(
    beam: _Beam,
    lo: int,
    span: int,
    rests: Rests,
    primes: Integers,
    done: int,
    known: NDArray[np.bool_],
    wrong: int,
) -> Integers:
    """The integers of lo ≤ n < lo + span that are left by the beam and the primes after `done`.

    lo + span may be 2^63, which does not fit an int64 and is not computed.

    If of a word one prime is left, with exponent 1, and it must be larger than p, then p is one too
    many: its integer is no multiple of p. So each residue makes the phases of the next primes wrong
    in so many places, and most integers fall by that alone, after two or three divisions.
    """
    length = beam.rest.shape[1]
    logs = UNIT * np.log(primes.astype(np.float64))
    mistakes = np.zeros((FILTERS, primes[done + FILTERS]), np.uint8)
    found = np.empty(ROOM, np.int64)
    count = 0
    for h in range(len(beam.residues)):
        mistakes[:] = 0
        for j in range(FILTERS):
            for i in range(length):
                s = beam.rest[h, i]
                last = s < rests.vague and rests.primes[s] == 1 and rests.allowed[s, 1]
                larger = beam.used[h, i] + logs[done + j] < UNIT * np.log(float(lo)) - SLACK
                mistakes[j, i % primes[done + j]] += last and larger
        for ahead in range((beam.residues[h] - lo) % beam.modulus, span, beam.modulus):
            n = lo + ahead
            errors = 0
            for j in range(FILTERS):
                p = primes[done + j]
                errors += mistakes[j, (-n) % p]
                # The same word can be wrong for several primes.
                if errors > 2 * wrong:
                    break
            else:
                if _survives(
                    n, beam.rest[h], beam.used[h], rests, primes, logs, done, known, wrong
                ):
                    if count == ROOM:
                        return found
                    found[count] = n
                    count += 1
    return found[:count]


@kernel
def _survives(
    n: int,
    rest: Numbers,
    used: Numbers,
    rests: Rests,
    primes: Integers,
    logs: NDArray[np.float64],
    done: int,
    known: NDArray[np.bool_],
    wrong: int,
) -> bool:
    """Whether the words fit the primes of n, n + 1, … from number `done` on."""
    length = len(rest)
    left = rest.copy()
    gap = np.empty(length)
    errors = 0
    for i in range(length):
        gap[i] = UNIT * np.log(float(n + i)) - used[i]
        errors += left[i] == UNEXPLAINED and known[i]
    for j in range(done, len(primes)):
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
            after = rests.following[s]
            gap[i] -= v * logs[j]
            fits = rests.allowed[s, v]
            if rests.primes[after]:  # all of them larger than p
                fits = fits and gap[i] > rests.primes[after] * logs[j] - SLACK
            elif s < rests.vague:
                fits = fits and gap[i] < SLACK
            else:
                fits = fits and _is_smooth(n + i, primes, j)
            if not fits:
                after = np.uint16(UNEXPLAINED)
                errors += 1
            left[i] = after
        if errors > wrong:
            return False
    return True


@kernel
def _is_smooth(n: int, primes: Integers, last: int) -> bool:
    for j in range(last + 1):
        while n % primes[j] == 0:
            n //= primes[j]
    return n == 1
