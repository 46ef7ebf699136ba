"""What a run needs to go on: weights, optimizer, and where it stands.

A checkpoint is a folder named after its step. It is written under another name and renamed when it
is whole, and a digest covers what it says. Whatever is truncated or altered later is noticed, and
the checkpoint before it is used. Two are kept, and the best that either of them knows.
"""

import hashlib
import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ..errors import InputError
from ..files import make_folder

KEPT = 2
_DAMAGE = (OSError, SafetensorError, ValueError, KeyError, TypeError)
_WEIGHTS, _OPTIMIZER, _STATE = "model.safetensors", "optimizer.safetensors", "state.json"


@dataclass
class State:
    """Where a run stands."""

    step: int = 0  # steps done
    seconds: float = 0.0  # that they took
    best: float | None = None  # lowest validation loss, and what came with it
    best_nats_per_word: float | None = None
    best_accuracy: float | None = None
    best_step: int = 0
    intervals_since: int = 0  # validations since then
    finished: bool = False


def save(
    folder: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer], state: State
) -> None:
    """Write a checkpoint into the folder of all of them, and remove what is no longer needed."""
    make_folder(folder)
    final = folder / f"{state.step:08}"
    draft = folder / f".{final.name}.part"
    shutil.rmtree(draft, ignore_errors=True)
    try:
        draft.mkdir()
        save_file(_own(model.state_dict()), draft / _WEIGHTS)
        save_file(_own(_optimizer_tensors(model, optimizers)), draft / _OPTIMIZER)
        content = asdict(state)
        about = {"state": content, "digest": _digest(draft, content)}
        (draft / _STATE).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        if final.exists():  # damaged, or it would have been gone on from
            shutil.rmtree(final)
        draft.rename(final)
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
    """Remove what is no longer needed: later ones are damaged, or they would have been used."""
    whole = [step for step in steps(folder) if step <= newest]
    needed = set(whole[-KEPT:])
    for step in whole[-KEPT:]:
        about = json.loads((folder / f"{step:08}" / _STATE).read_text(encoding="utf-8"))
        needed.add(about["state"]["best_step"])
    for step in steps(folder):
        if step not in needed:
            shutil.rmtree(folder / f"{step:08}")


def steps(folder: Path) -> list[int]:
    """The steps there are checkpoints of."""
    return sorted(int(path.name) for path in folder.glob("[0-9]*") if path.name.isdigit())


def restore(folder: Path, model: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> State:
    """Load the latest checkpoint that is whole; a new state if there is none."""
    for step in reversed(steps(folder)):
        path = folder / f"{step:08}"
        try:
            state = _verified(path)
            weights = load_file(path / _WEIGHTS)
            tensors = load_file(path / _OPTIMIZER)
        except _DAMAGE as error:
            print(f"nt: {path} is damaged ({error}) and not used", file=sys.stderr)
            continue
        model.load_state_dict(weights)
        names = {name: p for name, p in model.named_parameters()}
        owner = {p: o for o in optimizers for group in o.param_groups for p in group["params"]}
        for key, tensor in tensors.items():
            name, _, quantity = key.rpartition("/")
            parameter = names[name]
            owner[parameter].state[parameter][quantity] = tensor.to(parameter.device)
        return state
    return State()


def load_weights(folder: Path, step: int, model: nn.Module) -> None:
    """Load the weights of one checkpoint, if it is whole."""
    path = folder / f"{step:08}"
    try:
        _verified(path)
        weights = load_file(path / _WEIGHTS)
    except _DAMAGE as error:
        print(f"nt: {path} is damaged ({error}); its weights are lost", file=sys.stderr)
    else:
        model.load_state_dict(weights)


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


def _own(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


def _verified(path: Path) -> State:
    about = json.loads((path / _STATE).read_text(encoding="utf-8"))
    state = State(**about["state"])
    if _digest(path, about["state"]) != about["digest"]:
        raise ValueError("its digest is not the one written with it")
    return state


def _digest(path: Path, content: dict[str, object]) -> str:
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode())
    for name in _WEIGHTS, _OPTIMIZER:
        with (path / name).open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
