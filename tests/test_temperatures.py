"""The quality of continuations at several inverse temperatures, and the best of these."""

from collections.abc import Sequence
from dataclasses import fields
from math import inf

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import bootstrap

from arithmetext.evaluation.estimates import Estimate, ratio, resamples, with_seed_spread
from arithmetext.evaluation.generation import Continuations
from arithmetext.evaluation.prompts import TextPrompts
from arithmetext.evaluation.temperatures import (
    BestRange,
    BetaMeasures,
    Outside,
    best_range,
    beta_measures,
    difference,
    estimate,
    loss,
    other_text,
    resampled_measures,
)
from arithmetext.evaluation.words import accuracies, divergences
from arithmetext.text.sieve import Words

WORDS = np.array([2, 10, 12, 42, 0], np.uint64)


def continuations(seed: int, prompts: int = 30, right: float = 0.5) -> Continuations:
    """Prompts of 1 to 20 words, some of which are right."""
    random = np.random.default_rng(seed)
    lengths = np.random.default_rng(0).integers(1, 20, prompts)  # the same for all seeds
    true = [random.choice(WORDS[:4], n, p=[0.5, 0.3, 0.1, 0.1]) for n in lengths]
    guesses = [random.choice(WORDS, n) for n in lengths]
    predicted = [
        np.where(random.random(len(t)) < right, t, g) for t, g in zip(true, guesses, strict=True)
    ]
    return Continuations(torch.zeros(prompts, 1), predicted, true)


def test_measures_of_all_prompts_and_of_each_resample() -> None:
    made = continuations(1)
    found = resampled_measures([made, continuations(2)])
    fields_ = {field.name for field in fields(BetaMeasures)} - {"beta"}
    assert found.keys() == fields_
    assert all(values.shape == (2, 1001) for values in found.values())
    each = divergences(made.predicted, made.true)
    for row, weights in ((0, np.ones(30)), (17, resamples(30)[16])):
        chosen = np.repeat(np.arange(30), weights.astype(int))
        predicted, true = ([parts[k] for k in chosen] for parts in (made.predicted, made.true))
        pooled = divergences([np.concatenate(predicted)], [np.concatenate(true)])
        expected = {
            "accuracy": accuracies(predicted, true).mean(),
            "kl_paper": each.paper[chosen].mean(),
            "kl_left_out": each.left_out[chosen].mean(),
            "jensen_shannon": each.shannon[chosen].mean(),
            "kl_pooled": pooled.paper[0],
            "kl_pooled_left_out": pooled.left_out[0],
            "jensen_shannon_pooled": pooled.shannon[0],
            "malformed": (np.concatenate(predicted) == 0).mean(),
        }
        for name, value in expected.items():
            assert found[name][0, row] == pytest.approx(value, abs=1e-12)


def test_a_difference_is_paired() -> None:
    """The same prompts are compared: the interval is that of the differences of prompts."""
    made, other = continuations(1), continuations(1, right=0.6)
    one, two = (accuracies(c.predicted, c.true) for c in (made, other))
    values = [resampled_measures([c])["accuracy"] for c in (made, other)]
    found = estimate(values[0] - values[1])
    assert found == pytest.approx(ratio(one - two), abs=2e-3)  # up to the bias of 1000 resamples
    theirs = bootstrap((one - two,), np.mean, method="percentile", random_state=0)
    assert found.low == pytest.approx(theirs.confidence_interval.low, abs=5e-3)
    assert found.high == pytest.approx(theirs.confidence_interval.high, abs=5e-3)


def test_the_interval_of_a_biased_measure_holds_its_value() -> None:
    """A resampled divergence is too high, but its interval is around the divergence itself."""
    pooled = resampled_measures([continuations(3, prompts=12)])["jensen_shannon_pooled"]
    assert pooled[0, 1:].mean() > 1.05 * pooled[0, 0]
    found = estimate(pooled)
    assert found.value == pooled[0, 0]
    assert found.high - found.low == pytest.approx(
        np.diff(np.quantile(pooled[0, 1:], [0.025, 0.975]))
    )
    assert found.low < found.value < found.high


def test_seeds_are_averaged_and_widen_the_interval() -> None:
    each = [resampled_measures([continuations(seed)])["accuracy"] for seed in (1, 2, 3)]
    means = [float(values[0, 0]) for values in each]
    found = estimate(np.concatenate(each))
    over_prompts = estimate(np.mean(each, 0))
    assert found == with_seed_spread(over_prompts, means)
    assert found.value == pytest.approx(np.mean(means))


def test_a_divergence_below_0_is_no_better_than_one_above() -> None:
    values = np.array([[-0.2, 0.1]])
    assert loss("kl_paper", values).tolist() == [[0.2, 0.1]]
    assert loss("accuracy", values).tolist() == [[0.2, -0.1]]


def noisy(value: float, common: NDArray[np.float64]) -> NDArray[np.float64]:
    """One seed whose resamples share their noise with all other β."""
    return np.concatenate([[value], value + common])[None]


