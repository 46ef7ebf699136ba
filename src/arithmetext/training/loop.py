"""Train a model: a configuration goes in, a run folder comes out.

    config.json  environment.json  tokenizer.json  metrics.jsonl  checkpoints/  model/

The same configuration gives the same weights, whether or not the run was killed and resumed (on a
CPU to the last bit). Every `interval` steps, which the paper calls an epoch, the validation loss is
computed and a checkpoint is written. `model/` gets the weights with the lowest validation loss, as
`models.files` writes them.
"""

import json
import math
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from ..errors import InputError
from ..files import write_whole
from ..models import files
from ..models.language import TrainableModel
from ..tokens import Tokenizer, load
from . import checkpoints, devices
from .checkpoints import State
from .config import Config, TrainingConfig, differences
from .devices import World, environment
from .monitor import Monitor
from .optimizers import learning_rate
from .run import Run, StepResult, make_model
from .stream import ProcessBatches, micro_batches


class Diverged(InputError):
    """The loss is infinite or not a number."""


@dataclass(frozen=True)
class Outcome:
    """The result of a finished run."""

    steps: int
    seconds: float
    stopped_early: bool
    validation_loss: float  # nats per token
    nats_per_word: float | None
    accuracy: float  # share of tokens predicted right, given the true tokens before them


def train(
    config: Config | None,
    folder: Path,
    *,
    resume: bool = False,
    wait: bool = False,
    tensorboard: bool = False,
) -> Outcome:
    """Train in this folder, or resume its run; without a configuration, use the one in the folder.

    One process writes to a folder at a time: another is refused or, with `wait`, waits. If several
    processes train together, only the first reads and writes the folder.
    """
    with (
        devices.world() as world,
        ThreadPoolExecutor(1) as pool,
        world.sole_writers(folder, wait=wait),
    ):
        config, tokenizer = world.from_first(
            lambda: _config_and_tokenizer(config, folder, resume=resume)
        )
        micro_batches(config, world.size)
        _check_memory(config, world)
        # The kernels of the text compile while the model compiles.
        coming = pool.submit(_process_batches, config, tokenizer, world)
        with _memory_errors_explained(config):
            run = Run(config, world)
            if coming.done():
                coming.result()  # errors about the text come before the model compiles
            run.warm_up()
        batches = coming.result()
        if tokenizer is None:
            world.from_first(lambda: _begin(run, folder, batches.tokenizer))
        state = checkpoints.restore(
            world.from_first(lambda: checkpoints.newest(folder / "checkpoints")),
            run.model,
            run.optimizers,
        )
        _check_state(state, config, folder)
        if not state.finished:
            with _memory_errors_explained(config):
                _train(run, batches, state, folder, tensorboard=tensorboard)
        else:
            world.from_first(lambda: _restore_model(run, batches.tokenizer, state, folder))
        world.wait()
        assert state.best is not None and state.best_accuracy is not None
        return Outcome(
            steps=state.step,
            seconds=state.seconds,
            stopped_early=state.step < config.training.steps,
            validation_loss=state.best,
            nats_per_word=state.best_nats_per_word,
            accuracy=state.best_accuracy,
        )


def _config_and_tokenizer(
    config: Config | None, folder: Path, *, resume: bool
) -> tuple[Config, Tokenizer | None]:
    """The configuration to train, and the tokenizer if the folder already holds a run."""
    path = folder / "config.json"
    if config is not None:
        config.checked()
        if not path.exists():
            if checkpoints.steps(folder / "checkpoints"):
                raise InputError(f"{folder} has checkpoints but no config.json: use another --out")
            return config, None
        if not resume:
            raise InputError(existing_run_message(folder))
    stored = Config.load(path)
    for difference in differences(config, stored)[:1] if config is not None else []:
        raise InputError(f"{folder} holds a run with another setting: {difference} there")
    tokenizer = load(folder / "tokenizer.json")
    if tokenizer.size != stored.tokens.size:
        raise InputError(
            f"{folder}: tokens.size is {stored.tokens.size} in config.json,"
            f" but tokenizer.json has {tokenizer.size} tokens"
        )
    return stored, tokenizer


def existing_run_message(folder: Path) -> str:
    return f"{folder} holds a run already: continue it with --resume, or choose another --out"


def _process_batches(config: Config, tokenizer: Tokenizer | None, world: World) -> ProcessBatches:
    """The batches of this process; a new run trains its tokenizer."""
    tokenizer = tokenizer or config.tokens.tokenizer(config.text, config.n)
    return ProcessBatches(config, tokenizer, world.rank, world.size)


