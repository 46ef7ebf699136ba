"""Studies: what they are, how they run, and where their results are kept.

A study tests claims of the paper, usually those about one figure. It is a module of
`paper/studies/` that defines

    TITLE              the heading in the report
    ORDER              sort key of the report: 10, 20, … in the paper's order; from 200 on what the
                       paper does not have
    COST               seconds that it takes at each scale, such as {"laptop": 3, "gpu": 30}; used
                       to estimate the time left, and may lack scales
    Result             a frozen dataclass with every number that the study finds
    settings(scale)    everything that the result depends on, as a frozen dataclass
    run(settings)      compute the Result
    plot(result)       a matplotlib figure
    in_short(result)   what was found, in one or two sentences; the first can stand alone
    caption(result)    what the figure shows, in a few sentences; the first can stand alone
    table(result)      a header and rows: the numbers behind the figure
    verdicts(result)   a `Verdict` (below) on each claim of the paper

`run` computes every number once; the other functions only read the result. `evaluation.codec`
stores the result as JSON. Its fields may be numbers, strings, None, dataclasses, named tuples, and
lists, tuples or dicts of these. Where a study measures models, `run` measures and a function
`summarise` computes the statistics, so that tests need no model.

To add a study, add

    paper/studies/NAME.py          `nt reproduce --only NAME` finds and runs it
    results/h200/data/NAME.json    its result, copied from reports/gpu/data (the tests need it, or
                                   a function `made_up` in the study's tests until it is there); a
                                   study that uses no model can make it on a CPU
    tests/studies/test_NAME.py     cases that change the outcome of each verdict
                                   (tests/studies/cases.py)

and a line in docs/reproduction.md. Then build the page (`nt report results/h200`) and the numbers
in the docs again (`python -m arithmetext.paper.quotes`). `orientation.py` is a short example.
Modules whose names begin with an underscore are code that several studies share.
"""

import importlib
import json
import pkgutil
import shutil
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from .. import sources
from ..errors import InputError
from ..evaluation.codec import from_json, to_json
from ..files import make_folder, write_whole
from ..integers import format_integer
from ..sources import Sources
from ..training.recipes import recipe
from . import studies

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCALES = ("laptop", "gpu", "paper")
SYMBOLS = {True: "✓", False: "≠", None: "○"}  # of outcomes

Table = tuple[Sequence[str], Sequence[Sequence[Any]]]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One claim of the paper beside what was found here."""

    key: str  # names the claim within its study; stays when the wording changes
    claim: str
    paper: str
    ours: str
    criterion: str  # completes "agrees if …"
    agrees: bool | None  # None: not tested here, for the reason in `why`
    why: str = ""
    by_construction: bool = False  # agrees because of how things are defined here

    def __post_init__(self) -> None:
        if self.agrees is None and not self.why:
            raise ValueError(f"a claim that is not tested needs a reason: {self.claim}")

    @property
    def outcome(self) -> str:
        if self.agrees is None:
            return "not tested here"
        if not self.agrees:
            return "differs"
        return "agrees by construction" if self.by_construction else "agrees"

    @property
    def symbol(self) -> str:
        return SYMBOLS[self.agrees]

    @property
    def evidence(self) -> str:
        """Our number, followed by the criterion."""
        return f"{self.ours} (agrees if {self.criterion})"


def if_papers_model(verdicts: Sequence[Verdict], stand_in: str) -> list[Verdict]:
    """The verdicts; *not tested here* if they come from a model that is not the paper's.

    `stand_in` says why it is not the paper's model, and is empty if it is.
    """
    if not stand_in:
        return list(verdicts)
    return [
        replace(verdict, agrees=None, why=f"{stand_in} {verdict.why}".strip())
        for verdict in verdicts
    ]


def papers_tokens() -> int:
    """The number of tokens in one pass over the paper's training text."""
    training = recipe("ntp-paper").training
    return training.steps * training.batch


def unless_trained_less(
    verdict: Verdict, *, worse: bool, tokens: int, model: str = "The model"
) -> Verdict:
    """The verdict; *not tested here* if the model is worse than the paper's, but trained on less.

    Longer training may close the gap, so a model that is worse does not speak against the paper.
    """
    papers = papers_tokens()
    if verdict.agrees is not False or not worse or tokens >= papers:
        return verdict
    short = f"{model} is worse here, but it is trained on {format_integer(tokens)} tokens only;"
    why = f"{short} one pass over the paper's text has {format_integer(papers)}. {verdict.why}"
    return replace(verdict, agrees=None, why=why.strip())


