"""Figures with their intervals: the bootstrap over prompts."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
LEVEL = 0.95


class Estimate(NamedTuple):
    """A figure, and where 95 of 100 such figures would lie."""

    value: float | None  # None where there was nothing to divide by
    low: float | None
    high: float | None


def ratio(numerators: Any, denominators: Any = None) -> Estimate:
    """A sum over prompts divided by another one; their mean, if no other is given.

    Prompts are drawn again, with replacement, a thousand times, always the same ones of so many.
    """
    above = np.asarray(numerators, np.float64)
    below = np.ones_like(above) if denominators is None else np.asarray(denominators, np.float64)
    if not below.sum():
        return Estimate(None, None, None)
    weights = _weights(len(above))
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = (weights @ above) / (weights @ below)
    low, high = np.nanquantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(above.sum() / below.sum()), float(low), float(high))


@lru_cache(4)
def _weights(prompts: int) -> NDArray[np.float64]:
    """How often each prompt is drawn, [resamples, prompts]."""
    random = np.random.default_rng(0)
    return random.multinomial(prompts, np.full(prompts, 1 / prompts), RESAMPLES).astype(np.float64)
