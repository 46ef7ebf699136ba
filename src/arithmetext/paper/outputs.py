"""What trained models computed, kept as arrays in files.

Generated tokens and likelihoods need a GPU; the statistics that studies compute from them do not.
So a study asks for arrays (`keep`), which are computed once and kept in the user's cache.
`nt reproduce` copies each of them at once into the folder `outputs` of its report. `nt rescore`
computes results again from that folder, without any model, and `nt reproduce --older` takes the
models of a sweep from there that are complete.

An output is named by the configuration of the model, by the function that computes it and by the
settings of the function. In the cache its name also has a digest of the code of the model's
training, or of the weights in the package, and of the function. So changed code or weights never
use an old output.

A file also says how long its output took to make. So a study that finds its outputs in the cache
still reports the time that it once took.
"""

import hashlib
import json
import shutil
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from .. import sources
from ..errors import InputError
from ..evaluation.codec import to_json
from ..files import cache_folder, make_folder, whole_file
from ..training import run_cache
from ..training.config import Config, from_json

Arrays = dict[str, NDArray[Any]]
Item = TypeVar("Item")
T = TypeVar("T")

_ABOUT = "about"  # the array that holds the name of an output, as JSON
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, BadZipFile, zlib.error)
_saved_to: Path | None = None  # the folder that outputs are copied to
_kept: dict[str, Path] | None = None  # while rescoring: the only outputs that there are
_older_in: Path | None = None  # the report's folder, if what older code left there may be used
_older: sources.Sources = {}  # digests of that code
_used: set[Path] = set()  # by this process
_seconds_before = 0.0  # since the last call of `seconds_before`


def keep(
    config: Config,
    compute: Callable[..., Arrays],
    settings: Any,
    make: Callable[[], Arrays],
) -> Arrays:
    """The arrays that `compute` makes with these settings; `make` calls it if they are not kept."""
    about = {
        "config": asdict(config),
        "function": compute.__name__,
        "settings": to_json(settings),
    }
    name = _short_name(about)
    module = compute.__module__.partition(".")[2]
    about["sources"] = run_cache.made_by(config) | sources.of_function(module, compute.__name__)
    if _kept is not None:
        if name not in _kept:
            raise run_cache.NotKept(f"no output of {compute.__name__} was kept for this model")
        before, arrays = _read(_kept[name])
        # The digest of the function's own file is that of the function and what it uses there.
        own = module.replace(".", "/") + ".py"
        files = {name: code for name, code in before["sources"].items() if name != own}
        run_cache.check_version(files)
        run_cache.note_older_code(before["sources"], about["sources"])
        _count(_kept[name], before.get("seconds", 0.0))
        return arrays
    path = _in_cache(about)
    try:
        before, arrays = _read(path)
        _count(path, before.get("seconds", 0.0))
    except _UNREADABLE:
        began = time.perf_counter()
        arrays = make()
        about["seconds"] = time.perf_counter() - began
        _used.add(path)
        make_folder(path.parent)
        with whole_file(path) as draft, draft.open("wb") as file:
            text = np.array(json.dumps(about, sort_keys=True))
            np.savez_compressed(file, **{_ABOUT: text}, **arrays)  # type: ignore[arg-type]
    if _saved_to is not None:
        _copy(path, _saved_to / name)
    return arrays


def _count(path: Path, seconds: float) -> None:
    """Count the time of an output that was made before, when this process first uses it."""
    global _seconds_before
    if path not in _used:
        _used.add(path)
        _seconds_before += seconds


def seconds_before() -> float:
    """How long outputs took that were used since the last call and made by earlier processes."""
    global _seconds_before
    seconds, _seconds_before = _seconds_before, 0.0
    return seconds


@contextmanager
def saved_to(folder: Path, *, older: bool = False) -> Iterator[sources.Sources]:
    """While the block runs, copy all records and outputs that are used to a report's folder.

    Each is copied as soon as it is made, so an interruption loses nothing. With `older`,
    `from_older_code` may use what is there already. Yields the digests of the code that made it,
    for files that have changed since; they grow while the block runs.
    """
    global _saved_to, _older_in
    _saved_to, _older_in = folder / "outputs", folder if older else None
    _older.clear()
    try:
        with run_cache.saved_to(folder / "runs"):
            yield _older
    finally:
        _saved_to = _older_in = None


def from_older_code(items: Sequence[Item], compute: Callable[[Item], T]) -> dict[Item, T]:
    """What `compute` makes of each item from the report's folder alone, whatever code filled it.

    An item is left out if anything of it is missing there, was made by another version of the code
    than the rest of it, or has a form that is not used any more. So outputs of one training do not
    stand beside those of another. All items are left out unless `saved_to` allows older code.
    """
    found: dict[Item, T] = {}
    if _older_in is None:
        return found
    with only_kept(_older_in) as older:
        for item in items:
            older.clear()
            unfit = run_cache.NotKept, KeyError, TypeError, ValueError
            with run_cache.of_one_version(), suppress(*unfit):
                found[item] = compute(item)
                _older.update(older)
    return found


def load(folder: Path) -> None:
    """Copy the outputs in a folder to the cache, except outputs that the cache already has."""
    for source in sorted(folder.glob("*.npz")):
        try:
            path = _in_cache(_read(source)[0])
        except _UNREADABLE:
            print(f"ignored {source}: damaged, or written by an earlier version", file=sys.stderr)
            continue
        if not path.exists():
            _copy(source, path)


@contextmanager
def only_kept(folder: Path) -> Iterator[sources.Sources]:
    """While the block runs, use the records and outputs in a report's folder and nothing else.

    They are used whatever code made them. What was not kept raises `run_cache.NotKept`. Yields the
    digests of older code, as `run_cache.only_kept` does.
    """
    global _kept
    _kept = {}
    for path in sorted((folder / "outputs").glob("*.npz")):
        try:
            about, _ = _read(path)
            # A setting that was added since then has its default value.
            config = asdict(from_json(about["config"]))
            _kept[_short_name(about | {"config": config})] = path
        except (*_UNREADABLE, TypeError, InputError):
            print(f"ignored {path}: damaged, or written by another version", file=sys.stderr)
    try:
        with run_cache.only_kept(folder / "runs") as older:
            yield older
    finally:
        _kept = None


def _copy(source: Path, target: Path) -> None:
    make_folder(target.parent)
    with whole_file(target) as draft:
        shutil.copyfile(source, draft)


def _read(path: Path) -> tuple[dict[str, Any], Arrays]:
    with np.load(path, allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return json.loads(str(arrays.pop(_ABOUT))), arrays


def _short_name(about: dict[str, Any]) -> str:
    """The name of an output, whatever code made it."""
    which = {part: about[part] for part in ("config", "function", "settings")}
    return f"{about['function']}-{_digest(which)}.npz"


def _in_cache(about: dict[str, Any]) -> Path:
    return cache_folder() / "outputs" / f"{_digest(about['sources'])}-{_short_name(about)}"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
