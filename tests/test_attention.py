"""Attention by distance in integers: distances, sums over pairs of tokens, and periods."""

import json
from functools import cache
from itertools import accumulate

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from arithmetext.evaluation.attention import (
    ORIGINS,
    AttentionByDistance,
    begins,
    by_distance,
)
from arithmetext.evaluation.codec import to_json
from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.evaluation.heads import clearest_head, last_token, peaks_at_multiples, swing
from arithmetext.models.gpt import GPT, HEAD_DIM, GPTConfig, watching
from arithmetext.text.sieve import words
from arithmetext.tokens import BPE, Tokenizer, WordTokens

VOCABULARY, CONTEXT = 64, 32

each_kind_of_tokens = pytest.mark.parametrize("kind", ["bpe", "words"])


@cache
def tokenizer(kind: str) -> Tokenizer:
    if kind == "words":
        return WordTokens.commonest(VOCABULARY)
    return BPE.train(VOCABULARY, ranges=[(2, 10**6)], lines=64)


@cache
def make(layers: int = 1) -> GPT:
    """A model whose attention is far from uniform."""
    torch.manual_seed(0)
    config = GPTConfig(layers=layers, heads=2, context=CONTEXT)
    model = GPT(config, vocabulary=VOCABULARY, causal=True).requires_grad_(False).double()
    for parameter in model.parameters():
        parameter += 0.1 * torch.randn_like(parameter)
    return model


def window(kind: str, n: int, skipped: int = 0, length: int = CONTEXT) -> Tensor:
    """Tokens of the text from n on, without the first `skipped`."""
    ids = tokenizer(kind).encode(words(n, n + 200))[skipped : skipped + length]
    assert len(ids) == length
    return torch.from_numpy(ids.astype(np.int64))


@st.composite
def places(draw: st.DrawFn) -> tuple[int, int, int]:
    return draw(st.integers(2, 10**9)), draw(st.integers(0, 20)), draw(st.integers(4, CONTEXT))


def integers(kind: str, ids: Tensor) -> list[int]:
    """How many words end before the first digit in or after each token."""
    tokens = [tokenizer(kind).vocabulary[token] for token in ids.tolist()]
    text = "".join(tokens) + "1"
    starts = accumulate(map(len, tokens[:-1]), initial=0)
    digits = [next(i for i in range(start, len(text)) if text[i] != " ") for start in starts]
    return [text[:digit].count(" ") for digit in digits]


# The integer that a token begins in


def test_a_leading_space_ends_the_word_before() -> None:
    made = BPE([(2, 1), (3, 3), (0, 4), (3, 0)])
    ids = [made.vocabulary.index(token) for token in ("10 ", "1010", " 1010", " ", "10", " 1010")]
    assert begins(made, np.array(ids)).tolist() == [0, 1, 2, 3, 3, 4]


@each_kind_of_tokens
@given(places())
def test_a_token_begins_with_its_first_digit(kind: str, place: tuple[int, int, int]) -> None:
    ids = window(kind, *place)
    assert begins(tokenizer(kind), ids.numpy()).tolist() == integers(kind, ids)


# Sums by distance


def test_patterns_are_the_softmax_of_queries_and_keys() -> None:
    ids = window("bpe", 10**6)
    with watching(make(2), "*.queries", "*.keys") as seen:
        make(2)(ids[None])
    found = make(2).attention(ids)
    assert found.shape == (2, 2, CONTEXT, CONTEXT)
    for layer in range(2):
        queries, keys = (
            seen[f"blocks.{layer}.attention.{which}"][0] for which in ("queries", "keys")
        )
        for last in range(CONTEXT):
            scores = (keys[:, : last + 1] @ queries[:, last, :, None])[..., 0] / HEAD_DIM**0.5
            expected = scores.softmax(-1).float()
            torch.testing.assert_close(found[layer, :, last, : last + 1], expected)
            assert not found[layer, :, last, last + 1 :].any()


