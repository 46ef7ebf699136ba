"""The roles of heads on made-up scores: what the texts and figures make of them."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from arithmetext.evaluation.ablation import (
    PRIMES,
    Attention,
    Distance,
    Head,
    HeadRoles,
    summarise,
)
from arithmetext.evaluation.estimates import Estimate
from arithmetext.paper.runs import TrainingFacts
from arithmetext.paper.studies import residue_heads as study
from arithmetext.paper.studies.residue_heads import Best, ModelHeads, Result

from .cases import Case, committed, draw

CASES: list[Case] = []  # the paper does not look inside the model

LAYERS, HEADS, OFFSET = 3, 4, 1


def made_up() -> Result:
    """Head k of all heads matters for prime k; heads 8 to 11 matter for nothing."""
    how = study.settings("gpu").shown
    random = np.random.default_rng(0)
    groups = len(PRIMES) + 1
    words = np.full((groups, how.windows), 20.0)
    loss = words * random.normal(1.5, 0.05, words.shape)
    damage = np.zeros((LAYERS * HEADS, groups, 1))
    damage[np.arange(8), np.arange(8)] = 0.9
    ablated = loss + words * random.normal(damage, 0.02, (LAYERS * HEADS, groups, how.windows))
    arrays: dict[str, Any] = {
        "words": words,
        "loss": loss,
        "ablated": ablated.reshape(LAYERS, HEADS, groups, how.windows),
    }
    for p in PRIMES:
        for residue, name in (OFFSET, "offsets"), (-OFFSET % p, "classes"):
            attention = np.full((2, LAYERS, HEADS, how.windows, p), 0.5 / p)
            attention[1, ..., residue] += 0.3
            arrays[f"{name} {p}"] = attention * 10
        arrays[f"distances {p}"] = np.ones((2, LAYERS, HEADS, 20))
        arrays[f"queries {p}"] = np.full((2, how.windows), 10)
    roles = summarise(arrays, how)
    best = [study._best(arrays, arrays, how, roles, prime) for prime in PRIMES]
    facts = TrainingFacts(2**28, 600.0, "H200", "a whole word", stand_in="")
    return Result([ModelHeads(roles, best)] * 3, how, facts)


def certain(value: float, error: float = 0.01) -> Estimate:
    return Estimate(value, value - error, value + error)


def with_damage(rows: list[list[float]], best: list[int]) -> Result:
    """A result with these heads, and the head of each prime."""
    heads = [Head(0, k, [certain(value) for value in row]) for k, row in enumerate(rows)]
    roles = HeadRoles(heads, [certain(1.5)] * 9, [100] * 9)
    share = certain(0.2)
    both, distances = Attention(share, share), [Distance(5, 0.1, 0.2)]
    chosen = [
        Best(p, k, 0, both, share, 1, both, distances) for p, k in zip(PRIMES, best, strict=True)
    ]
    facts = TrainingFacts(2**28, 600.0, "H200", "a whole word", stand_in="")
    return Result([ModelHeads(roles, chosen)], study.settings("gpu").shown, facts)


def row(base: float = 0.0, **damage: float) -> list[float]:
    """The damage in each group: of the primes named p2, p3, … and of all others."""
    return [damage.get(f"p{p}", base) for p in PRIMES] + [damage.get("none", base)]


def test_the_made_up_heads_are_found() -> None:
    result = made_up()
    model = result.models[0]
    assert [best.head for best in model.best] == list(range(8))
    assert [best.offset for best in model.best] == [OFFSET] * 8
    for best in model.best:
        assert best.there.divides.value == pytest.approx(0.5 / best.prime + 0.3)
        assert best.there.otherwise.value == pytest.approx(0.5 / best.prime)
        assert best.same_class.value == pytest.approx(0.5 / best.prime)
    assert [each.prime for each in study.specialists(model)] == list(PRIMES)
    text = study.in_short(result)
    assert text.startswith("In the first of 3 models with different seeds: For 8 of the 8 primes")
    assert "0.90 nats more where 11 is that prime (head 2.1)" in text


def test_specialists() -> None:
    heads = [
        row(p2=0.9, p3=0.4),  # just over twice
        row(p3=0.9, none=0.45),  # not at the low end of the interval
        row(p5=0.055),  # too little to tell
        row(p7=0.5),
    ]
    result = with_damage(heads, [0, 1, 2, 3, 3, 3, 3, 3])
    found = study.specialists(result.models[0])
    assert [(each.prime, each.head.head) for each in found] == [(2, 0), (7, 3)]
    assert [each.largest_other for each in found] == [0.4, 0]
    text = study.in_short(result)
    assert "0.90 nats more where 2 is that prime (head 1.1) and 0.50 nats more where 7 is" in text
    assert "and at most 0.40 nats more in any other group." in text
    assert text.endswith("For 3, 5, 11, 13, 17 and 19 there is no such head.")


def test_heads_that_cost_nothing_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the text that is shown, whatever the text said in which they were chosen."""
    result, chosen = made_up(), {}
    whole = result.models[0]

    def keep(first: Any, second: Any, how: Any, choosing: Any, prime: int) -> Best:
        chosen[prime] = next(best for best in whole.best if best.prime == prime)
        return replace(chosen[prime], head=11 if prime == 19 else chosen[prime].head)

    model = SimpleNamespace(outputs=lambda *_: {}, training=lambda: result.training)
    monkeypatch.setattr(study, "_best", keep)
    monkeypatch.setattr(study, "summarise", lambda *_: whole.roles)
    found = study.run(replace(study.settings("gpu"), models=(model,)))
    assert [best.prime for best in found.models[0].best] == list(PRIMES[:-1])
    draw("residue_heads", found)


def test_models_with_other_seeds_are_named() -> None:
    nothing, two = (with_damage(heads, [0] * 8).models[0] for heads in ([row(0.02)], [row(p3=0.5)]))
    result = replace(made_up(), models=[nothing, two, nothing])
    text = study.in_short(result)
    assert text.startswith("In the first of 3 models with different seeds: No prime up to 19 has")
    assert text.endswith("Primes with such a head in the other models: 3; none.")
    draw("residue_heads", result)


def test_nothing_is_found() -> None:
    result = with_damage([row(0.02)], [0] * 8)
    assert study.in_short(result).startswith("No prime up to 19 has a head of its own")
    draw("residue_heads", result)  # then all heads have a row in the figure


def test_every_head_has_a_row_of_the_table() -> None:
    result = committed("residue_heads")
    header, rows = study.table(result)
    assert len(rows) == sum(len(model.roles.heads) for model in result.models)
    assert rows[0][header.index("head")] == "1.1"


@pytest.mark.parametrize("scale", ["laptop", "gpu", "paper"])
def test_settings(scale: str) -> None:
    found = study.settings(scale)
    assert len(found.models) == (1 if scale == "laptop" else 3)
    assert {model.config.tokens.kind for model in found.models} == {"words"}
    assert found.chosen.seed != found.shown.seed  # other windows
    for how in found.chosen, found.shown:
        assert how.windows % how.blocks == 0


def test_the_word_model_is_the_same_at_both_large_scales() -> None:
    laptop, gpu, paper = (study.settings(s).models[0] for s in ("laptop", "gpu", "paper"))
    assert laptop.recipe == "pretrained" and gpu == paper
    config = gpu.config
    assert (config.model.positions, config.training.optimizer) == ("rotary", "muon")
    assert (config.model.layers, config.model.context) == (12, 1024)
