"""Masked modelling: the share of masked tokens that a model predicts."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..models.language import LanguageModel
from ..progress import progress
from ..text.windows import MASKING, generator
from .estimates import Estimate, ratio
from .scoring import BATCH_TOKENS


class MaskedAccuracy(NamedTuple):
    """The paper's token accuracy A^t at one masking share and one inverse temperature."""

    masked: float  # p_m, the share of tokens that are masked
    beta: float
    accuracy: Estimate


@torch.no_grad()
def masked_accuracy(
    model: LanguageModel,
    ids: Tensor,
    *,
    shares: Sequence[float],
    betas: Sequence[float],
    seed: int,
) -> list[MaskedAccuracy]:
    """Mask a share of the tokens of each window, [windows, tokens], and predict them.

    A token drawn with probability proportional to p^β is the true one with just that probability.
    So the probability is averaged, and nothing is drawn. At β = ∞ the likeliest token counts.
    """
    batch = max(1, BATCH_TOKENS // ids.shape[1])
    table = []
    with progress("unmasking", len(shares) * len(ids), "windows") as advance:
        for share in shares:
            found: list[list[np.ndarray]] = [[] for _ in betas]
            for first in range(0, len(ids), batch):
                part = ids[first : first + batch]
                chosen = masked_positions(
                    share, part.shape[1], range(first, first + len(part)), seed
                )
                originals = part.gather(1, chosen)
                altered = part.scatter(1, chosen, model.vocabulary - 1)
                # Drop the last token of the vocabulary: the mask is never the answer.
                logits = model.predict_masked(altered, chosen)[..., :-1].double()
                for each, beta in zip(found, betas, strict=True):
                    each.append(_accuracy(logits, originals.to(logits.device), beta).cpu().numpy())
                advance(len(part))
            table += [
                MaskedAccuracy(share, beta, ratio(np.concatenate(each)))
                for beta, each in zip(betas, found, strict=True)
            ]
    return table


def masked_positions(share: float, length: int, windows: range, seed: int) -> Tensor:
    """Random positions to mask in each window, [windows, masked]; a pure function of the seed."""
    count = max(1, round(share * length))

    def row(window: int) -> np.ndarray:
        random = generator(seed, MASKING, count, window)
        return np.sort(random.choice(length, count, replace=False))

    return torch.from_numpy(np.stack([row(window) for window in windows]))


def _accuracy(logits: Tensor, tokens: Tensor, beta: float) -> Tensor:
    """The accuracy in each window, [windows].

    logits: [windows, masked, vocabulary]; tokens: [windows, masked], the true ones.
    """
    if beta == math.inf:
        return (logits.argmax(-1) == tokens).double().mean(1)
    logs = (beta * logits).log_softmax(-1)
    return logs.gather(-1, tokens[..., None])[..., 0].exp().mean(1)
