from dataclasses import replace
from math import inf

import pytest

from arithmetext.evaluation.estimates import Estimate
from arithmetext.evaluation.masking import MaskedAccuracy
from arithmetext.paper.runs import Record, TrainedModel, TrainingFacts
from arithmetext.paper.studies import mlm_accuracy as study
from arithmetext.paper.studies.mlm_accuracy import Result, summarise

from .cases import Case, check, draw
from .test_ntp_losses import LOWEST, run

BEST, GOOD = "best_region.lowest.accuracy", "good_region.lowest.accuracy"
# All verdicts agree with these numbers, whichever model the committed result is of.
AGREES = {
    "training.stand_in": "",
    BEST: Estimate(0.41, 0.401, 0.42),
    GOOD: Estimate(0.31, 0.301, 0.33),
    "steps.total": 100,
    "steps.down": 90,
    "steps.clearly_up": 0,
}
OUTCOMES = {"best-region": True, "good-region": True, "degrades": True}

CASES: list[Case] = [
    (AGREES, OUTCOMES),
    (AGREES | {BEST: Estimate(0.41, 0.4, 0.42)}, OUTCOMES | {"best-region": None}),
    (AGREES | {BEST: Estimate(0.39, 0.38, 0.4)}, OUTCOMES | {"best-region": False}),
    (AGREES | {GOOD: Estimate(0.29, 0.28, 0.301)}, OUTCOMES | {"good-region": None}),
    (AGREES | {GOOD: Estimate(0.29, 0.28, 0.3)}, OUTCOMES | {"good-region": False}),
    (AGREES | {"steps.down": 89}, OUTCOMES | {"degrades": False}),
    (AGREES | {"steps.clearly_up": 1}, OUTCOMES | {"degrades": False}),
    (AGREES | {"training.stand_in": "A small model."}, dict.fromkeys(OUTCOMES)),
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


def summary(far: dict[tuple[float, float], float], weights: tuple[int, int] = (1, 1)) -> Result:
    """The usual accuracies near 1e9, others near 1e13."""
    tables = {
        at: [
            MaskedAccuracy(*place, Estimate(x, x - 0.002, x + 0.002)) for place, x in values.items()
        ]
        for at, values in ((10**9, accuracies()), (10**13, far))
    }
    return summarise(64, 8, 256, TRAINING, tables, dict(zip(tables, weights, strict=True)))


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


def test_the_test_set_decides_and_the_mean_is_told() -> None:
    """Hardly any word of the test set is far away, so low accuracies there change the mean only."""
    best, good, _ = study.verdicts(summary(accuracies(top=0.05), weights=(2500, 1)))
    assert (best.agrees, good.agrees) == (True, True)
    assert best.why == good.why == "The mean of all places would differ."
    best, good, _ = study.verdicts(summary(accuracies(), weights=(2500, 1)))
    assert best.why == good.why == ""


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


def test_the_papers_model_is_measured_if_it_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rate is the best for next-token prediction: 1e-3 here."""

    def records(*falls: float) -> None:
        def record(model: TrainedModel) -> Record:
            training = model.config.training
            loss = abs(training.lr - 1e-3) + (1 if model.config.task == "ntp" else 0)
            return replace(run(*falls).record, validation=[{"validation_loss": loss}])

        monkeypatch.setattr(TrainedModel, "record", record)

    monkeypatch.setattr(study, "lowest_loss", lambda config: LOWEST)
    settings = study.settings("gpu")
    records(5, 300)
    model, stand_in = study.choose(settings)
    assert (model.config.training.lr, model.config.model.positions) == (1e-3, "learned")
    assert stand_in == ""
    records(5)
    model, stand_in = study.choose(settings)
    assert model == settings.model and model.config.model.positions == "rotary"
    assert stand_in.endswith("still on its plateau after 4,000 steps of 4,096 tokens.")


def test_without_long_runs_the_usual_model_is_measured() -> None:
    for scale, papers in (("laptop", False), ("paper", True)):
        settings = study.settings(scale)
        model, stand_in = study.choose(settings)
        assert model == settings.model and (stand_in == "") is papers
