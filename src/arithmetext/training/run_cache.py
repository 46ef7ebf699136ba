"""Runs in the user's cache, which studies share: trained once per configuration and code.

The folder of a run is named by a digest of the configuration and a digest of the code, so a change
of code means a new run. The code is every module of the package that `training.loop` imports.

The model in the package is not trained again: its folder has the record of its run beside the
weights, and a digest of the weights takes the place of the digest of the code.
"""

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from itertools import pairwise
from math import fsum, sqrt
from pathlib import Path
from statistics import median
from typing import Any

from .. import sources
from ..errors import InputError
from ..files import cache_folder, make_folder, sole_writer, write_whole
from ..models.files import PACKAGED, WEIGHTS
from . import monitor
from .config import Config, from_json
from .loop import train

RUNS = 2  # kept per configuration; another checkout of the project may use the older one
RECORD = "record.json"

_kept: dict[Config, Path] | None = None  # only these records exist, while rescoring
_saved_to: Path | None = None  # the folder that records are copied to
_older_code: sources.Sources = {}  # while rescoring: digests of code that has changed since
_one_version: sources.Sources | None = None  # all code that what is used was made by, so far
_reasons: list[str] = []  # why runs were trained again


class NotKept(InputError):
    """A result needs something that was not kept."""


def trained_run(config: Config) -> Path:
    """The folder of a finished run with this configuration; trains or resumes it if necessary.

    If a model in the package has this configuration, it is the folder of that model.
    """
    if _kept is not None:
        raise NotKept("no weights were kept")
    folder = _folder(config)
    if folder in PACKAGED.values():
        _save(folder)
        return folder
    # A run writes this file at its end; only the last checkpoint follows.
    fresh = not (folder / "model" / "config.json").exists()
    if fresh:
        for older in filter(None, (_read(run / RECORD) for run in _older(folder)[:1])):
            files = sources.changed(older["sources"], made_by(config))
            _reasons.append(f"trained again: {sources.listed(files)} changed")
        train(config, folder, resume=True, wait=True)
        others = [run for run in _older(folder) if (run / "model").exists()]
        for run in others[RUNS - 1 :]:
            _remove(run)
    if fresh or _read(folder / RECORD) is None:
        content = new_record(folder) | {"sources": made_by(config)}
        write_whole(folder / RECORD, json.dumps(content))
    _save(folder)
    with suppress(OSError):
        os.utime(folder)  # mark it as used
    return folder


def why_trained_again() -> list[str]:
    """Why runs were trained again since the last call."""
    reasons = list(dict.fromkeys(_reasons))
    _reasons.clear()
    return reasons


def record(config: Config) -> dict[str, Any]:
    """The record of a run: everything but the weights, which are too large to copy.

    It has the `config` and `environment`, the length in `tokens` and `seconds`, the `training`
    losses by step, and the `validation` rows.
    """
    if _kept is not None and config not in _kept:
        raise NotKept("no record of this run was kept")
    path = _folder(config) / RECORD if _kept is None else _kept[config]
    content = _read(path)
    if content is None:
        trained_run(config)
        content = _read(path)
    assert content is not None
    if _kept is None:
        _save(path.parent)
    else:
        check_version(content["sources"])
        note_older_code(content["sources"], made_by(config))
    return {part: content[part] for part in content if part != "sources"}


def made_by(config: Config) -> sources.Sources:
    """Digests of what made a model: the code of its training, or the weights in the package."""
    name = _in_package(config)
    return of_weights(name, PACKAGED[name]) if name else sources.of_module("training.loop")


def of_weights(name: str, folder: Path) -> sources.Sources:
    """The digest of the weights in a folder that is, or becomes, this model in the package."""
    digest = hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()[:12]
    return {f"models/{name}/{WEIGHTS}": digest}


def would_train(config: Config) -> bool:
    """Whether asking for this run trains it: its record is not there, and records may be made."""
    return _kept is None and _read(_folder(config) / RECORD) is None


def drop_checkpoints(config: Config) -> None:
    """Remove the checkpoints of a finished run: they take six times the room of its weights."""
    folder = _folder(config)
    if (folder / "model" / "config.json").exists():
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)


@contextmanager
def saved_to(folder: Path) -> Iterator[None]:
    """While the block runs, copy the record of every run that is used to a folder at once.

    It takes the place of older records of the same configuration.
    """
    global _saved_to
    _saved_to = folder
    try:
        yield
    finally:
        _saved_to = None


