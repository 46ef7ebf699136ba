"""Compute the words of consecutive integers below 2^63."""

from collections.abc import Iterator, Sequence
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
from ..compiled import flint_is_faster, has_flint
from ..errors import InputError
from .kernels import (
    MOST_PATCHES,
    SIEVE_FROM,
    longest_segment_end,
    primes_to,
    sieve_segment,
    sieve_windows,
    tables,
)
from .ranges import MAX as MAX
from .ranges import over_ranges, spans

Words = NDArray[np.uint64]


def words(lo: int, hi: int, *, threads: int | None = None) -> Words:
    """The packed words of lo ≤ n < hi, computed on all cores or on the given number of threads.

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
    """Yield (first integer, packed words) for consecutive pieces of lo ≤ n < hi.

    Memory does not grow with the range.
    """
    lo, hi = check_range(lo, hi)
    pieces = over_ranges(
        _new_words, lo, hi, size=segment_size(hi), threads=threads, title=title, unit="words"
    )
    for piece in pieces:
        yield lo, piece
        lo += len(piece)


def segment_size(hi: int) -> int:
    """How many integers to sieve at once.

    The accumulators of 2^18 integers fit the second-level cache. For large hi, preparing the primes
    for each segment costs more than the cache saves. Then √hi / 16 is close to the fastest size,
    and 2^21 bounds the memory.
    """
    return min(max(1 << 18, 1 << (isqrt(hi) >> 4).bit_length()), 1 << 21)


def piece_size(hi: int) -> int:
    """How many integers a worker gets at once: enough that the overhead of a job is small."""
    return max(1 << 22, segment_size(hi))


def check_range(lo: int, hi: int) -> tuple[int, int]:
    """Refuse a range that is not part of the text; return both bounds as Python integers.

    With numpy integers, kernels would overflow or be compiled for other types.
    """
    lo, hi = index(lo), index(hi)
    if lo < 2:
        raise InputError(f"the text begins at 2, not at {lo}")
    if hi <= lo:
        raise InputError(f"an empty range: {lo} ≤ n < {hi}")
    if hi > MAX:
        raise InputError(f"the range ends at {hi}, beyond 2^63, where the text ends")
    return lo, hi


def words_in_buffer(lo: int, hi: int) -> Words:
    """The words of lo ≤ n < hi, in a buffer that the next call on this thread overwrites.

    For jobs that read the words and do not keep them: allocating memory for each piece would cost
    nearly as much as the sieve.
    """
    lo, hi = check_range(lo, hi)
    out = _buffers.get("out", hi - lo, np.uint64)
    _fill(lo, hi, out)
    return out


def words_of_windows(starts: Sequence[int], length: int) -> Words:
    """The words of `length` integers from each start on, [windows, length].

    One kernel makes them all, so other threads hardly wait for the GIL. The array is a buffer that
    the next call on this thread overwrites.
    """
    first, end = check_range(min(starts), max(starts) + length)
    out = _buffers.get("windows", len(starts) * length, np.uint64).reshape(len(starts), length)
    if first >= SIEVE_FROM and first + length <= longest_segment_end(first):
        primes = base_primes(isqrt(end - 1))
        sieve_windows(np.array(starts, np.int64), primes, tables(), out)
    else:
        for start, row in zip(starts, out, strict=True):
            _fill(start, start + length, row)
    return out


def _new_words(lo: int, hi: int) -> Words:
    out = np.empty(hi - lo, np.uint64)
    _fill(lo, hi, out)
    return out


def _fill(lo: int, hi: int, out: Words) -> None:
    """Write the words of a checked range lo ≤ n < hi.

    Words below SIEVE_FROM come from a table, and long ranges are cut into segments, so that the
    preconditions of the kernel hold (docs/sieve.md lists them).
    """
    # For a small window of large integers, FLINT takes less time than the primes up to √hi alone.
    if flint_is_faster(hi - lo) or (hi - lo <= isqrt(hi) >> 17 and has_flint()):
        out[:] = [trees.packed(n) for n in range(lo, hi)]
        return
    if lo < SIEVE_FROM:
        begin = min(hi, SIEVE_FROM)
        out[: begin - lo] = _small_words()[lo:begin]
        lo, out = begin, out[begin - lo :]
    while lo < hi:
        end = min(hi, longest_segment_end(lo))
        _fill_segment(lo, end, out[: end - lo])
        lo, out = end, out[end - lo :]


def _fill_segment(lo: int, hi: int, out: Words) -> None:
    primes = base_primes(isqrt(hi - 1))
    acc = _buffers.get("acc", hi - lo, np.uint16)
    room = _patch_room(len(acc))
    patches = _buffers.get("patches", room, np.int64)
    if sieve_segment(lo, primes, tables(), acc, patches, out) > room:
        patches = np.empty(MOST_PATCHES * len(acc), np.int64)
        sieve_segment(lo, primes, tables(), acc, patches, out)


def _patch_room(count: int) -> int:
    return count // 16 + 256  # on average 2 % of the integers need a patch


class _Buffers(local):
    """Arrays that each thread reuses."""

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
    """The primes up to `limit` or somewhat further, cached.

    `limit` is at most √(2^63), so all primes are below 2^32 and take 4 bytes each: 38 kB for the
    text at 1e10, 8 MB at 1e15, 620 MB close to 2^63, where computing them takes seconds.
    """
    global _primes
    with _primes_lock:
        if not len(_primes) or _primes[-1] < limit:
            # Sieve a little beyond the limit, so that slowly increasing limits rarely sieve again.
            _primes = primes_to(max(1 << 16, limit + limit // 16))
        return _primes


@cache
def _small_words() -> Words:
    return np.array([0, *(trees.packed(n) for n in range(1, SIEVE_FROM))], np.uint64)
