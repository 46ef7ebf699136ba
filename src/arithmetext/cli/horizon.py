"""`nt horizon`."""

import json
from typing import Annotated

import typer

from ..integers import format_integer, parse_integer
from .options import AsJson


def horizon(
    accuracy: Annotated[
        float | None, typer.Option(metavar="A", help="The share of words predicted right.")
    ] = None,
    nats: Annotated[
        float | None, typer.Option(metavar="X", help="Or the nats a word, teacher-forced.")
    ] = None,
    at: Annotated[str, typer.Option(metavar="N", help="The scale of the integers.")] = "1e13",
    as_json: AsJson = False,
) -> None:
    """Find how many primes explain an accuracy.

    The arithmetic horizon is the least prime B such that knowing n modulo all powers of the primes
    up to B, and the scale of n, is enough for this accuracy, or for these nats a word.
    """
    from dataclasses import asdict

    from ..search import residues

    scale = parse_integer(at)
    found = residues.horizon(scale, accuracy=accuracy, nats=nats)
    if as_json:
        print(json.dumps({"at": scale, **asdict(found)}))
        return
    asked = f"{nats:g} nats a word" if accuracy is None else f"an accuracy of {accuracy:g}"
    bound = found.reached.bound
    known = (
        "the scale alone is" if bound == 1 else f"the residues modulo the primes up to {bound} are"
    )
    print(f"horizon {bound}: at {format_integer(scale)} {known} enough for {asked}")
    print(f"\n{'primes up to':>12} {'accuracy':>17} {'nats a word':>17}")
    for score in filter(None, [found.before, found.reached]):
        right = f"{score.accuracy:.4f} ± {score.accuracy_error:.4f}"
        cost = f"{score.nats:.4f} ± {score.nats_error:.4f}"
        print(f"{score.bound:12} {right:>17} {cost:>17}")
