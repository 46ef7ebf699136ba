"""Interchange interventions: which windows and positions, and laws that hold for every model."""

from dataclasses import replace
from functools import cache
from math import lcm
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

import arithmetext as nt
from arithmetext.errors import InputError
from arithmetext.evaluation.activations import LabelledWindows, labelled_windows
from arithmetext.evaluation.interventions import (
    CONDITIONS,
    JOINT,
    MODULUS,
    POWERS,
    PROBED,
    RANDOM,
    InterventionSettings,
    _by_word,
    _exponents,
    _from_integer,
    _Oracle,
    _positions,
    _projections,
    _random_shift,
    _Window,
    intervention_responses,
    summarise,
)
from arithmetext.evaluation.subjects import EvaluatedModel
from arithmetext.models.config import GPTConfig
from arithmetext.text.splits import TRAINED_TO, blocks_near, splits
from arithmetext.tokens import BPE, WordTokens

AT, CONTEXT, LAYERS = 98 * 10**9, 128, 2
HOW = InterventionSettings(
    primes=(2, 3, 7),
    at=AT,
    layers=(1, LAYERS),
    detailed=1,
    windows=4,
    tested=4,
    blocks=2,
    positions=6,
    seeds=2,
)


@cache
def subject() -> EvaluatedModel:
    """A small model that was not trained, with weights so large that it predicts something."""
    torch.manual_seed(0)
    config = GPTConfig(layers=LAYERS, heads=2, context=CONTEXT, positions="rotary")
    model = config.build(64, "ntp").requires_grad_(False)
    for parameter in model.parameters():
        parameter += 0.1 * torch.randn_like(parameter)
    text = splits(TRAINED_TO)
    return EvaluatedModel("tiny", model, WordTokens.commonest(64), CONTEXT, text.train, text.seen)


@cache
def oracle() -> _Oracle:
    tokens = subject().tokenizer
    assert isinstance(tokens, WordTokens)
    return _Oracle(AT, tokens)


@cache
def drawn() -> LabelledWindows:
    blocks = [[block] for block in blocks_near(AT, subject().seen, HOW.blocks)]
    return labelled_windows(subject().tokenizer, blocks, number=HOW.tested, length=CONTEXT, seed=1)


@cache
def window(k: int = 0) -> _Window:
    windows, random = drawn(), np.random.default_rng(k)
    return _Window(subject(), HOW, oracle(), windows.ids[k], windows.integers[k], random)


@cache
def responses() -> dict[str, NDArray[np.float64]]:
    return intervention_responses(subject(), HOW)


# Integers


@pytest.mark.parametrize("prime", POWERS)
def test_a_shift_changes_one_residue(prime: int) -> None:
    random = np.random.default_rng(0)
    shifts = {_random_shift(prime, random) for _ in range(40)}
    assert len(shifts) > 1 or prime == 3
    for shift in shifts:
        assert 0 < shift < MODULUS
        assert shift % prime
        assert not any(shift % q for p, q in POWERS.items() if p != prime)


def test_the_modulus_and_the_joint_moduli() -> None:
    assert lcm(*range(1, 20)) == MODULUS
    assert JOINT == {2: 48, 3: 36, 5: 20, 7: 28, 11: 44, 13: 52, 17: 68, 19: 76}


