"""Train a model, from its configuration to a folder that holds all about it.

    config.json  environment.json  tokenizer.json  metrics.jsonl  checkpoints/  model/

The same configuration gives the same weights, killed and resumed or not (on a CPU to the last bit).
After every `interval` of steps, what the paper calls an epoch, the validation loss is taken and a
checkpoint written; `model/` has the weights of the lowest, as `models.files` writes them.
"""

import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.parallel import DistributedDataParallel

from ..errors import InputError
from ..files import write_whole
from ..models import files
from ..models.language import TrainableModel
from ..tokens import Tokenizer, load
from . import checkpoints
from .checkpoints import State
from .config import Config, TrainingConfig, differences
from .devices import World, environment, world
from .monitor import Monitor
from .optimizers import learning_rate, make_optimizers
from .stream import Batch, Share, micro_batches, predicted_count

Moment = Any  # seconds, or an event of a card


class Diverged(InputError):
    """The loss is no longer a number."""


@dataclass(frozen=True)
class Outcome:
    """What a finished run came to."""

    steps: int
    seconds: float
    stopped_early: bool
    validation_loss: float  # nats a token
    nats_per_word: float | None
    accuracy: float  # share of tokens predicted right, the true ones before them given


def train(
    config: Config | None,
    folder: Path,
    *,
    resume: bool = False,
    wait: bool = False,
    tensorboard: bool = False,
) -> Outcome:
    """Train, or go on training, in this folder; without a configuration, go on with its run.

    One process writes to a folder at a time: another one is refused or, with `wait`, waits. If
    several processes train together, the first of them reads and writes the folder.
    """
    with (
        world() as here,
        ThreadPoolExecutor(1) as aside,
        here.sole_writers(folder, wait=wait),
    ):
        config, known = here.from_first(lambda: _known(config, folder, resume=resume))
        micro_batches(config, here.size)
        _check_memory(config, here)
        # The kernels that make the text compile while the model does.
        reading = aside.submit(_share, config, known, here)
        with _memory(config):
            run = Run(config, here)
            if reading.done():
                reading.result()  # what is wrong with the text is said before the model compiles
            run.warm_up()
        share = reading.result()
        if known is None:
            here.from_first(lambda: _begin(run, folder, share.tokenizer))
        state = checkpoints.restore(
            here.from_first(lambda: checkpoints.newest(folder / "checkpoints")),
            run.model,
            run.optimizers,
        )
        _check_state(state, config, folder)
        if not state.finished:
            with _memory(config):
                _train(run, share, state, folder, tensorboard=tensorboard)
        else:
            here.from_first(lambda: _export_again(run, share.tokenizer, state, folder))
        here.wait()
        assert state.best is not None and state.best_accuracy is not None
        return Outcome(
            steps=state.step,
            seconds=state.seconds,
            stopped_early=state.step < config.training.steps,
            validation_loss=state.best,
            nats_per_word=state.best_nats_per_word,
            accuracy=state.best_accuracy,
        )


def _known(config: Config | None, folder: Path, *, resume: bool) -> tuple[Config, Tokenizer | None]:
    """The configuration to train, and the tokenizer of the run if the folder holds it already."""
    path = folder / "config.json"
    if config is not None:
        config.checked()
        if not path.exists():
            if checkpoints.steps(folder / "checkpoints"):
                raise InputError(f"{folder} has checkpoints but no config.json: use another --out")
            return config, None
        if not resume:
            raise InputError(f"{folder} holds a run already: --resume, or another --out")
    there = Config.load(path)
    for difference in differences(config, there)[:1] if config is not None else []:
        raise InputError(f"{folder} holds a run with another setting: {difference} there")
    tokenizer = load(folder / "tokenizer.json")
    if tokenizer.size != there.tokens.size:
        raise InputError(
            f"{folder}: tokens.size is {there.tokens.size} in config.json,"
            f" but tokenizer.json has {tokenizer.size} tokens"
        )
    return there, tokenizer


