"""How much arithmetic a model knows: the bound B whose residue oracle is as good.

The oracle knows n modulo every power of every prime up to B, and nothing else about n but its scale
(search/residues.py). The B that matches a model is the model's arithmetic horizon.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..models.language import LanguageModel
from ..search.residues import OracleScore
from .estimates import Estimate, over_seeds_and_blocks, ratio_over_blocks
from .generation import continue_prompts, with_true_words
from .prompts import TextPrompts
from .scoring import nats_and_words
from .words import Floats, Integers, accuracies


class PromptScores(NamedTuple):
    """What a model makes of the tokens that follow each prompt."""

    tokens: Integers  # the likeliest continuation, as long, [prompts, tokens]
    nats: NDArray[np.float32]  # of the true tokens, each predicted from those before it, likewise
    words: Integers  # that end in the true tokens, [prompts]


@dataclass(frozen=True)
class ModelScore:
    """A model at one scale, and the oracles that are as good."""

    model: str
    scale: int
    seeds: int  # trained models that the means are over
    accuracy: Estimate
    nats: Estimate  # per word
    horizon_by_accuracy: float | None
    horizon_by_nats: float | None


def score_prompts(model: LanguageModel, prompts: TextPrompts) -> PromptScores:
    """Score a model on the tokens that follow each prompt."""
    tokens = continue_prompts(model, prompts, prompts.following.shape[1]).tokens.numpy()
    return PromptScores(
        tokens.astype(np.min_scalar_type(prompts.tokenizer.size - 1)),
        *nats_and_words(model, prompts),
    )


def summarise(
    name: str,
    scale: int,
    seeds: Sequence[PromptScores],
    prompts: TextPrompts,
    oracle: Sequence[OracleScore],
) -> ModelScore:
    """The means over seeds and prompts, and the horizons.

    `oracle` has the scores of oracles of increasing bounds at the same scale.
    """
    mean = over_seeds_and_blocks([_accuracies(prompts, each) for each in seeds], prompts.blocks)
    nats = nats_per_word(seeds, prompts.blocks)
    assert mean.value is not None and nats.value is not None  # every prompt has words
    return ModelScore(
        name,
        scale,
        len(seeds),
        mean,
        nats,
        horizon_by_accuracy(oracle, mean.value),
        horizon_by_nats(oracle, nats.value),
    )


def nats_per_word(seeds: Sequence[PromptScores], blocks: int) -> Estimate:
    """All nats over all words."""
    nats = [each.nats.sum(1, dtype=np.float64) for each in seeds]
    return ratio_over_blocks(nats, [each.words for each in seeds], blocks)


def _accuracies(prompts: TextPrompts, scores: PromptScores) -> Floats:
    """The accuracy after each prompt, [prompts]."""
    made = with_true_words(prompts, torch.from_numpy(scores.tokens.astype(np.int64)))
    return accuracies(made.predicted, made.true)


def horizon_by_accuracy(oracle: Sequence[OracleScore], accuracy: float) -> float | None:
    """The bound whose oracle has this accuracy; None if it is lower for every oracle."""
    return _horizon(oracle, [score.accuracy for score in oracle], accuracy)


def horizon_by_nats(oracle: Sequence[OracleScore], nats: float) -> float | None:
    """The bound whose oracle has these nats per word; None if every oracle has more."""
    return _horizon(oracle, [-score.nats for score in oracle], -nats)


def _horizon(oracle: Sequence[OracleScore], values: Sequence[float], value: float) -> float | None:
    """The bound at which the oracle's values reach `value`, interpolated in ln(bound).

    The first bound if all values are above.
    """
    if value > max(values):
        return None
    bounds = np.log([score.bound for score in oracle])
    return float(np.exp(np.interp(value, np.maximum.accumulate(values), bounds)))
