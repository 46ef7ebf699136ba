"""Small models with checkpoints, for the tests of these."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from arithmetext.models.gpt import GPT, GPTConfig
from arithmetext.training import checkpoints
from arithmetext.training.checkpoints import State, Writer, newest, restore
from arithmetext.training.config import TrainingConfig
from arithmetext.training.optimizers import make_optimizers

FILES = ("model.safetensors", "optimizer.safetensors", "state.json")


class Trained:
    """A model and its optimizers after some steps; every state is away from where it began."""

    def __init__(self, optimizer: Any = "muon", *, seed: int = 0, count: int = 0) -> None:
        torch.manual_seed(seed)
        config = GPTConfig(layers=1, heads=1, context=8)
        self.model = GPT(config, vocabulary=7, causal=True)
        training = TrainingConfig(steps=10, batch=8, optimizer=optimizer, lr=0.01)
        self.optimizers: Sequence[torch.optim.Optimizer] = make_optimizers(self.model, training)
        self.count = 0
        self.train(count)

    def train(self, count: int) -> None:
        for _ in range(count):
            self.count += 1
            generator = torch.Generator().manual_seed(self.count)
            for p in self.model.parameters():
                p.grad = torch.randn(p.shape, generator=generator)
            for optimizer in self.optimizers:
                optimizer.step()

    def save(self, folder: Path, state: State) -> None:
        with Writer(folder) as writer:
            writer.save(self.model, self.optimizers, state)

    def restore(self, folder: Path) -> State:
        return restore(newest(folder), self.model, self.optimizers)

    def bits(self) -> dict[str, Any]:
        """All there is to it."""
        names = {p: name for name, p in self.model.named_parameters()}
        tensors = {f"model/{name}": t for name, t in self.model.state_dict().items()}
        for number, optimizer in enumerate(self.optimizers):
            for p, values in optimizer.state.items():
                for quantity, value in values.items():
                    tensors[f"{number}/{names[p]}/{quantity}"] = value
        return {
            name: (t.dtype, tuple(t.shape), t.detach().numpy().tobytes())
            for name, t in tensors.items()
        }


def drafts(folder: Path) -> list[str]:
    """What is there besides whole checkpoints."""
    return [path.name for path in folder.iterdir() if not path.name.isdigit()]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


FIRST = State(step=100, seconds=1.25, best=2.5, best_step=100)

SECOND = State(step=200, seconds=1 / 3, best=1.5, best_step=100, intervals_since=1)


def with_digest(path: Path, content: Any) -> bytes:
    """A state.json of this content, with the digest that it should have."""
    return json.dumps({"state": content, "digest": checkpoints._digest(path, content)}).encode()
