import pytest

from arithmetext.counting.walks import Crossover, Walk
from arithmetext.paper.studies import walks as study
from arithmetext.paper.studies.walks import summarise

from .cases import Case, check, committed, edited

# Four walks from each start: more than two must become superdiffusive.
CASES: list[Case] = [
    ({"stretches.0.crossing": 2}, {"crossover-2": False}),
    ({"stretches.0.crossing": 3}, {}),
    ({"stretches.1.crossing": 3}, {"crossover-1e10": True}),
    ({"stretches.1.crossing": 2}, {}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("walks", case)


def test_a_walk_crosses_if_its_exponent_rises_past_the_border() -> None:
    exponents = [(1.0, 1.9), (1.1, 1.3), (1.5, 1.8), (1.0, 1.1), (1.3, 1.0), (1.0, 1.2)]
    walks = [Walk("10", 1, [], [], [], Crossover(9.0, *pair, 0.0)) for pair in exponents]
    found = summarise(2, walks)
    assert (found.before, found.after, found.crossing) == ((1.0, 1.5), (1.0, 1.9), 2)


def test_the_words_follow_from_the_numbers() -> None:
    result = committed("walks")
    assert "From 1e10, 0 of 4 words become" in study.caption(result)
    assert [bool(verdict.why) for verdict in study.verdicts(result)] == [False, True]
    other = edited(result, {"stretches.0.crossing": 1, "stretches.1.crossing": 4})
    assert "From 1e10, 4 of 4 words become" in study.caption(other)
    assert [bool(verdict.why) for verdict in study.verdicts(other)] == [True, False]
