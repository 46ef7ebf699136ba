"""A sentence: the words of consecutive integers, which notebooks show with their trees."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..display import drawn
from ..trees import unpack
from .sieve import check_range, segments


@dataclass(frozen=True)
class Sentence:
    """The words of lo ≤ n < hi. They are made when they are needed, and take no memory."""

    lo: int
    hi: int

    def __len__(self) -> int:
        return self.hi - self.lo

    def __iter__(self) -> Iterator[str]:
        for _, piece in segments(self.lo, self.hi):
            yield from map(unpack, piece.tolist())

    def __str__(self) -> str:
        return " ".join(self)

    def _repr_html_(self) -> str:
        return drawn("html.sentence", self)


def sentence(lo: int, hi: int) -> Sentence:
    """The sentence of lo ≤ n < hi, for 2 ≤ lo < hi ≤ 2^63.

    >>> print(sentence(2, 9))
    10 10 1100 10 1010 10 1100
    """
    return Sentence(*check_range(lo, hi))
