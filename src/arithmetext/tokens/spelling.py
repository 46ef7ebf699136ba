"""Words ⇄ characters: the text that tokens are pieces of.

Every word is followed by one space: `10 10 1100 `. So the texts of two arrays of words, joined, are
the text of the joined arrays. The alphabet is space, 0 and 1, in the order of their code points and
of their ids in every tokenizer.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..errors import InputError
from ..text.export import lines
from ..text.sieve import Words

Ids = NDArray[np.uint16]
LongIds = NDArray[np.int64]  # token ids as torch takes them

ALPHABET = " 01"

_FOREIGN = 3
_LETTERS = np.full(256, _FOREIGN, np.uint16)
_LETTERS[list(ALPHABET.encode())] = range(len(ALPHABET))


@dataclass(frozen=True)
class Decoded:
    """The words that a sequence of tokens spells.

    A malformed word is 0 in `words`. It is not a Dyck word, or empty (between two spaces), or has
    more than 64 letters, far more than the word of any integer below 2^63.
    """

    words: Words
    malformed: NDArray[np.int64]  # the positions of malformed words
    head: str  # the end of a word that began before these tokens
    tail: str  # the beginning of a word that is not finished


def spell(words: Words) -> str:
    """The text of packed words.

    >>> spell(np.array([0b10, 0b1100], np.uint64))
    '10 1100 '
    """
    return lines(words).decode().replace("\n", " ")


def letters(text: str) -> Ids:
    """The id of every character."""
    ids = _LETTERS[np.frombuffer(text.encode("ascii", "replace"), np.uint8)]
    if (ids == _FOREIGN).any():
        place = int(np.argmax(ids == _FOREIGN))
        raise InputError(f"{text[place]!r} at place {place + 1}: the text has only 0, 1 and space")
    return ids


def read(text: str, *, inside: bool) -> Decoded:
    """The words of a text; with `inside`, the text before the first space ends an earlier word."""
    begin = text.find(" ") + 1 if inside else 0
    end = text.rfind(" ") + 1
    if inside and not end:
        return Decoded(np.zeros(0, np.uint64), np.zeros(0, np.int64), head=text, tail="")
    body = np.frombuffer(text[begin:end].encode(), np.uint8)
    words = np.empty(np.count_nonzero(body == ord(" ")), np.uint64)
    _pack(body, words)
    return Decoded(words, np.flatnonzero(words == 0), text[: max(0, begin - 1)], text[end:])


@kernel
def _pack(text: NDArray[np.uint8], words: Words) -> None:
    """Pack words that each end with a space; 0 for a word that is malformed."""
    place = 0
    word = np.uint64(0)
    height = length = lowest = 0
    for letter in text:
        if letter == 32:
            words[place] = word if height == 0 and lowest == 0 and length <= 64 else np.uint64(0)
            place += 1
            word = np.uint64(0)
            height = length = lowest = 0
        else:
            up = letter & 1
            word = word << np.uint64(1) | np.uint64(up)
            height += 2 * up - 1
            lowest = min(lowest, height)
            length += 1
