"""Where in the text a window of words stands, or what speaks against it.

Below `SMALL` every place is compared. Above, `beam` looks for residues of n that explain the words,
first among few and then among more, until a place is found or none is left; what it proposes is
compared with the sieve. A window that stands nowhere is searched for again as if some of its words
were wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb, inf

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..errors import InputError
from . import beam
from .beam import IMPOSSIBLE, UNIT, Search, rarity
from .ranges import spans
from .sentences import ANY
from .sieve import MAX, Words, passing_words, segment_size, words

Integers = NDArray[np.int64]

BELOW = 10**15

SMALL = 1 << 22
SPAN = 1000  # a search covers integers that differ by this factor at the most
LONGEST = 256  # words that are searched for; the others of a window are compared in the end
TOLERANT = 128  # the same where words may be wrong

Effort = tuple[int, int]
# Residues kept and integers tried, more and more; then the same where words may be wrong.
EFFORTS = ((1 << 12, 1 << 22), (1 << 15, 1 << 25), (1 << 17, 1 << 25))
TOLERANT_EFFORTS = ((1 << 11, 1 << 14), (1 << 14, 1 << 16))
STRETCH = 32  # words that are looked for by themselves
ONE_IN = 8  # so many words one may be wrong
MISTAKE = 5 * UNIT  # what a wrong word costs, beside its rarity

COMPARED = 256  # places that are compared at the most
MANY = 1.0  # places by chance make a window too short


@dataclass(frozen=True)
class Near:
    """A place that differs from the window, and where it does."""

    place: int
    differs: list[int]  # places in the window, from 0


@dataclass(frozen=True)
class Location:
    """Where a window stands below a bound."""

    below: int
    places: list[int]
    complete: bool  # there are no others
    expected: float  # places there would be by chance

    @property
    def too_short(self) -> bool:
        return not self.complete and self.expected > MANY


def locate(
    window: Sequence[int] | Words, below: int = BELOW, *, efforts: Sequence[Effort] = EFFORTS
) -> Location:
    """The places n below a bound where the words of n, n + 1, … are these packed ones.

    ANY stands for a word that is not known.
    """
    window = np.asarray(window, np.uint64)
    if not (window != ANY).any():
        raise InputError("nothing to locate: a window needs words")
    if not 2 < below <= MAX:
        raise InputError(f"the bound must be 3 or more and at most 2^63, not {below}")
    end = min(below, MAX - len(window) + 1)
    places = _compared(window, end, 0)[0].tolist()
    floor = np.where(window == ANY, 0, IMPOSSIBLE)
    ranges = _ranges(end)
    expected = dict.fromkeys(ranges, inf)
    for width, most in efforts:
        for lo, hi in tuple(ranges):
            found = _search(window, floor, lo, hi, width, most, 0)
            expected[lo, hi] = found.expected
            if len(found.candidates) <= COMPARED:
                places += [n for n in found.candidates.tolist() if not len(_differs(window, n))]
                if found.complete:
                    ranges.remove((lo, hi))
        by_chance = sum(expected.values())
        if places or not ranges or by_chance > MANY:
            break
    return Location(below, sorted(set(places)), not ranges, by_chance)


def nearest(window: Sequence[int] | Words, below: int = BELOW) -> Near | None:
    """The place below the bound that differs least from a window, if that is more than chance."""
    window = np.asarray(window, np.uint64)
    below = min(below, MAX - len(window) + 1)
    part = window[:TOLERANT]
    wrong = len(part) // ONE_IN
    if not wrong:
        return None
    places, mistakes = _compared(part, below, wrong)
    best = [int(places[np.argmin(mistakes)])] if len(places) else _stretches(window, below)
    for width, most in TOLERANT_EFFORTS:
        for lo, hi in _ranges(below) if not best else ():
            floor = np.where(part == ANY, 0, rarity(part, hi) - MISTAKE)
            found = _search(part, floor, lo, hi, width, most, wrong)
            best += found.candidates[:COMPARED].tolist()
    if not best:
        return None
    place = min(best, key=lambda n: len(_differs(window, n)))
    differs = _differs(window, place)
    agreed = window.copy()
    agreed[differs] = ANY
    by_chance = _expected(agreed, below) * comb(len(window), len(differs))
    if len(differs) > len(window) // ONE_IN or by_chance > MANY:
        return None
    return Near(place, differs.tolist())


def _expected(window: Words, below: int) -> float:
    """How many places below a bound a window would have by chance."""
    floor = np.where(window == ANY, 0, IMPOSSIBLE)
    return sum(
        _search(window, floor, lo, hi, *EFFORTS[0], 0).expected
        for lo, hi in [(2, min(below, SMALL)), *_ranges(below)]
    )


def _stretches(window: Words, below: int) -> list[int]:
    """Where the whole would stand if some stretch of it were right."""
    length = max(len(window) // 4, min(len(window), STRETCH))
    for offset in range(0, len(window) - length + 1, length // 2):
        stretch = window[offset : offset + length]
        floor = np.where(stretch == ANY, 0, IMPOSSIBLE)
        for lo, hi in _ranges(below):
            found = _search(stretch, floor, lo, hi, *EFFORTS[0], 0)
            places = (
                [n - offset for n in found.candidates.tolist()] if found.expected < MANY else []
            )
            if near := [
                n for n in places[:COMPARED] if len(_differs(window, n)) <= len(window) // ONE_IN
            ]:
                return near
    return []


def _search(
    window: Words, floor: Integers, lo: int, hi: int, width: int, most: int, wrong: int
) -> Search:
    longest = slice(LONGEST)
    return beam.search(window[longest], floor[longest], lo, hi, width=width, most=most, wrong=wrong)


def _ranges(below: int) -> list[tuple[int, int]]:
    """What is above SMALL, in ranges that one search covers, the largest as wide as can be."""
    ranges = []
    while below > SMALL:
        ranges.append((max(SMALL, below // SPAN), below))
        below //= SPAN
    return ranges


def _differs(window: Words, n: int) -> Integers:
    """Where the words of n, n + 1, … differ from the window."""
    here = words(n, n + len(window), threads=1)
    return np.flatnonzero((window != ANY) & (here != window))


def _compared(window: Words, below: int, wrong: int) -> tuple[Integers, Integers]:
    """Places below SMALL that differ in so many words at the most, and in how many."""
    found = [
        _near(passing_words(a, b + len(window) - 1), window, wrong) + np.array([[a], [0]])
        for a, b in spans(2, min(below, SMALL), segment_size(SMALL))
    ]
    places, mistakes = np.concatenate(found, axis=1)
    return places, mistakes


@kernel
def _near(words: Words, window: Words, wrong: int) -> Integers:
    starts = len(words) - len(window) + 1
    found = np.empty((2, starts), np.int64)  # pages that are never touched cost nothing
    count = 0
    for i in range(starts):
        mistakes = 0
        for j in range(len(window)):
            mistakes += window[j] != 0 and words[i + j] != window[j]
            if mistakes > wrong:
                break
        else:
            found[0, count] = i
            found[1, count] = mistakes
            count += 1
    return found[:, :count]
