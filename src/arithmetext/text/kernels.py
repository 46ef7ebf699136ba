"""The kernels of the sieve. docs/sieve.md explains the algorithm and its cost at length.

One 16-bit accumulator an integer holds, for the primes that divided it so far, how many they were
(4 bits) and the sum of their logarithms (12 bits). Primes come in increasing order, so the count is
also the rank of the next one among the children of the tree. The primes up to 11 come from periodic
tables with their exponents; every prime from 13 on appends a child `10`; the few integers that p²
divides are noted with the rank of p and repaired at the end. What the logarithms leave missing from
log n is the one prime above √n.
"""

from functools import cache
from typing import Any

import numpy as np

from .. import trees
from ..compiled import inlined, kernel

# Below this a logarithm does not tell a missing prime from a rounded sum.
LEAST = 4096


def longest_segment_end(lo: int) -> int:
    """Where a segment that begins at lo has to end at the latest; docs/sieve.md derives it.

    One threshold, computed from lo, decides for the whole segment whether a prime is missing.
    """
    return lo * lo // 4


# The word of an integer begins with its head, the children of 2, 3, 5, 7 and 11. Two tables hold
# heads by n mod 2^6 3^2 5^2 and by n mod 7^2 11^2. Beyond v₂ = 6, and beyond exponent 3 of the
# others, a head has to be repaired (2 % of all integers); the exponents 2 and 3 give the same tree.
_PERIODS = (14400, 5929)
_IN_HEAD = 5

_COUNT = 12  # the bit at which the count begins
_LOG_ONE = 64  # log₂ in units of 1/64: below 2^63 their sum is at most 4051, and 12 bits hold it
_LOG_MASK = (1 << _COUNT) - 1
_TENS = 0x2AAAAAAAAAAAAAAA
# Primes are prepared this many at a time, by vector instructions.
_BATCH = 512


# `1 w(e) 0`, what a prime with exponent e adds to a word, and its length.
CHILDREN = np.array([0, *(trees.pack(f"1{trees.word(e)}0") for e in range(1, 64))], np.uint64)
LENGTHS = np.array([int(child).bit_length() for child in CHILDREN], np.uint64)


@cache
def tables() -> Any:
    """What `sieve_segment` looks up.

    By n mod the first period: head, its length, its logarithm. By n mod the second: the head, with
    its length from bit 16 on, and the logarithm. Then the child of every exponent and its length.
    """
    children, lengths = CHILDREN.astype(np.int64), LENGTHS.astype(np.int64)

    def head(powers: Any, period: int) -> Any:
        n = np.arange(period)
        words, logs = np.zeros(period, np.int64), np.zeros(period)
        for p, most in powers:
            exponents = sum((n % p**e == 0).astype(np.int64) for e in range(1, most + 1))
            words = (words << lengths[exponents]) | children[exponents]
            logs += exponents * np.log2(p)
        bits = np.array([int(word).bit_length() for word in words])
        return words, bits, np.round(_LOG_ONE * logs).astype(np.uint16)

    words, bits, logs = head(((2, 6), (3, 2), (5, 2)), _PERIODS[0])
    more_words, more_bits, more_logs = head(((7, 2), (11, 2)), _PERIODS[1])
    more_heads = (more_words | more_bits << 16).astype(np.uint32)
    return words.astype(np.uint32), bits, logs, more_heads, more_logs, children, lengths


@kernel
def _strike(composite: Any, start: Any, step: Any) -> Any:
    """Mark start, start + step, … and return where the next one would be."""
    i, step, end = np.uint64(start), np.uint64(step), np.uint64(len(composite))
    while i < end:
        composite[i] = True
        i += step
    return np.int64(i)


@kernel
def primes_to(limit: Any) -> Any:
    """The primes up to 2 ≤ limit < 2^32: Eratosthenes over the odd numbers, a stretch at a time."""
    root = np.int64(np.sqrt(limit)) + 1
    small = np.ones(root + 1, np.bool_)
    for p in range(3, root + 1, 2):
        if small[p]:
            small[p * p :: 2 * p] = False
    base = np.array([p for p in range(3, root + 1, 2) if small[p]])
    following = base * base // 2  # index of the next odd multiple to strike; n is odd number n // 2
    primes = np.empty(np.int64(1.2 * limit / np.log(limit)) + 100, np.uint32)
    primes[0] = 2
    count = 1
    stretch = 1 << 18
    composite = np.empty(stretch, np.bool_)
    end = (limit + 1) // 2
    for begin in range(0, end, stretch):
        composite[:] = False
        for k in range(len(base)):
            following[k] = begin + _strike(composite, following[k] - begin, base[k])
        for i in range(begin == 0, min(stretch, end - begin)):
            if not composite[i]:
                primes[count] = 2 * (begin + i) + 1
                count += 1
    return primes[:count]  # the rest was never touched and takes no memory


