"""When a model that keeps track of phases knows n modulo each prime power."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..models.gpt import watching
from ..models.phases import Phases, word_ends
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
    """How sure the model is of n modulo each period, after 2, 4, 8, … words.

    In each layer the model has one probability for each period: that n is in one class modulo this
    period. Nothing makes it the class of the multiples, so `layer` and `residue`, [periods], are
    those that have the highest mean probability at the end of the `fitted` windows.

    `known`, [lengths, periods, windows], is measured in the `tested` windows: the probability of
    this class at the last integer that is in it, before so many words have been read. It is NaN
    where this is less than one period, or where a window has fewer words.
    """
    network = model.model
    assert isinstance(network, Phases)
    periods = network.config.periods
    lengths = 2 ** np.arange(1, model.context.bit_length())
    sums = [np.zeros((network.config.layers, period)) for period in periods]
    for first, words, logs in _posteriors(model, how.fitted):
        for k, period in enumerate(periods):
            for row, (begin, count) in enumerate(zip(first.tolist(), words.tolist(), strict=True)):
                last = np.arange(max(0, count + 1 - period), count + 1)
                sums[k][:, (begin + last) % period] += np.exp(logs[:, row, last, k])
    best = [np.unravel_index(each.argmax(), each.shape) for each in sums]
    layer, residue = np.array(best).T

    known = []
    for first, words, logs in _posteriors(model, how.tested):
        values = np.full((len(lengths), len(periods), len(first)), np.nan)
        rows = np.arange(len(first))
        for i, length in enumerate(lengths.tolist()):
            for k, period in enumerate(periods):
                if period <= length < logs.shape[2]:
                    last = length - (first + length - residue[k]) % period
                    sure = np.exp(logs[layer[k], rows, last, k])
                    values[i, k] = np.where(length <= words, sure, np.nan)
        known.append(values)
    return {"layer": layer, "residue": residue, "known": np.concatenate(known, 2)}


@torch.no_grad()
def _posteriors(
    model: EvaluatedModel, how: WindowSettings
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
    """Of some windows: the integer of the first word, the number of words, [windows] each, and the
    logarithms of probabilities, [layers, windows, tokens + 1, periods].
    """
    text = windows_near(model, how.at, number=how.windows, blocks=how.blocks, seed=how.seed)
    with progress("phases", len(text), "windows") as advance:
        for _, batch in text.batches():
            with watching(model.model, "blocks.*.posteriors") as seen:  # type: ignore[arg-type]
                model.model.predict_next(batch.ids)
            logs = np.stack([each.double().cpu().numpy() for each in seen.values()])
            words = word_ends(batch.ids).sum(1)  # fewer than tokens if words are spelled
            yield batch.integers[:, 0].numpy(), words.numpy(), logs
            advance(len(batch))
