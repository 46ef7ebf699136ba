"""The quality of continuations at several inverse temperatures β, and the best β.

Two β are compared prompt by prompt: every bootstrap resample draws the same prompts at each β and
for each seed (a paired bootstrap). So what makes a prompt easy or hard cancels in a difference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .estimates import LEVEL, Estimate, above, resamples, with_seed_spread
from .generation import Continuations
from .words import accuracies, divergences, malformed

# A measure of all prompts (column 0) and of each resample of them: [seeds, 1 + resamples].
Resampled = NDArray[np.float64]


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


def beta_measures(beta: float, measures: Mapping[str, Resampled]) -> BetaMeasures:
    """The estimates of all measures; intervals of shares stay between 0 and 1."""
    found = {name: estimate(values) for name, values in measures.items()}
    for name in ("accuracy", "malformed", "kl_left_out", "kl_pooled_left_out"):
        value, low, high = found[name]
        found[name] = Estimate(value, max(0.0, low or 0.0), min(1.0, high or 0.0))
    return BetaMeasures(beta, **found)


def loss(measure: str, resampled: Resampled) -> Resampled:
    """Lower is better. The best divergence is 0; a sum that leaves out words may be below."""
    return -resampled if measure == "accuracy" else np.abs(resampled)


@dataclass(frozen=True)
class BestRange:
    """A range of β that is said to be best beside the other β, by paired differences.

    "Better" and "worse" mean that the interval of the difference does not reach 0.
    """

    best: float  # of all β
    best_inside: float  # of the range
    as_good: list[float]  # all β that are not worse than the best
    better_outside: list[float]  # β outside that are better than the best inside
    worse_outside: list[float]  # β outside that are worse than every β inside


def best_range(losses: Mapping[float, Resampled], least: float, greatest: float) -> BestRange:
    """Compare the β from `least` to `greatest` with the others; lower losses are better."""

    def worse(beta: float, other: float) -> bool:
        return above(estimate(losses[beta] - losses[other]), 0)

    inside = [beta for beta in losses if least <= beta <= greatest]
    outside = [beta for beta in losses if beta not in inside]
    means = {beta: float(values[:, 0].mean()) for beta, values in losses.items()}
    best, best_inside = (min(some, key=means.__getitem__) for some in (losses, inside))
    return BestRange(
        best,
        best_inside,
        as_good=[beta for beta in losses if not worse(beta, best)],
        better_outside=[beta for beta in outside if worse(best_inside, beta)],
        worse_outside=[b for b in outside if all(worse(b, other) for other in inside)],
    )
