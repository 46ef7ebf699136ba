"""Masked modelling: the share of masked tokens that a model predicts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..models.language import LanguageModel
from ..progress import progress
from ..text.windows import MASKING, generator
from .estimates import Estimate, ratio
from .scoring import BATCH_TOKENS
from .subjects import EvaluatedModel


class MaskedAccuracy(NamedTuple):
    """The paper's token accuracy A^t at one masking share and one inverse temperature."""

    masked: float  # p_m, the share of tokens that are masked
    beta: float
    accuracy: Estimate

    @property
    def value(self) -> float:
        assert self.accuracy.value is not None  # some tokens are always masked
        return self.accuracy.value


class AccuracyGrid(NamedTuple):
    """Accuracies at every p_m and β."""

    masking_shares: list[float]  # p_m, upwards
    betas: list[float]  # downwards: the temperature β⁻¹ grows
    estimates: np.ndarray  # [betas, masking shares, 3]: values and the ends of their intervals

    @property
    def values(self) -> np.ndarray:
        return self.estimates[..., 0]  # [betas, masking shares]


@dataclass(frozen=True)
class Steps:
    """Steps to the next larger p_m or β⁻¹."""

    total: int
    down: int  # accuracy falls
    clearly_down: int  # by more than the intervals of 95 %
    clearly_up: int


def masked_accuracy(
    model: LanguageModel,
    ids: Tensor,
    *,
    masking_shares: Sequence[float],
    betas: Sequence[float],
    seed: int,
) -> list[MaskedAccuracy]:
    """The accuracies of `window_accuracies`, with intervals."""
    found = window_accuracies(model, ids, masking_shares=masking_shares, betas=betas, seed=seed)
    return with_intervals(found, masking_shares, betas)


def with_intervals(
    accuracies: NDArray[np.float64], masking_shares: Sequence[float], betas: Sequence[float]
) -> list[MaskedAccuracy]:
    """Accuracies, [masking shares, betas, windows], with a bootstrap over windows."""
    return [
        MaskedAccuracy(share, beta, ratio(of_windows))
        for share, by_beta in zip(masking_shares, accuracies, strict=True)
        for beta, of_windows in zip(betas, by_beta, strict=True)
    ]


@dataclass(frozen=True)
class MaskedWindows:
    """Random windows of the text near one integer, and how they are masked."""

    at: int
    windows: int
    masking_shares: tuple[float, ...]
    betas: tuple[float, ...]
    seed: int


def masked_windows(model: EvaluatedModel, how: MaskedWindows) -> dict[str, NDArray[Any]]:
    """`window_accuracies` of a masked model near one integer."""
    ids = model.windows(how.at, number=how.windows, seed=how.seed)
    found = window_accuracies(
        model.model, ids, masking_shares=how.masking_shares, betas=how.betas, seed=how.seed
    )
    return {"accuracy": found}


@torch.no_grad()
def window_accuracies(
    model: LanguageModel,
    ids: Tensor,
    *,
    masking_shares: Sequence[float],
    betas: Sequence[float],
    seed: int,
) -> NDArray[np.float64]:
    """Mask a share of the tokens of each window, [windows, tokens], and predict them.

    Returns accuracies, [masking shares, betas, windows]. A token drawn with probability
    proportional to p^β is the true one with just that probability. So the probability is averaged,
    and nothing is drawn. At β = ∞ the likeliest token counts.
    """
    batch = max(1, BATCH_TOKENS // ids.shape[1])
    found = np.empty((len(masking_shares), len(betas), len(ids)))
    with progress("unmasking", len(masking_shares) * len(ids), "windows") as advance:
        for by_beta, masking_share in zip(found, masking_shares, strict=True):
            for first in range(0, len(ids), batch):
                part = ids[first : first + batch]
                chosen = masked_positions(
                    masking_share, part.shape[1], range(first, first + len(part)), seed
                )
                originals = part.gather(1, chosen)
                altered = part.scatter(1, chosen, model.vocabulary - 1)
                # Drop the last token of the vocabulary: the mask is never the answer.
                logits = model.predict_masked(altered, chosen)[..., :-1].double()
                for accuracies, beta in zip(by_beta, betas, strict=True):
                    here = _accuracy(logits, originals.to(logits.device), beta)
                    accuracies[first : first + len(part)] = here.cpu().numpy()
                advance(len(part))
    return found


def pooled(tables: Sequence[Sequence[MaskedAccuracy]]) -> list[MaskedAccuracy]:
    """The mean over several places, each with equal weight.

    The tables have the same p_m and β in the same order. The places are independent, so the errors
    of their accuracies add in quadrature.
    """
    cells = []
    for same in zip(*tables, strict=True):
        values, low, high = np.array([cell.accuracy for cell in same], np.float64).T
        value = values.mean()
        below, above = (
            np.linalg.norm(errors) / len(same) for errors in (values - low, high - values)
        )
        estimate = Estimate(float(value), float(value - below), float(value + above))
        cells.append(MaskedAccuracy(same[0].masked, same[0].beta, estimate))
    return cells


def accuracy_grid(cells: Sequence[MaskedAccuracy]) -> AccuracyGrid:
    masking_shares = sorted({cell.masked for cell in cells})
    betas = sorted({cell.beta for cell in cells}, reverse=True)
    ordered = sorted(cells, key=lambda cell: (-cell.beta, cell.masked))
    estimates = np.array([cell.accuracy for cell in ordered], np.float64)
    shape = len(betas), len(masking_shares), 3
    return AccuracyGrid(masking_shares, betas, estimates.reshape(shape))


def count_steps(grids: Sequence[AccuracyGrid]) -> Steps:
    """Count the steps that lead down or up, in all grids together."""
    counts = np.zeros(4, np.int64)
    for _, _, grid in grids:
        for before, after in ((grid[:-1], grid[1:]), (grid[:, :-1], grid[:, 1:])):
            (value, low, high), (value_after, low_after, high_after) = before.T, after.T
            steps = (value_after < value, high_after < low, low_after > high)
            counts += [value.size, *(np.count_nonzero(which) for which in steps)]
    return Steps(*counts.tolist())


def masked_positions(masking_share: float, length: int, windows: range, seed: int) -> Tensor:
    """Random positions to mask, [windows, masked tokens]; row k is a pure function of (seed, k)."""
    count = max(1, round(masking_share * length))

    def row(window: int) -> np.ndarray:
        random = generator(seed, MASKING, count, window)
        return np.sort(random.choice(length, count, replace=False))

    return torch.from_numpy(np.stack([row(window) for window in windows]))


def _accuracy(logits: Tensor, tokens: Tensor, beta: float) -> Tensor:
    """The accuracy in each window, [windows].

    logits: [windows, masked tokens, vocabulary]; tokens: [windows, masked tokens], the answers.
    """
    if beta == math.inf:
        return (logits.argmax(-1) == tokens).double().mean(1)
    logs = (beta * logits).log_softmax(-1)
    return logs.gather(-1, tokens[..., None])[..., 0].exp().mean(1)
