"""How well a model continues prompts, counted in words, whatever its tokens.

A continuation may begin inside a word, the last of the prompt: that word is what both ends spell
together, and counts as the first of the continuation.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..models.language import LanguageModel
from ..text.sieve import Words
from ..text.splits import Range
from ..tokens import Tokenizer
from ..tokens.spelling import read
from ..training.stream import Stream
from .generation import generate

TEST = 3  # the purpose of these windows; training, validation and generation have others

Shares = NDArray[np.float64]


@dataclass(frozen=True)
class Prompts:
    """Windows of the text, each a prompt and what follows it."""

    tokenizer: Tokenizer
    ids: Tensor  # [windows, tokens]
    length: int  # of the prompts

    @property
    def prompts(self) -> Tensor:
        return self.ids[:, : self.length]

    @property
    def following(self) -> Tensor:
        return self.ids[:, self.length :]

    def words_after(self, following: Tensor) -> list[Words]:
        """The words that tokens after each prompt complete; 0 for one that is malformed."""
        rows = zip(self.prompts.numpy(), following.cpu().numpy(), strict=True)
        return [
            read(
                self.tokenizer.decode(prompt, inside=True).tail + self.tokenizer.text(after),
                inside=False,
            ).words
            for prompt, after in rows
        ]


def draw(
    tokenizer: Tokenizer, window: Range, *, number: int, length: int, following: int, seed: int = 0
) -> Prompts:
    """Prompts of `length` tokens from random places of a range, and so many tokens after them."""
    stream = Stream(
        tokenizer, [window], task="ntp", context=length + following - 1, seed=seed, purpose=TEST
    )
    ids = np.stack([stream.window(stream.random(0, k)) for k in range(number)])
    if not all(tokenizer.text(row[length:]).count(" ") for row in ids):
        raise InputError(f"no word ends in {following} tokens: let more of them follow")
    return Prompts(tokenizer, torch.from_numpy(ids), length)


def word_accuracy(model: LanguageModel, prompts: Prompts) -> Shares:
    """The paper's A^w of each prompt: the share of the words that follow that are predicted.

    The model goes on by itself, by its likeliest tokens, for as many as the truth has.
    """
    continued = generate(model.read(prompts.prompts), prompts.following.shape[1])
    predicted, true = prompts.words_after(continued), prompts.words_after(prompts.following)
    return np.array([hits(p, t) / len(t) for p, t in zip(predicted, true, strict=True)])


def hits(predicted: Words, true: Words) -> int:
    """How many words stand where they should."""
    shared = min(len(predicted), len(true))
    return int(np.count_nonzero(predicted[:shared] == true[:shared]))


def nats_per_word(model: LanguageModel, prompts: Prompts) -> Shares:
    """The nats that each prompt's continuation costs a word, every token given the true ones."""
    nats = torch.zeros(len(prompts.ids), dtype=torch.float64)
    reading = model.read(prompts.prompts)
    for tokens in prompts.following.T:
        logs = reading.log_probabilities().cpu().double()
        nats -= logs.gather(1, tokens[:, None])[:, 0]
        reading.append(tokens)
    spaces = np.array([token.count(" ") for token in prompts.tokenizer.vocabulary])
    a_word: Shares = nats.numpy() / spaces[prompts.following.numpy()].sum(1)
    return a_word
