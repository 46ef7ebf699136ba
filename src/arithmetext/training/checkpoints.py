"""Checkpoints: weights, optimizer state and progress of a run, from which it can resume.

A checkpoint is a folder named after its step. It is written under another name, and renamed when it
is complete and on disk. A background thread writes it while training goes on. A digest covers the
whole checkpoint: if one was truncated or altered, the one before it is used. The folder keeps the
last two checkpoints, and for each of them the best so far.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ..errors import InputError
from ..files import make_folder, sync
from .optimizers import STATE_OF

KEPT = 2  # checkpoints that are kept besides the best
_DAMAGE = (OSError, SafetensorError, ValueError, RecursionError)
_WEIGHTS, _OPTIMIZER, _STATE = "model.safetensors", "optimizer.safetensors", "state.json"
_RENAMED = {".widen.": ".mlp_up.", ".narrow.": ".mlp_down."}  # parameters in older checkpoints


@dataclass
class State:
    """The progress of a run."""

    step: int = 0  # steps done
    seconds: float = 0.0  # training time so far
    best: float | None = None  # lowest validation loss; the other `best_…` belong to it
    best_nats_per_word: float | None = None
    best_accuracy: float | None = None
    best_step: int = 0
    intervals_since: int = 0  # validations since the best one
    finished: bool = False


class Checkpoint(NamedTuple):
    """A checkpoint in memory, and the folder that it is read from or written to."""

    path: Path
    state: State
    weights: dict[str, Tensor]  # by name of the parameter
    optimizer: dict[str, Tensor]  # by parameter and quantity: "norm.bias/exp_avg"


class Writer:
    """Writes checkpoints in a background thread, one at a time, while training goes on.

    The end of a `with` block waits for the last one. If a checkpoint cannot be written, the next
    call or the end of the block raises the error.
    """

    def __init__(self, folder: Path) -> None:
        """`folder`: the folder of checkpoints."""
        self.folder = folder
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="checkpoints")
        self._writing: Future[None] | None = None

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._pool.shutdown()
        if kind is None:
            self.wait()

    def save(
        self, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], state: State
    ) -> None:
        """Copy everything to the CPU's memory, then write it, and remove checkpoints not needed."""
        self.wait()
        weights = _copies(model.state_dict())
        optimizer = _copies(_optimizer_tensors(model, optimizers))
        checkpoint = Checkpoint(
            self.folder / f"{state.step:08}", replace(state), weights, optimizer
        )
        self._writing = self._pool.submit(_write, checkpoint)

    def wait(self) -> None:
        """Wait until the last checkpoint is on disk."""
        if self._writing is not None:
            self._writing.result()

    def raise_error(self) -> None:
        """Raise the error of the last checkpoint if there is one already; do not wait."""
        if self._writing is not None and self._writing.done():
            self._writing.result()


def _write(checkpoint: Checkpoint) -> None:
    final, state, weights, optimizer = checkpoint
    folder = final.parent
    make_folder(folder)
    draft = folder / f".{final.name}.part"
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir()
        save_file(weights, draft / _WEIGHTS)
        save_file(optimizer, draft / _OPTIMIZER)
        content = asdict(state)
        signed = {"state": content, "digest": _digest(draft, content)}
        (draft / _STATE).write_text(json.dumps(signed, indent=1) + "\n", encoding="utf-8")
        for path in *draft.iterdir(), draft:
            sync(path)
        if final.exists():  # damaged, or the run would have resumed from it
            shutil.rmtree(final)
        draft.rename(final)
        sync(folder)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(draft, ignore_errors=True)
        whole = steps(folder)
        before = f"step {whole[-1]}" if whole else "the beginning"
        raise InputError(
            f"cannot write the checkpoint {final}: {getattr(error, 'strerror', None) or error};"
            f" make room, then --resume goes on from {before}"
        ) from None
    _tidy(folder, state.step)


def _tidy(folder: Path, newest: int) -> None:
    """Remove checkpoints that are no longer needed.

    Checkpoints after the newest are damaged, or the run would have resumed from them.
    """
    whole = [step for step in steps(folder) if step <= newest]
    needed = set(whole[-KEPT:])
    for step in whole[-KEPT:]:
        with suppress(*_DAMAGE):
            needed.add(_read(folder / f"{step:08}")[0].best_step)
    for step in steps(folder):
        if step not in needed:
            shutil.rmtree(folder / f"{step:08}")


def steps(folder: Path) -> list[int]:
    """The steps that have checkpoints."""
    names = [path.name for path in folder.glob("[0-9]*") if path.name.isdecimal()]
    return sorted(int(name) for name in names if name == f"{int(name):08}")


