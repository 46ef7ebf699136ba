from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest

from arithmetext.errors import InputError
from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.paper.studies import scaling as study
from arithmetext.paper.studies._scaling import Result, SeedRun, best_rate, summarise
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
        point: [
            made_up_run(point, ACCURACIES.get(values.get(point, ""), 0.42), random)
            for _ in point.models
        ]
        for point in settings.sweep.points
    }
    return summarise(settings, runs, searches)


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
AXES = ("L", "n", "D")
AGREED = dict.fromkeys(
    [
        *(f"insensitive-to-{axis}" for axis in AXES),
        *("rises-to-rho-1", "saturates-at-rho-1", "fluctuates-with-L"),
    ],
    True,
)
LONG = {"axes.ρ.1.runs.0.tokens": 10**15}  # as long as the paper's training
DOWN = Estimate(-0.02, -0.03, -0.01)


def pair(axis: str, change: Estimate, **accuracies: Estimate) -> dict[str, Any]:
    """The last two values of an axis; the accuracies of the first and the second."""
    edits: dict[str, Any] = {f"pairs.{axis}.-1.change": change}
    values = list(study.settings("gpu").sweep.axes[axis])[-2:]
    for value, name in zip(values, ("first", "second"), strict=True):
        if name in accuracies:
            edits[f"axes.{axis}.{value}.accuracy"] = accuracies[name]
    return edits


# All verdicts agree but those that a case names.
TURNED: list[Case] = [
    ({}, {}),
    *((pair(axis, CLOSE), {}) for axis in AXES),
    *((pair(axis, APART), {f"insensitive-to-{axis}": False}) for axis in AXES),
    *((pair(axis, UNSURE), {f"insensitive-to-{axis}": None}) for axis in AXES),
    # Longer training may lift a model that is worse than the paper's; that of D = 256 is not.
    (pair("L", APART, second=LOW), {"insensitive-to-L": None}),
    (pair("D", APART, second=LOW), {"insensitive-to-D": None}),
    (pair("D", Estimate(0.08, 0.06, 0.1), second=LOW), {"insensitive-to-D": False}),
    (pair("L", APART, second=LOW) | LONG, {"insensitive-to-L": False}),
    # One clear difference between models that are as good as the paper's is enough.
    (
        pair("L", APART, second=LOW) | {"pairs.L.0.change": APART},
        {"insensitive-to-L": False},
    ),
    # ρ decides nothing about L, n and D.
    ({"rises.0": Estimate(0.01, -0.01, 0.03)}, {"rises-to-rho-1": None}),
    ({"rises.1": DOWN}, {"rises-to-rho-1": None, "saturates-at-rho-1": None}),
    ({"rises.0": DOWN} | LONG, {"rises-to-rho-1": False}),
    ({"whole_rise": Estimate(0.06, 0.04, 0.08)}, {"rises-to-rho-1": None}),  # hardly to be seen
    # A smaller model that reads more words is as good.
    ({"axes.ρ.1/2, 4 × words.change": Estimate(-0.01, -0.02, 0.01)}, {"rises-to-rho-1": None}),
    ({"axes.ρ.2.change": Estimate(-0.02, -0.049, 0.01)}, {}),
    ({"axes.ρ.2.change": Estimate(-0.04, -0.07, -0.01)}, {"saturates-at-rho-1": None}),
    ({"axes.ρ.2.change": Estimate(0.04, 0.03, 0.06)}, {"saturates-at-rho-1": None}),
    ({"axes.ρ.2.change": Estimate(0.07, 0.06, 0.08)}, {"saturates-at-rho-1": False}),
    # The step to ρ = 2 is not smaller than the step to ρ = 1.
    (
        {"axes.ρ.2.change": Estimate(0.04, 0.031, 0.049), "rises.1": Estimate(0.03, 0.02, 0.04)},
        {"saturates-at-rho-1": None},
    ),
    # The larger model has been trained for too short a time.
    ({"axes.ρ.2.change": APART}, {"saturates-at-rho-1": None}),
    ({"axes.ρ.2.change": APART} | LONG, {}),
    ({"fluctuation": Estimate(0.01, -0.01, 0.03)}, {"fluctuates-with-L": None}),
    ({"fluctuation": Estimate(-0.01, -0.02, -0.001)}, {"fluctuates-with-L": None}),
    # Models that are worse than the paper's decide nothing.
    ({"axes.ρ.1.accuracy": Estimate(0.36, 0.34, 0.38)}, dict.fromkeys(AGREED, None)),
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
    assert "beyond ±0.05 for L = 1024 and 2048." in why(pair("L", UNSURE), "insensitive-to-L")
    little = {"axes.ρ.1.accuracy": Estimate(0.36, 0.34, 0.38)}
    assert "not clearly above 0.35" in why(little, "rises-to-rho-1")
    low = pair("L", APART, second=LOW)
    assert why(low, "insensitive-to-L").startswith("The model of L = 2048 is worse here")
    fewer = {"fluctuation": Estimate(-0.01, -0.02, -0.001)}
    assert why(fewer, "fluctuates-with-L").startswith("The deviation is smaller here.")


def test_every_two_values_are_compared() -> None:
    """A trend counts, also where no model is far from the reference."""
    result = committed("scaling")
    assert {axis: len(pairs) for axis, pairs in result.pairs.items()} == {"L": 6, "n": 6, "D": 3}
    for axis, pairs in result.pairs.items():
        for each in pairs:
            first, second = (result.axes[axis][v].accuracy for v in (each.first, each.second))
            assert each.change.value == pytest.approx(second.value - first.value)


def test_seeds_that_are_far_apart_are_named() -> None:
    """D = 1024 has one good seed and one bad one."""
    edits = {"axes.D.1024.by_seed": [0.3, 0.4]}
    assert "the seeds of D = 1024 are farthest apart, by 0.1000." in study.caption(
        edited(committed("scaling"), edits)
    )


def test_a_search_in_which_all_runs_diverge() -> None:
    assert best_rate({"0.001": 2.5, "0.002": inf}) == 0.001
    with pytest.raises(InputError, match=r"at every learning rate tried: 0\.001, 0\.002"):
        best_rate({"0.001": inf, "0.002": inf})


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
        (Estimate(-0.1, -0.12, -0.08), "exponent -0.100 [-0.120, -0.080]"),
        (Estimate(-0.1, -0.3, 0.1), "No power law"),
    ):
        assert claimed in study.caption(replace(result, exponent=exponent))
    assert "power" not in study.caption(replace(result, exponent=UNKNOWN)).partition("rate")[2]


def test_a_model_better_than_every_oracle_is_drawn() -> None:
    draw("scaling", edited(committed("scaling"), {"axes.L.256.places.0.horizon": None}))
