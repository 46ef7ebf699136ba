"""AdamW and Muon with one learning rate, and its schedule.

Muon replaces the momentum of a matrix by the nearest orthogonal matrix, so that all directions get
updates of the same size. Five steps of a Newton–Schulz iteration compute it with matrix products
alone, for all matrices of one shape together. The update is scaled to the size of AdamW's (root
mean square 0.2 times the learning rate), so both share one learning rate. Muon trains the matrices
inside the blocks; AdamW trains the embeddings, filters, biases and norms.
"""

import math
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from .config import TrainingConfig

# The quintic of Jordan et al. (2024): it raises small singular values fast and brings all near 1.
QUINTIC = (3.4445, -4.7750, 2.0315)
RMS = 0.2  # root mean square of AdamW's updates in practice, at learning rate 1


def make_optimizers(model: nn.Module, config: TrainingConfig) -> list[torch.optim.Optimizer]:
    """AdamW, or Muon and AdamW, for all parameters that are trained; only matrices decay."""
    matrices: list[tuple[str, Tensor]] = []
    tables: list[tuple[str, Tensor]] = []  # embeddings and filters
    vectors: list[tuple[str, Tensor]] = []
    for name, parameter in model.named_parameters():
        if not parameter.requires_grad:
            continue
        matrix = parameter.ndim == 2 and "blocks." in name
        kind = matrices if matrix else tables if parameter.ndim > 1 else vectors
        kind.append((name, parameter))
    muon = config.optimizer == "muon"
    decaying = tables if muon else [*matrices, *tables]
    groups = [
        {"params": [p for _, p in decaying], "weight_decay": config.weight_decay},
        {"params": [p for _, p in vectors], "weight_decay": 0.0},
    ]
    fused = next(model.parameters()).is_cuda
    adamw = torch.optim.AdamW(groups, lr=config.lr, betas=(0.9, 0.95), fused=fused)
    if not muon:
        return [adamw]
    # Queries, keys and values are three matrices stored as one.
    parts = [(p, 3 if name.endswith("qkv.weight") else 1) for name, p in matrices]
    return [Muon(parts, lr=config.lr, weight_decay=config.weight_decay), adamw]


class Muon(torch.optim.Optimizer):
    """`parameters`: matrices, each with the number of matrices that are stacked in it."""

    def __init__(
        self, parameters: Iterable[tuple[Tensor, int]], *, lr: float, weight_decay: float
    ) -> None:
        self.parts = dict(parameters)
        defaults = {"lr": lr, "weight_decay": weight_decay, "momentum": 0.95}
        super().__init__(list(self.parts), defaults)

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        [group] = self.param_groups
        parameters = [p for p in group["params"] if p.grad is not None]
        if not parameters:
            return
        for p in parameters:
            if not self.state[p]:
                self.state[p]["momentum"] = torch.zeros_like(p)
        gradients = [p.grad for p in parameters]
        momenta = [self.state[p]["momentum"] for p in parameters]
        torch._foreach_lerp_(momenta, gradients, 1 - group["momentum"])
        ahead = torch._foreach_lerp(gradients, momenta, group["momentum"])  # Nesterov's look-ahead
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        by_shape: dict[tuple[int, ...], list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for p, update in zip(parameters, ahead, strict=True):
            parts = p.chunk(self.parts[p]), update.chunk(self.parts[p])
            for part, change in zip(*parts, strict=True):
                by_shape[part.shape].append((part, change))
        for shape, pairs in by_shape.items():
            matrices, updates = zip(*pairs, strict=True)
            directions = orthogonal(torch.stack(updates)).to(matrices[0].dtype)
            rate = group["lr"] * RMS * math.sqrt(max(shape))
            torch._foreach_add_(list(matrices), list(directions), alpha=-rate)


# The state that an optimizer has for each parameter after its first step.
STATE_OF: dict[type[torch.optim.Optimizer], tuple[str, ...]] = {
    torch.optim.AdamW: ("step", "exp_avg", "exp_avg_sq"),
    Muon: ("momentum",),
}


def orthogonal(matrices: Tensor) -> Tensor:
    """The orthogonal matrix near each matrix, [count, rows, columns]; in bfloat16 on a GPU."""
    x = matrices.bfloat16() if matrices.is_cuda else matrices
    wide = x.shape[-2] <= x.shape[-1]
    x = x if wide else x.mT
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = QUINTIC
    for _ in range(5):
        square = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    return x if wide else x.mT


def learning_rate(step: int, config: TrainingConfig) -> float:
    """Linear warm-up, then a cosine that reaches zero after the last step."""
    warmup = min(config.warmup, config.steps)
    if step < warmup:
        return config.lr * (step + 1) / warmup
    done = (step - warmup) / max(1, config.steps - warmup)
    return config.lr * (1 + math.cos(math.pi * done)) / 2
