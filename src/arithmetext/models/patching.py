"""What a GPT predicts if its residual stream is changed at one position.

Every position is changed in a run of its own, in which all others keep the keys and values of the
unchanged run. A position sees only itself and those before it, so all of these runs fit into one
pass through the layers after the change.
"""

import math
from typing import cast

import torch
from torch import Tensor

from .config import HEAD_DIM
from .gpt import GPT, Block, watching


class PatchedWindow:
    """One window as the model reads it, ready for changes of single positions."""

    @torch.no_grad()
    def __init__(self, model: GPT, ids: Tensor) -> None:
        """ids: [tokens]."""
        names = ("attention.keys", "attention.values", "residual_after")
        hooks = ["blocks.0.residual_before", *(f"blocks.*.{name}" for name in names)]
        with watching(model, *hooks) as seen:
            self.logits = model(ids[None].to(model.device))[0]  # [tokens, vocabulary]
        self.model = model

        def of_layers(name: str) -> list[Tensor]:
            return [seen[f"blocks.{layer}.{name}"][0] for layer in range(len(model.blocks))]

        self.keys, self.values = of_layers(names[0]), of_layers(names[1])
        # The embedding, and the residual stream after each block, [tokens, width] each.
        self.stream = [seen[hooks[0]][0], *of_layers(names[2])]

    @torch.no_grad()
    def predict(self, layer: int, positions: Tensor, x: Tensor) -> Tensor:
        """Logits at these positions if the stream there is x after `layer` blocks.

        positions: [changed]; x: [changed, width]; result: [changed, vocabulary].
        """
        model = self.model
        positions = positions.to(model.device)
        rope = None if model.rope is None else model.rope[positions]
        later = torch.arange(len(self.logits), device=model.device) >= positions[:, None]
        x = x.to(self.stream[0].dtype)[None]
        blocks = cast(list[Block], list(model.blocks)[layer:])
        for block, keys, values in zip(blocks, self.keys[layer:], self.values[layer:], strict=True):
            attention = block.attention
            q, k, v = attention.project(block.attention_norm(x), rope)
            scores = (q[0] @ keys.mT).masked_fill(later, -math.inf)
            own = (q[0] * k[0]).sum(-1, keepdim=True)  # each position sees its own changed key
            weights = (torch.cat([scores, own], -1) / math.sqrt(HEAD_DIM)).softmax(-1)
            mixed = weights[..., :-1] @ values + weights[..., -1:] * v[0]
            x = x + attention.out(mixed.transpose(0, 1).flatten(1)[None])
            x = x + block.mlp(x)
        return model.logits(x)[0]
