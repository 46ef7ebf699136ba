"""Interventions on made-up responses: what the texts and figures make of them."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.evaluation.interventions import (
    CONDITIONS,
    DOSES,
    HELD,
    PROJECTED,
    RANDOM,
    summarise,
)
from arithmetext.paper.runs import TrainingFacts
from arithmetext.paper.studies import residue_interventions as study
from arithmetext.paper.studies.residue_interventions import Result

from .cases import Case, committed, edited

CASES: list[Case] = []  # the paper does not look inside the model

SHARES = {
    "residue": 0.3,
    "with parity": 0.5,
    "with 4": 0.6,
    "with an odd prime": 0.35,
    "next word": 0.8,
    "everything": 0.95,
    **{held: 0.04 for held in HELD.values()},
}


def made_up() -> Result:
    """Each condition has the same share for every prime, and random directions a tenth of it."""
    how = study.settings("gpu").interventions
    random = np.random.default_rng(0)
    primes, layers, tested = len(how.primes), len(how.layers), how.tested

    def noisy(values: Any, *shape: int) -> Any:
        return values + random.normal(0, 0.05, shape)

    there = noisy(2.0, primes, tested)
    arrays: dict[str, Any] = {"there": there, "positions": np.full((primes, tested), 32.0)}
    for name in CONDITIONS:
        share = SHARES.get(name) or SHARES[name.removeprefix("random ")] / 10
        shape = how.seeds if name in PROJECTED else 1, layers, primes, tested
        arrays[name] = noisy(share * there, *shape)
    doses = np.array(DOSES)[:, None, None] * 0.6
    arrays["doses"] = noisy(doses * there, how.seeds, len(DOSES), primes, tested)
    arrays["others there"] = noisy(2.0, primes, primes, tested)
    arrays["others"] = noisy(np.eye(primes)[..., None], how.seeds, primes, primes, tested)
    for name in "others", "others there":
        arrays[name][..., 0, 1:, :] = 0  # 2 is always changed
    arrays["right"] = np.full((how.seeds, layers, primes, tested), 16.0)
    arrays["right here"], arrays["right there"] = np.full((2, primes, tested), [[[4.0]], [[24.0]]])
    facts = TrainingFacts(2**28, 600.0, "H200", "a whole word", stand_in="")
    return Result(summarise(arrays, how), how, facts, 3)


def test_summary() -> None:
    for each in made_up().primes:
        assert each.response.value == pytest.approx(2 / 32, rel=0.02)
        for name, share in SHARES.items():
            values = [estimate.value for estimate in each.conditions[name]]
            assert values == pytest.approx([share] * 5, abs=0.02)
        assert [dose.value for dose in each.doses] == pytest.approx(
            [0.6 * dose for dose in DOSES], abs=0.02
        )
        rates = each.right_here.value, each.right[0].value, each.right_there.value
        assert rates == pytest.approx((1 / 8, 1 / 2, 3 / 4))
    others = [[other.value for other in each.others] for each in made_up().primes]
    assert others[0][1:] == [None] * 5
    for row in range(1, 6):
        expected = [0.5 if column == row else 0 for column in range(6)]
        assert others[row] == pytest.approx(expected, abs=0.02)


def test_a_used_residue_moves_predictions_twice_as_far_as_chance() -> None:
    result = committed("residue_interventions")
    layer = result.interventions.layers.index(result.interventions.detailed)
    primes = list(result.interventions.primes)
    base = edited(
        result,
        {
            f"primes.{k}.conditions.{name}.{layer}": share
            for k in range(len(primes))
            for name, share in {
                "with 4": Estimate(0.5, 0.4, 0.6),
                RANDOM["with 4"]: Estimate(0.1, 0.05, 0.15),
            }.items()
        },
    )
    assert study.used(base, "with 4") == primes
    assert "not clearly" not in study.in_short(base)
    weak = {
        f"primes.0.conditions.with 4.{layer}": Estimate(0.5, 0.3, 0.7),  # 2 × 0.15 is not below
        f"primes.2.conditions.{RANDOM['with 4']}.{layer}": Estimate(0.1, -0.1, 0.21),
        f"primes.3.conditions.with 4.{layer}": Estimate(-0.5, -0.6, -0.4),
        f"primes.3.conditions.{RANDOM['with 4']}.{layer}": Estimate(-0.5, -0.6, -0.4),
    }
    found = edited(base, weak)
    assert study.used(found, "with 4") == [3, 11, 13]
    assert "For p = 2, 5 and 7, the second of these effects is not clearly" in study.in_short(found)


def test_in_short_names_the_moduli() -> None:
    text = study.in_short(made_up())
    assert "n mod 16, 9, 5, 7, 11 and 13 reads" in text
    assert "n mod 16, 36, 20, 28, 44 and 52 reads" in text
    assert text.count("30 %") == text.count("60 %") == text.count("80 %") == 6
    assert "is held, the second of these effects is at most 4 %" in text
    assert study.largest_crosstalk(made_up()) < 0.02


def test_the_largest_effect_on_another_prime_is_named() -> None:
    result = made_up()
    spill = {"primes.4.others.1": Estimate(-0.3, -0.4, -0.2), "primes.2.others.2": UNKNOWN}
    found = edited(result, spill)
    assert study.largest_crosstalk(found) == 0.3
    assert "moves the response to another prime by at most 30 %" in study.in_short(found)


def test_held_effects_are_named() -> None:
    result = made_up()
    layer = result.interventions.layers.index(result.interventions.detailed)
    held = {f"primes.3.conditions.{HELD['with 4']}.{layer}": Estimate(0.5, 0.4, 0.6)}
    assert "effects is at most 50 %" in study.in_short(edited(result, held))


@pytest.mark.parametrize("scale", ["laptop", "gpu", "paper"])
def test_settings(scale: str) -> None:
    found = study.settings(scale)
    how, (model, *others) = found.interventions, found.models
    assert how.checked() == how
    assert model.config.tokens.kind == "words"
    assert max(how.layers) < model.config.model.layers
    assert [each.config for each in others] == [
        replace(model.config, seed=seed) for seed in range(1, 1 if scale == "laptop" else 3)
    ]
    assert how.tested % how.blocks == 0
