"""The quality of continuations at several inverse temperatures, and the best of these."""

from dataclasses import fields
from math import inf

import numpy as np
import pytest
import torch
from scipy.stats import bootstrap

from arithmetext.evaluation.estimates import UNKNOWN, Estimate, ratio, resamples, with_seed_spread
from arithmetext.evaluation.evaluate import Quality, quality
from arithmetext.evaluation.generation import Continuations, continue_prompts
from arithmetext.evaluation.prompts import draw
from arithmetext.evaluation.temperatures import (
    BestBeta,
    BetaMeasures,
    BetaQuality,
    best_beta,
    estimate,
    loss,
    quality_by_beta,
    resampled_measures,
)
from arithmetext.evaluation.words import accuracies, divergences
from arithmetext.models.ngram import NGram
from arithmetext.tokens import WordTokens

AT = 10**8


def row(beta: float, measure: str, value: float) -> BetaQuality:
    unknown = {field.name: UNKNOWN for field in fields(Quality)}
    known = {measure: Estimate(value, value - 0.01, value + 0.01)}
    return BetaQuality(**unknown | known, beta=beta)


def rows(measure: str, values: dict[float, float]) -> list[BetaQuality]:
    return [row(beta, measure, value) for beta, value in values.items()]


def test_the_best_beta_and_those_as_good() -> None:
    """A divergence is best where it is nearest to 0; β are as good if their intervals overlap."""
    accuracy = rows("accuracy", {0.1: 0.1, 1: 0.4, 5: 0.385, inf: 0.37})
    assert best_beta(accuracy, "accuracy") == BestBeta(1, [1, 5])
    divergence = rows("kl_paper", {0.1: -0.2, 1: 0.05, 5: 0.08})
    assert best_beta(divergence, "kl_paper") == BestBeta(1, [1])
    negative = rows("jensen_shannon", {0.1: -0.01, 1: 0.02, inf: 0.005})
    assert best_beta(negative, "jensen_shannon") == BestBeta(inf, [0.1, 1, inf])


def test_quality_is_that_of_the_continuations_at_each_beta() -> None:
    tokens = WordTokens.commonest(64)
    model = NGram.count(2, tokens=tokens, words=10**5)
    prompts = draw(tokens, (AT, AT + 10**5), number=8, length=16, following=16, seed=0)
    found = quality_by_beta(model, prompts, 16, (0.5, inf), seed=3, stride=1)
    assert [each.beta for each in found] == [0.5, inf]
    for each in found:
        made = continue_prompts(model, prompts, 16, beta=each.beta, seed=3)
        assert each == BetaQuality(**vars(quality(made)), beta=each.beta)
    assert found[0] != found[1]


# The paired bootstrap

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
