"""`nt locate`."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from .cli_options import AsJson
from .errors import InputError
from .integers import parse_integer, short
from .trees import unpack


def locate(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The words; standard input if left out.")
    ] = None,
    below: Annotated[str, typer.Option(metavar="N", help="Look no further.")] = "1e15",
    as_json: AsJson = False,
) -> None:
    """Tell which integers a run of words belongs to: print its first n.

    Words are separated by spaces or lines; * stands for one that is not known. Try
    `nt words 31415926535897 64 | nt locate`. The exit code is 1 if there is no such place.
    """
    from .text import locate as locating
    from .text import sentences
    from .text.sieve import words

    sentence = sentences.parse_sentence(_read(file))
    found = locating.locate(sentence, parse_integer(below))
    law, near, differing = None, None, []
    if not found.places and not found.too_short:
        law, near = sentences.forbidden(sentence), locating.nearest(sentence, found.below)
    if near is not None:
        there = words(near.place, near.place + len(sentence))
        differing = [
            {"word": i + 1, "there": unpack(int(there[i])), "here": unpack(sentence[i])}
            for i in near.differs
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
        for n in found.places:
            print(n)
        bound, count = short(found.below), _words(len(sentence))
        if found.too_short:
            _say(
                f"{count} may stand in many places below {bound}, about {found.expected:.2g} by"
                f" chance: too few to tell. Places below {locating.SMALL} are all listed."
            )
        elif found.places:
            others = "No other place" if found.complete else "No other place is to be expected"
            chance = "" if found.complete else f" ({found.expected:.1g} by chance)"
            _say(f"{count}. {others} below {bound}{chance}.")
        elif found.complete:
            _say(f"{count}: not in the text below {bound}.")
        else:
            _say(f"{count}: not found below {bound}; not every place could be ruled out.")
        if law is not None:
            first, end, reason = law
            stretch = " ".join(unpack(word) if word else "*" for word in sentence[first:end])
            place = f"Word {end}" if end == first + 1 else f"Words {first + 1} to {end}"
            _say(f"{place} ({stretch}): {reason}.")
        if near is not None:
            _say(
                f"But for {_words(len(differing))} it stands at {near.place}: "
                + "; ".join(
                    f"word {d['word']} is {d['there']} there, not {d['here']}" for d in differing
                )
                + "."
            )
    if not found.places:
        raise typer.Exit(1)


def _read(file: Path | None) -> str:
    try:
        return sys.stdin.read() if file is None else file.read_text(encoding="ascii")
    except OSError as error:
        raise InputError(f"cannot read {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{file or 'the input'} is not text of words") from None


def _words(count: int) -> str:
    return f"{count} word{'s' if count != 1 else ''}"


def _say(line: str) -> None:
    print(line, file=sys.stderr)
