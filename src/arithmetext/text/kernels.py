"""The compiled kernels of the sieve; docs/sieve.md explains the algorithm and its cost.

The idea: the word of n needs only the exponents of its primes in increasing order, not the primes
themselves. Each integer of a segment has one 16-bit accumulator: how many of its primes from 13 on
the sieve has found so far (4 bits), and the sum of the logarithms of all primes found so far (12
bits).

- Exponents of 2, 3, 5, 7 and 11 come from two periodic tables.
- Each prime from 13 to √n is one addition to the accumulator of every multiple. It adds the child
  `10` to the word. Primes come in increasing order, so the number found so far is also the
  position of the next child.
- If p² divides n, the child is not `10`. The sieve notes these 2 % of the integers as patches, with
  the position of the child, and replaces the child at the end.
- At most one prime is larger than √n. It exists if the logarithms in the accumulator do not add up
  to log n.

Cost at 10^10: 1.5 additions per integer, 1.55 ns on one core. Memory: 2 bytes per integer for the
accumulators, 8 for the word.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from .. import trees
from ..compiled import inlined, kernel

# The first integer that the kernels can sieve. Below it, a sum of rounded logarithms cannot tell
# whether a prime is missing.
SIEVE_FROM = 4096

# The most patches of an integer: the squares of seven primes from 13 on exceed 2^63.
MOST_PATCHES = 6


def longest_segment_end(lo: int) -> int:
    """The largest hi for a segment [lo, hi); docs/sieve.md derives it.

    One threshold, computed from lo, decides for the whole segment whether a prime is missing.
    """
    return lo * lo // 4


# The word of an integer begins with its head, the children of 2, 3, 5, 7 and 11. One table holds
# the children of 2, 3 and 5 by n mod 2^6·3^2·5^2, the other the children of 7 and 11 by n mod
# 7^2·11^2. Both are right up to exponent 6 of 2 and up to exponent 3 of the other primes (exponents
# 2 and 3 give the same child). The sieve repairs the other heads, 2 % of all, at the end.
_PERIODS = (14400, 5929)
_HEAD_PRIMES = 5

_COUNT_BIT = 12  # the accumulator's bit at which the number of primes begins
_LOG_MASK = (1 << _COUNT_BIT) - 1
_LOG_UNIT = 64  # logarithms are 64 log₂ p, rounded: below 2^63 their sum is at most 4051 < 2^12
_TENS = 0x2AAAAAAAAAAAAAAA  # 1010…10
_BATCH = 512  # primes whose first multiples are computed together, by vector instructions


# By exponent e: the child of a prime with this exponent, `1 w(e) 0`, and its length in digits.
CHILDREN = np.array([0, *(trees.pack(f"1{trees.word(e)}0") for e in range(1, 64))], np.uint64)
CHILD_LENGTHS = np.array([int(child).bit_length() for child in CHILDREN], np.uint64)


class SieveTables(NamedTuple):
    """The tables of `sieve_segment`. Lengths are in binary digits, logarithms in 64ths of a bit."""

    heads_2_3_5: Any  # uint32 [14400]: the children of 2, 3 and 5 in the word of n, by n mod 14400
    lengths_2_3_5: Any  # int64 [14400]: the length of these children
    logs_2_3_5: Any  # uint16 [14400]: the logarithm of the part of n that is 2^a 3^b 5^c
    heads_7_11: Any  # uint32 [5929]: the children of 7 and 11 (low 16 bits), their length (high)
    logs_7_11: Any  # uint16 [5929]: the logarithm of the part of n that is 7^a 11^b
    children: Any  # int64 [64]: the child of a prime, by its exponent
    child_lengths: Any  # int64 [64]: the length of each child


@cache
def tables() -> SieveTables:
    """The tables of the sieve, 238 kB, computed once."""
    children, lengths = CHILDREN.astype(np.int64), CHILD_LENGTHS.astype(np.int64)

    def children_of(powers: Any, period: int) -> Any:
        n = np.arange(period)
        words, logs = np.zeros(period, np.int64), np.zeros(period)
        for p, most in powers:
            exponents = sum((n % p**e == 0).astype(np.int64) for e in range(1, most + 1))
            words = (words << lengths[exponents]) | children[exponents]
            logs += exponents * np.log2(p)
        digits = np.array([int(word).bit_length() for word in words])
        return words, digits, np.round(_LOG_UNIT * logs).astype(np.uint16)

    heads_2_3_5, lengths_2_3_5, logs_2_3_5 = children_of(((2, 6), (3, 2), (5, 2)), _PERIODS[0])
    heads_7_11, lengths_7_11, logs_7_11 = children_of(((7, 2), (11, 2)), _PERIODS[1])
    return SieveTables(
        heads_2_3_5.astype(np.uint32),
        lengths_2_3_5,
        logs_2_3_5,
        (heads_7_11 | lengths_7_11 << 16).astype(np.uint32),
        logs_7_11,
        children,
        lengths,
    )


@kernel
def _strike(composite: Any, start: Any, step: Any) -> Any:
    """Mark start, start + step, … and return the first index past the end."""
    i, step, end = np.uint64(start), np.uint64(step), np.uint64(len(composite))
    while i < end:
        composite[i] = True
        i += step
    return np.int64(i)


@kernel
def primes_to(limit: Any) -> Any:
    """The primes up to 2 ≤ limit < 2^32, by a segmented sieve of Eratosthenes over odd numbers."""
    root = np.int64(np.sqrt(limit)) + 1
    small = np.ones(root + 1, np.bool_)
    for p in range(3, root + 1, 2):
        if small[p]:
            small[p * p :: 2 * p] = False
    base = np.array([p for p in range(3, root + 1, 2) if small[p]])
    following = base * base // 2  # index of the next odd multiple to strike; odd n has index n // 2
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
    return primes[:count]  # pages never written to take no memory


@kernel
def _first_multiples(lo: Any, primes: Any, power: Any, offsets: Any) -> Any:
    """Offsets from lo of the first multiple of each prime, or of its square if power is 2.

    Computes remainders with floating-point reciprocals, in vector instructions. For lo < 2^63 the
    first quotient is at most a few thousand too small, and the second at most one.
    """
    for t in range(len(primes)):
        q = np.int64(primes[t])
        q = q * q if power == 2 else q
        # Slightly below 1 / q: the quotients are never too large, and nothing overflows.
        inverse = (1 - 2.0**-50) / q
        r = lo - np.int64(lo * inverse) * q
        r -= np.int64(r * inverse) * q
        r -= q if r >= q else 0
        offsets[t] = q - r if r else 0


@kernel
def _add(acc: Any, start: Any, step: Any, amount: Any) -> Any:
    """acc[start::step] += amount. Unsigned indices spare numba's test for negative ones."""
    i, step, m = np.uint64(start), np.uint64(step), np.uint64(len(acc))
    while i < m:
        acc[i] += amount
        i += step


