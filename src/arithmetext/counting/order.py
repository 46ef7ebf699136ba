"""The order of words: blocks, their entropies, compression, and the text read backwards."""

import lzma
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..progress import Advance, progress
from ..text.export import lines
from ..text.ranges import over_ranges, spans
from ..text.sieve import Words, check_range, piece_size
from .divergence import CACHED, row_entropies
from .histograms import Counts, Table, count_words, ranks_of_piece

# What has to stand in memory as a whole (a walk, a text to be compressed) ends here.
LONGEST = 10**8

_TOSSES = 20  # of a coin for every block, to know the floor and its spread
_XZ = 9 | lzma.PRESET_EXTREME
_STEP = 1 << 14  # words compressed between two steps of the progress bar

_U = np.uint64


@dataclass(frozen=True)
class BlockEntropy:
    """The entropy of blocks of k words, in bits, as counted; add the correction for the estimate.

    `conditional` is what the k-th word adds to the k − 1 before it. `correction` is what Miller and
    Madow add for the blocks not seen: where it is not small, the range is too short for this k.
    """

    k: int
    blocks: int
    distinct: int
    entropy: float
    conditional: float
    correction: float


def block_entropies(
    lo: int, hi: int, longest: int, *, threads: int | None = None, cluster: str | None = None
) -> list[BlockEntropy]:
    """The entropies of blocks of 1, 2, … `longest` consecutive words within lo ≤ n < hi."""
    words = _vocabulary(lo, hi, longest, threads, cluster)
    entropies: list[BlockEntropy] = []
    before = 0.0
    for k in range(1, longest + 1):
        _, counts = _count_blocks(words, lo, hi, k, threads, cluster).items()
        total = int(counts.sum())
        entropy = float(np.log2(total) - counts @ np.log2(counts) / total)
        correction = (len(counts) - 1) / (2 * total * log(2))
        entropies.append(BlockEntropy(k, total, len(counts), entropy, entropy - before, correction))
        before = entropy
    return entropies


def _vocabulary(lo: int, hi: int, k: int, threads: int | None, cluster: str | None) -> Words:
    """The words of the range by rank, if there are blocks of k words and their keys fit 64 bits."""
    check_range(lo, hi)
    if not 1 <= k <= hi - lo:
        raise InputError(f"a text of {hi - lo} words has no blocks of {k} words")
    words = np.array(list(count_words(lo, hi, threads=threads, cluster=cluster)), np.uint64)
    longest = next(j for j in range(k, 0, -1) if (len(words) + 1) ** j <= 2**64)
    if longest < k:
        raise InputError(
            f"blocks of {k} words are too long: of the {len(words)} different words of this range,"
            f" at most {longest} fit into 64 bits"
        )
    return words


def _count_blocks(
    words: Words, lo: int, hi: int, k: int, threads: int | None, cluster: str | None
) -> Table:
    """The table of all blocks of a range.

    The key of a block has the ranks of its words as digits, to the base of one more than there are
    words; ranks begin at 1, so no key is 0.
    """
    table = Table(len(words) ** k)
    for keys, counts in over_ranges(
        partial(_count_blocks_of_piece, words, k),
        lo,
        hi - k + 1,
        size=piece_size(hi),
        threads=threads,
        cluster=cluster,
        title=f"counting blocks of {k}",
    ):
        table.add(keys, counts)
    return table


def _count_blocks_of_piece(words: Words, k: int, lo: int, hi: int) -> tuple[Words, Counts]:
    """The blocks that begin in [lo, hi), and may end in the next piece."""
    return _table_of_blocks(ranks_of_piece(words, lo, hi + k - 1), k, len(words)).items()


def _table_of_blocks(ranks: NDArray[np.uint16], k: int, words: int) -> Table:
    table = Table(words**k)
    for a, b in spans(0, len(ranks) - k + 1, CACHED):
        keys = np.zeros(b - a, np.uint64)
        for place in range(k):
            keys = keys * _U(words + 1) + ranks[a + place : b + place]
        table.add(keys)
    return table


def _digits(keys: Words, k: int, words: int) -> Words:
    """The ranks in each block, the last word first."""
    digits = np.empty((len(keys), k), np.uint64)
    for place in range(k):
        keys, digits[:, place] = np.divmod(keys, _U(words + 1))
    return digits


def _compressed_size(compressor: Any, pieces: Iterable[bytes], advance: Advance) -> int:
    """Piece by piece, so that progress is seen and an interrupt is obeyed."""
    size = 0
    for piece in pieces:
        size += len(compressor.compress(piece))
        advance()
    return size + len(compressor.flush())


def _text(
    words: Words, lo: int, hi: int, threads: int | None, cluster: str | None
) -> NDArray[np.uint16]:
    """The rank of the word of every integer, in memory."""
    job = partial(ranks_of_piece, words)
    pieces = over_ranges(
        job, lo, hi, size=piece_size(hi), threads=threads, cluster=cluster, title="reading"
    )
    return np.concatenate(list(pieces))


