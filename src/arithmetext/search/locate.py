"""Where in the text a window of words stands, or what speaks against it.

Below `SMALL` every place is compared. Above, `beam` looks for residues of n that explain the words,
first among few and then among more, until a place is found or none is left; what it proposes is
compared with the sieve. It is given a part of the window, the one with the most known words. The
last places before 2^63, where this part would run past the end of the sieve, are compared with
factorisations. A window that stands nowhere is searched for again as if some of its words were
wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import comb, inf

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..errors import InputError
from ..text.ranges import spans
from ..text.sieve import MAX, Words, passing_words, segment_size, words
from ..trees import packed
from . import beam
from .beam import IMPOSSIBLE, LONGEST, UNIT, Search, rarity
from .sentences import ANY

Integers = NDArray[np.int64]

BELOW = 10**15

SMALL = 1 << 22
SPAN = 1000  # a search covers integers that differ by this factor at the most
TOLERANT = 128  # words that are searched for where some may be wrong

Effort = tuple[int, int]
# Residues kept and integers tried, more and more; then the same where words may be wrong.
EFFORTS = ((1 << 12, 1 << 22), (1 << 15, 1 << 25), (1 << 17, 1 << 25))
TOLERANT_EFFORTS = ((1 << 11, 1 << 14), (1 << 14, 1 << 16))
STRETCH = 32  # words that are looked for by themselves
ONE_IN = 8  # one known word in 8 may be wrong
MISTAKE = 5 * UNIT  # what a wrong word costs, beside its rarity

COMPARED = 256  # places that are compared at the most
MANY = 1.0  # places by chance make a window too short


@dataclass(frozen=True)
class Near:
    """A place where the text differs from the window in a few words."""

    place: int
    differs: list[int]  # which words of the window differ, from 0
    there: list[int]  # the words that the text has instead


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
    part = _best_known(window, LONGEST)
    places = [
        *_compared(window, below, 0)[0].tolist(),
        *(n for _, n in _past_the_sieve(window, part, below, 0)),
    ]
    floor = np.where(window == ANY, 0, IMPOSSIBLE)
    ranges = _ranges(part, below)
    expected = dict.fromkeys(ranges, inf)
    for width, most in efforts:
        for lo, hi in tuple(ranges):
            found = _search(window, part, floor, lo, hi, width, most, 0)
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
    known = int(np.count_nonzero(window))
    if known < ONE_IN:
        return None
    part = _best_known(window, TOLERANT)
    tried = np.zeros_like(window)
    tried[part] = window[part]
    wrong = int(np.count_nonzero(tried)) // ONE_IN
    if not wrong:  # the known words are too far apart
        return None
    places, mistakes = _compared(tried, below, wrong)
    past = _past_the_sieve(tried, part, below, wrong)
    if len(places) or past:
        best = [min([*zip(mistakes.tolist(), places.tolist(), strict=True), *past])[1]]
    else:
        best = _stretches(window, below)
    for width, most in TOLERANT_EFFORTS:
        for lo, hi in _ranges(part, below) if not best else ():
            floor = np.where(window == ANY, 0, rarity(window, hi) - MISTAKE)
            found = _search(window, part, floor, lo, hi, width, most, wrong)
            best += found.candidates[:COMPARED].tolist()
    if not best:
        return None
    place = min(best, key=lambda n: len(_differs(window, n)))
    differs = _differs(window, place)
    if len(differs) > known // ONE_IN:
        return None
    agreed = window.copy()
    agreed[differs] = ANY
    if _expected(agreed, below) * comb(known, len(differs)) > MANY:
        return None
    there = _text(place, place + len(window))[differs]
    return Near(place, differs.tolist(), there.tolist())


def _best_known(window: Words, longest: int) -> slice:
    """The slice of at most `longest` words with the most known words; the first, if several.

    It begins and ends with a known word.
    """
    known = np.flatnonzero(window != ANY)
    ends = np.searchsorted(known, known + longest)
    best = int(np.argmax(ends - np.arange(len(known))))
    return slice(int(known[best]), int(known[ends[best] - 1]) + 1)


def _expected(window: Words, below: int) -> float:
    """How many places below a bound a window would have by chance."""
    part = _best_known(window, LONGEST)
    floor = np.where(window == ANY, 0, IMPOSSIBLE)
    return sum(
        _search(window, part, floor, lo, hi, *EFFORTS[0], 0).expected
        for lo, hi in [(2, min(below, SMALL)), *_ranges(part, below)]
    )


def _stretches(window: Words, below: int) -> list[int]:
    """Where the whole would stand if some stretch of it were right."""
    wrong = int(np.count_nonzero(window)) // ONE_IN
    length = max(len(window) // 4, min(len(window), STRETCH))
    floor = np.where(window == ANY, 0, IMPOSSIBLE)
    for offset in range(0, len(window) - length + 1, length // 2):
        part = slice(offset, offset + min(length, LONGEST))
        if not window[part].any():
            continue
        for lo, hi in _ranges(part, below):
            found = _search(window, part, floor, lo, hi, *EFFORTS[0], 0)
            places = found.candidates[:COMPARED].tolist() if found.expected < MANY else []
            if near := [n for n in places if len(_differs(window, n)) <= wrong]:
                return near
    return []


def _search(
    window: Words,
    part: slice,
    floor: Integers,
    lo: int,
    hi: int,
    width: int,
    most: int,
    wrong: int,
) -> Search:
    """The places of the whole window in lo..hi−1 where this part of it may stand."""
    first = part.start
    found = beam.search(
        window[part], floor[part], lo + first, hi + first, width=width, most=most, wrong=wrong
    )
    return replace(found, candidates=found.candidates - first)


def _ranges(part: slice, below: int) -> list[tuple[int, int]]:
    """The places from SMALL on for which this part of the window ends below 2^63.

    They come in ranges that one search covers, the largest as wide as can be.
    """
    below = min(below, MAX - part.stop + 1)
    ranges = []
    while below > SMALL:
        ranges.append((max(SMALL, below // SPAN), below))
        below //= SPAN
    return ranges


def _text(lo: int, hi: int) -> Words:
    """The words of lo ≤ n < hi, also beyond 2^63."""
    if hi <= MAX:
        return words(lo, hi, threads=1)
    return np.array([packed(n) for n in range(lo, hi)], np.uint64)


def _differs(window: Words, n: int) -> Integers:
    """Where the words of n, n + 1, … differ from the window."""
    return np.flatnonzero((window != ANY) & (_text(n, n + len(window)) != window))


def _past_the_sieve(window: Words, part: slice, below: int, wrong: int) -> list[tuple[int, int]]:
    """The last places below the bound, those that `_ranges` leaves out: (words that differ, n).

    There are at most `part.stop` − 1 of them, and hardly any has to be factored further than its
    first few words.
    """
    word = cache(packed)
    known = np.flatnonzero(window)
    found = []
    for n in range(max(2, MAX - part.stop + 1), below):
        mistakes = 0
        for i in known:
            mistakes += word(n + int(i)) != int(window[i])
            if mistakes > wrong:
                break
        else:
            found.append((mistakes, n))
    return found


def _compared(window: Words, below: int, wrong: int) -> tuple[Integers, Integers]:
    """Places below SMALL that differ in so many words at the most, and in how many."""
    known = np.flatnonzero(window)
    first, last = int(known[0]), int(known[-1])
    places, wanted = known - first, window[known]
    found = [
        _near(passing_words(a + first, b + last), places, wanted, wrong) + np.array([[a], [0]])
        for a, b in spans(2, min(below, SMALL), segment_size(SMALL))
    ]
    places, mistakes = np.concatenate(found, axis=1)
    return places, mistakes


@kernel
def _near(words: Words, known: Integers, window: Words, wrong: int) -> Integers:
    """Starts at which at most `wrong` of the known words differ, and how many do.

    `known`: their positions, from 0.
    """
    starts = len(words) - known[-1]
    found = np.empty((2, starts), np.int64)  # pages that are never touched cost nothing
    count = 0
    for i in range(starts):
        mistakes = 0
        for j in range(len(known)):
            mistakes += words[i + known[j]] != window[j]
            if mistakes > wrong:
                break
        else:
            found[0, count] = i
            found[1, count] = mistakes
            count += 1
    return found[:, :count]
