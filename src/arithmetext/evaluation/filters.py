"""What the filters of a model with long convolutions look for: combs, and what is lost without one.

A filter that adds up words at multiples of q has its power at the frequencies j/q. `comb_power`
measures this power, and `without_period` removes these frequencies from every filter, so that the
loss tells what the model needs them for.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..models.longconv import LongConv
from ..progress import progress
from .activations import windows_near
from .estimates import Estimate, ratio
from .scoring import score
from .subjects import EvaluatedModel

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)
# The period that is removed for each prime: a power of the small ones, since n modulo 16, 9, 25 and
# 49 decides about words too.
PERIODS = tuple({2: 16, 3: 9, 5: 25, 7: 49}.get(p, p) for p in PRIMES)


@dataclass(frozen=True)
class WindowSettings:
    """Windows of the text near one integer, in text that the model has not seen."""

    at: int
    windows: int
    blocks: int  # of a million integers each, that the windows come from
    seed: int


def comb_power(filters: Tensor, period: int) -> float:
    """Median power at the frequencies j/period in lowest terms, relative to all frequencies.

    filters: [channels, distances]. White noise has 1. A Hann window, and the median, keep strong
    frequencies from counting for their neighbours.
    """
    distances = filters.shape[1]
    shaped = filters.double() * torch.hann_window(distances, dtype=torch.float64)
    phases = [j / period for j in range(1, period) if gcd(j, period) == 1]
    angles = 2 * torch.pi * torch.outer(torch.arange(distances), torch.tensor(phases).double())
    power = (shaped @ angles.cos()) ** 2 + (shaped @ angles.sin()) ** 2
    everywhere = (shaped**2).sum(1)  # the mean over all frequencies of the FFT
    return float(power.mean(0).median() / everywhere.mean())


def harmonics(period: int) -> NDArray[np.float64]:
    """The frequencies of everything with this period: j/period up to 1/2."""
    return np.arange(1, period // 2 + 1) / period


def without(filters: Tensor, frequencies: NDArray[np.float64]) -> Tensor:
    """Filters, [channels, distances], without their part at these frequencies."""
    angles = 2 * np.pi * np.outer(np.arange(filters.shape[1]), frequencies)
    waves = np.concatenate([np.cos(angles), np.sin(angles)], 1)
    left, sizes, _ = np.linalg.svd(waves, full_matrices=False)
    whole = filters.float()  # on a GPU filters are in bfloat16
    basis = torch.from_numpy(left[:, sizes > 1e-6 * sizes[0]]).to(whole)
    return (whole - whole @ basis @ basis.mT).to(filters.dtype)


@contextmanager
def without_frequencies(model: LongConv, frequencies: NDArray[np.float64]) -> Iterator[None]:
    """While the `with` block runs, the filters of all layers lack these frequencies."""
    kept = [block.filter.detach().clone() for block in model.blocks]
    try:
        with torch.no_grad():
            for block in model.blocks:
                block.filter[:, 0] = without(block.filter[:, 0], frequencies)
        yield
    finally:
        with torch.no_grad():
            for block, filter in zip(model.blocks, kept, strict=True):
                block.filter.copy_(filter)


def losses_without(model: EvaluatedModel, how: WindowSettings) -> dict[str, NDArray[Any]]:
    """Losses with all frequencies, without each of `PERIODS`, and without random frequencies.

    Only words in the second half of the windows count. They are grouped by the only prime of
    `PRIMES` that divides the integer; the last group has the integers without one. `words` is
    [groups, windows]; the nats of these words are `loss`, [groups, windows], `removed`,
    [periods, groups, windows], and `random`: the same, with as many random frequencies removed.
    """
    network = model.model
    assert isinstance(network, LongConv)
    text = windows_near(model, how.at, number=how.windows, blocks=how.blocks, seed=how.seed)
    half = model.context // 2
    integers = text.integers[:, half:].numpy()
    ends = model.tokenizer.words_ended[text.ids[:, half:].numpy()]
    divides = integers[..., None] % np.array(PRIMES) == 0  # [windows, tokens, primes]
    group = np.where(divides.any(-1), divides.argmax(-1), len(PRIMES))
    group[divides.sum(-1) > 1] = -1  # in no group

    def by_group(values: NDArray[Any]) -> NDArray[np.float64]:
        sums = [(values * (group == g)).sum(1) for g in range(len(PRIMES) + 1)]
        return np.array(sums, np.float64)

    def losses() -> NDArray[np.float64]:
        parts = []
        for _, batch in text.batches():
            logits = network.predict_next(batch.ids[:, :-1])[:, half - 1 :]
            logs = logits.float().cpu().log_softmax(-1)
            parts.append(-logs.gather(-1, batch.ids[:, half:, None])[..., 0].numpy())
        return by_group(np.concatenate(parts))

    random = np.random.default_rng(how.seed)
    kinds: dict[str, Callable[[int], NDArray[np.float64]]] = {
        "removed": harmonics,
        # Not next to 0: that would remove the mean of the filters.
        "random": lambda period: random.uniform(
            2 / network.config.context, 0.5, len(harmonics(period))
        ),
    }
    arrays: dict[str, NDArray[Any]] = {"words": by_group(ends)}
    steps = 1 + len(kinds) * len(PERIODS)
    with torch.no_grad(), progress("filters without a period", steps, "") as advance:
        arrays["loss"] = losses()
        advance()
        for kind, frequencies in kinds.items():
            rows = []
            for period in PERIODS:
                with without_frequencies(network, frequencies(period)):
                    rows.append(losses())
                advance()
            arrays[kind] = np.stack(rows)
    return arrays


def losses_by_context(model: EvaluatedModel, how: WindowSettings) -> dict[str, NDArray[Any]]:
    """Losses after 1, 2–3, 4–7, … tokens: `nats` and `words`, [ranges, windows] each."""
    text = windows_near(model, how.at, number=how.windows, blocks=how.blocks, seed=how.seed)
    nats = -score(model.model, text.ids).logs
    words = model.tokenizer.words_ended[text.ids[:, 1:].numpy()]
    firsts = (
        2 ** np.arange(model.context.bit_length() - 1) - 1
    )  # scores begin with the second token
    return {
        "nats": np.add.reduceat(nats, firsts, 1).T,
        "words": np.add.reduceat(words, firsts, 1).T,
    }


def damage(arrays: dict[str, NDArray[Any]], kind: str) -> list[list[Estimate]]:
    """Nats lost per word: a row for each of `PERIODS`, a column for each group.

    Intervals are of 95 %, over windows.
    """
    return [
        [
            ratio(lost, words)
            for lost, words in zip(without - arrays["loss"], arrays["words"], strict=True)
        ]
        for without in arrays[kind]
    ]


def spectra(model: EvaluatedModel, periods: Sequence[int]) -> dict[str, NDArray[Any]]:
    """The `comb_power` of each layer at these periods, [layers, periods]."""
    assert isinstance(model.model, LongConv)
    filters = [block.filter.detach()[:, 0].cpu() for block in model.model.blocks]
    return {
        "power": np.array([[comb_power(each, period) for period in periods] for each in filters])
    }
