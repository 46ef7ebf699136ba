"""Read parameters of a request; each has a range, and a value outside it is refused in words."""

from collections.abc import Sequence

from starlette.requests import Request

from ..errors import InputError
from ..integers import format_integer, parse_integer

MOST_CHARACTERS = 200  # of a parameter that is not a list of words


def text(request: Request, name: str, default: str | None = None, *, most: int) -> str:
    """A text of at most `most` characters."""
    value = request.query_params.get(name, default)
    if value is None:
        raise InputError(f"The parameter “{name}” is missing.")
    if len(value) > most:
        raise InputError(f"“{name}” has {len(value)} characters: at most {most} are read.")
    return value


def integer(
    request: Request, name: str, default: str | None = None, *, least: int, most: int
) -> int:
    """An integer between two bounds, written as on the command line: 360, 1e13, 2^40."""
    written = text(request, name, default, most=MOST_CHARACTERS)
    value = parse_integer(written)
    if not least <= value <= most:
        limits = f"from {short(least)} to {short(most)}"
        raise InputError(f"“{name}” must be {limits}, not {short(value)}.")
    return value


def short(n: int) -> str:
    """An integer that people can read: 1e17, or digits in groups of three."""
    if n >= 10**30:
        return f"a number of {len(str(n))} digits"
    return format_integer(n) if parse_integer(format_integer(n)) == n else f"{n:,}"


def number(request: Request, name: str, default: str, *, least: float, most: float) -> float:
    """A number between two bounds; "inf" is infinity."""
    written = text(request, name, default, most=MOST_CHARACTERS)
    try:
        value = float(written)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise InputError(f"“{name}” must be a number from {least:g} to {most:g}, not {written!r}.")
    return value


def choice(request: Request, name: str, options: Sequence[str]) -> str:
    """One of the options, by default the first."""
    value = text(request, name, options[0], most=MOST_CHARACTERS)
    if value not in options:
        raise InputError(f"“{name}” must be one of {', '.join(options)}, not {value!r}.")
    return value
