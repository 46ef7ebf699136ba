"""Attention by distance in integers.

A token holds pieces of one or several words, so a distance in tokens says little about arithmetic.
Here the distance between two tokens is the difference of the integers in which they begin. It is
measured from the token at the query position, and also from the next token, which that position
predicts: a head may use either of the two.

Attention is divided by uniform attention: position q sees q + 1 tokens, so uniform attention gives
1/(q + 1) to each. Without this, far tokens would seem to be neglected, since only late positions
see them. Statistics are in heads.py.
"""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..models.language import LanguageModel
from ..tokens import Tokenizer

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


def _in_window(
    model: LanguageModel, tokenizer: Tokenizer, ids: Tensor, farthest: int
) -> tuple[Values, Integers]:
    """Sums, [origins, layers, heads, distances], and counts, [origins, distances], of a window."""
    device = model.device
    begin = torch.from_numpy(begins(tokenizer, ids.numpy())).to(device)
    keys = torch.arange(len(ids), device=device)
    queries = keys[len(ids) // 2 : -1, None]
    relative = model.attention(ids)[:, :, queries[:, 0]].double() * (queries + 1)
    counted = (keys <= queries).expand(len(queries), -1)
    sums, counts = [], []
    for origin in begin[queries], begin[queries + 1]:
        apart = origin - begin
        near = counted & (apart >= 0) & (apart <= farthest)
        distances = apart[near]
        bins = relative.new_zeros(*relative.shape[:2], farthest + 1)
        sums.append(bins.index_add_(2, distances, relative[:, :, near]))
        counts.append(torch.bincount(distances, minlength=farthest + 1))
    return torch.stack(sums).cpu().numpy(), torch.stack(counts).cpu().numpy()
