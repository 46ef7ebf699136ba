"""Training, validation and test."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arithmetext.errors import InputError
from arithmetext.text.splits import far_window, splits


@given(st.integers(100, 10**15))
def test_no_integer_in_two_sets_and_none_lost(n: int) -> None:
    s = splits(n)
    ranges = sorted([*s.train, *s.validation, s.test])
    assert ranges[0][0] == 2
    assert ranges[-1][1] == n + 1
    assert all(a < b for a, b in ranges)
    assert all(before[1] == after[0] for before, after in pairwise(ranges))


def test_the_paper() -> None:
    s = splits(10**11)
    assert len(s.train) == 10
    assert len(s.validation) == 9
    # The first chunk has 10^10 − 1 words, the others 10^10, three quarters of each for training.
    assert s.train[0] == (2, 7_500_000_001)
    assert s.validation[0] == (7_500_000_001, 10_000_000_001)
    assert s.train[9] == (90_000_000_001, 97_500_000_001)
    assert s.test == (97_500_000_001, 100_000_000_001)
    assert sum(b - a for a, b in [*s.train, *s.validation, s.test]) == 10**11 - 1


@pytest.mark.parametrize("power", [13, 14, 15])
def test_far_windows_lie_beyond_the_text(power: int) -> None:
    lo, hi = far_window(power)
    assert (lo, hi - 1) == (10**power, 10**power + 10**6)
    assert lo >= splits(10**11).test[1]


def test_a_text_too_short() -> None:
    with pytest.raises(InputError, match="too short"):
        splits(99)
