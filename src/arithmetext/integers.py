"""Parse and format integers as people write them: 360, 1_000, 1e13, 10^13, 2**64*3, 2^63-1."""

import re
from decimal import Decimal

from .errors import InputError

# A command line needs no larger numbers, and Python prints at most 4300 digits by default.
MAX_DIGITS = 4000
_MAX_BITS = int(MAX_DIGITS * 3.3219)

# Digits in groups of three, as in the pages of the explorer: 10,000 or with thin spaces.
_GROUPED = re.compile(r"\d{1,3}(?:([,\u00a0\u2009\u202f])\d{3})(?:\1\d{3})*", re.ASCII)
_SIGN = re.compile(
    r"(?<=[^eE])([+-])"
)  # not that of an exponent, 1e+3, and not the first character
_DECIMAL = re.compile(r"(\d+(?:_\d+)*)(?:\.(\d+))?(?:[eE]\+?(\d+))?", re.ASCII)


class NegativeInteger(InputError):
    """An integer below 0."""


def parse_integer(text: str) -> int:
    """Read a non-negative integer written as a sum of products of powers.

    >>> parse_integer("1e13") == parse_integer("10^13") == parse_integer("10**13")
    True
    >>> parse_integer("2**64*3")
    55340232221128654848
    """
    written = text.strip().replace("**", "^")
    if _GROUPED.fullmatch(written):
        written = re.sub(r"\D", "", written)
    first, *others = _SIGN.split(written)
    total = _product(first, text)
    for sign, term in zip(others[::2], others[1::2], strict=True):
        total += _product(term, text) * (1 if sign == "+" else -1)
    if total < 0:
        raise _negative(text)
    return _checked(total, text)


def format_integer(n: int) -> str:
    """Write an integer with at most three significant digits once it has five: 360, 1e8, 2.5e10.

    >>> format_integer(360), format_integer(10**13), format_integer(97_500_000_000)
    ('360', '1e13', '9.75e10')
    """
    return str(n) if n < 10**4 else re.sub(r"(\.?0+)?e\+0*", "e", f"{Decimal(n):.2e}")


def _product(written: str, text: str) -> int:
    product = 1
    for power in written.split("*"):
        product = _checked(product * _power(power, text), text)
    return product


def _power(written: str, text: str) -> int:
    """Evaluate a^b^c from the right, as mathematicians and Python do."""
    base, *exponents = (_decimal(part, text) for part in written.split("^"))
    exponent = 1
    for e in reversed(exponents):
        exponent = _raise(e, exponent, text)
    return _raise(base, exponent, text) if exponents else base


def _raise(base: int, exponent: int, text: str) -> int:
    # base ≥ 2^(bit_length - 1), so a power that is too large is refused before it is computed.
    if base > 1 and (base.bit_length() - 1) * exponent > _MAX_BITS:
        raise _too_large(text)
    return _checked(base**exponent, text)


def _decimal(written: str, text: str) -> int:
    match = _DECIMAL.fullmatch(written.strip())
    if match is None and re.fullmatch(r"-\s*\d.*", text.strip()):
        raise _negative(text)
    if match is None:
        raise InputError(
            f"not a number: {text!r} (write 360, 1_000, 1e13, 10^13, 2**64*3 or 2^63-1)"
        )
    whole, fraction, exponent = match[1].replace("_", ""), match[2] or "", match[3] or "0"
    if len(whole) > MAX_DIGITS or len(exponent) > 6 or int(exponent) > MAX_DIGITS:
        raise _too_large(text)
    zeros = int(exponent) - len(fraction.rstrip("0"))
    if zeros < 0:
        raise InputError(f"not a whole number: {text!r}")
    return _checked(int(whole + fraction.rstrip("0")) * 10**zeros, text)


def _checked(value: int, text: str) -> int:
    if value.bit_length() > _MAX_BITS:
        raise _too_large(text)
    return value


def _negative(text: str) -> NegativeInteger:
    return NegativeInteger(f"{text} is negative: integers here begin at 1")


def _too_large(text: str) -> InputError:
    shown = text if len(text) <= 40 else text[:37] + "..."
    return InputError(f"too large: {shown} (numbers here have at most {MAX_DIGITS} digits)")
