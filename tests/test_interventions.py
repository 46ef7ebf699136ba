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
from arithmetext.evaluation import interventions
from arithmetext.evaluation.activations import LabelledWindows, labelled_windows
from arithmetext.evaluation.interventions import (
    CONDITIONS,
    DOSES,
    HELD,
    MODULUS,
    NEXT_WORDS,
    POWERS,
    PROJECTED,
    RANDOM,
    RESIDUES,
    InterventionSettings,
    _by_word,
    _exponents,
    _from_integer,
    _positions,
    _projections,
    _random_shift,
    _Window,
    _WordProbabilities,
    intervention_responses,
    moduli,
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
def oracle() -> _WordProbabilities:
    tokens = subject().tokenizer
    assert isinstance(tokens, WordTokens)
    return _WordProbabilities(AT, tokens)


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


def test_the_modulus() -> None:
    assert lcm(*range(1, 20)) == MODULUS


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


@pytest.mark.parametrize("name", RANDOM)
def test_projections_have_as_many_dimensions_as_their_controls(name: str) -> None:
    if name == "next word":  # some of the 64 tokens of this model may not occur
        alike = fitted()[name].diagonal(dim1=2, dim2=3).sum(2)
        assert alike.unique().numel() == 2 and alike.max() < NEXT_WORDS
        return
    column = RESIDUES.index(name)
    sizes = torch.tensor([[moduli(p)[column] - 1 for p in HOW.primes]] * 2).float()
    for projections in fitted()[name], fitted()[RANDOM[name]]:
        assert projections.shape == (2, 3, 128, 128)
        traces = projections.diagonal(dim1=2, dim2=3).sum(2)
        torch.testing.assert_close(traces, sizes, atol=0.05, rtol=0)


@pytest.mark.parametrize("name", RESIDUES[1:])
def test_larger_moduli_hold_what_residue_holds(name: str) -> None:
    for row in range(2):
        for i in range(3):
            residue, larger = fitted()["residue"][row, i], fitted()[name][row, i]
            torch.testing.assert_close(larger @ residue, residue, atol=0.02, rtol=0.02)


def test_held_words_stay() -> None:
    """No change of a condition with `word held` is seen by what reads the next word."""
    for name, held in HELD.items():
        projection = fitted()[held]
        torch.testing.assert_close(
            fitted()["next word"] @ projection, torch.zeros_like(projection), atol=0.02, rtol=0
        )
        if name != "everything":  # and the rest is that of the condition itself
            rest = fitted()[name] - fitted()["next word"] @ fitted()[name]
            torch.testing.assert_close(projection, rest, atol=0.02, rtol=0.02)
            assert projection.abs().max() > 0.1


def test_random_directions_are_drawn_anew() -> None:
    other = _projections(subject(), HOW, 1, lambda _: None)
    for name in RANDOM.values():
        rows = [*fitted()[name].flatten(0, 1), *other[name].flatten(0, 1)]
        for i, a in enumerate(rows):
            assert all((a - b).abs().max() > 0.01 for b in rows[:i])


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
        assert found[name].shape == (HOW.seeds if name in PROJECTED else 1, 2, primes, windows)
    positions = found["positions"]
    assert positions.min() >= 1 and positions.max() <= HOW.positions
    for name in "right", "right here", "right there":
        assert (found[name] >= 0).all() and (found[name] <= positions).all()
    # A prime's effect on itself is that of `with 4` in the layer of the details.
    for i in range(primes):
        np.testing.assert_array_equal(found["others there"][i, i], found["there"][i])
        np.testing.assert_allclose(found["others"][:, i, i], found["with 4"][:, 0, i], atol=1e-9)
    assert not found["others"][:, 0, 1:].any()  # every shift of 2 changes the exponent of 2


# A model whose words are a known function of planted residues

CODED = (5, 7)
CODES = (20, 28)  # n modulo these is in the stream, each in dimensions of its own
VOCABULARY = 64
KINDS = 8  # of words in the stream: the commonest ones, and all others
TABLES = {
    # The word only depends on whether 5 divides n + 1, but on every residue modulo 7.
    5: torch.zeros(5, VOCABULARY),
    7: torch.randn(7, VOCABULARY, generator=torch.Generator().manual_seed(1)),
}
TABLES[5][-1] = torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(2))
for _table in TABLES.values():
    _table *= 5
    _table[:, :3] = 0  # of tokens that are no words
PLANTED = InterventionSettings(
    primes=CODED,
    at=AT,
    layers=(1,),
    detailed=1,
    windows=400,
    tested=4,
    blocks=2,
    positions=8,
    seeds=2,
)


class PlantedWindow:
    """Its stream after layer 1 decides the prediction, and nothing else does."""

    def __init__(self, model: "PlantedModel", stream: Tensor) -> None:
        self.stream = [torch.zeros_like(stream), stream]
        self.readout = model.readout
        self.logits = stream @ self.readout

    def predict(self, layer: int, positions: Tensor, x: Tensor) -> Tensor:
        assert layer == 1 and len(positions) == len(x)
        return x @ self.readout


