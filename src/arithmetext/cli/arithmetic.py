"""`nt arrays` and `nt sequence`: arithmetic functions of consecutive integers."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from .. import cost
from ..errors import InputError
from ..integers import parse_integer
from .options import AsList, Count, one_of, parse_range, print_items

# As in text/arithmetic.py, which imports numpy.
NAMES = (
    "packed",
    "omega",
    "big_omega",
    "mobius",
    "squarefree",
    "prime",
    "height",
    "leaves",
    "edges",
)


def _complete_last(incomplete: str) -> list[str]:
    """Complete the name after the last comma."""
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in one_of(lambda: NAMES)(last)]


def arrays(
    start: Annotated[str, typer.Argument(metavar="START", help="First integer.")],
    count: Count,
    fields: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES",
            help="Names of functions, separated by commas.  [default: all]",
            autocompletion=_complete_last,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Save to a file: .csv, .npy, .npz or .parquet."),
    ] = None,
) -> None:
    """Print or save arithmetic functions of consecutive integers.

    Prints CSV unless --out is given. The functions are packed (the word read in base 2), omega (ω),
    big_omega (Ω), mobius (μ), squarefree, prime, and the height, leaves and edges of the tree of n.
    """
    from ..text import arithmetic, tables
    from ..text.export import check_suffix

    lo, hi = parse_range(start, count)
    names = NAMES if fields is None else [name.strip() for name in fields.split(",")]
    arithmetic.check_range(lo, hi)
    arithmetic.check_fields(names)
    if out is not None:
        check_suffix(out, *tables.SUFFIXES)
        cost.check(cost.arrays(lo, hi, names, out.suffix), out.resolve().parent)
        tables.write_table(out, lo, hi, names)
        return
    tables.write_csv(sys.stdout.buffer, lo, hi, names)


def sequence(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Name of a function, such as omega; `nt arrays --help` lists them.",
            autocompletion=one_of(lambda: NAMES),
        ),
    ],
    to: Annotated[str, typer.Option(metavar="N", help="Last integer.")] = "100",
    bfile: Annotated[
        bool, typer.Option("--bfile", help="Print lines `n a(n)`, as in the b-files of the OEIS.")
    ] = False,
    as_list: AsList = None,
) -> None:
    """Print an arithmetic function of 1..N, one value per line.

    All but the packed words are in the OEIS and begin at 1 there: omega is A001221, big_omega
    A001222, mobius A008683, squarefree A008966, prime A010051, height A185102, leaves A064372,
    edges A106490.
    """
    from ..text import arithmetic

    last = parse_integer(to)
    if bfile and as_list:
        raise InputError("--bfile prints lines, and --format a list: choose one of them")
    arithmetic.check_fields([name])
    if last > 1:
        cost.check(replace(cost.arrays(1, last + 1, [name], ".csv"), disk=0.0))  # it is printed
    pieces = arithmetic.terms(name, last)
    if bfile:
        rows = ([f"{n} {a}" for n, a in enumerate(values, first)] for first, values in pieces)
        print_items(rows, None)
    else:
        print_items((values for _, values in pieces), as_list)
