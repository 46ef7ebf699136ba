"""Training byte-pair encoding, merge by merge as the trainer of Hugging Face `tokenizers` does it.

What it is trained on and the rules for ties change the merges. They are fixed:

- A line of training text is 128 consecutive words, each followed by a space. No pair of symbols
  reaches over the end of a line; within it, a space is a character like any other.
- Space, 0 and 1 are the tokens 0, 1 and 2. The first merge makes token 3, the next one 4, …
- A pair counts as often as two neighbours are that pair: 000 holds the pair 0 0 twice.
- The commonest pair is merged; of several, the one with the least left, then the least right id.
- It is merged from left to right: 000 becomes 00 followed by 0.

No two merges make the same token. Take a place in the text where no merge has yet crossed the ends
of a string s. What happened within depends on s alone, so wherever s is cut off from its
surroundings it is cut up alike, and the first merge that makes s makes it in all these places.
Therefore the token of merge k is always 3 + k, and a pair once merged never comes back.
"""

from collections import Counter
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..errors import InputError
from ..text.sieve import Words, passing_words
from ..text.splits import Range
from ..text.windows import Windows
from .spelling import ALPHABET, Ids, letters

Merge = tuple[int, int]  # the ids of the left and the right part

LINE = 128
FIRST = len(ALPHABET)  # the id of what the first merge makes
# Ids are 16 bits wide, and the mask token needs one too.
LARGEST = 2**16 - 1

_Counts = NDArray[np.int64]


MOST_LINES = 10**6  # about a gigabyte of text


def sample_lines(ranges: Sequence[Range], lines: int, seed: int) -> Words:
    """Training lines, a row each, that begin anywhere in the ranges with equal probability."""
    if lines < 1:
        raise InputError(f"a tokenizer needs training text: 1 line or more, not {lines}")
    check_lines(lines)
    windows = Windows(ranges, LINE)
    indices = np.random.default_rng(seed).integers(windows.count, size=lines)
    starts = map(windows.start, indices.tolist())
    return np.array([passing_words(start, start + LINE).copy() for start in starts])


def train_bpe(lines: Sequence[str], size: int) -> list[Merge]:
    """The merges that, with the alphabet, make `size` tokens.

    Every merge is a pass over the text, which shrinks quickly: 10 MB and 1024 tokens take about
    two seconds.
    """
    check_size(size)
    # Lines are divided by an id that no token has; it is counted as a neighbour and ignored.
    symbols = np.insert(letters("".join(lines)), np.cumsum([len(line) for line in lines]), size)
    counts = Counter(
        {
            (a, b): np.count_nonzero((symbols[:-1] == a) & (symbols[1:] == b))
            for a in range(FIRST)
            for b in range(FIRST)
        }
    )
    # Counts fall when neighbours are merged. A pair that was overtaken is put back when it is met.
    queue = [(-count, pair) for pair, count in counts.items() if count]
    heapify(queue)
    merges: list[Merge] = []
    while queue and FIRST + len(merges) < size:
        count, pair = heappop(queue)
        if -count != counts[pair]:
            if counts[pair]:
                heappush(queue, (-counts[pair], pair))
            continue
        a, b = pair
        new = FIRST + len(merges)
        merges.append(pair)
        before, after = np.zeros((2, size + 1), np.int64)
        symbols = symbols[: _merge(symbols, a, b, new, before, after)]
        created = set()
        for x in np.flatnonzero(before[:size]).tolist():
            counts[x, a] -= int(before[x])
            counts[x, new] += int(before[x])
            created.add((x, new))
        for y in np.flatnonzero(after[:size]).tolist():
            counts[b, y] -= int(after[y])
            counts[new, y] += int(after[y])
            created.add((new, y))
        for pair in created:
            if counts[pair]:
                heappush(queue, (-counts[pair], pair))
    if FIRST + len(merges) < size:
        raise InputError(
            f"the training text yields {len(merges)} merges, which make"
            f" {FIRST + len(merges)} tokens, not {size}: it needs more lines"
        )
    return merges


def check_lines(lines: int) -> None:
    """Refuse more training text than fits into memory."""
    if lines > MOST_LINES:
        raise InputError(f"{lines} lines are too many to keep in memory: at most {MOST_LINES}")


def check_size(size: int) -> None:
    """Refuse a number of tokens that no tokenizer can have."""
    if not FIRST <= size <= LARGEST:
        raise InputError(
            f"a tokenizer has from {FIRST} (space, 0, 1) to {LARGEST} tokens, not {size}"
        )


@kernel
def replay(symbols: Ids, merges: NDArray[np.int64]) -> Ids:
    """Do to a text, in place, what training did to its own.

    This is the encoding: a merge makes only pairs that are merged later, so to take the earliest
    merge first, and of one merge the leftmost place, is to do one after another.
    """
    neighbours = np.zeros(FIRST + len(merges), np.int64)
    for rank in range(len(merges)):
        a, b = merges[rank]
        symbols = symbols[: _merge(symbols, a, b, FIRST + rank, neighbours, neighbours)]
    return symbols


@kernel
def _merge(symbols: Ids, a: int, b: int, new: int, before: _Counts, after: _Counts) -> int:
    """Write `new` for every a b, in place; return how many symbols are left.

    Counted are the neighbours that each a b has when it is merged: on its left, `new` already
    where that was merged just before, and on its right, still unmerged.
    """
    size = 0
    i = 0
    while i < len(symbols):
        symbol = symbols[i]
        i += 1
        if symbol == a and i < len(symbols) and symbols[i] == b:
            symbol = new
            i += 1
            if size:
                before[symbols[size - 1]] += 1
            if i < len(symbols):
                after[symbols[i]] += 1
        symbols[size] = symbol
        size += 1
    return size
