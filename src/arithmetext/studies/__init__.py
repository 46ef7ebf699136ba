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

import hashlib
import importlib
import inspect
import json
import pkgutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
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
    by_construction: bool = False  # it follows from how things are made here

    @property
    def said(self) -> str:
        """What it comes to, in words."""
        if not self.agrees:
            return "differs"
        return "agrees by construction" if self.by_construction else "agrees"


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
    key: str
    settings: dict[str, Any]
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
    """The result in `folder`, if it was made there before just as it would be made now.

    It is known by a key of the settings, the version and the source of what makes it: a change in
    any of them runs a study again, one of the picture or of the words about it does not.
    """
    result = load(folder / f"{_name(study)}.json")
    return result if result is not None and result.key == _key(study, scale) else None


def perform(study: Study, scale: str, folder: Path) -> Result:
    """Run a study and keep its result in `folder`."""
    settings = study.settings(scale)
    start = time.perf_counter()
    data = study.run(settings)
    seconds = time.perf_counter() - start
    result = Result(_name(study), _key(study, scale), settings, seconds, data)
    make_folder(folder)
    write_whole(folder / f"{_name(study)}.json", json.dumps(vars(result), indent=1))
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
        return Result(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None


def _key(study: Study, scale: str) -> str:
    about = json.dumps([study.settings(scale), __version__, _source(study)], sort_keys=True)
    return hashlib.sha256(about.encode()).hexdigest()[:16]


def _source(study: Study) -> dict[str, str]:
    """What `run` and all of the module that it uses look like."""
    found: dict[str, str] = {}
    names = ["run"]
    while names:
        name = names.pop()
        value = getattr(study, name, None)
        if name in found or inspect.ismodule(value):
            continue
        if inspect.isfunction(value) and value.__module__ == study.__name__:
            found[name] = inspect.getsource(value)
            names += _names(value.__code__)
        elif inspect.isclass(value) and value.__module__ == study.__name__:
            found[name] = inspect.getsource(value)
        elif value is not None and not callable(value):
            found[name] = repr(value)
    return found


def _names(code: CodeType) -> list[str]:
    """The names that a function, and those defined inside it, looks up outside."""
    inner = [const for const in code.co_consts if isinstance(const, CodeType)]
    return [*code.co_names, *(name for part in inner for name in _names(part))]


def _name(study: Study) -> str:
    return study.__name__.rpartition(".")[2]
