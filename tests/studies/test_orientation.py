import pytest

from .cases import Case, check

# Each start has three rows, the longest last. The criterion is three standard deviations.
CASES: list[Case] = [
    ({"rows.2.text": 20.0, "rows.2.floor": 20.0}, {"oriented-2": None}),
    ({"rows.5.text": 21.1, "rows.5.floor": 20.0, "rows.5.spread": 0.4}, {"oriented-1e8": None}),
    ({"rows.8.text": 21.1, "rows.8.floor": 20.0, "rows.8.spread": 0.4}, {"oriented-1e10": None}),
    ({"rows.11.text": 21.1, "rows.11.floor": 20.0, "rows.11.spread": 0.3}, {"oriented-1e13": True}),
    ({"rows.1.text": 0.0}, {}),  # the verdict is about the longest
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("orientation", case)