def newest(folder: Path) -> Checkpoint | None:
    """Read the latest checkpoint that is complete, if there is one."""
    for step in reversed(steps(folder)):
        path = folder / f"{step:08}"
        try:
            state = _verified(path)
            return Checkpoint(path, state, _tensors(path / _WEIGHTS), _tensors(path / _OPTIMIZER))
        except _DAMAGE as error:
            print(f"nt: {path} is damaged ({error}) and not used", file=sys.stderr)
    return None


def restore(
    checkpoint: Checkpoint | None, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]
) -> State:
    """Put a checkpoint into the model and optimizers; without one, return a new state."""
    if checkpoint is None:
        return State()
    _fill(model, checkpoint.weights, checkpoint.path)
    parameters = dict(model.named_parameters())
    owner = {p: o for o in optimizers for group in o.param_groups for p in group["params"]}
    shapes = {
        f"{name}/{quantity}": torch.Size() if quantity == "step" else p.shape
        for name, p in parameters.items()
        if p in owner
        for quantity in STATE_OF[type(owner[p])]
    }
    # Before the first step an optimizer has no state.
    _compare(checkpoint.optimizer, shapes if checkpoint.optimizer else {}, checkpoint.path)
    for key, tensor in checkpoint.optimizer.items():
        name, _, quantity = key.rpartition("/")
        parameter = parameters[name]
        owner[parameter].state[parameter][quantity] = tensor.to(parameter.device)
    return checkpoint.state


def load_weights(folder: Path, step: int, model: nn.Module) -> None:
    """Load the weights of one checkpoint; refused unless it is complete."""
    path = folder / f"{step:08}"
    try:
        _verified(path)
        weights = _tensors(path / _WEIGHTS)
    except _DAMAGE as error:
        raise InputError(f"{path} is damaged ({error}), and its weights are lost") from None
    _fill(model, weights, path)


def _fill(model: nn.Module, weights: dict[str, Tensor], path: Path) -> None:
    """Put weights into a model; refused if they belong to another model."""
    _compare(weights, {name: tensor.shape for name, tensor in model.state_dict().items()}, path)
    model.load_state_dict(weights)


def _compare(tensors: dict[str, Tensor], shapes: dict[str, torch.Size], path: Path) -> None:
    """Refuse tensors that do not fit the configured model and optimizer."""
    for name in sorted(tensors.keys() | shapes.keys()):
        stored = list(tensors[name].shape) if name in tensors else "missing"
        expected = list(shapes[name]) if name in shapes else "missing"
        if stored != expected:
            raise InputError(
                f"{path} does not fit config.json: {name} is {stored} in the checkpoint and"
                f" {expected} in the configured run; put back the config.json that this run began"
                " with"
            )


def _optimizer_tensors(
    model: nn.Module, optimizers: Iterable[torch.optim.Optimizer]
) -> dict[str, Tensor]:
    return {
        f"{name}/{quantity}": value
        for name, parameter in model.named_parameters()
        for optimizer in optimizers
        if parameter in optimizer.state
        for quantity, value in optimizer.state[parameter].items()
    }


def _tensors(path: Path) -> dict[str, Tensor]:
    """The tensors in a file, under the names that parameters have now."""
    tensors = {}
    for name, tensor in load_file(path).items():
        for old, new in _RENAMED.items():
            name = name.replace(old, new)
        tensors[name] = tensor
    return tensors


def _copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous copies in the CPU's memory, which the next training step does not change."""
    return {
        name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()
    }


def _verified(path: Path) -> State:
    """The state in a checkpoint; raises one of `_DAMAGE` unless the checkpoint is complete."""
    state, digest = _read(path)
    if _digest(path, asdict(state)) != digest:
        raise ValueError("its digest is wrong")
    return state


def _read(path: Path) -> tuple[State, Any]:
    """The state in a checkpoint, and the digest beside it."""
    signed = json.loads((path / _STATE).read_text(encoding="utf-8"))
    if not isinstance(signed, dict) or signed.keys() != {"state", "digest"}:
        raise ValueError(f"{_STATE} does not hold a state and a digest")
    content, types = signed["state"], get_type_hints(State)
    if not isinstance(content, dict) or content.keys() != types.keys():
        raise ValueError(f"{_STATE} does not hold the state of a run")
    for name, kind in types.items():
        if not _is(content[name], kind):
            raise ValueError(f"{_STATE} has a wrong {name}")
    state = State(**content)
    if state.step != int(path.name):
        raise ValueError(f"{_STATE} is of step {state.step}")
    return state, signed["digest"]


def _is(value: Any, kind: Any) -> bool:
    """Whether a field of `State` can have this value."""
    if get_args(kind):
        return any(_is(value, one) for one in get_args(kind))
    return type(value) is kind and (kind is not int or 0 <= value < 1 << 63)


def _digest(path: Path, content: dict[str, object]) -> str:
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name in _WEIGHTS, _OPTIMIZER:
        with (path / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
