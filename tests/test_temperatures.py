"""The quality of continuations at several inverse temperatures, and the best of these."""

from dataclasses import fields
from math import inf

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import bootstrap

from arithmetext.evaluation.estimates import Estimate, ratio, resamples, with_seed_spread
from arithmetext.evaluation.generation import Continuations
from arithmetext.evaluation.temperatures import (
    BestRange,
    BetaMeasures,
    best_range,
    beta_measures,
    estimate,
    loss,
    resampled_measures,
)
from arithmetext.evaluation.words import accuracies, divergences

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
    assert best_range(losses, 1.0, 2.0) == BestRange(
        best=inf, best_inside=2.0, as_good=[5.0, inf], better_outside=[inf], worse_outside=[0.5]
    )
    assert best_range(losses, 5.0, inf) == BestRange(
        best=inf, best_inside=inf, as_good=[5.0, inf], better_outside=[], worse_outside=[]
    )


def test_intervals_of_shares_stay_shares() -> None:
    """Two seeds that differ much would widen the interval beyond 0 and 1."""
    found = beta_measures(1.0, resampled_measures([continuations(1, right=r) for r in (0.1, 0.9)]))
    for share in (found.accuracy, found.malformed, found.kl_left_out, found.kl_pooled_left_out):
        assert isinstance(share, Estimate)
        assert 0 <= share.low <= share.value <= share.high <= 1
    assert found.kl_paper.low < 0  # a divergence is no share
    assert (found.beta, found.estimate("accuracy")) == (1.0, found.accuracy)
