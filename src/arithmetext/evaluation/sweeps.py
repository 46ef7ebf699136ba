"""Statistics of a sweep: many models, with few seeds each, tested on the same blocks of the text.

A quantity of a model is a table, [seeds, blocks]: one number for each seed and block of the text.
With two seeds a model alone says little about other seeds: Student's t interval has 13 times the
standard error. So the spread between seeds is taken to be the same for all models of a sweep.
"""

from collections.abc import Sequence
from math import hypot, inf, sqrt
from typing import NamedTuple

import numpy as np

from .estimates import UNKNOWN, Estimate, mean_and_error, t_quantile
from .words import Floats


class SeedSpread(NamedTuple):
    """How far models that differ only by their seed are apart."""

    deviation: float  # the standard deviation between seeds
    freedom: int  # its degrees of freedom; with 0 nothing is known, and nothing is added


def by_block(values: Floats, blocks: int) -> Floats:
    """Group prompts, [..., prompts], by block: [..., blocks, prompts of a block].

    Prompt k is from block k % blocks of the text.
    """
    grouped = values.reshape(*values.shape[:-1], -1, blocks)
    return np.moveaxis(grouped, -1, -2)


def pooled_spread(tables: Sequence[Floats]) -> SeedSpread:
    """The spread between seeds, pooled over all models of a sweep."""
    means = [table.mean(1) for table in tables]
    freedom = sum(len(each) - 1 for each in means)
    squares = sum(float(((each - each.mean()) ** 2).sum()) for each in means)
    return SeedSpread(sqrt(squares / max(1, freedom)), freedom)


def mean(table: Floats, spread: SeedSpread) -> Estimate:
    """The mean over seeds and blocks; the interval holds for other text and for other seeds.

    It adds, in quadrature, Student's t intervals over blocks and over seeds.
    """
    return _estimate(table.mean(0), spread, 1 / len(table))


def difference(table: Floats, other: Floats, spread: SeedSpread) -> Estimate:
    """The mean of one model minus that of another, block by block."""
    return _estimate(table.mean(0) - other.mean(0), spread, 1 / len(table) + 1 / len(other))


def _estimate(blocks: Floats, spread: SeedSpread, inverse_seeds: float) -> Estimate:
    value, error = mean_and_error(blocks) if len(blocks) > 1 else (float(blocks[0]), inf)
    half = t_quantile(len(blocks) - 1) * error if len(blocks) > 1 else inf
    if spread.freedom:
        half = hypot(half, t_quantile(spread.freedom) * spread.deviation * sqrt(inverse_seeds))
    return Estimate(value, value - half, value + half)


def power_law(sizes: Sequence[float], values: Sequence[float]) -> Estimate:
    """The exponent a of the power law, values = c · sizes^a, that fits best (least squares of ln).

    The interval is Student's t for the slope of a straight line; it is unknown for two points.

    >>> exponent = power_law([1, 10, 100, 1000], [8, 4, 2, 1])
    >>> round(exponent.value, 3), round(exponent.high - exponent.low, 3)
    (-0.301, 0.0)
    """
    x, y = np.log(sizes), np.log(values)
    freedom = len(x) - 2
    if freedom < 1:
        return UNKNOWN
    x, y = x - x.mean(), y - y.mean()
    slope = float(x @ y / (x @ x))
    rest = float(((y - slope * x) ** 2).sum())
    half = t_quantile(freedom) * sqrt(rest / freedom / float(x @ x))
    return Estimate(slope, slope - half, slope + half)
