"""What filters look for, on filters with known combs."""

from math import gcd

import numpy as np
import pytest
import torch
from torch import Tensor

from arithmetext.evaluation import filters
from arithmetext.evaluation.filters import (
    PERIODS,
    PRIMES,
    WindowSettings,
    comb_power,
    damage,
    harmonics,
    losses_by_context,
    losses_without,
    without,
    without_frequencies,
)
from arithmetext.evaluation.scoring import score
from arithmetext.evaluation.subjects import EvaluatedModel
from arithmetext.models.config import LongConvConfig
from arithmetext.models.longconv import LongConv
from arithmetext.text.splits import TRAINED_TO, splits
from arithmetext.tokens import WordTokens

TAPS = 3000
HOW = WindowSettings(at=98 * 10**9, windows=4, blocks=2, seed=0)


def comb(period: int) -> Tensor:
    return (torch.arange(TAPS) % period == 0).float()


def noise(channels: int = 8) -> Tensor:
    return torch.randn(channels, TAPS, generator=torch.Generator().manual_seed(0))


@pytest.fixture(scope="module")
def model() -> EvaluatedModel:
    """A random model whose filters are noise and combs of 5 and 7."""
    torch.manual_seed(0)
    network = LongConv(LongConvConfig(layers=2, width=8, context=256), vocabulary=64).eval()
    with torch.no_grad():
        for block in network.blocks:
            block.filter[0, 0] += comb(5)[:256]
            block.filter[1, 0] += comb(7)[:256]
    text = splits(TRAINED_TO)
    tokenizer = WordTokens.commonest(64)
    return EvaluatedModel("tiny", network, tokenizer, 256, text.train, text.seen)


def test_noise_has_power_one() -> None:
    for period in (2, 3, 10, 61):
        assert comb_power(noise(400), period) == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize("period", [3, 7, 16, 61])
def test_a_comb_has_power_at_its_divisors_alone(period: int) -> None:
    filters = (comb(period) - 1 / period)[None]
    for q in range(2, 70):
        if period % q == 0:
            assert comb_power(filters, q) > 20
        elif gcd(period, q) < q:
            assert comb_power(filters, q) < 0.1


def test_a_period_is_removed_and_no_other() -> None:
    both = torch.stack([comb(5), comb(7)])
    left = without(both, harmonics(5))
    torch.testing.assert_close(left[0], torch.full((TAPS,), 0.2), atol=1e-3, rtol=0)
    torch.testing.assert_close(left[1], both[1], atol=0.02, rtol=0)
    again = without(left, harmonics(5))
    torch.testing.assert_close(again, left, atol=1e-5, rtol=0)


def test_an_even_period_has_a_frequency_of_one_half() -> None:
    torch.testing.assert_close(
        without(comb(2)[None], harmonics(2)), torch.full((1, TAPS), 0.5), atol=1e-3, rtol=0
    )


def test_filters_come_back(model: EvaluatedModel) -> None:
    network = model.model
    assert isinstance(network, LongConv)
    before = [block.filter.detach().clone() for block in network.blocks]
    with pytest.raises(ZeroDivisionError), without_frequencies(network, harmonics(5)):
        assert not torch.equal(network.blocks[1].filter, before[1])
        raise ZeroDivisionError
    for block, filter in zip(network.blocks, before, strict=True):
        assert torch.equal(block.filter, filter)


def test_words_are_grouped_by_their_only_prime(model: EvaluatedModel) -> None:
    """Counted again, integer by integer; the losses of all groups belong to these words."""
    arrays = losses_without(model, HOW)
    text = filters.windows_near(model, HOW.at, number=4, blocks=2, seed=0)
    expected = np.zeros((len(PRIMES) + 1, 4))
    for window, (ids, integers) in enumerate(zip(text.ids, text.integers, strict=True)):
        for token, n in zip(ids.tolist()[128:], integers.tolist()[128:], strict=True):
            primes = [p for p in PRIMES if n % p == 0]
            if len(primes) < 2:
                group = PRIMES.index(primes[0]) if primes else len(PRIMES)
                expected[group, window] += model.tokenizer.words_ended[token]
    assert np.array_equal(arrays["words"], expected)
    assert arrays["removed"].shape == arrays["random"].shape == (len(PERIODS), *expected.shape)
    # Without the comb of 5 or 7 the losses change more than without another period.
    moved = np.abs(arrays["removed"] - arrays["loss"]).sum((1, 2))
    assert sorted(moved.argsort()[-2:]) == [PERIODS.index(25), PERIODS.index(49)]


def test_damage_is_the_loss_beyond_that_of_the_whole_model() -> None:
    shape = (len(PRIMES) + 1, 6)
    loss, words = np.full(shape, 12.0), np.full(shape, 10.0)
    removed = np.stack([loss + 5.0 * (np.arange(shape[0]) == k)[:, None] for k in range(2)])
    rows = damage({"loss": loss, "words": words, "removed": removed}, "removed")
    assert [[e.value for e in row[:3]] for row in rows] == [[0.5, 0, 0], [0, 0.5, 0]]


def test_losses_by_context_are_those_of_scores(model: EvaluatedModel) -> None:
    arrays = losses_by_context(model, HOW)
    text = filters.windows_near(model, HOW.at, number=4, blocks=2, seed=0)
    nats = -score(model.model, text.ids).logs
    ended = model.tokenizer.words_ended[text.ids.numpy()]
    assert arrays["nats"].shape == (8, 4)
    for k in range(8):
        part = slice(2**k, 2 ** (k + 1))  # tokens with so many tokens before them
        np.testing.assert_allclose(
            arrays["nats"][k], nats[:, part.start - 1 : part.stop - 1].sum(1)
        )
        assert np.array_equal(arrays["words"][k], ended[:, part].sum(1))
