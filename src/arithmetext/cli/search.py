"""`nt find`, `nt locate` and `nt horizon`: where words occur, and what residues tell about them."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .. import cost
from ..errors import InputError
from ..files import read_text
from ..integers import format_integer, parse_integer
from ..trees import unpack
from .options import AsJson, AsList, Cluster, plural, print_items

if TYPE_CHECKING:
    from ..search.locate import Location

PLACES_SHOWN = 20  # for words that are too few to be located
MOST_TEXT = 1 << 20  # bytes of input, about 100,000 words; 64 words are enough below 10^13


def find(
    sentence: Annotated[
        str,
        typer.Argument(
            metavar="SENTENCE", help='Words in quotes, such as "111000 10"; `*` matches any word.'
        ),
    ],
    start: Annotated[
        str, typer.Option("--from", metavar="N", help="First integer to search.")
    ] = "2",
    stop: Annotated[str, typer.Option("--to", metavar="N", help="Last integer to search.")] = "1e9",
    count: Annotated[
        bool, typer.Option("--count", help="Print only the number of occurrences.")
    ] = False,
    as_list: AsList = None,
    cluster: Cluster = None,
) -> None:
    """Find all places where a sentence, a run of words, begins.

    If arithmetic proves that the sentence never occurs, or only at a few places, that is printed
    too.
    """
    from ..search import sentences
    from ..text.ranges import spans

    wanted = sentences.parse_sentence(sentence)
    lo, hi = parse_integer(start), parse_integer(stop) + 1
    if hi <= lo:
        raise InputError(f"nothing to search: --to {stop} is below --from {start}")
    if count and as_list:
        raise InputError("--count prints one number, and --format a list: choose one of them")
    if cluster is None:
        cost.check(cost.visit(lo, hi, nanoseconds=1.0))
    found = sentences.find(wanted, lo, hi, cluster=cluster, title="searching")
    if count:
        occurrences = sum(map(len, found))
        print(occurrences)
    else:
        # By parts: a list of integers takes much more memory than an array.
        parts = (piece[a:b].tolist() for piece in found for a, b in spans(0, len(piece), 1 << 16))
        occurrences = print_items(parts, as_list)
    law = sentences.law(wanted)
    _say(
        f"{plural(occurrences, 'occurrence')} in {lo}..{hi - 1}, every start examined."
        + (f" By arithmetic, {law}." if law else " This does not rule out occurrences elsewhere.")
    )


def locate(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", help="File with the words; standard input if omitted."),
    ] = None,
    below: Annotated[
        str, typer.Option(metavar="N", help="Search the integers below this one.")
    ] = "1e15",
    as_json: AsJson = False,
) -> None:
    """Find the integers that a run of words belongs to.

    Prints the first of these integers. Words are separated by spaces or line ends; `*` means an
    unknown word. Try `nt words 31415926535897 64 | nt locate`. The exit code is 1 if no integers
    have these words.
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
    if near is not None and not near.differs:  # an exact match that the first search missed
        found, near, law = replace(found, places=[near.place]), None, None
    if near is not None:
        differing = [
            {"word": i + 1, "there": unpack(actual), "here": unpack(sentence[i])}
            for i, actual in zip(near.differs, near.actual, strict=True)
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
        for n in found.places[:PLACES_SHOWN] if found.too_short else found.places:
            print(n)
        _say(f"{plural(len(sentence), 'word')}{_verdict(found)}")
        if law is not None:
            first, end, reason = law
            stretch = " ".join(unpack(word) if word else "*" for word in sentence[first:end])
            place = f"Word {end}" if end == first + 1 else f"Words {first + 1} to {end}"
            _say(f"{place} ({stretch}): {reason}.")
        if near is not None:
            exceptions = "; ".join(
                f"word {d['word']} is {d['there']} there, not {d['here']}" for d in differing
            )
            number = plural(len(differing), "word")
            _say(f"Except for {number}, this is the text at {near.place}: {exceptions}.")
    if not found.places:
        raise typer.Exit(1)


def _verdict(found: "Location") -> str:
    """How many places there are, and whether there can be others."""
    bound = _exact(found.below)
    if found.too_short:
        shown = f" (first {PLACES_SHOWN} printed)" if len(found.places) > PLACES_SHOWN else ""
        return (
            f": too few to locate. By chance alone, about {found.expected:.2g} places below {bound}"
            f" have these words. {plural(len(found.places), 'place')} found{shown}."
        )
    places = plural(len(found.places), "place")
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


def _say(line: str) -> None:
    print(line, file=sys.stderr)


def horizon(
    accuracy: Annotated[
        float | None,
        typer.Option(metavar="A", help="Share of words that the model predicts right."),
    ] = None,
    nats: Annotated[
        float | None,
        typer.Option(metavar="X", help="Instead of --accuracy: the model's loss in nats per word."),
    ] = None,
    at: Annotated[str, typer.Option(metavar="N", help="Scale of the integers.")] = "1e13",
    as_json: AsJson = False,
) -> None:
    """Find the primes whose residues explain an accuracy or loss.

    The arithmetic horizon is the least prime B such that knowing the scale of n, and n modulo all
    powers of the primes up to B, is enough to predict words as well as the model does. It is 1 if
    the scale alone is enough.
    """
    from dataclasses import asdict

    from ..search import residues

    scale = parse_integer(at)
    found = residues.find_horizon(scale, accuracy=accuracy, nats=nats)
    if as_json:
        print(json.dumps({"at": scale, **asdict(found)}))
        return
    target = f"{nats:g} nats per word" if accuracy is None else f"an accuracy of {accuracy:g}"
    bound = found.reached.bound
    known = f"n modulo all powers of the primes up to {bound}" if bound > 1 else "the scale alone"
    print(f"horizon {bound}: at {format_integer(scale)} knowing {known} is enough for {target}")
    print(f"\n{'primes up to':>12} {'accuracy':>17} {'nats per word':>17}   (± standard error)")
    for score in filter(None, [found.before, found.reached]):
        right = f"{score.accuracy:.4f} ± {score.accuracy_error:.4f}"
        loss = f"{score.nats:.4f} ± {score.nats_error:.4f}"
        print(f"{score.bound:12} {right:>17} {loss:>17}")