def test_a_range_of_best_betas() -> None:
    """Shared noise hides no difference; noise of its own hides a small one."""
    random = np.random.default_rng(0)
    common, own = random.normal(0, 0.1, (2, 1000))
    losses = {
        0.5: noisy(0.30, common),
        1.0: noisy(0.22, common),
        2.0: noisy(0.20, common),
        5.0: noisy(0.201, common + own),
        inf: noisy(0.19, common),
    }
    found = best_range(losses, 1.0, 2.0)
    assert (found.best, found.best_inside, found.neighbours) == (2.0, 2.0, [0.5, 5.0])
    assert [each.beta for each in found.outside] == [0.5, 5.0, inf]
    assert [each.worse.value for each in found.outside] == pytest.approx([0.1, 0.001, -0.01])
    clear, hidden, infinite = (each.worse for each in found.outside)
    assert clear == pytest.approx((0.1,) * 3) and infinite == pytest.approx((-0.01,) * 3)
    assert hidden.low < -0.1 and hidden.high > 0.1
    assert best_range(losses, 5.0, inf).neighbours == [2.0]


@pytest.mark.parametrize(
    ("worse", "expected"),
    [
        ({0.5: 0.3, 1.0: 0.1, 5.0: 0.1, inf: -1}, True),  # β = ∞ does not count
        ({0.5: -0.1, 1.0: 0.1, 5.0: 0.1}, False),
        ({0.5: -0.04, 1.0: 0.1, 5.0: 0.1}, True),  # better, but not by the margin
        ({0.5: 0.3, 1.0: 0.1, 5.0: -0.04}, None),  # a neighbour that is not worse
        ({0.5: 0.3, 1.0: 0.1, 5.0: 0.0}, None),
        ({0.5: -0.1, 1.0: 0.1, 5.0: 0.0}, False),
    ],
)
def test_a_range_is_best_up_to_a_margin(worse: dict[float, float], expected: bool | None) -> None:
    outside = [Outside(b, Estimate(w, w - 0.005, w + 0.005)) for b, w in worse.items()]
    assert BestRange(2.0, 2.0, [1.0, 5.0], outside).is_best(0.05) is expected


def test_a_wide_interval_decides_nothing() -> None:
    wide = Outside(1.0, Estimate(0.1, -0.2, 0.4))
    assert BestRange(2.0, 2.0, [1.0], [wide]).is_best(0.05) is None


def test_models_with_different_seeds_are_compared_over_the_same_prompts() -> None:
    one = resampled_measures([continuations(seed, right=0.6) for seed in (1, 2, 3)])["accuracy"]
    other = resampled_measures([continuations(seed) for seed in (1, 2)])["accuracy"]
    found = difference(one, other)
    assert found.value == pytest.approx(one[:, 0].mean() - other[:, 0].mean())
    paired = estimate((one.mean(0) - other.mean(0))[None])
    spread = (np.var(one[:, 0], ddof=1) / 3 * 4.303**2, np.var(other[:, 0], ddof=1) / 2 * 12.706**2)
    width = np.sqrt((found.value - paired.low) ** 2 + sum(spread))
    assert found.value - found.low == pytest.approx(width, rel=1e-3)


class Text(TextPrompts):
    """A text of these words after each prompt."""

    def __init__(self, words: list[Words]) -> None:
        self.words = words

    def true_words(self, counts: Sequence[int]) -> list[Words]:
        return [words[:count] for words, count in zip(self.words, counts, strict=True)]


def test_other_text_follows_the_words_of_other_prompts() -> None:
    text = [np.array([100 * k + i for i in range(9)], np.uint64) for k in range(3)]
    made = Continuations(
        torch.zeros(3, 1),
        [np.full(n, 2, np.uint64) for n in (1, 2, 3)],
        [words[: k + 1] for k, words in enumerate(text)],
    )
    found = other_text(Text(text), made, 1)
    assert [words.tolist() for words in found.predicted] == [[102], [203, 204], [1, 2, 3]]
    assert found.true == made.true


def test_other_text_has_the_accuracy_of_a_guess_and_the_noise_of_few_words() -> None:
    """Words with chances 0.5, 0.3, 0.1 and 0.1: a guess is right with the sum of their squares."""
    random = np.random.default_rng(0)
    text = [random.choice(WORDS[:4], 100, p=[0.5, 0.3, 0.1, 0.1]) for _ in range(500)]
    true = [words[:50] for words in text]
    made = Continuations(torch.zeros(500, 1), true, true)
    found = beta_measures(1.0, resampled_measures([other_text(Text(text), made, 10)]))
    assert found.accuracy.value == pytest.approx(0.36, abs=0.01)
    # Samples of n words of four kinds differ by 3 / n nats on average; pooled ones by less.
    assert found.kl_paper.value == pytest.approx(3 / 50, rel=0.2)
    assert 0 < found.kl_pooled.value < 0.002


def test_intervals_of_shares_stay_shares() -> None:
    """Two seeds that differ much would widen the interval beyond 0 and 1."""
    found = beta_measures(1.0, resampled_measures([continuations(1, right=r) for r in (0.1, 0.9)]))
    for share in (found.accuracy, found.malformed, found.kl_left_out, found.kl_pooled_left_out):
        assert isinstance(share, Estimate)
        assert 0 <= share.low <= share.value <= share.high <= 1
    assert found.kl_paper.low < 0  # a divergence is no share
    assert (found.beta, found.estimate("accuracy")) == (1.0, found.accuracy)
