"""Probes for residues: planted residues are found, and nothing where there are none."""

from collections import Counter
from dataclasses import replace
from functools import cache
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from arithmetext.errors import InputError
from arithmetext.evaluation.activations import labelled_windows
from arithmetext.evaluation.probes import (
    CONTROLS,
    COUNTS,
    MODEL,
    ORDERED,
    POSITION,
    SHORTEST,
    SHUFFLED,
    TOKENS,
    UNTRAINED,
    Decoded,
    ProbeSettings,
    _Reader,
    functions,
    one_hot,
    position_ranges,
    probe_scores,
    summarise,
)
from arithmetext.evaluation.subjects import EvaluatedModel
from arithmetext.models.language import LanguageModel, Prompts, Reading
from arithmetext.text.splits import blocks_near
from arithmetext.tokens import WordTokens

CONTEXT, PLACE, TRAINED = 64, 10**9, (4 * 10**8, 45 * 10**7)
HOW = ProbeSettings(
    moduli=(2, 3, 5, 7),
    places=(PLACE,),
    windows=64,
    token_windows=128,
    tested=240,
    blocks=4,
    seeds=2,
)
PLANTED, LAYER, LAYERS = (3, 5), 1, 3


class Planted(LanguageModel):
    """In one layer, residues modulo 3 and 5 are a random linear map of one-hot classes."""

    width = 24

    def __init__(self, *, trained: bool = True) -> None:
        self.trained, self.vocabulary = trained, 64
        self.integers: dict[bytes, Tensor] = {}  # of the tokens of each window
        self.random = torch.Generator().manual_seed(0)
        self.code = torch.randn(sum(PLANTED), self.width, generator=self.random)

    @property
    def description(self) -> str:
        return "planted residues"

    def read(self, prompts: Prompts, *, stride: int = 1) -> Reading:
        raise NotImplementedError

    def with_initial_weights(self, seed: int) -> "Planted":
        return Planted(trained=False)

    def residual_stream(self, ids: Tensor) -> Tensor:
        stream = torch.randn(LAYERS, *ids.shape, self.width, generator=self.random)
        if self.trained:
            integers = torch.stack([self.integers[row.numpy().tobytes()] for row in ids])
            stream[LAYER] += 5 * one_hot(integers, PLANTED).float() @ self.code
        return 10 + stream


@cache
def subject() -> EvaluatedModel:
    model, tokens = Planted(), WordTokens.commonest(64)
    seen = EvaluatedModel("planted", model, tokens, CONTEXT, (TRAINED,), (TRAINED,))
    texts = [[TRAINED]], [[block] for block in blocks_near(PLACE, seen.seen, HOW.blocks)]
    for text, seed in (texts[0], 1000), (texts[0], 1001), (texts[1], 0):
        windows = labelled_windows(tokens, text, number=240, length=CONTEXT, seed=seed)
        for ids, integers in zip(windows.ids, windows.integers, strict=True):
            model.integers[ids.numpy().tobytes()] = integers
    return seen


@cache
def scores() -> dict[str, Any]:
    return probe_scores(subject(), HOW)


@cache
def decoded() -> dict[int, Decoded]:
    return {each.modulus: each for each in summarise([scores()], HOW, CONTEXT, PLACE)}


def test_planted_residues_are_read_in_their_layer_alone() -> None:
    for modulus, found in decoded().items():
        for row in found.layers[1:]:  # the first range is a single position
            for layer, estimate in enumerate(row):
                known = modulus in PLANTED and layer == LAYER
                assert estimate.value == pytest.approx(1 if known else 1 / modulus, abs=0.05)
        assert (found.best_layer == LAYER) or modulus not in PLANTED


def test_functions_of_planted_residues_are_explained() -> None:
    for modulus, found in decoded().items():
        for layers in found.explained.values():
            for layer, shares in enumerate(layers):
                if modulus in PLANTED and layer == LAYER:
                    assert min(shares) > 0.95
                else:
                    assert -0.3 < min(shares) <= max(shares) < 0.05


def test_an_untrained_model_is_at_chance() -> None:
    for modulus, found in decoded().items():
        assert found.controls[UNTRAINED].value == pytest.approx(1 / modulus, abs=0.05)


