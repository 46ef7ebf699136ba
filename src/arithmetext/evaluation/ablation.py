"""What single attention heads do for which prime: where they look, and what is lost without them.

*Ablation*: the output of a head is replaced by its mean over training text, everywhere. The loss at
the word of n, at its first token if it has several, is then compared by what divides n: one group
for each prime p, the integers that p divides and no other prime up to 19 does, and one group for
the integers without such primes.
If a head holds what the model knows of p, the loss rises in the group of p and in no other.

*Attention*: a position predicts the word of the next integer n. The attention that it pays is added
up in three ways, each once where p divides n and once where p does not:

    offset    n − m modulo p, where m is the integer of the token that is attended to
    class     m modulo p
    distance  n − m

A head that looks for earlier multiples of p pays attention to offset 0 modulo p if p divides n. If
it does so because of what n is, it looks elsewhere if p does not divide n. Then the class tells
whether it goes on looking at multiples of p, and the distance whether it looks at a fixed place.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..progress import progress
from ..tokens import WordTokens
from .activations import check_shared, labelled_windows, windows_near
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

    def checked(self) -> "HeadSettings":
        """The settings, if they make sense."""
        check_shared(self.windows, self.blocks)
        return self


def head_scores(model: EvaluatedModel, how: HeadSettings) -> dict[str, NDArray[Any]]:
    """Losses and attention, summed over the second half of each window.

    Groups are the primes, and the integers that none of them divides. "words", [groups, windows]:
    how many. "loss", [groups, windows], of the whole model, in nats; "ablated", [layers, heads,
    groups, windows], without one head. For each prime, "offsets P" and "classes P", [2, layers,
    heads, windows, P]: attention by offset and by class modulo P, where P does not divide the next
    integer and where it does; "distances P", [2, layers, heads, context + 1]: by distance, of all
    windows; and "queries P", [2, windows]: of how many positions.
    """
    tokens, gpt = model.tokenizer, model.model
    how.checked()
    if not isinstance(tokens, WordTokens):
        raise InputError("the roles of heads need a model whose tokens are words")
    windows = windows_near(model, how.at, number=how.windows, blocks=how.blocks, seed=how.seed)
    train = labelled_windows(
        tokens, [model.trained], number=_MEAN_OVER, length=model.context, seed=how.seed
    )
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
        attention = _Attention((layers, heads), how.windows, model.context)
        for k in range(how.windows):
            weights = gpt.attention(windows.ids[k])[:, :, half:-1].cpu()
            ends = words[k]
            attention.add(k, weights[:, :, ends], following[k][ends], windows.integers[k])
            advance(1)
    return arrays | attention.arrays


def _groups(integers: Tensor) -> Tensor:
    """For each prime, which integers it divides and no other prime; at last those that none does.

    integers: [...]; result: [primes + 1, ...].
    """
    divides = torch.stack([integers % prime == 0 for prime in PRIMES])
    number = divides.sum(0)
    return torch.cat([divides & (number == 1), (number == 0)[None]])


class _Attention:
    """Sums of attention, with the names in `head_scores`."""

    def __init__(self, heads: tuple[int, int], windows: int, farthest: int) -> None:
        self.farthest = farthest
        self.arrays: dict[str, NDArray[Any]] = {}
        for prime in PRIMES:
            for name in "offsets", "classes":
                self.arrays[f"{name} {prime}"] = np.zeros((2, *heads, windows, prime))
            self.arrays[f"distances {prime}"] = np.zeros((2, *heads, farthest + 1))
            self.arrays[f"queries {prime}"] = np.zeros((2, windows))

    def add(self, window: int, weights: Tensor, integers: Tensor, keys: Tensor) -> None:
        """Add the attention of some queries of a window.

        weights: [layers, heads, queries, keys]; integers: [queries], those that come next; keys:
        [keys], the integers attended to.
        """
        distances = integers[:, None] - keys  # no longer than the window
        by_distance = weights.new_zeros(*weights.shape[:-1], self.farthest + 1)
        by_distance.scatter_add_(-1, distances.clamp_min(0).expand_as(weights), weights)
        for prime in PRIMES:
            divisible = torch.stack([integers % prime != 0, integers % prime == 0]).to(weights)
            by_class = weights @ F.one_hot(keys % prime, prime).to(weights)
            offsets = (integers[:, None] - torch.arange(prime)) % prime  # the class of each offset
            by_offset = by_class.gather(-1, offsets.expand_as(by_class))
            for name, values in ("offsets", by_offset), ("classes", by_class):
                self.arrays[f"{name} {prime}"][:, :, :, window] += _grouped(divisible, values)
            self.arrays[f"distances {prime}"] += _grouped(divisible, by_distance)
            self.arrays[f"queries {prime}"][:, window] += divisible.sum(1).double().numpy()


def _grouped(groups: Tensor, values: Tensor) -> Floats:
    """Sums over the queries of each group, [groups, layers, heads, …].

    groups: [groups, queries], 0 or 1; values: [layers, heads, queries, …].
    """
    return (groups @ values).movedim(2, 0).double().numpy()


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


def costliest_head(roles: HeadRoles, prime: int) -> int:
    """The head whose loss costs the group of a prime most beyond integers without small primes.

    Two primes may have the same head.
    """
    group = PRIMES.index(prime)

    def excess(head: Head) -> float:
        return (head.damage[group].value or 0.0) - (head.damage[-1].value or 0.0)

    return max(range(len(roles.heads)), key=lambda k: excess(roles.heads[k]))


def main_offsets(arrays: dict[str, NDArray[Any]], head: Head, prime: int) -> tuple[int, int]:
    """The offset modulo a prime with most attention: if it divides the integer, and if not."""
    otherwise, divides = arrays[f"offsets {prime}"][:, head.layer, head.head].sum(1).argmax(-1)
    return int(divides), int(otherwise)


class Attention(NamedTuple):
    """Attention to one residue modulo a prime: if the prime divides the integer, and if not."""

    divides: Estimate
    otherwise: Estimate


def attention_at(
    arrays: dict[str, NDArray[Any]],
    how: HeadSettings,
    head: Head,
    prime: int,
    residue: int,
    by: str = "offsets",
) -> Attention:
    """Attention at an offset modulo a prime, or to a class."""
    attention, queries = arrays[f"{by} {prime}"], arrays[f"queries {prime}"]
    otherwise, divides = (
        ratio_over_blocks(
            attention[k, head.layer, head.head, :, residue][None], queries[k][None], how.blocks
        )
        for k in (0, 1)
    )
    return Attention(divides, otherwise)


class Distance(NamedTuple):
    """Attention at one distance: if the prime divides the integer, and if not."""

    distance: int
    divides: float
    otherwise: float


def main_distances(
    arrays: dict[str, NDArray[Any]], head: Head, prime: int, number: int
) -> list[Distance]:
    """The distances with most attention where the prime does not divide the integer."""
    sums = arrays[f"distances {prime}"][:, head.layer, head.head]  # [2, distances]
    shares = sums / arrays[f"queries {prime}"].sum(1)[:, None]
    return [
        Distance(int(k), float(shares[1, k]), float(shares[0, k]))
        for k in shares[0].argsort()[::-1][:number]
    ]
