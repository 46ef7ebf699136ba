"""Where a model looks, by the distance in integers.

Tokens hold pieces of one or several words, so the distance between two of them in tokens says
little of arithmetic. Here it is counted in integers, between those that tokens begin in. What a
position predicts is the next token, so the distance may as well be counted from there; which of the
two a head goes by is not known beforehand.

Attention is given as a multiple of attention that is the same to all: position q sees q + 1 tokens,
so each would have 1/(q + 1) of it. Otherwise far tokens, which late positions alone see, would seem
to be neglected.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..models.language import LanguageModel
from ..tokens import Tokenizer
from .estimates import Estimate, ratio

# A distance is counted from where the token that looks begins, or the one after it.
ORIGINS = ("own", "next")

Values = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Looked:
    """Attention summed over the pairs of tokens that are 0, 1, … integers apart."""

    sums: Values  # [windows, layers, heads, distances], multiples of attention the same to all
    counts: Integers  # [windows, distances], the pairs

    def __getitem__(self, windows: slice) -> "Looked":
        return Looked(self.sums[windows], self.counts[windows])

    def curves(self) -> Values:
        """The mean over pairs, [layers, heads, distances]; not a number where there are none.

        With a token for each word, the next one is never 0 integers away.
        """
        with np.errstate(invalid="ignore"):
            return np.asarray(self.sums.sum(0) / self.counts.sum(0))

    def figures(self, period: int) -> dict[str, Any]:
        """What there is to report: all heads, and the head with the clearest period.

        The best of many heads looks periodic by chance, so it is chosen in the first half of the
        windows and shown in the second. Distance 0, at which tokens look at themselves, is left out
        of the choice.
        """
        half = len(self.sums) // 2
        chosen, shown = self[:half], self[half:]
        swings = swing(chosen.curves()[..., 1:], period)
        layer, head = (int(i) for i in np.unravel_index(np.argmax(swings), swings.shape))
        return {
            "all": _estimates(self.sums.mean((1, 2)), self.counts),
            "layer": layer,
            "head": head,
            "swing": float(swing(shown.curves()[layer, head, 1:], period)),
            "periodic": _estimates(shown.sums[:, layer, head], shown.counts),
        }


def by_distance(
    model: LanguageModel, tokenizer: Tokenizer, windows: Tensor, farthest: int
) -> dict[str, Looked]:
    """What a causal model looks at up to so many integers back, for each of the origins.

    Only the second half of a window looks: all of it has far tokens to look at. The last token does
    not, since what comes after it is not known.
    """
    found = [_in_window(model, tokenizer, ids, farthest) for ids in windows]
    sums, counts = (np.stack(parts, axis=1) for parts in zip(*found, strict=True))
    return {origin: Looked(sums[i], counts[i]) for i, origin in enumerate(ORIGINS)}


def begins(tokenizer: Tokenizer, ids: Integers) -> Integers:
    """The integer that each token begins in, counted from the one in which the window begins.

    It is that of its first digit: a space that a token begins with ends the word before. A token
    that is nothing but a space belongs to the word which it makes room for.
    """
    ended = tokenizer.words_ended[ids]
    leading = np.array([token.startswith(" ") for token in tokenizer.vocabulary])[ids]
    integers: Integers = ended.cumsum() - ended + leading
    return integers


def swing(curves: Values, period: int) -> Values:
    """How far the residues of the distance modulo a period lie apart, once a trend is removed.

    The trend is the mean over one period around each distance, so that a steady decline does not
    count. Of each residue it is the median, so that a few distances, mostly the nearest, do not
    decide. Curves, [..., distances], are to be two periods long.
    """
    reach = period // 2
    kernel = np.ones(2 * reach + 1)
    if period % 2 == 0:  # one too many: half of each end
        kernel[[0, -1]] = 0.5
    around = np.lib.stride_tricks.sliding_window_view(curves, len(kernel), axis=-1)
    rest = curves[..., reach:-reach] - around @ kernel / period
    residues = [np.median(rest[..., residue::period], axis=-1) for residue in range(period)]
    return np.asarray(np.ptp(residues, axis=0))


def _in_window(
    model: LanguageModel, tokenizer: Tokenizer, ids: Tensor, farthest: int
) -> tuple[Values, Integers]:
    """Sums, [origins, layers, heads, distances], and counts, [origins, distances]."""
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
    return [ratio(above, below) for above, below in zip(sums.T, counts.T, strict=True)]
