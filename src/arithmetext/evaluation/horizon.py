"""How much arithmetic a model knows: the bound B whose residue oracle is as good.

The oracle knows n modulo every power of every prime up to B, and nothing else about n but its scale
(search/residues.py). The B that matches a model is the model's arithmetic horizon.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..models.language import LanguageModel
from ..search.residues import OracleScore
from .estimates import mean_and_error
from .generation import continue_prompts
from .prompts import TextPrompts
from .scoring import nats_and_words
from .words import accuracies


@dataclass(frozen=True)
class ModelScore:
    """A model at one scale: means over prompts with their standard errors, and its horizons."""

    model: str
    scale: int
    accuracy: float  # of the likeliest continuations
    accuracy_error: float
    nats: float  # per word
    nats_error: float
    horizon_by_accuracy: float | None
    horizon_by_nats: float | None


def measure(
    name: str, scale: int, model: LanguageModel, prompts: TextPrompts, oracle: Sequence[OracleScore]
) -> ModelScore:
    """Score a model on the words that follow each prompt, and find its horizons.

    `oracle` has the scores of oracles of increasing bounds at the same scale.
    """
    continuations = continue_prompts(model, prompts, prompts.following.shape[1])
    words_right = accuracies(continuations.predicted, continuations.true)
    accuracy, accuracy_error = mean_and_error(words_right)
    cost, words = nats_and_words(model, prompts)
    nats, nats_error = mean_and_error(cost / words)
    horizons = horizon_by_accuracy(oracle, accuracy), horizon_by_nats(oracle, nats)
    return ModelScore(name, scale, accuracy, accuracy_error, nats, nats_error, *horizons)


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
