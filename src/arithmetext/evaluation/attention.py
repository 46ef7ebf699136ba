"""Attention by distance in integers.

A token holds pieces of one or several words, so a distance in tokens says little about arithmetic.
Here the distance between two tokens is the difference of the integers in which they begin. It is
measured from the token at the query position, and also from the next token, which that position
predicts: a head may use either of the two.

Attention is divided by uniform attention: position q sees q + 1 tokens, so uniform attention gives
1/(q + 1) to each. Without this, far tokens would seem to be neglected, since only late positions
see them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..models.language import LanguageModel
from ..tokens import Tokenizer
from .estimates import Estimate, ratio

# A distance is measured from the token at the query position, or from the next token.
ORIGINS = ("own", "next")

Values = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class AttentionByDistance:
    """Attention summed over the pairs of tokens that are 0, 1, … integers apart."""

    sums: Values  # [windows, layers, heads, distances], in multiples of uniform attention
    counts: Integers  # [windows, distances], numbers of pairs

    def __getitem__(self, windows: slice) -> "AttentionByDistance":
        return AttentionByDistance(self.sums[windows], self.counts[windows])

    def curves(self) -> Values:
        """The mean over pairs, [layers, heads, distances]; NaN where there are no pairs.

        With word tokens no pair may be at distance 0: the next token is in the next integer.
        """
        with np.errstate(invalid="ignore"):
            return np.asarray(self.sums.sum(0) / self.counts.sum(0))

    def summary(self, period: int) -> "HeadsByDistance":
        """The mean of all heads, and the head with the clearest period.

        The best of many heads looks periodic by chance, so the head is chosen in the first half of
        the windows and shown in the second. Distance 0, where tokens attend to themselves, does not
        count in the choice.
        """
        half = len(self.sums) // 2
        chosen, shown = self[:half], self[half:]
        swings = swing(chosen.curves()[..., 1:], period)
        layer, head = (int(i) for i in np.unravel_index(np.argmax(swings), swings.shape))
        periodic = _estimates(shown.sums[:, layer, head], shown.counts)
        return HeadsByDistance(
            all_heads=_estimates(self.sums.mean((1, 2)), self.counts),
            layer=layer,
            head=head,
            swing=float(swing(shown.curves()[layer, head, 1:], period)),
            periodic=periodic,
            peaks=peaks_at_multiples(periodic, period),
        )


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


def by_distance(
    model: LanguageModel, tokenizer: Tokenizer, windows: Tensor, farthest: int
) -> dict[str, AttentionByDistance]:
    """Attention of a causal model up to `farthest` integers back, for each of the ORIGINS.

    windows: [windows, tokens]. Queries are in the second half of a window, where all of them have
    far tokens to attend to. The last token is no query, since the token after it is unknown.
    """
    per_window = [_in_window(model, tokenizer, ids, farthest) for ids in windows]
    sums, counts = (np.stack(parts, axis=1) for parts in zip(*per_window, strict=True))
    return {origin: AttentionByDistance(sums[i], counts[i]) for i, origin in enumerate(ORIGINS)}


def begins(tokenizer: Tokenizer, ids: Integers) -> Integers:
    """The integer in which each token begins, [tokens], counted from the window's first integer.

    It is the integer of the token's first digit: a space at the beginning of a token ends the word
    before. A token that is just a space belongs to the word after it.
    """
    ended = tokenizer.words_ended[ids]
    leading = np.array([token.startswith(" ") for token in tokenizer.vocabulary])[ids]
    integers: Integers = ended.cumsum() - ended + leading
    return integers


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
    layers_at_previous: int  # how many layers attend most to the token before the last

    @property
    def largest(self) -> float:
        return self.mean[self.most - 1]


def last_token(attention: Tensor) -> LastToken:
    """Summarise the attention of the last token; attention: [layers, heads, tokens, tokens]."""
    layers = attention[:, :, -1].mean(1).tolist()
    weights = np.array(layers)
    mean = weights.mean(0)
    at_previous = weights[:, :-1].argmax(1) == weights.shape[1] - 2
    return LastToken(layers, mean.tolist(), int(mean[:-1].argmax()) + 1, int(at_previous.sum()))


def _in_window(
    model: LanguageModel, tokenizer: Tokenizer, ids: Tensor, farthest: int
) -> tuple[Values, Integers]:
    """Sums, [origins, layers, heads, distances], and counts, [origins, distances], of a window."""
    device = model.device
    begin = torch.from_numpy(begins(tokenizer, ids.numpy())).to(device)
    keys = torch.arange(len(ids), device=device)
    queries = keys[len(ids) // 2 : -1, None]
    apart = torch.stack([begin[queries], begin[queries + 1]]) - begin
    distances = torch.arange(farthest + 1, device=device)
    pairs = (apart[..., None] == distances) & (keys <= queries)[..., None]
    relative = model.attention(ids)[:, :, queries[:, 0]].double() * (queries + 1)
    sums = torch.einsum("lhqk,oqkd->olhd", relative, pairs.double())
    return sums.cpu().numpy(), pairs.sum((1, 2)).cpu().numpy()


def _estimates(sums: Values, counts: Integers) -> list[Estimate]:
    return [ratio(attention, pairs) for attention, pairs in zip(sums.T, counts.T, strict=True)]
