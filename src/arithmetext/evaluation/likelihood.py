"""Does a model find the text likelier than made-up sequences?

The model scores sequences of the text, and for each sequence a control of as many tokens. All but
the first control alter the words of the sequence:

    unigram             random tokens, with their frequencies in the training text
    shuffled            the words in random order
    shuffled in eights  the words shuffled within blocks of eight
    backwards           the words of the sequence in reverse order
    deleted             one word in the middle of the sequence is missing

Words are altered before they are encoded, and the encoder's warm-up is skipped. So controls, like
sequences of the text, may begin and end inside a word. Statistics are in separation.py.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError
from ..models.language import LanguageModel
from ..progress import Advance, no_progress, progress
from ..text.sieve import Words, words_in_buffer
from ..text.splits import Range
from ..text.windows import TEST, generator
from ..tokens import Tokenizer
from ..tokens.windows import ENCODER_WARMUP, LongIds, TokenWindows, cut
from .scoring import score

CONTROLS = ("unigram", "shuffled", "shuffled in eights", "backwards", "deleted")
BLOCK = 8

Values = NDArray[np.float64]

_COUNTED_TOKENS = 1024, 256  # token frequencies are counted in 1024 windows of 256 tokens


class ControlComparison(NamedTuple):
    """Log-likelihoods per token of sequences of the text and of a control, [sequences] each."""

    length: int  # tokens of a sequence
    control: str
    true: Values
    other: Values  # other[k] is the control of true[k]


def compare_with_controls(
    model: LanguageModel,
    tokenizer: Tokenizer,
    windows: Sequence[Range],
    train: Sequence[Range],
    *,
    number: int,
    lengths: Sequence[int],
    seed: int,
) -> list[ControlComparison]:
    """Compare `number` sequences of each length with every control.

    Each length has its own sequences. Sequence k of a control is a pure function of (seed, windows,
    control, length, k). Token frequencies are counted in the training ranges.
    """
    check_sizes(number, *lengths)
    frequencies = token_frequencies(tokenizer, train, seed)
    comparisons = []
    total = number * len(lengths) * (1 + len(CONTROLS))
    with progress("likelihood", total, "sequences") as advance:
        for length in lengths:
            sequences = Sequences(tokenizer, windows, length=length, seed=seed)
            true = per_token(model, [sequences.true(k) for k in range(number)], advance)
            for control in CONTROLS:
                ids = [sequences.made_up(control, k, frequencies) for k in range(number)]
                other = per_token(model, ids, advance)
                comparisons.append(ControlComparison(length, control, true, other))
    return comparisons


def check_sizes(number: int, *lengths: int) -> None:
    """Raise if there is nothing to score."""
    if number < 1 or min(lengths, default=2) < 2:
        raise InputError("give a number of 1 or more, and lengths of 2 tokens or more")


# Sequences


class Sequences:
    """Sequences of `length` tokens from random places of some ranges, and their controls."""

    def __init__(
        self, tokenizer: Tokenizer, ranges: Sequence[Range], *, length: int, seed: int
    ) -> None:
        self.tokenizer, self.length, self.seed = tokenizer, length, seed
        self._words: dict[int, Words] = {}  # cached, since sieving takes long for large integers
        # One token more than needed, so that a control may delete a word, and text after the
        # sequence, where encoding begins if it is read backwards.
        self.windows = TokenWindows(tokenizer, ranges, length + 1 + ENCODER_WARMUP)

    def start(self, k: int) -> int:
        """The first integer of sequence k."""
        return self.windows.random_start(self.random(k))

    def words(self, k: int) -> Words:
        """The words from which sequence k and its controls are made."""
        if k not in self._words:
            start = self.start(k)
            self._words[k] = words_in_buffer(start, start + self.windows.length).copy()
        return self._words[k]

    def random(self, k: int, use: int = 0) -> np.random.Generator:
        """The random numbers for one use at sequence k; use 0 is to draw its place."""
        first = self.windows.ranges[0][0]
        return generator(self.seed, TEST, first, k, use=self.length << 8 | use)

    def true(self, k: int) -> LongIds:
        """Sequence k of the text, [length]."""
        return cut(self.tokenizer, self.words(k), self.length)

    def made_up(self, control: str, k: int, frequencies: Values | None = None) -> LongIds:
        """Sequence k of a control, [length].

        The control "unigram" needs the frequency of each token, [D].
        """
        random = self.random(k, 1 + CONTROLS.index(control))
        if control == "unigram":
            assert frequencies is not None
            return random.choice(len(frequencies), self.length, p=frequencies)
        words = self.words(k)
        if control == "shuffled":
            words = random.permutation(words)
        elif control == "shuffled in eights":
            words = shuffled_in_blocks(words, random)
        elif control == "backwards":
            return self._backwards(words)
        else:
            words = np.delete(words, self.middle(words))
        return cut(self.tokenizer, words, self.length)

    def _backwards(self, words: Words) -> LongIds:
        """The words of the sequence in reverse order.

        The sequence is as far from the end of the reversed text as it is from the beginning of the
        text. A few words at its ends may differ, since tokens can span words.
        """
        ids = self.tokenizer.encode(words, threads=1)[: self.length + 2 * ENCODER_WARMUP]
        used = words[: int(self.tokenizer.words_ended[ids].sum())]
        reverse = self.tokenizer.encode(np.ascontiguousarray(used[::-1]), threads=1)
        end = len(reverse) - ENCODER_WARMUP
        return reverse[end - self.length : end].astype(np.int64)

    def middle(self, words: Words) -> int:
        """The index of the word in which the middle token of the sequence begins."""
        ids = self.tokenizer.encode(words, threads=1)
        return int(self.tokenizer.words_ended[ids[: ENCODER_WARMUP + self.length // 2]].sum())


def shuffled_in_blocks(words: Words, random: np.random.Generator) -> Words:
    """The words, shuffled within blocks of eight."""
    return words[np.argsort(np.arange(len(words)) // BLOCK + random.random(len(words)))]


def token_frequencies(tokenizer: Tokenizer, ranges: Sequence[Range], seed: int) -> Values:
    """The frequency of every token in 2^18 tokens of random windows of the ranges, [D]."""
    number, tokens = _COUNTED_TOKENS
    windows = TokenWindows(tokenizer, ranges, tokens)
    counts = np.zeros(tokenizer.size, np.int64)
    for k in range(number):
        ids = windows.draw(generator(seed, TEST, 0, k))
        counts += np.bincount(ids, minlength=tokenizer.size)
    shares: Values = counts / counts.sum()
    return shares


def per_token(model: LanguageModel, ids: list[LongIds], advance: Advance = no_progress) -> Values:
    """The mean log-likelihood of the tokens of each sequence after its first, [sequences]."""
    values: Values = score(model, torch.from_numpy(np.stack(ids)), advance).logs.mean(1)
    return values
