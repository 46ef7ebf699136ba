import pytest

from arithmetext.paper.studies.baselines import (
    horizon_by_accuracy,
    horizon_by_nats,
    summarize,
)
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

ORACLE = [
    OracleScore(1, 0.2, 0.001, 3.0, 0.004),
    OracleScore(4, 0.4, 0.002, 2.0, 0.003),
    OracleScore(16, 0.3, 0.001, 2.5, 0.001),  # by chance
    OracleScore(64, 0.6, 0.001, 1.0, 0.001),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("baselines", case)


def test_a_horizon_lies_between_bounds() -> None:
    assert horizon_by_accuracy(ORACLE, 0.3) == pytest.approx(2)
    assert horizon_by_nats(ORACLE, 2.5) == pytest.approx(2)
    assert horizon_by_accuracy(ORACLE, 0.1) == horizon_by_nats(ORACLE, 4.0) == 1
    assert horizon_by_accuracy(ORACLE, 0.6) == pytest.approx(64)
    assert horizon_by_accuracy(ORACLE, 0.5) == pytest.approx(32)
    assert horizon_by_accuracy(ORACLE, 0.61) is None
    assert horizon_by_nats(ORACLE, 0.9) is None


def test_the_paper_is_placed_on_the_curves_of_its_scales() -> None:
    result = summarize({10**10: ORACLE, 10**13: ORACLE}, [], prompts=4)
    assert list(result.paper_horizons) == [10**13]
    assert result.oracle_errors == (0.002, 0.004)
