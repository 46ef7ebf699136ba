"""Train byte-pair encoding, with the same merges as the trainer of Hugging Face `tokenizers`.

The merges depend on the training text and on the rules for ties, which are:

- A line of training text is 128 consecutive words, each followed by a space. Pairs of symbols never
  cross the end of a line; within a line, a space is a character like any other.
- Space, 0 and 1 are the tokens 0, 1 and 2. The first merge makes token 3, the next one 4, …
- Overlapping pairs all count: 000 holds the pair 0 0 twice.
- The most common pair is merged. Among equally common pairs, the pair with the smallest left id is
  merged, and then the one with the smallest right id.
- A pair is merged from left to right: 000 becomes 00 followed by 0.

No two merges make the same token. Consider all places where a string s occurs and no merge has
crossed either of its ends. The merges inside s depend on s alone, so they are the same in all these
places, and the first merge that makes s makes it in all of them. Therefore merge k always makes
token 3 + k, and a pair never comes back once it is merged.
"""

from collections import Counter
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..errors import InputError
from ..text.sieve import Words, words_in_buffer
from ..text.splits import Range
from ..text.windows import Windows
from .spelling import ALPHABET, Ids, letters

Merge = tuple[int, int]  # the ids of the left and the right part

LINE = 128  # words in a line
FIRST = len(ALPHABET)  # the id of the token that the first merge makes
MOST_TOKENS = 2**16 - 1  # ids have 16 bits, and the mask token needs one too
MOST_LINES = 10**6  # about a gigabyte of text

_Counts = NDArray[np.int64]


def sample_lines(ranges: Sequence[Range], lines: int, seed: int) -> Words:
    """Random training lines, [lines, LINE]; all starts in the ranges are equally likely."""
    if lines < 1:
        raise InputError(f"a tokenizer needs training text: 1 line or more, not {lines}")
    check_lines(lines)
    windows = Windows(ranges, LINE)
    indices = np.random.default_rng(seed).integers(windows.count, size=lines)
    starts = map(windows.start, indices.tolist())
    return np.array([words_in_buffer(start, start + LINE).copy() for start in starts])


def train_bpe(lines: Sequence[str], size: int) -> list[Merge]:
    """The merges that make `size` tokens, together with the alphabet.

    Every merge is a pass over the text, which shrinks quickly: 10 MB and 1024 tokens take about
    two seconds.
    """
    check_size(size)
    # An id that no token has separates the lines; it is counted as a neighbour, then ignored.
    symbols = np.insert(letters("".join(lines)), np.cumsum([len(line) for line in lines]), size)
    counts = Counter(
        {
            (a, b): np.count_nonzero((symbols[:-1] == a) & (symbols[1:] == b))
            for a in range(FIRST)
            for b in range(FIRST)
        }
    )
    # Counts fall when neighbours are merged. A pair with an outdated count is put back.
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
    """Raise if there is more training text than fits into memory."""
    if lines > MOST_LINES:
        raise InputError(f"{lines} lines are too many to keep in memory: at most {MOST_LINES}")


def check_size(size: int) -> None:
    """Raise if no tokenizer can have this many tokens."""
    if not FIRST <= size <= MOST_TOKENS:
        raise InputError(
            f"a tokenizer has from {FIRST} (space, 0, 1) to {MOST_TOKENS} tokens, not {size}"
        )


@kernel
def replay(symbols: Ids, merges: NDArray[np.int64]) -> Ids:
    """Encode a text, in place, by applying all merges in order.

    Byte-pair encoding always applies the merge with the lowest rank, at its leftmost place. A merge
    only creates pairs of a higher rank, so applying one merge after the other gives the same ids.
    """
    neighbours = np.zeros(FIRST + len(merges), np.int64)
    for rank in range(len(merges)):
        a, b = merges[rank]
        symbols = symbols[: _merge(symbols, a, b, FIRST + rank, neighbours, neighbours)]
    return symbols


@kernel
def _merge(symbols: Ids, a: int, b: int, new: int, before: _Counts, after: _Counts) -> int:
    """Replace every a b by `new`, in place; return how many symbols are left.

    `before` and `after` count the neighbours of each a b when it is merged. The left neighbour may
    already be a `new`; the right neighbour is not merged yet.
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
