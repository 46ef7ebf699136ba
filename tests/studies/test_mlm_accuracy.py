from math import inf

import pytest

from arithmetext.evaluation.estimates import Estimate
from arithmetext.evaluation.masking import MaskedAccuracy
from arithmetext.paper.runs import TrainingFacts
from arithmetext.paper.studies import mlm_accuracy as study
from arithmetext.paper.studies.mlm_accuracy import Result, summarise

from .cases import Case, check, committed, draw, edited

RESULT = committed("mlm_accuracy")
FAR = 10**15
BEST, GOOD = f"best_region.worst.{FAR}.accuracy", "good_region.worst.{}.accuracy"
ALL_GOOD = {GOOD.format(at): Estimate(0.31, 0.29, 0.33) for at in (10**14, 10**15)}
TOTAL = RESULT.steps.total

CASES: list[Case] = [
    ({BEST: Estimate(0.4, 0.1, 0.7)}, {"best-region": False}),  # the value counts, not the interval
    ({BEST: Estimate(0.401, 0.1, 0.7)}, {}),
    (ALL_GOOD, {"good-region": True}),
    (ALL_GOOD | {GOOD.format(10**13): Estimate(0.3, 0.3, 0.3)}, {}),
    ({"steps.down": round(0.9 * TOTAL)}, {}),
    ({"steps.down": round(0.9 * TOTAL) - 1}, {"degrades": False}),
    ({"steps.clearly_up": 1}, {"degrades": False}),
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
        (accuracies() | {(0.15, 5.0): 0.4}, ["best-region", "degrades"]),
        (accuracies(top=0.42), ["best-region"]),
        (accuracies(by_share=0.8), ["good-region"]),
        (accuracies(by_share=0.6), []),
        (accuracies(top=0.34), ["best-region", "good-region"]),
        (accuracies() | {(0.6, 0.1): 0.5}, ["degrades"]),
        (accuracies(by_share=0.0), ["degrades"]),
        (accuracies(by_temperature=0.0), ["degrades"]),
    ],
)
def test_accuracies_decide_the_verdicts(far: dict[tuple[float, float], float], keys: list) -> None:
    result = summary(far)
    assert disagreeing(result) == keys
    draw("mlm_accuracy", result)


def test_regions_are_those_of_the_paper() -> None:
    result = summary(accuracies(top=0.34))
    best, good = result.best_region, result.good_region
    assert (best.above, best.total) == (3, 6)  # β = 3.3, 5, 10 near two integers
    assert (good.above, good.total) == (15 + 10, 30)  # three p_m, β from 2, near two integers
    worst = {at: (cell.masked, cell.beta) for at, cell in good.worst.items()}
    assert worst == {10**9: (0.4, 2.0), 10**13: (0.4, 2.0)}


def test_scales_above_are_named() -> None:
    *_, good, _ = study.verdicts(RESULT)
    assert good.why.endswith("Near 9.8e10 and 1e13 all are.")
    none = {GOOD.format(at): Estimate(0.3, 0.2, 0.4) for at in RESULT.tables}
    *_, good, _ = study.verdicts(edited(RESULT, none))
    assert good.why.endswith("values are above 0.3.")


def test_highest_and_widest() -> None:
    result = summary(accuracies())
    assert result.highest == pytest.approx(0.595)
    assert result.widest == pytest.approx(0.002)
