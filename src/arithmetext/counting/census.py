"""The census: the exact count of every word of 2..x, without visiting the integers.

Write n > 1 as m·q with q its largest prime, and let pᵢ, the i-th prime, be the largest of m. Either
q = pᵢ, or n is one of π(x/m) − i integers that all have the word of m followed by `10`. So every
word is counted by walking over the m with m·pᵢ ≤ x, each of which adds

    π(x/m) − i    to the word of m followed by `10`, and
    1             to the word of m·pᵢ.

The walk goes down from m to m·p^e, p > pᵢ. Almost all of it is its last step: the children m·p with
p² ≤ x/m < p³ have no children of their own, they share one word, and their counts are summed in a
flat loop over consecutive primes. That loop runs about x^(3/4) / 5 times: 10⁹ for x = 10¹³.

π is needed at the quotients of x only. Up to a small multiple of √x it is read from a sieve, in one
load of 64 bits. Above, it comes from Legendre's recurrence, one prime p ≤ √v at a time,

    φ(v, p) = φ(v, p − 1) − (φ(v/p, p − 1) − π(p − 1)),    π(v) = φ(v, √v),

where φ(v, p) counts the integers of 2..v that are prime or have no prime factor ≤ p. A small v/p is
looked up in the finished sieve if v/p < p², where φ is already π, and otherwise in a second one
that strikes out the multiples of p in step. All this takes less than a third of the whole time.
"""

import os
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from math import fsum, isqrt, log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..errors import InputError
from ..progress import progress
from ..text.kernels import CHILD_LENGTHS, CHILDREN
from ..trees import factor, packed
from .dictionary import dictionary_size

LARGEST = 10**18

# π is sieved up to this multiple of √x: larger makes the sieve slower, smaller the recurrence.
_SIEVED = 32
# Every m up to here is a task of its own. Enough tasks for many threads, each of them still long.
_TASKS = 1000
# No integer up to LARGEST has more distinct primes.
_MOST_PRIMES = 15
# Below this, a quotient by a prime is exact as a product of floats; see `_divide`.
_EXACT = 1 << 50

_U = np.uint64
_Words = NDArray[np.uint64]
_Integers = NDArray[np.int64]


def census(x: int, *, threads: int | None = None) -> dict[int, int]:
    """How often each word occurs among 2..x, by packed word, the most frequent first.

    On one core 0.2 s at 10^11, 0.7 s at 10^12, 3 s at 10^13, then five times longer for every
    further digit. The result does not depend on the number of threads (None: one for each core).

    >>> census(12)
    {2: 5, 12: 3, 10: 2, 50: 1}
    """
    check_bound(x)
    threads = threads or os.cpu_count() or 1
    # Never waited for: after an interrupt the caller goes on, and the threads find nothing to do.
    pool = ThreadPoolExecutor(threads)
    with progress("counting primes", 1):  # by one kernel: the bar only says what is being done
        cells, large, primes = pool.submit(_tabulate, x).result()
    inverses = 1 / primes
    # On the way down, the stack holds the children of at most _MOST_PRIMES nodes, none of which has
    # more than the root: the p^e with p^(e+2) ≤ x.
    depth = _MOST_PRIMES * sum(
        int(np.searchsorted(primes, x ** (1 / k) + 1)) for k in range(3, x.bit_length() + 1)
    )
    size = 1 << (2 * dictionary_size(x)).bit_length()
    total = min(_TASKS, isqrt(x))
    tasks = iter(range(1, total + 1))

    def work() -> tuple[_Words, _Integers]:
        """Do tasks as long as there are any, counting into a hash table of this thread's own."""
        words, counts = np.zeros(size, np.uint64), np.zeros(size, np.int64)
        stack, stack_of_words = np.empty((depth + 1, 3), np.int64), np.empty(depth + 1, np.uint64)
        for m in tasks:
            last = factor(m)[-1][0] if m > 1 else 1
            stack[0] = m, x // m, np.searchsorted(primes, last, side="right")
            stack_of_words[0] = packed(m)
            _walk(cells, large, primes, inverses, total, stack, stack_of_words, words, counts)
            advance()
        return words, counts

    with progress("census", total) as advance:
        try:
            found = [future.result() for future in [pool.submit(work) for _ in range(threads)]]
        finally:
            for _ in tasks:
                pass
            pool.shutdown(wait=False)
    merged = Counter({packed(2): _pi(cells, large, 1, x)})
    for words, counts in found:
        for slot in np.flatnonzero(words):
            merged[int(words[slot])] += int(counts[slot])
    return dict(sorted(merged.items(), key=lambda item: (-item[1], item[0])))


