"""Integers parsed as people write them, and formatted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arithmetext.errors import InputError
from arithmetext.integers import format_integer, parse_integer


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("360", 360),
        ("1_000", 1000),
        ("1e13", 10**13),
        ("1E13", 10**13),
        ("1e+3", 1000),
        ("2.5e3", 2500),
        ("3.0", 3),
        ("10^13", 10**13),
        ("10**13", 10**13),
        ("2**64*3", 2**64 * 3),
        (" 2 * 3 ^ 2 ", 18),
        ("2^3^2", 512),
        ("0", 0),
        ("1^99999999999", 1),
        ("0^5", 0),
        ("10,000,000,000,000", 10**13),
        ("10\u202f000", 10**4),
        ("2^63-1", 2**63 - 1),
        ("10^30 + 57", 10**30 + 57),
        ("1e+3 + 1e3 - 2*3", 1994),
    ],
)
def test_accepted(written: str, value: int) -> None:
    assert parse_integer(written) == value


@pytest.mark.parametrize(
    "written",
    [
        *[
            "",
            "abc",
            "-5",
            "1_",
            "_1",
            "1__0",
            "2.5",
            "1e-3",
            "2**",
            "*2",
            "0x10",
            "1,00",
            "1,000.5",
            "٣",
        ],
        *["1,0000", "1,000\u2009000", "5-7", "1-", "1--1", "+1", "1e400000+1", "9^9^9-9^9^9"],
        *["1e5000", "9^9^9", "9^9^9^9", "1e999999999999", "2^13500", "9" * 5000],
    ],
)
def test_refused(written: str) -> None:
    with pytest.raises(InputError, match=r"not a|too large|is negative"):
        parse_integer(written)


@given(st.integers(0, 10**40))
def test_plain_and_grouped_digits(n: int) -> None:
    assert parse_integer(str(n)) == parse_integer(f"{n:_}") == n


@given(st.integers(1, 999), st.integers(0, 60))
def test_powers_of_ten(n: int, k: int) -> None:
    assert parse_integer(f"{n}e{k}") == parse_integer(f"{n}*10^{k}") == n * 10**k


@given(st.integers(10**4, 2**63))
def test_large_integers_have_three_digits(n: int) -> None:
    digits, _, exponent = format_integer(n).partition("e")
    assert len(digits.replace(".", "")) <= 3 and not digits.endswith((".", ".0"))
    assert abs(float(digits) * 10 ** int(exponent) - n) <= 0.0051 * n


def test_integers_beyond_floats_are_formatted() -> None:
    assert format_integer(10**400) == "1e400"
