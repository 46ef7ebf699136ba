"""`nt locate`."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError
from ..files import read_text
from ..integers import format_integer, parse_integer
from ..trees import unpack
from .options import AsJson

if TYPE_CHECKING:
    from ..search.locate import Location

SHOWN = 20  # of the places of a window that is too short
MOST_TEXT = 1 << 20  # bytes of input: 100,000 words, where 64 are enough below 10^13


def locate(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The words; standard input if left out.")
    ] = None,
    below: Annotated[str, typer.Option(metavar="N", help="Look no further.")] = "1e15",
    as_json: AsJson = False,
) -> None:
    """Find the integers that a run of words belongs to.

    Prints the first of them. Words are separated by spaces or lines; * stands for one that is not
    known. Try `nt words 31415926535897 64 | nt locate`. The exit code is 1 if there is no such
    place.
    """
    from ..search import locate as locating
    from ..search import sentences

    text = read_text(file, MOST_TEXT)
    if not text.split():
        raise InputError("no words: pipe some in, such as nt words 31415926535897 64 | nt locate")
    sentence = sentences.parse_sentence(text)
    found = locating.locate(sentence, parse_integer(below))
    law, near, differing = None, None, []
    if not found.places and not found.too_short:
        law, near = sentences.forbidden(sentence), locating.nearest(sentence, found.below)
    if near is not None and not near.differs:  # found where the first search had given up
        found, near, law = replace(found, places=[near.place]), None, None
    if near is not None:
        differing = [
            {"word": i + 1, "there": unpack(there), "here": unpack(sentence[i])}
            for i, there in zip(near.differs, near.there, strict=True)
        ]
    if as_json:
        answer = {
            "words": len(sentence),
            "below": found.below,
            "places": found.places,
            "complete": found.complete,
            "expected_by_chance": found.expected,
            "law": law and {"first_word": law[0] + 1, "last_word": law[1], "law": law[2]},
            "near": near and {"place": near.place, "differs": differing},
        }
        print(json.dumps(answer))
    else:
        for n in found.places[:SHOWN] if found.too_short else found.places:
            print(n)
        _say(f"{_words(len(sentence))}{_verdict(found)}")
        if law is not None:
            first, end, reason = law
            stretch = " ".join(unpack(word) if word else "*" for word in sentence[first:end])
            place = f"Word {end}" if end == first + 1 else f"Words {first + 1} to {end}"
            _say(f"{place} ({stretch}): {reason}.")
        if near is not None:
            there_not_here = "; ".join(
                f"word {d['word']} is {d['there']} there, not {d['here']}" for d in differing
            )
            _say(f"But for {_words(len(differing))} it stands at {near.place}: {there_not_here}.")
    if not found.places:
        raise typer.Exit(1)


def _verdict(found: "Location") -> str:
    """What can be said beside the places."""
    bound = _exact(found.below)
    if found.too_short:
        return (
            f" may stand in many places below {bound}, about {found.expected:.2g} by chance: too"
            f" few to tell. {len(found.places)} of them are known."
        )
    if found.places and found.complete:
        return f". No other place below {bound}."
    if found.places:
        chance = f"{found.expected:.1g} by chance"
        return f". No other place is to be expected below {bound} ({chance})."
    if found.complete:
        return f": not in the text below {bound}."
    return f": not found below {bound}; not every place could be ruled out."


def _exact(n: int) -> str:
    """An integer, written shorter where that says the same."""
    return format_integer(n) if parse_integer(format_integer(n)) == n else str(n)


def _words(count: int) -> str:
    return f"{count} word{'s' if count != 1 else ''}"


def _say(line: str) -> None:
    print(line, file=sys.stderr)
