"""How well likelihoods separate the text from other sequences: statistics.

They are apart from the code that scores sequences, so that a change here does not invalidate
likelihoods that were kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import NamedTuple

import numpy as np

from .estimates import (
    LEVEL,
    RESAMPLES,
    UNKNOWN,
    Estimate,
    Z,
    ratio,
    share,
    wilson,
)
from .likelihood import ControlComparison, Values
from .seeds import over_seeds
from .square_free import LONGEST_RUN, RUNS, Bools, Indices, RunLikelihoods, Stretches

# Runs that occur, whose prompts should be as likely as the text. By residue, runs of two are
# improbable by construction: of three integers between multiples of 4, one always has a word that
# is not square-free; in the text, if none is divisible by 9, all three are square-free in about 3
# of 4 cases.
SHORT_RUNS: dict[str, tuple[int, ...]] = {
    "by frequency": (2, 3),
    "by residue": (3,),
    "inserted": (2, 3),
}
LOW = 0.025  # share of the true prompts below the bulk; as many are above it

_BISECTIONS = 60  # of the interval from 0 to 1: to beyond the precision of a float


# Controls


class ControlSummary(NamedTuple):
    """How well the likelihood tells sequences of the text from sequences of a control."""

    length: int  # tokens of each
    control: str
    true: Estimate  # mean log-likelihood per token
    other: Estimate
    auc: Estimate  # area under the ROC curve
    paired: Estimate  # share of places where the text is likelier


@dataclass(frozen=True)
class Distributions:
    """Log-likelihoods per token of the text and of a control, and how far they overlap."""

    length: int
    true: list[float]
    other: list[float]
    overlap: float  # see `overlap`
    distance: float  # see `standardised_difference`
    disjoint: bool  # every sequence of the text is likelier than all of the control


def summarise_control(compared: ControlComparison) -> ControlSummary:
    length, control, true, other = compared
    return ControlSummary(
        length, control, mean(true), mean(other), auc(true, other), paired(true, other)
    )


def controls_over_seeds(seeds: Sequence[ControlComparison]) -> ControlSummary:
    """The mean over models trained with different seeds; all have the same control."""
    summaries = [summarise_control(each) for each in seeds]
    return ControlSummary(
        summaries[0].length,
        summaries[0].control,
        over_seeds([each.true for each in summaries]),
        over_seeds([each.other for each in summaries]),
        over_seeds([each.auc for each in summaries], 0, 1),
        over_seeds([each.paired for each in summaries], 0, 1),
    )


def distributions(compared: ControlComparison) -> Distributions:
    true, other = compared.true.round(4), compared.other.round(4)
    return Distributions(
        compared.length,
        true.tolist(),
        other.tolist(),
        overlap(true, other),
        standardised_difference(true, other),
        disjoint=bool(other.max() < true.min()),
    )


# Runs of square-free words


class RunSummary(NamedTuple):
    """Prompts with runs of one length."""

    run: int
    mean: Estimate  # log-likelihood per token
    auc: Estimate  # are true prompts likelier?
    above_low: Estimate  # share likelier than the least likely 2.5 % of the true prompts
    in_bulk: Estimate  # share between the 2.5 % and the 97.5 % quantile of the true prompts


class RunsSummary(NamedTuple):
    true: Estimate  # mean log-likelihood per token of true prompts
    runs: list[RunSummary]
    separation: Estimate  # are `SHORT_RUNS` likelier than runs that never occur? the least area


def summarise_runs(scored: RunLikelihoods) -> RunsSummary:
    drawn = _resampled_numbers(len(scored.true))
    low, high = np.quantile(scored.true[drawn], [LOW, 1 - LOW], axis=1)[..., None]

    def summarise(run: int, values: Values) -> RunSummary:
        above = values[drawn] >= low
        inside = above & (values[drawn] <= high)
        area = auc(scored.true, values)
        return RunSummary(run, mean(values), area, _share(above), _share(inside))

    return RunsSummary(
        mean(scored.true),
        [summarise(run, values) for run, values in scored.runs.items()],
        min(
            auc(scored.runs[short], scored.runs[long])
            for short in SHORT_RUNS[scored.way]
            for long in RUNS
            if long > LONGEST_RUN
        ),
    )


@lru_cache(4)
def _resampled_numbers(prompts: int) -> Indices:
    """Numbers of prompts, [1 + resamples, prompts]: all prompts, then bootstrap resamples.

    True and made prompts with the same number share their text, so they are drawn together, and
    each resample has quantiles of its own.
    """
    drawn = np.random.default_rng(0).integers(prompts, size=(RESAMPLES, prompts))
    return np.vstack([np.arange(prompts), drawn])


def _share(hits: Bools) -> Estimate:
    """The share of hits in the first row; its interval is from the other rows, the resamples.

    Where none or all are hits, the bootstrap would have no width, and the interval is Wilson's.
    """
    value, *resampled = hits.mean(1).tolist()
    if value in (0, 1):
        return wilson(value * hits.shape[1], hits.shape[1])
    low, high = np.quantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]).tolist()
    return Estimate(value, min(value, low), max(value, high))


def runs_over_seeds(seeds: Sequence[RunLikelihoods]) -> RunsSummary:
    """The mean over models trained with different seeds; all have the same prompts."""
    summaries = [summarise_runs(each) for each in seeds]
    by_run = zip(*(each.runs for each in summaries), strict=True)
    return RunsSummary(
        over_seeds([each.true for each in summaries]),
        [
            RunSummary(
                same[0].run,
                over_seeds([each.mean for each in same]),
                over_seeds([each.auc for each in same], 0, 1),
                over_seeds([each.above_low for each in same], 0, 1),
                over_seeds([each.in_bulk for each in same], 0, 1),
            )
            for same in by_run
        ],
        over_seeds([each.separation for each in summaries], 0, 1),
    )


# Stretches of four words


class StretchesSummary(NamedTuple):
    """Means over places; `auc` and `paired` ask whether the impossible stretch is less likely."""

    asked: int  # places that were tried
    left: int  # places that have stretches of all kinds; the means are over these
    nats: dict[str, Estimate]  # by kind
    auc: dict[str, Estimate]
    paired: dict[str, Estimate]


def summarise_stretches(stretches: Stretches) -> StretchesSummary:
    impossible = -stretches.nats["impossible"]
    others = {kind: -stretches.nats[kind] for kind in ("here", "elsewhere")}
    return StretchesSummary(
        asked=stretches.asked,
        left=len(impossible),
        nats={kind: mean(values) for kind, values in stretches.nats.items()},
        auc={kind: auc(values, impossible) for kind, values in others.items()},
        paired={kind: paired(values, impossible) for kind, values in others.items()},
    )


def stretches_over_seeds(seeds: Sequence[Stretches]) -> StretchesSummary:
    """The mean over models trained with different seeds; all have the same places."""
    summaries = [summarise_stretches(each) for each in seeds]
    first = summaries[0]
    areas, pairs = (
        {kind: over_seeds([of[kind] for of in each], 0, 1) for kind in each[0]}
        for each in ([one.auc for one in summaries], [one.paired for one in summaries])
    )
    nats = {kind: over_seeds([each.nats[kind] for each in summaries]) for kind in first.nats}
    return StretchesSummary(first.asked, first.left, nats, areas, pairs)


# Statistics of two samples


def mean(values: Values) -> Estimate:
    """The mean; UNKNOWN if a value is infinite, that is, a sequence has probability 0."""
    return ratio(values)


def auc(true: Values, other: Values) -> Estimate:
    """The area under the ROC curve: P(true > other) + ½ P(true = other).

    The interval is method 5 of Newcombe (2006), a score interval. It has a positive width even if
    the area is 0 or 1. For m and n values, with N = (m + n)/2, it ends at the two θ whose distance
    from the estimate is

        z √(θ(1 − θ) (1 + (N − 1) ((1 − θ)/(2 − θ) + θ/(1 + θ))) / (mn)).

    It assumes that all values are independent. Here the two values of a pair are often similar,
    which makes the interval wider than necessary.
    """
    m, n = len(true), len(other)
    if not m or not n:
        return UNKNOWN
    _, kinds, counts = np.unique(
        np.concatenate([true, other]), return_inverse=True, return_counts=True
    )
    ranks = np.cumsum(counts) - (counts - 1) / 2  # equal values share their mean rank
    area = (float(ranks[kinds[:m]].sum()) - m * (m + 1) / 2) / (m * n)
    return Estimate(area, _lower_end(area, m, n), 1 - _lower_end(1 - area, m, n))


def _lower_end(area: float, m: int, n: int) -> float:
    """The lower end of Newcombe's interval; by symmetry it gives the upper end for 1 - area."""
    low, high = 0.0, area
    for _ in range(_BISECTIONS):
        theta = (low + high) / 2
        spread = (1 - theta) / (2 - theta) + theta / (1 + theta)
        variance = theta * (1 - theta) * (1 + ((m + n) / 2 - 1) * spread) / (m * n)
        if area - theta > Z * sqrt(variance):
            low = theta
        else:
            high = theta
    return low


def paired(true: Values, other: Values) -> Estimate:
    """The share of pairs in which the true sequence is likelier; ties count one half."""
    return share((true > other) + 0.5 * (true == other))


def overlap(true: Values, other: Values) -> float:
    """1 minus the largest difference of the two distribution functions (Kolmogorov–Smirnov)."""
    points = np.sort(np.concatenate([true, other]))
    below, below_other = (
        np.searchsorted(np.sort(values), points, side="right") / len(values)
        for values in (true, other)
    )
    return float(1 - np.abs(below - below_other).max())


def standardised_difference(true: Values, other: Values) -> float:
    """The difference of the means in standard deviations (Cohen's d for samples of equal size)."""
    deviation = np.sqrt((np.var(true, ddof=1) + np.var(other, ddof=1)) / 2)
    return float((np.mean(true) - np.mean(other)) / deviation)