@pytest.mark.parametrize("prime", [2, 3, 19])
def test_exponents(prime: int) -> None:
    integers = [*range(1, 400), prime**7, 5 * prime**9 + 1, 10**12, AT]

    def exponent(n: int) -> int:
        return 0 if n % prime else 1 + exponent(n // prime)

    given = torch.tensor(integers)
    assert _exponents(given, prime).tolist() == [exponent(n) for n in integers]
    assert given.tolist() == integers


def test_a_window_from_an_integer() -> None:
    tokens = subject().tokenizer
    made = _from_integer(tokens, 10**9, 50)
    spelled: dict[int, str] = {}
    for token, n in zip(made.ids.tolist(), made.integers.tolist(), strict=True):
        spelled[n] = spelled.get(n, "") + tokens.vocabulary[token]
    *whole, last = range(10**9, 10**9 + len(spelled))
    assert made.ids.shape == (50,)
    assert f"{nt.word(last)} ".startswith(spelled.pop(last))
    assert spelled == {n: f"{nt.word(n)} " for n in whole}


def test_positions_of_integers() -> None:
    tokens = subject().tokenizer
    made = _from_integer(tokens, 10**9, 50)
    last_token = {int(n): i for i, n in enumerate(made.integers)}  # later tokens win
    if not tokens.vocabulary[int(made.ids[-1])].endswith(" "):
        del last_token[int(made.integers[-1])]
    integers = torch.arange(10**9, 10**9 + 60)
    expected = [last_token.get(n, -1) for n in integers.tolist()]
    assert -1 in expected
    assert _positions(tokens, made, integers).tolist() == expected


# A window and those paired with it


def exponents(n: int) -> list[int]:
    return [int(_exponents(torch.tensor([n]), p)[0]) for p in POWERS]


@pytest.mark.parametrize("k", range(HOW.tested))
def test_chosen_positions(k: int) -> None:
    """Before integers that differ in one exponent, at the ends of the words before them."""
    here, tokens = window(k), subject().tokenizer
    ids, integers = drawn().ids[k], drawn().integers[k]
    for i, prime in enumerate(HOW.primes):
        chosen = here.chosen[i]
        assert 1 <= len(chosen) <= HOW.positions
        shift = here.shifts[i]
        other = _from_integer(tokens, int(integers[0]) + shift, CONTEXT)
        for index in chosen.tolist():
            place, there = int(here.places[index]), int(here.there[i][index])
            n = int(here.next[index])
            assert CONTEXT // 2 <= place < CONTEXT - 1
            assert (integers[place], other.integers[there]) == (n - 1, n - 1 + shift)
            for token in ids[place], other.ids[there]:
                assert tokens.vocabulary[token].endswith(" ")
            before, after = exponents(n), exponents(n + shift)
            unequal = [p for p, a, b in zip(POWERS, before, after, strict=True) if a != b]
            assert unequal == [prime]


def test_oracles_differ_only_where_exponents_do() -> None:
    here = window()
    for i, shift in enumerate(here.shifts):
        everywhere = np.arange(len(here.next))
        direction = here.direction(i, everywhere).abs().sum(1).numpy()
        same = np.array([exponents(n) == exponents(n + shift) for n in here.next.tolist()])
        assert direction[same].max(initial=0) == 0
        assert direction[here.chosen[i]].min() > 0.1


def test_the_oracle_gives_the_words_of_the_model_probabilities() -> None:
    tokens = subject().tokenizer
    integers = torch.arange(AT, AT + 2000)
    given = oracle()(integers)
    assert given.shape == (2000, 1 + len(tokens.words))
    torch.testing.assert_close(given.sum(1), torch.ones(2000, dtype=torch.float64))
    words = [
        tokens.vocabulary.index(f"{nt.word(n)} ") if f"{nt.word(n)} " in tokens.vocabulary else 2
        for n in integers.tolist()
    ]
    true = given[torch.arange(2000), torch.tensor(words) - 2]
    assert true.min() > 0  # no word is impossible
    assert true.log().mean() > -1.3  # shares of words alone give -2.7
    logits = torch.randn(3, 64, generator=torch.Generator().manual_seed(0))
    expected = logits.double().softmax(1)
    found = _by_word(logits).exp()
    torch.testing.assert_close(found[:, 0], expected[:, :3].sum(1))
    torch.testing.assert_close(found[:, 1:], expected[:, 3:])


# Projections and responses


@cache
def fitted() -> dict[str, Tensor]:
    return _projections(subject(), HOW, 0, lambda _: None)


@pytest.mark.parametrize(("name", "moduli"), [("residue", POWERS), ("joint", JOINT)])
def test_projections_have_as_many_dimensions_as_their_controls(
    name: str, moduli: dict[int, int]
) -> None:
    sizes = torch.tensor([[moduli[p] - 1 for p in HOW.primes]] * 2).float()
    for projections in fitted()[name], fitted()[RANDOM[name]]:
        assert projections.shape == (2, 3, 128, 128)
        traces = projections.diagonal(dim1=2, dim2=3).sum(2)
        torch.testing.assert_close(traces, sizes, atol=0.05, rtol=0)


def test_joint_holds_what_residue_holds() -> None:
    for row in range(2):
        for i in range(3):
            residue, joint = fitted()["residue"][row, i], fitted()["joint"][row, i]
            torch.testing.assert_close(joint @ residue, residue, atol=0.02, rtol=0.02)


def test_the_whole_stream_after_the_last_layer_is_the_other_prediction() -> None:
    found = responses()
    everything = found["everything"][0]
    assert np.abs(found["there"]).min() > 1e-3
    np.testing.assert_allclose(everything[-1], found["there"], atol=1e-3)
    assert np.abs(everything[0] - found["there"]).max() > 1e-2
    for each in summarise(found, HOW):
        assert each.conditions["everything"][-1].value == pytest.approx(1, abs=1e-2)


def test_no_change_has_no_response() -> None:
    here = window()
    for layer in range(LAYERS + 1):
        stream, _ = here.stream(0, layer, here.chosen[0])
        places = here.places[here.chosen[0]]
        predicted = here.here.predict(layer, places, stream)
        change = here.direction(0, here.chosen[0]) * _by_word(predicted)
        before = here.direction(0, here.chosen[0]) * _by_word(here.here.logits[places])
        assert (change - before).sum().item() == pytest.approx(0, abs=1e-3)


def test_shapes_and_counts() -> None:
    found, primes, windows = responses(), len(HOW.primes), HOW.tested
    for name in CONDITIONS:
        assert found[name].shape == (HOW.seeds if name in PROBED else 1, 2, primes, windows)
    positions = found["positions"]
    assert positions.min() >= 1 and positions.max() <= HOW.positions
    for name in "right", "right here", "right there":
        assert (found[name] >= 0).all() and (found[name] <= positions).all()
    # A prime's effect on itself is that of `joint` in the layer of the details.
    for i in range(primes):
        np.testing.assert_array_equal(found["others there"][i, i], found["there"][i])
        np.testing.assert_allclose(found["others"][i, i], found["joint"][0, 0, i], atol=1e-9)
    assert not found["others"][0, 1:].any()  # every shift of 2 changes the exponent of 2


def test_wrong_settings_are_refused() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"primes": (2, 23)}, "interventions are for the primes 2, 3, 5, 7, 11, 13, 17, 19"),
        ({"detailed": 3}, r"layer 3 is not among the layers \(1, 2\)"),
    ]
    for changes, message in cases:
        with pytest.raises(InputError, match=f"^{message}$"):
            intervention_responses(subject(), replace(HOW, **changes))


def test_tokens_across_words_are_refused() -> None:
    bpe = replace(subject(), tokenizer=BPE.train(12, ranges=[(2, 10**6)], lines=256))
    with pytest.raises(InputError, match=r"^interventions need a model whose tokens are words$"):
        intervention_responses(bpe, HOW)
