"""Where a sentence stands; if it stands nowhere, why; and both in words."""

import math
from dataclasses import dataclass, replace

from ..integers import format_integer, parse_integer
from ..trees import unpack
from ..wording import plural
from .beam import Watch
from .locate import Location, NearMatch, nearest
from .sentences import ANY, Pattern, forbidden

PLACES_SHOWN = 20  # for words that are too few to be located


@dataclass(frozen=True)
class Answer:
    """What is known about the places of a sentence."""

    sentence: Pattern
    found: Location
    law: tuple[int, int, str] | None = None  # the law that is broken, as `forbidden` gives it
    near: NearMatch | None = None

    @property
    def shown(self) -> list[int]:
        """The places; only the first ones if the words are too few to be located."""
        return self.found.places[:PLACES_SHOWN] if self.found.too_short else self.found.places

    @property
    def differing(self) -> list[tuple[int, str, str]]:
        """For each word that differs at the near place: its number, the word there, and here."""
        if self.near is None:
            return []
        return [
            (i + 1, unpack(actual), unpack(self.sentence[i]))
            for i, actual in zip(self.near.differs, self.near.actual, strict=True)
        ]

    @property
    def verdict(self) -> str:
        """How many places there are, and whether there can be others."""
        return plural(len(self.sentence), "word") + _verdict(self.found)

    @property
    def law_in_words(self) -> str | None:
        """Which words break which law."""
        if self.law is None:
            return None
        first, end, reason = self.law
        words = " ".join("*" if w == ANY else unpack(w) for w in self.sentence[first:end])
        place = f"Word {end}" if end == first + 1 else f"Words {first + 1} to {end}"
        return f"{place} ({words}) cannot occur here: {reason}."

    @property
    def near_in_words(self) -> str | None:
        """Where the text is nearly the same, and which words differ."""
        if self.near is None:
            return None
        exceptions = "; ".join(
            f"word {number} is {there} there, not {here}" for number, there, here in self.differing
        )
        words = plural(len(self.differing), "word")
        return f"Except for {words}, this is the text at {self.near.place}: {exceptions}."


def explain(sentence: Pattern, found: Location, *, watch: Watch | None = None) -> Answer:
    """The answer to a search; if it found nothing, the law that is broken and the nearest place."""
    if found.places or found.too_short:
        return Answer(sentence, found)
    near = nearest(sentence, found.below, watch=watch)
    if near is not None and not near.differs:  # an exact match that the first search missed
        return Answer(sentence, replace(found, places=[near.place]))
    return Answer(sentence, found, forbidden(sentence), near)


def _verdict(found: Location) -> str:
    bound = _exact(found.below)
    places = plural(len(found.places), "place")
    if found.too_short:
        shown = f" (first {PLACES_SHOWN} shown)" if len(found.places) > PLACES_SHOWN else ""
        return (
            f": too few to locate. By chance alone, {_about(found.expected)} places below {bound}"
            " have these words." + (f" {places} found{shown}." if found.places else "")
        )
    if found.places and found.complete:
        return f": {places} found. There is no other place below {bound}."
    if found.places:
        expected = "practically none" if found.expected < 0.001 else f"{found.expected:.1g}"
        return (
            f": {places} found. Another place below {bound} is unlikely:"
            f" by chance, {expected} would be expected."
        )
    if found.complete:
        return f": not in the text below {bound}."
    return f": not found below {bound}, but not every place could be ruled out."


def _exact(n: int) -> str:
    """An integer in the short form if that is exact, else with all its digits."""
    short = format_integer(n)
    return _power(short) if parse_integer(short) == n else str(n)


def _about(count: float) -> str:
    """A number of places, with two digits."""
    if math.isinf(count):
        return "very many"
    rounded = float(f"{count:.2g}")
    return (
        f"about {rounded:g}" if rounded < 100 else f"about {_power(format_integer(int(rounded)))}"
    )


def _power(short: str) -> str:
    """
    >>> _power("1e15"), _power("9.75e10"), _power("360")
    ('10^15', '9.75·10^10', '360')
    """
    factor, _, exponent = short.partition("e")
    return short if not exponent else f"{factor}·10^{exponent}".removeprefix("1·")
