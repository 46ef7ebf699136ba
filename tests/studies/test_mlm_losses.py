from typing import Any

import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.paper.studies import mlm_losses as study
from arithmetext.paper.studies._training_runs import TrainingRun, compare
from arithmetext.paper.studies.mlm_losses import Result, longer

from .cases import Case, check, draw
from .test_ntp_losses import CLEARLY, EARLIER, HARDLY, LOWEST, ORDER, run

EVIDENT = "more-evident"


def left(end: float) -> dict[str, Any]:
    """Both long runs leave a plateau."""
    plateau = {"begin": 10.0, "slowest": 50.0, "end": end, "loss": 3.5, "steepest": 400.0}
    found = plateau | {"earlier_pauses": []}
    return {f"learned.runs.{size}.0.curve.plateau": found for size in (64, 256)}


def stayed(loss: float) -> dict[str, Any]:
    """Neither run has a plateau that ended; they end at this loss."""
    return {
        f"learned.runs.{size}.0.curve.{field}": value
        for size in (64, 256)
        for field, value in (("plateau", None), ("losses.-1", loss))
    }


def evident(estimate: Estimate) -> dict[str, Any]:
    return {f"learned_longer.{size}": estimate for size in (64, 256)}


CASES: list[Case] = [
    (left(100.0), {"plateau": True}),
    (stayed(5.0), {"plateau": None}),
    (stayed(1.0), {"plateau": False}),
    ({"learned.later.256": CLEARLY}, {ORDER: True}),
    ({"learned.later.256": HARDLY}, {ORDER: None}),
    ({"learned.later.256": EARLIER}, {ORDER: False}),
    ({"learned.later.256": UNKNOWN}, {ORDER: None}),
    (evident(CLEARLY), {EVIDENT: True}),
    (evident(HARDLY), {EVIDENT: None}),
    (evident(CLEARLY) | {"learned_longer.64": UNKNOWN}, {EVIDENT: None}),
    (evident(CLEARLY) | {"learned_longer.64": EARLIER}, {EVIDENT: False}),
    (
        {"stand_in": "A small model."} | left(100.0) | evident(CLEARLY),
        {"plateau": None, ORDER: None, EVIDENT: None},
    ),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("mlm_losses", case)


def result(learned: dict[int, list[TrainingRun]], rotary: dict[int, list[TrainingRun]]) -> Result:
    causal = compare({size: [run(20, 100)] * 3 for size in (64, 256)})
    masked = compare(learned)
    return Result(
        {300: compare(rotary)} if rotary else {},
        masked,
        {1e-3: run(5)} if learned and rotary else {},
        {"learned": run(5), "rotary": run(5, 50)} if learned and rotary else {},
        {300: longer(compare(rotary), causal)} if rotary else {},
        longer(masked, causal),
        {64: LOWEST, 256: LOWEST},
        "",
    )


def outcomes(result: Result) -> list[bool | None]:
    return [verdict.agrees for verdict in study.verdicts(result)]


def test_only_learned_positions_decide() -> None:
    """Plateaus end at step 200 and 300 and begin at 5; those of next tokens begin at 20."""
    seeds = {64: [run(5, step) for step in (195, 200, 205)], 256: [run(5, 300)] * 3}
    stuck = {64: [run(5)], 256: [run(5)]}
    assert outcomes(result(seeds, stuck)) == [True, True, True]
    assert outcomes(result(stuck, seeds)) == [None, None, None]
    assert outcomes(result({}, seeds)) == [None, None, None]
    for learned, rotary in ((seeds, stuck), (stuck, seeds), ({}, seeds), (seeds, {})):
        draw("mlm_losses", result(learned, rotary))


def test_what_rotary_positions_show_stands_beside() -> None:
    seeds = {64: [run(5, 200)] * 2, 256: [run(5, 300)] * 2}
    for verdict in study.verdicts(result({64: [run(5)], 256: [run(5)]}, seeds)):
        assert "rotary positions, warm-up 300" in verdict.ours