def check_bound(x: int) -> None:
    """Refuse a census that cannot be made."""
    if not 2 <= x <= LARGEST:
        raise InputError(f"the census is of 2..x with x from 2 to 10^18, not {x}")


def unigram_entropy(counts: Mapping[int, int]) -> float:
    """Bits in one word drawn at random from a census."""
    total = sum(counts.values())
    return fsum(count / total * log2(total / count) for count in counts.values())


def _tabulate(x: int) -> tuple[_Words, _Integers, _Integers]:
    """The cells of the sieve, π(x/k) for the k with x/k beyond them, and the primes."""
    root = isqrt(x)
    cells = _sieve(_SIEVED * root)
    # By Bertrand's postulate these include the successor of every prime ≤ √x.
    primes = _list_primes(cells, 2 * root)
    return cells, _large_pi(x, _SIEVED * root, cells, primes), primes


@kernel
def _popcount(bits: Any) -> Any:
    """LLVM knows this sequence for the one instruction that it is."""
    bits -= bits >> _U(1) & _U(0x5555555555555555)
    bits = (bits & _U(0x3333333333333333)) + (bits >> _U(2) & _U(0x3333333333333333))
    bits = (bits + (bits >> _U(4))) & _U(0x0F0F0F0F0F0F0F0F)
    return (bits * _U(0x0101010101010101)) >> _U(56)


@kernel
def _sieve(limit: int) -> _Words:
    """Cells of 32 odd numbers: a bit for each that is prime and, above, π before the first."""
    cells = np.full((limit >> 6) + 1, _U(0xFFFFFFFF))
    cells[0] -= _U(1)  # 1 is no prime
    p = 3
    while p * p <= limit:
        if _is_prime(cells, p):
            for half in range(p * p >> 1, len(cells) << 5, p):
                cells[half >> 5] &= ~(_U(1) << _U(half & 31))
        p += 2
    before = _U(1)  # the prime 2
    for cell in range(len(cells)):
        flags = cells[cell]
        cells[cell] |= before << _U(32)
        before += _popcount(flags)
    return cells


@kernel
def _is_prime(cells: _Words, odd: int) -> Any:
    return cells[odd >> 6] >> _U(odd >> 1 & 31) & _U(1)


@kernel
def _small_pi(cells: _Words, v: int) -> Any:
    """π(v) for 2 ≤ v within the cells."""
    half = (v - 1) >> 1
    cell = cells[_U(half >> 5)]  # unsigned spares a test for negative indices
    return np.int64((cell >> _U(32)) + _popcount(cell << _U(63 - (half & 31))))


@kernel
def _list_primes(cells: _Words, limit: int) -> _Integers:
    primes = np.empty(_small_pi(cells, limit), np.int64)
    primes[0] = 2
    found = 1
    for odd in range(3, limit + 1, 2):
        if _is_prime(cells, odd):
            primes[found] = odd
            found += 1
    return primes