def _save(run: Path) -> None:
    """Copy the record of a run to the folder of `saved_to`."""
    if _saved_to is not None:
        make_folder(_saved_to)
        target = _saved_to / f"{run.name}.json"
        write_whole(target, (run / RECORD).read_text(encoding="utf-8"))
        for older in _older(target):
            older.unlink(missing_ok=True)


def load_records(folder: Path) -> None:
    """Copy the records in a folder to the cache, except records that the cache already has."""
    for source in sorted(folder.glob("*.json")):
        content, target = _read(source), _runs() / source.stem / RECORD
        if content is None:
            print(f"ignored {source}: damaged, or written by an earlier version", file=sys.stderr)
        elif _read(target) is None:
            make_folder(target.parent)
            write_whole(target, json.dumps(content))


@contextmanager
def only_kept(folder: Path) -> Iterator[sources.Sources]:
    """While the block runs, use the records in a folder, whatever code made them; train nothing.

    Yields the digests of the code that made what is used, for files that have changed since. It
    grows while the block runs.
    """
    global _kept
    _kept = {}
    for path in sorted(folder.glob("*.json")):
        try:
            _kept[from_json((_read(path) or {})["config"])] = path
        except (InputError, KeyError, TypeError, ValueError):
            print(f"ignored {path}: damaged, or written by another version", file=sys.stderr)
    _older_code.clear()
    try:
        yield _older_code
    finally:
        _kept = None


@contextmanager
def of_one_version() -> Iterator[None]:
    """While the block runs, all kept records and outputs must have been made by the same code."""
    global _one_version
    _one_version = {}
    try:
        yield
    finally:
        _one_version = None


def check_version(code: sources.Sources) -> None:
    """Refuse what was made by another version of a file than `of_one_version` has seen."""
    seen = _one_version
    if seen is not None and any(seen.setdefault(*each) != each[1] for each in code.items()):
        raise NotKept("what was kept of this model was made by different versions of the code")


def note_older_code(before: sources.Sources, now: sources.Sources) -> None:
    """Note that something is used whose code has changed since."""
    for name in sources.changed(before, now):
        _older_code[name] = before.get(name, "")


def _read(path: Path) -> dict[str, Any] | None:
    """A record; None if there is no readable one."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) and content.keys() >= _PARTS else None


_PARTS = {"config", "environment", "seconds", "sources", "tokens", "training", "validation"}


def _runs() -> Path:
    return cache_folder() / "runs"


def _folder(config: Config) -> Path:
    name = _in_package(config)
    if name:
        return PACKAGED[name]
    return _runs() / f"{_digest(asdict(config))}-{_digest(made_by(config))}"


def _in_package(config: Config) -> str | None:
    """The name of the model in the package that has this configuration."""
    for name, folder in PACKAGED.items():
        content = _read(folder / RECORD)
        if content is not None and from_json(content["config"]) == config:
            return name
    return None


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def _older(path: Path) -> list[Path]:
    """Other runs or records of the same configuration, the last used first."""
    used = {}
    for other in set(path.parent.glob(f"{path.name.partition('-')[0]}-*")) - {path}:
        with suppress(OSError):  # another process may just have removed it
            used[other] = other.stat().st_mtime
    return sorted(used, key=lambda other: used[other], reverse=True)


def _remove(run: Path) -> None:
    """Remove a run from the cache, unless a process is training it."""
    try:
        with sole_writer(run):
            shutil.rmtree(run, ignore_errors=True)
    except InputError:
        pass


def new_record(folder: Path) -> dict[str, Any]:
    """The record of the finished run in a folder."""
    settings = {
        name: json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("config", "environment")
    }
    rows = monitor.read(folder / "metrics.jsonl")
    steps = [row for row in rows if "loss" in row]
    return settings | {
        "seconds": steps[-1]["seconds"],
        "tokens": steps[-1]["tokens"],
        "tokens_per_second": median(row["tokens_per_second"] for row in steps),
        "training": thinned([row["loss"] for row in steps]),
        "validation": [row for row in rows if "validation_loss" in row],
    }


def thinned(values: Sequence[float], points: int = 250) -> list[tuple[float, float]]:
    """Values at steps 1, 2, … averaged for a logarithmic axis: pairs of step and mean.

    >>> thinned([5.0, 4.0, 3.0, 2.0], points=2)
    [(1.0, 5.0), (2.8..., 3.0)]
    """
    count = len(values)
    borders = sorted({round((count + 1) ** (k / points)) for k in range(points + 1)})
    return [
        (sqrt(lo * (hi - 1)), fsum(values[lo - 1 : hi - 1]) / (hi - lo))
        for lo, hi in pairwise(borders)
    ]
