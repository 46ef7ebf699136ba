"""Continue prompts with any model, at any inverse temperature β."""

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

MOST_TOKENS_PER_WORD = 64  # a model that never ends a word is stopped


@dataclass(frozen=True)
class Continuations:
    """Prompts continued by a model, with the true words after them; one array per prompt."""

    tokens: Tensor  # [prompts, tokens]
    predicted: list[Words]  # 0 for a malformed word
    true: list[Words]  # as many as were predicted


def continue_prompts(
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
    return with_true_words(prompts, torch.cat(parts))


def with_true_words(prompts: TextPrompts, tokens: Tensor) -> Continuations:
    """Generated tokens, [prompts, tokens], as words beside the true words."""
    predicted = prompts.words_after(tokens)
    return Continuations(tokens, predicted, prompts.true_words([len(row) for row in predicted]))


def next_words(
    model: LanguageModel, prompt: TextPrompts, count: int, *, beta: float, seed: int
) -> Words:
    """The next `count` words of a single prompt; fewer if the model does not end its words."""
    ended, tokens = 0, []
    with progress("generating", count, "words") as advance:
        sampled = sample_tokens(model.read(prompt), beta=beta, seed=seed)
        for token in islice(sampled, MOST_TOKENS_PER_WORD * count):
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
    """Generate the next `count` tokens of each prompt, [prompts, count], and read them."""
    if count < 1:
        raise InputError(f"the number of tokens to generate must be 1 or more, not {count}")
    tokens: list[Tensor] = []
    for token in islice(sample_tokens(reading, beta=beta, seed=seed, first=first), count):
        tokens.append(token)
        advance(len(token))
    return torch.stack(tokens, 1)


def sample_tokens(
    reading: Reading, *, beta: float = math.inf, seed: int = 0, first: int = 0
) -> Iterator[Tensor]:
    """Generate tokens without end: the next token of each prompt, [prompts], which is then read.

    A token is drawn with probability proportional to p^β; at β = ∞ it is the likeliest token. The
    random number is a pure function of (seed, number of the prompt, number of the token). `first`
    is the number of the first prompt of this batch, so results do not depend on the batch size.
    """
    if not beta > 0:
        raise InputError(f"beta must be positive, or inf for the likeliest token, not {beta}")
    if not 0 <= seed < 1 << 63:
        raise InputError("the seed must be 0 or more and below 2^63")
    return _sample_tokens(reading, beta, seed, first)


@torch.no_grad()
def _sample_tokens(reading: Reading, beta: float, seed: int, first: int) -> Iterator[Tensor]:
    numbers: Iterator[Tensor] | None = None
    while True:
        logs = reading.log_probabilities()
        if beta == math.inf:
            token = logs.argmax(-1)
        else:
            numbers = numbers or uniform(seed, range(first, first + len(logs)))
            token = sample(logs, beta, next(numbers).to(logs.device))
        reading.append(token)
        yield token


def sample(logs: Tensor, beta: float, numbers: Tensor) -> Tensor:
    """Draw a token of each prompt with probability proportional to p^β, [prompts].

    logs: [prompts, vocabulary], log-probabilities; numbers: [prompts], uniform in [0, 1).
    """
    logs = logs.double()
    sums = (beta * (logs - logs.amax(-1, keepdim=True))).exp().cumsum(-1)
    # A number is at most 1 − 2⁻⁵³, so its product with the total stays below the total when it is
    # rounded. So the search always ends at a token, and never at one of probability 0.
    return torch.searchsorted(sums, numbers[:, None] * sums[:, -1:], right=True)[:, 0]


def uniform(seed: int, prompts: range) -> Iterator[Tensor]:
    """Uniform random numbers in [0, 1), one for each prompt, [prompts], without end."""
    sources = [generator(seed, GENERATION, 0, prompt) for prompt in prompts]
    while True:  # draw several numbers at once, since one is needed for every token
        yield from torch.from_numpy(np.stack([source.random(_AT_ONCE) for source in sources], 1))


_AT_ONCE = 64
