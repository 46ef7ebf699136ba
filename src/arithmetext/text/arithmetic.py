"""Arithmetic functions of consecutive integers, at the speed of the sieve.

The word of n determines most of them: how many primes n has, whether it is square-free, how high
its tree is. The kernel looks a word up in a small table, because few different words occur in a
segment. The number of prime factors with multiplicity, Ω, also needs the exponents. The word tells
which of them are larger than 1, so only cubes and higher powers of primes are sieved.
"""

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from functools import partial
from operator import index
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import trees
from ..compiled import flint_is_faster, kernel
from ..errors import InputError
from . import sieve
from .ranges import over_ranges, spans
from .sieve import Words, base_primes, segment_size, words_in_buffer

Array = NDArray[Any]


class Field(NamedTuple):
    """An arithmetic function of n ≥ 1: its value, from the tree of n, and its type in arrays."""

    of: Callable[[trees.Tree], int]
    dtype: type


def _mobius(tree: trees.Tree) -> int:
    return (-1) ** len(tree.children) if tree.height < 2 else 0


FIELDS = {
    "packed": Field(lambda t: t.packed, np.uint64),
    "omega": Field(lambda t: len(t.children), np.uint8),
    "big_omega": Field(lambda t: sum(child.value for child in t.children), np.uint8),
    "mobius": Field(_mobius, np.int8),
    "squarefree": Field(lambda t: t.height < 2, np.bool_),
    "prime": Field(lambda t: t.word == "10", np.bool_),
    "height": Field(lambda t: t.height, np.uint8),
    "leaves": Field(lambda t: t.leaves, np.uint8),
    "edges": Field(lambda t: t.edges, np.uint8),
}
_MEASURED = [name for name in FIELDS if name != "packed"]  # in the order of `_measure`


def omega(lo: int, hi: int, *, threads: int | None = None) -> NDArray[np.uint8]:
    """ω(n), the number of different primes that divide n, for lo ≤ n < hi.

    >>> omega(58, 61).tolist()
    [2, 1, 3]
    """
    return _array("omega", lo, hi, threads)


def big_omega(lo: int, hi: int, *, threads: int | None = None) -> NDArray[np.uint8]:
    """Ω(n), the number of prime factors of n with multiplicity, for lo ≤ n < hi.

    >>> big_omega(62, 65).tolist()
    [2, 3, 6]
    """
    return _array("big_omega", lo, hi, threads)


def mobius(lo: int, hi: int, *, threads: int | None = None) -> NDArray[np.int8]:
    """The Möbius function μ(n) for lo ≤ n < hi: 0 if a square divides n, else (−1)^ω(n).

    >>> mobius(28, 31).tolist()
    [0, -1, -1]
    """
    return _array("mobius", lo, hi, threads)


def is_squarefree(lo: int, hi: int, *, threads: int | None = None) -> NDArray[np.bool_]:
    """Whether no square of a prime divides n, for lo ≤ n < hi."""
    return _array("squarefree", lo, hi, threads)


def is_prime(lo: int, hi: int, *, threads: int | None = None) -> NDArray[np.bool_]:
    """Whether n is prime, for lo ≤ n < hi."""
    return _array("prime", lo, hi, threads)


def heights(lo: int, hi: int, *, threads: int | None = None) -> NDArray[np.uint8]:
    """The height of the tree of n, for lo ≤ n < hi.

    >>> heights(15, 18).tolist()
    [1, 3, 1]
    """
    return _array("height", lo, hi, threads)


def leaves(lo: int, hi: int, *, threads: int | None = None) -> NDArray[np.uint8]:
    """The number of leaves of the tree of n, for lo ≤ n < hi.

    >>> leaves(63, 66).tolist()
    [2, 2, 2]
    """
    return _array("leaves", lo, hi, threads)


def edges(lo: int, hi: int, *, threads: int | None = None) -> NDArray[np.uint8]:
    """The number of edges of the tree of n, for lo ≤ n < hi.

    >>> edges(63, 66).tolist()
    [3, 3, 2]
    """
    return _array("edges", lo, hi, threads)


def arrays(
    lo: int, hi: int, fields: Sequence[str], *, threads: int | None = None, title: str = ""
) -> Iterator[tuple[int, dict[str, Array]]]:
    """(first integer, array by field) for consecutive pieces of lo ≤ n < hi, one after the other.

    Memory does not grow with the range.

    >>> sum(int(piece["mobius"].sum()) for _, piece in arrays(1, 10**6 + 1, ["mobius"]))
    212
    """
    check_fields(fields)  # here, not when the first piece is asked for
    return _pieces(*check_range(lo, hi), fields, threads, title)


def _pieces(
    lo: int, hi: int, fields: Sequence[str], threads: int | None, title: str
) -> Iterator[tuple[int, dict[str, Array]]]:
    for piece in over_ranges(
        partial(_new_arrays, tuple(fields)),
        lo,
        hi,
        size=segment_size(hi),
        threads=threads,
        title=title,
        unit="integers",
    ):
        yield lo, piece
        lo += len(piece[fields[0]])


