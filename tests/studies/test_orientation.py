import pytest

from .cases import Case, check

# Each start has three rows, the longest last. The criterion is three standard deviations.
CASES: list[Case] = [
    ({"rows.2.text": 20.0, "rows.2.floor": 20.0}, {"oriented": None}),
    ({"rows.2.text": 21.1, "rows.2.floor": 20.0, "rows.2.spread": 0.4}, {"oriented": None}),
    ({"rows.2.text": 21.1, "rows.2.floor": 20.0, "rows.2.spread": 0.3}, {}),
    ({"rows.1.text": 0.0}, {}),  # the verdict is about the longest
    ({"rows.5.text": 0.0}, {}),  # and about the text from 2
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("orientation", case)
