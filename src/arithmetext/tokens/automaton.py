"""The automaton behind the encoder: of every prefix of a text, the last token of its encoding.

Two tokens are *stable* side by side if the encoding of their joint text is those two. The last
token of a prefix is the one token that ends there and is stable behind the last token of what lies
before it. What the past has to say about this is finite: `automaton` lists its states.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from .spelling import ALPHABET

_NEVER = np.iinfo(np.int32).max  # the rank of a pair that no merge joins


def automaton(
    vocabulary: list[str], stable: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The next state, and the last token then, by state and letter; as few states as can be.

    A token that will end later begins with a suffix of the text so far: an *opening*, a proper
    prefix of tokens. Of the past it matters which openings the text ends with, and for each, with
    which of its tokens the last token before it is stable.
    """
    ids = {token: number for number, token in enumerate(vocabulary)}
    tokens_of: dict[str, list[int]] = {}
    for text, number in ids.items():
        for length in range(len(text)):
            tokens_of.setdefault(text[:length], []).append(number)
    # All openings that an opening ends with, from the empty one to itself.
    nested = {
        opening: [opening[i:] for i in range(len(opening), -1, -1) if opening[i:] in tokens_of]
        for opening in tokens_of
    }

    # By opening and letter: the tokens that may end here, and the next openings but for the empty
    # one, the longest last; each with the place of the nested opening that it continues.
    plans = {}
    for opening, inner in nested.items():
        for letter in ALPHABET:
            ends = [(end + letter, place) for place, end in enumerate(inner)]
            plans[opening, letter] = (
                [(ids[end], place) for end, place in ends if end in ids],
                [(end, place) for end, place in ends if end in tokens_of],
            )

    # Tokens that are stable with the same tokens of an opening stand for each other before it.
    standing: dict[tuple[str, int], int] = {}
    patterns: dict[tuple[str, bytes], int] = {}

    def stand_in(opening: str, token: int) -> int:
        if (opening, token) not in standing:
            pattern = stable[token, tokens_of[opening]].tobytes()
            standing[opening, token] = patterns.setdefault((opening, pattern), token)
        return standing[opening, token]

    found: list[tuple[str, tuple[int, ...]]] = [("", (stand_in("", len(vocabulary)),))]
    numbers = {found[0]: 0}
    moves = []
    for opening, before in found:
        for letter in ALPHABET:
            candidates, openings = plans[opening, letter]
            token = next(token for token, place in candidates if stable[before[place], token])
            state = (
                openings[-1][0] if openings else "",
                (stand_in("", token), *(stand_in(end, before[place]) for end, place in openings)),
            )
            if state not in numbers:
                numbers[state] = len(found)
                found.append(state)
            moves.append((numbers[state], token))
    step, last = np.array(moves).reshape(-1, len(ALPHABET), 2).transpose(2, 0, 1)
    return _smallest(step, last)


def _smallest(
    step: NDArray[np.int64], last: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The automaton with states of the same future made one; the start first, then after a space.

    Moore's refinement: states are told apart by the tokens of one letter, of two, …
    """
    kind = numbered(*last.T)
    while True:
        finer = numbered(kind, *kind[step].T)
        if finer.max() == kind.max():
            break
        kind = finer
    _, one = np.unique(kind, return_index=True)
    step, last = kind[step[one]], last[one]
    order = list(dict.fromkeys([int(kind[0]), *step[:, 0].tolist(), *range(len(step))]))
    number = np.argsort(order)
    return number[step[order]], last[order]


def numbered(first: NDArray[np.int64], *others: NDArray[np.int64]) -> NDArray[np.int64]:
    """Numbers from 0 on that are equal where the rows of these columns are."""
    numbers = np.unique(first, return_inverse=True)[1]
    for column in others:
        pairs = numbers * (int(column.max()) + 1) + column
        numbers = np.unique(pairs, return_inverse=True)[1]
    return numbers


def stable_pairs(vocabulary: list[str], merges: list[tuple[int, int]]) -> NDArray[np.bool_]:
    """Whether two tokens, written one after the other, encode to the two; last, a token alone."""
    ids = {token: number for number, token in enumerate(vocabulary)}
    rank = np.full((len(ids), len(ids)), _NEVER, np.int32)
    merged = np.zeros((len(ids), len(ids)), np.uint16)
    for order, (left, right) in enumerate(merges):
        rank[left, right] = order
        merged[left, right] = ids[vocabulary[left] + vocabulary[right]]
    letters = np.zeros((len(ids), max(map(len, ids))), np.int64)
    for number, token in enumerate(vocabulary):
        letters[number, : len(token)] = [ids[letter] for letter in token]
    lengths = np.array([len(token) for token in vocabulary])
    stable: NDArray[np.bool_] = _stability(_histories(letters, lengths, rank, merged), rank)
    return stable


@kernel
def _histories(letters: Any, lengths: Any, rank: Any, merged: Any) -> Any:
    """How a token comes about: the ranks of its merges, and its first and last part before each.

    A token that its own letters do not encode to begins with rank -1.
    """
    ranks = np.full(letters.shape, _NEVER, np.int32)
    first, last = np.empty(letters.shape, np.int64), np.empty(letters.shape, np.int64)
    for token in range(len(letters)):
        parts, count = letters[token].copy(), lengths[token]
        for k in range(count):
            at = 0
            for i in range(count - 1):
                r = rank[parts[i], parts[i + 1]]
                if r < ranks[token, k]:
                    ranks[token, k], at = r, i
            first[token, k], last[token, k] = parts[0], parts[count - 1]
            if ranks[token, k] == _NEVER:
                break
            parts[at] = merged[parts[at], parts[at + 1]]
            count -= 1
            parts[at + 1 : count] = parts[at + 2 : count + 1].copy()
        if count != 1 or parts[0] != token:
            ranks[token, 0] = -1
    return ranks, first, last


@kernel
def _stability(histories: Any, rank: Any) -> Any:
    """Let two tokens come about side by side: are their parts ever merged across the border?

    The lowest rank goes first, and the leftmost of equals: left token, border, right token.
    """
    ranks, first, last = histories
    count = len(ranks)
    stable = np.zeros((count + 1, count), np.bool_)
    stable[count] = ranks[:, 0] >= 0
    for a in range(count):
        for b in range(count):
            i, j = 0, 0
            while stable[count, a] and stable[count, b]:
                left, right = ranks[a, i], ranks[b, j]
                across = rank[last[a, i], first[b, j]]
                if across < left and across <= right:
                    break
                if left == right == _NEVER:
                    stable[a, b] = True
                    break
                if left <= right:
                    i += 1
                else:
                    j += 1
    return stable
