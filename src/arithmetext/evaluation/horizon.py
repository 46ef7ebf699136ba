"""How much arithmetic a model knows: the bound B whose residue oracle is as good.

The oracle knows n modulo every power of every prime up to B, and nothing else about n but its scale
(search/residues.py). The B that matches a model is the model's arithmetic horizon.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..models.language import LanguageModel
from ..search.residues import OracleScore
from .estimates import Estimate, over_seeds_and_blocks
from .generation import continue_prompts
from .prompts import TextPrompts
from .scoring import nats_and_words
from .words import Floats, accuracies


class PromptScores(NamedTuple):
    """A model's scores on the words that follow each prompt, [prompts]."""

    accuracy: Floats  # of the likeliest continuation
    nats: Floats  # per word, each predicted from the true words before it


@dataclass(frozen=True)
class ModelScore:
    """A model at one scale, and the oracles that are as good."""

    model: str
    scale: int
    seeds: int  # trained models that the means are over
    accuracy: Estimate
    nats: Estimate
    horizon_by_accuracy: float | None
    horizon_by_nats: float | None


def score_prompts(model: LanguageModel, prompts: TextPrompts) -> PromptScores:
    """Score a model on the words that follow each prompt."""
    continuations = continue_prompts(model, prompts, prompts.following.shape[1])
    cost, words = nats_and_words(model, prompts)
    return PromptScores(accuracies(continuations.predicted, continuations.true), cost / words)


def summarise(
    name: str,
    scale: int,
    seeds: Sequence[PromptScores],
    blocks: int,
    oracle: Sequence[OracleScore],
) -> ModelScore:
    """The means over seeds and prompts, and the horizons.

    `oracle` has the scores of oracles of increasing bounds at the same scale.
    """
    accuracy = over_seeds_and_blocks([each.accuracy for each in seeds], blocks)
    nats = over_seeds_and_blocks([each.nats for each in seeds], blocks)
    assert accuracy.value is not None and nats.value is not None  # every prompt has words
    return ModelScore(
        name,
        scale,
        len(seeds),
        accuracy,
        nats,
        horizon_by_accuracy(oracle, accuracy.value),
        horizon_by_nats(oracle, nats.value),
    )


def horizon_by_accuracy(oracle: Sequence[OracleScore], accuracy: float) -> float | None:
    """The bound whose oracle has this accuracy; None if it is lower for every oracle."""
    return _horizon(oracle, [score.accuracy for score in oracle], accuracy)


def horizon_by_nats(oracle: Sequence[OracleScore], nats: float) -> float | None:
    """The bound whose oracle has these nats per word; None if every oracle has more."""
    return _horizon(oracle, [-score.nats for score in oracle], -nats)


def _horizon(oracle: Sequence[OracleScore], values: Sequence[float], value: float) -> float | None:
    """The bound at which the oracle's values reach `value`, interpolated in ln(bound)."""
    if value > values[-1]:
        return None
    bounds = np.log([score.bound for score in oracle])
    return float(np.exp(np.interp(value, np.maximum.accumulate(values), bounds)))