@kernel
def _large_pi(x: int, limit: int, cells: _Words, primes: _Integers) -> _Integers:
    """π(x/k) for every k with x/k > limit, by Legendre's recurrence; see the top."""
    # The sieve in step: one bit for each odd number, and how many are left in blocks of 4 × 64.
    blocks = (limit >> 9) + 1
    bits = np.full(blocks * 4, ~_U(0))
    bits[0] -= _U(1)
    left = np.full(blocks, 256, np.int32)
    left[0] -= 1
    before = np.empty(blocks, np.int64)

    last = x // (limit + 1)
    large = np.empty(last + 1, np.int64)
    inverses = 1 / np.arange(last + 1)
    for k in range(1, last + 1):
        large[k] = (x // k + 1) >> 1  # 2 and the odd numbers from 3
    for rank in range(1, len(primes)):
        p = primes[rank]
        if p * p > x:
            break
        y = x // p
        end = min(last, y // p)
        in_large = min(end, last // p)
        in_step = max(in_large, min(end, y // p // p))
        for k in range(1, in_large + 1):
            large[k] -= large[k * p] - rank
        if in_large < in_step:
            total = 1
            for block in range((y // (in_large + 1) >> 9) + 1):
                before[block] = total
                total += left[block]
            for k in range(in_large + 1, in_step + 1):
                half = (_divide(y, k, inverses[k]) - 1) >> 1
                count = _popcount(bits[half >> 6] << _U(63 - (half & 63)))
                for i in range(half >> 8 << 2, half >> 6):
                    count += _popcount(bits[i])
                large[k] -= before[half >> 8] + np.int64(count) - rank
        for k in range(in_step + 1, end + 1):
            large[k] -= _small_pi(cells, _divide(y, k, inverses[k])) - rank
        if p * p <= limit:
            for half in range(p * p >> 1, (limit + 1) >> 1, p):
                bit = bits[half >> 6] >> _U(half & 63) & _U(1)
                bits[half >> 6] ^= bit << _U(half & 63)
                left[half >> 8] -= np.int32(bit)
    return large


@kernel
def _divide(v: int, k: int, inverse: float) -> int:
    """⌊v/k⌋ for 1/k rounded to a float.

    (v + ½)/k is at least ½/k away from any integer, more than the two roundings below amount to.
    """
    return int((v + 0.5) * inverse) if v < _EXACT else v // k


@kernel
def _pi(cells: _Words, large: _Integers, m: int, v: int) -> Any:
    """π(v) for v = ⌊x/m⌋ ≥ 2."""
    return large[m] if m < len(large) else _small_pi(cells, v)


@kernel
def _walk(
    cells: _Words,
    large: _Integers,
    primes: _Integers,
    inverses: NDArray[np.float64],
    others: int,
    stack: _Integers,
    stack_of_words: _Words,
    words: _Words,
    counts: _Integers,
) -> None:
    """Count all that lies below the node on the stack, except below nodes ≤ others.

    A node is m, ⌊x/m⌋, how many primes there are up to the largest one of m, and the word of m.
    """
    top = 1
    while top:
        top -= 1
        m, v, i = stack[top]
        word = stack_of_words[top]
        end = _pi_of_root(cells, v)
        if end <= i:
            continue
        several = _sum_of_pi(cells, large, primes, inverses, m, v, i, end)
        several -= (end * (end + 1) - i * (i + 1)) >> 1
        _add(words, counts, word << _U(4) | _U(0b1010), several)
        _add(words, counts, word << _U(4) | _U(0b1100), end - i)
        for j in range(i, end):
            p = primes[j]
            rest = v // p
            if rest < p * p:
                break
            successor = primes[j + 1]
            child = m * p
            e = 1
            while rest >= p:
                child_word = word << CHILD_LENGTHS[e] | CHILDREN[e]
                if e > 1:  # e = 1 was counted above for all j at once
                    primes_beyond = _pi(cells, large, child, rest) - (j + 1)
                    _add(words, counts, child_word << _U(2) | _U(0b10), primes_beyond)
                    _add(words, counts, word << CHILD_LENGTHS[e + 1] | CHILDREN[e + 1], 1)
                if rest >= successor * successor and child > others:
                    stack[top] = child, rest, j + 1
                    stack_of_words[top] = child_word
                    top += 1
                rest //= p
                child *= p
                e += 1


@kernel
def _pi_of_root(cells: _Words, v: int) -> Any:
    """π(√v)."""
    root = int(np.sqrt(v))
    root -= root * root > v  # a large v may have been rounded up
    return _small_pi(cells, root) if root > 1 else 0


@kernel
def _sum_of_pi(
    cells: _Words,
    large: _Integers,
    primes: _Integers,
    inverses: NDArray[np.float64],
    m: int,
    v: int,
    i: int,
    end: int,
) -> Any:
    """The sum of π(v/p), v = ⌊x/m⌋, over the primes number i + 1 to end."""
    total = 0
    j = i
    while j < end and m * primes[j] < len(large):
        total += large[m * primes[j]]
        j += 1
    if v < _EXACT:
        # `_divide` without its choice, so that the compiler makes vector instructions of the loop.
        for k in range(j, end):
            total += _small_pi(cells, int((v + 0.5) * inverses[k]))
    else:
        for k in range(j, end):
            total += _small_pi(cells, v // primes[k])
    return total


@kernel
def _add(words: _Words, counts: _Integers, word: Any, count: Any) -> None:
    """Count a word in the hash table, which has room for every word there is."""
    if count == 0:  # then the word may be too long to exist
        return
    mask = _U(len(words) - 1)
    slot = word * _U(0x9E3779B97F4A7C15) >> _U(32) & mask
    while words[slot] != word:
        if words[slot] == 0:
            words[slot] = word
            break
        slot = slot + _U(1) & mask
    counts[slot] += count