def _check_state(state: State, config: Config, folder: Path) -> None:
    """Refuse a state that a run with this configuration cannot reach."""
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


def _check_memory(config: Config, world: World) -> None:
    """Refuse a model that does not fit into the memory of the device, before building it."""
    # Bytes: weights, gradients and momenta in float32.
    needed = 12 * config.model.matrix_weights(config.tokens.size)
    if needed > world.memory:
        raise InputError(
            f"too little memory: the {world.memory / 1e9:.3g} GB of this device cannot hold the"
            " weights, gradients and momenta of this model; make it smaller"
        )


@contextmanager
def _memory_errors_explained(config: Config) -> Iterator[None]:
    """Turn errors for lack of memory into advice; on a CPU torch has no class for them."""
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
    """Write the files that exist before the first step."""
    content = environment(run.world) | ({} if run.half else {"precision": "float32"})
    write_whole(folder / "environment.json", json.dumps(content, indent=1) + "\n")
    tokenizer.save(folder / "tokenizer.json")
    run.config.save(folder / "config.json")  # last: a folder with this file is complete


def _title(config: Config) -> str:
    return f"{config.model.kind}, {config.task}, D = {config.tokens.size}"


def _train(
    run: Run, batches: ProcessBatches, state: State, folder: Path, *, tensorboard: bool
) -> None:
    """Train to the end; updates `state`."""
    training, world = run.config.training, run.world
    monitor = None
    if world.first:
        monitor = Monitor(
            folder, _title(run.config), step=state.step, steps=training.steps, board=tensorboard
        )
    parts = batches.parts(state.step)
    began = time.perf_counter() - state.seconds

    def record(step: int, result: StepResult) -> None:
        """Wait for a step to end and write its metrics."""
        rate = training.batch / result.seconds()
        loss, words, norm = result.values.tolist()
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
                    "waited": round(result.waited, 4),
                }
            )

    try:
        pending: list[tuple[int, StepResult]] = []
        with checkpoints.Writer(folder / "checkpoints") as writer:
            while not state.finished:
                writer.raise_error()
                result = run.step(state.step, parts)
                state.step += 1
                pending.append((state.step, result))
                due = state.step % training.interval == 0 or state.step == training.steps
                # The results of a GPU are read one step late, so that it always has work.
                while len(pending) > (0 if due or world.device.type == "cpu" else 1):
                    record(*pending.pop(0))
                if due:
                    validation = run.validate(batches.validation)
                    _update(state, validation, training)
                    state.seconds = time.perf_counter() - began
                    if monitor is not None:
                        monitor.record({"step": state.step} | validation)
                        if state.finished:  # before the checkpoint, which marks it as finished
                            writer.wait()  # the best model may be in the checkpoint before
                            _export(run, batches.tokenizer, state, folder)
                        writer.save(run.model, run.optimizers, state)
                    world.wait()
    finally:
        parts.close()
        if monitor is not None:
            monitor.close()


def _update(state: State, validation: dict[str, Any], training: TrainingConfig) -> None:
    """Note the best validation so far, and whether the run is finished."""
    state.intervals_since += 1
    if state.best is None or validation["validation_loss"] < state.best:
        state.best_step, state.intervals_since = state.step, 0
        state.best = validation["validation_loss"]
        state.best_nats_per_word = validation["validation_nats_per_word"]
        state.best_accuracy = validation["validation_accuracy"]
    state.finished = state.step == training.steps or state.intervals_since >= training.patience


def _export(run: Run, tokenizer: Tokenizer, state: State, folder: Path) -> None:
    """Write the model with the lowest validation loss; the last model if its checkpoint is lost."""
    try:
        model = _best_model(run, state, folder)
    except InputError as error:
        print(f"nt: {error}; model/ gets the last weights instead", file=sys.stderr)
        model = run.model
    files.save(model, tokenizer, folder / "model")


def _best_model(run: Run, state: State, folder: Path) -> TrainableModel:
    """The model with the lowest validation loss, from its checkpoint if it is not the last."""
    if state.best_step == state.step:
        return run.model
    model = make_model(run.config)
    checkpoints.load_weights(folder / "checkpoints", state.best_step, model)
    return model


def _restore_model(run: Run, tokenizer: Tokenizer, state: State, folder: Path) -> None:
    """Write the best model of a finished run again, unless it can be read."""
    try:
        files.load(folder / "model")
    except InputError:
        files.save(_best_model(run, state, folder), tokenizer, folder / "model")
