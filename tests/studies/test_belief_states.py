"""Beliefs that are made up: what the texts and figures make of them."""

from math import prod

import pytest

from arithmetext.evaluation.beliefs import Controls, Part, SetSummary
from arithmetext.evaluation.estimates import Estimate
from arithmetext.paper.runs import TrainingFacts
from arithmetext.paper.studies import belief_states as study
from arithmetext.paper.studies.belief_states import (
    Result,
    best_layer,
    joint,
    name,
    several,
    singles,
)

from .cases import Case, committed, draw

CASES: list[Case] = []  # the paper does not look inside the model

LAYERS = (0.1, 0.7, 0.9, 0.6)  # R² by layer


def certain(*values: float) -> tuple[Estimate, ...]:
    return tuple(Estimate(value, value - 0.01, value + 0.01) for value in values)


def summary(place: int, moduli: tuple[int, ...], product: float) -> SetSummary:
    dimensions = prod(moduli) - 1
    kept = tuple((k + 1) / dimensions for k in range(dimensions))
    alone = len(moduli) == 1
    controls = Controls(
        shuffled=certain(*[0.0] * 4),
        truth=certain(*LAYERS),
        like_belief=certain(*[0.8] * 4),
        like_guess=certain(*[0.6] * 4),
        difference=certain(*[0.2] * 4),
    )
    parts = {
        "additive": Part(share=0.6, r2=certain(*LAYERS)),
        "product": Part(share=0.39, r2=certain(*[product] * 4)),
        "correlation": Part(share=0.01, r2=certain(*[0.1] * 4)),
    }
    return SetSummary(
        place=place,
        moduli=moduli,
        uncertain=0.3,
        r2={"all": certain(*LAYERS), "uncertain": certain(*LAYERS)},
        r2_apart={"all": certain(*LAYERS)},
        kept=(kept,) * 4,
        kept_exact=kept,
        parts={} if alone else parts,
        controls=controls if alone else None,
    )


def made_up(product: float = 0.5) -> Result:
    """Beliefs about 2 and 3 are held jointly if `product` is above 0.2, those about 3 and 5 not."""
    beliefs = study.settings("gpu").beliefs
    sets = [
        summary(place, moduli, 0.05 if moduli == (3, 5) else product)
        for place in beliefs.places
        for moduli in ((2,), (3,), (5,), (2, 3), (3, 5))
    ]
    facts = TrainingFacts(2**28, 600.0, "H200", "a whole word", stand_in="")
    return Result(sets, beliefs, facts, 3)


def test_joint_beliefs_have_products_that_can_be_read() -> None:
    result = committed("belief_states")
    assert [name(each) for each in singles(result.first)] == ["2", "3", "5"]
    assert [name(each) for each in several(result.first)] == ["2·3", "3·5"]
    assert [joint(each) for each in several(result.first)] == [True, False]
    assert {best_layer(each) for each in result.sets} == {2}
    text = study.in_short(result)
    assert "explains 0.90, 0.90 and 0.90" in text
    assert text.endswith(
        "The posteriors of 2·3 are held jointly: over 0.2 of their products can be read too. For"
        " those of 3·5, no joint code was read: less than 0.2 of their products."
    )


@pytest.mark.parametrize(
    ("product", "outcome", "text"),
    [
        (0.205, None, "For those of 2·3, it is not decided whether 0.2 of their products can be"),
        (0.195, None, "For those of 2·3, it is not decided whether 0.2 of their products can be"),
        (0.1, False, "For those of 2·3 and 3·5, no joint code was read: less than 0.2 of their"),
    ],
)
def test_nothing_is_held_jointly(product: float, outcome: bool | None, text: str) -> None:
    result = made_up(product)  # the intervals are ± 0.01
    assert [joint(each) for each in several(result.first)] == [outcome, False]
    assert "jointly" not in study.in_short(result)
    assert text in study.in_short(result)
    draw("belief_states", result)


@pytest.mark.parametrize("scale", ["laptop", "gpu", "paper"])
def test_settings(scale: str) -> None:
    settings = study.settings(scale)
    assert settings.beliefs.windows % settings.beliefs.blocks == 0
    assert all(model.config.tokens.kind == "words" for model in settings.models)
