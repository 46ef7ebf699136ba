"""Probes for residues on made-up scores: what the texts and figures make of them."""

from typing import Any

import numpy as np
import pytest

from arithmetext.evaluation.estimates import Estimate
from arithmetext.evaluation.probes import (
    CONTROLS,
    MODEL,
    PRIMES,
    SHORTEST,
    TOKENS,
    UNTRAINED,
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
        for name, layers, share in (
            (MODEL, LAYERS, unexplained[:, None]),
            (UNTRAINED, LAYERS, 1),
            *((each, 1, 0.9) for each in TOKENS),
        ):
            arrays[f"errors {name} {at}"] = np.broadcast_to(
                100 * share, (how.seeds, layers, len(names), how.blocks)
            )
    places = {at: summarise([arrays] * 3, how, CONTEXT, at) for at in how.places}
    facts = TrainingFacts(2**28, 600.0, "H200", "a whole word", stand_in="")
    tokens = "whole words as tokens", "pieces of words as tokens"
    return Result([ModelProbes(name, facts, 3, RANGES, places) for name in tokens], how)


def decoded(modulus: int, low: float, margins: dict[str, float], ahead: float = 0.0) -> Decoded:
    """Read with this accuracy, better than the controls by at least these margins."""

    def certain(value: float) -> Estimate:
        return Estimate(value, value, value)

    return Decoded(
        modulus,
        [[certain(0.1), certain(low)]],
        dict.fromkeys(CONTROLS, certain(0)),
        {name: Estimate(0.5, margins.get(name, 0.2), 0.9) for name in CONTROLS},
        {"class": [[0.0] * modulus, [0.0] * (modulus - 1) + [ahead]]},
        {MODEL: Estimate(ahead, ahead - 0.1, ahead + 0.1), TOKENS[0]: Estimate(0.1, 0.05, 0.3)},
    )


def test_read_primes_beat_chance_and_every_control() -> None:
    each = [
        decoded(3, 0.5, {}),
        decoded(5, 0.5, {SHORTEST: -0.01}),
        decoded(7, 0.14, {}),  # chance is 0.1429
        decoded(11, 0.3, {TOKENS[1]: -0.01}),
    ]
    assert study.read_primes(each) == [3]
    assert study.read_primes(each, [UNTRAINED, SHORTEST]) == [3, 11]


def test_the_best_control_must_be_beaten() -> None:
    each = [decoded(p, 0.5, {}, ahead) for p, ahead in ((3, 0.39), (5, 0.41))]
    assert study.best_map(each[0]).value == 0.1
    assert [one.modulus for one in study.ahead_of_text(each)] == [5]


def test_the_largest_prime_that_is_used() -> None:
    ahead = {2: 0.9, 3: 0.8, 5: 0.51, 7: 0.5, 11: 0.9}
    each = [decoded(p, 0.5, {}, share) for p, share in ahead.items()]
    assert study.largest_used(each) == 5  # 7 ends the row
    assert study.largest_used(each[3:]) == 1


def test_other_classes() -> None:
    each = decoded(5, 0.5, {})
    each.explained["class"][-1][:] = [0.1, 0.2, 0.3, 0.2, 0.9]
    assert study.other_classes(each) == pytest.approx(0.2)


def with_control(result: Result, field: str, name: str, value: Estimate) -> Result:
    """The same number for every prime at the first place."""
    place = next(iter(result.models[0].places))
    edits = {
        f"models.0.places.{place}.{k}.{field}.{name}": value
        for k, each in enumerate(result.models[0].places[place])
        if each.modulus in PRIMES
    }
    return edited(result, edits)


def test_in_short() -> None:
    result = committed("residue_probes")
    used = study.in_short(with_control(result, "ahead", MODEL, Estimate(0.75, 0.7, 0.8)))
    assert "regressions explain 75 %, 75 %" in used and "the best map 10 %, 10 %" in used
    assert "up to p = 61 near" in used
    unused = study.in_short(with_control(result, "ahead", MODEL, Estimate(0.05, 0, 0.1)))
    assert "the last layer tells for no prime better than these maps" in unused
    assert "More than half of it is explained up to p = 1 near" in unused
    worse = Estimate(-0.1, -0.2, -0.05)
    text = study.in_short(with_control(result, "margins", TOKENS[1], worse))
    assert "for none of them better than every linear map of up to 256 tokens" in text
    nothing = study.in_short(with_control(result, "margins", SHORTEST, worse))
    assert nothing.startswith("No linear probe reads n mod p")


def test_the_made_up_result_is_found() -> None:
    result = made_up()
    known = study.read_primes(result.models[0].primes)
    assert {2, 3, 5, 7, 11, 13} <= set(known)
    assert study.in_short(result).startswith("For p = 2, 3, 5, 7, 11")
    assert {each.best_layer for each in result.models[0].primes[:6]} == {BEST}


@pytest.mark.parametrize("scale", ["laptop", "gpu", "paper"])
def test_settings(scale: str) -> None:
    found = study.settings(scale)
    assert found.probes.checked() == found.probes
    assert [seeds[0].config.tokens.kind for seeds in found.models.values()] == (
        ["words"] if scale == "laptop" else ["words", "bpe"]
    )
    for model in (model for seeds in found.models.values() for model in seeds):
        assert model.config.task == "ntp"
        text = model.config.text.seen  # the places must lie outside of it
        assert not any(lo <= at < hi for at in found.probes.places for lo, hi in text)
