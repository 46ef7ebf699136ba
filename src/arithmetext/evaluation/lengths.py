"""How the accuracy of continuations depends on their length and on the scale."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .estimates import UNKNOWN, Estimate, bootstrap, over_seeds_and_blocks, with_seed_spread
from .evaluate import by_tokens
from .generation import Continuations
from .prompts import TextPrompts
from .words import Floats


@dataclass(frozen=True)
class LengthScores:
    """The word accuracy of the first tokens generated, for each continuation."""

    tokens: int
    each: list[list[float | None]]  # [seeds][prompts]; None if no word ends in these tokens

    @property
    def values(self) -> Floats:
        """[seeds, prompts]; NaN for None."""
        return np.array(self.each, np.float64)


def score_lengths(prompts: TextPrompts, by_seed: Sequence[Continuations]) -> list[LengthScores]:
    """The accuracy of the first 1, 2, 4, … tokens, with the same prompts for each seed."""
    rows = zip(*(by_tokens(prompts, each) for each in by_seed), strict=True)
    return [LengthScores(row[0].tokens, [length.each for length in row]) for row in rows]


@dataclass(frozen=True)
class LengthSpread:
    """The mean accuracy of the first tokens generated, and its spread between continuations."""

    tokens: int
    accuracy: Estimate
    continuations: int  # with a word in these tokens; all statistics are over these
    deviation: float | None
    quantiles: list[float | None]  # minimum, quartiles and maximum


def spread(scores: LengthScores, blocks: int) -> LengthSpread:
    values = scores.values[~np.isnan(scores.values)]
    return LengthSpread(
        tokens=scores.tokens,
        accuracy=over_seeds_and_blocks(scores.values, blocks),
        continuations=len(values),
        deviation=float(values.std()) if len(values) else None,
        quantiles=np.quantile(values, np.linspace(0, 1, 5)).tolist() if len(values) else [None] * 5,
    )


@dataclass(frozen=True)
class Trends:
    """How accuracy depends on the length and the scale, over the prompts of several scales."""

    scale_change: Estimate  # over all tokens, from the first scale to the last
    best_tokens: int  # the length with the highest mean accuracy
    best_accuracy: float | None
    fall: Estimate  # accuracy at the first length minus accuracy at the last, mean over prompts
    deviation_first: Estimate  # the standard deviation between prompts at the first length
    deviation_last: Estimate
    deviation_fall: Estimate  # the first minus the last
    quarter_tokens: int  # a quarter of all tokens
    quarter_accuracy: float | None
    whole_accuracy: float | None
    late_change: Estimate  # whole accuracy minus quarter accuracy


def trends(curves: Sequence[Sequence[LengthScores]], blocks: int) -> Trends:
    """`curves` has the accuracies at all lengths, for each scale.

    Block i of one scale is compared with block i of another: they are independent, so the interval
    of the difference has the spread of both.
    """
    tokens = [length.tokens for length in curves[0]]
    # [seeds, prompts of all scales], for each length
    values = [np.concatenate([curve[i].values for curve in curves], 1) for i in range(len(tokens))]
    means = [float(np.nanmean(each)) if np.isfinite(each).any() else None for each in values]
    best = max(range(len(tokens)), key=lambda i: means[i] or 0)
    quarter = max(0, len(tokens) - 3)
    first, early, last = values[0], values[quarter], values[-1]
    # Standard deviations are compared over the prompts that have a word at the first length.
    ends = np.stack([first, last])[:, :, ~np.isnan(first).any(0)]
    return Trends(
        scale_change=over_seeds_and_blocks(curves[-1][-1].values - curves[0][-1].values, blocks),
        best_tokens=tokens[best],
        best_accuracy=means[best],
        fall=over_seeds_and_blocks(first - last, blocks),
        deviation_first=_deviation(ends, [1, 0]),
        deviation_last=_deviation(ends, [0, 1]),
        deviation_fall=_deviation(ends, [1, -1]),
        quarter_tokens=tokens[quarter],
        quarter_accuracy=means[quarter],
        whole_accuracy=means[-1],
        late_change=over_seeds_and_blocks(last - early, blocks),
    )


def _deviation(ends: Floats, weights: Sequence[float]) -> Estimate:
    """A weighted sum of the standard deviations between prompts at two lengths.

    ends: [lengths, seeds, prompts]. The interval is a bootstrap over prompts, and the seeds.
    """
    if not ends.shape[-1]:
        return UNKNOWN
    pooled = bootstrap(lambda prompts: weights @ prompts.std(0).mean(-1), np.moveaxis(ends, -1, 0))
    return with_seed_spread(pooled, (weights @ ends.std(-1)).tolist())
