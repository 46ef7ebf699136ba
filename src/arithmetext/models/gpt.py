"""The GPT-2 of the paper, on one page, and the variant of it that learns faster.

    x⁰ = tokens + positions
    y  = x + attention(norm(x))         for each of the layers
    x  = y + 4d-wide tanh-GELU(norm(y))
    logits = norm(x) · tokensᵀ

Next-token prediction is causal: a position sees itself and what comes before it. For masked
modelling every position sees all. With `positions="rotary"` nothing is added to the tokens; queries
and keys are turned by angles that grow with their positions instead, so that a score depends on
distance.

What happens inside passes through named places, `Hook`s, that do nothing by themselves: on the
residual stream `blocks.3.residual_before`, `residual_between`, `residual_after`, in the attention
`blocks.3.attention.queries`, `keys`, `values`, `pattern`, `mixed`. `watching` collects what passes;
a forward hook that returns a tensor replaces it.
"""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError
from .config import HEAD as HEAD
from .config import GPTConfig as GPTConfig
from .language import Prompts, TrainableModel

if TYPE_CHECKING:
    from .window import Kept, Past, Window

TURNS = 10_000.0  # pairs of a head turn by 1 to nearly 1/10,000 of a radian a position


class Hook(nn.Identity):
    """A place where something passes."""


class Attention(nn.Module):
    def __init__(self, config: GPTConfig, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = config.heads, causal
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.queries, self.keys, self.values = Hook(), Hook(), Hook()
        self.pattern, self.mixed = Hook(), Hook()

    def forward(self, x: Tensor, turns: Tensor | None, kept: "Kept | None") -> Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, HEAD)).permute(2, 0, 3, 1, 4)
        if turns is not None:
            q, k = turned(q, turns), turned(k, turns)
        q, k, v = self.queries(q), self.keys(k), self.values(v)
        seen = None
        if kept is not None:
            k, v, seen = kept.extend(k, v)
        if self.pattern._forward_hooks:  # someone looks: the fused kernel does not show it
            mixed = self.pattern(self.attend(q, k, seen)) @ v
        else:
            causal = self.causal and seen is None
            mixed = F.scaled_dot_product_attention(q, k, v, seen, is_causal=causal)
        out: Tensor = self.out(self.mixed(mixed.transpose(1, 2).flatten(2)))
        return out

    def attend(self, q: Tensor, k: Tensor, seen: Tensor | None) -> Tensor:
        """How much each position takes from each: rows that sum to one."""
        scores = q @ k.mT / math.sqrt(HEAD)
        if self.causal and seen is None:
            seen = torch.ones_like(scores[0, 0], dtype=torch.bool).tril()
        if seen is not None:
            scores = scores.masked_fill(~seen, -math.inf)
        return scores.softmax(-1)


class Block(nn.Module):
    def __init__(self, config: GPTConfig, *, causal: bool) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.attention = Attention(config, causal=causal)
        self.widen = nn.Linear(config.width, 4 * config.width)
        self.narrow = nn.Linear(4 * config.width, config.width)
        self.residual_before, self.residual_between, self.residual_after = Hook(), Hook(), Hook()

    def forward(
        self, x: Tensor, turns: Tensor | None, kept: "Kept | None", chosen: Tensor | None
    ) -> Tensor:
        """After the attention, positions go their own ways: those not `chosen` are left behind."""
        x = self.residual_before(x)
        x = self.residual_between(x + self.attention(self.attention_norm(x), turns, kept))
        if chosen is not None:
            x = x.gather(1, chosen[..., None].expand(-1, -1, x.shape[-1]))
        wide = gelu(self.widen(self.mlp_norm(x)))
        after: Tensor = self.residual_after(x + self.narrow(wide))
        return after


