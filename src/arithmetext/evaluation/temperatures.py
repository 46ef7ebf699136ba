"""The quality of continuations at several inverse temperatures β, and the best β.

Two β are compared prompt by prompt: every bootstrap resample draws the same prompts at each β and
for each seed (a paired bootstrap). So what makes a prompt easy or hard cancels in a difference.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .estimates import Estimate, above, all_decided_above, around, resamples, with_seed_spread
from .generation import Continuations
from .prompts import TextPrompts
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
    means = resampled.mean(0)
    return with_seed_spread(around(float(means[0]), means[1:]), resampled[:, 0].tolist())


def difference(one: Resampled, other: Resampled) -> Estimate:
    """The mean of one model minus that of another with its own seeds, for the same prompts."""
    paired = estimate((one.mean(0) - other.mean(0))[None])
    return with_seed_spread(with_seed_spread(paired, one[:, 0].tolist()), other[:, 0].tolist())


def other_text(prompts: TextPrompts, continuations: Continuations, shift: int) -> Continuations:
    """True words from `shift` prompts further on, in place of the generated words.

    They have the frequencies of the text and nothing of the prompt. So their accuracy is that of a
    random guess, and their divergence is the noise of frequencies from few words. They begin where
    the true words that are compared with end, so that no word is compared with itself when all
    prompts are taken together.
    """
    lengths = [len(words) for words in continuations.predicted]
    wanted = [lengths[i - shift] for i in range(len(lengths))]
    further = prompts.true_words([a + b for a, b in zip(lengths, wanted, strict=True)])
    after = [words[length:] for words, length in zip(further, lengths, strict=True)]
    return replace(continuations, predicted=[*after[shift:], *after[:shift]])


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


class Outside(NamedTuple):
    beta: float
    worse: Estimate  # how much worse it is than the best β of the range; paired


@dataclass(frozen=True)
class BestRange:
    """A range of finite β that is said to be best, beside the other β."""

    best: float  # of all finite β
    best_inside: float  # of the range
    neighbours: list[float]  # the finite β just below and just above the range
    outside: list[Outside]  # also β = ∞

    def is_best(self, margin: float) -> bool | None:
        """Whether the finite β of the range are best, up to a margin; None if not decided.

        True if no other β is better than the best of the range by the margin, and the neighbours
        are worse. False if one is better by the margin.
        """
        worse = {each.beta: each.worse for each in self.outside if each.beta < inf}
        by_margin = all_decided_above(worse.values(), -margin)
        if not by_margin:
            return by_margin
        return True if all(above(worse[beta], 0) for beta in self.neighbours) else None


def best_range(losses: Mapping[float, Resampled], least: float, greatest: float) -> BestRange:
    """Compare the β from `least` to `greatest` with the others; lower losses are better."""
    finite = [beta for beta in losses if beta < inf]
    inside = [beta for beta in finite if least <= beta <= greatest]
    means = {beta: float(values[:, 0].mean()) for beta, values in losses.items()}
    best, best_inside = (min(some, key=means.__getitem__) for some in (finite, inside))
    below, beyond = [b for b in finite if b < least], [b for b in finite if b > greatest]
    return BestRange(
        best,
        best_inside,
        [*below[-1:], *beyond[:1]],
        [
            Outside(beta, estimate(values - losses[best_inside]))
            for beta, values in losses.items()
            if beta not in inside
        ],
    )