@kernel
def _first_multiples(lo: Any, primes: Any, power: Any, offsets: Any) -> Any:
    """Offsets from lo of the first multiple of each prime, or of its square.

    A remainder by floating-point reciprocals, in vector instructions: below 2^63 the first quotient
    misses some thousands at most, and the second one at most.
    """
    for t in range(len(primes)):
        q = np.int64(primes[t])
        q = q * q if power == 2 else q
        # A little less than 1 / q, so that neither quotient is too large and nothing overflows.
        inverse = (1 - 2.0**-50) / q
        r = lo - np.int64(lo * inverse) * q
        r -= np.int64(r * inverse) * q
        r -= q if r >= q else 0
        offsets[t] = q - r if r else 0


@kernel
def _add(acc: Any, start: Any, step: Any, amount: Any) -> Any:
    """acc[start::step] += amount; unsigned, so that no index is looked at for its sign."""
    i, step, m = np.uint64(start), np.uint64(step), np.uint64(len(acc))
    while i < m:
        acc[i] += amount
        i += step


@kernel
def _exponent(n: Any, p: Any) -> Any:
    e = 0
    while n % p == 0:
        n //= p
        e += 1
    return e


@kernel
def _sieve(lo: Any, primes: Any, acc: Any, patches: Any) -> Any:
    """Enter the primes into the accumulators; return how many patches were noted."""
    m = len(acc)
    noted = 0
    first = np.empty(_BATCH, np.int64)
    first_square = np.empty(_BATCH, np.int64)
    # Primes increase, so their rounded logarithm is counted up instead of computed.
    log, next_log = np.uint16(0), 2.0 ** (0.5 / _LOG_ONE)
    step = 2.0 ** (1 / _LOG_ONE)
    for begin in range(0, len(primes), _BATCH):
        batch = primes[begin : begin + _BATCH]
        _first_multiples(lo, batch, 1, first)
        # Of a large prime it is cheaper to ask, where it hits at all, whether its square does too.
        once = batch[0] >= max(m, 4096)
        if not once:
            _first_multiples(lo, batch, 2, first_square)
        for t in range(len(batch)):
            if first[t] >= m:
                continue
            p = np.int64(batch[t])
            while p >= next_log:
                log += np.uint16(1)
                next_log *= step
            square = p * p
            i = first_square[t]
            if once:
                n = lo + first[t]
                i = first[t] if np.int64(n / square + 0.5) * square == n else m
            if i < m:
                cube = (lo + i) // square % p
                hop = min(square, m)  # squares near 2^63 would overflow
                while i < m:
                    # Only every p-th multiple of p² needs divisions to find its exponent.
                    e = 2 if cube else _exponent(lo + i, p)
                    acc[i] += np.uint16((e - 1) * log)
                    if noted < len(patches):
                        patches[noted] = (i << 16) | (np.int64(acc[i] >> _COUNT) << 8) | e
                    noted += 1
                    i += hop
                    cube = cube + 1 if cube + 1 < p else 0
            _add(acc, first[t], p, np.uint16((1 << _COUNT) + log))
    return noted


@kernel
def _tail(a: Any, complete: Any) -> Any:
    """Binary digits that the primes from 13 on append, the one above the square root included."""
    return np.int64(2 * (a >> _COUNT) + 2 * ((a & _LOG_MASK) < complete))


@kernel
def _start(logs: Any, more_logs: Any, acc: Any) -> Any:
    for i in range(len(acc)):
        acc[i] = logs[i] + more_logs[i]


@kernel
def _compose(heads: Any, more_heads: Any, acc: Any, complete: Any, out: Any) -> Any:
    """Words of integers that no square of a prime above 11 divides; a loop of vector code."""
    for i in range(len(out)):
        a = acc[i]
        k = np.uint64(2 * (a >> _COUNT) + 2 * ((a & _LOG_MASK) < complete))
        tens = np.uint64(_TENS) & ((np.uint64(1) << k) - np.uint64(1))
        more = np.uint64(more_heads[i])
        head = (np.uint64(heads[i]) << (more >> np.uint64(16))) | (more & np.uint64(0xFFFF))
        out[i] = (head << k) | tens