class Study(Protocol):
    """A module of `paper/studies/`."""

    __name__: str
    TITLE: str
    ORDER: int
    COST: dict[str, int]
    Result: type

    def settings(self, scale: str) -> Any: ...
    def run(self, settings: Any) -> Any: ...
    def plot(self, result: Any) -> "Figure": ...
    def in_short(self, result: Any) -> str: ...
    def caption(self, result: Any) -> str: ...
    def table(self, result: Any) -> Table: ...
    def verdicts(self, result: Any) -> list[Verdict]: ...


@dataclass(frozen=True)
class Stored:
    """A study's result on disk, with all that it depends on."""

    study: str
    settings: Any  # as JSON
    sources: Sources  # digests of the code that made it; empty in files of earlier versions
    seconds: float  # with those of outputs that were made before
    data: Any  # the Result


def all_studies() -> dict[str, Study]:
    """Every study by name, in the order of the report."""
    modules = [
        cast(Study, importlib.import_module(f"{studies.__name__}.{module.name}"))
        for module in pkgutil.iter_modules(studies.__path__)
        if not module.name.startswith("_")
    ]
    return {_name(study): study for study in sorted(modules, key=lambda study: study.ORDER)}


def check_scale(scale: str) -> None:
    if scale not in SCALES:
        raise InputError(f"no scale {scale!r}; there are: {', '.join(SCALES)}")


def choose(names: Sequence[str]) -> dict[str, Study]:
    """The named studies, or all of them if none is named."""
    studies_by_name = all_studies()
    for name in names:
        if name not in studies_by_name:
            raise InputError(f"no study {name!r}; there are: {', '.join(studies_by_name)}")
    return {name: study for name, study in studies_by_name.items() if not names or name in names}


def load(study: Study, folder: Path) -> Stored:
    """The study's result in `folder`; ValueError or OSError if there is none that fits."""
    stored = json.loads(_path(study, folder).read_text(encoding="utf-8"))
    try:
        return Stored(
            stored["study"],
            stored["settings"],
            dict(stored.get("sources", {})),
            stored["seconds"],
            from_json(study.Result, stored["data"]),
        )
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not a result: {error}") from None


def _load_if_fit(study: Study, folder: Path) -> Stored | None:
    try:
        return load(study, folder)
    except (OSError, ValueError, RecursionError):
        return None


def perform(study: Study, scale: str, folder: Path, older: Sources | None = None) -> Stored:
    """Run a study and keep its result in `folder`.

    `older`, filled while the study runs, has the digests of older code that made its outputs.
    """
    from . import outputs

    settings = study.settings(scale)
    made_by = _sources(study, settings)
    outputs.seconds_before()  # of a study that failed
    start = time.perf_counter()
    data = study.run(settings)
    seconds = time.perf_counter() - start + outputs.seconds_before()
    made_by |= older or {}
    result = Stored(_name(study), to_json(settings), made_by, seconds, data)
    make_folder(folder)
    write_whole(_path(study, folder), json.dumps(to_json(result), indent=1))
    return result


def cached_result(study: Study, scale: str, folder: Path) -> Stored | None:
    """The result in `folder`, if the same settings and the same code would make it now.

    The code is `run`, everything in the study's file that `run` uses, and every module of the
    package that this imports, directly or through others. If a model comes with the package, its
    weights count in place of the code that trained it. Figures, captions and verdicts are made from
    a result, so changing them runs nothing again.
    """
    result = _load_if_fit(study, folder)
    return result if result is not None and not _changes(study, scale, result) else None


def why_recomputed(study: Study, scale: str, folder: Path) -> str:
    """Why the result in `folder` cannot be used, in words; empty if there is none."""
    if not _path(study, folder).exists():
        return ""
    result = _load_if_fit(study, folder)
    if result is None:
        return "the kept result is damaged, or of an earlier version"
    if not result.sources:
        return "made by an earlier version"
    return f"{sources.listed(_changes(study, scale, result))} changed"


