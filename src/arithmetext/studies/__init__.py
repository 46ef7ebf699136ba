"""Studies: one module a figure or table of the paper.

A study holds no algorithm, only which numbers, which windows and which plot. Its module defines

    TITLE                  what the reader sees first
    PLACE                  where it stands in the report, in the paper's order
    settings(scale)        everything the result depends on, as plain data
    run(settings)          the result, as plain data (what JSON can hold)
    plot(data)             a matplotlib figure
    caption(data)          what the figure shows, in a few sentences
    table(data)            a header and rows: the numbers behind the figure
    verdicts(data)         the paper's claims, its numbers and ours

Any module of this package is found and run by `nt reproduce`; nothing else needs to know it.
"""

import hashlib
import importlib
import inspect
import json
import pkgutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from matplotlib.figure import Figure

from .. import __version__
from ..errors import InputError
from ..files import make_folder, write_whole

SCALES = ("laptop", "gpu", "paper")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One claim of the paper beside what was found here."""

    claim: str
    paper: str
    ours: str
    agrees: bool
    why: str = ""


class Study(Protocol):
    """What a module of this package offers."""

    __name__: str
    TITLE: str
    PLACE: int

    def settings(self, scale: str) -> dict[str, Any]: ...
    def run(self, settings: dict[str, Any]) -> dict[str, Any]: ...
    def plot(self, data: dict[str, Any]) -> Figure: ...
    def caption(self, data: dict[str, Any]) -> str: ...
    def table(self, data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]: ...
    def verdicts(self, data: dict[str, Any]) -> list[Verdict]: ...


@dataclass(frozen=True)
class Result:
    """A finished study, as it is kept on disk."""

    study: str
    key: str
    settings: dict[str, Any]
    seconds: float
    data: dict[str, Any]


def all_studies() -> dict[str, Study]:
    """Every study by name, in the order of the report."""
    modules = [
        cast(Study, importlib.import_module(f"{__name__}.{module.name}"))
        for module in pkgutil.iter_modules(__path__)
    ]
    return {_name(study): study for study in sorted(modules, key=lambda study: study.PLACE)}


def pick(names: Sequence[str]) -> dict[str, Study]:
    """The named studies, or all of them if none is named."""
    studies = all_studies()
    for name in names:
        if name not in studies:
            raise InputError(f"no study {name!r}; there are: {', '.join(studies)}")
    return {name: study for name, study in studies.items() if not names or name in names}


def perform(study: Study, scale: str, folder: Path) -> tuple[Result, bool]:
    """The result of a study, from `folder` if it was done there before with these settings.

    The second value says whether it was. A result is kept under a key of the settings, the version
    and the study's own source: a change in any of them runs it again.
    """
    settings = study.settings(scale)
    source = inspect.getsource(cast(Any, study))
    key = hashlib.sha256(
        json.dumps([settings, __version__, source], sort_keys=True).encode()
    ).hexdigest()[:16]
    path = folder / f"{_name(study)}.json"
    kept = load(path)
    if kept is not None and kept.key == key:
        return kept, True
    start = time.perf_counter()
    data = study.run(settings)
    result = Result(_name(study), key, settings, time.perf_counter() - start, data)
    make_folder(folder)
    write_whole(path, json.dumps(vars(result), indent=1))
    return result, False


def load(path: Path) -> Result | None:
    """A kept result, or None where there is none that can be read."""
    try:
        return Result(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _name(study: Study) -> str:
    return study.__name__.rpartition(".")[2]
