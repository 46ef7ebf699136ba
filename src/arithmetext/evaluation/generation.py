"""Continue prompts, whatever the model."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..models.language import LanguageModel, Reading
from ..progress import Advance, no_progress, progress
from ..text.sieve import Words
from ..text.windows import GENERATION, generator
from .prompts import TextPrompts

LONGEST = 64  # tokens a word; a model that never ends one is stopped


@dataclass(frozen=True)
class Continuations:
    """What a model makes of prompts, and what stands there."""

    tokens: Tensor  # [prompts, tokens]
    predicted: list[Words]  # 0 for a word that is malformed
    true: list[Words]  # as many of each


def continued(
    model: LanguageModel,
    prompts: TextPrompts,
    count: int,
    *,
    beta: float = math.inf,
    seed: int = 0,
    stride: int = 1,
) -> Continuations:
    """Continue all prompts by `count` tokens, a batch at a time.

    A GPT drops the oldest `stride` tokens when its context is full (`models.kv_cache`).
    """
    with progress(f"generating, β = {beta:g}", len(prompts) * count, "tokens") as advance:
        parts = [
            generate(
                model.read(batch, stride=stride),
                count,
                beta=beta,
                seed=seed,
                first=first,
                advance=advance,
            ).cpu()
            for first, batch in prompts.batches()
        ]
    tokens = torch.cat(parts)
    predicted = prompts.words_after(tokens)
    return Continuations(tokens, predicted, prompts.true_words([len(row) for row in predicted]))


def next_words(
    model: LanguageModel, prompt: TextPrompts, count: int, *, beta: float, seed: int
) -> Words:
    """The next words of a single prompt; fewer if the model does not end them."""
    ended, tokens = 0, []
    with progress("generating", count, "words") as advance:
        for token in islice(stream(model.read(prompt), beta=beta, seed=seed), LONGEST * count):
            tokens.append(token)
            words_ended = int(prompt.tokenizer.words_ended[int(token)])
            advance(words_ended)
            ended += words_ended
            if ended >= count:
                break
    [words] = prompt.words_after(torch.stack(tokens, 1))
    return words[:count]


def generate(
    reading: Reading,
    count: int,
    *,
    beta: float = math.inf,
    seed: int = 0,
    first: int = 0,
    advance: Advance = no_progress,
) -> Tensor:
    """The next `count` tokens of each prompt, [prompts, count]; the reading has read them after."""
    if count < 1:
        raise InputError(f"there is nothing to generate in {count} tokens")
    tokens: list[Tensor] = []
    for token in islice(stream(reading, beta=beta, seed=seed, first=first), count):
        tokens.append(token)
        advance(len(token))
    return torch.stack(tokens, 1)


def stream(
    reading: Reading, *, beta: float = math.inf, seed: int = 0, first: int = 0
) -> Iterator[Tensor]:
    """The next token of each prompt, [prompts], and so on without end; it has been read then.

    A token is drawn with a probability proportional to p^β; at β = ∞ the likeliest is taken. Chance
    is a pure function of (seed, prompt, token), where the prompts here are those from `first` on:
    what comes out does not depend on how many are read together.
    """
    if not beta > 0:
        raise InputError(f"beta must be positive, or inf for the likeliest token, not {beta}")
    if not 0 <= seed < 1 << 63:
        raise InputError("the seed must be 0 or more and below 2^63")
    return _stream(reading, beta, seed, first)


@torch.no_grad()
def _stream(reading: Reading, beta: float, seed: int, first: int) -> Iterator[Tensor]:
    chances: Iterator[Tensor] | None = None
    while True:
        logs = reading.log_probabilities()
        if beta == math.inf:
            token = logs.argmax(-1)
        else:
            chances = chances or uniform(seed, range(first, first + len(logs)))
            token = drawn(logs, beta, next(chances).to(logs.device))
        reading.append(token)
        yield token


def drawn(logs: Tensor, beta: float, chance: Tensor) -> Tensor:
    """The token of each row in whose share of 0..1 the chance falls."""
    logs = logs.double()
    sums = (beta * (logs - logs.amax(-1, keepdim=True))).exp().cumsum(-1)
    # It is 1 − 2⁻⁵³ at most, and its product with the sum of all stays below that sum when it is
    # rounded: the search ends at a token, and never at one that has no share.
    return torch.searchsorted(sums, chance[:, None] * sums[:, -1:], right=True)[:, 0]


def uniform(seed: int, prompts: range) -> Iterator[Tensor]:
    """A number from 0 to 1 for each prompt, and so on without end."""
    sources = [generator(seed, GENERATION, 0, prompt) for prompt in prompts]
    while True:  # some at once: it is called for every token
        yield from torch.from_numpy(np.stack([source.random(_AHEAD) for source in sources], 1))


_AHEAD = 64
