"""Which heads attend to certain distances: statistics of attention.

They are apart from the code that measures attention, so that a change here does not invalidate
attention that was kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .attention import AttentionByDistance, Integers, Values
from .estimates import Estimate, ratio


class Peaks(NamedTuple):
    """How many multiples of a period get more attention than the mean of their two neighbours."""

    higher: int
    multiples: int


@dataclass(frozen=True)
class HeadsByDistance:
    """Attention by distance: the mean of all heads, and one periodic head."""

    all_heads: list[Estimate]
    layer: int
    head: int
    swing: float  # how far the residues of the distance lie apart in this head
    periodic: list[Estimate]  # attention of this head
    peaks: Peaks  # of this head


def peaks_at_multiples(attention: Sequence[Estimate], period: int) -> Peaks:
    """Compare attention at multiples of the period with attention at the integers beside them."""
    curve = np.array([estimate.value for estimate in attention], np.float64)
    at = np.arange(period, len(curve) - 1, period)
    return Peaks(int((curve[at] > (curve[at - 1] + curve[at + 1]) / 2).sum()), len(at))


def clearest_head(
    by_origin: Mapping[str, AttentionByDistance], period: int
) -> tuple[str, HeadsByDistance]:
    """The head with the clearest period, from the origin of distances where it is clearest.

    The best of many heads looks periodic by chance, so head and origin are chosen in the first half
    of the windows and shown in the second. Distance 0, where tokens attend to themselves, does not
    count in the choice.
    """
    swings = {
        origin: swing(each[: len(each.sums) // 2].curves()[..., 1:], period)
        for origin, each in by_origin.items()
    }
    origin = max(swings, key=lambda name: swings[name].max())
    layer, head = (int(i) for i in np.unravel_index(swings[origin].argmax(), swings[origin].shape))
    measured = by_origin[origin]
    shown = measured[len(measured.sums) // 2 :]
    periodic = _estimates(shown.sums[:, layer, head], shown.counts)
    return origin, HeadsByDistance(
        all_heads=_estimates(measured.sums.mean((1, 2)), measured.counts),
        layer=layer,
        head=head,
        swing=float(swing(shown.curves()[layer, head, 1:], period)),
        periodic=periodic,
        peaks=peaks_at_multiples(periodic, period),
    )


def swing(curves: Values, period: int) -> Values:
    """How much curves vary between residues of the distance modulo a period, without the trend.

    The trend is the mean over one period around each distance; without it a steady decline does not
    count. Each residue is represented by its median, so that a few distances, mostly the nearest,
    do not decide. curves: [..., distances], at least two periods long; result: [...].
    """
    reach = period // 2
    kernel = np.ones(2 * reach + 1)
    if period % 2 == 0:  # the kernel is one too long: count half of each end
        kernel[[0, -1]] = 0.5
    around = np.lib.stride_tricks.sliding_window_view(curves, len(kernel), axis=-1)
    rest = curves[..., reach:-reach] - around @ kernel / period
    residues = [np.median(rest[..., residue::period], axis=-1) for residue in range(period)]
    return np.asarray(np.ptp(residues, axis=0))


@dataclass(frozen=True)
class LastToken:
    """How much attention the last token of a text pays to each token."""

    layers: list[list[float]]  # the mean over the heads of each layer
    mean: list[float]  # the mean over all layers
    most: int  # the position, from 1, of the token with most attention, other than the last

    @property
    def largest(self) -> float:
        return self.mean[self.most - 1]


def last_token(attention: Values) -> LastToken:
    """Summarise the attention of the last token, [layers, heads, tokens]."""
    layers = attention.astype(np.float64).mean(1)
    mean = layers.mean(0)
    return LastToken(layers.tolist(), mean.tolist(), int(mean[:-1].argmax()) + 1)


def _estimates(sums: Values, counts: Integers) -> list[Estimate]:
    return [ratio(attention, pairs) for attention, pairs in zip(sums.T, counts.T, strict=True)]
