from dataclasses import replace
from typing import Any

import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.evaluation.learning import Longer, Plateau
from arithmetext.paper.runs import Record, TrainedModel
from arithmetext.paper.studies import _training_runs
from arithmetext.paper.studies import mlm_losses as study
from arithmetext.paper.studies._training_runs import TrainingRun, compare
from arithmetext.paper.studies.mlm_losses import Result, best_rate, longer

from .cases import Case, check, draw
from .test_ntp_losses import CLEARLY, EARLIER, HARDLY, LOWEST, ORDER, run

EVIDENT = "more-evident"


def left(end: float) -> dict[str, Any]:
    """All runs with learned positions leave a plateau."""
    plateau = Plateau(begin=10.0, slowest=50.0, end=end, loss=3.5)
    return {f"learned.runs.{size}.0.curve.plateau": plateau for size in (64, 256)}


def stayed(loss: float) -> dict[str, Any]:
    """No run has a plateau that ended; they end at this loss."""
    return {
        f"learned.runs.{size}.0.curve.{field}": value
        for size in (64, 256)
        for field, value in (("plateau", None), ("losses.-1", loss))
    }


def evident(logarithmic: Estimate, linear: Estimate, *sizes: int) -> dict[str, Any]:
    return {f"longer.{size}": Longer(logarithmic, linear) for size in sizes or (64, 256)}


