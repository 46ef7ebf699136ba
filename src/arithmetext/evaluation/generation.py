"""Continue prompts, whatever the model."""

import math

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..models.language import Reading

GENERATION = 2  # the purpose of these random numbers; training and validation have 0 and 1


@torch.no_grad()
def generate(
    reading: Reading, count: int, *, beta: float = math.inf, seed: int = 0, first: int = 0
) -> Tensor:
    """The next `count` tokens of each prompt, [prompts, count]; the reading has read them after.

    A token is drawn with a probability proportional to p^β; at β = ∞ the likeliest is taken. Chance
    is a pure function of (seed, prompt, token), where the prompts here are those from `first` on:
    what comes out does not depend on how many are read together.
    """
    if not beta > 0:
        raise InputError(f"beta must be positive, or inf for the likeliest token, not {beta}")
    if count < 1 or not 0 <= seed < 1 << 63:
        raise InputError("count must be 1 or more, and seed 0 or more and below 2^63")
    tokens: list[Tensor] = []
    for step in range(count):
        logs = reading.log_probabilities()
        if beta == math.inf:
            token = logs.argmax(-1)
        else:
            if not tokens:
                chances = uniform(seed, range(first, first + len(logs)), count).to(logs.device)
            token = drawn(logs, beta, chances[:, step])
        reading.append(token)
        tokens.append(token)
    return torch.stack(tokens, 1)


def drawn(logs: Tensor, beta: float, chance: Tensor) -> Tensor:
    """The token of each row in whose share of 0..1 the chance falls."""
    scaled = logs.double() * beta
    sums = (scaled - scaled.amax(-1, keepdim=True)).exp().cumsum(-1)
    # It is 1 − 2⁻⁵³ at most, and its product with the sum of all stays below that sum when it is
    # rounded: the search ends at a token, and never at one that has no share.
    return torch.searchsorted(sums, chance[:, None] * sums[:, -1:], right=True)[:, 0]


def uniform(seed: int, prompts: range, count: int) -> Tensor:
    """A number from 0 to 1 for each token of each prompt."""

    def row(prompt: int) -> Tensor:
        source = np.random.Philox(key=(seed, GENERATION), counter=[0, 0, 0, prompt])
        return torch.from_numpy(np.random.Generator(source).random(count))

    return torch.stack([row(prompt) for prompt in prompts])
