from dataclasses import replace
from typing import Any

import pytest

from arithmetext.evaluation.estimates import Estimate
from arithmetext.paper.runs import Record, TrainedModel
from arithmetext.paper.studies import _training_runs
from arithmetext.paper.studies import ntp_losses as study
from arithmetext.paper.studies._training_runs import TrainingRun, compare, summarise
from arithmetext.paper.studies.ntp_losses import Result, compare_control
from arithmetext.paper.study import Verdict
from test_learning import curve

from .cases import Case, check, draw

SIZES = (64, 256, 1024)
LOWEST = 3.8  # the loss after one fall, in the runs below


def later(estimate: Estimate) -> dict[str, Any]:
    """The same ratio for every warm-up and D."""
    return {f"series.{w}.later.{size}": estimate for w in (300, 30) for size in (256, 1024)}


def controls(
    level: Estimate, begin: Estimate, *, lowest: float | None = 0.98, size: int | None = None
) -> dict[str, Any]:
    fields = {"level": level, "begin": begin, "reached": lowest, "possible": lowest}
    return {
        f"controls.{each}.{field}": value
        for each in ([size] if size else SIZES)
        for field, value in fields.items()
    }


SAME = Estimate(1.01, 0.98, 1.02)
LATER = Estimate(1.3, 1.2, 1.4)
CLEARLY, HARDLY, EARLIER = Estimate(1.2, 1.1, 1.3), Estimate(1.1, 1.0, 1.2), Estimate(0.9, 0.8, 1.0)
ORDER, PHASES = "ends-later-for-larger-d", "two-phases"

# With a warm-up of 30 steps, the runs of D = 1024 end on their plateau, as does this one of D = 64.
STAYED = {
    "series.300.runs.64.0.curve.plateau": None,
    "series.300.runs.64.0.curve.losses.-1": 3.1,  # not 5 % below 3.18: nothing was learned
}

