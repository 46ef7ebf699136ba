"""The automaton behind the encoder: it gives the last token in the encoding of every prefix.

Two tokens are *stable* side by side if their joint text encodes to these two tokens. Exactly one
token ends at the end of a prefix and is stable after the last token of the text before it: this is
the prefix's last token. Finding it takes finitely many facts about the text before, which are the
states of the automaton.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from .spelling import ALPHABET

_NEVER = np.iinfo(np.int32).max  # the rank of a pair that is never merged


def automaton(
    vocabulary: list[str], stable: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The next state and the last token for each state and letter; states are as few as possible.

    Both arrays are [states, letters]. An *opening* is a proper prefix of a token; a token that ends
    later begins with an opening that the text ends with. So a state says which openings the text
    ends with, and for each opening, which tokens that begin with it are stable after the last token
    before it.
    """
    ids = {token: number for number, token in enumerate(vocabulary)}
    tokens_of: dict[str, list[int]] = {}
    for text, number in ids.items():
        for length in range(len(text)):
            tokens_of.setdefault(text[:length], []).append(number)
    # All openings that an opening ends with, from the shortest (empty) to the opening itself.
    nested = {
        opening: [opening[i:] for i in range(len(opening), -1, -1) if opening[i:] in tokens_of]
        for opening in tokens_of
    }

    # For each opening and letter: the tokens that may end here, and the next openings except the
    # empty one, longest last; each with the index of the nested opening that it continues.
    plans = {}
    for opening, inner in nested.items():
        for letter in ALPHABET:
            ends = [(end + letter, place) for place, end in enumerate(inner)]
            plans[opening, letter] = (
                [(ids[end], place) for end, place in ends if end in ids],
                [(end, place) for end, place in ends if end in tokens_of],
            )

    # Before an opening, tokens are interchangeable if they are stable with the same tokens that
    # begin with the opening. The first such token represents them all.
    representatives: dict[tuple[str, int], int] = {}
    patterns: dict[tuple[str, bytes], int] = {}

    def representative(opening: str, token: int) -> int:
        if (opening, token) not in representatives:
            pattern = stable[token, tokens_of[opening]].tobytes()
            representatives[opening, token] = patterns.setdefault((opening, pattern), token)
        return representatives[opening, token]

    states: list[tuple[str, tuple[int, ...]]] = [("", (representative("", len(vocabulary)),))]
    numbers = {states[0]: 0}
    moves = []
    for opening, before in states:
        for letter in ALPHABET:
            candidates, openings = plans[opening, letter]
            token = next(token for token, place in candidates if stable[before[place], token])
            longest = openings[-1][0] if openings else ""
            others = (representative(end, before[place]) for end, place in openings)
            state = longest, (representative("", token), *others)
            if state not in numbers:
                numbers[state] = len(states)
                states.append(state)
            moves.append((numbers[state], token))
    step, last = np.array(moves).reshape(-1, len(ALPHABET), 2).transpose(2, 0, 1)
    return _minimised(step, last)


def _minimised(
    step: NDArray[np.int64], last: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Minimise the automaton; number the start first, then the states after a space.

    Moore's algorithm: two states differ if the tokens of the next letter, the next two letters, …
    differ.
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
    """Number the distinct rows of these columns from 0 on; equal rows have equal numbers."""
    numbers = np.unique(first, return_inverse=True)[1]
    for column in others:
        pairs = numbers * (int(column.max()) + 1) + column
        numbers = np.unique(pairs, return_inverse=True)[1]
    return numbers


def stable_pairs(vocabulary: list[str], merges: list[tuple[int, int]]) -> NDArray[np.bool_]:
    """Which pairs of tokens are stable, [D + 1, D]; the last row is for no token before."""
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
    """How each token is merged: the ranks of its merges, and its first and last part before each.

    All three arrays are [D, longest token]. The first rank is -1 if the letters of the token do not
    encode to it.
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
    """Merge two tokens side by side: they are stable if no merge ever crosses the border.

    The lowest rank is merged first, and the leftmost of equal ranks: left token, border, right.
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
