"""The words of consecutive integers, by a segmented sieve. docs/sieve.md explains it at length.

One 16-bit accumulator an integer holds, for the primes that divided it so far, how many they were
(4 bits) and the sum of their logarithms (12 bits). Primes come in increasing order, so the count is
also the rank of the next one among the children of the tree. The primes 2, 3 and 5 come from
periodic tables with their exponents; every prime from 7 on appends a child `10`; the few integers
that p² divides are noted with the rank of p and repaired at the end. What the logarithms leave
missing from log n is the one prime above √n.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from math import isqrt
from os import cpu_count
from threading import Lock, local
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from .. import trees
from ..errors import InputError
from .ranges import over_ranges, spans

Words = NDArray[np.uint64]

MAX = 2**63  # the text is served up to here; packed words fit 64 bits

# 2^6 3^2 5^2: words with v₂ ≥ 7, v₃ ≥ 4 or v₅ ≥ 4 have to be repaired (2 % of all integers). 3 and
# 5 need no higher powers here, since the exponents 2 and 3 give the same tree.
_PERIOD = 14400
_COUNT = 12  # the bit at which the count begins
_LOG_ONE = 64  # log₂ in units of 1/64: at most 63 · 64 below 2^63, which leaves the count alone
_LOG_MASK = (1 << _COUNT) - 1
_TENS = 0x2AAAAAAAAAAAAAAA
# Below this a logarithm does not tell a missing prime from a rounded sum.
_SMALL = 4096
# Primes are prepared this many at a time, by vector instructions.
_BATCH = 512

_kernel = njit(cache=True, nogil=True, error_model="numpy")


def words(lo: int, hi: int, *, threads: int | None = None) -> Words:
    """The packed words of lo ≤ n < hi, on all cores unless told otherwise.

    >>> [bin(w)[2:] for w in words(2, 7)]
    ['10', '10', '1100', '10', '1010']
    """
    check_range(lo, hi)
    out = np.empty(hi - lo, np.uint64)
    pieces = list(spans(lo, hi, segment_size(hi)))
    with ThreadPoolExecutor(threads or cpu_count()) as pool:
        for _ in pool.map(lambda piece: _fill(*piece, out[piece[0] - lo : piece[1] - lo]), pieces):
            pass
    return out


def segments(
    lo: int, hi: int, *, threads: int | None = None, title: str = ""
) -> Iterator[tuple[int, Words]]:
    """The same in order, piece by piece, in constant memory: (first integer, words) each."""
    check_range(lo, hi)
    pieces = over_ranges(
        _new_words, lo, hi, size=segment_size(hi), threads=threads, title=title, unit="words"
    )
    for piece in pieces:
        yield lo, piece
        lo += len(piece)


def segment_size(hi: int) -> int:
    """How many integers to sieve at once.

    The accumulators of 2^18 fit the second-level cache. Higher up, preparing the primes costs more
    than the cache saves: a 16th of the largest prime is near the best; 2^23 keeps memory small.
    """
    return min(max(1 << 18, 1 << (isqrt(hi) >> 4).bit_length()), 1 << 23)


def check_range(lo: int, hi: int) -> None:
    """Refuse what is not part of the text."""
    if lo < 2:
        raise InputError(f"the text begins at 2, not at {lo}")
    if hi <= lo:
        raise InputError(f"an empty range: {lo} to {hi}")
    if hi > MAX:
        raise InputError(f"{hi} is beyond 2^63, the end of what the sieve can reach")


def passing_words(lo: int, hi: int) -> Words:
    """The words of one piece, on this thread, in a buffer that its next call overwrites.

    For jobs that look at the words and let them go: memory that is new each time costs nearly as
    much as the sieve.
    """
    out = _buffers.get("out", hi - lo, np.uint64)
    _fill(lo, hi, out)
    return out


def _new_words(lo: int, hi: int) -> Words:
    out = np.empty(hi - lo, np.uint64)
    _fill(lo, hi, out)
    return out


def _fill(lo: int, hi: int, out: Words) -> None:
    """Write the words of one piece."""
    if lo < _SMALL:
        begin = min(hi, _SMALL)
        out[: begin - lo] = _small_words()[lo:begin]
        lo, out = begin, out[begin - lo :]
    if lo < hi:
        primes = base_primes(isqrt(hi - 1))
        acc = _buffers.get("acc", hi - lo, np.uint16)
        room = len(acc) // 8 + 256  # 5 % of the integers need a patch
        patches = _buffers.get("patches", room, np.int64)
        if _segment(lo, primes, _tables(), acc, patches, out) > room:
            # No integer below 2^63 is divisible by the squares of eight primes from 7 on.
            patches = np.empty(7 * len(acc), np.int64)
            _segment(lo, primes, _tables(), acc, patches, out)


class _Buffers(local):
    """Arrays that a thread uses again and again."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}

    def get(self, name: str, size: int, kind: type) -> NDArray[Any]:
        if name not in self.arrays or len(self.arrays[name]) < size:
            self.arrays[name] = np.empty(size, kind)
        return self.arrays[name][:size]