def _share(config: Config, known: Tokenizer | None, here: World) -> Share:
    """The windows that this process reads; a new run makes its tokenizer."""
    tokenizer = known or config.tokens.tokenizer(config.text, config.n)
    return Share(config, tokenizer, here.rank, here.size)


def _check_state(state: State, config: Config, folder: Path) -> None:
    """Refuse a state that no run with this configuration can be in."""
    training = config.training
    if state.finished:
        early = state.step < training.steps and state.intervals_since >= training.patience
        possible = state.best is not None and state.best_accuracy is not None
        possible &= early or state.step == training.steps
    else:
        possible = state.step < training.steps
    if not possible:
        raise InputError(
            f"{folder}: the checkpoint at step {state.step} does not fit config.json"
            f" (training.steps = {training.steps}, training.patience = {training.patience}):"
            " put back the config.json that this run began with"
        )


def _check_memory(config: Config, here: World) -> None:
    """Refuse a model that cannot fit into the device's memory, before it is made layer by layer."""
    # Bytes: weights, gradients and momenta in float32.
    needed = 12 * config.model.matrix_weights(config.tokens.size)
    if needed > here.memory:
        raise InputError(
            f"too little memory: the {here.memory / 1e9:.3g} GB of this device cannot hold the"
            " weights, gradients and momenta of so large a model; make it smaller"
        )


@contextmanager
def _memory(config: Config) -> Iterator[None]:
    """Say what to do where there is too little; on a CPU torch has no error of its own for it."""
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and "allocate memory" not in str(error):
            raise
        raise InputError(
            "too little memory: lower training.device_batch (now"
            f" {config.training.device_batch} tokens; the batch stays the same) or the model's size"
        ) from None


def _begin(run: "Run", folder: Path, tokenizer: Tokenizer) -> None:
    """Write what stands before the first step."""
    tokenizer.save(folder / "tokenizer.json")
    about = environment(run.here) | ({} if run.half else {"precision": "float32"})
    write_whole(folder / "environment.json", json.dumps(about, indent=1) + "\n")
    run.config.save(folder / "config.json")  # last: a folder with it is complete


class Figures(NamedTuple):
    """Of one step, over all processes."""

    values: Tensor  # loss, words, norm of the gradient; on their way to the CPU
    begun: Moment
    ended: Moment  # by then the values are there
    waited: float  # seconds, for text

    def seconds(self) -> float:
        """How long the step took; waits for its end."""
        if isinstance(self.ended, float):
            return self.ended - float(self.begun)
        self.ended.synchronize()
        return float(self.begun.elapsed_time(self.ended)) / 1000


