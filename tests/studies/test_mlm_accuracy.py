from dataclasses import replace
from math import inf

import numpy as np
import pytest

from arithmetext.evaluation.estimates import Estimate, t_quantile
from arithmetext.evaluation.masking import Steps
from arithmetext.paper.runs import Record, TrainedModel, TrainingFacts
from arithmetext.paper.studies import _training_runs
from arithmetext.paper.studies import mlm_accuracy as study
from arithmetext.paper.studies.mlm_accuracy import Masking, Result, summarise

from .cases import Case, check, draw
from .test_ntp_losses import LOWEST, run

BEST, GOOD = "best_region.lowest.accuracy", "good_region.lowest.accuracy"
# All verdicts agree with these numbers, whichever model the committed result is of.
AGREES = {
    "training.stand_in": "",
    BEST: Estimate(0.41, 0.401, 0.42),
    GOOD: Estimate(0.31, 0.301, 0.33),
    "training.tokens": 10**12,
    "steps.total": 100,
    "steps.down": 90,
    "steps.up": 10,
}
OUTCOMES = {"best-region": True, "good-region": True, "degrades": True}

CASES: list[Case] = [
    (AGREES, OUTCOMES),
    (AGREES | {BEST: Estimate(0.41, 0.4, 0.42)}, OUTCOMES | {"best-region": None}),
    (AGREES | {BEST: Estimate(0.39, 0.38, 0.4)}, OUTCOMES | {"best-region": False}),
    (AGREES | {GOOD: Estimate(0.29, 0.28, 0.301)}, OUTCOMES | {"good-region": None}),
    (AGREES | {GOOD: Estimate(0.29, 0.28, 0.3)}, OUTCOMES | {"good-region": False}),
    (
        AGREES | {BEST: Estimate(0.39, 0.38, 0.4), "training.tokens": 10**9},
        OUTCOMES | {"best-region": None},
    ),
    (
        AGREES | {GOOD: Estimate(0.29, 0.28, 0.3), "training.tokens": 10**9},
        OUTCOMES | {"good-region": None},
    ),
    (AGREES | {"steps.up": 11}, OUTCOMES | {"degrades": False}),
    (AGREES | {"steps.down": 45, "steps.up": 5}, OUTCOMES),
    (AGREES | {"steps.down": 45, "steps.up": 4}, OUTCOMES | {"degrades": None}),
    (AGREES | {"training.stand_in": "A small model."}, dict.fromkeys(OUTCOMES)),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("mlm_accuracy", case)


MASKED, BETAS = (0.05, 0.15, 0.4, 0.6), (0.1, 1.0, 2.0, 3.3, 5.0, 10.0, inf)
MASKING = Masking(MASKED, BETAS, windows=64, blocks=8, seed=0)
OFFSETS = np.tile([0.002, -0.002], 32)  # of windows; all windows of a block have the same
TRAINING = TrainingFacts(10**12, 60.0, "cpu", "a word", "")


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
    found = {
        at: np.array([[values[share, beta] + OFFSETS for beta in BETAS] for share in MASKED])
        for at, values in ((10**9, accuracies()), (10**13, far))
    }
    return summarise(MASKING, 256, TRAINING, found, dict(zip(found, weights, strict=True)))


def disagreeing(result: Result) -> list[str]:
    return [verdict.key for verdict in study.verdicts(result) if not verdict.agrees]


@pytest.mark.parametrize(
    ("far", "keys"),
    [
        (accuracies(), []),
        (accuracies() | {(0.15, 5.0): 0.2}, ["best-region"]),
        (accuracies(top=0.2), ["best-region"]),
        (accuracies(by_share=1.4), ["good-region"]),
        (accuracies(by_share=1.0), []),
        (accuracies(top=0.05), ["best-region", "good-region"]),
        (accuracies(by_share=-0.1), ["degrades"]),
        (accuracies(by_temperature=-0.05), ["degrades"]),
    ],
)
def test_accuracies_decide_the_verdicts(far: dict[tuple[float, float], float], keys: list) -> None:
    """The mean of both places decides, so one place may be below the paper's level."""
    result = summary(far)
    assert disagreeing(result) == keys
    draw("mlm_accuracy", result)


def test_equal_accuracies_are_no_steps() -> None:
    """A place has 21 steps of p_m and 24 of β⁻¹."""
    assert summary(accuracies()).steps == Steps(90, 90, 0)
    assert summary(accuracies(by_share=0.0)).steps == Steps(90, 69, 0)
    assert summary(accuracies(by_share=-0.1, by_temperature=0.0)).steps == Steps(90, 45, 21)


def test_lines_are_described_where_they_are_drawn() -> None:
    """At β = 0.1 the accuracies are 0.29 to 0.345; from β = 2 on they are above 0.5."""
    result = summary(accuracies())

    def lines(low: float, high: float) -> str:
        cells = [cell for cell in result.mean if low <= cell.beta <= high]
        return study._describe_lines(replace(result, tables={}, mean=cells))

    assert lines(0, inf) == " White lines: accuracy 0.3 (dashed) and 0.4 (solid)."
    assert lines(0, 0.1) == " White lines: accuracy 0.3 (dashed)."
    assert lines(2, inf) == ""


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
    assert result.widest == pytest.approx(t_quantile(7) * 0.002 / 7**0.5)


def test_the_papers_model_is_measured_if_it_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rate is the best for next-token prediction, 1e-3 here, or twice as large."""

    def learns_at(*rates: float) -> None:
        def record(model: TrainedModel) -> Record:
            training = model.config.training
            falls = (5, 300) if training.lr in rates else (5,)
            loss = abs(training.lr - 1e-3) + (1 if model.config.task == "ntp" else 0)
            return replace(run(*falls).record, validation=[{"validation_loss": loss}])

        monkeypatch.setattr(TrainedModel, "record", record)

    for module in (study, _training_runs):
        monkeypatch.setattr(module, "lowest_loss", lambda config: LOWEST)
    settings = study.settings("gpu")
    for rates, chosen in (((1e-3, 2e-3), 1e-3), ((2e-3,), 2e-3)):
        learns_at(*rates)
        model, stand_in = study.choose(settings)
        assert (model.config.training.lr, model.config.model.positions) == (chosen, "learned")
        assert stand_in == ""
    learns_at(5e-4, 4e-3)  # not tried
    model, stand_in = study.choose(settings)
    assert model == settings.model and model.config.model.positions == "rotary"
    assert stand_in.endswith("4,000 steps of 4,096 tokens (learning rate 0.001 and 0.002).")


def test_without_long_runs_the_usual_model_is_measured() -> None:
    for scale, papers in (("laptop", False), ("paper", True)):
        settings = study.settings(scale)
        model, stand_in = study.choose(settings)
        assert model == settings.model and (stand_in == "") is papers
