"""Where a sentence stands; if it stands nowhere, why; and both in words."""

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
        return f"{place} ({words}): {reason}."

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
            f": too few to locate. By chance alone, about {found.expected:.2g} places below {bound}"
            f" have these words. {places} found{shown}."
        )
    if found.places and found.complete:
        return f": {places} found. There is no other place below {bound}."
    if found.places:
        return (
            f": {places} found. Another place below {bound} is unlikely:"
            f" {found.expected:.1g} are expected by chance."
        )
    if found.complete:
        return f": not in the text below {bound}."
    return f": not found below {bound}, but not every place could be ruled out."


def _exact(n: int) -> str:
    """An integer in the short form if that is exact, else with all its digits."""
    return format_integer(n) if parse_integer(format_integer(n)) == n else str(n)
