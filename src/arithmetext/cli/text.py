"""`nt words`, `nt export`, `nt census`, `nt dictionary`: write or count the words of a range."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from .. import cost, trees
from ..errors import InputError
from ..files import check_new
from ..integers import parse_integer
from ..wording import plural
from .options import (
    MOST_SEED,
    AsJson,
    AsList,
    Count,
    Start,
    at_least,
    parse_range,
    print_items,
)


def words(
    start: Start,
    count: Count,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Save to a file: .txt, or .npy or .npz for packed words."
        ),
    ] = None,
    as_list: AsList = None,
    surrogate: Annotated[
        int | None,
        typer.Option(
            parser=at_least(0, MOST_SEED),
            metavar="SEED",
            help="Print the surrogate text with this seed, where every prime has a random phase.",
        ),
    ] = None,
) -> None:
    """Print the words of consecutive integers, or save them."""
    from ..text import export, sieve
    from ..text.ranges import spans

    lo, hi = parse_range(start, count)
    sieve.check_range(lo, hi)
    if out is not None and as_list:
        raise InputError("--format is for printing: leave it out, or leave out --out")
    if out is not None and surrogate is not None:
        raise InputError("--surrogate is for printing: leave it out, or leave out --out")
    if out is not None:
        cost.check(cost.export(lo, hi, out.suffix), out.resolve().parent)
        export.export(out, lo, hi)
        return
    if surrogate is None and not sys.stdout.isatty():
        pieces = (piece for _, piece in sieve.segments(lo, hi))
    elif surrogate is None:  # piece by piece, without a bar between the words
        pieces = (sieve.words(*span) for span in spans(lo, hi, sieve.segment_size(hi)))
    else:
        from ..text.surrogate import Surrogate

        text = Surrogate(surrogate)
        text.prepare(hi)
        pieces = (text.words(*span) for span in spans(lo, hi, sieve.piece_size(hi)))
    if as_list:
        # By parts: a list of strings takes much more memory than an array.
        parts = (piece[a:b] for piece in pieces for a, b in spans(0, len(piece), 1 << 16))
        spelled = (export.lines(part).decode().split() for part in parts)
        print_items(([f'"{word}"' for word in words] for words in spelled), as_list)
    else:
        sys.stdout.buffer.writelines(map(export.lines, pieces))


def export(
    start: Start,
    count: Count,
    parquet: Annotated[
        Path,
        typer.Option(metavar="FOLDER", help="New folder for the Parquet files and the card."),
    ],
) -> None:
    """Save words as a dataset for Hugging Face.

    `datasets.load_dataset(FOLDER)` reads it: Parquet files with the columns n, word and packed, and
    a dataset card.
    """
    from ..text import dataset

    lo, hi = parse_range(start, count)
    check_new(parquet)
    cost.check(cost.export(lo, hi, ".parquet"), parquet.resolve().parent)
    dataset.export(parquet, lo, hi)


def census(
    x: Annotated[str, typer.Argument(metavar="X", help="Last integer.")],
    top: Annotated[
        int, typer.Option(parser=at_least(1), metavar="K", help="Number of words to show.")
    ] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print all words as JSON.")] = False,
) -> None:
    """Count exactly how often each word occurs among 2..X.

    This does not visit every integer: X = 1e13 takes seconds.
    """
    from ..counting.census import census as count

    bound = parse_integer(x)
    cost.check(cost.census(bound))
    counts = count(bound)
    if as_json:
        spelled = {trees.unpack(word): number for word, number in counts.items()}
        print(json.dumps({"x": bound, "entropy_bits": counts.entropy, "counts": spelled}))
        return
    width = max(5, len(f"{bound:,}"))
    print(f"{'word':24} {'count':>{width}} {'share':>10}   least n")
    for packed, number in list(counts.items())[:top]:
        word = trees.unpack(packed)
        share = number / (bound - 1)
        print(f"{word:24} {number:>{width},} {share:10.5%}   {trees.least(word):,}")
    print(f"\n{plural(len(counts), 'word')}, {counts.entropy:.6f} bits per word")


def dictionary(
    x: Annotated[str, typer.Argument(metavar="X", help="Last integer.")],
    as_json: AsJson = False,
) -> None:
    """Count exactly how many different words occur among 2..X.

    This visits no integers: X = 1e30 takes less than a second.
    """
    from ..counting.dictionary import dictionary_size

    bound = parse_integer(x)
    size = dictionary_size(bound)
    print(json.dumps({"x": bound, "words": size}) if as_json else size)
