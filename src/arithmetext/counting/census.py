"""The census: count every word of 2..x exactly, without visiting the integers.

Write n > 1 as m·q where q is its largest prime, and let pᵢ, the i-th prime, be the largest prime of
m. Either q = pᵢ, or n is one of π(x/m) − i integers whose word is the word of m followed by `10`.
So the census walks over all m with m·pᵢ ≤ x, and each m adds

    π(x/m) − i    to the count of the word of m followed by `10`, and
    1             to the count of the word of m·pᵢ.

The walk goes from m to its children m·p^e with p > pᵢ. Its last step takes almost all of the time:
the children m·p with p² ≤ x/m < p³ have no children of their own and share one word, so their
counts are summed in a flat loop over consecutive primes. This loop runs about x^(3/4) / 5 times:
10⁹ times for x = 10¹³.

π is needed only at the quotients x/m. Up to 32 √x it is read from a sieve, with one 64-bit load.
Above, it comes from Legendre's recurrence, one prime p ≤ √v at a time,

    φ(v, p) = φ(v, p − 1) − (φ(v/p, p − 1) − π(p − 1)),    π(v) = φ(v, √v),

where φ(v, p) counts the integers of 2..v that are prime or have no prime factor ≤ p. For a small
v/p there are two cases. If v/p < p², φ is already π and is read from the finished sieve. Otherwise
it is read from a second sieve, from which the multiples of p are struck out in step with the
recurrence. All this takes less than a third of the total time.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from math import fsum, isqrt, log2
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..display import drawn
from ..errors import InputError
from ..progress import progress
from ..text.kernels import CHILD_LENGTHS, CHILDREN
from ..trees import factor, packed
from .dictionary import dictionary_size

CENSUS_LIMIT = 10**18

# π is sieved up to this multiple of √x. A larger multiple makes the sieve slower, a smaller
# multiple the recurrence.
_SIEVED = 32
# The subtree below each m ≤ _TASKS is a task of its own: enough tasks for many threads, and each is
# still long.
_TASKS = 1000
# No integer up to CENSUS_LIMIT has more distinct primes.
_MOST_PRIMES = 15
# Below this, `_divide` computes quotients exactly in floating point.
_EXACT = 1 << 50

_U = np.uint64
_Words = NDArray[np.uint64]
_Integers = NDArray[np.int64]


class _PrimeCounts(NamedTuple):
    """π at every quotient of x, and the primes up to 2 √x."""

    cells: _Words  # π(v) for v ≤ 32 √x: see `_sieve`
    large: _Integers  # [k]: π(x/k), for the k ≥ 1 with x/k beyond the cells
    primes: _Integers
    inverses: NDArray[np.float64]  # 1 / primes


class Census(dict[int, int]):
    """The number of times that each packed word occurs among 2..x, the most frequent first."""

    def __init__(self, x: int, counts: Iterable[tuple[int, int]]) -> None:
        super().__init__(counts)
        self.x = x

    @property
    def entropy(self) -> float:
        """The entropy, in bits, of one word drawn at random."""
        return unigram_entropy(self)

    def _repr_html_(self) -> str:
        return drawn("html.census", self)


def census(x: int, *, threads: int | None = None) -> Census:
    """How often each packed word occurs among 2..x, the most frequent first.

    On one core this takes 0.2 s at 10^11, 0.7 s at 10^12, 3 s at 10^13, and five times longer for
    every further digit. `threads` is one for each core by default.

    >>> census(12)
    {2: 5, 12: 3, 10: 2, 50: 1}
    """
    check_bound(x)
    threads = threads or os.cpu_count() or 1
    # Not a context manager, which would wait for the threads after an interrupt. The threads end by
    # themselves, because the `finally` below takes all tasks away.
    pool = ThreadPoolExecutor(threads)
    with progress("counting primes", 1):  # one kernel: the bar cannot advance, only name the work
        pi = pool.submit(_tabulate, x).result()
    # The stack holds the children of at most _MOST_PRIMES nodes. No node has more children than the
    # root, which has one for each p^e with p^(e+2) ≤ x.
    depth = _MOST_PRIMES * sum(
        int(np.searchsorted(pi.primes, x ** (1 / k) + 1)) for k in range(3, x.bit_length() + 1)
    )
    size = 1 << (2 * dictionary_size(x)).bit_length()
    total = min(_TASKS, isqrt(x))
    tasks = iter(range(1, total + 1))

    def work() -> tuple[_Words, _Integers]:
        """Take tasks until none is left; count words in a hash table of this thread."""
        words, counts = np.zeros(size, np.uint64), np.zeros(size, np.int64)
        stack, stack_of_words = np.empty((depth + 1, 3), np.int64), np.empty(depth + 1, np.uint64)
        for m in tasks:
            last = factor(m)[-1][0] if m > 1 else 1
            stack[0] = m, x // m, np.searchsorted(pi.primes, last, side="right")
            stack_of_words[0] = packed(m)
            _walk(pi, total, stack, stack_of_words, words, counts)
            advance()
        return words, counts

    with progress("census", total) as advance:
        try:
            tables = [future.result() for future in [pool.submit(work) for _ in range(threads)]]
        finally:
            for _ in tasks:
                pass
            pool.shutdown(wait=False)
    merged = Counter({packed(2): _pi(pi.cells, pi.large, 1, x)})
    for words, counts in tables:
        for slot in np.flatnonzero(words):
            merged[int(words[slot])] += int(counts[slot])
    return Census(x, sorted(merged.items(), key=lambda item: (-item[1], item[0])))


def check_bound(x: int) -> None:
    if not 2 <= x <= CENSUS_LIMIT:
        raise InputError(f"a census is made of 2..x for x from 2 to 10^18, not {x}")


def unigram_entropy(counts: Mapping[int, int]) -> float:
    """The entropy, in bits, of one word drawn at random from a census."""
    total = sum(counts.values())
    return fsum(count / total * log2(total / count) for count in counts.values())


def _tabulate(x: int) -> _PrimeCounts:
    root = isqrt(x)
    cells = _sieve(_SIEVED * root)
    # By Bertrand's postulate these primes include the successor of every prime ≤ √x.
    primes = _list_primes(cells, 2 * root)
    return _PrimeCounts(cells, _large_pi(x, _SIEVED * root, cells, primes), primes, 1 / primes)


@kernel
def _popcount(bits: Any) -> Any:
    """The number of ones in 64 bits. LLVM compiles this to one instruction."""
    bits -= bits >> _U(1) & _U(0x5555555555555555)
    bits = (bits & _U(0x3333333333333333)) + (bits >> _U(2) & _U(0x3333333333333333))
    bits = (bits + (bits >> _U(4))) & _U(0x0F0F0F0F0F0F0F0F)
    return (bits * _U(0x0101010101010101)) >> _U(56)


@kernel
def _sieve(limit: int) -> _Words:
    """The primes up to `limit` in cells of 64 bits, one for every 32 odd numbers.

    The low 32 bits tell which of the odd numbers are prime. The high 32 bits hold the number of
    primes before the first odd number of the cell.
    """
    cells = np.full((limit >> 6) + 1, _U(0xFFFFFFFF))
    cells[0] -= _U(1)  # 1 is not prime
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
    cell = cells[_U(half >> 5)]  # unsigned indices spare numba's test for negative ones
    return np.int64((cell >> _U(32)) + _popcount(cell << _U(63 - (half & 31))))


@kernel
def _list_primes(cells: _Words, limit: int) -> _Integers:
    primes = np.empty(_small_pi(cells, limit), np.int64)
    primes[0] = 2
    count = 1
    for odd in range(3, limit + 1, 2):
        if _is_prime(cells, odd):
            primes[count] = odd
            count += 1
    return primes


@kernel
def _large_pi(x: int, limit: int, cells: _Words, primes: _Integers) -> _Integers:
    """π(x/k) for every k with x/k > limit, by the recurrence at the top of this file."""
    # The second sieve: one bit for each odd number, and the number of bits left in each block of
    # 4 × 64.
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
    """⌊v/k⌋, where `inverse` is 1/k as a float.

    (v + ½)/k is at least ½/k away from any integer, which is more than the two rounding errors.
    """
    return int((v + 0.5) * inverse) if v < _EXACT else v // k


@kernel
def _pi(cells: _Words, large: _Integers, m: int, v: int) -> Any:
    """π(v) for v = ⌊x/m⌋ ≥ 2."""
    return large[m] if m < len(large) else _small_pi(cells, v)


@kernel
def _walk(
    pi: _PrimeCounts,
    last_task: int,
    stack: _Integers,
    stack_of_words: _Words,
    words: _Words,
    counts: _Integers,
) -> None:
    """Count the words of the subtree of the node on the stack.

    The subtrees of m ≤ last_task are left out: they are tasks of their own.
    A node is m, ⌊x/m⌋, the number of primes up to the largest prime of m, and the word of m.
    """
    cells, large, primes, inverses = pi
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
                if rest >= successor * successor and child > last_task:
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
    root -= root * root > v  # the root of a large v may have been rounded up
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
    """The sum of π(v/p), v = ⌊x/m⌋, over the primes number i + 1 to `end`.

    It takes the arrays one by one: numba would count references to them if it took the tuple apart
    in every call.
    """
    total = 0
    j = i
    while j < end and m * primes[j] < len(large):
        total += large[m * primes[j]]
        j += 1
    if v < _EXACT:
        # `_divide` without its branch, so that the compiler makes vector instructions of the loop.
        for k in range(j, end):
            total += _small_pi(cells, int((v + 0.5) * inverses[k]))
    else:
        for k in range(j, end):
            total += _small_pi(cells, v // primes[k])
    return total


@kernel
def _add(words: _Words, counts: _Integers, word: Any, count: Any) -> None:
    """Add to the count of a word in the hash table, which has room for the whole dictionary."""
    if count == 0:  # the word may be too long to exist
        return
    mask = _U(len(words) - 1)
    slot = word * _U(0x9E3779B97F4A7C15) >> _U(32) & mask
    while words[slot] != word:
        if words[slot] == 0:
            words[slot] = word
            break
        slot = slot + _U(1) & mask
    counts[slot] += count
