"""The order of words: entropies of blocks, compression, and asymmetry under reversal."""

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
from .divergence import CACHE_BLOCK, row_entropies
from .histograms import Counts, HashTable, count_words, ranks_of_piece

MOST_IN_MEMORY = 10**8  # integers of a walk, or of a text to be compressed

_RESAMPLES = 20  # random orientations of all blocks, for the noise floor and its spread
_XZ = 9 | lzma.PRESET_EXTREME
_STEP = 1 << 14  # words compressed between two steps of the progress bar

_U = np.uint64


@dataclass(frozen=True)
class BlockEntropy:
    """The plug-in entropy of blocks of k words, in bits.

    `conditional` is the entropy of the k-th word given the k − 1 before it, H(k) − H(k − 1).
    `correction` is the Miller–Madow bias correction, not yet added to `entropy`. Where it is not
    small, the range is too short for this k.
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
    """The words of the range by rank; refuses blocks of k words whose keys exceed 64 bits."""
    check_range(lo, hi)
    if not 1 <= k <= hi - lo:
        raise InputError(f"a text of {hi - lo} words has no blocks of {k} words")
    words = np.array(list(count_words(lo, hi, threads=threads, cluster=cluster)), np.uint64)
    longest = 1
    while longest < k and (len(words) + 1) ** (longest + 1) <= 2**64:
        longest += 1
    if longest < k:
        raise InputError(
            f"blocks of {k} words are too long: with the {len(words)} different words of this"
            f" range, blocks of at most {longest} fit into 64 bits"
        )
    return words


def _count_blocks(
    words: Words, lo: int, hi: int, k: int, threads: int | None, cluster: str | None
) -> HashTable:
    """Count the blocks that begin at lo ≤ n ≤ hi − k. About 100 bytes for each different block.

    The digits of a block's key, in base len(words) + 1, are the ranks of its words. Ranks begin at
    1, so no key is 0.
    """
    table = HashTable(len(words) ** k)
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
    """Count the blocks that begin in [lo, hi); some end in the next piece."""
    return _table_of_blocks(ranks_of_piece(words, lo, hi + k - 1), k, len(words)).items()


def _table_of_blocks(ranks: NDArray[np.uint16], k: int, words: int) -> HashTable:
    table = HashTable(words**k)
    for a, b in spans(0, len(ranks) - k + 1, CACHE_BLOCK):
        keys = np.zeros(b - a, np.uint64)
        for place in range(k):
            keys = keys * _U(words + 1) + ranks[a + place : b + place]
        table.add(keys)
    return table


def _digits(keys: Words, k: int, words: int) -> Words:
    """The ranks of the words of each block, [block, k], the last word first."""
    digits = np.empty((len(keys), k), np.uint64)
    for place in range(k):
        keys, digits[:, place] = np.divmod(keys, _U(words + 1))
    return digits


def _compressed_size(compressor: Any, pieces: Iterable[bytes], advance: Advance) -> int:
    """The compressed size in bytes. Works piece by piece, for the progress bar and for Ctrl-C."""
    size = 0
    for piece in pieces:
        size += len(compressor.compress(piece))
        advance()
    return size + len(compressor.flush())


def _ranks_of_text(
    words: Words, lo: int, hi: int, threads: int | None, cluster: str | None
) -> NDArray[np.uint16]:
    """The ranks of the words of lo ≤ n < hi, in one array."""
    job = partial(ranks_of_piece, words)
    pieces = over_ranges(
        job, lo, hi, size=piece_size(hi), threads=threads, cluster=cluster, title="reading"
    )
    return np.concatenate(list(pieces))


def check_length(lo: int, hi: int) -> None:
    """Refuse a range that is too long to keep in memory."""
    check_range(lo, hi)
    if hi - lo > MOST_IN_MEMORY:
        raise InputError(
            f"{hi - lo} integers are too many to keep in memory: at most {MOST_IN_MEMORY}"
        )


@dataclass(frozen=True)
class Compression:
    """Bits per word: the unigram entropy, and the sizes that gzip -9 and xz -9e reach.

    `characters` is the text written as 0 and 1 with spaces between words; `ranks` is the text as
    16-bit ranks of the words by frequency.
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
    """Compress the text of lo ≤ n < lo + count: about 15 s per million words, nearly all for xz."""
    check_length(lo, lo + count)
    words = _vocabulary(lo, lo + count, 1, threads, cluster)
    ranks = _ranks_of_text(words, lo, lo + count, threads, cluster)
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
    """How much the blocks of a text differ from the same blocks reversed.

    `divergence` is the Jensen–Shannon divergence between the two distributions, in bits. `one_way`
    is the share of the distinct blocks whose reversal never occurs.
    """

    distinct: int
    divergence: float
    one_way: float


@dataclass(frozen=True)
class Orientation:
    """The asymmetry of blocks of k words, and the noise floor.

    `floor` and `spread` are the mean and the standard deviation of the divergence if each
    occurrence of a block is reversed with probability 1/2. A text above the floor is oriented. A
    text below the floor may be oriented or not: words of consecutive integers depend on each other,
    and frequent blocks are spread more evenly than random blocks, so the floor is somewhat too
    high.
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
        _asymmetry(blocks, resampled, both - resampled, palindromes).divergence
        for resampled in (rng.binomial(both, 0.5) for _ in range(_RESAMPLES))
    ]
    text = _asymmetry(blocks, forward, backward, palindromes)
    return Orientation(k, blocks, text, float(np.mean(floors)), float(np.std(floors, ddof=1)))


def _pairs(table: HashTable, k: int, words: int) -> tuple[Counts, Counts, int]:
    """The counts of blocks and of their reversals, each pair once; the number of palindromes."""
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
    """The asymmetry, from the counts of pairs of blocks and their reversals.

    A pair with counts in the ratio f : b, f + b = 1, adds 1 − H(f, b), weighted by its share of all
    blocks. Palindromes add 0.
    """
    both = forward + backward
    shares = np.stack([forward, backward], 1) / both[:, None]
    divergence = both @ (1 - row_entropies(shares)) / blocks
    distinct = palindromes + int(np.sum(forward > 0) + np.sum(backward > 0))
    one_way = int(np.sum((forward == 0) | (backward == 0)))
    return Asymmetry(distinct, float(divergence), one_way / distinct)