@kernel
def _exponent(n: Any, p: Any) -> Any:
    """The exponent of p in n."""
    e = 0
    while n % p == 0:
        n //= p
        e += 1
    return e


@kernel
def _sieve(lo: Any, primes: Any, acc: Any, patches: Any) -> Any:
    """Add every prime to the accumulators of its multiples; return the number of patches.

    A patch is one integer that p² divides, packed into 64 bits: its offset, then in 8 bits each the
    number of primes from 13 on before p, and the exponent of p.
    """
    m = len(acc)
    noted = 0
    first = np.empty(_BATCH, np.int64)
    first_square = np.empty(_BATCH, np.int64)
    # Primes increase, so their rounded logarithm is incremented, not computed.
    log, next_log = np.uint16(0), 2.0 ** (0.5 / _LOG_UNIT)
    step = 2.0 ** (1 / _LOG_UNIT)
    for begin in range(0, len(primes), _BATCH):
        batch = primes[begin : begin + _BATCH]
        _first_multiples(lo, batch, 1, first)
        # A prime ≥ m has at most one multiple in the segment. Testing whether p² divides it is
        # cheaper than computing the first multiple of p².
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
                    # Only every p-th multiple of p² has a higher exponent than 2.
                    e = 2 if cube else _exponent(lo + i, p)
                    acc[i] += np.uint16((e - 1) * log)
                    if noted < len(patches):
                        patches[noted] = (i << 16) | (np.int64(acc[i] >> _COUNT_BIT) << 8) | e
                    noted += 1
                    i += hop
                    cube = cube + 1 if cube + 1 < p else 0
            _add(acc, first[t], p, np.uint16((1 << _COUNT_BIT) + log))
    return noted


@kernel
def _tail_length(a: Any, complete: Any) -> Any:
    """How many digits the primes from 13 on add to a word, counting each as `10`.

    If the logarithms in the accumulator `a` are below `complete`, a prime above √n is missing.
    """
    return np.int64(2 * (a >> _COUNT_BIT) + 2 * ((a & _LOG_MASK) < complete))


@kernel
def _start_accumulators(logs_2_3_5: Any, logs_7_11: Any, acc: Any) -> Any:
    for i in range(len(acc)):
        acc[i] = logs_2_3_5[i] + logs_7_11[i]


@kernel
def _compose(heads_2_3_5: Any, heads_7_11: Any, acc: Any, complete: Any, out: Any) -> Any:
    """Write the words as if all primes above 11 had exponent 1; compiles to vector instructions."""
    for i in range(len(out)):
        a = acc[i]
        k = np.uint64(2 * (a >> _COUNT_BIT) + 2 * ((a & _LOG_MASK) < complete))
        tens = np.uint64(_TENS) & ((np.uint64(1) << k) - np.uint64(1))
        second = np.uint64(heads_7_11[i])
        head = (np.uint64(heads_2_3_5[i]) << (second >> np.uint64(16))) | (
            second & np.uint64(0xFFFF)
        )
        out[i] = (head << k) | tens


@kernel
def _replace_child(word: Any, right: Any, old: Any, child: Any, length: Any) -> Any:
    """Replace the child of `old` digits that has `right` digits after it in the word."""
    left = (np.int64(word) >> (right + old) << length) | child
    return (left << right) | (np.int64(word) & ((1 << right) - 1))


