"""Turn a model that predicts words into a language model over word tokens.

Most words are one token. The other words, without a token, are spelled letter by letter, with a
space at the end. They all begin with the letter 1, so P(first letter 1) is their total probability.
P(next letter) is the total probability of the words without a token that match the letters up to
and including it, divided by the total of the words that match the letters before it.

If the letters match no word, all letters are equally likely until the next space, and what they
spell counts as a word without a token.
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
FIRST_WORD = len(ALPHABET)  # the token of the first word; letters come before it

_NO_WORD = np.uint64(0)


class WordState(Protocol):
    """The state of a model of words after its prompts."""

    def probabilities(self) -> Probabilities:
        """Of the next word, [prompts, 1 + words]; column 0: all words without a token together."""

    def others(self, prompt: int) -> tuple[Words, Probabilities]:
        """The words without a token, and their probabilities up to a common factor."""

    def advance(self, prompts: NDArray[np.int64], words: Words) -> None:
        """Read one more word in some of the prompts."""


class WordReading:
    """Prompts that a model of words has read up to some token."""

    def __init__(self, tokens: WordTokens, state: WordState) -> None:
        self._tokens, self._state = tokens, state
        self._begun: dict[int, _Spelling] = {}  # by index of a prompt that ends inside a word

    def log_probabilities(self) -> Tensor:
        words = self._state.probabilities()
        tokens = np.zeros((len(words), self._tokens.size))
        tokens[:, ONE] = words[:, 0]
        tokens[:, FIRST_WORD:] = words[:, 1:]
        for prompt, spelling in self._begun.items():
            tokens[prompt] = 0
            tokens[prompt, :FIRST_WORD] = spelling.letters()
        with np.errstate(divide="ignore"):
            return torch.from_numpy(np.log(tokens))

    def append(self, tokens: Tensor) -> None:
        ended: dict[int, np.uint64] = {}
        for prompt, token in enumerate(tokens.tolist()):
            begun = self._begun.pop(prompt, None)
            if token >= FIRST_WORD:
                ended[prompt] = (
                    self._tokens.words[token - FIRST_WORD] if begun is None else _NO_WORD
                )
            elif token == SPACE:
                ended[prompt] = _NO_WORD if begun is None else begun.word()
            else:
                if begun is not None:
                    self._begun[prompt] = begun
                self.spell(prompt, [token])
        self._state.advance(
            np.array(list(ended), np.int64), np.array(list(ended.values()), np.uint64)
        )

    def spell(self, prompt: int, letters: Sequence[int]) -> None:
        """Read letters of a word that is not complete yet."""
        for letter in letters:
            if prompt not in self._begun:
                self._begun[prompt] = _Spelling(*self._state.others(prompt))
            self._begun[prompt].append(letter)

    def lose(self, prompt: int) -> None:
        """Treat the prompt as ending inside an unknown word."""
        self._begun[prompt] = _Spelling(np.zeros(0, np.uint64), np.zeros(0))


class _Spelling:
    """The words that match the letters spelled so far."""

    def __init__(self, words: Words, probabilities: Probabilities) -> None:
        self._lengths = 2 * np.bitwise_count(words)
        self._words = words << (64 - self._lengths)  # so that letters have fixed bits
        self._probabilities = probabilities
        self._spelled = 0

    def _next(self) -> NDArray[np.int64]:
        """The next letter of each word."""
        bit = (self._words >> np.uint64(max(0, 63 - self._spelled)) & np.uint64(1)).astype(np.int64)
        return np.where(self._lengths == self._spelled, SPACE, np.where(bit, ONE, ZERO))

    def letters(self) -> Probabilities:
        """The probabilities of the next letter."""
        if not len(self._words):
            return np.full(FIRST_WORD, 1 / FIRST_WORD)
        sums = np.bincount(self._next(), self._probabilities, minlength=FIRST_WORD).astype(
            np.float64
        )
        return sums / np.float64(sums.sum())

    def append(self, letter: int) -> None:
        matching = self._next() == letter
        self._words, self._lengths = self._words[matching], self._lengths[matching]
        self._probabilities = self._probabilities[matching]
        self._spelled += 1

    def word(self) -> np.uint64:
        """The word that ends after these letters; 0 if they spell none."""
        self.append(SPACE)
        if not len(self._words):
            return _NO_WORD
        return np.uint64(self._words[0] >> np.uint64(64 - self._lengths[0]))
