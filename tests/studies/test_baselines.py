import pytest

from arithmetext.paper.runs import PromptSettings
from arithmetext.paper.studies.baselines import summarise
from arithmetext.search.residues import OracleScore

from .cases import Case, check

PROMPTS = PromptSettings(prompts=4, tokens=8, stride=1, seed=0, blocks=2)

# Scores 9, 10 and 11 are those of the HMM that is trained on one token, at 9.8e10, 1e13 and 1e15,
# in turn with those of the same HMM as a filter.
CASES: list[Case] = [
    ({"scores.11.accuracy.high": 0.16}, {"hmm-at-chance": False}),
    ({"scores.13.accuracy.high": 0.16}, {"hmm-at-chance": False}),
    ({"scores.9.accuracy.high": 0.5}, {}),  # the paper's test is far from the training text
    ({"scores.12.accuracy.high": 0.5}, {}),  # another reading
    ({"stand_in": "This is a small model."}, {"hmm-at-chance": None}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("baselines", case)


def test_the_paper_is_placed_on_the_curves_of_its_scales() -> None:
    oracle = [OracleScore(1, 0.2, 0.001, 3.0, 0.004), OracleScore(4, 0.6, 0.002, 2.0, 0.003)]
    result = summarise({10**10: oracle, 10**13: oracle}, [], PROMPTS, "")
    assert result.paper_horizons == {10**13: pytest.approx(2)}  # its accuracy of 0.4
    assert result.oracle_errors == (0.002, 0.004)
