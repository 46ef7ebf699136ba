"""Masked modelling: how many of the tokens that are hidden a model finds."""

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
from .scoring import TOKENS


class Found(NamedTuple):
    """The paper's token accuracy A^t at one masking share and inverse temperature."""

    masked: float  # p_m
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
) -> list[Found]:
    """Hide a share of the tokens of each window, [windows, tokens], and have them predicted.

    A token is drawn with a probability proportional to p^β. How often that gives the true one is
    that probability, so it is averaged and nothing is drawn; at β = ∞ the likeliest token counts.
    """
    batch = max(1, TOKENS // ids.shape[1])
    table = []
    with progress("unmasking", len(shares) * len(ids), "windows") as advance:
        for share in shares:
            found: list[list[np.ndarray]] = [[] for _ in betas]
            for first in range(0, len(ids), batch):
                part = ids[first : first + batch]
                chosen = hidden(share, part.shape[1], range(first, first + len(part)), seed)
                originals = part.gather(1, chosen)
                altered = part.scatter(1, chosen, model.vocabulary - 1)
                # The last token is the mask, which is no answer.
                logits = model.predict_masked(altered, chosen)[..., :-1].double()
                for each, beta in zip(found, betas, strict=True):
                    each.append(_found(logits, originals.to(logits.device), beta).cpu().numpy())
                advance(len(part))
            table += [
                Found(share, beta, ratio(np.concatenate(each)))
                for beta, each in zip(betas, found, strict=True)
            ]
    return table


def hidden(share: float, length: int, windows: range, seed: int) -> Tensor:
    """Which positions of each window are hidden, [windows, positions]: a function of the seed."""
    count = max(1, round(share * length))

    def row(window: int) -> np.ndarray:
        random = generator(seed, MASKING, count, window)
        return np.sort(random.choice(length, count, replace=False))

    return torch.from_numpy(np.stack([row(window) for window in windows]))


def _found(logits: Tensor, tokens: Tensor, beta: float) -> Tensor:
    """The share that is found in each window."""
    if beta == math.inf:
        return (logits.argmax(-1) == tokens).double().mean(1)
    logs = (beta * logits).log_softmax(-1)
    return logs.gather(-1, tokens[..., None])[..., 0].exp().mean(1)
