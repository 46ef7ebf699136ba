import pytest

from arithmetext.paper.studies.rank_frequency import words_in_both

from .cases import Case, check

CASES: list[Case] = [
    ({"fits.13.zipf.rms": 0.6, "fits.13.parabola.rms": 0.3}, {"departs-from-zipf": False}),
    ({"fits.13.zipf.rms": 0.61, "fits.13.parabola.rms": 0.3}, {}),
    ({"fits.11.zipf.rms": 0.0}, {}),  # the verdict is about the longest text
    ({"stable_words": 15}, {"stable-hierarchy": False}),
    ({"stable_words": 16}, {}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("rank_frequency", case)


def test_words_are_compared_without_their_ranks_and_counts() -> None:
    assert words_in_both([("10", 9), ("1010", 8), ("1100", 7)], [("1010", 90), ("10", 80)]) == 2
