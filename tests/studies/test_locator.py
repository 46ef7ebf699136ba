from collections import Counter

import pytest

from arithmetext.evaluation.estimates import wilson
from arithmetext.paper.studies import locator as study
from arithmetext.paper.studies.locator import (
    Longest,
    Row,
    count_repeats,
    summarise_longest,
)
from arithmetext.text.sieve import words

from .cases import Case, check, committed, edited

CASES: list[Case] = [
    # No window occurs twice, or longer windows occur as often, or long prompts are not rare.
    ({f"repeats.{k}.share": 0.0 for k in range(5)}, {"several-continuations": False}),
    ({"repeats.2.share": 0.5}, {"several-continuations": False}),
    ({"longest.expected": 1.0}, {"several-continuations": False}),
    ({"longest.expected": 0.9}, {}),
    ({"rows.0.expected": 10.0}, {}),  # only the longest windows are rare
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


@pytest.mark.parametrize("length", [1, 3, 8, 2000])
def test_repeated_windows_are_those_that_a_dictionary_counts(length: int) -> None:
    text = words(2, 2002)
    windows = [tuple(text[i : i + length].tolist()) for i in range(len(text) - length + 1)]
    occurrences = Counter(windows)
    found = count_repeats(text, length)
    assert found.windows == len(windows)
    assert found.repeated == sum(occurrences[window] > 1 for window in windows)
    assert found.share == found.repeated / found.windows