class GPT(TrainableModel):
    """`vocabulary` counts the ids it reads and predicts: D, and one more with [MASK]."""

    config: GPTConfig
    windowed = True

    def __init__(self, config: GPTConfig, *, vocabulary: int, causal: bool) -> None:
        super().__init__()
        self.config, self.vocabulary, self.causal = config, vocabulary, causal
        self.tokens = nn.Embedding(vocabulary, config.width)
        learned = config.positions == "learned"
        self.positions = nn.Embedding(config.context, config.width) if learned else None
        self.turns: Tensor | None
        self.register_buffer("turns", None if learned else angles(config.context), persistent=False)
        blocks = [Block(config, causal=causal) for _ in range(config.layers)]
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(config.width)
        self.apply(initialise)
        for block in blocks:  # 2·layers terms add up on the residual stream
            for last in block.attention.out, block.narrow:
                nn.init.normal_(last.weight, std=0.02 / math.sqrt(2 * config.layers))

    def forward(
        self, ids: Tensor, chosen: Tensor | None = None, past: "Past | None" = None
    ) -> Tensor:
        """The logits at every position, or at the `chosen` ones of each row alone.

        What is read is kept in the `past`, if there is one, and a single token goes on from there.
        """
        if ids.shape[1] > self.config.context:
            raise InputError(
                f"{ids.shape[1]} tokens are more than the {self.config.context} it reads"
            )
        places: slice | Tensor = slice(ids.shape[1])
        if past is not None and ids.shape[1] == 1:
            places = past.place
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions.weight[places]
        if torch.is_autocast_enabled(x.device.type):  # half the traffic on the residual stream
            x = x.to(torch.get_autocast_dtype(x.device.type))
        turns = None if self.turns is None else self.turns[places]
        kept: Sequence[Kept | None] = [None] * len(self.blocks) if past is None else past.layers()
        for block, layer in zip(self.blocks, kept, strict=True):
            x = block(x, turns, layer, chosen if block is self.blocks[-1] else None)
        x, weight = self.norm(x), self.tokens.weight
        if x.dtype == torch.bfloat16:  # two likely tokens are often equal in so few bits
            x, weight = x.float(), weight.float()
        return F.linear(x, weight)

    def read(self, prompts: Prompts, *, stride: int = 1) -> "Window":
        """Read prompts of any length; the model sees their last `context` tokens.

        `Window` says what `stride` means.
        """
        from .window import Window

        return Window(self, prompts.ids.to(self.device), stride)

    def loss(self, inputs: Tensor, targets: Tensor, chosen: Tensor | None = None) -> Tensor:
        logits = self(inputs, chosen)
        return F.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    def training_logits(self, inputs: Tensor, chosen: Tensor | None = None) -> Tensor:
        logits: Tensor = self(inputs, chosen)
        return logits

    def predict_masked(self, ids: Tensor, positions: Tensor) -> Tensor:
        if self.causal:
            return super().predict_masked(ids, positions)  # refuses
        logits: Tensor = self(ids.to(self.device), positions.to(self.device))
        return logits

    @torch.no_grad()
    def attention(self, ids: Tensor) -> Tensor:
        """One window at a time: the weights of a large model fill a gigabyte."""
        with watching(self, "blocks.*.attention.pattern") as seen:
            self(ids[None].to(self.device))
        return torch.stack([pattern[0].float() for pattern in seen.values()])

    def flops_per_token(self, length: int) -> int:
        """Counted as 6N + 12·layers·d·L."""
        return 6 * self.parameter_count + 12 * self.config.layers * self.config.width * length

    @property
    def description(self) -> str:
        return (
            f"GPT-2, {self.config.layers} layers of {self.config.heads} heads,"
            f" {self.config.positions} positions, {self.parameter_count / 1e6:.3g} M parameters,"
            f" predicts {'next' if self.causal else 'masked'} tokens"
        )


def gelu(x: Tensor) -> Tensor:
    """The tanh GELU; compiled as the logistic function that it is, which takes less time."""
    if torch.compiler.is_compiling():
        return x * torch.sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x * x * x))
    return F.gelu(x, approximate="tanh")


def initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


def angles(context: int) -> Tensor:
    """Cosines and sines by which each pair of a head turns at each position: [context, 2, HEAD]."""
    pairs = 1 / TURNS ** (torch.arange(0, HEAD, 2, device="cpu") / HEAD)
    angle = torch.outer(torch.arange(context, device="cpu").float(), pairs).repeat(1, 2)
    return torch.stack([angle.cos(), angle.sin()], 1)


def turned(x: Tensor, turns: Tensor) -> Tensor:
    """Turn the pairs (i, i + HEAD/2) of every head."""
    cosines, sines = turns.to(x.dtype).unbind(1)
    first, second = x.chunk(2, -1)
    return x * cosines + torch.cat([-second, first], -1) * sines


@contextmanager
def watching(model: nn.Module, *names: str) -> Iterator[dict[str, Tensor]]:
    """Collect what passes the hooks of these names while the block runs; * stands for anything.

    >>> with watching(model, "blocks.*.attention.pattern") as seen:  # doctest: +SKIP
    ...     model(ids)
    """
    hooks = {name: module for name, module in model.named_modules() if isinstance(module, Hook)}
    for wanted in names:
        if not any(fnmatch(name, wanted) for name in hooks):
            raise InputError(f"no hook {wanted!r}; there are: {', '.join(hooks)}")
    seen: dict[str, Tensor] = {}
    handles = []
    for name, hook in hooks.items():
        if any(fnmatch(name, wanted) for wanted in names):

            def keep(_: Any, __: Any, passed: Tensor, name: str = name) -> None:
                seen[name] = passed.detach()

            handles.append(hook.register_forward_hook(keep))
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
