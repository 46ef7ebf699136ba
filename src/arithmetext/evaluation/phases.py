"""When a model that keeps track of phases knows n modulo each prime power."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..models.gpt import watching
from ..models.phases import Phases
from ..progress import progress
from .activations import windows_near
from .filters import WindowSettings
from .subjects import EvaluatedModel


@dataclass(frozen=True)
class PhaseSettings:
    """Windows on which the class of each period is determined, and those that are measured."""

    fitted: WindowSettings
    tested: WindowSettings


def residues_known(model: EvaluatedModel, how: PhaseSettings) -> dict[str, NDArray[Any]]:
    """The probability that the model gives to the true residue of n, after 2, 4, 8, … words.

    `known` is [lengths, periods, windows], NaN for fewer words than the period. For each period the
    model has one probability in each layer, that n is in some class modulo the period; training
    has chosen the class. `layer` and `residue`, [periods], are those in which the class is known
    best at the end of the `fitted` windows; `known` is measured in the other windows.
    """
    network = model.model
    assert isinstance(network, Phases)
    periods = network.config.periods
    lengths = 2 ** np.arange(1, model.context.bit_length())
    sums = [np.zeros((network.config.layers, period)) for period in periods]
    for first, logs in _posteriors(model, how.fitted):
        words = logs.shape[2] - 1
        for k, period in enumerate(periods):
            last = np.arange(words + 1 - period, words + 1)
            for row, begin in enumerate(first.tolist()):
                sums[k][:, (begin + last) % period] += np.exp(logs[:, row, last, k])
    best = [np.unravel_index(each.argmax(), each.shape) for each in sums]
    layer, residue = np.array(best).T

    known = []
    for first, logs in _posteriors(model, how.tested):
        values = np.full((len(lengths), len(periods), len(first)), np.nan)
        rows = np.arange(len(first))
        for i, length in enumerate(lengths.tolist()):
            for k, period in enumerate(periods):
                if period <= length < logs.shape[2]:
                    place = length - (first + length - residue[k]) % period
                    values[i, k] = np.exp(logs[layer[k], rows, place, k])
        known.append(values)
    return {"layer": layer, "residue": residue, "known": np.concatenate(known, 2)}


@torch.no_grad()
def _posteriors(
    model: EvaluatedModel, how: WindowSettings
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """The integers of first words, [windows], and [layers, windows, words + 1, periods] logs."""
    text = windows_near(model, how.at, number=how.windows, blocks=how.blocks, seed=how.seed)
    with progress("phases", len(text), "windows") as advance:
        for _, batch in text.batches():
            with watching(model.model, "blocks.*.posteriors") as seen:  # type: ignore[arg-type]
                model.model.predict_next(batch.ids)
            logs = np.stack([each.double().cpu().numpy() for each in seen.values()])
            yield batch.integers[:, 0].numpy(), logs
            advance(len(batch))
