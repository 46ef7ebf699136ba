"""How common a word is among integers near x whose primes all exceed y.

The density of a word is that of its first prime times that of the rest, summed over the first
prime p and the exponents v that its child can stand for:

    d(word; x, y) = Σ_{p > y} Σ_v p^−v · d(rest; x / p^v, p),      d(one prime; x, y) = 1 / log x.

So the table of a word, over a grid of x and y, comes from that of its rest in one pass down y. The
grid of y has every prime up to `LAST`; beyond, the primes of an interval are taken together, as
many as the prime number theorem says. What comes out is an estimate, good to a few per cent: enough
to weigh one explanation of a text against another.
"""

from functools import cache, lru_cache
from math import log

import numpy as np
from numpy.typing import NDArray

from .. import trees
from ..compiled import kernel
from ..text.kernels import primes_to

Table = NDArray[np.float32]  # densities by [y, x]

LAST = 61  # the last prime that has a place of its own on the grid of y
PER_NAT = 8  # places a nat on the grid of log x
PLACES = 352  # of that grid: up to 2^63, and some more

_PRIMES = primes_to(LAST).astype(np.int64)
_WIDTH = 0.125  # of an interval of log y
_EDGES = np.concatenate([[0.0], np.log(_PRIMES), np.arange(log(LAST) + _WIDTH, 22.0, _WIDTH)])
_CENTRES = np.concatenate([np.log(_PRIMES), _EDGES[len(_PRIMES) : -1] + _WIDTH / 2])
_RECIPROCALS = np.concatenate(
    [1 / _PRIMES, np.log(_EDGES[len(_PRIMES) + 1 :] / _EDGES[len(_PRIMES) : -1])]
)  # Σ 1/p over each step of y
_EXPONENTS: dict[int, list[int]] = {}  # by the packed word of the exponent
for _v in range(1, 63):
    _EXPONENTS.setdefault(trees.packed(_v), []).append(_v)


@cache
def parted(word: int) -> tuple[tuple[int, ...], int]:
    """What the first prime's exponent can be, and the packed word of the other primes.

    >>> parted(0b110010)
    ((2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61), 2)
    """
    depth, length = 0, word.bit_length()
    for place in range(length - 1, -1, -1):
        depth += 1 if word >> place & 1 else -1
        if depth == 0:
            break
    child = word >> place  # 1 … 0, the exponent's word inside
    inner = (child >> 1) - (1 << child.bit_length() - 2)
    return tuple(_EXPONENTS.get(inner, ())), word & ((1 << place) - 1)


@lru_cache(1 << 10)
def density(word: int) -> Table:
    """The density of a packed word among the integers near x without primes up to y."""
    exponents, rest = parted(word)
    powers = np.array(exponents[:4], np.int64)  # higher ones are rarer than the error here
    if not rest:
        return _of_prime_powers(powers)
    return _of_products(powers, density(rest))


def _of_prime_powers(powers: NDArray[np.int64]) -> Table:
    size = np.arange(1, PLACES + 1) / PER_NAT  # the upper edge: what may be is not ruled out
    table = np.zeros((len(_EDGES), PLACES))
    for v in powers:
        alone = np.exp((1 / v - 1) * size) / np.maximum(size, log(2))
        table += np.where(size / v > _EDGES[:, None], alone, 0)
    return table.astype(np.float32)


@kernel
def _products(
    powers: NDArray[np.int64],
    rest: Table,
    centres: NDArray[np.float64],
    reciprocals: NDArray[np.float64],
    exact: int,
) -> Table:
    levels, places = rest.shape
    table = np.zeros((levels, places), np.float32)
    for level in range(levels - 2, -1, -1):
        table[level] = table[level + 1]
        # Within an interval of many primes the rest begins above half of them.
        below = rest[level + 1] if level < exact else (rest[level] + rest[level + 1]) / 2
        for v in powers:
            weight = reciprocals[level] * np.exp(-(v - 1) * centres[level])
            shift = v * centres[level] * PER_NAT
            whole = int(shift)
            part = shift - whole
            for x in range(whole + 1, places):
                between = (1 - part) * below[x - whole] + part * below[x - whole - 1]
                table[level, x] += weight * between
    return table


def _of_products(powers: NDArray[np.int64], rest: Table) -> Table:
    return _products(powers, rest, _CENTRES, _RECIPROCALS, len(_PRIMES))
