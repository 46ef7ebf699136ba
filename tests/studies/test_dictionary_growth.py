from math import log

import pytest

from arithmetext.counting.dictionary import dictionary_size
from arithmetext.paper.studies.dictionary_growth import growth_exponent

from .cases import Case, check

CASES: list[Case] = [
    ({"counts.40": 2000}, {"size-1e11": False}),  # counted_at.40 is 1e11
    ({"counts.40": 2001}, {}),
    ({"counts.44": 1}, {}),
    ({"exponent": 1.0}, {"sublinear": False}),
    ({"exponent": 0.999}, {}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("dictionary_growth", case)


def test_the_exponent_is_the_slope_between_two_sizes() -> None:
    slope = log(dictionary_size(1000) / dictionary_size(10)) / log(100)
    assert growth_exponent(10, 1000) == pytest.approx(slope)
