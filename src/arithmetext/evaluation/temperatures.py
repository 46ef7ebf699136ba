"""The quality of continuations at several inverse temperatures β, and the best β.

Two β are compared prompt by prompt: every bootstrap resample draws the same prompts at each β and
for each seed (a paired bootstrap). So what makes a prompt easy or hard cancels in a difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..models.language import LanguageModel
from .estimates import LEVEL, Estimate, intervals_overlap, resamples, with_seed_spread
from .evaluate import Quality, quality
from .generation import Continuations, continue_prompts
from .prompts import TextPrompts
from .words import accuracies, divergences, malformed

# A measure of all prompts (column 0) and of each resample of them: [seeds, 1 + resamples].
Resampled = NDArray[np.float64]


@dataclass(frozen=True)
class BetaQuality(Quality):
    """The continuations at one inverse temperature."""

    beta: float

    def estimate(self, measure: str) -> Estimate:
        """The estimate of a measure by its name."""
        estimate: Estimate = getattr(self, measure)
        return estimate

    def merit(self, measure: str) -> float:
        """Higher is better. The best divergence is 0; a sum that leaves out words may be below."""
        value = self.estimate(measure).value or 0
        return value if measure == "accuracy" else -abs(value)


def quality_by_beta(
    model: LanguageModel,
    prompts: TextPrompts,
    count: int,
    betas: Sequence[float],
    *,
    seed: int,
    stride: int,
) -> list[BetaQuality]:
    """Continue the prompts by `count` tokens at each β."""
    rows = []
    for beta in betas:
        continuations = continue_prompts(model, prompts, count, beta=beta, seed=seed, stride=stride)
        rows.append(BetaQuality(**vars(quality(continuations)), beta=beta))
    return rows


@dataclass(frozen=True)
class BestBeta:
    """The β with the best value of a measure, and all β whose intervals overlap its interval."""

    beta: float
    as_good: list[float]


def best_beta(rows: Sequence[BetaQuality], measure: str) -> BestBeta:
    best = max(rows, key=lambda row: row.merit(measure))
    interval = best.estimate(measure)
    as_good = [row.beta for row in rows if intervals_overlap(row.estimate(measure), interval)]
    return BestBeta(best.beta, as_good)


@dataclass(frozen=True)
class BetaMeasures:
    """The continuations at one β, with intervals over prompts and seeds.

    Divergences compare word frequencies of single prompts (and are averaged over them) or the
    frequencies in all prompts together ("pooled"); see `words.Divergences`.
    """

    beta: float
    accuracy: Estimate
    malformed: Estimate
    kl_paper: Estimate
    kl_left_out: Estimate
    kl_pooled: Estimate
    kl_pooled_left_out: Estimate
    jensen_shannon: Estimate
    jensen_shannon_pooled: Estimate

    def estimate(self, measure: str) -> Estimate:
        """The estimate of a measure by its name."""
        estimate: Estimate = getattr(self, measure)
        return estimate


def resampled_measures(by_seed: Sequence[Continuations]) -> dict[str, Resampled]:
    """Every measure of the same prompts, continued by a model of each seed."""
    measures = [_of_one_seed(continuations) for continuations in by_seed]
    return {name: np.stack([each[name] for each in measures]) for name in measures[0]}


def _of_one_seed(continuations: Continuations) -> dict[str, NDArray[np.float64]]:
    predicted, true = continuations.predicted, continuations.true
    prompts = len(predicted)
    weights = np.vstack([np.ones(prompts), resamples(prompts)])
    each, pooled = divergences(predicted, true), divergences(predicted, true, weights)
    wrong, words = malformed(predicted)
    means = {
        "accuracy": accuracies(predicted, true),
        "kl_paper": each.paper,
        "kl_left_out": each.left_out,
        "jensen_shannon": each.shannon,
    }
    return {name: weights @ values / prompts for name, values in means.items()} | {
        "malformed": weights @ wrong / np.maximum(1, weights @ words),
        "kl_pooled": pooled.paper,
        "kl_pooled_left_out": pooled.left_out,
        "jensen_shannon_pooled": pooled.shannon,
    }


def estimate(resampled: Resampled) -> Estimate:
    """The mean over seeds, with an interval over prompts and seeds.

    Resamples of a divergence are biased: repeated prompts make frequencies differ more. So the
    resamples are moved to have the value as their mean.
    """
    value, *others = resampled.mean(0).tolist()
    low, high = np.quantile(others, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) - np.mean(others)
    pooled = Estimate(value, value + min(0, float(low)), value + max(0, float(high)))
    return with_seed_spread(pooled, resampled[:, 0].tolist())


def loss(measure: str, resampled: Resampled) -> Resampled:
    """Lower is better. The best divergence is 0; a sum that leaves out words may be below."""
    return -resampled if measure == "accuracy" else np.abs(resampled)
