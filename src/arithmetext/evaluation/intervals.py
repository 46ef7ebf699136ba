"""Figures with their intervals of 95 %: the bootstrap over prompts."""

from functools import lru_cache
from math import sqrt
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
LEVEL = 0.95
Z = NormalDist().inv_cdf((1 + LEVEL) / 2)


class Estimate(NamedTuple):
    """A figure and its confidence interval."""

    value: float | None  # None where there was nothing to divide by, or no number
    low: float | None
    high: float | None


NOTHING = Estimate(None, None, None)


def ratio(numerators: Any, denominators: Any = None) -> Estimate:
    """A sum over prompts divided by another one; their mean, if no other is given.

    Prompts are drawn again, with replacement, a thousand times, always the same ones of so many.
    """
    above = np.asarray(numerators, np.float64)
    below = np.ones_like(above) if denominators is None else np.asarray(denominators, np.float64)
    if not below.sum() or not np.isfinite(above).all():
        return NOTHING
    weights = _weights(len(above))
    divided = weights @ below
    some = divided > 0  # a few draws may have nothing to divide by
    ratios = (weights @ above)[some] / divided[some]
    low, high = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(above.sum() / below.sum()), float(low), float(high))


def share(hits: Any, among: Any = None) -> Estimate:
    """The share of prompts that have something, among all or among some of them.

    Drawing prompts again says nothing of what none or all of them have, so this is Wilson's score
    interval. A hit may count one half.
    """
    chosen = np.asarray(hits, np.float64)
    if among is not None:
        chosen = chosen[np.asarray(among, bool)]
    n = len(chosen)
    if not n:
        return NOTHING
    p = float(chosen.mean())
    centre, width = p + Z**2 / (2 * n), Z * sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    scale = 1 + Z**2 / n
    return Estimate(p, max(0.0, (centre - width) / scale), min(1.0, (centre + width) / scale))


@lru_cache(4)
def _weights(prompts: int) -> NDArray[np.float64]:
    """How often each prompt is drawn, [resamples, prompts]."""
    random = np.random.default_rng(0)
    return random.multinomial(prompts, np.full(prompts, 1 / prompts), RESAMPLES).astype(np.float64)
