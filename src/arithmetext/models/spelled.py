"""Models of words, read token by token.

A model of words knows what word comes next; a language model over word tokens says what token. Most
words are a token each. The others are spelled out, letter by letter, with a space at the end: their
probabilities add up to that of the letter 1 they all begin with, and then, of those that agree with
what is spelled so far, to those of the letters that go on.

Tokens may spell what is no word, and can only be told so afterwards. Until it ends every letter is
as likely as the others, and it counts as a word that has no token.
"""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..text.sieve import Words
from ..tokens import WordTokens
from ..tokens.spelling import ALPHABET

Probabilities = NDArray[np.float64]

SPACE, ZERO, ONE = (ALPHABET.index(letter) for letter in " 01")
FIRST = len(ALPHABET)  # the token of the first word

_NO_WORD = np.uint64(0)


class Places(Protocol):
    """Where in the text the prompts stand, as a model of words remembers it."""

    def probabilities(self) -> Probabilities:
        """Of all words without a token together, then of each with one, [prompts, 1 + words]."""

    def others(self, prompt: int) -> tuple[Words, Probabilities]:
        """The words without a token, and their probabilities up to a common factor."""

    def advance(self, prompts: NDArray[np.int64], words: Words) -> None:
        """Go on by a word in some of the prompts."""


class WordReading:
    """The prompts of a model of words, read up to some token."""

    def __init__(self, tokens: WordTokens, places: Places) -> None:
        self._tokens, self._places = tokens, places
        self._begun: dict[int, _Spelling] = {}  # prompts that stand inside a word

    def log_probabilities(self) -> Tensor:
        """Of every token to come next, [prompts, vocabulary], in nats."""
        words = self._places.probabilities()
        tokens = np.zeros((len(words), self._tokens.size))
        tokens[:, ONE] = words[:, 0]
        tokens[:, FIRST:] = words[:, 1:]
        for prompt, spelling in self._begun.items():
            tokens[prompt] = 0
            tokens[prompt, :FIRST] = spelling.letters()
        with np.errstate(divide="ignore"):
            return torch.from_numpy(np.log(tokens))

    def append(self, tokens: Tensor) -> None:
        """Read one more token of each prompt, [prompts]."""
        ended: dict[int, np.uint64] = {}
        for prompt, token in enumerate(tokens.tolist()):
            begun = self._begun.pop(prompt, None)
            if token >= FIRST:
                ended[prompt] = self._tokens.words[token - FIRST] if begun is None else _NO_WORD
            elif token == SPACE:
                ended[prompt] = _NO_WORD if begun is None else begun.word()
            else:
                if begun is not None:
                    self._begun[prompt] = begun
                self.spell(prompt, [token])
        self._places.advance(
            np.array(list(ended), np.int64), np.array(list(ended.values()), np.uint64)
        )

    def spell(self, prompt: int, letters: Sequence[int]) -> None:
        """Read letters of a word that is not complete yet, as a prompt may end with."""
        for letter in letters:
            if prompt not in self._begun:
                self._begun[prompt] = _Spelling(*self._places.others(prompt))
            self._begun[prompt].append(letter)

    def lose(self, prompt: int) -> None:
        """Stand inside something that cannot be told."""
        self._begun[prompt] = _Spelling(np.zeros(0, np.uint64), np.zeros(0))


class _Spelling:
    """The words that agree with the letters spelled so far."""

    def __init__(self, words: Words, probabilities: Probabilities) -> None:
        self._lengths = 2 * np.bitwise_count(words)
        self._words = words << (64 - self._lengths)  # so that letters stand at fixed bits
        self._probabilities = probabilities
        self._spelled = 0

    def _next(self) -> NDArray[np.int64]:
        """What comes next in each of the words."""
        bit = (self._words >> np.uint64(max(0, 63 - self._spelled)) & np.uint64(1)).astype(np.int64)
        return np.where(self._lengths == self._spelled, SPACE, np.where(bit, ONE, ZERO))

    def letters(self) -> Probabilities:
        """The probabilities of the letters to come next."""
        if not len(self._words):
            return np.full(FIRST, 1 / FIRST)
        sums = np.bincount(self._next(), self._probabilities, minlength=FIRST).astype(np.float64)
        return sums / np.float64(sums.sum())

    def append(self, letter: int) -> None:
        agree = self._next() == letter
        self._words, self._lengths = self._words[agree], self._lengths[agree]
        self._probabilities = self._probabilities[agree]
        self._spelled += 1

    def word(self) -> np.uint64:
        """The word that ends here."""
        self.append(SPACE)
        if not len(self._words):
            return _NO_WORD
        return np.uint64(self._words[0] >> np.uint64(64 - self._lengths[0]))