def check_length(lo: int, hi: int) -> None:
    check_range(lo, hi)
    if hi - lo > LONGEST:
        raise InputError(f"{hi - lo} integers are too many to keep in memory: at most {LONGEST}")


@dataclass(frozen=True)
class Compression:
    """Bits for each word: the unigram entropy, and what gzip -9 and xz -9e need.

    `characters` are the words as 0 and 1 with a space between; `ranks` are 16-bit numbers.
    """

    words: int
    unigram_entropy: float
    gzip_characters: float
    xz_characters: float
    gzip_ranks: float
    xz_ranks: float


def compression(
    lo: int, count: int, *, threads: int | None = None, cluster: str | None = None
) -> Compression:
    """Compress the text of lo ≤ n < lo + count: some 15 s a million words, nearly all for xz."""
    check_length(lo, lo + count)
    words = _vocabulary(lo, lo + count, 1, threads, cluster)
    ranks = _text(words, lo, lo + count, threads, cluster)
    pieces = [ranks[a:b] for a, b in spans(0, count, _STEP)]
    written = [lines(words[piece - 1]).replace(b"\n", b" ") for piece in pieces]
    written[-1] = written[-1][:-1]  # a space between words, none after the last
    with progress("compressing", 4 * len(pieces)) as advance:
        sizes = [
            _compressed_size(compressor, text, advance)
            for text in (written, [piece.astype("<u2").tobytes() for piece in pieces])
            for compressor in (zlib.compressobj(9, wbits=31), lzma.LZMACompressor(preset=_XZ))
        ]
    frequencies = np.bincount(ranks)[1:] / count
    return Compression(
        count, float(row_entropies(frequencies[None])[0]), *(8 * size / count for size in sizes)
    )


@dataclass(frozen=True)
class Asymmetry:
    """How much blocks differ from the same blocks read from right to left.

    `divergence` is the Jensen–Shannon divergence between the two, in bits; `one_way` the share of
    the distinct blocks whose reversal never occurs.
    """

    distinct: int
    divergence: float
    one_way: float


@dataclass(frozen=True)
class Orientation:
    """The asymmetry of blocks of k words, and what chance alone makes of as many.

    `floor` is the mean divergence, and `spread` its standard deviation, of the same blocks with
    each occurrence turned round or not by the toss of a coin. Above the floor a text is oriented.
    Below it nothing follows: words of consecutive integers depend on each other, and frequent
    blocks are spread more evenly than tosses would be, so the floor is somewhat too high.
    """

    k: int
    blocks: int
    text: Asymmetry
    floor: float
    spread: float


def orientation(
    lo: int,
    hi: int,
    k: int,
    *,
    seed: int = 0,
    threads: int | None = None,
    cluster: str | None = None,
) -> Orientation:
    """Compare the blocks of k words within lo ≤ n < hi with their reversals."""
    words = _vocabulary(lo, hi, k, threads, cluster)
    table = _count_blocks(words, lo, hi, k, threads, cluster)
    forward, backward, palindromes = _pairs(table, k, len(words))
    both = forward + backward
    blocks = hi - lo - k + 1
    rng = np.random.default_rng(seed)
    floors = [
        _asymmetry(blocks, tossed, both - tossed, palindromes).divergence
        for tossed in (rng.binomial(both, 0.5) for _ in range(_TOSSES))
    ]
    text = _asymmetry(blocks, forward, backward, palindromes)
    return Orientation(k, blocks, text, float(np.mean(floors)), float(np.std(floors, ddof=1)))


def _pairs(table: Table, k: int, words: int) -> tuple[Counts, Counts, int]:
    """How often each block occurs in one direction and in the other, and how many have only one."""
    keys, counts = table.items()
    order = np.argsort(keys)
    keys, counts = keys[order], counts[order]
    reversed_keys = np.zeros(len(keys), np.uint64)
    for digit in _digits(keys, k, words).T:
        reversed_keys = reversed_keys * _U(words + 1) + digit
    reversed_counts = table[reversed_keys]
    first = (keys < reversed_keys) | (reversed_counts == 0)
    return counts[first], reversed_counts[first], int(np.sum(keys == reversed_keys))


def _asymmetry(blocks: int, forward: Counts, backward: Counts, palindromes: int) -> Asymmetry:
    """Palindromes are the same in both directions and count as such.

    A pair of blocks that stand as f to b, f + b = 1, adds its share times 1 − H(f, b).
    """
    both = forward + backward
    shares = np.stack([forward, backward], 1) / both[:, None]
    divergence = both @ (1 - row_entropies(shares)) / blocks
    distinct = palindromes + int(np.sum(forward > 0) + np.sum(backward > 0))
    one_way = int(np.sum((forward == 0) | (backward == 0)))
    return Asymmetry(distinct, float(divergence), one_way / distinct)