def reproduce(
    chosen: dict[str, Study], scale: str, folder: Path, *, older: bool = False
) -> list[str]:
    """Run the studies whose results are not in `folder`, with a line of progress for each.

    With `older`, sweeps use what older code left in `folder`. Returns the names of the studies that
    failed; they do not stop the others.
    """
    from ..training import run_cache
    from . import outputs

    make_folder(folder / "data")
    run_cache.load_records(folder / "runs")
    outputs.load(folder / "outputs")
    cached = {name: cached_result(study, scale, folder / "data") for name, study in chosen.items()}
    clock = Clock(scale, [chosen[name] for name, result in cached.items() if result is None])
    failed = []
    width = max(map(len, chosen))
    for i, (name, study) in enumerate(chosen.items(), start=1):
        line = f"[{i:{len(str(len(chosen)))}}/{len(chosen)}] {name:{width}}  "
        if cached[name] is not None:
            print(f"{line}kept from before")
            continue
        why = why_recomputed(study, scale, folder / "data")
        notes = [f"recomputed: {why}"] if why else []
        terminal = sys.stdout.isatty()
        if terminal:
            running = line + "; ".join(filter(None, [*notes, clock.left()]))
            print(running[: shutil.get_terminal_size().columns - 1])  # must fit to be replaced
        line_start = _LINE_UP if terminal else ""
        try:
            start = time.perf_counter()
            with outputs.saved_to(folder, older=older) as digests:
                result = perform(study, scale, folder / "data", digests)
            seconds = time.perf_counter() - start
            took = f"{seconds:.1f} s"
            notes += ["outputs kept from before"] if result.seconds > seconds else []
        except Exception as error:
            _print(name, error)
            failed.append(name)
            took, line_start, notes = "failed", "", []  # the last line is the error
        clock.tick(study)
        after = "; ".join(filter(None, [*notes, *run_cache.why_trained_again(), clock.left()]))
        print(f"{line_start}{line}{took:>8}  {after}".rstrip(), flush=True)
    return failed


def _print(name: str, error: Exception) -> None:
    """Say why a study failed: bad input in one line, anything else with its traceback."""
    if isinstance(error, InputError):
        print(f"{name}: {error}", file=sys.stderr)
    else:
        traceback.print_exception(error)


def rescore(chosen: dict[str, Study], scale: str, folder: Path) -> list[str]:
    """Compute the results in `folder` again from the outputs of models that are kept there.

    Nothing is trained, and no trained model runs. A study that needs more than was kept is left as
    it is. So is a study without models: its result is not made from outputs. Returns the names of
    the studies that failed; they do not stop the others.
    """
    from ..training import run_cache
    from . import outputs
    from .runs import trained_models

    failed = []
    with outputs.only_kept(folder) as older:
        for name, study in chosen.items():
            if not trained_models(study.settings(scale)):
                print(f"{name}: left as it is, since it uses no model", flush=True)
                continue
            older.clear()
            try:
                start = time.perf_counter()
                perform(study, scale, folder / "data", older)
                print(f"{name}: {time.perf_counter() - start:.1f} s", flush=True)
            except run_cache.NotKept as error:
                print(f"{name}: left as it is, since {error}", flush=True)
            except Exception as error:
                _print(name, error)
                failed.append(name)
    return failed


_LINE_UP = "\x1b[1A\x1b[2K"  # move to the last line and clear it


class Clock:
    """Estimates the time left: the usual cost of each study, at the pace of the finished ones."""

    def __init__(self, scale: str, due: Sequence[Study]) -> None:
        self._cost = {_name(study): study.COST.get(scale, 0) for study in due}
        self._spent = 0
        self._began = time.perf_counter()

    def tick(self, study: Study) -> None:
        """Count a study as finished."""
        self._spent += self._cost.pop(_name(study))

    def left(self) -> str:
        """The time left in words; empty if it is unknown or nothing is left."""
        seconds = time.perf_counter() - self._began
        # The first studies say little about the pace: count as if some had been on time before.
        pace = (seconds + _PRIOR_SECONDS) / (self._spent + _PRIOR_SECONDS)
        left = pace * sum(self._cost.values())
        return f"about {max(1, round(left / 60))} min left" if left else ""


_PRIOR_SECONDS = 30


def _changes(study: Study, scale: str, result: Stored) -> list[str]:
    """What changed since a result was made: its settings, or files of the package."""
    settings = study.settings(scale)
    changed = sources.changed(result.sources, _sources(study, settings))
    return [*(["settings"] if result.settings != to_json(settings) else []), *changed]


def _sources(study: Study, settings: Any) -> Sources:
    """Digests of what a result depends on: the code of `run`, and what made the models."""
    from ..training import run_cache
    from .runs import trained_models

    found = sources.of_function(f"paper.studies.{_name(study)}", "run")
    for model in trained_models(settings):
        found |= run_cache.made_by(model.config)
    return found


def _path(study: Study, folder: Path) -> Path:
    return folder / f"{_name(study)}.json"


def _name(study: Study) -> str:
    return study.__name__.rpartition(".")[2]