CASES: list[Case] = [
    (left(100.0), {"plateau": True}),
    (stayed(5.0), {"plateau": None}),
    (stayed(1.0), {"plateau": False}),
    ({"learned.later.256": CLEARLY}, {ORDER: True}),
    ({"learned.later.256": HARDLY}, {ORDER: None}),
    ({"learned.later.256": EARLIER}, {ORDER: False}),
    ({"learned.later.256": UNKNOWN}, {ORDER: None}),
    (evident(CLEARLY, CLEARLY), {EVIDENT: True}),
    (evident(HARDLY, HARDLY), {EVIDENT: None}),
    (evident(CLEARLY, HARDLY), {EVIDENT: None}),
    (evident(EARLIER, CLEARLY), {EVIDENT: None}),
    (evident(CLEARLY, CLEARLY) | evident(UNKNOWN, UNKNOWN, 64), {EVIDENT: None}),
    (evident(CLEARLY, CLEARLY) | evident(EARLIER, CLEARLY, 64), {EVIDENT: None}),
    (evident(CLEARLY, CLEARLY) | evident(EARLIER, EARLIER, 64), {EVIDENT: False}),
    (
        {"stand_in": "A small model."} | left(100.0) | evident(CLEARLY, CLEARLY),
        {"plateau": None, ORDER: None, EVIDENT: None},
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("mlm_losses", case)


def result(learned: dict[int, list[TrainingRun]], rotary: dict[int, list[TrainingRun]]) -> Result:
    """Next-token prediction has plateaus that begin near step 20 and end near step 100."""
    falls = (20, 98), (20, 100), (21, 101)
    causal = compare({size: [run(*steps) for steps in falls] for size in learned})
    masked = compare(learned, causal)
    both = bool(learned and rotary)
    return Result(
        rotary=compare(rotary),
        learned=masked,
        causal=causal,
        longer=longer(masked, causal),
        searched={1e-3: 3.0, 2e-3: 2.9} if both else {},
        small=causal,
        long=run(5, steps=20_000) if both else None,
        one_token=run(5) if both else None,
        lowest={64: LOWEST, 256: LOWEST},
        stand_in="",
    )


def outcomes(result: Result) -> list[bool | None]:
    return [verdict.agrees for verdict in study.verdicts(result)]


STUCK = {64: [run(5)], 256: [run(5)]}
SEEDS = {64: [run(5, step) for step in (195, 200, 205)], 256: [run(5, 300)] * 3}
ONE_SEED = {64: [run(5, 200)], 256: [run(5, 300)]}


def test_only_learned_positions_decide() -> None:
    """Their plateaus end at step 200 and 300 and begin at 5."""
    assert outcomes(result(SEEDS, STUCK)) == [True, True, True]
    assert outcomes(result(STUCK, SEEDS)) == [None, None, None]
    assert outcomes(result({}, SEEDS)) == [None, None, None]
    for learned, rotary in ((SEEDS, STUCK), (STUCK, SEEDS), ({}, SEEDS), (SEEDS, {})):
        draw("mlm_losses", result(learned, rotary))


def test_what_one_seed_decides() -> None:
    """Several seeds of next-token prediction tell how much seeds differ."""
    assert outcomes(result(ONE_SEED, SEEDS)) == [True, True, True]
    turned = dict(zip(ONE_SEED, reversed(ONE_SEED.values()), strict=True))
    assert outcomes(result(turned, SEEDS))[1] is False
    close = {64: [run(5, 200)], 256: [run(5, 202)]}
    assert outcomes(result(close, SEEDS))[1] is None
    shorter = {64: [run(24, 90)], 256: [run(24, 90)]}
    assert outcomes(result(shorter, SEEDS))[2] is False


def test_one_seed_of_both_tasks_decides_no_order() -> None:
    series = compare(ONE_SEED, compare(ONE_SEED))
    _, order, _ = study.verdicts(replace(result(ONE_SEED, SEEDS), learned=series))
    assert order.agrees is None and order.why == "One seed for each D gives no interval."


def test_the_long_run_takes_the_best_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    """Next-token prediction in small steps is best at 1e-3 here."""

    def record(model: TrainedModel) -> Record:
        rate = model.config.training.lr
        row = {"step": 4000, "validation_loss": abs(rate - 1e-3)}
        falls = (5,) if model.config.task == "mlm" else (5, 300)
        return replace(run(*falls, rate=rate).record, validation=[row])

    monkeypatch.setattr(TrainedModel, "record", record)
    monkeypatch.setattr(_training_runs, "lowest_loss", lambda config: LOWEST)
    found = study.run(study.settings("gpu"))
    assert found.long is not None and found.long.record.config["training"]["lr"] == 1e-3
    rates = {run.record.config["training"]["lr"] for run in found.small.runs[64]}
    assert rates == {1e-3} and set(found.searched) == set(_training_runs.RATES)
    assert outcomes(found) == [None, None, None]
    assert "by step 4,000, next-token prediction leaves it at step" in study.verdicts(found)[2].ours
    draw("mlm_losses", found)
    for scale in ("laptop", "paper"):
        draw("mlm_losses", study.run(study.settings(scale)))


def test_what_the_long_run_decides() -> None:
    """It has one D, so its plateau is not one for both D; but it must not learn without one."""
    assert outcomes(replace(result(STUCK, SEEDS), long=run(5, 300))) == [None, None, None]
    assert outcomes(replace(result(SEEDS, SEEDS), long=run(50, 60)))[0] is False


def test_lengths_that_do_not_agree_decide_nothing() -> None:
    """Both plateaus end ten times later, so one has more steps but is not longer on a log axis."""
    later = {64: [run(400, 1300)], 256: [run(400, 1300)]}
    *_, evident = study.verdicts(result(later, SEEDS))
    assert evident.agrees is None and evident.why == "One length is larger and another smaller."


def test_what_rotary_positions_show_stands_beside() -> None:
    for learned in (STUCK, {}):
        plateau, order, evident = study.verdicts(result(learned, SEEDS))
        assert "rotary positions" in plateau.ours and "rotary positions" in order.ours
    for verdict in (plateau, order, evident):
        assert verdict.ours.startswith("no runs with learned positions, which decide here")


def test_the_caption_counts_the_targets_of_one_masked_token() -> None:
    """16 windows of 256 tokens a step: 16 targets; the long run has 38 in each window."""
    found = result(ONE_SEED, SEEDS)
    one = run(5, predicted=0.001)
    assert (one.targets, found.learned.runs[256][0].targets) == (16, 16 * 38)
    assert "64,000 in 4,000 steps: as many as 105 steps" in study.caption(
        replace(found, one_token=one)
    )


def test_the_rate_with_the_lowest_loss() -> None:
    assert best_rate({1e-3: 2.6, 2e-3: 2.5, 4e-3: 4.2}) == 2e-3
    assert best_rate({}) is None
