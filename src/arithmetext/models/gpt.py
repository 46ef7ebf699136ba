"""The paper's GPT-2 on one page, and a variant with rotary positions that learns faster.

    x⁰ = tokens + positions
    y  = x + attention(norm(x))         for each of the layers
    x  = y + 4d-wide tanh-GELU(norm(y))
    logits = norm(x) · tokensᵀ

For next-token prediction the attention is causal: a position sees itself and the positions before
it. For masked modelling every position sees all positions. With `positions="rotary"` nothing is
added to the tokens; instead RoPE rotates queries and keys by angles that grow with their positions,
so that a score depends on distance.

Named `Hook` modules give access to the activations. They do nothing by themselves. On the residual
stream: `blocks.3.residual_before`, `residual_between`, `residual_after`. In the attention:
`blocks.3.attention.queries`, `keys`, `values`, `pattern`, `mixed`. `watching` collects activations;
a forward hook that returns a tensor replaces one.
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
from .config import HEAD_DIM as HEAD_DIM
from .config import GPTConfig as GPTConfig
from .language import Prompts, TrainableModel

if TYPE_CHECKING:
    from .kv_cache import KVCache, LayerCache, SlidingContext
    from .patching import PatchedWindow

# RoPE rotates the first pair of a head by 1 radian per position, the last by about 1/10,000.
ROPE_BASE = 10_000.0


class Hook(nn.Identity):
    """A named point in the model that an activation passes through."""


class Attention(nn.Module):
    def __init__(self, config: GPTConfig, *, causal: bool) -> None:
        super().__init__()
        self.heads, self.causal = config.heads, causal
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.queries, self.keys, self.values = Hook(), Hook(), Hook()
        self.pattern, self.mixed = Hook(), Hook()

    def forward(self, x: Tensor, rope: Tensor | None, cache: "LayerCache | None") -> Tensor:
        """x: [batch, tokens, width]; rope: [tokens, 2, HEAD_DIM]; result as x."""
        q, k, v = self.project(x, rope)
        q, k, v = self.queries(q), self.keys(k), self.values(v)
        visible = None
        if cache is not None:
            k, v, visible = cache.extend(k, v)
        if self.pattern._forward_hooks:  # the fused kernel does not show the weights
            mixed = self.pattern(self.weights(q, k, visible)) @ v
        else:
            causal = self.causal and visible is None
            mixed = F.scaled_dot_product_attention(q, k, v, visible, is_causal=causal)
        out: Tensor = self.out(self.mixed(mixed.transpose(1, 2).flatten(2)))
        return out

    def project(self, x: Tensor, rope: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values, [batch, heads, tokens, HEAD_DIM] each."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, HEAD_DIM)).permute(2, 0, 3, 1, 4)
        if rope is not None:
            q, k = apply_rope(q, rope), apply_rope(k, rope)
        return q, k, v

    def weights(self, q: Tensor, k: Tensor, visible: Tensor | None) -> Tensor:
        """Attention weights, [batch, heads, queries, keys]; each row sums to one."""
        scores = q @ k.mT / math.sqrt(HEAD_DIM)
        if self.causal and visible is None:
            visible = torch.ones_like(scores[0, 0], dtype=torch.bool).tril()
        if visible is not None:
            scores = scores.masked_fill(~visible, -math.inf)
        return scores.softmax(-1)


class Block(nn.Module):
    def __init__(self, config: GPTConfig, *, causal: bool) -> None:
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.LayerNorm(config.width), nn.LayerNorm(config.width)
        self.attention = Attention(config, causal=causal)
        self.mlp_up = nn.Linear(config.width, 4 * config.width)
        self.mlp_down = nn.Linear(4 * config.width, config.width)
        self.residual_before, self.residual_between, self.residual_after = Hook(), Hook(), Hook()

    def forward(
        self, x: Tensor, rope: Tensor | None, cache: "LayerCache | None", chosen: Tensor | None
    ) -> Tensor:
        """x: [batch, tokens, width]; result: the same, or the `chosen` positions alone.

        After the attention no position sees another, so only the chosen ones need the MLP.
        """
        x = self.residual_before(x)
        x = self.residual_between(x + self.attention(self.attention_norm(x), rope, cache))
        if chosen is not None:
            x = x.gather(1, chosen[..., None].expand(-1, -1, x.shape[-1]))
        after: Tensor = self.residual_after(x + self.mlp(x))
        return after

    def mlp(self, x: Tensor) -> Tensor:
        """x: [batch, tokens, width]; result as x."""
        wide = gelu(self.mlp_up(self.mlp_norm(x)))  # [batch, tokens, 4 * width]
        narrow: Tensor = self.mlp_down(wide)
        return narrow


class GPT(TrainableModel):
    """`vocabulary` is the number of token ids: D, or D + 1 with [MASK]."""

    config: GPTConfig
    windowed = True

    def __init__(self, config: GPTConfig, *, vocabulary: int, causal: bool) -> None:
        super().__init__()
        self.config, self.vocabulary, self.causal = config, vocabulary, causal
        self.heads = config.layers, config.heads
        self.tokens = nn.Embedding(vocabulary, config.width)
        learned = config.positions == "learned"
        self.positions = nn.Embedding(config.context, config.width) if learned else None
        self.rope: Tensor | None
        table = None if learned else rope_table(config.context)
        self.register_buffer("rope", table, persistent=False)
        blocks = [Block(config, causal=causal) for _ in range(config.layers)]
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(config.width)
        self.apply(initialise)
        for block in blocks:  # the residual stream is a sum of 2·layers terms
            for last in block.attention.out, block.mlp_down:
                nn.init.normal_(last.weight, std=0.02 / math.sqrt(2 * config.layers))
            if config.attention == "off":
                for parameter in block.attention.out.parameters():
                    nn.init.zeros_(parameter).requires_grad_(False)

    def forward(
        self, ids: Tensor, chosen: Tensor | None = None, cache: "KVCache | None" = None
    ) -> Tensor:
        """The logits at every position, or at the `chosen` positions of each row alone.

        ids: [batch, tokens]; chosen: [batch, positions]; result: [batch, positions, vocabulary].
        With a cache, the keys and values of the tokens are stored in it, and a single token is read
        after the tokens that the cache holds.
        """
        if ids.shape[1] > self.config.context:
            raise InputError(
                f"the model reads at most {self.config.context} tokens, not {ids.shape[1]}"
            )
        positions: slice | Tensor = slice(ids.shape[1])
        if cache is not None and ids.shape[1] == 1:
            positions = cache.position
        x = self.tokens(ids)  # [batch, tokens, width]
        if self.positions is not None:
            x = x + self.positions.weight[positions]
        if torch.is_autocast_enabled(x.device.type):  # half the traffic on the residual stream
            x = x.to(torch.get_autocast_dtype(x.device.type))
        rope = None if self.rope is None else self.rope[positions]
        layers: Sequence[LayerCache | None]
        layers = [None] * len(self.blocks) if cache is None else cache.layers()
        for block, layer in zip(self.blocks, layers, strict=True):
            x = block(x, rope, layer, chosen if block is self.blocks[-1] else None)
        return self.logits(x)

    @torch.no_grad()
    def finish(self, x: Tensor, layer: int) -> Tensor:
        x = x.to(self.device, self.tokens.weight.dtype)
        rope = None if self.rope is None else self.rope[: x.shape[1]]
        for block in self.blocks[layer:]:
            x = block(x, rope, None, None)
        return self.logits(x)

    def logits(self, x: Tensor) -> Tensor:
        """Of the residual stream after the last block."""
        x, weight = self.norm(x), self.tokens.weight
        if x.dtype == torch.bfloat16:  # in bfloat16 the two largest logits are often equal
            x, weight = x.float(), weight.float()
        return F.linear(x, weight)

    def read(self, prompts: Prompts, *, stride: int = 1) -> "SlidingContext":
        """Read prompts of any length; the model sees their last `context` tokens."""
        from .kv_cache import SlidingContext

        return SlidingContext(self, prompts.ids.to(self.device), stride)

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
    def attention(self, ids: Tensor, layer: int | None = None) -> Tensor:
        """Attention weights while the model reads one window, in all layers or in one.

        ids: [tokens]; result: [layers, heads, tokens, tokens], a gigabyte for a large model.
        """
        with watching(self, f"blocks.{'*' if layer is None else layer}.attention.pattern") as seen:
            self(ids[None].to(self.device))
        return torch.stack([pattern[0].float() for pattern in seen.values()])

    @torch.no_grad()
    def head_outputs(self, ids: Tensor) -> Tensor:
        with watching(self, "blocks.*.attention.mixed") as seen:
            self(ids.to(self.device))
        outputs = torch.stack([mixed.float() for mixed in seen.values()])
        return outputs.unflatten(-1, (-1, HEAD_DIM))  # type: ignore[no-untyped-call, no-any-return]

    @contextmanager
    def without_head(self, layer: int, head: int, instead: Tensor) -> Iterator[None]:
        part = slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)

        def replace(_: Any, __: Any, mixed: Tensor) -> Tensor:
            changed = mixed.clone()
            changed[..., part] = instead.to(mixed)
            return changed

        hook = self.get_submodule(f"blocks.{layer}.attention.mixed")
        handle = hook.register_forward_hook(replace)
        try:
            yield
        finally:
            handle.remove()

    def patched(self, ids: Tensor) -> "PatchedWindow":
        from .patching import PatchedWindow

        if not self.causal:
            raise InputError("single positions can be changed only in a model of next tokens")
        return PatchedWindow(self, ids)

    @torch.no_grad()
    def residual_stream(self, ids: Tensor) -> Tensor:
        """ids: [windows, tokens]; result: [layers + 1, windows, tokens, width], embedding first."""
        with watching(self, "blocks.0.residual_before", "blocks.*.residual_after") as seen:
            self(ids.to(self.device))
        return torch.stack([activation.float() for activation in seen.values()])

    def with_initial_weights(self, seed: int) -> "GPT":
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.manual_seed(seed)
            model = GPT(self.config, vocabulary=self.vocabulary, causal=self.causal)
        return model.to(self.device, self.tokens.weight.dtype).eval()

    def flops_per_token(self, length: int) -> int:
        """Counted as 6N + 12·layers·d·L."""
        return 6 * self.parameter_count + 12 * self.config.layers * self.config.width * length

    @property
    def description(self) -> str:
        return (
            f"GPT-2, {self.config.description}, {self.parameter_count / 1e6:.3g} M parameters,"
            f" predicts {'next' if self.causal else 'masked'} tokens"
        )


def gelu(x: Tensor) -> Tensor:
    """The tanh GELU; compiled, it is faster when written with the logistic function."""
    if torch.compiler.is_compiling():
        return x * torch.sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x * x * x))
    return F.gelu(x, approximate="tanh")


def initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


def rope_table(context: int) -> Tensor:
    """Cosines and sines of the angles of each pair at each position: [context, 2, HEAD_DIM]."""
    pairs = 1 / ROPE_BASE ** (torch.arange(0, HEAD_DIM, 2, device="cpu") / HEAD_DIM)
    angle = torch.outer(torch.arange(context, device="cpu").float(), pairs).repeat(1, 2)
    return torch.stack([angle.cos(), angle.sin()], 1)


def apply_rope(x: Tensor, rope: Tensor) -> Tensor:
    """Rotate the pairs (i, i + HEAD_DIM/2) of every head.

    x: [batch, heads, tokens, HEAD_DIM]; rope: [tokens, 2, HEAD_DIM].
    """
    cosines, sines = rope.to(x.dtype).unbind(1)
    first, second = x.chunk(2, -1)
    return x * cosines + torch.cat([-second, first], -1) * sines


@contextmanager
def watching(model: nn.Module, *names: str) -> Iterator[dict[str, Tensor]]:
    """Collect the activations at hooks while the `with` block runs; * in a name matches anything.

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