CASES: list[Case] = [
    ({"series.300.runs.64.0.curve.plateau": None}, {"plateau": False}),
    (STAYED, {"plateau": None}),
    (later(CLEARLY), {}),
    (later(HARDLY), {ORDER: None}),
    (later(CLEARLY) | {"series.30.later.1024": HARDLY}, {ORDER: None}),
    (later(CLEARLY) | {"series.30.later.1024": EARLIER}, {ORDER: False}),
    (controls(SAME, LATER), {PHASES: True}),
    (controls(SAME, SAME) | controls(SAME, Estimate(1.4, 1.3, 1.6), size=256), {PHASES: None}),
    (controls(SAME, SAME) | controls(SAME, Estimate(1.7, 1.6, 1.8), size=256), {PHASES: False}),
    (controls(SAME, SAME) | controls(Estimate(1.02, 1.0, 1.04), SAME, size=256), {PHASES: None}),
    (controls(SAME, SAME) | controls(LATER, SAME, size=256), {PHASES: False}),
    (controls(SAME, SAME) | controls(SAME, SAME, lowest=0.96, size=256), {PHASES: False}),
    (controls(SAME, SAME) | controls(SAME, SAME, lowest=None, size=256), {PHASES: None}),
    ({"parameters.1024": 89_000_000}, {"parameters": False}),
    ({"parameters.1024": 85_000_000}, {"parameters": False}),
    ({"parameters.1024": 88_000_000}, {}),
    ({"series.300.runs.256.0.record.config.model.layers": 2}, {"parameters": None}),
    ({"stand_in": "A small model."}, {"plateau": None, ORDER: None, PHASES: None}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("ntp_losses", case)


def run(
    *falls: float,
    seed: int = 0,
    steps: int = 4000,
    depth: float = 1.2,
    predicted: float = 0.15,
    rate: float = 1e-3,
) -> TrainingRun:
    """A run whose loss falls from 5 by `depth` around some steps."""
    config = {
        "seed": seed,
        "tokens": {"size": 256},
        "model": {"layers": 2, "heads": 2, "context": 256, "positions": "learned"},
        "training": {"batch": 4096, "warmup": 20, "lr": rate, "predicted": predicted},
    }
    training = curve(*((step, depth) for step in falls), steps=steps)
    return summarise(
        Record(config, {"device": "cpu"}, 1.0, 4096 * steps, 1.0, training, []), LOWEST
    )


def result(**runs: list[TrainingRun]) -> Result:
    """A result of one warm-up, without controls; the runs by D."""
    series = compare({int(name[1:]): same for name, same in runs.items()})
    lowest = dict.fromkeys(series.runs, LOWEST)
    return Result({20: series}, {}, dict.fromkeys(series.runs, 10**6), lowest, "")


def outcomes(result: Result) -> list[bool | None]:
    plateau, order, *_ = study.verdicts(result)
    return [plateau.agrees, order.agrees]


def test_seeds_decide_the_order() -> None:
    small, large = ([run(5, step, seed=k) for k, step in enumerate(s)] for s in SEEDS)
    assert outcomes(result(D64=small, D256=large)) == [True, True]
    assert outcomes(result(D64=large, D256=small)) == [True, False]
    assert outcomes(result(D64=small, D256=small)) == [True, None]
    assert outcomes(result(D64=small[:1], D256=large[:1])) == [True, None]


SEEDS = (100, 105, 98), (150, 160, 155)


def test_a_run_on_its_plateau_does_not_have_one() -> None:
    """Neither does one that paused before: with falls of half the size it ends on the plateau."""
    learned, stuck = run(5, 100), run(5)
    paused = run(5, 100, depth=0.6)
    assert outcomes(result(D64=[stuck], D256=[learned])) == [None, None]
    assert outcomes(result(D64=[learned], D256=[paused])) == [None, None]
    assert outcomes(result(D64=[learned], D256=[stuck])) == [None, None]
    assert outcomes(result(D64=[learned], D256=[run(50)])) == [None, None]
    assert outcomes(result(D64=[learned], D256=[run(50, 60)])) == [False, None]  # no pause between
    for found in (result(D64=[stuck], D256=[stuck]), result(D64=[learned] * 2, D256=[stuck] * 2)):
        draw("ntp_losses", found)


def test_a_run_on_its_plateau_bounds_where_it_ends() -> None:
    """The plateaus of D = 64 end near step 100; those of D = 256 have not ended by step 4,000."""
    small = [run(5, step, seed=k) for k, step in enumerate((100, 105, 98))]
    found = result(D64=small, D256=[run(5)] * 3)
    assert outcomes(found) == [None, True]
    assert "no run left a plateau by step 4,000, at least" in study.verdicts(found)[1].ours
    one_left = result(D64=small, D256=[run(5, 150), run(5)])
    assert outcomes(one_left) == [None, True]
    short = result(D64=small, D256=[run(5, steps=60)] * 3)  # too short to tell
    assert outcomes(short) == [None, None]
    assert outcomes(result(D64=[run(5)] * 3, D256=small)) == [None, None]


def test_one_complete_warm_up_is_enough() -> None:
    """The runs of another warm-up may end on their plateau, but must not learn without one."""
    whole, partly = result(D64=FULL, D256=FULL), result(D64=FULL, D256=[run(5)] * 2)
    both = replace(whole, series={20: whole.series[20], 2: partly.series[20]})
    assert outcomes(both) == [True, None]
    assert (
        "D = 256, runs without a plateau that ended by step 4,000: 2 of 2, at"
        in study.verdicts(both)[0].why
    )
    draw("ntp_losses", both)
    without = result(D64=FULL, D256=[run(50, 60)])
    assert outcomes(replace(both, series=both.series | {3: without.series[20]}))[0] is False


FULL = [run(5, 300), run(5.1, 310, seed=1)]


def test_the_control_is_the_run_without_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    def record(model: TrainedModel) -> Record:
        return run(*((5,) if model.config.model.attention == "off" else (5, 300))).record

    monkeypatch.setattr(TrainedModel, "record", record)
    monkeypatch.setattr(_training_runs, "lowest_loss", lambda config: LOWEST)
    found = study.run(study.settings("gpu"))
    assert list(found.series) == [300, 30] and set(found.controls) == set(SIZES)
    for control in found.controls.values():
        assert control.run.curve.plateau is None and control.run.curve.ends_on_plateau
    assert {len(runs) for each in found.series.values() for runs in each.runs.values()} == {3}


def phases(control: TrainingRun, runs: list[TrainingRun], lowest: float = LOWEST) -> Verdict:
    found = replace(result(D64=runs), controls={64: compare_control(control, runs, lowest)})
    draw("ntp_losses", found)
    return next(verdict for verdict in study.verdicts(found) if verdict.key == PHASES)


def test_a_control_that_stays_on_the_plateau() -> None:
    stays = phases(run(5), FULL)
    assert stays.agrees is True and "by construction" in stays.why
    assert phases(run(5), FULL, lowest=1.0).why == ""  # a lower loss would be possible
    one_seed = phases(run(5), FULL[:1])  # how far seeds are apart is not known
    assert one_seed.agrees is None and "contains a limit" in one_seed.why
    assert "by construction" in one_seed.why


def test_a_control_that_does_otherwise() -> None:
    assert phases(run(5, 300), FULL).agrees is False  # it leaves the plateau
    assert phases(run(50), FULL).agrees is False  # it is not yet at the level of the plateau
    assert phases(run(5.5), FULL).agrees is True
    assert phases(run(10), FULL).agrees is False  # at this level, but twice as late
    assert phases(run(5, depth=1.4), FULL).agrees is False  # at another level


def test_without_a_plateau_there_are_no_phases() -> None:
    for runs in ([run(5)] * 2, [run(50, 60)] * 2):  # one is still on it, the other never was
        verdict = phases(run(5), runs)
        assert verdict.agrees is None and verdict.why == "A model with attention has no plateau."
