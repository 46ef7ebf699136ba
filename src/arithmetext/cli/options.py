"""Options and small functions that several commands use."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
import typer.core

from ..errors import InputError
from ..integers import NegativeInteger, format_integer, parse_integer

LONGEST_SUMMARY = 200  # characters


class Command(typer.core.TyperCommand):
    """A command whose usage shows required arguments without braces: `nt census [OPTIONS] X`."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def get_short_help_str(self, limit: int = 0) -> str:
        """The first sentence of the help; lists wrap it, where typer would cut it short."""
        return super().get_short_help_str(LONGEST_SUMMARY)


class Group(typer.core.TyperGroup):
    """A group of commands."""

    def get_short_help_str(self, limit: int = 0) -> str:
        return super().get_short_help_str(LONGEST_SUMMARY)


AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="Run on this Dask scheduler, such as tcp://host:8786."),
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait until no other process writes to the folder.")
]
Timeout = Annotated[
    float, typer.Option(metavar="SECONDS", help="Give up factoring an integer after this time.")
]
Start = Annotated[str, typer.Argument(metavar="START", help="First integer, 2 or larger.")]
Count = Annotated[str, typer.Argument(metavar="COUNT", help="Number of integers.")]


class ListFormat(StrEnum):
    """Programs that read a list; all of them read the same one."""

    gp = "gp"
    sage = "sage"
    json = "json"


AsList = Annotated[
    ListFormat | None,
    typer.Option(
        "--format",
        metavar="FORMAT",
        help="Print one list in brackets, for gp, sage or json.",
    ),
]


def print_items(pieces: Iterable[Sequence[object]], as_list: ListFormat | None) -> int:
    """Print items as they come, one per line or as a list in brackets; return their number."""
    number = 0
    for piece in filter(len, pieces):
        if as_list is None:
            print("\n".join(map(str, piece)), flush=True)
        else:
            print(", " if number else "[", ", ".join(map(str, piece)), sep="", end="")
        number += len(piece)
    if as_list is not None:
        print("]" if number else "[]")
    return number


def at_least(least: int, most: int | None = None) -> Callable[[str | int], int]:
    """A parser for integer options; like all integers they may be written 1e6 or 2^20.

    Messages that begin with "it" are about the option: `nt` prints its name instead.
    """

    def parse(value: str | int) -> int:
        try:
            number = parse_integer(str(value))
        except NegativeInteger:
            number = -1  # below any bound
        except InputError as error:  # typer drops the message of any other ValueError
            raise typer.BadParameter(str(error)) from None
        if number < least:
            raise typer.BadParameter(f"it must be at least {least}, not {value}")
        if most is not None and number > most:
            raise typer.BadParameter(f"it must be at most {most}, not {value}")
        return number

    return parse


def check_distinct(option: str, values: Sequence[int]) -> None:
    """Refuse a value that is given twice."""
    for value, times in Counter(values).items():
        if times > 1:
            raise InputError(f"{option} names {format_integer(value)} twice")


def one_of(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """A function for `autocompletion`: the names that begin with what was typed."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


MOST_SEED = (1 << 63) - 1
Seed = Annotated[int, typer.Option(parser=at_least(0, MOST_SEED), metavar="K", help="Random seed.")]


def parse_range(start: str, count: str) -> tuple[int, int]:
    """START and COUNT as a half-open range."""
    lo = parse_integer(start)
    return lo, lo + parse_integer(count)
