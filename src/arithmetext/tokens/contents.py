"""Classify tokens by what they hold (words, parts of words), and count merged tokens."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .picture import word_spans
from .spelling import ALPHABET

ONE, SEVERAL, PART, SPACE = KINDS = ("one word", "several words", "part of a word", "a space")


@dataclass(frozen=True)
class Contents:
    """A text in tokens, and what each token holds."""

    tokens: list[str]
    kinds: list[str]  # one of KINDS for each token
    counts: dict[str, int]  # how many tokens are of each kind
    split: list[int]  # integers whose words lie in more than one token


def contents(tokens: Sequence[str], first: int) -> Contents:
    """What the tokens of the words of first, first + 1, … hold; the last word needs no space.

    A token with a whole word and a part of another counts as a part.
    """
    spans = word_spans("".join(tokens) + " ")
    ends = np.cumsum([len(token) for token in tokens])
    kinds = []
    for begin, end in zip([0, *ends], ends, strict=False):
        touched = [(a, b) for a, b in spans if a < end and b > begin]
        if any(a < begin or b > end for a, b in touched):
            kinds.append(PART)
        elif touched:
            kinds.append(ONE if len(touched) == 1 else SEVERAL)
        else:
            kinds.append(SPACE)
    counts = Counter(kinds)
    split = [n for n, (a, b) in enumerate(spans, first) if ((ends > a) & (ends < b)).any()]
    return Contents(list(tokens), kinds, {kind: counts[kind] for kind in KINDS}, split)


def count_merged(vocabulary: Sequence[str]) -> int:
    """How many different tokens of a vocabulary are two earlier tokens joined."""
    earlier, count = set(ALPHABET), 0
    for token in vocabulary[len(ALPHABET) :]:
        joined = any(token[:k] in earlier and token[k:] in earlier for k in range(1, len(token)))
        count += joined and token not in earlier
        earlier.add(token)
    return count
