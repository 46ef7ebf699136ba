"""One integer of any size: its factorisation, its tree, its Dyck word.

An integer n > 1 is the product of p^a over its primes p. Its tree has one child for each prime, in
increasing order, and the child of p carries the tree of the exponent a. The tree of 1 is a single
node. A walk round the tree that writes `1` for every edge up and `0` for every edge down spells the
Dyck word of n:

    w(1) is empty,    w(n) = 1 w(a₁) 0  1 w(a₂) 0 …    for n = p₁^a₁ p₂^a₂ …, p₁ < p₂ < …

The word keeps the shape of the tree and drops the primes. Read in base 2 it is the *packed word*.
No information is lost: a word begins with 1 and has as many ones as zeros, so its length is twice
the popcount of the packed word.
"""

import json
import operator
import subprocess
import sys
from bisect import bisect_right
from dataclasses import dataclass
from functools import cache, cached_property
from math import isqrt

from .display import drawn
from .errors import InputError
from .integers import MAX_DIGITS

# Below this, trial division is fast enough, so that exponents and small integers need no FLINT.
_FACTOR_BY_TRIAL = 5000
# Up to this size FLINT needs at most about 0.1 s. Above it, a timeout needs a process of its own,
# because FLINT cannot be interrupted.
FACTOR_AT_ONCE_BITS = 144
# No integer that can be written down has such a high tree (2^2^2^2^2^2 has height 6).
_MAX_HEIGHT = 200


@dataclass(frozen=True)
class Tree:
    """A rooted plane tree.

    In the tree of an integer the label of the root is the integer, and the label of every other
    node is its prime. A tree read from a word has no labels (None), since many integers have it.
    """

    children: tuple["Tree", ...] = ()
    label: int | None = None

    @cached_property
    def word(self) -> str:
        """The Dyck word: `110010` for 12."""
        return "".join(f"1{child.word}0" for child in self.children)

    @property
    def packed(self) -> int:
        """The word read in base 2; 0 for the empty word."""
        return pack(self.word)

    @cached_property
    def height(self) -> int:
        """Number of edges on the longest path from the root to a leaf."""
        return max((1 + child.height for child in self.children), default=0)

    @property
    def edges(self) -> int:
        """Number of edges, half the length of the word."""
        return len(self.word) // 2

    @property
    def leaves(self) -> int:
        """Number of nodes without children; 1 for the single node."""
        return sum(child.leaves for child in self.children) or 1

    @cached_property
    def value(self) -> int:
        """The integer of a labelled tree."""
        product = 1
        for child in self.children:
            if child.label is None:
                raise ValueError("a tree without labels has no single integer")
            exponent = child.value
            # Estimate the size before computing the power: a tower of height 6 would never end.
            bits = product.bit_length() + (child.label.bit_length() - 1) * exponent
            if bits < MAX_DIGITS * 3.33:
                product *= child.label**exponent
            else:
                raise OverflowError(f"the integer has more than {MAX_DIGITS} digits")
        return product

    def formula(self) -> str:
        """The factorisation, with factored exponents: `2^(2·3)·5` for 320."""
        return "·".join(child._power() for child in self.children) or "1"

    def _repr_svg_(self) -> str:
        return drawn("drawing.svg_drawing", [self])

    def _power(self) -> str:
        if not self.children:
            return str(self.label)
        exponent = self.formula()
        return (
            f"{self.label}^({exponent})" if len(self.children) > 1 else f"{self.label}^{exponent}"
        )


def tree(n: int, *, timeout: float | None = None) -> Tree:
    """The labelled tree of n ≥ 1; see `factor` for the timeout.

    >>> [child.label for child in tree(360).children]
    [2, 3, 5]
    """
    factors = factor(n, timeout=timeout)
    return Tree(tuple(Tree(tree(a).children, label=p) for p, a in factors), label=n)


def word(n: int, *, timeout: float | None = None) -> str:
    """The Dyck word of n ≥ 1; see `factor` for the timeout.

    >>> word(12), word(7), word(2**64 * 3)
    ('110010', '10', '1110100010')
    """
    return "".join(f"1{_word_of_exponent(a)}0" for _, a in factor(n, timeout=timeout))


@cache
def _word_of_exponent(a: int) -> str:
    return word(a)


def packed(n: int, *, timeout: float | None = None) -> int:
    """The Dyck word of n ≥ 1 read in base 2; see `factor` for the timeout.

    >>> packed(12) == 0b110010
    True
    """
    return pack(word(n, timeout=timeout))


def pack(word: str) -> int:
    """The packed form of a word, which is not checked; `tree_of_word` checks it."""
    return int(word, 2) if word else 0