class Run:
    """A model and its optimizers, on one of the devices that train it."""

    def __init__(self, config: Config, here: World) -> None:
        self.config, self.here = config, here
        self.micro, self.accumulation = micro_batches(config, here.size)
        self.causal = config.task == "ntp"
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.seed)
            self.model = make_model(config).to(here.device)
        self.half = here.bf16 and self.model.precision == "bfloat16"
        if self.model.precision == "float32":
            torch.set_float32_matmul_precision("highest")
        self.optimizers = make_optimizers(self.model, config.training)
        self.loss: Callable[..., Tensor] = Loss(self.model)
        self.hold: Callable[[], AbstractContextManager[Any]] = nullcontext
        if self.compiles:
            self.loss = torch.compile(self.loss, dynamic=False)
        if here.size > 1:
            self.loss = together = DistributedDataParallel(self.loss)
            self.hold = together.no_sync  # gradients are averaged after the last part alone

    @property
    def compiles(self) -> bool:
        """On cards it is worth its half minute; a CPU may have no compiler."""
        return self.here.device.type == "cuda" and self.model.compiles

    def precision(self) -> AbstractContextManager[Any]:
        return self.here.precision() if self.half else nullcontext()

    def mfu(self, rate: float) -> float | None:
        """The share of the operations promised in bfloat16 that this many tokens a second take."""
        flops = self.model.flops_per_token(self.config.model.context)
        if self.here.peak is None or flops is None:
            return None
        return rate * flops / (self.here.peak * self.here.size)

    def warm_up(self) -> None:
        """Compile, on a batch of nothing."""
        if self.compiles:
            length = self.config.model.context
            targets = length if self.causal else predicted_count(length)

            def zeros(count: int) -> Tensor:  # none of them shared: that would be compiled in
                return torch.zeros((self.micro, count), dtype=torch.int64, device=self.here.device)

            chosen = None if self.causal else zeros(targets)
            self._gradients(Batch(zeros(length), zeros(targets), chosen, 0))
            self.model.zero_grad()

    def step(self, i: int, parts: Iterator[Batch]) -> Figures:
        """One step of the optimizers; what comes back is not waited for."""
        begun = self._moment()
        loss = torch.zeros((), device=self.here.device)
        words, waited = 0, 0.0
        for a in range(self.accumulation):
            asked = time.perf_counter()
            part = next(parts)
            waited += time.perf_counter() - asked
            words += part.words
            with nullcontext() if a == self.accumulation - 1 else self.hold():
                loss += self._gradients(part.to(self.here.device))
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), self.config.training.clip)
        rate = learning_rate(i, self.config.training)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = rate
            optimizer.step()
            optimizer.zero_grad()
        sums = self.here.sum(torch.stack([loss / self.here.size, torch.full_like(loss, words)]))
        values = torch.cat([sums, norm[None]]).to("cpu", non_blocking=True)
        return Figures(values, begun, self._moment(), waited)

    def _moment(self) -> Moment:
        """Now; on a card, when it has done all that it was given."""
        if self.here.device.type != "cuda":
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        return torch.cuda.current_stream().record_event(event)

    def _gradients(self, part: Batch) -> Tensor:
        """Add to the gradients those of one part of the batch; its share of the loss."""
        with fast_attention(self.here):
            with self.precision():
                loss = self.loss(*part[:3]) / self.accumulation
            torch.autograd.backward(loss)
        return loss.detach()

    @torch.no_grad()
    def validate(self, batches: list[Batch]) -> dict[str, Any]:
        """Loss in nats a token and a word, and the share of tokens predicted right."""
        sums = torch.zeros(4, dtype=torch.float64, device=self.here.device)
        for batch in batches:
            inputs, targets, chosen, words = batch.to(self.here.device)
            with self.precision(), fast_attention(self.here):
                logits = self.model.training_logits(inputs, chosen).float().flatten(0, 1)
            nats = F.cross_entropy(logits, targets.flatten(), reduction="sum")
            hits = (logits.argmax(-1) == targets.flatten()).sum()
            sums += torch.stack([nats, hits, *sums.new_tensor([targets.numel(), words])])
        nats, hits, tokens, words = self.here.sum(sums).tolist()
        return {
            "validation_loss": nats / tokens,
            "validation_nats_per_word": nats / words if self.causal else None,
            "validation_accuracy": hits / tokens,
        }


def make_model(config: Config) -> TrainableModel:
    """A new model, its weights drawn from torch's random numbers."""
    return config.model.build(config.tokens.size, config.task)


class Loss(nn.Module):
    """The loss of a model as a module of its own, which DistributedDataParallel asks for."""

    def __init__(self, model: TrainableModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Tensor, targets: Tensor, chosen: Tensor | None) -> Tensor:
        return self.model.loss(inputs, targets, chosen)


# The attention kernels in the order they are tried. cuDNN's is the fastest on Hopper cards; it and
# flash attention need half precision and a recent card, the memory-efficient one does not. Plain
# matrices come last: they take memory for every pair of positions.
ATTENTION = [
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
]


