"""How the accuracy of continuations depends on their length, and how it spreads over prompts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .estimates import Estimate, bootstrap, share
from .evaluate import AlignmentSummary, LengthAccuracy


@dataclass(frozen=True)
class LengthSpread(LengthAccuracy):
    """The word accuracy of the first tokens generated, and its spread between prompts."""

    prompts: int  # prompts with a word in these tokens; all statistics are over these prompts
    deviation: float | None
    quantiles: list[float | None]  # minimum, quartiles and maximum


def add_spread(length: LengthAccuracy) -> LengthSpread:
    values = drop_missing(length.each)
    deviation = float(values.std()) if len(values) else None
    quantiles = np.quantile(values, np.linspace(0, 1, 5)).tolist() if len(values) else [None] * 5
    return LengthSpread(
        **vars(length), prompts=len(values), deviation=deviation, quantiles=quantiles
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


def trends(curves: Sequence[Sequence[LengthAccuracy]]) -> Trends:
    """`curves` has the accuracies at all lengths, for each scale."""
    tokens = [length.tokens for length in curves[0]]
    each = [[value for curve in curves for value in curve[i].each] for i in range(len(tokens))]
    means = [float(values.mean()) if len(values) else None for values in map(drop_missing, each)]
    best = max(range(len(tokens)), key=lambda i: means[i] or 0)
    quarter = max(0, len(tokens) - 3)
    # The same prompts at two lengths, [prompts, 2].
    ends, late = (drop_missing(list(zip(each[i], each[-1], strict=True))) for i in (0, quarter))
    return Trends(
        scale_change=bootstrap(
            lambda first, last: last.mean() - first.mean(),
            *(drop_missing(curve[-1].each) for curve in (curves[0], curves[-1])),
        ),
        best_tokens=tokens[best],
        best_accuracy=means[best],
        fall=bootstrap(lambda pairs: (pairs[:, 0] - pairs[:, 1]).mean(), ends),
        deviation_first=bootstrap(np.std, ends[:, 0]),
        deviation_last=bootstrap(np.std, ends[:, 1]),
        deviation_fall=bootstrap(lambda pairs: pairs[:, 0].std() - pairs[:, 1].std(), ends),
        quarter_tokens=tokens[quarter],
        quarter_accuracy=float(late[:, 0].mean()) if len(late) else None,
        whole_accuracy=float(late[:, 1].mean()) if len(late) else None,
        late_change=bootstrap(lambda pairs: (pairs[:, 1] - pairs[:, 0]).mean(), late),
    )


def drop_missing(rows: Sequence[Any]) -> NDArray[np.float64]:
    """The rows without None: prompts in which no word ends are left out."""
    values = np.array(rows, np.float64)
    return values[~np.isnan(values.reshape(len(rows), -1)).any(1)]


@dataclass(frozen=True)
class AccuracyCounts:
    """How many whole continuations have which accuracy."""

    continuations: int
    majority: int  # accuracy in the range of the majority
    low: int  # accuracy below the low bound
    collapsed: int  # no better than chance
    low_or_collapsed: int
    between: int  # accuracy below the majority's, but neither low nor collapsed
    slipped: int
    explained: int  # collapsed, but well above chance with each word at its own shift
    collapsed_share: Estimate


def count_accuracies(
    summaries: Sequence[AlignmentSummary], majority: tuple[float, float], low: float
) -> AccuracyCounts:
    """Count the continuations whose accuracy is in the range `majority`, below `low`, and so on."""
    each = [one for summary in summaries for one in summary.each]
    accuracy = np.array([one.accuracy for one in each])
    collapsed = np.array([one.collapsed for one in each], bool)
    low_or_collapsed = collapsed | (accuracy < low)
    explained = [
        (summary.explained_by_shift.value or 0) * sum(one.collapsed for one in summary.each)
        for summary in summaries
    ]
    return AccuracyCounts(
        continuations=len(each),
        majority=int(((accuracy >= majority[0]) & (accuracy <= majority[1])).sum()),
        low=int((accuracy < low).sum()),
        collapsed=int(collapsed.sum()),
        low_or_collapsed=int(low_or_collapsed.sum()),
        between=int((~low_or_collapsed & (accuracy < majority[0])).sum()),
        slipped=sum(one.slips > 0 for one in each),
        explained=sum(map(round, explained)),
        collapsed_share=share(collapsed),
    )
