"""Compare histograms of words, and fit frequency against rank."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError
from ..text.ranges import spans

Floats = NDArray[np.float64]

CACHE_BLOCK = 1 << 17  # 8-byte numbers processed at once, so that they stay in the L2 cache


def js_matrix(counts: ArrayLike) -> Floats:
    """The Jensen–Shannon divergence in bits between every two rows of a matrix of counts.

    JS(p, q) = H((p + q)/2) − (H(p) + H(q))/2, computed to about 10^-14.
    """
    rows = np.asarray(counts, np.float64)
    if not rows.any(1).all():
        raise InputError("no divergence: a histogram is empty")
    rows = rows / rows.sum(1, keepdims=True)
    entropies = np.array([row_entropies(row[None])[0] for row in rows])
    n = len(rows)
    matrix = np.zeros((n, n))
    for i in range(n):
        for a, b in spans(i + 1, n, max(1, CACHE_BLOCK // rows.shape[1])):
            mixed = row_entropies((rows[i] + rows[a:b]) / 2)
            matrix[i, a:b] = mixed - (entropies[i] + entropies[a:b]) / 2
    # Rounding can make the divergence of nearly equal rows negative.
    return np.maximum(matrix + matrix.T, 0)


def row_entropies(rows: Floats) -> Floats:
    """The entropy of each row, in bits. The 1e-300 makes 0 log 0 come out as 0."""
    return cast(Floats, -np.einsum("ij,ij->i", rows, np.log2(rows + 1e-300)))


@dataclass(frozen=True)
class Fit:
    """ln f = a − b ln r − c (ln r)², with c = 0 for a power law."""

    a: float
    b: float
    c: float
    r_squared: float
    rms: float  # root mean square residual of ln f


@dataclass(frozen=True)
class RankFits:
    """A power law and a parabola fitted to frequencies by rank, on log–log axes.

    The differences, power law minus parabola, are between Akaike information criteria (AIC) and
    between Bayesian information criteria (BIC). Above about 10, the power law fails.
    """

    ranks: int
    zipf: Fit
    parabola: Fit
    aic_difference: float
    bic_difference: float


def rank_frequency(counts: Mapping[int, int]) -> Floats:
    """The relative frequencies of the words, in decreasing order."""
    frequencies = np.sort([float(count) for count in counts.values() if count])[::-1]
    return cast(Floats, frequencies / frequencies.sum())


def fit_ranks(frequencies: ArrayLike) -> RankFits:
    """Fit Zipf's law and a parabola to frequencies in decreasing order.

    Least squares in which rank r has weight 1/r, so that every factor of two in rank counts
    equally. Without weights, the rarest words would dominate the fit. For AIC and BIC the sample
    size is the effective one, (Σ w)² / Σ w²: 45 for the 3266 words of 10^11. With the full size,
    the long tail would make any difference significant.
    """
    y = np.log(np.asarray(frequencies, np.float64))
    if len(y) < 4:
        raise InputError(f"a fit needs at least 4 different words, not {len(y)}")
    x = np.log(np.arange(1, len(y) + 1))
    weights = np.exp(-x)
    size = weights.sum() ** 2 / (weights**2).sum()
    line, bent = (_fit(x, y, weights, degree) for degree in (1, 2))
    gain = 2 * size * log((line.rms + 1e-12) / (bent.rms + 1e-12))  # a perfect fit has rms 0
    return RankFits(len(y), line, bent, float(gain - 2), float(gain - log(size)))


def _fit(x: Floats, y: Floats, weights: Floats, degree: int) -> Fit:
    powers = np.stack([np.ones_like(x), -x, -(x**2)][: degree + 1], 1)
    root = np.sqrt(weights)
    solution = np.linalg.lstsq(powers * root[:, None], y * root, rcond=None)[0]
    square = np.average((y - powers @ solution) ** 2, weights=weights)
    variance = np.average((y - np.average(y, weights=weights)) ** 2, weights=weights)
    a, b, c = (*solution.tolist(), 0.0)[:3]
    return Fit(a, b, c, float(1 - square / variance), float(np.sqrt(square)))