def test_shuffled_labels_are_at_chance_for_every_seed() -> None:
    """Also where the residues can be read, and a favourite shift would be right or wrong."""
    hits = scores()[f"{SHUFFLED} {PLACE}"][:, LAYER, 0] / (CONTEXT // 2)
    for accuracies in hits.mean(-1):
        for modulus, accuracy in zip(HOW.moduli, accuracies, strict=True):
            assert accuracy == pytest.approx(1 / modulus, abs=0.08)


def test_the_position_says_nothing() -> None:
    """In a window it may say all, once the first residue is known: windows count, not tokens."""
    for modulus, found in decoded().items():
        error = sqrt((1 - 1 / modulus) / modulus / HOW.tested)
        assert found.controls[POSITION].value == pytest.approx(1 / modulus, abs=4 * error)


def test_the_last_words_tell_even_from_odd() -> None:
    assert decoded()[2].controls[SHORTEST].value > 0.9
    assert decoded()[2].ahead[SHORTEST].value > 0.5
    assert decoded()[7].controls[COUNTS].value < 0.25


def test_more_tokens_tell_more() -> None:
    """With 64 tokens of context, the last 256 are the last 64."""
    first, second, _ = (decoded()[7].controls[name].value for name in ORDERED)
    assert second > first + 0.05


def test_margins_are_paired_differences() -> None:
    for found in decoded().values():
        best = found.layers[-1][found.best_layer].value
        for name, margin in found.margins.items():
            assert margin.value == pytest.approx(best - found.controls[name].value)
    planted = decoded()[5].margins
    assert all(margin.low > 0 for margin in planted.values())
    assert decoded()[7].margins[SHORTEST].high < 0


def test_the_next_multiple_is_explained_where_it_is_planted() -> None:
    """After the last layer, in which nothing is planted, by the text alone."""
    for modulus, found in decoded().items():
        assert found.ahead.keys() == {MODEL, UNTRAINED, *TOKENS}
        assert found.ahead[MODEL].value == found.explained["class"][-1][modulus - 1]
        assert found.ahead[MODEL].value < 0.05 > found.ahead[UNTRAINED].value


def test_features_of_the_last_tokens() -> None:
    reader = _Reader(subject(), HOW.moduli)
    ids = labelled_windows(subject().tokenizer, [[TRAINED]], number=2, length=150, seed=0).ids
    tokens = reader.tokens(ids)
    assert tuple(tokens) == TOKENS
    commonest = Counter(
        labelled_windows(subject().tokenizer, [[TRAINED]], number=8, length=CONTEXT, seed=1000)
        .ids.flatten()
        .tolist()
    )
    assert int(reader.ranks[commonest.most_common(1)[0][0]]) == 0
    assert sorted(reader.ranks.tolist()) == list(range(64))
    [counts] = tokens[COUNTS]
    for row in range(2):
        for t in range(150):
            expected = Counter(ids[row, max(0, t - 63) : t + 1].tolist())
            assert counts[row, t].tolist() == [expected[token] for token in range(64)]
    for name, (length, classes) in ORDERED.items():
        [ordered] = tokens[name]
        assert ordered.shape == (2, 150, length * classes)
        for t in 0, length - 2, length - 1, 149:
            if t >= 150:
                continue
            found = ordered[0, t].view(length, classes)
            last = reader.ranks[ids[0, max(0, t - length + 1) : t + 1]]
            expected_rows = torch.nn.functional.one_hot(last, 64)[:, :classes].float()
            missing = torch.zeros(length - len(last), classes)
            assert torch.equal(found, torch.cat([missing, expected_rows]))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"moduli": ()}, "name one modulus or more, each once"),
        ({"moduli": (3, 5, 3)}, "name one modulus or more, each once"),
        ({"moduli": (3, 1)}, "a modulus is from 2 to 1000, not 1"),
        ({"moduli": (1001,)}, "a modulus is from 2 to 1000, not 1001"),
        ({"tested": 61}, "the number of test windows must be a multiple of 4"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^{message}$"):
        probe_scores(subject(), replace(HOW, **changes))


@pytest.mark.parametrize("context", [2, 3, 8, 64, 100, 1024, 2048])
def test_position_ranges_end_with_the_second_half(context: int) -> None:
    ranges = position_ranges(context)
    assert ranges[-1] == (context // 2, context)
    assert all(a < b for a, b in ranges)
    assert all(one[1] == after[0] for one, after in pairwise(ranges))


# Functions of n mod m


@pytest.mark.parametrize("m", [2, 3, 4, 5, 9, 13, 16, 61])
def test_fourier_modes_are_an_orthogonal_basis(m: int) -> None:
    basis = columns(m, "frequency")
    assert basis.shape == (m, m - 1)
    products = basis.T @ basis
    np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-9)
    assert np.diag(products).min() > 0.4
    np.testing.assert_allclose(basis.sum(0), 0, atol=1e-9)


@pytest.mark.parametrize("p", [3, 5, 7, 13, 61])
def test_characters_are_an_orthogonal_basis_of_the_units(p: int) -> None:
    basis = columns(p, "character")
    assert basis.shape == (p, p - 2)
    whole = np.column_stack([basis, np.arange(p) == 0, np.arange(p) > 0])
    products = whole.T @ whole
    np.testing.assert_allclose(products, np.diag(np.diag(products)), atol=1e-9)
    assert np.linalg.matrix_rank(whole) == p


@pytest.mark.parametrize("p", [3, 5, 7, 13, 61])
def test_characters_are_multiplicative(p: int) -> None:
    names, values, owners = functions(p)
    n = np.arange(p)
    products = np.outer(n, n) % p
    for index, name in enumerate(names):
        if name[0] == "character":
            parts = values[:, owners == index]
            character = parts[:, 0] + (1j * parts[:, 1] if parts.shape[1] == 2 else 0)
            expected = np.outer(character, character)
            np.testing.assert_allclose(character[products], expected, atol=1e-9)
            assert character[1] == 1 and character[0] == 0


@pytest.mark.parametrize("m", [2, 4, 9, 12])
def test_only_odd_primes_have_characters(m: int) -> None:
    assert not {name for name, _ in functions(m).names} & {"character"}


def columns(m: int, basis: str) -> Any:
    names, values, owners = functions(m)
    return values[:, [names[owner][0] == basis for owner in owners]]


# The summary


def test_summary_of_made_up_scores() -> None:
    how = ProbeSettings(
        moduli=(3, 4), places=(7,), windows=1, token_windows=1, tested=4, blocks=2, seeds=3
    )
    ranges = position_ranges(8)  # (1, 4), (4, 8)
    assert ranges == [(1, 4), (4, 8)]
    hits = np.zeros((3, 2, 2, 2, 4), np.int32)  # seeds, layers, ranges, moduli, windows
    hits[:, 0, 0, 0] = 3
    hits[:, 1, 1, 0] = [1, 2, 3, 2]
    hits[:, 1, 1, 1] = 4
    count = len(functions(3).names) + len(functions(4).names)
    errors, variances = np.ones((3, 2, count, 2)), np.full((count, 2), 2.0)
    errors[:, 1, 0] = 0  # layer 1, the first class modulo 3
    errors[:, 1, 2] = 0.2  # and the last one
    arrays = {
        f"{MODEL} 7": hits,
        f"errors {MODEL} 7": errors,
        "variances 7": variances,
        **{f"{name} 7": np.zeros((3, 1, 1, 2, 4), np.int32) for name in CONTROLS},
        **{f"errors {name} 7": np.full((3, 1, count, 2), 1.5) for name in TOKENS},
    }
    untrained = np.zeros((3, 2, 1, 2, 4), np.int32)
    untrained[:, 1] = [1, 2, 1, 0]
    arrays[f"{UNTRAINED} 7"] = untrained
    arrays[f"errors {UNTRAINED} 7"] = np.full((3, 2, count, 2), 1.0)
    arrays[f"errors {UNTRAINED} 7"][:, 0] = 0.8  # the best layer counts
    three, four = summarise([arrays], how, 8, 7)
    assert [[each.value for each in row] for row in three.layers] == [[1, 0], [0, 0.5]]
    assert [[each.value for each in row] for row in four.layers] == [[0, 0], [0, 1]]
    assert (three.best_layer, three.chance, four.chance) == (1, 1 / 3, 1 / 4)
    assert {name: each.value for name, each in three.controls.items()} == {
        **dict.fromkeys(CONTROLS, 0),
        UNTRAINED: 0.25,
    }
    assert three.margins[SHORTEST] == pytest.approx((0.5, 0.5, 0.5))
    # Blocks are the windows 0, 2 and 1, 3: the differences are 1/4, 1/4 in both.
    assert three.margins[UNTRAINED] == pytest.approx((0.25, 0.25, 0.25))
    assert three.explained["class"] == [[0.5, 0.5, 0.5], [1, 0.5, 0.9]]
    assert four.explained["class"] == [[0.5] * 4] * 2
    assert four.explained.keys() == {"class", "frequency"}
    assert three.ahead[MODEL] == pytest.approx((0.9, 0.9, 0.9))  # the last layer
    assert three.ahead[UNTRAINED] == pytest.approx((0.6, 0.6, 0.6))
    assert three.ahead[COUNTS] == pytest.approx((0.25, 0.25, 0.25))
    # Between the blocks, the windows 0, 2 and 1, 3, the means are equal.
    assert three.layers[1][1] == pytest.approx((0.5, 0.5, 0.5))


def test_the_mean_of_a_basis_is_that_of_every_other() -> None:
    """Of functions that are not constant, in the regressions of the planted model."""
    for modulus, found in decoded().items():
        for layer in range(LAYERS):
            mean = np.mean(found.explained["class"][layer])
            widths = np.bincount(functions(modulus).owners)
            names = [name for name, _ in functions(modulus).names]
            modes = [w for w, name in zip(widths, names, strict=True) if name == "frequency"]
            weighted = np.average(found.explained["frequency"][layer], weights=modes)
            assert weighted == pytest.approx(mean, abs=0.01)