def unpack(packed: int) -> str:
    """The Dyck word of a packed word."""
    return format(packed, "b") if packed else ""


def tree_of_word(word: str) -> Tree:
    """The unlabelled tree of a Dyck word.

    >>> tree_of_word("110010").leaves
    2
    """
    if len(word) > MAX_DIGITS:
        raise InputError(f"a word of {len(word)} digits is too long: at most {MAX_DIGITS}")
    siblings: list[list[Tree]] = [[]]  # children so far of each node from the root to here
    for place, digit in enumerate(word, start=1):
        if digit == "1":
            siblings.append([])
            if len(siblings) > _MAX_HEIGHT:
                raise InputError(
                    f"not drawn: {_shortened(word)} is higher than {_MAX_HEIGHT} levels"
                )
        elif digit != "0":
            raise InputError(f"not a Dyck word: {_shortened(word)} has {digit!r} at place {place}")
        elif len(siblings) == 1:
            raise InputError(
                f"not a Dyck word: {_shortened(word)} goes below the root at place {place}"
            )
        else:
            children = tuple(siblings.pop())
            siblings[-1].append(Tree(children))
    if len(siblings) > 1:
        raise InputError(
            f"not a Dyck word: {_shortened(word)} ends {len(siblings) - 1} above the root"
            " (it needs as many 0 as 1)"
        )
    return Tree(tuple(siblings[0]))


def least_labels(shape: Tree) -> Tree:
    """The labelled tree of the least integer that has this shape.

    The i-th child of every node gets the i-th prime. Any other labels, or exponents that are not
    themselves the least, give a larger product. The root gets no label, because its integer may be
    too large to write; `value` computes it.
    """
    primes = first_primes(len(shape.children))
    return Tree(
        tuple(
            Tree(least_labels(child).children, label=p)
            for p, child in zip(primes, shape.children, strict=True)
        )
    )


def least(word: str) -> int:
    """The least integer with this word: 12 for `110010`, and 1 for the empty word."""
    return least_labels(tree_of_word(word)).value


def factor(n: int, *, timeout: float | None = None) -> list[tuple[int, int]]:
    """The primes of n ≥ 1 in increasing order, each with its exponent.

    With a timeout (in seconds), an InputError is raised if the factors are not found in that time.

    >>> factor(360)
    [(2, 3), (3, 2), (5, 1)]
    """
    n = operator.index(n)  # refuses 6.5, which FLINT would round
    if timeout is not None and not 0 < timeout <= 10**6:
        raise InputError(f"a timeout is a number of seconds up to a million, not {timeout}")
    if n < 1:
        raise InputError(f"{n} has no tree: integers here begin at 1")
    if n < _FACTOR_BY_TRIAL:
        return _factor_by_trial(n)
    if timeout is None or n.bit_length() <= FACTOR_AT_ONCE_BITS:
        from flint import fmpz

        return sorted((int(p), int(a)) for p, a in fmpz(n).factor())
    try:
        answer = subprocess.run(
            [sys.executable, "-c", _FACTOR_SCRIPT, hex(n)],
            capture_output=True,
            check=True,
            timeout=timeout,
        ).stdout
    except subprocess.TimeoutExpired:
        raise InputError(
            f"a number of {len(str(n))} digits was not factored within {timeout:g} s"
            " (--timeout gives it longer)"
        ) from None
    return sorted((int(p, 16), a) for p, a in json.loads(answer))


def _factor_by_trial(n: int) -> list[tuple[int, int]]:
    factors = []
    p = 2
    while p * p <= n:
        exponent = 0
        while n % p == 0:
            n //= p
            exponent += 1
        if exponent:
            factors.append((p, exponent))
        p += 1
    return [*factors, (n, 1)] if n > 1 else factors


_FACTOR_SCRIPT = """
import json, sys
from flint import fmpz
print(json.dumps([(hex(int(p)), int(a)) for p, a in fmpz(int(sys.argv[1], 16)).factor()]))
"""


def first_primes(count: int) -> list[int]:
    """The first primes, by trial division: fast enough for the children of a tree."""
    primes: list[int] = []
    candidate = 2
    while len(primes) < count:
        if all(candidate % p for p in primes[: bisect_right(primes, isqrt(candidate))]):
            primes.append(candidate)
        candidate += 1
    return primes


def _shortened(word: str) -> str:
    return word if len(word) <= 40 else f"{word[:37]}..."


def is_square_free(word: str) -> bool:
    """Whether the integers with this word are square-free: 1010…10.

    >>> is_square_free("1010"), is_square_free("110010")
    (True, False)
    """
    return word == "10" * (len(word) // 2)
