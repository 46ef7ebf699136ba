"""The words of consecutive integers, at any scale up to 2^63, in constant memory."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from math import isqrt
from operator import index
from os import cpu_count
from threading import Lock, local
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import trees
from ..compiled import few
from ..errors import InputError
from .kernels import LEAST, longest_segment_end, primes_to, sieve_segment, tables
from .ranges import MAX as MAX
from .ranges import over_ranges, spans

Words = NDArray[np.uint64]


def words(lo: int, hi: int, *, threads: int | None = None) -> Words:
    """The packed words of lo ≤ n < hi, on all cores unless told otherwise.

    >>> [bin(w)[2:] for w in words(2, 7)]
    ['10', '10', '1100', '10', '1010']
    """
    lo, hi = check_range(lo, hi)
    out = np.empty(hi - lo, np.uint64)
    with ThreadPoolExecutor(threads or cpu_count()) as pool:
        for done in [
            pool.submit(_fill, a, b, out[a - lo : b - lo])
            for a, b in spans(lo, hi, segment_size(hi))
        ]:
            done.result()
    return out


def segments(
    lo: int, hi: int, *, threads: int | None = None, title: str = ""
) -> Iterator[tuple[int, Words]]:
    """The same in order, piece by piece, in constant memory: (first integer, words) each."""
    lo, hi = check_range(lo, hi)
    pieces = over_ranges(
        _new_words, lo, hi, size=segment_size(hi), threads=threads, title=title, unit="words"
    )
    for piece in pieces:
        yield lo, piece
        lo += len(piece)


def segment_size(hi: int) -> int:
    """How many integers to sieve at once.

    The accumulators of 2^18 fit the second-level cache. Higher up, preparing the primes costs more
    than the cache saves: a 16th of the largest prime is near the best; 2^21 keeps memory small.
    """
    return min(max(1 << 18, 1 << (isqrt(hi) >> 4).bit_length()), 1 << 21)


def piece_size(hi: int) -> int:
    """How many integers to hand to a worker at once: enough that handing them over costs little."""
    return max(1 << 22, segment_size(hi))


def check_range(lo: int, hi: int) -> tuple[int, int]:
    """Refuse what is not part of the text; return both bounds as Python integers.

    Integers of numpy would overflow, or choose other machine arithmetic in the kernels.
    """
    lo, hi = index(lo), index(hi)
    if lo < 2:
        raise InputError(f"the text begins at 2, not at {lo}")
    if hi <= lo:
        raise InputError(f"an empty range: {lo} to {hi}")
    if hi > MAX:
        raise InputError(f"{hi} is beyond 2^63, the end of what the sieve can reach")
    return lo, hi


def passing_words(lo: int, hi: int) -> Words:
    """The words of one piece, on this thread, in a buffer that its next call overwrites.

    For jobs that look at the words and let them go: memory that is new each time costs nearly as
    much as the sieve.
    """
    lo, hi = check_range(lo, hi)
    out = _buffers.get("out", hi - lo, np.uint64)
    _fill(lo, hi, out)
    return out


def _new_words(lo: int, hi: int) -> Words:
    out = np.empty(hi - lo, np.uint64)
    _fill(lo, hi, out)
    return out


def _fill(lo: int, hi: int, out: Words) -> None:
    """Write the words of lo ≤ n < hi, a checked range.

    Small words come from a table, and long ranges are cut, so that every segment meets what the
    kernel asks for; docs/sieve.md lists it.
    """
    if few(hi - lo):
        out[:] = [trees.packed(n) for n in range(lo, hi)]
        return
    if lo < LEAST:
        begin = min(hi, LEAST)
        out[: begin - lo] = _small_words()[lo:begin]
        lo, out = begin, out[begin - lo :]
    while lo < hi:
        end = min(hi, longest_segment_end(lo))
        _fill_segment(lo, end, out[: end - lo])
        lo, out = end, out[end - lo :]


def _fill_segment(lo: int, hi: int, out: Words) -> None:
    """Write the words of one segment."""
    primes = base_primes(isqrt(hi - 1))
    acc = _buffers.get("acc", hi - lo, np.uint16)
    room = _patch_room(len(acc))
    patches = _buffers.get("patches", room, np.int64)
    if sieve_segment(lo, primes, tables(), acc, patches, out) > room:
        # No integer below 2^63 is divisible by the squares of seven primes from 13 on.
        patches = np.empty(6 * len(acc), np.int64)
        sieve_segment(lo, primes, tables(), acc, patches, out)


def _patch_room(count: int) -> int:
    return count // 16 + 256  # 2 % of the integers need a patch


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

    `limit` is at most √(2^63), so that what is made stays below 2^32. 4 bytes a prime: 38 kB for
    the text at 1e10, 8 MB at 1e15, 620 MB next to 2^63, where making them takes seconds.
    """
    global _primes
    with _primes_lock:
        if not len(_primes) or _primes[-1] < limit:
            # Somewhat further than asked, so that a walk upwards does not begin anew at every step.
            _primes = primes_to(max(1 << 16, limit + limit // 16))
        return _primes


@cache
def _small_words() -> Words:
    return np.array([0, *(trees.packed(n) for n in range(1, LEAST))], np.uint64)
