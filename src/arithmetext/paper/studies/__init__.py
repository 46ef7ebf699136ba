"""Studies: one module a figure or table of the paper.

A study holds no algorithm, only which numbers, which windows and which plot. Its module defines

    TITLE                  what the reader sees first
    PLACE                  where it stands in the report, in the paper's order
    COST                   about how many seconds it takes at which scale, to tell the time left
    settings(scale)        everything the result depends on, as plain data
    run(settings)          the result, as plain data (what JSON can hold)
    plot(data)             a matplotlib figure
    caption(data)          what the figure shows, in a few sentences
    table(data)            a header and rows: the numbers behind the figure
    verdicts(data)         the paper's claims, its numbers and ours

Any module of this package is found and run by `nt reproduce`; nothing else needs to know it. One
whose name begins with an underscore is no study but what several share.
"""

import importlib
import json
import pkgutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, cast

from matplotlib.figure import Figure

from ... import sources
from ...errors import InputError
from ...files import make_folder, write_whole
from ...sources import Sources

SCALES = ("laptop", "gpu", "paper")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One claim of the paper beside what was found here."""

    claim: str
    paper: str
    ours: str
    agrees: bool | None  # None: not tested here, for the reason that `why` gives
    why: str = ""
    by_construction: bool = False  # it follows from how things are made here

    def __post_init__(self) -> None:
        if self.agrees is None and not self.why:
            raise ValueError(f"a claim that is not tested needs a reason: {self.claim}")

    @property
    def said(self) -> str:
        """The outcome in words."""
        if self.agrees is None:
            return "not tested here"
        if not self.agrees:
            return "differs"
        return "agrees by construction" if self.by_construction else "agrees"

    @property
    def sign(self) -> str:
        """The outcome in one character."""
        return {True: "✓", False: "≠", None: "○"}[self.agrees]


class Study(Protocol):
    """What a module of this package offers."""

    __name__: str
    TITLE: str
    PLACE: int
    COST: dict[str, int]

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
    settings: dict[str, Any]
    sources: Sources  # of the code that made it; empty in files of earlier versions
    seconds: float
    data: dict[str, Any]


def all_studies() -> dict[str, Study]:
    """Every study by name, in the order of the report."""
    modules = [
        cast(Study, importlib.import_module(f"{__name__}.{module.name}"))
        for module in pkgutil.iter_modules(__path__)
        if not module.name.startswith("_")
    ]
    return {_name(study): study for study in sorted(modules, key=lambda study: study.PLACE)}


def pick(names: Sequence[str]) -> dict[str, Study]:
    """The named studies, or all of them if none is named."""
    studies = all_studies()
    for name in names:
        if name not in studies:
            raise InputError(f"no study {name!r}; there are: {', '.join(studies)}")
    return {name: study for name, study in studies.items() if not names or name in names}


def kept(study: Study, scale: str, folder: Path) -> Result | None:
    """The result in `folder`, if the same settings and the same code would make it now.

    The code is `run`, what it uses of the study's file, and every module of the package that this
    imports, directly or through others. Pictures, captions and verdicts are made from a result, so
    a change there runs nothing again.
    """
    result = load(_path(study, folder))
    return result if result is not None and not _changes(study, scale, result) else None


def why_again(study: Study, scale: str, folder: Path) -> str:
    """Why the result in `folder` cannot be used, in words; nothing if there is none."""
    path = _path(study, folder)
    if not path.exists():
        return ""
    result = load(path)
    if result is None:
        return "the kept result is damaged"
    if not result.sources:
        return "made by an earlier version"
    return f"{sources.listed(_changes(study, scale, result))} changed"


def perform(study: Study, scale: str, folder: Path) -> Result:
    """Run a study and keep its result in `folder`."""
    settings, made_by = study.settings(scale), _sources(study)
    start = time.perf_counter()
    data = study.run(settings)
    seconds = time.perf_counter() - start
    result = Result(_name(study), settings, made_by, seconds, data)
    make_folder(folder)
    write_whole(_path(study, folder), json.dumps(vars(result), indent=1))
    return result


class Clock:
    """How long studies still take: what they usually do, at the pace of those that are done."""

    def __init__(self, scale: str, due: Sequence[Study]) -> None:
        self._cost = {_name(study): study.COST.get(scale, 0) for study in due}
        self._spent = 0
        self._began = time.perf_counter()

    def tick(self, study: Study) -> None:
        """A study is done."""
        self._spent += self._cost.pop(_name(study))

    def left(self) -> str:
        """In words; nothing where it cannot be told, or when all are done."""
        seconds = time.perf_counter() - self._began
        # The first few say little of the pace: they count as if some had been on time before.
        pace = (seconds + _PATIENCE) / (self._spent + _PATIENCE)
        left = pace * sum(self._cost.values())
        return f"about {max(1, round(left / 60))} min left" if left else ""


_PATIENCE = 30


def load(path: Path) -> Result | None:
    """A kept result, or None where there is none that can be read."""
    try:
        known = json.loads(path.read_text(encoding="utf-8"))
        made_by = dict(known.get("sources", {}))
        return Result(known["study"], known["settings"], made_by, known["seconds"], known["data"])
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _changes(study: Study, scale: str, result: Result) -> list[str]:
    """What is not as it was when a result was made: its settings, or files of the package."""
    settings = ["settings"] if result.settings != study.settings(scale) else []
    return settings + sources.changed(result.sources, _sources(study))


def _sources(study: Study) -> Sources:
    return sources.of_function(f"paper.studies.{_name(study)}", "run")


def _path(study: Study, folder: Path) -> Path:
    return folder / f"{_name(study)}.json"


def _name(study: Study) -> str:
    return study.__name__.rpartition(".")[2]
