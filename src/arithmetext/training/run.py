"""The model of a run and its optimizers on one device: a training step, and validation."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel

from ..models.language import TrainableModel
from .config import Config
from .devices import World
from .optimizers import learning_rate, make_optimizers
from .stream import Batch, micro_batches, predicted_count

Moment = Any  # seconds, or an event of a GPU

# The attention kernels in the order they are tried. cuDNN's is the fastest on Hopper GPUs; it and
# flash attention need half precision and a recent GPU, the memory-efficient kernel does not. Plain
# matrices come last: they take memory for every pair of positions.
ATTENTION = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]


class StepResult(NamedTuple):
    """One step, over all processes."""

    values: Tensor  # [3]: loss, words, gradient norm; valid on the CPU from `ended` on
    begun: Moment
    ended: Moment
    waited: float  # seconds spent waiting for text

    def seconds(self) -> float:
        """How long the step took; waits for its end."""
        if isinstance(self.ended, float):
            return self.ended - float(self.begun)
        self.ended.synchronize()
        return float(self.begun.elapsed_time(self.ended)) / 1000


class Run:
    """A model and its optimizers, on one of the devices that train it together."""

    def __init__(self, config: Config, world: World) -> None:
        self.config, self.world = config, world
        self.micro, self.accumulation = micro_batches(config, world.size)
        self.causal = config.task == "ntp"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.model = make_model(config).to(world.device)
        self.half = world.bf16 and self.model.precision == "bfloat16"
        if self.model.precision == "float32":
            torch.set_float32_matmul_precision("highest")
        self.optimizers = make_optimizers(self.model, config.training)
        self.loss: Callable[..., Tensor] = Loss(self.model)
        self.no_sync: Callable[[], AbstractContextManager[Any]] = nullcontext
        if self.compiles:
            self.loss = torch.compile(self.loss, dynamic=False)
        if world.size > 1:
            self.loss = together = DistributedDataParallel(self.loss)
            self.no_sync = together.no_sync

    @property
    def compiles(self) -> bool:
        """Whether to compile: half a minute pays on a GPU; a CPU machine may have no compiler."""
        return self.world.device.type == "cuda" and self.model.compiles

    def precision(self) -> AbstractContextManager[Any]:
        return self.world.precision() if self.half else nullcontext()

    def mfu(self, rate: float) -> float | None:
        """Model FLOPs utilisation at `rate` tokens per second: the share of the bfloat16 peak."""
        flops = self.model.flops_per_token(self.config.model.context)
        if self.world.peak is None or flops is None:
            return None
        return rate * flops / (self.world.peak * self.world.size)

    def warm_up(self) -> None:
        """Compile, on a batch of zeros."""
        if self.compiles:
            length = self.config.model.context
            targets = (
                length if self.causal else predicted_count(self.config.training.predicted, length)
            )

            def zeros(count: int) -> Tensor:  # a new tensor each time: sharing would be compiled in
                return torch.zeros((self.micro, count), dtype=torch.int64, device=self.world.device)

            chosen = None if self.causal else zeros(targets)
            self._gradients(Batch(zeros(length), zeros(targets), chosen, 0))
            self.model.zero_grad()

    def step(self, i: int, parts: Iterator[Batch]) -> StepResult:
        """Take one step of the optimizers, without waiting for the GPU to finish it."""
        begun = self._moment()
        loss = torch.zeros((), device=self.world.device)
        words, waited = 0, 0.0
        for a in range(self.accumulation):
            asked = time.perf_counter()
            part = next(parts)
            waited += time.perf_counter() - asked
            words += part.words
            # Processes average their gradients only after the last part.
            with nullcontext() if a == self.accumulation - 1 else self.no_sync():
                loss += self._gradients(part.to(self.world.device))
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.training.clip)
        rate = learning_rate(i, self.config.training)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
        sums = self.world.sum(torch.stack([loss / self.world.size, torch.full_like(loss, words)]))
        values = torch.cat([sums, norm[None]]).to("cpu", non_blocking=True)
        return StepResult(values, begun, self._moment(), waited)

    def _moment(self) -> Moment:
        """The time now; on a GPU, an event after all work given to it so far."""
        if self.world.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        return torch.cuda.current_stream().record_event(event)

    def _gradients(self, part: Batch) -> Tensor:
        """Add the gradients of one part of the batch; return its share of the loss."""
        with fast_attention(self.world):
            with self.precision():
                loss = self.loss(*part[:3]) / self.accumulation
            torch.autograd.backward(loss)
        return loss.detach()

    @torch.no_grad()
    def validate(self, batches: list[Batch]) -> dict[str, Any]:
        """Loss in nats per token and per word, and the share of tokens predicted right."""
        sums = torch.zeros(4, dtype=torch.float64, device=self.world.device)
        for batch in batches:
            inputs, targets, chosen, words = batch.to(self.world.device)
            with self.precision(), fast_attention(self.world):
                logits = self.model.training_logits(inputs, chosen).float().flatten(0, 1)
            nats = F.cross_entropy(logits, targets.flatten(), reduction="sum")
            hits = (logits.argmax(-1) == targets.flatten()).sum()
            sums += torch.stack([nats, hits, *sums.new_tensor([targets.numel(), words])])
        nats, hits, tokens, words = self.world.sum(sums).tolist()
        return {
            "validation_loss": nats / tokens,
            "validation_nats_per_word": nats / words if self.causal else None,
            "validation_accuracy": hits / tokens,
        }


class Loss(nn.Module):
    """The loss of a model as a module, which DistributedDataParallel needs."""

    def __init__(self, model: TrainableModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, targets: Tensor, chosen: Tensor | None) -> Tensor:
        return self.model.loss(inputs, targets, chosen)


def make_model(config: Config) -> TrainableModel:
    """A new model, its weights drawn from torch's random numbers."""
    return config.model.build(config.tokens.size, config.task)


def fast_attention(world: World) -> AbstractContextManager[Any]:
    """On a GPU, use the fastest attention kernel available."""
    if world.device.type != "cuda":
        return nullcontext()
    return sdpa_kernel(ATTENTION, set_priority=True)
