"""Locate a window of words in the text.

Below `EXHAUSTIVE_BELOW` every place is compared with the text. Above, `beam` proposes places, with
more and more effort until one is found or none is left, and each is compared with the text. The
beam takes only a part of a long window, the one with the most known words. At the last places
before 2^63 this part would end beyond 2^63; their integers are factored instead. If a window has no
place, `nearest` searches for a place where only a few words differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import comb, inf, isqrt

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..errors import InputError
from ..text.ranges import spans
from ..text.sieve import MAX, Words, segment_size, words, words_in_buffer
from ..text.splits import Range
from ..trees import packed
from . import beam
from .beam import (
    IMPOSSIBLE,
    LONGEST_WINDOW,
    UNIT,
    Effort,
    SearchResult,
    Watch,
    rarity,
)
from .sentences import ANY

Integers = NDArray[np.int64]

DEFAULT_BELOW = 10**15

EXHAUSTIVE_BELOW = 1 << 22
RANGE_FACTOR = 1000  # one search covers integers that differ by at most this factor

EFFORTS = (Effort(1 << 12, 1 << 22), Effort(1 << 15, 1 << 25), Effort(1 << 17, 1 << 25))

# Searches in which some words may be wrong.
TOLERANT_EFFORTS = (Effort(1 << 11, 1 << 14), Effort(1 << 14, 1 << 16))
TOLERANT_WINDOW = 128  # the most words that such a search uses
EXACT_PART = 32  # words of a part that is searched for on its own, as if all of them were right
WORDS_PER_ERROR = 8  # one known word in 8 may be wrong
ERROR_PENALTY = 5 * UNIT  # what a wrong word costs in score, beside its rarity

MOST_COMPARED = 256  # candidates that are compared with the text
MOST_BY_CHANCE = 1.0  # a window that would have more places than this by chance is too short


@dataclass(frozen=True)
class NearMatch:
    """A place where the text differs from the window in a few words."""

    place: int
    differs: list[int]  # the indices, from 0, of the words that differ
    actual: list[int]  # the words of the text at these indices


@dataclass(frozen=True)
class Location:
    """The places of a window below a bound."""

    below: int
    places: list[int]
    complete: bool  # there are no other places
    expected: float  # how many places there would be by chance

    @property
    def too_short(self) -> bool:
        return not self.complete and self.expected > MOST_BY_CHANCE


def locate(
    window: Sequence[int] | Words,
    below: int = DEFAULT_BELOW,
    *,
    efforts: Sequence[Effort] = EFFORTS,
    watch: Watch | None = None,
) -> Location:
    """Find the places n < below where the words of n, n + 1, … are these packed words.

    ANY is a word that is not known. `watch` is called after each prime of each search.
    """
    window = np.asarray(window, np.uint64)
    if not (window != ANY).any():
        raise InputError("nothing to locate: a window needs words that are known")
    if not 2 < below <= MAX:
        raise InputError(f"the bound must be 3 or more and at most 2^63, not {below}")
    part = _best_known(window, LONGEST_WINDOW)
    places = [
        *_compare_all(window, below, 0)[0].tolist(),
        *(n for _, n in _past_the_sieve(window, part, below, 0)),
    ]
    floor = np.where(window == ANY, 0, IMPOSSIBLE)
    ranges = _ranges(part, below)
    expected = dict.fromkeys(ranges, inf)
    for effort in efforts:
        for searched in tuple(ranges):
            result = _search(window, part, floor, searched, effort, watch=watch)
            expected[searched] = result.expected
            if len(result.candidates) <= MOST_COMPARED:
                places += [n for n in result.candidates.tolist() if not len(_differs(window, n))]
                if result.complete:
                    ranges.remove(searched)
        by_chance = sum(expected.values())
        if places or not ranges or by_chance > MOST_BY_CHANCE:
            break
    return Location(below, sorted(set(places)), not ranges, by_chance)


def nearest(
    window: Sequence[int] | Words, below: int = DEFAULT_BELOW, *, watch: Watch | None = None
) -> NearMatch | None:
    """Find the place below a bound where the text differs least from the window.

    None if too many words differ, or if such a place would also exist by chance. `watch` is called
    after each prime of each search.
    """
    window = np.asarray(window, np.uint64)
    known_words = int(np.count_nonzero(window))
    if known_words < WORDS_PER_ERROR:
        return None
    part = _best_known(window, TOLERANT_WINDOW)
    tried = np.zeros_like(window)
    tried[part] = window[part]
    wrong = int(np.count_nonzero(tried)) // WORDS_PER_ERROR
    if not wrong:  # the known words are too far apart for one part to hold enough of them
        return None
    places, mistakes = _compare_all(tried, below, wrong)
    past = _past_the_sieve(tried, part, below, wrong)
    if len(places) or past:
        best = [min([*zip(mistakes.tolist(), places.tolist(), strict=True), *past])[1]]
    else:
        best = _places_of_exact_parts(window, below, watch)
    for effort in TOLERANT_EFFORTS:
        for lo, hi in _ranges(part, below) if not best else ():
            floor = np.where(window == ANY, 0, rarity(window, hi) - ERROR_PENALTY)
            result = _search(window, part, floor, (lo, hi), effort, wrong=wrong, watch=watch)
            best += result.candidates[:MOST_COMPARED].tolist()
    if not best:
        return None
    place = min(best, key=lambda n: len(_differs(window, n)))
    differs = _differs(window, place)
    if len(differs) > known_words // WORDS_PER_ERROR:
        return None
    agreed = window.copy()
    agreed[differs] = ANY
    if _expected(agreed, below, watch) * comb(known_words, len(differs)) > MOST_BY_CHANCE:
        return None
    actual = _text(place, place + len(window))[differs]
    return NearMatch(place, differs.tolist(), actual.tolist())


def _best_known(window: Words, longest: int) -> slice:
    """The slice of at most `longest` words with the most known words; the first if there are ties.

    The slice begins and ends with a known word.
    """
    indices = np.flatnonzero(window != ANY)
    ends = np.searchsorted(indices, indices + longest)
    best = int(np.argmax(ends - np.arange(len(indices))))
    return slice(int(indices[best]), int(indices[ends[best] - 1]) + 1)


def _expected(window: Words, below: int, watch: Watch | None) -> float:
    """How many places below a bound the window would have by chance."""
    part = _best_known(window, LONGEST_WINDOW)
    floor = np.where(window == ANY, 0, IMPOSSIBLE)
    return sum(
        _search(window, part, floor, searched, EFFORTS[0], watch=watch).expected
        for searched in [(2, min(below, EXHAUSTIVE_BELOW)), *_ranges(part, below)]
    )


def _places_of_exact_parts(window: Words, below: int, watch: Watch | None) -> list[int]:
    """Places where some part of the window fits exactly and few other words differ."""
    wrong = int(np.count_nonzero(window)) // WORDS_PER_ERROR
    length = max(len(window) // 4, min(len(window), EXACT_PART))
    floor = np.where(window == ANY, 0, IMPOSSIBLE)
    for offset in range(0, len(window) - length + 1, length // 2):
        part = slice(offset, offset + min(length, LONGEST_WINDOW))
        if not window[part].any():
            continue
        for searched in _ranges(part, below):
            result = _search(window, part, floor, searched, EFFORTS[0], watch=watch)
            if result.expected >= MOST_BY_CHANCE:
                continue
            places = result.candidates[:MOST_COMPARED].tolist()
            if near := [n for n in places if len(_differs(window, n)) <= wrong]:
                return near
    return []


def _search(
    window: Words,
    part: slice,
    floor: Integers,
    searched: Range,
    effort: Effort,
    *,
    wrong: int = 0,
    watch: Watch | None = None,
) -> SearchResult:
    """The places of the whole window in a range at which this part may fit."""
    first = part.start
    lo, hi = (place + first for place in searched)
    result = beam.find_candidates(
        window[part],
        floor[part],
        lo,
        hi,
        effort,
        wrong=wrong,
        # The beam knows the place of the part, `first` integers after that of the window.
        watch=None if watch is None else lambda state: watch(state.moved(-first)),
    )
    return replace(result, candidates=result.candidates - first)


def _ranges(part: slice, below: int) -> list[Range]:
    """The places from EXHAUSTIVE_BELOW on where this part of the window ends below 2^63.

    One search can cover each of the ranges; the one with the largest integers is as wide as
    possible.
    """
    below = min(below, MAX - part.stop + 1)
    ranges = []
    while below > EXHAUSTIVE_BELOW:
        ranges.append((max(EXHAUSTIVE_BELOW, below // RANGE_FACTOR), below))
        below //= RANGE_FACTOR
    return ranges


def _text(lo: int, hi: int) -> Words:
    """The words of lo ≤ n < hi; hi may lie beyond 2^63.

    Few words of large integers are factored: a sieve prepares all primes up to √hi, which takes
    seconds and 620 MB close to 2^63, and 0.3 s for each window after that.
    """
    if hi <= MAX and hi - lo > isqrt(hi) >> 17:
        return words(lo, hi, threads=1)
    return np.array([packed(n) for n in range(lo, hi)], np.uint64)


def _differs(window: Words, n: int) -> Integers:
    """The indices at which the words of n, n + 1, … differ from the window."""
    return np.flatnonzero((window != ANY) & (_text(n, n + len(window)) != window))


def _past_the_sieve(window: Words, part: slice, below: int, wrong: int) -> list[tuple[int, int]]:
    """(words that differ, n) for the places before 2^63 that `_ranges` leaves out.

    There are at most `part.stop` − 1 such places, and the first few words rule out almost all.
    """
    word = cache(packed)
    indices = np.flatnonzero(window)
    matches = []
    for n in range(max(2, MAX - part.stop + 1), below):
        mistakes = 0
        for i in indices:
            mistakes += word(n + int(i)) != int(window[i])
            if mistakes > wrong:
                break
        else:
            matches.append((mistakes, n))
    return matches


def _compare_all(window: Words, below: int, wrong: int) -> tuple[Integers, Integers]:
    """The places below EXHAUSTIVE_BELOW where at most `wrong` words differ, and how many differ."""
    indices = np.flatnonzero(window)
    first, last = int(indices[0]), int(indices[-1])
    offsets, wanted = indices - first, window[indices]
    matches = [
        _compare(words_in_buffer(a + first, b + last), offsets, wanted, wrong)
        + np.array([[a], [0]])
        for a, b in spans(2, min(below, EXHAUSTIVE_BELOW), segment_size(EXHAUSTIVE_BELOW))
    ]
    places, mistakes = np.concatenate(matches, axis=1)
    return places, mistakes


@kernel
def _compare(words: Words, offsets: Integers, wanted: Words, wrong: int) -> Integers:
    """The starts where at most `wrong` of the wanted words differ, and the number, [2, starts].

    `offsets` holds the positions of the wanted words; the first position is 0.
    """
    starts = len(words) - offsets[-1]
    matches = np.empty((2, starts), np.int64)  # pages never written to take no memory
    count = 0
    for i in range(starts):
        mistakes = 0
        for j in range(len(offsets)):
            mistakes += words[i + offsets[j]] != wanted[j]
            if mistakes > wrong:
                break
        else:
            matches[0, count] = i
            matches[1, count] = mistakes
            count += 1
    return matches[:, :count]
