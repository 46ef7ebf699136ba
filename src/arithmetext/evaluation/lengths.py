"""How the accuracy of continuations depends on their length and on the scale."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .estimates import Estimate, over_seeds_and_blocks, statistic_over_blocks
from .evaluate import by_tokens
from .generation import Continuations
from .prompts import TextPrompts
from .words import Floats

FEW = 8  # tokens


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
    few_accuracy: Estimate  # of the first 1, 2, … FEW tokens, the mean of these lengths
    fall: Estimate  # the same minus the accuracy at the last length, for the same prompts
    few_continuations: int  # these have a word at each of the few lengths
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
    assert all(length.values.shape[1] % blocks == 0 for curve in curves for length in curve)
    tokens = [length.tokens for length in curves[0]]
    # [seeds, prompts of all scales], for each length
    values = [np.concatenate([curve[i].values for curve in curves], 1) for i in range(len(tokens))]
    means = [float(np.nanmean(each)) if np.isfinite(each).any() else None for each in values]
    quarter = max(0, len(tokens) - 3)
    first, early, last = values[0], values[quarter], values[-1]
    few = np.mean([each for each, count in zip(values, tokens, strict=True) if count <= FEW], 0)
    # Standard deviations are compared over the prompts that have a word at the first length.
    known = np.where(np.isnan(first).any(0), np.nan, 1.0)
    ends = [first * known, last * known]
    return Trends(
        scale_change=over_seeds_and_blocks(curves[-1][-1].values - curves[0][-1].values, blocks),
        few_accuracy=over_seeds_and_blocks(few, blocks),
        fall=over_seeds_and_blocks(few - last, blocks),
        few_continuations=int(np.isfinite(few).sum()),
        deviation_first=statistic_over_blocks(_deviation, ends[:1], blocks),
        deviation_last=statistic_over_blocks(_deviation, ends[1:], blocks),
        deviation_fall=statistic_over_blocks(
            lambda first, last: _deviation(first) - _deviation(last), ends, blocks
        ),
        quarter_tokens=tokens[quarter],
        quarter_accuracy=means[quarter],
        whole_accuracy=means[-1],
        late_change=over_seeds_and_blocks(last - early, blocks),
    )


def _deviation(values: Floats) -> float:
    """The standard deviation between prompts, the mean over seeds; NaN marks missing values."""
    known = ~np.isnan(values)
    number = known.sum(1, keepdims=True)
    centred = values - np.where(known, values, 0).sum(1, keepdims=True) / number
    return float(np.sqrt((np.where(known, centred, 0) ** 2).sum(1) / number[:, 0]).mean())
