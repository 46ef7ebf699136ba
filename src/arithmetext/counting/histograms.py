"""Counting: how often each word occurs, in a range or in every chunk of one.

Everything is counted exactly, from the words of every integer; nothing is sampled. The counting is
one hash table that takes 64-bit keys: packed words, or blocks of consecutive words written as
numbers. Pieces of a range are counted apart, by threads or on a cluster, and their tables added up.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..errors import InputError
from ..memory import check_memory
from ..text.ranges import over_ranges, spans
from ..text.sieve import Words, check_range, passing_words, piece_size, segment_size
from .dictionary import dictionary_size

Counts = NDArray[np.int64]

MOST_CHUNKS = 10_000  # their divergences make a matrix of 800 MB

_U = np.uint64


def count_words(
    lo: int, hi: int, *, threads: int | None = None, cluster: str | None = None
) -> dict[int, int]:
    """How often each word occurs for lo ≤ n < hi, by packed word, the most frequent first.

    It visits every integer, 350 million a second on one core at 10^10. For 2..x as a whole,
    `census` is far faster.

    >>> count_words(2, 13)
    {2: 5, 12: 3, 10: 2, 50: 1}
    """
    lo, hi = check_range(lo, hi)
    table = Table(dictionary_size(hi - 1))
    for keys, counts in over_ranges(
        partial(_count_piece, table.most),
        lo,
        hi,
        size=piece_size(hi),
        threads=threads,
        cluster=cluster,
        title="counting words",
    ):
        table.add(keys, counts)
    return _by_frequency(*table.items())


def chunk_histograms(
    n: int, chunks: int, *, threads: int | None = None, cluster: str | None = None
) -> tuple[Words, Counts]:
    """The words of 2..n, and how often each occurs in each of the equal chunks of 2..n.

    Chunk k is (k n/chunks, (k+1) n/chunks]; the first begins at 2. Rows of the matrix are chunks,
    columns words, the most frequent of the whole text first.
    """
    check_chunks(n, chunks)
    size = n // chunks
    most = dictionary_size(n)
    tables = [Table(most) for _ in range(chunks)]
    # Ranges are cut at multiples of their size and chunks one further, so all is shifted by 1.
    for parts in over_ranges(
        partial(_count_parts, most, size),
        1,
        n,
        size=piece_size(n),
        threads=threads,
        cluster=cluster,
        title="counting words",
    ):
        for chunk, keys, counts in parts:
            tables[chunk].add(keys, counts)
    whole = Table(most)
    for table in tables:
        whole.add(*table.items())
    words = np.array(list(_by_frequency(*whole.items())), np.uint64)
    return words, np.stack([table[words] for table in tables])


def check_chunks(n: int, chunks: int) -> None:
    """Refuse to cut 2..n into chunks that are unequal, too small or too many."""
    check_range(2, n + 1)
    if chunks < 1 or n % chunks or n // chunks < 2:
        raise InputError(f"2..{n} cannot be cut into {chunks} equal chunks of at least 2 integers")
    if chunks > MOST_CHUNKS:
        raise InputError(f"{chunks} chunks are too many to compare: at most {MOST_CHUNKS}")


def _count_parts(most: int, chunk: int, lo: int, hi: int) -> list[tuple[int, Words, Counts]]:
    """The counts of a range, apart for every chunk that it touches."""
    return [
        (a // chunk, *_count_piece(most, max(2, a + 1), b + 1)) for a, b in spans(lo, hi, chunk)
    ]


def _count_piece(most: int, lo: int, hi: int) -> tuple[Words, Counts]:
    table = Table(most)
    for a, b in spans(lo, hi, segment_size(hi)):
        table.add(passing_words(a, b))
    return table.items()


def _by_frequency(words: Words, counts: Counts) -> dict[int, int]:
    order = np.lexsort((words, -counts))
    return dict(zip(words[order].tolist(), counts[order].tolist(), strict=True))


class Table:
    """A number for each of many 64-bit keys, none of them 0: open addressing, at most half full."""

    def __init__(self, most: int) -> None:
        """`most`: how many different keys there can be; the table grows towards it as needed."""
        self.most = most
        self.used = 0
        self._new(1)

    def _new(self, room: int) -> None:
        bits = (2 * room).bit_length()
        check_memory(16 << bits)
        self.shift = _U(64 - bits)
        self.keys, self.values = np.zeros(1 << bits, np.uint64), np.zeros(1 << bits, np.int64)

    def add(self, keys: Words, amounts: Counts | None = None) -> None:
        """Add to the number of each key, or 1 if no amounts are given.

        There is room for all of the keys before the first is added: those of another table come in
        the order of their slots, and a smaller table would have to put them all at one end.
        """
        if amounts is None:
            amounts = np.broadcast_to(np.int64(1), len(keys))
        room = min(self.most, self.used + len(keys))
        if 2 * room > len(self.keys):
            old = self.items()
            self._new(room)
            _add(*old, self.keys, self.values, self.shift)
        self.used += _add(keys, amounts, self.keys, self.values, self.shift)

    def items(self) -> tuple[Words, Counts]:
        """The keys, in no order, and their numbers."""
        here = self.keys != 0
        return self.keys[here], self.values[here]

    def __getitem__(self, keys: Words) -> Counts:
        """The number of each key; 0 for those that are not here."""
        out = np.empty(len(keys), np.int64)
        _look_up(keys, self.keys, self.values, self.shift, out)
        return out


@kernel
def _add(keys: Words, amounts: Counts, table: Words, values: Counts, shift: Any) -> int:
    """Add the amounts; return how many keys are new. Half a nanosecond for a key in the cache.

    Everything unsigned, so that no index is looked at for its sign.
    """
    mask = _U(len(table) - 1)
    new = 0
    for i in range(len(keys)):
        key = keys[i]
        slot = key * _U(0x9E3779B97F4A7C15) >> shift
        while table[slot] != key:
            if table[slot] == 0:
                table[slot] = key
                new += 1
                break
            slot = slot + _U(1) & mask
        values[slot] += amounts[i]
    return new


@kernel
def _look_up(keys: Words, table: Words, values: Counts, shift: Any, out: Counts) -> None:
    mask = _U(len(table) - 1)
    for i in range(len(keys)):
        slot = keys[i] * _U(0x9E3779B97F4A7C15) >> shift
        while table[slot] != keys[i] and table[slot] != 0:
            slot = slot + _U(1) & mask
        out[i] = values[slot]


def ranks_of(words: Words) -> Table:
    table = Table(len(words))
    table.add(words, np.arange(1, len(words) + 1))
    return table


def ranks_of_piece(words: Words, lo: int, hi: int) -> NDArray[np.uint16]:
    """Which of the words, counted from 1, each integer has; 0 for none of them."""
    if len(words) > np.iinfo(np.uint16).max:  # there are more below 10^18, but not in a short range
        raise InputError(f"{len(words)} different words are too many to number with 16 bits")
    table = ranks_of(words)
    return np.concatenate(
        [table[passing_words(a, b)].astype(np.uint16) for a, b in spans(lo, hi, segment_size(hi))]
    )
