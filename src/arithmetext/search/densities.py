"""Estimate how common a word is among the integers near x without primes up to y.

The density d of a word is a sum over its first prime p and the exponents v that its first child can
mean. The rest of the word, its other children, is the word of an integer near x / p^v without
primes up to p:

    d(word; x, y) = Σ_{p > y} Σ_v p^−v · d(rest; x / p^v, p),      d(one prime; x, y) = 1 / log x.

So the table of a word, over a grid of x and y, comes from the table of its rest in one pass down
the grid of y: at most 57,000 interpolations for each exponent, and 0.23 MB for the table.

Every prime up to `LAST_PRIME` has its own place on the grid of y. Larger primes are taken together
in intervals of log y, by the prime number theorem. The densities are good to a few per cent, which
is enough to compare one explanation of a text with another.
"""

from functools import cache, lru_cache
from math import log

import numpy as np
from numpy.typing import NDArray

from .. import trees
from ..compiled import kernel
from ..text.kernels import primes_to

Densities = NDArray[np.float32]  # [y, x] on the grid

LAST_PRIME = 61  # the last prime that has its own place on the grid of y
POINTS_PER_NAT = 8  # points of the grid of log x in an interval of length 1
POINTS = 352  # points of the grid of log x, which reaches a little beyond 2^63

_PRIMES = primes_to(LAST_PRIME).astype(np.int64)
_WIDTH = 0.125  # the length of an interval of log y
_EDGES = np.concatenate([[0.0], np.log(_PRIMES), np.arange(log(LAST_PRIME) + _WIDTH, 22.0, _WIDTH)])
_CENTRES = np.concatenate([np.log(_PRIMES), _EDGES[len(_PRIMES) : -1] + _WIDTH / 2])
_RECIPROCALS = np.concatenate(
    [1 / _PRIMES, np.log(_EDGES[len(_PRIMES) + 1 :] / _EDGES[len(_PRIMES) : -1])]
)  # Σ 1/p over each step of y
_EXPONENTS: dict[int, list[int]] = {}  # by their packed word
for _v in range(1, 63):
    _EXPONENTS.setdefault(trees.packed(_v), []).append(_v)


@cache
def split_first_child(word: int) -> tuple[tuple[int, ...], int]:
    """The exponents that the first child can mean, and the packed word of the other children.

    >>> split_first_child(0b110010)
    ((2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61), 2)
    """
    depth, length = 0, word.bit_length()
    for place in range(length - 1, -1, -1):
        depth += 1 if word >> place & 1 else -1
        if depth == 0:
            break
    child = word >> place  # 1 w(exponent) 0
    inner = (child >> 1) - (1 << child.bit_length() - 2)
    return tuple(_EXPONENTS.get(inner, ())), word & ((1 << place) - 1)


@lru_cache(1 << 10)
def density(word: int) -> Densities:
    """The density of a packed word, by [y, x], among the integers near x without primes up to y."""
    exponents, rest = split_first_child(word)
    powers = np.array(exponents[:4], np.int64)  # larger exponents add less than the other errors
    if not rest:
        return _of_prime_powers(powers)
    return _of_products(powers, density(rest), _CENTRES, _RECIPROCALS, len(_PRIMES))


def _of_prime_powers(powers: NDArray[np.int64]) -> Densities:
    size = np.arange(1, POINTS + 1) / POINTS_PER_NAT  # upper edges: nothing possible gets density 0
    table = np.zeros((len(_EDGES), POINTS))
    for v in powers:
        alone = np.exp((1 / v - 1) * size) / np.maximum(size, log(2))
        table += np.where(size / v > _EDGES[:, None], alone, 0)
    return table.astype(np.float32)


@kernel
def _of_products(
    powers: NDArray[np.int64],
    rest: Densities,
    centres: NDArray[np.float64],
    reciprocals: NDArray[np.float64],
    exact: int,
) -> Densities:
    """The sum at the top of this file, for all x, from the largest y down.

    The first `exact` levels of y are single primes. Between points of the grid of x, the density of
    the rest is interpolated.
    """
    levels, points = rest.shape
    table = np.zeros((levels, points), np.float32)
    for level in range(levels - 2, -1, -1):
        table[level] = table[level + 1]
        # In an interval of many primes, the rest begins above half of them on average.
        below = rest[level + 1] if level < exact else (rest[level] + rest[level + 1]) / 2
        for v in powers:
            weight = reciprocals[level] * np.exp(-(v - 1) * centres[level])
            shift = v * centres[level] * POINTS_PER_NAT
            whole = int(shift)
            part = shift - whole
            for x in range(whole + 1, points):
                between = (1 - part) * below[x - whole] + part * below[x - whole - 1]
                table[level, x] += weight * between
    return table
