"""`nt probe`."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import cost
from ..errors import InputError
from ..integers import format_integer, parse_integer
from ..models.config import PACKAGED
from ..models.names import baseline, check_name
from .evaluate import run_folders
from .options import AsJson, at_least, check_distinct, one_of

if TYPE_CHECKING:
    from ..evaluation.probes import Decoded

PRIMES = "2,3,5,7,11,13,17,19,23,29,31"
BLOCKS = 10  # of the text near each place


def probe(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN",
            help="Folder of a run (but not of an HMM), pretrained, longconv or record.",
            autocompletion=one_of(lambda: [*sorted(run_folders()), *PACKAGED]),
        ),
    ],
    primes: Annotated[
        str,
        typer.Option(
            metavar="P,P,…", help="Primes or other moduli from 2 to 1000, separated by commas."
        ),
    ] = PRIMES,
    at: Annotated[
        list[int] | None,
        typer.Option(
            parser=at_least(2), metavar="N", help="Test near N; may be repeated.  [default: 1e13]"
        ),
    ] = None,
    windows: Annotated[
        int,
        typer.Option(
            parser=at_least(BLOCKS, 10_000),
            metavar="K",
            help="Windows to fit each probe on, and to test it on: 10 to 10000; for testing rounded"
            " up to a multiple of 10.",
        ),
    ] = 20,
    seeds: Annotated[
        int, typer.Option(parser=at_least(1, 100), metavar="K", help="Sets of training windows.")
    ] = 3,
    as_json: AsJson = False,
) -> None:
    """Read n modulo primes off a model's residual stream.

    Fits linear probes after each layer on windows of the model's training ranges, and tests them on
    integers that it has not seen; both in the real text. Prints how often n mod p is read right in
    the second half of the context, where n is the integer of the last word read.

    `tokens` is the embedding, before the first layer. `best layer` is the best on the tested text,
    with a 95 % interval over blocks of text and sets of training windows; the interval does not
    allow for the choice of the layer. Chance is 1/p.

    The columns `untrained`, `16 tokens`, … are controls: the same probe reads a model that was not
    trained, or the last tokens in order, fitted on four times as many windows. --json prints all
    intervals, other controls, earlier positions, and the R² of single functions of n mod p.
    """
    from ..evaluation.probes import ProbeSettings, position_ranges, probe_scores, summarise
    from ..evaluation.subjects import subject
    from ..text.splits import blocks_near

    places, moduli = at or [10**13], _moduli(primes)
    check_distinct("--at", places)
    tested = -(-windows // BLOCKS) * BLOCKS
    how = ProbeSettings(
        moduli, tuple(places), windows, 4 * windows, tested, BLOCKS, seeds
    ).checked()
    if baseline(run):
        raise InputError(
            f"{run} has no residual stream: nt probe reads a trained model (a run's folder, or"
            f" one of {', '.join(PACKAGED)})"
        )
    check_name(run, baselines=False)
    model = subject(run, places[0])
    for place in places:
        blocks_near(place, model.seen, BLOCKS)  # refuses a place before the probes are fitted
    read = seeds * windows + len(places) * tested
    gpu = model.model.device.type == "cuda"
    cost.check(cost.probing(read, model.context, model.model.parameter_count, gpu=gpu))
    arrays = probe_scores(model, how)
    ranges = position_ranges(model.context)
    found = {at: summarise([arrays], how, model.context, at) for at in places}
    if as_json:
        layers = _layers(found[places[0]])
        about = {
            "run": run,
            "model": model.description,
            "positions": ranges,
            "layers": layers,
            "windows": windows,
            "tested": tested,
            "seeds": seeds,
        }
        rows = [
            {"at": at, **_as_json(each, layers)}
            for at, decoded in found.items()
            for each in decoded
        ]
        print(json.dumps(about | {"probes": rows}, allow_nan=False))
        return
    print(f"{model.description} ({run})")
    for place, decoded in found.items():
        first, end = ranges[-1]
        print(
            f"\nn mod p near {format_integer(place)}, positions {first} to {end - 1}:"
            " accuracy after each layer\n"
        )
        print(_table(decoded))


def _moduli(primes: str) -> tuple[int, ...]:
    items = primes.split(",")
    if not all(map(str.strip, items)):
        raise InputError("--primes: an empty item (write 2,3,5)")
    try:
        moduli = tuple(map(parse_integer, items))
    except InputError as error:
        raise InputError(f"--primes: {error}") from None
    check_distinct("--primes", moduli)
    return moduli


def _layers(decoded: "list[Decoded]") -> list[str | int]:
    """The names of the layers; what comes before the first is the embedding."""
    return ["tokens", *range(1, len(decoded[0].layers[-1]))]


def _as_json(decoded: "Decoded", layers: list[str | int]) -> dict[str, Any]:
    """Accuracies by range of positions and layer; R² by function and layer."""
    from ..evaluation.codec import to_json
    from ..evaluation.probes import COUNTS, functions

    fields: dict[str, Any] = to_json(decoded)
    names = (f"{basis} {index}" for basis, index in functions(decoded.modulus).names)
    values = (each for basis in decoded.explained.values() for each in zip(*basis, strict=True))
    controls = fields["controls"]
    for scores in controls, fields["margins"], fields["ahead"]:
        scores["counts of the last 64 tokens"] = scores.pop(COUNTS)
    return {
        "modulus": fields.pop("modulus"),
        "chance": decoded.chance,
        "accuracy": fields.pop("layers"),
        "best_layer": layers[decoded.best_layer],
        **fields,
        "explained": dict(zip(names, values, strict=True)),
    }


def _table(decoded: "list[Decoded]") -> str:
    from ..evaluation.estimates import format_estimate
    from ..evaluation.probes import ORDERED, UNTRAINED

    layers, controls = _layers(decoded), (UNTRAINED, *ORDERED)
    rows = [["modulus", "chance", *map(str, layers), "best layer", *controls]]
    for each in decoded:
        last, best = each.layers[-1], each.best_layer
        rows.append(
            [
                str(each.modulus),
                f"{each.chance:.3f}",
                *(f"{estimate.value:.3f}" for estimate in last),
                f"{layers[best]}: {format_estimate(last[best])}",
                *(f"{each.controls[name].value:.3f}" for name in controls),
            ]
        )
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(lines)
