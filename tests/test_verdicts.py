"""When a verdict is not tested here."""

from dataclasses import replace

import pytest

from arithmetext.paper.study import Verdict, if_papers_model, unless_trained_less
from arithmetext.training.recipes import recipe

PAPER = recipe("ntp-paper").training.steps * recipe("ntp-paper").training.batch
DIFFERS = Verdict(
    key="k", claim="c", paper="p", ours="o", criterion="x", agrees=False, why="One seed."
)


def test_a_stand_in_tests_nothing_and_keeps_the_reason() -> None:
    agrees = replace(DIFFERS, agrees=True, why="")
    assert if_papers_model([agrees, DIFFERS], "") == [agrees, DIFFERS]
    first, second = if_papers_model([agrees, DIFFERS], "It is small.")
    assert (first.agrees, first.why) == (None, "It is small.")
    assert (second.agrees, second.why) == (None, "It is small. One seed.")


@pytest.mark.parametrize("agrees", [True, False, None])
@pytest.mark.parametrize("worse", [True, False])
@pytest.mark.parametrize("tokens", [10**6, PAPER - 1, PAPER])
def test_only_a_worse_model_with_less_training_is_excused(
    agrees: bool | None, worse: bool, tokens: int
) -> None:
    verdict = replace(DIFFERS, agrees=agrees)
    found = unless_trained_less(verdict, worse=worse, tokens=tokens)
    if agrees is False and worse and tokens < PAPER:
        assert found.agrees is None and found.why.endswith("One seed.")
        assert "tokens only; one pass over the paper's text has 4.4e10." in found.why
    else:
        assert found == verdict
