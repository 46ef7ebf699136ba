import pytest

from arithmetext.paper.studies.baselines import summarise
from arithmetext.search.residues import OracleScore

from .cases import Case, check

# Scores 6, 7 and 8 are those of the HMM that is trained on one token, at 1e10, 1e13 and 1e15.
CASES: list[Case] = [
    ({"scores.7.accuracy": 0.13, "scores.7.accuracy_error": 0.01}, {"hmm-at-chance": False}),
    ({"scores.8.accuracy": 0.13, "scores.8.accuracy_error": 0.01}, {"hmm-at-chance": False}),
    ({"scores.8.accuracy": 0.119, "scores.8.accuracy_error": 0.01}, {}),
    ({"scores.6.accuracy": 0.5}, {}),  # the paper's test is far from the training text
    ({"scores.10.accuracy": 0.5}, {}),  # another model
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("baselines", case)


def test_the_paper_is_placed_on_the_curves_of_its_scales() -> None:
    oracle = [OracleScore(1, 0.2, 0.001, 3.0, 0.004), OracleScore(4, 0.6, 0.002, 2.0, 0.003)]
    result = summarise({10**10: oracle, 10**13: oracle}, [], prompts=4)
    assert result.paper_horizons == {10**13: pytest.approx(2)}  # its accuracy of 0.4
    assert result.oracle_errors == (0.002, 0.004)