def fast_attention(here: World) -> AbstractContextManager[Any]:
    """On a card, use the fastest attention kernel that it has."""
    if here.device.type != "cuda":
        return nullcontext()
    return sdpa_kernel(ATTENTION, set_priority=True)


def _title(config: Config) -> str:
    return f"{config.model.kind}, {config.task}, D = {config.tokens.size}"


def _train(run: Run, share: Share, state: State, folder: Path, *, tensorboard: bool) -> None:
    """Train to the end; `state` moves along."""
    training, here = run.config.training, run.here
    monitor = None
    if here.first:
        monitor = Monitor(
            folder, _title(run.config), step=state.step, steps=training.steps, board=tensorboard
        )
    parts = share.parts(state.step)
    began = time.perf_counter() - state.seconds

    def note(step: int, figures: Figures) -> None:
        """Wait for a step and record it."""
        rate = training.batch / figures.seconds()
        loss, words, norm = figures.values.tolist()
        if not math.isfinite(loss):
            raise Diverged(
                f"the loss is {loss} at step {step}: lower training.lr (now {training.lr:g})"
            )
        if monitor is not None:
            monitor.record(
                {
                    "step": step,
                    "tokens": step * training.batch,
                    "seconds": round(time.perf_counter() - began, 3),
                    "loss": loss,
                    "nats_per_word": loss * training.batch / words if run.causal else None,
                    "lr": learning_rate(step - 1, training),
                    "gradient_norm": norm,
                    "tokens_per_second": round(rate),
                    "mfu": run.mfu(rate),
                    "waited": round(figures.waited, 4),
                }
            )

    try:
        done: list[tuple[int, Figures]] = []
        while not state.finished:
            figures = run.step(state.step, parts)
            state.step += 1
            done.append((state.step, figures))
            due = state.step % training.interval == 0 or state.step == training.steps
            # One step behind, so that a card has work while its last step is read.
            while len(done) > (0 if due or here.device.type == "cpu" else 1):
                note(*done.pop(0))
            if due:
                verdict = run.validate(share.validation)
                _judge(state, verdict, training)
                state.seconds = time.perf_counter() - began
                if monitor is not None:
                    monitor.record({"step": state.step} | verdict)
                    if state.finished:  # before the checkpoint that says so
                        _export(run, share.tokenizer, state, folder)
                    checkpoints.save(folder / "checkpoints", run.model, run.optimizers, state)
                here.wait()
    finally:
        parts.close()
        if monitor is not None:
            monitor.close()


def _judge(state: State, verdict: dict[str, Any], training: TrainingConfig) -> None:
    """Is this the best so far, and is it time to stop?"""
    state.intervals_since += 1
    if state.best is None or verdict["validation_loss"] < state.best:
        state.best_step, state.intervals_since = state.step, 0
        state.best = verdict["validation_loss"]
        state.best_nats_per_word = verdict["validation_nats_per_word"]
        state.best_accuracy = verdict["validation_accuracy"]
    state.finished = state.step == training.steps or state.intervals_since >= training.patience


def _best_model(run: Run, state: State, folder: Path) -> TrainableModel:
    """The model with the lowest validation loss; refused if its checkpoint is lost."""
    if state.best_step == state.step:
        return run.model
    model = make_model(run.config)
    checkpoints.load_weights(folder / "checkpoints", state.best_step, model)
    return model


def _export(run: Run, tokenizer: Tokenizer, state: State, folder: Path) -> None:
    """Write the model at the end of a run."""
    try:
        model = _best_model(run, state, folder)
    except InputError as error:
        print(f"nt: {error}; model/ gets the last weights instead", file=sys.stderr)
        model = run.model
    files.save(model, tokenizer, folder / "model")


def _export_again(run: Run, tokenizer: Tokenizer, state: State, folder: Path) -> None:
    """Write the model of a finished run, unless it is there and can be read."""
    try:
        files.load(folder / "model")
    except InputError:
        files.save(_best_model(run, state, folder), tokenizer, folder / "model")