class PlantedModel:
    """The stream: the classes modulo 20 and 28, the kinds of this and the next word, and noise."""

    device = torch.device("cpu")
    causal = True

    def __init__(self) -> None:
        self.to_fit: dict[bytes, Tensor] = {}  # integers of windows of the training text
        self.to_test: dict[bytes, Tensor] = {}
        self.width = sum(CODES) + 2 * KINDS + 64
        self.readout = torch.zeros(self.width, VOCABULARY)
        tables = [TABLES[p].repeat(4, 1) for p in CODED]
        self.readout[: sum(CODES)] = torch.cat(tables)

    def stream(self, ids: Tensor, integers: Tensor) -> Tensor:
        classes = [torch.nn.functional.one_hot(integers % m, m) for m in CODES]
        words = torch.nn.functional.one_hot(ids.clamp_max(KINDS - 1), KINDS)
        rest = torch.zeros(len(ids), 64)
        parts = torch.cat([*classes, rest, words, words.roll(-1, 0)], -1)
        noise = torch.Generator().manual_seed(int(integers[0]))  # the same at every call
        return parts + 0.01 * torch.randn(parts.shape, generator=noise)

    def residual_stream(self, ids: Tensor) -> Tensor:
        integers = [self.to_fit[row.numpy().tobytes()] for row in ids]
        streams = [self.stream(*each) for each in zip(ids, integers, strict=True)]
        return torch.stack([torch.zeros(*ids.shape, self.width), torch.stack(streams)])

    def patched(self, ids: Tensor) -> PlantedWindow:
        return PlantedWindow(self, self.stream(ids, self.to_test[ids.numpy().tobytes()]))


@pytest.fixture(scope="module")
def planted() -> Any:
    """The model, and its responses; it knows the windows that it may be given."""
    model = PlantedModel()
    made = replace(subject(), model=model)  # type: ignore[arg-type]

    def remember(windows: LabelledWindows, where: dict[bytes, Tensor]) -> LabelledWindows:
        rows = windows.ids.view(-1, CONTEXT), windows.integers.view(-1, CONTEXT)
        where.update({a.numpy().tobytes(): b for a, b in zip(*rows, strict=True)})
        return windows

    text = [made.trained]
    for seed in range(2):
        training = labelled_windows(
            made.tokenizer, text, number=PLANTED.windows, length=CONTEXT, seed=2000 + seed
        )
        remember(training, model.to_fit)
    remember(drawn(), model.to_test)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            interventions,
            "_from_integer",
            lambda *given: remember(_from_integer(*given), model.to_test),
        )
        yield made, intervention_responses(made, PLANTED)


def test_planted_residues_are_all_that_matters(planted: Any) -> None:
    _, found = planted
    there = found["there"]
    assert np.square(there).mean() > 1
    for name in "residue", "with parity", "with 4", "everything":
        assert error(found[name][:, 0], there) < 0.2
    assert error(found["next word"][:, 0], there) > 0.5


def error(found: NDArray[np.float64], expected: NDArray[np.float64]) -> float:
    """Relative to the expected numbers; found has one more axis, of seeds."""
    return float(np.sqrt(np.square(found - expected).mean() / np.square(expected).mean()))


def test_doses_scale(planted: Any) -> None:
    """Directions of two oracles add up to 0, so that responses are linear in the logits."""
    _, found = planted
    for i, dose in enumerate(DOSES):
        np.testing.assert_allclose(
            found["doses"][:, i], dose * found["with 4"][:, 0], rtol=1e-3, atol=1e-3
        )


def test_a_prime_that_does_not_matter_moves_nothing_and_another_what_it_must(planted: Any) -> None:
    """Words depend on n modulo 7 even where 7 divides neither integer: so 7 moves 5, by its table.

    Where 5 does not matter, its table has no effect.
    """
    made, found = planted
    there = found["others there"]
    assert error(found["others"][:, 0, 1] + there[0, 1], there[0, 1]) < 0.1
    random = np.random.default_rng(0)
    expected = np.zeros(PLANTED.tested)
    for k in range(PLANTED.tested):
        here = _Window(made, PLANTED, oracle(), drawn().ids[k], drawn().integers[k], random)
        chosen = here.chosen[0]
        chosen = chosen[~here.touched[1][chosen] & (here.there[1].numpy()[chosen] >= 0)]
        n = here.next[chosen] - 1
        change = TABLES[7][(n + here.shifts[1]) % 7] - TABLES[7][n % 7]
        words = torch.cat([torch.zeros(len(n), 1), change[:, 3:]], 1)
        expected[k] = (here.direction(0, chosen) * words).sum().item()
    assert np.abs(expected).max() > 1
    assert error(found["others"][:, 1, 0], expected) < 0.2


def test_projections_are_fitted_on_other_windows_for_each_seed(planted: Any) -> None:
    """Of the training text: the model knows no others there."""
    made, _ = planted
    first, second = (_projections(made, PLANTED, seed, lambda _: None) for seed in range(2))
    for name in "residue", "with 4", "next word":
        assert (first[name] - second[name]).abs().max() > 1e-4


def test_the_next_word_is_read(planted: Any) -> None:
    """Not the current one: what reads the next token is the same after the projection."""
    made, _ = planted
    projection = _projections(made, PLANTED, 0, lambda _: None)["next word"][0, 0]
    stream = made.model.stream(drawn().ids[0], drawn().integers[0])
    difference = stream[1:-1] - stream[:-2]
    part = slice(made.model.width - KINDS, None)  # of the next token
    lost = (difference @ projection.mT - difference)[:, part]
    assert lost.square().sum() < 0.05 * difference[:, part].square().sum()


def test_wrong_settings_are_refused() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"primes": (2, 23)}, "interventions are for the primes 2, 3, 5, 7, 11, 13, 17, 19"),
        ({"detailed": 3}, r"layer 3 is not among the layers \(1, 2\)"),
        ({"tested": 5}, "the number of test windows must be a multiple of 2"),
    ]
    for changes, message in cases:
        with pytest.raises(InputError, match=f"^{message}$"):
            intervention_responses(subject(), replace(HOW, **changes))


def test_tokens_across_words_are_refused() -> None:
    bpe = replace(subject(), tokenizer=BPE.train(12, ranges=[(2, 10**6)], lines=256))
    with pytest.raises(InputError, match=r"^interventions need a model whose tokens are words$"):
        intervention_responses(bpe, HOW)