# Inlined: p is a constant in each copy, so divisions by it become multiplications.
@inlined
def _repair_heads(
    p: Any, power: Any, old: Any, lo: Any, tables: Any, acc: Any, complete: Any, out: Any
) -> Any:
    """Correct the child of p, one of 2, 3, 5, 7, 11, in the words of the multiples of p^power.

    The tables give this child `old` digits.
    """
    q = p**power
    for i in range(-lo % q, len(out), q):
        n = lo + i
        right = _tail_length(acc[i], complete)
        if p <= 5:
            right += np.int64(tables.heads_7_11[n % _PERIODS[1]] >> 16)
        if p == 2:
            right += np.int64(tables.lengths_2_3_5[n % _PERIODS[0]]) - old
        elif p == 3:
            right += 4 if n % 25 == 0 else 2 if n % 5 == 0 else 0
        elif p == 7:
            right += 4 if n % 121 == 0 else 2 if n % 11 == 0 else 0
        e = power
        n //= q
        while n % p == 0:
            n //= p
            e += 1
        out[i] = _replace_child(out[i], right, old, tables.children[e], tables.child_lengths[e])


@kernel
def sieve_segment(lo: Any, primes: Any, tables: Any, acc: Any, patches: Any, out: Any) -> Any:
    """Write the packed words of [lo, hi) to `out`, hi = lo + len(out); return the patches needed.

    If the number returned is larger than len(patches), the words are not valid.

    The caller guarantees that SIEVE_FROM ≤ lo, hi ≤ longest_segment_end(lo) and hi ≤ 2^63, that lo
    is a signed 64-bit integer, that `primes` holds 2, 3, 5, … up to √(hi − 1) at least, and that
    `acc` is as long as `out`.
    """
    m = len(out)
    last = lo + (m - 1)  # in this order: lo + m may be 2^63

    # The logarithms of the heads, from the tables; then the logarithms of higher powers.
    i = 0
    while i < m:
        j, k = (lo + i) % _PERIODS[0], (lo + i) % _PERIODS[1]
        step = min(_PERIODS[0] - j, _PERIODS[1] - k, m - i)
        _start_accumulators(
            tables.logs_2_3_5[j : j + step], tables.logs_7_11[k : k + step], acc[i : i + step]
        )
        i += step
    for p, q in ((2, 128), (3, 27), (5, 125), (7, 343), (11, 1331)):
        log = np.uint16(round(_LOG_UNIT * np.log2(p)))
        while q <= last:
            _add(acc, -lo % q, q, log)
            if q > last // p:
                break
            q *= p

    end = np.searchsorted(primes, np.uint32(np.sqrt(last) + 1))
    while np.int64(primes[end - 1]) > last // np.int64(primes[end - 1]):
        end -= 1
    noted = _sieve(lo, primes[_HEAD_PRIMES : max(_HEAD_PRIMES, end)], acc, patches)

    # The words: the head, then one `10` for each prime from 13 on.
    complete = np.uint16(_LOG_UNIT * np.log2(lo) - _LOG_UNIT / 2)
    i = 0
    while i < m:
        j, k = (lo + i) % _PERIODS[0], (lo + i) % _PERIODS[1]
        step = min(_PERIODS[0] - j, _PERIODS[1] - k, m - i)
        _compose(
            tables.heads_2_3_5[j : j + step],
            tables.heads_7_11[k : k + step],
            acc[i : i + step],
            complete,
            out[i : i + step],
        )
        i += step

    # Exponents beyond the tables, from left to right: the children to the right of the repaired one
    # still have the lengths in the tables. Arguments: p, the power, and the length of the child of
    # p in the tables.
    _repair_heads(2, 7, 6, lo, tables, acc, complete, out)
    _repair_heads(3, 4, 4, lo, tables, acc, complete, out)
    _repair_heads(5, 4, 4, lo, tables, acc, complete, out)
    _repair_heads(7, 4, 4, lo, tables, acc, complete, out)
    _repair_heads(11, 4, 4, lo, tables, acc, complete, out)
    # Squares of primes from 13 on. Patches come in the order of the primes, so again from left to
    # right.
    for t in range(min(noted, len(patches))):
        i, rank, e = patches[t] >> 16, (patches[t] >> 8) & 255, patches[t] & 255
        right = _tail_length(acc[i], complete) - 2 * (rank + 1)
        out[i] = _replace_child(out[i], right, 2, tables.children[e], tables.child_lengths[e])
    return noted


@kernel
def sieve_windows(starts: Any, primes: Any, tables: Any, out: Any) -> Any:
    """Write the packed words of windows of equal length to the rows of `out`, [windows, length].

    Each window and `primes` satisfy the conditions of `sieve_segment`.
    """
    acc = np.empty(out.shape[1], np.uint16)
    patches = np.empty(MOST_PATCHES * out.shape[1], np.int64)  # untouched pages cost nothing
    for k in range(len(starts)):
        sieve_segment(starts[k], primes, tables, acc, patches, out[k])
