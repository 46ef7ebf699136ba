from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.paper.studies import scaling as study
from arithmetext.paper.studies.scaling import Result, SeedRun
from arithmetext.paper.sweeps import SweepPoint

from .cases import Case, check, committed, draw, edited, outcomes

# The accuracy of made-up models that behave as the paper says; all others have 0.42.
ACCURACIES = {"1/4": 0.3, "1/2": 0.36, "2": 0.41}
ACCURACIES |= {"1/4, 4 × words": 0.33, "1/2, 4 × words": 0.39}


def made_up() -> Result:
    """As on a GPU, but with few prompts and few integers for the oracles."""
    settings = replace(study.settings("gpu"), prompts=16, bounds=(1, 2, 3, 5), integers=1 << 14)
    searches = {rho: {"0.001": 2.5, "0.002": 2.6} for rho in settings.sweep.searches}
    values = {point: v for v, point in settings.sweep.axes["ρ"].items()}
    random = np.random.default_rng(0)
    runs = {
        point: [made_up_run(point, ACCURACIES.get(values.get(point, ""), 0.42), random)] * 2
        for point in settings.sweep.points
    }
    return study.summarise(settings, runs, searches)


def made_up_run(point: SweepPoint, accuracy: float, random: np.random.Generator) -> SeedRun:
    noise = 0.02 if point.models[0].config.model.context == 2048 else 0.01
    return SeedRun(
        seconds=60.0,
        tokens=point.models[0].trained_on,
        learning=[(1e7, 2.5), (1.3e8, 1.4)],
        accuracy=random.normal(accuracy, noise, (5, 16)).tolist(),
        nats=random.normal(1.8 - accuracy, 0.01, (5, 8)).tolist(),
    )


CLOSE, APART = Estimate(0.04, 0.03, 0.049), Estimate(-0.08, -0.1, -0.06)
UNSURE = Estimate(-0.04, -0.06, -0.02)
LOW = Estimate(0.33, 0.32, 0.34)  # worse than the paper's model
HIGH = {"axes.ρ.1.accuracy": Estimate(0.42, 0.41, 0.43)}
POINTS = {"L": "2048", "n": "1e8", "D": "64"}
AGREED = dict.fromkeys(
    [
        *(f"insensitive-to-{axis}" for axis in POINTS),
        *("rises-to-rho-1", "saturates-at-rho-1", "fluctuates-with-L"),
    ],
    True,
)
LONG = {"axes.ρ.1.runs.0.tokens": 10**15}  # as long as the paper's training

# All verdicts agree but those that a case names.
TURNED: list[Case] = [
    ({}, {}),
    *(({f"axes.{axis}.{v}.change": CLOSE}, {}) for axis, v in POINTS.items()),
    *(
        ({f"axes.{axis}.{v}.change": APART}, {f"insensitive-to-{axis}": False})
        for axis, v in POINTS.items()
    ),
    *(
        ({f"axes.{axis}.{v}.change": UNSURE}, {f"insensitive-to-{axis}": None})
        for axis, v in POINTS.items()
    ),
    # Longer training may lift a model that is worse than the paper's.
    *(
        (
            {f"axes.{axis}.{v}.change": APART, f"axes.{axis}.{v}.accuracy": LOW},
            {f"insensitive-to-{axis}": None},
        )
        for axis, v in POINTS.items()
    ),
    (
        {"axes.L.2048.change": APART, "axes.L.2048.accuracy": LOW} | LONG,
        {"insensitive-to-L": False},
    ),
    # ρ decides nothing about L, n and D.
    ({"rises.0": Estimate(0.01, -0.01, 0.03)}, {"rises-to-rho-1": None}),
    ({"rises.1": Estimate(-0.02, -0.03, -0.01)}, {"rises-to-rho-1": None}),
    ({"rises.1": Estimate(-0.02, -0.03, -0.01)} | LONG, {"rises-to-rho-1": False}),
    ({"axes.ρ.2.change": Estimate(-0.04, -0.07, -0.01)}, {}),  # perhaps worse
    ({"axes.ρ.2.change": Estimate(0.04, 0.03, 0.06)}, {"saturates-at-rho-1": None}),
    ({"axes.ρ.2.change": Estimate(0.07, 0.06, 0.08)} | HIGH, {"saturates-at-rho-1": False}),
    # The larger model has been trained for too short a time.
    ({"axes.ρ.2.change": APART}, {"saturates-at-rho-1": None}),
    ({"axes.ρ.2.change": APART} | LONG, {}),
    (
        {"axes.ρ.2.change": Estimate(0.07, 0.06, 0.08), "axes.ρ.1.accuracy": LOW},
        {"saturates-at-rho-1": None},
    ),
    ({"fluctuation": Estimate(0.01, -0.01, 0.03)}, {"fluctuates-with-L": None}),
    ({"fluctuation": Estimate(-0.01, -0.02, -0.001)}, {"fluctuates-with-L": None}),
    # Models that know nothing are alike.
    ({"axes.ρ.1.accuracy": Estimate(0.21, 0.19, 0.23)}, dict.fromkeys(AGREED, None)),
    ({"stand_in": "This model is small."}, dict.fromkeys(AGREED, None)),
]
GOOD: dict[str, Any] = {"fluctuation": Estimate(0.01, 0.001, 0.02)}
CASES: list[Case] = [(GOOD | edits, AGREED | turned) for edits, turned in TURNED]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("scaling", case)


def why(edits: dict[str, Any], key: str) -> str:
    found = study.verdicts(edited(committed("scaling"), edits))
    return next(verdict.why for verdict in found if verdict.key == key)


def test_an_undecided_claim_says_why() -> None:
    unsure = {"axes.L.256.change": UNSURE, "axes.L.2048.change": UNSURE}
    assert "beyond ±0.05 for L = 256 and L = 2048." in why(unsure, "insensitive-to-L")
    little = {"axes.ρ.1.accuracy": Estimate(0.21, 0.19, 0.23)}
    assert "learned little" in why(little, "rises-to-rho-1")
    assert "trained on 7.85e7" in why({"axes.ρ.2.change": APART}, "saturates-at-rho-1")


def test_a_larger_deviation_is_found() -> None:
    result = committed("scaling")
    assert result.fluctuation.value == pytest.approx(0.01, abs=0.003)
    assert outcomes(study, result)["fluctuates-with-L"] is True


def test_changes_are_those_of_the_accuracies() -> None:
    result = committed("scaling")
    for points in result.axes.values():
        for point in points.values():
            difference = (point.accuracy.value or 0) - (result.middle.accuracy.value or 0)
            assert point.change.value == pytest.approx(difference)
    assert [rise.value for rise in result.rises] == pytest.approx([0.06, 0.06], abs=0.01)


def test_a_power_law_is_claimed_only_with_an_interval() -> None:
    result = committed("scaling")
    for exponent, claimed in (
        (Estimate(-0.1, -0.12, -0.08), "to the power of -0.100 [-0.120, -0.080]"),
        (Estimate(-0.1, -0.3, 0.1), "No power law"),
    ):
        assert claimed in study.caption(replace(result, exponent=exponent))
    assert "power" not in study.caption(replace(result, exponent=UNKNOWN)).partition("rate")[2]


def test_a_model_better_than_every_oracle_is_drawn() -> None:
    draw("scaling", edited(committed("scaling"), {"axes.L.256.places.0.horizon": None}))
