"""Count how often each word occurs, in a range or in each chunk of the text.

Counts are exact: every integer is visited, nothing is sampled. Keys are 64-bit numbers, packed
words or blocks of consecutive words, counted in a hash table (`HashTable`). The pieces of a range
are counted separately, on threads or on a cluster, and their tables are added.
"""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..errors import InputError
from ..memory import check_memory
from ..text.ranges import over_ranges, spans
from ..text.sieve import Words, check_range, piece_size, segment_size, words_in_buffer
from .dictionary import dictionary_size

Counts = NDArray[np.int64]

MOST_CHUNKS = 10_000  # the matrix of their divergences has 800 MB

_U = np.uint64


def count_words(
    lo: int, hi: int, *, threads: int | None = None, cluster: str | None = None
) -> dict[int, int]:
    """How often each packed word occurs for lo ≤ n < hi, the most frequent first.

    It visits every integer: 350 million per second on one core at 10^10. For 2..x, `census` is far
    faster.

    >>> count_words(2, 13)
    {2: 5, 12: 3, 10: 2, 50: 1}
    """
    lo, hi = check_range(lo, hi)
    table = HashTable(dictionary_size(hi - 1))
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
    """The words of 2..n, and how often each occurs in each chunk of 2..n, [chunk, word].

    Chunk k is (k n/chunks, (k+1) n/chunks]; the first begins at 2. Words are ordered by their
    frequency in all chunks together, the most frequent first.
    """
    check_chunks(n, chunks)
    size = n // chunks
    most = dictionary_size(n)
    tables = [HashTable(most) for _ in range(chunks)]
    # `over_ranges` cuts at multiples of a size, and chunks begin one integer later, so all bounds
    # are shifted by 1.
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
    whole = HashTable(most)
    for table in tables:
        whole.add(*table.items())
    words = np.array(list(_by_frequency(*whole.items())), np.uint64)
    return words, np.stack([table[words] for table in tables])


def check_chunks(n: int, chunks: int) -> None:
    check_range(2, n + 1)
    if chunks < 1 or n % chunks or n // chunks < 2:
        raise InputError(f"2..{n} cannot be cut into {chunks} equal chunks of at least 2 integers")
    if chunks > MOST_CHUNKS:
        raise InputError(f"{chunks} chunks are too many to compare: at most {MOST_CHUNKS}")


def _count_parts(most: int, chunk: int, lo: int, hi: int) -> list[tuple[int, Words, Counts]]:
    """(chunk, words, counts) for every chunk that overlaps the range."""
    return [
        (a // chunk, *_count_piece(most, max(2, a + 1), b + 1)) for a, b in spans(lo, hi, chunk)
    ]


def _count_piece(most: int, lo: int, hi: int) -> tuple[Words, Counts]:
    table = HashTable(most)
    for a, b in spans(lo, hi, segment_size(hi)):
        table.add(words_in_buffer(a, b))
    return table.items()


def _by_frequency(words: Words, counts: Counts) -> dict[int, int]:
    order = np.lexsort((words, -counts))
    return dict(zip(words[order].tolist(), counts[order].tolist(), strict=True))


class HashTable:
    """A hash table from 64-bit keys, none of them 0, to numbers.

    Open addressing with linear probing, at most half full, 16 bytes per slot.
    """

    def __init__(self, most: int) -> None:
        """The table grows as needed, up to `most` different keys."""
        self.most = most
        self.used = 0
        self._new(1)

    def _new(self, room: int) -> None:
        bits = (2 * room).bit_length()
        check_memory(16 << bits)
        self.shift = _U(64 - bits)
        self.keys, self.values = np.zeros(1 << bits, np.uint64), np.zeros(1 << bits, np.int64)

    def add(self, keys: Words, amounts: Counts | None = None) -> None:
        """Add an amount, 1 by default, to the number of each key.

        The table grows before the first key is added. The keys of another table come in the order
        of their slots; a table that is too small would put them all at one end.
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
        """The keys, in no particular order, and their numbers."""
        occupied = self.keys != 0
        return self.keys[occupied], self.values[occupied]

    def __getitem__(self, keys: Words) -> Counts:
        """The number of each key; 0 if the key is missing."""
        out = np.empty(len(keys), np.int64)
        look_up(keys, self.keys, self.values, self.shift, out)
        return out


@kernel
def _add(keys: Words, amounts: Counts, table: Words, values: Counts, shift: Any) -> int:
    """Add the amounts; return how many keys are new. 0.5 ns per key if the table is in the cache.

    Unsigned indices spare numba's test for negative ones.
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
def look_up(keys: Words, table: Words, values: Counts, shift: Any, out: Counts) -> None:
    """Write the value of each key; 0 if the key is missing."""
    mask = _U(len(table) - 1)
    for i in range(len(keys)):
        slot = keys[i] * _U(0x9E3779B97F4A7C15) >> shift
        while table[slot] != keys[i] and table[slot] != 0:
            slot = slot + _U(1) & mask
        out[i] = values[slot]


def ranks_of(words: Words) -> HashTable:
    """The rank of each word, its place in `words` from 1; other words have rank 0."""
    table = HashTable(len(words))
    table.add(words, np.arange(1, len(words) + 1))
    return table


def ranks_of_piece(words: Words, lo: int, hi: int) -> NDArray[np.uint16]:
    """The rank in `words`, from 1, of the word of each integer lo ≤ n < hi; 0 for other words."""
    if len(words) > np.iinfo(np.uint16).max:  # 2..10^18 has more words, but no short range has
        raise InputError(f"{len(words)} different words are too many to number with 16 bits")
    table = ranks_of(words)
    return np.concatenate(
        [table[words_in_buffer(a, b)].astype(np.uint16) for a, b in spans(lo, hi, segment_size(hi))]
    )