_buffers = _Buffers()


_primes = np.zeros(0, np.uint32)
_primes_lock = Lock()


def base_primes(limit: int) -> NDArray[np.uint32]:
    """The primes up to `limit`, and perhaps some more; made once and kept.

    4 bytes a prime: 38 kB for the text at 1e10, 7.8 MB at 1e15, 580 MB next to 2^63, where making
    them takes seconds.
    """
    global _primes
    with _primes_lock:
        if not len(_primes) or _primes[-1] < limit:
            # Somewhat further than asked, so that a walk upwards does not begin anew at every step.
            _primes = _primes_to(max(1 << 16, limit + limit // 16))
        return _primes


@cache
def _small_words() -> Words:
    return np.array([0, *(trees.packed(n) for n in range(1, _SMALL))], np.uint64)


@_kernel
def _primes_to(limit):
    """Sieve of Eratosthenes over the odd numbers, a cache-sized stretch at a time."""
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
            i = np.uint64(following[k] - begin)
            if i < stretch:
                p = np.uint64(base[k])
                while i < np.uint64(stretch):
                    composite[i] = True
                    i += p
                following[k] = begin + np.int64(i)
        for i in range(begin == 0, min(stretch, end - begin)):
            if not composite[i]:
                primes[count] = 2 * (begin + i) + 1
                count += 1
    return primes[:count]  # the rest was never touched and takes no memory


@cache
def _tables() -> Any:
    """Words and logarithms of the {2, 3, 5}-part by n mod the period; the child of each exponent."""
    children = [trees.pack(f"1{trees.word(e)}0") for e in range(1, 64)]
    words = np.zeros(_PERIOD, np.uint32)
    logs = np.zeros(_PERIOD)
    n = np.arange(_PERIOD)
    for p, most in ((2, 6), (3, 2), (5, 2)):
        exponent = sum((n % p**e == 0).astype(np.int64) for e in range(1, most + 1))
        for e in range(1, most + 1):
            child = children[e - 1]
            here = exponent == e
            words[here] = (words[here] << child.bit_length()) | child
        logs += exponent * np.log2(p)
    return (
        words,
        np.round(_LOG_ONE * logs).astype(np.uint16),
        np.array([0, *children], np.int64),
        np.array([0, *(child.bit_length() for child in children)], np.int64),
    )


@_kernel
def _first_multiples(lo, primes, power, offsets):
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


@_kernel
def _add(acc, start, step, amount):
    """acc[start::step] += amount; unsigned, so that no index is looked at for its sign."""
    i, step, m = np.uint64(start), np.uint64(step), np.uint64(len(acc))
    while i < m:
        acc[i] += amount
        i += step


@_kernel
def _exponent(n, p):
    e = 0
    while n % p == 0:
        n //= p
        e += 1
    return e


@_kernel
def _sieve(lo, primes, acc, patches):
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


@_kernel
def _appended(a, complete):
    """Binary digits that the primes from 7 on append, the one above the square root included."""
    return np.int64(2 * (a >> _COUNT) + 2 * ((a & _LOG_MASK) < complete))


@_kernel
def _copy(source, target):
    for i in range(len(target)):
        target[i] = source[i]


@_kernel
def _compose(small_words, acc, complete, out):
    """Words of integers that no square of a prime above 5 divides; a loop of vector instructions."""
    for i in range(len(out)):
        a = acc[i]
        k = np.uint64(2 * (a >> _COUNT) + 2 * ((a & _LOG_MASK) < complete))
        tens = np.uint64(_TENS) & ((np.uint64(1) << k) - np.uint64(1))
        out[i] = (np.uint64(small_words[i]) << k) | tens


@_kernel
def _segment(lo, primes, tables, acc, patches, out):
    """The packed words of [lo, lo + len(out)) for lo ≥ 4096; returns the number of patches.

    `primes` holds at least all up to the square root of the last integer. If the number returned
    is more than `patches` has room for, the words are not valid.
    """
    small_words, small_logs, children, lengths = tables
    m = len(out)
    last = lo + (m - 1)  # in this order: lo + m may be 2^63

    # The {2, 3, 5}-parts from the table; then what higher powers add to the logarithm.
    i = 0
    j = lo % _PERIOD
    while i < m:
        step = min(_PERIOD - j, m - i)
        _copy(small_logs[j : j + step], acc[i : i + step])
        i += step
        j = 0
    for p, q in ((2, 128), (3, 27), (5, 125)):
        log = np.uint16(round(_LOG_ONE * np.log2(p)))
        while q <= last:
            _add(acc, -lo % q, q, log)
            if q > last // p:
                break
            q *= p

    root = np.int64(np.sqrt(last))
    end = np.searchsorted(primes, np.uint32(min(root + 1, 0xFFFFFFFF)), side="right")
    while np.int64(primes[end - 1]) > last // np.int64(primes[end - 1]):
        end -= 1
    end = max(3, end)
    noted = _sieve(lo, primes[3:end], acc, patches)

    # Words: the table's part, then a row of `10`.
    complete = np.uint16(_LOG_ONE * np.log2(lo) - _LOG_ONE / 2)
    i = 0
    j = lo % _PERIOD
    while i < m:
        step = min(_PERIOD - j, m - i)
        _compose(small_words[j : j + step], acc[i : i + step], complete, out[i : i + step])
        i += step
        j = 0

    # Powers of 2, 3 and 5 beyond the table: the small part is put together anew.
    for q in (128, 81, 625):
        for i in range(-lo % q, m, q):
            n = lo + i
            word, e = 0, 0
            while n & 1 == 0:
                n >>= 1
                e += 1
            word = children[e]
            e = 0
            while n % 3 == 0:
                n //= 3
                e += 1
            word = (word << lengths[e]) | children[e]
            e = 0
            while n % 5 == 0:
                n //= 5
                e += 1
            word = (word << lengths[e]) | children[e]
            k = _appended(acc[i], complete)
            out[i] = (word << k) | (_TENS & ((1 << k) - 1))
    # Squares of primes from 7 on. For one integer they stand in increasing order, so what is to
    # the right of the child in question is still a row of `10`.
    for t in range(min(noted, len(patches))):
        i, rank, e = patches[t] >> 16, (patches[t] >> 8) & 255, patches[t] & 255
        right = _appended(acc[i], complete) - 2 * (rank + 1)
        word = np.int64(out[i])
        head = (word >> (right + 2) << lengths[e]) | children[e]
        out[i] = (head << right) | (word & ((1 << right) - 1))
    return noted
