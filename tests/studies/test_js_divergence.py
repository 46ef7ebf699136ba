import pytest

from .cases import Case, check

# Only the paper's text, 1000 chunks up to 1e11, can test the paper's number.
CASES: list[Case] = [
    ({"maximum_between": [1, 999]}, {"largest-first-last": False}),
    ({"maximum_between": [2, 1000]}, {"largest-first-last": False}),
    ({"maximum_between": [1000, 1]}, {}),
    ({"maximum": 0.02386}, {"maximum": False}),
    ({"maximum": 0.02374}, {"maximum": False}),
    ({"maximum": 0.023849}, {}),
    ({"maximum": 0.023751}, {}),
    ({"n": 10**9, "chunks": 100, "maximum_between": [1, 100]}, {"maximum": None}),
    ({"n": 10**9}, {"maximum": None}),
    ({"chunks": 100, "maximum_between": [1, 100]}, {"maximum": None}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("js_divergence", case)
