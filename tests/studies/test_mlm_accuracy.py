from math import inf

import pytest

from arithmetext.evaluation.estimates import Estimate
from arithmetext.evaluation.masking import MaskedAccuracy
from arithmetext.paper.runs import TrainingFacts
from arithmetext.paper.studies import mlm_accuracy as study
from arithmetext.paper.studies.mlm_accuracy import Result, summarise

from .cases import Case, check, committed, draw

RESULT = committed("mlm_accuracy")
BEST, GOOD = "best_region.lowest.accuracy", "good_region.lowest.accuracy"
TOTAL = RESULT.steps.total
# The committed model has rotary positions, so it tests nothing; one with learned positions would.
LEARNED = {"training.stand_in": ""}
OUTCOMES = {"best-region": True, "good-region": False, "degrades": True}

CASES: list[Case] = [
    (LEARNED, OUTCOMES),
    (LEARNED | {BEST: Estimate(0.41, 0.4, 0.42)}, OUTCOMES | {"best-region": None}),
    (LEARNED | {BEST: Estimate(0.41, 0.401, 0.42)}, OUTCOMES),
    (LEARNED | {BEST: Estimate(0.39, 0.38, 0.4)}, OUTCOMES | {"best-region": False}),
    (LEARNED | {GOOD: Estimate(0.31, 0.301, 0.33)}, OUTCOMES | {"good-region": True}),
    (LEARNED | {GOOD: Estimate(0.29, 0.28, 0.301)}, OUTCOMES | {"good-region": None}),
    ({GOOD: Estimate(0.31, 0.301, 0.33)}, {}),
    (LEARNED | {"steps.down": round(0.9 * TOTAL)}, OUTCOMES),
    (LEARNED | {"steps.down": round(0.9 * TOTAL) - 1}, OUTCOMES | {"degrades": False}),
    (LEARNED | {"steps.clearly_up": 1}, OUTCOMES | {"degrades": False}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("mlm_accuracy", case)


MASKED, BETAS = (0.05, 0.15, 0.4, 0.6), (0.1, 1.0, 2.0, 3.3, 5.0, 10.0, inf)
TRAINING = TrainingFacts(10**6, 60.0, "cpu", "a word", "")


def accuracies(
    *, top: float = 0.6, by_share: float = 0.1, by_temperature: float = 0.05
) -> dict[tuple[float, float], float]:
    """Accuracies that fall with p_m and with β⁻¹."""
    return {
        (share, beta): top - by_share * share - by_temperature * min(1 / beta, 5)
        for share in MASKED
        for beta in BETAS
    }


def summary(far: dict[tuple[float, float], float]) -> Result:
    """The usual accuracies near 1e9, others near 1e13."""
    tables = {
        at: [
            MaskedAccuracy(*place, Estimate(x, x - 0.002, x + 0.002)) for place, x in values.items()
        ]
        for at, values in ((10**9, accuracies()), (10**13, far))
    }
    return summarise(64, 256, TRAINING, tables)


def disagreeing(result: Result) -> list[str]:
    return [verdict.key for verdict in study.verdicts(result) if not verdict.agrees]


@pytest.mark.parametrize(
    ("far", "keys"),
    [
        (accuracies(), []),
        (accuracies() | {(0.15, 5.0): 0.2}, ["best-region", "degrades"]),
        (accuracies(top=0.2), ["best-region"]),
        (accuracies(by_share=1.4), ["good-region"]),
        (accuracies(by_share=1.0), []),
        (accuracies(top=0.05), ["best-region", "good-region"]),
        (accuracies() | {(0.6, 0.1): 0.5}, ["degrades"]),
        (accuracies(by_share=0.0), ["degrades"]),
        (accuracies(by_temperature=0.0), ["degrades"]),
    ],
)
def test_accuracies_decide_the_verdicts(far: dict[tuple[float, float], float], keys: list) -> None:
    """The mean of both places decides, so one place may be below the paper's level."""
    result = summary(far)
    assert disagreeing(result) == keys
    draw("mlm_accuracy", result)


def test_regions_are_those_of_the_paper() -> None:
    result = summary(accuracies(top=0.34))
    best, good = result.best_region, result.good_region
    assert (best.lowest.masked, best.lowest.beta) == (0.15, 3.3)
    assert (good.lowest.masked, good.lowest.beta) == (0.4, 2.0)
    assert {cell[:2] for cell in good.lowest_near.values()} == {(0.4, 2.0)}
    assert good.lowest.value == pytest.approx((0.535 + 0.275) / 2)
    assert best.lowest_near[10**13].value == pytest.approx(0.34 - 0.015 - 0.05 / 3.3)


def test_the_largest_share_for_which_a_claim_holds() -> None:
    best = summary(accuracies(top=0.34)).best_region
    assert best.holds_to == 0.4  # 0.417 there and 0.395 at 0.6
    assert summary(accuracies(top=0.1)).best_region.holds_to is None
    ups = accuracies(top=0.34) | {(0.05, 5.0): 0.1}  # a gap below counts
    assert summary(ups).best_region.holds_to is None


def test_highest_and_widest() -> None:
    result = summary(accuracies())
    assert result.highest == pytest.approx(0.595)
    assert result.widest == pytest.approx(0.002)
