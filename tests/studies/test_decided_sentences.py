import numpy as np
import pytest

from arithmetext.paper.studies.decided_sentences import summarise

from .cases import Case, check

# Sentence 0 begins at 2 alone, 3 at 16 and 256, 4 nowhere; the paper does not claim the last row.
CASES: list[Case] = [
    ({"decided.0.first": [2, 9], "decided.0.count": 2}, {"10-10": False}),
    ({"decided.0.count": 2}, {"10-10": False}),
    ({"decided.1.first": [], "decided.1.count": 0}, {"1100-10": False}),
    ({"decided.2.first": [9]}, {"1100-1100": False}),
    ({"decided.3.first": [16], "decided.3.count": 1}, {"111000-10": False}),
    ({"decided.4.first": [9], "decided.4.count": 1}, {"10-111000": False}),
    ({"decided.5.first": [9], "decided.5.count": 1}, {"square-free-4-in-a-row": False}),
    ({"decided.6.first": [9], "decided.6.count": 1}, {}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("decided_sentences", case)


def test_occurrences_are_counted_over_all_pieces() -> None:
    count, first, up_to_power = summarise(iter([np.array([2, 10]), np.array([11, 50, 100, 101])]))
    assert count == 6
    assert first == [2, 10, 11, 50, 100]
    assert up_to_power == [0, 2, 5] + [6] * 16