def check_range(lo: int, hi: int) -> tuple[int, int]:
    """Refuse a range without values; return both bounds as Python integers.

    Arithmetic functions begin at 1, before the text: the tree of 1 is a single node.
    """
    lo, hi = index(lo), index(hi)
    if lo < 1:
        raise InputError(f"arithmetic functions begin at 1, not at {lo}")
    if hi <= lo:
        raise InputError(f"an empty range: {lo} ≤ n < {hi}")
    sieve.check_range(2, max(hi, 3))
    return lo, hi


def check_fields(fields: Sequence[str]) -> None:
    if isinstance(fields, str):
        raise InputError(f"fields are a list of names, such as [{fields!r}]")
    if not fields:
        raise InputError(f"no fields: there are {', '.join(FIELDS)}")
    for name in fields:
        if name not in FIELDS:
            similar = get_close_matches(name, FIELDS, n=1)
            hint = f"did you mean {similar[0]}? There" if similar else "there"
            raise InputError(f"no field {name!r}: {hint} are {', '.join(FIELDS)}")
        if list(fields).count(name) > 1:
            raise InputError(f"the field {name} is named twice")


def terms(name: str, last: int) -> Iterator[tuple[int, list[int]]]:
    """Yield (first integer, values) for consecutive pieces of 1 ≤ n ≤ last."""
    check_fields([name])
    if last < 1:
        raise InputError(f"sequences begin at 1, so none ends at {last}")
    for first, piece in arrays(1, last + 1, [name]):
        # By parts: a list of integers takes much more memory than an array.
        for a, b in spans(0, len(piece[name]), 1 << 16):
            yield first + a, (piece[name][a:b] * 1).tolist()  # truth values become 0 and 1


def _array(name: str, lo: int, hi: int, threads: int | None) -> Array:
    lo, hi = check_range(lo, hi)
    out: Array = np.empty(hi - lo, FIELDS[name].dtype)

    def fill(a: int, b: int) -> None:
        _fill(a, b, {name: out[a - lo : b - lo]})

    for _ in over_ranges(
        fill, lo, hi, size=segment_size(hi), threads=threads, title=name, unit="integers"
    ):
        pass
    return out


def _new_arrays(fields: tuple[str, ...], lo: int, hi: int) -> dict[str, Array]:
    out: dict[str, Array] = {name: np.empty(hi - lo, FIELDS[name].dtype) for name in fields}
    _fill(lo, hi, out)
    return out


def _fill(lo: int, hi: int, out: dict[str, Array]) -> None:
    """Write the values of a segment lo ≤ n < hi, by field."""
    if flint_is_faster(hi - lo) or hi == 2:
        forest = [trees.tree(n) for n in range(lo, hi)]
        for name, values in out.items():
            values[:] = [FIELDS[name].of(tree) for tree in forest]
        return
    if lo == 1:
        _fill(1, 2, {name: values[:1] for name, values in out.items()})
        lo, out = 2, {name: values[1:] for name, values in out.items()}
    words = words_in_buffer(lo, hi)
    for name, values in out.items():
        if name == "packed":
            values[:] = words
            continue
        _look_up(words, _MEASURED.index(name), values.view(np.int8))
        if name == "big_omega":
            _add_exponents_above_2(lo, base_primes(1 << 21), values)


_U = np.uint64
_SLOT_BITS = 12  # the table has 4096 slots; 300 different words occur in a segment at 10^10
_COLUMNS = len(_MEASURED)


@kernel
def _look_up(words: Words, column: int, out: NDArray[np.int8]) -> None:
    """Write one column of `_measure` for each word: 0.7 ns a word.

    A word has one possible slot in the table. If another word is there, it is replaced.
    """
    known = np.zeros(1 << _SLOT_BITS, np.uint64)
    values = np.empty((1 << _SLOT_BITS, _COLUMNS), np.int8)
    for i in range(len(words)):
        word = words[i]
        slot = word * _U(0x9E3779B97F4A7C15) >> _U(64 - _SLOT_BITS)
        if known[slot] != word:
            known[slot] = word
            _measure(word, values[slot])
        out[i] = values[slot, column]


@kernel
def _measure(word: Any, row: NDArray[np.int8]) -> None:
    """Write the values of all fields but the word; for Ω as if no exponent were larger than 2.

    It walks along the word from its end, so a 0 is a step up and a 1 a step down.
    """
    depth = height = edges = leaves = omega = squares = 0
    rises = False  # whether the last step was up
    prime = word == _U(2)
    while word:
        if word & _U(1):
            depth -= 1
            leaves += rises
            if depth == 0:
                omega += 1
                squares += not rises  # the child of a prime with exponent 1 is a leaf
            rises = False
        else:
            depth += 1
            edges += 1
            height = max(height, depth)
            rises = True
        word >>= _U(1)
    squarefree = height == 1
    row[0] = omega
    row[1] = omega + squares
    row[2] = (1 - 2 * (omega & 1)) * squarefree
    row[3] = squarefree
    row[4] = prime
    row[5] = height
    row[6] = leaves
    row[7] = edges


@kernel
def _add_exponents_above_2(lo: Any, primes: Any, out: NDArray[np.uint8]) -> None:
    """Add 1 for each power p^k that divides n, k ≥ 3. The primes reach the cube root of 2^63."""
    last = lo + (len(out) - 1)
    for t in range(len(primes)):
        p = np.int64(primes[t])
        power = p * p
        if power > last // p:
            return
        while power <= last // p:
            power *= p
            out[-lo % power :: power] += np.uint8(1)
