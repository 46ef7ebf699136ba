"""`nt probe`."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError
from ..integers import format_integer, parse_integer
from .evaluate import Model
from .options import AsJson, at_least

if TYPE_CHECKING:
    from ..evaluation.probes import Decoded

PRIMES = "2,3,5,7,11,13,17,19,23,29,31"
BLOCKS = 10  # of the text near each place


def probe(
    run: Model,
    primes: Annotated[
        str,
        typer.Option(metavar="P,P,…", help="Primes, or any other moduli, separated by commas."),
    ] = PRIMES,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="N", help="Test near N; may be repeated.  [default: 1e13]"),
    ] = None,
    windows: Annotated[
        int,
        typer.Option(
            parser=at_least(BLOCKS, 10_000),
            metavar="K",
            help="Windows to fit each probe on, and to test it on; rounded up to a multiple of 10.",
        ),
    ] = 20,
    seeds: Annotated[
        int, typer.Option(parser=at_least(1, 100), metavar="K", help="Sets of training windows.")
    ] = 3,
    as_json: AsJson = False,
) -> None:
    """Read n modulo primes off a model's residual stream.

    Fits linear probes after each layer on windows of the model's training text, and tests them on
    text that it was not trained on. Prints how often n mod p is read right in the second half of
    the context, where n is the integer of the last word read.

    The columns `untrained`, `16 tokens`, … are controls: the same probe reads a model that was not
    trained, or the last tokens in order, fitted on four times as many windows. --json prints all
    intervals, other controls, earlier positions, and the R² of single functions of n mod p.
    """
    from ..evaluation.probes import ProbeSettings, position_ranges, probe_scores, summarise
    from ..evaluation.subjects import subject

    places = tuple(parse_integer(n) for n in at or ["1e13"])
    moduli = tuple(parse_integer(p) for p in primes.split(","))
    tested = -(-windows // BLOCKS) * BLOCKS
    how = ProbeSettings(moduli, places, windows, 4 * windows, tested, BLOCKS, seeds).checked()
    model = subject(run, places[0])
    if not model.trained:
        raise InputError(f"{run} has no training text to fit probes on")
    arrays = probe_scores(model, how)
    ranges = position_ranges(model.context)
    found = {at: summarise(arrays, how, model.context, at) for at in places}
    if as_json:
        about = {
            "run": run,
            "model": model.model.description,
            "positions": ranges,
            "windows": windows,
            "tested": tested,
            "seeds": seeds,
        }
        rows = [
            {"at": at, "chance": each.chance, **vars(each)}
            for at, decoded in found.items()
            for each in decoded
        ]
        print(json.dumps(about | {"probes": rows}, allow_nan=False))
        return
    print(f"{model.model.description} ({run})")
    for place, decoded in found.items():
        first, end = ranges[-1]
        print(
            f"\nn mod p near {format_integer(place)}, positions {first} to {end - 1}:"
            " accuracy after each layer\n"
        )
        print(_table(decoded))


def _table(decoded: "list[Decoded]") -> str:
    from ..evaluation.estimates import format_estimate
    from ..evaluation.probes import ORDERED, UNTRAINED

    controls = UNTRAINED, *ORDERED
    layers = range(1, len(decoded[0].layers[-1]))
    header = ["p", "chance", "tokens", *map(str, layers), "best", *controls]
    rows = [header]
    for each in decoded:
        last = each.layers[-1]
        rows.append(
            [
                str(each.modulus),
                f"{each.chance:.3f}",
                *(f"{estimate.value:.3f}" for estimate in last),
                format_estimate(last[each.best_layer]),
                *(f"{each.controls[name].value:.3f}" for name in controls),
            ]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(lines)