@kernel
def _replace_child(word: Any, right: Any, old: Any, child: Any, length: Any) -> Any:
    """The word with the child that ends `right` digits from its end, and has `old`, replaced."""
    left = (np.int64(word) >> (right + old) << length) | child
    return (left << right) | (np.int64(word) & ((1 << right) - 1))


# Inlined, so that p is a constant of each copy and its divisions are multiplications.
@inlined
def _repair(
    p: Any, power: Any, old: Any, lo: Any, tables: Any, acc: Any, complete: Any, out: Any
) -> Any:
    """Give the multiples of p^power, a prime of the heads, the child of their true exponent."""
    _, bits, _, more_heads, _, children, lengths = tables
    q = p**power
    for i in range(-lo % q, len(out), q):
        n = lo + i
        right = _tail(acc[i], complete)
        if p <= 5:
            right += np.int64(more_heads[n % _PERIODS[1]] >> 16)
        if p == 2:
            right += np.int64(bits[n % _PERIODS[0]]) - old
        elif p == 3:
            right += 4 if n % 25 == 0 else 2 if n % 5 == 0 else 0
        elif p == 7:
            right += 4 if n % 121 == 0 else 2 if n % 11 == 0 else 0
        e = power
        n //= q
        while n % p == 0:
            n //= p
            e += 1
        out[i] = _replace_child(out[i], right, old, children[e], lengths[e])


@kernel
def sieve_segment(lo: Any, primes: Any, tables: Any, acc: Any, patches: Any, out: Any) -> Any:
    """The packed words of [lo, hi), hi = lo + len(out); returns the number of patches.

    The caller sees to it that LEAST ≤ lo, hi ≤ longest_segment_end(lo) and hi ≤ 2^63, that lo is a
    signed 64-bit integer, that `primes` holds 2, 3, 5, … up to √(hi − 1) at least, and that `acc`
    is as long as `out`. If the number returned is more than `patches` has room for, the words are
    not valid.
    """
    heads, _, logs, more_heads, more_logs, children, lengths = tables
    m = len(out)
    last = lo + (m - 1)  # in this order: lo + m may be 2^63

    # Logarithms of the heads from the tables; then what higher powers add to them.
    i = 0
    while i < m:
        j, k = (lo + i) % _PERIODS[0], (lo + i) % _PERIODS[1]
        step = min(_PERIODS[0] - j, _PERIODS[1] - k, m - i)
        _start(logs[j : j + step], more_logs[k : k + step], acc[i : i + step])
        i += step
    for p, q in ((2, 128), (3, 27), (5, 125), (7, 343), (11, 1331)):
        log = np.uint16(round(_LOG_ONE * np.log2(p)))
        while q <= last:
            _add(acc, -lo % q, q, log)
            if q > last // p:
                break
            q *= p

    end = np.searchsorted(primes, np.uint32(np.sqrt(last) + 1))
    while np.int64(primes[end - 1]) > last // np.int64(primes[end - 1]):
        end -= 1
    noted = _sieve(lo, primes[_IN_HEAD : max(_IN_HEAD, end)], acc, patches)

    # Words: the head, then a row of `10`.
    complete = np.uint16(_LOG_ONE * np.log2(lo) - _LOG_ONE / 2)
    i = 0
    while i < m:
        j, k = (lo + i) % _PERIODS[0], (lo + i) % _PERIODS[1]
        step = min(_PERIODS[0] - j, _PERIODS[1] - k, m - i)
        _compose(
            heads[j : j + step],
            more_heads[k : k + step],
            acc[i : i + step],
            complete,
            out[i : i + step],
        )
        i += step

    # Powers beyond the tables, from left to right, so that what stands to the right of a child is
    # still as the tables have it. After the power: how long the child is in the tables.
    _repair(2, 7, 6, lo, tables, acc, complete, out)
    _repair(3, 4, 4, lo, tables, acc, complete, out)
    _repair(5, 4, 4, lo, tables, acc, complete, out)
    _repair(7, 4, 4, lo, tables, acc, complete, out)
    _repair(11, 4, 4, lo, tables, acc, complete, out)
    # Squares of primes from 13 on, again from left to right: noted in the order of the primes.
    for t in range(min(noted, len(patches))):
        i, rank, e = patches[t] >> 16, (patches[t] >> 8) & 255, patches[t] & 255
        right = _tail(acc[i], complete) - 2 * (rank + 1)
        out[i] = _replace_child(out[i], right, 2, children[e], lengths[e])
    return noted
