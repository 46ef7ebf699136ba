"""Probes for residues on made-up scores: what the texts and figures make of them."""

from typing import Any

import numpy as np
import pytest

from arithmetext.evaluation.estimates import Estimate
from arithmetext.evaluation.probes import (
    CONTROLS,
    MODEL,
    ORDERED,
    PRIMES,
    Decoded,
    functions,
    position_ranges,
    summarise,
)
from arithmetext.paper.runs import TrainingFacts
from arithmetext.paper.studies import residue_probes as study
from arithmetext.paper.studies.residue_probes import ModelProbes, Result

from .cases import Case, committed, edited

CASES: list[Case] = []  # the paper does not look inside the model

CONTEXT, LAYERS, BEST = 1024, 4, 2
RANGES = position_ranges(CONTEXT)


def made_up() -> Result:
    """n mod m is read best in layer 2, with an accuracy of 1/m + 2/m^2, at most 0.9."""
    how = study.settings("gpu").probes
    random = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    names = [name for modulus in how.moduli for name in functions(modulus).names]
    for at in how.places:

        def hits(layers: int, ranges: int, skill: float) -> Any:
            shape = how.seeds, layers, ranges, len(how.moduli), how.tested
            shares = np.empty(shape)
            for k, m in enumerate(how.moduli):
                shares[:, :, :, k] = 1 / m
                shares[:, min(BEST, layers - 1), :, k] += min(skill * 2 / m**2, 0.9 - 1 / m)
            lengths = np.array([b - a for a, b in RANGES[-ranges:]])
            made = shares * lengths[:, None, None] + random.normal(0, 0.5, shape)
            return made.clip(0).round().astype(np.int32)

        arrays[f"{MODEL} {at}"] = hits(LAYERS, len(RANGES), 1)
        arrays |= {f"{name} {at}": hits(1, 1, 0) for name in CONTROLS}
        arrays[f"variances {at}"] = np.full((len(names), how.blocks), 100.0)
        unexplained = np.array([0.2 if name == ("class", 4) else 0.8 for name in names])
        arrays[f"errors {at}"] = np.broadcast_to(
            100 * unexplained[:, None], (how.seeds, LAYERS, len(names), how.blocks)
        )
    places = {at: summarise(arrays, how, CONTEXT, at) for at in how.places}
    facts = TrainingFacts(2**28, 600.0, "H200", "a whole word", stand_in="")
    tokens = "whole words as tokens", "pieces of words as tokens"
    return Result([ModelProbes(name, facts, RANGES, places) for name in tokens], how)


def decoded(modulus: int, low: float, control: float, classes: list[float]) -> Decoded:
    accuracy, other = Estimate(low, low, low), Estimate(control, control, control)
    return Decoded(
        modulus,
        [[Estimate(0.1, 0.1, 0.1), accuracy]],
        dict.fromkeys(CONTROLS, other),
        {"class": [[0.0] * modulus, classes]},
    )


def test_known_primes_beat_chance_and_every_control() -> None:
    each = [
        decoded(3, 0.5, 0.4, []),
        decoded(5, 0.5, 0.6, []),
        decoded(7, 0.14, 0.1, []),  # chance is 0.1429
        decoded(11, 0.3, 0.2, []),
    ]
    assert study.known_primes(each) == [3, 11]
    best = Estimate(0.35, 0.29, 0.41)  # one control is enough, and its interval counts
    unsure = edited(each[3], {f"controls.{ORDERED}": best})
    assert study.known_primes([unsure]) == []


def test_the_next_multiple_is_the_last_class() -> None:
    each = decoded(5, 0.5, 0.4, [0.1, 0.2, 0.3, 0.2, 0.9])
    assert study.next_multiple(each) == pytest.approx((0.9, 0.2))


def test_the_largest_prime_that_is_used() -> None:
    ahead = {2: 0.9, 3: 0.8, 5: 0.51, 7: 0.5, 11: 0.9}
    each = [decoded(p, 0.5, 0.4, [0.0] * (p - 1) + [share]) for p, share in ahead.items()]
    assert study.largest_used(each) == 5  # 7 ends the row
    assert study.largest_used(each[3:]) == 1


def with_classes(result: Result, ahead: float) -> Result:
    """The last layer tells with this R² whether p divides n + 1."""
    place = next(iter(result.models[0].places))
    edits = {
        f"models.0.places.{place}.{k}.explained.class.-1.-1": ahead
        for k, each in enumerate(result.models[0].places[place])
        if each.modulus in PRIMES
    }
    return edited(result, edits)


def test_in_short() -> None:
    result = committed("residue_probes")
    used = study.in_short(with_classes(result, 0.75))
    assert "a regression explains 75 % of the variance of whether p divides n + 1" in used
    assert "(means over the primes from 3 to 61)" in used
    unused = study.in_short(with_classes(result, 0.4))
    assert unused == used.split(" In the last layer")[0]
    place = next(iter(result.models[0].places))
    controls = {
        f"models.0.places.{place}.{k}.controls.{ORDERED}": Estimate(1, 1, 1)
        for k in range(len(result.probes.moduli))
    }
    nothing = study.in_short(with_classes(edited(result, controls), 0.4))
    assert nothing.startswith("No linear probe reads n mod p")


def test_the_made_up_result_is_found() -> None:
    result = made_up()
    known = study.known_primes(result.models[0].primes)
    assert {2, 3, 5, 7, 11, 13} <= set(known)
    assert study.in_short(result).startswith("For the primes 2, 3, 5, 7, 11")
    assert {each.best_layer for each in result.models[0].primes[:6]} == {BEST}


@pytest.mark.parametrize("scale", ["laptop", "gpu", "paper"])
def test_settings(scale: str) -> None:
    found = study.settings(scale)
    assert found.probes.checked() == found.probes
    assert [model.config.tokens.kind for model in found.models.values()] == (
        ["words"] if scale == "laptop" else ["words", "bpe"]
    )
    for model in found.models.values():
        assert model.config.task == "ntp"
        text = model.config.text.seen  # the places must lie outside of it
        assert not any(lo <= at < hi for at in found.probes.places for lo, hi in text)
