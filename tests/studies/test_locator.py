import pytest

from arithmetext.evaluation.estimates import wilson
from arithmetext.paper.studies import locator as study
from arithmetext.paper.studies.locator import Longest, Row, summarise_longest

from .cases import Case, check, committed, edited

CASES: list[Case] = [
    ({"longest.expected": 0.01}, {"several-continuations": True}),
    ({"longest.expected": 0.001}, {}),
    ({"rows.0.expected": 10.0}, {}),  # the verdict is about the longest windows
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("locator", case)


def test_the_longest_windows_are_taken_together() -> None:
    rows = [
        Row(scale, length, found, 25, wilson(found, 25), 0.1, expected)
        for scale, length, found, expected in (
            (10**9, 12, 1, 10.0),
            (10**9, 128, 25, 1e-9),
            (10**15, 12, 2, 20.0),
            (10**15, 128, 24, 1e-3),
        )
    ]
    assert summarise_longest(rows) == Longest(128, found=49, windows=50, expected=1e-3)


def test_a_search_that_stopped_early_says_so() -> None:
    result = committed("locator")
    assert "stopped early" not in study.caption(result)
    assert "stopped early" in study.caption(edited(result, {"efforts": 1}))
