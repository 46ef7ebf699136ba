from typing import Any

import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.paper.runs import PromptSettings
from arithmetext.paper.studies.baselines import summarise
from arithmetext.search.residues import OracleScore

from .cases import Case, check

PROMPTS = PromptSettings(prompts=4, tokens=8, stride=1, seed=0, blocks=2)

# Scores 9 to 11 are those of the HMM that is trained on one token, at 9.8e10, 1e13 and 1e15; 12 to
# 14 are those of the same HMM as a filter.
NEAR = {f"scores.{i}.above_chance": Estimate(0.01, -0.04, 0.04) for i in range(9, 15)}
NEAR |= {f"scores.{i}.accuracy": Estimate(0.1, 0.05, 0.15) for i in range(9, 12)}
NEAR |= {f"scores.{i}.accuracy": Estimate(0.09, 0.05, 0.15) for i in range(12, 15)}
BETTER = {f"scores.{i}.accuracy.value": 0.11 for i in (13, 14)}
FAR, WIDE = Estimate(0.08, 0.06, 0.1), Estimate(0.04, 0.02, 0.06)


def case(edits: dict[str, Any], agrees: bool | None) -> Case:
    return NEAR | edits, {"hmm-at-chance": agrees}


CASES: list[Case] = [
    case({}, True),
    case({"scores.10.above_chance": FAR}, False),
    case({"scores.11.above_chance": FAR, "scores.10.above_chance": WIDE}, False),
    case({"scores.11.above_chance": Estimate(-0.08, -0.1, -0.06)}, False),
    case({"scores.11.above_chance": WIDE}, None),
    case({"scores.11.above_chance": UNKNOWN}, None),
    case({"scores.9.above_chance": FAR}, True),  # the paper's test is far from the training text
    case({"scores.13.above_chance": FAR}, True),  # the less accurate reading
    case(BETTER | {"scores.13.above_chance": FAR}, False),
    case(BETTER | {"scores.10.above_chance": FAR}, True),
    case({"stand_in": "This is a small model."}, None),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("baselines", case)


def test_the_paper_is_placed_on_the_curves_of_its_scales() -> None:
    oracle = [OracleScore(1, 0.2, 0.001, 3.0, 0.004), OracleScore(4, 0.6, 0.002, 2.0, 0.003)]
    result = summarise({10**10: oracle, 10**13: oracle}, [], PROMPTS, 4, "")
    assert result.paper_horizons == {10**13: pytest.approx(2)}  # its accuracy of 0.4
    assert result.oracle_errors == (0.002, 0.004)
