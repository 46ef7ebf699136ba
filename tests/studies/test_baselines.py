import pytest

from arithmetext.evaluation.estimates import Estimate
from arithmetext.evaluation.horizon import ModelScore
from arithmetext.paper.runs import PromptSettings
from arithmetext.paper.studies.baselines import FILTER, UNIGRAM, caption, settings, summarise
from arithmetext.search.residues import OracleScore

from .cases import Case, draw

CASES: list[Case] = []  # what the paper says about these models is tested in other studies

PROMPTS = PromptSettings(prompts=4, tokens=8, stride=1, seed=0, blocks=2)


def test_the_paper_is_placed_on_the_curves_of_its_scales() -> None:
    oracle = [OracleScore(1, 0.2, 0.001, 3.0, 0.004), OracleScore(4, 0.6, 0.002, 2.0, 0.003)]
    result = summarise({10**10: oracle, 10**13: oracle}, [], PROMPTS, 4)
    assert result.paper_horizons == {10**13: pytest.approx(2)}  # its accuracy of 0.4
    assert result.oracle_errors == (0.002, 0.004)


def test_models_that_reach_the_oracle_of_2_are_drawn_and_the_others_are_named() -> None:
    oracle = [OracleScore(1, 0.2, 0.001, 3.0, 0.004), OracleScore(4, 0.6, 0.002, 2.0, 0.003)]
    scales = settings("gpu").scales
    accuracy, nats = Estimate(0.3, 0.2, 0.4), Estimate(2.5, 2.4, 2.6)

    def scores(name: str, *horizons: float | None) -> list[ModelScore]:
        return [ModelScore(name, scale, 1, accuracy, nats, *horizons) for scale in scales]

    trained = ["locator", FILTER, "8-grams", *settings("gpu").trained]
    found = [*scores(UNIGRAM, 1.9, 1.0), *(s for name in trained for s in scores(name, None, 2.0))]
    result = summarise(dict.fromkeys(scales, oracle), found, PROMPTS, 4)
    assert result.models() == (trained, [UNIGRAM])
    assert f"B = 2: {UNIGRAM}." in caption(result)
    draw("baselines", result)
    assert "Not drawn" not in caption(summarise(result.curves, found[3:], PROMPTS, 4))
