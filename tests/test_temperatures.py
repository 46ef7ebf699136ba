"""The quality of continuations at several inverse temperatures, and the best of these."""

from dataclasses import fields
from math import inf

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.evaluation.evaluate import Quality, quality
from arithmetext.evaluation.generation import continue_prompts
from arithmetext.evaluation.prompts import draw
from arithmetext.evaluation.temperatures import BestBeta, BetaQuality, best_beta, quality_by_beta
from arithmetext.models.ngram import NGram
from arithmetext.tokens import WordTokens

AT = 10**8


def row(beta: float, measure: str, value: float) -> BetaQuality:
    unknown = {field.name: UNKNOWN for field in fields(Quality)}
    known = {measure: Estimate(value, value - 0.01, value + 0.01)}
    return BetaQuality(**unknown | known, beta=beta)


def rows(measure: str, values: dict[float, float]) -> list[BetaQuality]:
    return [row(beta, measure, value) for beta, value in values.items()]


def test_the_best_beta_and_those_as_good() -> None:
    """A divergence is best where it is nearest to 0; β are as good if their intervals overlap."""
    accuracy = rows("accuracy", {0.1: 0.1, 1: 0.4, 5: 0.385, inf: 0.37})
    assert best_beta(accuracy, "accuracy") == BestBeta(1, [1, 5])
    divergence = rows("kl_paper", {0.1: -0.2, 1: 0.05, 5: 0.08})
    assert best_beta(divergence, "kl_paper") == BestBeta(1, [1])
    negative = rows("jensen_shannon", {0.1: -0.01, 1: 0.02, inf: 0.005})
    assert best_beta(negative, "jensen_shannon") == BestBeta(inf, [0.1, 1, inf])


def test_quality_is_that_of_the_continuations_at_each_beta() -> None:
    tokens = WordTokens.commonest(64)
    model = NGram.count(2, tokens=tokens, words=10**5)
    prompts = draw(tokens, (AT, AT + 10**5), number=8, length=16, following=16, seed=0)
    found = quality_by_beta(model, prompts, 16, (0.5, inf), seed=3, stride=1)
    assert [each.beta for each in found] == [0.5, inf]
    for each in found:
        made = continue_prompts(model, prompts, 16, beta=each.beta, seed=3)
        assert each == BetaQuality(**vars(quality(made)), beta=each.beta)
    assert found[0] != found[1]
