"""A model without attention: each channel is filtered over the whole window.

    x⁰ = tokens
    y  = x + out(filter ∗ in(norm(x)))     for each of the layers
    x  = y + 4d-wide tanh-GELU(norm(y))
    logits = norm(x) · tokensᵀ

A filter has one weight for each distance, from 0 to `context` - 1. With one token per word,
distance counts integers, and whether a prime p divides n depends on the words at multiples of p
before n: a filter learns this as a comb of period p. Attention has to find the same distances from
angles (RoPE) or from contents, for which it needs much more text (docs/longconv.md).

A convolution takes O(T log T) operations for T tokens, by FFT. Reading on after a prompt, the model
does not read its window again: what the past gives to the next `BLOCK` tokens is computed at once,
and only the distances within the block are added token by token.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError
from .config import LongConvConfig as LongConvConfig
from .gpt import Hook, gelu, initialise, watching
from .language import Prompts, TrainableModel

BLOCK = 256  # tokens read one by one before the convolutions are computed again


class Block(nn.Module):
    def __init__(self, config: LongConvConfig) -> None:
        super().__init__()
        width = config.width
        self.filter_norm, self.mlp_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.filter_in, self.filter_out = nn.Linear(width, width), nn.Linear(width, width)
        # The weight of each distance, [width, 1, context], as in `nn.Conv1d`.
        self.filter = nn.Parameter(torch.empty(width, 1, config.context))
        self.mlp_up = nn.Linear(width, 4 * width)
        self.mlp_down = nn.Linear(4 * width, width)
        self.residual_before, self.residual_after = Hook(), Hook()

    def forward(self, x: Tensor) -> Tensor:
        """x: [batch, tokens, width]; result as x."""
        x = self.residual_before(x)
        return self.finish(x, convolve(self.values(x), self.filter[:, 0]))

    def values(self, x: Tensor) -> Tensor:
        """What is filtered, in float32: [batch, width, tokens]."""
        values: Tensor = self.filter_in(self.filter_norm(x)).float()
        return values.mT

    def finish(self, x: Tensor, filtered: Tensor) -> Tensor:
        """The residual stream after the block; filtered: [batch, width, tokens]."""
        x = x + self.filter_out(filtered.mT.to(x.dtype))
        wide = gelu(self.mlp_up(self.mlp_norm(x)))  # [batch, tokens, 4 * width]
        after: Tensor = self.residual_after(x + self.mlp_down(wide))
        return after


class LongConv(TrainableModel):
    """`vocabulary` is D, the number of tokens."""

    config: LongConvConfig

    def __init__(self, config: LongConvConfig, *, vocabulary: int) -> None:
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        self.tokens = nn.Embedding(vocabulary, config.width)
        blocks = [Block(config) for _ in range(config.layers)]
        self.blocks: Sequence[Block] = nn.ModuleList(blocks)  # type: ignore[assignment]
        self.norm = nn.LayerNorm(config.width)
        self.apply(initialise)
        for block in blocks:
            for last in block.filter_out, block.mlp_down:  # as in the GPT
                nn.init.normal_(last.weight, std=0.02 / math.sqrt(2 * config.layers))
            nn.init.normal_(block.filter, std=0.1 / math.sqrt(config.context))
            with torch.no_grad():
                block.filter[..., 0] += 1  # at first a token sees little but itself

    def forward(self, ids: Tensor) -> Tensor:
        """The logits after every token: [batch, tokens] to [batch, tokens, vocabulary]."""
        x = self.tokens(ids)  # [batch, tokens, width]
        if torch.is_autocast_enabled(x.device.type):  # half the traffic on the residual stream
            x = x.to(torch.get_autocast_dtype(x.device.type))
        for block in self.blocks:
            x = block(x)
        return self.logits(x)

    def logits(self, x: Tensor) -> Tensor:
        """Of the residual stream after the last block, in float32."""
        return F.linear(self.norm(x).float(), self.tokens.weight.float())

    def read(self, prompts: Prompts, *, stride: int = 1) -> "Continued":
        """Read prompts of any length. Nothing is dropped, so `stride` does not matter."""
        return Continued(self, prompts.ids.to(self.device))

    def loss(self, inputs: Tensor, targets: Tensor, chosen: Tensor | None = None) -> Tensor:
        return F.cross_entropy(self(inputs).flatten(0, 1), targets.flatten())

    def training_logits(self, inputs: Tensor, chosen: Tensor | None = None) -> Tensor:
        logits: Tensor = self(inputs)
        return logits

    @torch.no_grad()
    def residual_stream(self, ids: Tensor) -> Tensor:
        """ids: [windows, tokens]; result: [layers + 1, windows, tokens, width], embedding first."""
        with watching(self, "blocks.0.residual_before", "blocks.*.residual_after") as seen:
            self(ids.to(self.device))
        return torch.stack([activation.float() for activation in seen.values()])

    def with_initial_weights(self, seed: int) -> "LongConv":
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.manual_seed(seed)
            model = LongConv(self.config, vocabulary=self.vocabulary)
        return model.to(self.device, self.tokens.weight.dtype).eval()

    @property
    def description(self) -> str:
        return (
            f"Long convolutions, {self.config.description},"
            f" {self.parameter_count / 1e6:.3g} M parameters, predicts next tokens"
        )


class Continued:
    """Prompts that have been read, and what the filters take from them for the next tokens."""

    @torch.no_grad()
    def __init__(self, model: LongConv, prompts: Tensor) -> None:
        """prompts: [prompts, tokens]."""
        if prompts.shape[1] < 1:
            raise InputError("a prompt needs at least one token")
        self.model = model
        self._read = 0  # tokens of the block that have been read
        self._past: list[Tensor] = []  # of each layer: values up to the block, [prompts, width, …]
        x = model.tokens(prompts)
        for block in model.blocks:
            values = block.values(x)
            self._past.append(values)
            x = block.finish(x, convolve(values, block.filter[:, 0]))
        self._logits = model.logits(x[:, -1])
        self._begin_block()

    def log_probabilities(self) -> Tensor:
        return self._logits.log_softmax(-1)

    @torch.no_grad()
    def append(self, tokens: Tensor) -> None:
        if self._read == BLOCK:
            self._past = [
                torch.cat(both, -1) for both in zip(self._past, self._recent, strict=True)
            ]
            self._begin_block()
        i, model = self._read, self.model
        x = model.tokens(tokens.to(model.device))[:, None]  # [prompts, 1, width]
        for block, recent, coming in zip(model.blocks, self._recent, self._coming, strict=True):
            recent[..., i] = block.values(x)[..., 0]
            near = block.filter[:, 0, : i + 1].flip(-1).float()  # distances within the block
            filtered = coming[..., i] + (recent[..., i + 1 - near.shape[-1] : i + 1] * near).sum(-1)
            x = block.finish(x, filtered[..., None])
        self._logits = model.logits(x[:, 0])
        self._read = i + 1

    def _begin_block(self) -> None:
        """Drop what is out of reach, and add up the past for each token of the next block."""
        reach = self.model.config.context - 1
        self._past = [past[..., max(0, past.shape[-1] - reach) :] for past in self._past]
        # Of each layer, [prompts, width, BLOCK].
        self._recent = [past.new_zeros(*past.shape[:2], BLOCK) for past in self._past]
        self._coming = [
            _after(past, block.filter[:, 0])
            for past, block in zip(self._past, self.model.blocks, strict=True)
        ]
        self._read = 0


def convolve(values: Tensor, filter: Tensor) -> Tensor:
    """Each channel filtered by its earlier values; in float32, by FFT.

    values: [batch, width, tokens]; filter: [width, distances]; result as `values`.
    """
    tokens = values.shape[-1]
    filter = filter[:, :tokens]
    return _convolved(values, filter, tokens + filter.shape[-1] - 1)[..., :tokens]


def _after(values: Tensor, filter: Tensor) -> Tensor:
    """What values give to the `BLOCK` tokens after them: [batch, width, BLOCK].

    values: [batch, width, tokens]; filter: [width, distances].
    """
    tokens = values.shape[-1]
    filter = filter[:, : tokens + BLOCK]
    # The end wraps around to the beginning, but only to places before these.
    length = max(tokens + BLOCK, filter.shape[-1])
    return _convolved(values, filter, length)[..., tokens : tokens + BLOCK]


def _convolved(values: Tensor, filter: Tensor, length: int) -> Tensor:
    """A circular convolution of at least this length, [batch, width, ≥ length]."""
    length = _fast(length)
    with torch.autocast(values.device.type, enabled=False):
        spectrum = torch.fft.rfft(values, length) * torch.fft.rfft(filter.float(), length)
        convolved: Tensor = torch.fft.irfft(spectrum, length)
    return convolved


def _fast(length: int) -> int:
    """The next number without prime factors above 5: FFTs of these lengths are fast."""
    powers = (3**i * 5**j for i in range(40) for j in range(28) if 3**i * 5**j < 2 * length)
    best: int = min(odd << (-(-length // odd) - 1).bit_length() for odd in powers)
    return best
