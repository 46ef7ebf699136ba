"""What single attention heads do for which prime: where they look, and what is lost without them.

*Ablation*: the output of a head is replaced by its mean over training text, everywhere. The loss at
the word of n, at its first token if it has several, is then compared by what divides n: one group
for each prime p, the integers that p divides and no other prime up to 19 does, and one group for
the integers without such primes.
If a head holds what the model knows of p, the loss rises in the group of p and in no other.

*Attention*: a position predicts the word of the next integer. The attention that it pays is added
up by offset from that integer modulo p, once where p divides it and once where p does not. A head
that looks for earlier multiples of p pays attention to offset 0 modulo p if p divides the next
integer; one that looks at fixed distances pays it in both cases.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..progress import progress
from ..text.splits import blocks_near
from ..tokens import WordTokens
from .activations import labelled_windows
from .estimates import Estimate, ratio_over_blocks
from .subjects import EvaluatedModel

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19)

_MEAN_OVER = 8  # windows of the training text that the mean output of a head is taken over

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class HeadSettings:
    at: int
    windows: int
    blocks: int
    seed: int


def head_scores(model: EvaluatedModel, how: HeadSettings) -> dict[str, NDArray[Any]]:
    """Losses and attention, summed over the second half of each window.

    Groups are the primes, and the integers that none of them divides. "words", [groups, windows]:
    how many. "loss", [groups, windows], of the whole model, in nats; "ablated", [layers, heads,
    groups, windows], without one head. For each prime, "attention P", [2, layers, heads, windows,
    P], by offset modulo P where P does not divide the next integer and where it does, and
    "queries P", [2, windows]: of how many positions.
    """
    tokens, gpt = model.tokenizer, model.model
    if how.windows % how.blocks:
        raise InputError(f"the windows must be a multiple of {how.blocks}")
    if not isinstance(tokens, WordTokens):
        raise InputError("the roles of heads need a model whose tokens are words")
    number = dict(number=how.windows, length=model.context, seed=how.seed)
    blocks = [[block] for block in blocks_near(how.at, model.seen, how.blocks)]
    windows = labelled_windows(tokens, blocks, **number)
    train = labelled_windows(tokens, [model.trained], **number | {"number": _MEAN_OVER})
    means = gpt.head_outputs(train.ids).mean((1, 2))  # [layers, heads, width of a head]
    layers, heads, _ = means.shape
    half = model.context // 2
    words = torch.from_numpy(tokens.words_ended > 0)[windows.ids][:, half:-1]
    following = windows.integers[:, half:-1] + 1
    groups = _groups(following) & words[None]  # [groups, windows, tokens]

    def nats(stream: Tensor, layer: int, part: slice) -> Floats:
        """From the stream after some layers: in each group, [groups, windows]."""
        logits = gpt.finish(stream, layer)[:, half:-1].float().cpu()
        loss = F.cross_entropy(logits.mT, windows.ids[part, half + 1 :], reduction="none")
        return (loss * groups[:, part]).sum(-1).double().numpy()

    loss = np.zeros((len(groups), how.windows))
    ablated = np.zeros((layers, heads, len(groups), how.windows))
    arrays: dict[str, NDArray[Any]] = {
        "words": groups.sum(-1).double().numpy(),
        "loss": loss,
        "ablated": ablated,
    }
    total = (1 + layers) * how.windows
    with progress("heads", total, "windows") as advance, torch.no_grad():
        for part, batch in windows.batches():
            stream = gpt.residual_stream(batch.ids)
            loss[:, part] = nats(stream[-1], layers, part)
            for layer in range(layers):
                for head in range(heads):
                    with gpt.without_head(layer, head, means[layer, head]):
                        ablated[layer, head][:, part] = nats(stream[layer], layer, part)
                advance(len(batch))
        arrays |= {
            f"{name} {prime}": np.zeros(shape)
            for prime in PRIMES
            for name, shape in {
                "attention": (2, layers, heads, how.windows, prime),
                "queries": (2, how.windows),
            }.items()
        }
        for k in range(how.windows):
            weights = gpt.attention(windows.ids[k])[:, :, half:-1].cpu()
            offsets = following[k][:, None] - windows.integers[k]  # [queries, keys]
            _add_attention(
                arrays, k, weights[:, :, words[k]], offsets[words[k]], following[k][words[k]]
            )
            advance(1)
    return arrays


def _groups(integers: Tensor) -> Tensor:
    """For each prime, which integers it divides and no other prime; at last those that none does.

    integers: [...]; result: [primes + 1, ...].
    """
    divides = torch.stack([integers % prime == 0 for prime in PRIMES])
    number = divides.sum(0)
    return torch.cat([divides & (number == 1), (number == 0)[None]])


def _add_attention(
    arrays: dict[str, NDArray[Any]], window: int, weights: Tensor, offsets: Tensor, integers: Tensor
) -> None:
    """Add the attention of some queries of a window by offset modulo each prime.

    weights: [layers, heads, queries, keys]; offsets: [queries, keys]; integers: [queries].
    """
    for prime in PRIMES:
        residues = (offsets % prime).expand_as(weights)
        folded = weights.new_zeros(*weights.shape[:-1], prime).scatter_add_(-1, residues, weights)
        for divisible in (False, True):
            chosen = (integers % prime == 0) == divisible
            arrays[f"attention {prime}"][int(divisible), :, :, window] += (
                folded[:, :, chosen].sum(2).double().numpy()
            )
            arrays[f"queries {prime}"][int(divisible), window] += int(chosen.sum())


@dataclass(frozen=True)
class Head:
    """What is lost without one head."""

    layer: int
    head: int
    damage: list[Estimate]  # nats per word, in each group


@dataclass(frozen=True)
class HeadRoles:
    """All heads, and the nats per word of the whole model in each group."""

    heads: list[Head]
    nats: list[Estimate]
    words: list[int]  # in each group


def summarise(arrays: dict[str, NDArray[Any]], how: HeadSettings) -> HeadRoles:
    """Estimates with intervals over blocks of the text."""
    words, loss, ablated = arrays["words"], arrays["loss"], arrays["ablated"]

    def per_word(sums: Floats, group: int) -> Estimate:
        return ratio_over_blocks(sums[None], words[group][None], how.blocks)

    groups = range(len(words))
    heads = [
        Head(
            layer,
            head,
            [per_word(ablated[layer, head, g] - loss[g], g) for g in groups],
        )
        for layer in range(ablated.shape[0])
        for head in range(ablated.shape[1])
    ]
    nats = [per_word(loss[g], g) for g in groups]
    return HeadRoles(heads, nats, words.sum(-1).astype(int).tolist())


def telling_offset(arrays: dict[str, NDArray[Any]], head: Head, prime: int) -> int:
    """The offset modulo a prime whose attention rises most if the prime divides the integer."""
    attention = arrays[f"attention {prime}"][:, head.layer, head.head].sum(1)  # [2, offsets]
    shares = attention / arrays[f"queries {prime}"].sum(-1)[:, None]
    return int((shares[1] - shares[0]).argmax())


def attention_at(
    arrays: dict[str, NDArray[Any]], how: HeadSettings, head: Head, prime: int, offset: int
) -> tuple[Estimate, Estimate]:
    """Attention at an offset modulo a prime: if the prime divides the integer, and if not."""
    attention, queries = arrays[f"attention {prime}"], arrays[f"queries {prime}"]
    divides, otherwise = (
        ratio_over_blocks(
            attention[k, head.layer, head.head, :, offset][None], queries[k][None], how.blocks
        )
        for k in (1, 0)
    )
    return divides, otherwise
