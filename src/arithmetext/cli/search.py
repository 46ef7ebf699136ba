"""`nt find`, `nt locate` and `nt horizon`: where words occur, and what residues tell about them."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import cost
from ..errors import InputError
from ..files import read_text
from ..integers import format_integer, parse_integer
from ..text.ranges import MAX
from ..wording import plural
from .options import AsJson, AsList, Cluster, print_items

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
    unknown word. Try `nt words 31415926535897 64 | nt locate`. A few hundred words are enough; at
    most a megabyte is read. The exit code is 1 if no integer is printed.
    """
    from ..search import answers, sentences
    from ..search import locate as locating

    if file is None and sys.stdin is not None and sys.stdin.isatty():
        _say("Type or paste the words; Ctrl-D ends them.")
    text = read_text(file, MOST_TEXT)
    if not text.split():
        raise InputError("no words: pipe some in, such as nt words 31415926535897 64 | nt locate")
    sentence = sentences.parse_sentence(text)
    answer = answers.explain(sentence, locating.locate(sentence, parse_integer(below)))
    found, law, near = answer.found, answer.law, answer.near
    if as_json:
        differing = [
            {"word": i, "there": there, "here": here} for i, there, here in answer.differing
        ]
        facts = {
            "words": len(sentence),
            "below": found.below,
            "places": found.places,
            "complete": found.complete,
            "too_short": found.too_short,
            "expected_by_chance": found.expected,
            "law": law and {"first_word": law[0] + 1, "last_word": law[1], "law": law[2]},
            "near": near and {"place": near.place, "differs": differing},
        }
        print(json.dumps(facts))
    else:
        for n in answer.shown:
            print(n)
        for line in filter(None, [answer.verdict, answer.law_in_words, answer.near_in_words]):
            _say(line)
        if not (found.places or found.too_short or law) and found.below < MAX:
            _say("--below searches further, up to 2^63.")
    if not found.places:
        raise typer.Exit(1)


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