@each_kind_of_tokens
@settings(max_examples=25)
@given(places(), st.integers(0, 40))
def test_every_pair_is_counted_once(kind: str, place: tuple[int, int, int], farthest: int) -> None:
    windows = torch.stack([window(kind, *place), window(kind, 10**7, 3, place[-1])])
    looked = by_distance(make(), tokenizer(kind), windows, farthest)
    assert tuple(looked) == ORIGINS
    for i, ids in enumerate(windows):
        weights, where = make().attention(ids).numpy().astype(np.float64), integers(kind, ids)
        for ahead, origin in enumerate(ORIGINS):
            sums, counts = np.zeros((1, 2, farthest + 1)), np.zeros(farthest + 1, np.int64)
            for query in range(len(ids) // 2, len(ids) - 1):
                for key in range(query + 1):
                    distance = where[query + ahead] - where[key]
                    if distance <= farthest:
                        counts[distance] += 1
                        sums[..., distance] += weights[:, :, query, key] * (query + 1)
            assert looked[origin].counts[i].tolist() == counts.tolist()
            np.testing.assert_allclose(looked[origin].sums[i], sums, rtol=1e-9, atol=1e-12)


@each_kind_of_tokens
def test_uniform_attention_is_1_at_every_distance(kind: str) -> None:
    model = GPT(make().config, vocabulary=VOCABULARY, causal=True)
    torch.nn.init.zeros_(model.blocks[0].attention.qkv.weight)
    windows = torch.stack([window(kind, n) for n in (10**5, 10**6, 10**7)])
    for looked in by_distance(model, tokenizer(kind), windows, 20).values():
        curves, some = looked.curves(), looked.counts.sum(0) > 0
        assert some[1:8].all()
        np.testing.assert_allclose(curves, np.where(some, np.ones((1, 2, 21)), np.nan), rtol=1e-6)
    # And it is not so by itself.
    others = by_distance(make(), tokenizer(kind), windows, 7)
    assert all(np.abs(looked.curves()[..., 1:] - 1).max() > 0.1 for looked in others.values())


# Periods


@given(st.data())
def test_the_swing_ignores_the_trend(data: st.DataObject) -> None:
    period = data.draw(st.integers(2, 7))
    values = st.floats(-10, 10)
    waves = data.draw(st.lists(st.lists(values, min_size=period, max_size=period), min_size=1))
    slope, level = data.draw(values), data.draw(values)
    distances = np.arange(data.draw(st.integers(2 * period, 60)))
    curves = np.array(waves)[:, distances % period] + slope * distances + level
    np.testing.assert_allclose(swing(curves, period), np.ptp(waves, axis=1), atol=1e-9)


def test_a_curve_without_the_period_has_no_swing() -> None:
    distances = np.arange(12 * 5 + 4)
    assert swing(0.9**distances, 4) < 0.01 < 0.5 < swing(0.9**distances + (distances % 4 == 0), 4)
    # Another period has all of its values at each residue.
    assert swing(np.array([0.0, 5.0, 1.0])[distances % 3], 4) == pytest.approx(0, abs=1e-9)
    for place in distances:
        assert swing(100.0 * (distances == place), 4) == 0


def test_the_head_is_chosen_in_one_half_and_measured_in_the_other() -> None:
    """One head has a large swing in the first windows only, another a small one in all windows."""
    distances = np.arange(41)
    counts = np.random.default_rng(0).integers(1, 9, (8, 41))
    means = np.ones((8, 2, 3, 41))
    means[:4, 1, 0] += distances % 4 == 0
    means[:, 0, 2] += 0.5 * (distances % 4 == 1)
    counts[:, 0] = 0  # as it is with a token for each word
    looked = AttentionByDistance(means * counts[:, None, None], counts)
    # From the other origin a head is clear in the windows that are shown, which does not count.
    late = AttentionByDistance(looked.sums[::-1].copy(), looked.counts[::-1].copy())
    origin, found = clearest_head({"late": late, "looked": looked}, 4)
    assert origin == "looked"
    assert (found.layer, found.head) == (1, 0)
    assert found.swing == pytest.approx(0, abs=1e-9)
    assert found.periodic[0].value is None
    assert [each.value for each in found.periodic[1:]] == pytest.approx([1] * 40)

    # Pairs count alike, not windows.
    pairs, early = counts.sum(0)[1:], counts[:4].sum(0)[1:]
    waves = [0.5 * (distances % 4 == 1)[1:], (distances % 4 == 0)[1:] * early / pairs]
    expected = 1 + np.array(waves) / 3
    assert [each.value for each in found.all_heads[1:]] == pytest.approx(expected.mean(0))
    assert json.loads(json.dumps(to_json(found)))["all_heads"][0]["value"] is None


def test_peaks_at_multiples_are_counted() -> None:
    values = [9, 1, 1, 1, 3, 1, 1, 4, 2, 1, 1, 1, 1.5, 1, 1, 1, 8]
    curve = [Estimate(value, value, value) for value in values]
    assert peaks_at_multiples(curve, 4) == (2, 3)  # 4 and 12, not 8; 16 has one neighbour
    curve[13] = UNKNOWN
    assert peaks_at_multiples(curve, 4) == (1, 3)


def test_attention_to_the_last_token_itself_does_not_count() -> None:
    layers = np.array([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3], [0.1, 0.2, 0.7]])
    found = last_token(layers[:, None] + np.array([0.1, -0.1])[:, None])  # two heads
    assert found.layers == [pytest.approx(row) for row in layers.tolist()]
    assert found.mean == pytest.approx([0.3, 0.2, 0.5])
    assert (found.most, found.largest) == (1, pytest.approx(0.3))
