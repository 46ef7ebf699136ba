"""/report: the reports and the training runs of a folder, and the loss curve of a run.

Shown are reports/NAME and results/NAME with an index.html, and runs/NAME with a config.json. Each
has the address of its folder: /report/runs/NAME. A name is looked up in the list of these folders,
so that no address leads to another file, and links that leave the shown folder are left out.
"""

import json
import re
import time
from array import array
from bisect import bisect_right
from collections import deque
from dataclasses import fields, is_dataclass
from datetime import datetime
from functools import lru_cache
from html import unescape
from math import fsum
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import quote
from zlib import crc32

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from ..errors import InputError
from ..files import LOCK
from ..training.config import Config
from .pages import answer_json, render, sentence
from .parameters import choice, integer

REPORTS, RUNS = ("reports", "results"), "runs"
MOST_SHOWN = 100  # reports, and runs: the newest
MOST_BYTES = 1 << 27  # of a metrics.jsonl; a run of 100,000 steps writes 25 MB
MOST_POINTS = 3000  # of a curve; of a longer run, each point is the mean of several steps
MOST_STEPS = 1 << 53  # integers that JavaScript reads exactly
FRESH = 60.0  # seconds: a run that has written in this time is still training

# A report is one file with its own style, pictures and data. It may do nothing else.
REPORT_HEADERS = {
    "content-security-policy": (
        "sandbox allow-downloads; default-src 'none'; style-src 'unsafe-inline'; img-src data:;"
        " form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    # Browsers refuse a sandboxed page that also asks for `same-origin`.
    "cross-origin-opener-policy": "unsafe-none",
}


def folders(shown: Path, kind: str, file: str) -> list[Path]:
    """The folders in shown/kind that hold this file, the newest first."""
    found = []
    try:
        paths = sorted((shown / kind).iterdir())
    except OSError:
        return []
    for path in paths:
        if path.name.isprintable() and _is_inside(shown, path / file):
            found.append(((path / file).stat().st_mtime, path))
    return [path for _, path in sorted(found, key=lambda pair: -pair[0])]


def _is_inside(shown: Path, path: Path) -> bool:
    """Whether a path is a regular file in the shown folder, also after its links are followed."""
    try:
        real = path.resolve(strict=True)
        return real.is_relative_to(shown) and real.is_file()
    except (OSError, RuntimeError):  # missing, or links that form a circle
        return False


def _named(request: Request, kind: str, file: str) -> Path:
    """The folder that an address names."""
    name = request.path_params["name"]
    for path in folders(request.app.state.folder, kind, file):
        if path.name == name:
            return path
    raise HTTPException(404, f"There is no folder {kind}/{name[:80]} with a file {file}.")


# The reports.


def reports(shown: Path) -> list[dict[str, Any]]:
    """What is known about each report."""
    found = [path for kind in REPORTS for path in folders(shown, kind, "index.html")]
    return [_about_report(path) for path in found[:MOST_SHOWN]]


def _about_report(path: Path) -> dict[str, Any]:
    """Where a report is, when it was made, and what its first sentences say."""
    index = path / "index.html"
    with index.open("rb") as file:
        start = file.read(1 << 16).decode("utf-8", errors="replace")
    outcomes = re.search(r"<b>(\d+ claims?: [^<]{,200}?)\.?</b>", start)
    scale = re.search(r"[Tt]he studies\s+ran\s+at\s+([\w ]{,40}?) scale", start)
    return {
        "folder": f"{path.parent.name}/{path.name}",
        "address": _address(path),
        "made": _date(index.stat().st_mtime),
        "scale": scale[1] if scale else None,
        "outcomes": unescape(outcomes[1]) if outcomes else None,
    }


def _address(path: Path) -> str:
    return f"/report/{path.parent.name}/{quote(path.name, safe='')}"


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).isoformat(" ", "minutes")


# The runs.


class Metrics:
    """The curves in a metrics.jsonl, read as the file grows.

    Like `training.monitor.read`, this stops at the first damaged row.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = Lock()
        self._begin("")

    def _begin(self, identity: str) -> None:
        self.identity = identity
        self.bytes_read = 0
        self.damaged = False
        self.steps, self.losses = array("q"), array("d")
        self.validations: list[tuple[int, float]] = []
        self.recent: deque[tuple[int, float]] = deque(maxlen=50)  # steps, and their seconds
        self.last: dict[str, float] = {}

    def update(self) -> None:
        """Read what is new in the file; all of it if it was replaced, as a resumed run does."""
        try:
            status = self.path.stat()
        except OSError:  # a new run has no metrics yet
            self._begin("")
            return
        if status.st_size > MOST_BYTES:
            raise InputError(f"{self.path.name} has more than {MOST_BYTES >> 20} MiB")
        with self.path.open("rb") as file:
            # The first row has times in it, so that no two runs begin with the same one.
            identity = f"{status.st_ino}-{crc32(file.readline(MOST_BYTES))}"
            if identity != self.identity or status.st_size < self.bytes_read:
                self._begin(identity)
            file.seek(self.bytes_read)
            new = file.read(MOST_BYTES)
        whole = new[: new.rfind(b"\n") + 1]  # the last line may be half-written
        self.bytes_read += len(whole)
        for line in whole.splitlines():
            if self.damaged:
                break
            self.damaged = not self._add(line)

    def _add(self, line: bytes) -> bool:
        """Add a row; False if it is damaged."""
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return False
        step = row.get("step") if isinstance(row, dict) else None
        if type(step) is not int or not 1 <= step < MOST_STEPS:
            return False
        values = {name: value for name, value in row.items() if _is_number(value)}
        if "validation_loss" in values:
            self.validations.append((step, values["validation_loss"]))
        if "loss" in values:
            if self.steps and step <= self.steps[-1]:
                return False
            self.steps.append(step)
            self.losses.append(values["loss"])
            self.recent.append((step, values.get("seconds", 0.0)))
            self.last = values
        return True

    @property
    def step(self) -> int:
        """The last step so far."""
        return self.steps[-1] if self.steps else 0

    @property
    def mean_of(self) -> int:
        """How many steps a point of the curve stands for, so that it has `MOST_POINTS` at most."""
        return 1 << (self.step // MOST_POINTS).bit_length()

    @property
    def seconds_per_step(self) -> float:
        """In the last steps; 0 if it is unknown."""
        if len(self.recent) < 2:
            return 0.0
        (first, began), (last, ended) = self.recent[0], self.recent[-1]
        return max(0.0, ended - began) / (last - first)

    def points(self, after: int, *, whole: bool) -> list[tuple[int, float]]:
        """The curve after a step: (last step, mean loss) of each `mean_of` steps.

        `whole`: leave out a last point that more steps will change.
        """
        points, i, size = [], bisect_right(self.steps, after), self.mean_of
        while i < len(self.steps):
            end = ((self.steps[i] - 1) // size + 1) * size
            if whole and end > self.step:
                break
            j = bisect_right(self.steps, end)
            points.append((self.steps[j - 1], fsum(self.losses[i:j]) / (j - i)))
            i = j
        return points


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


@lru_cache(MOST_SHOWN)
def _metrics(path: Path) -> Metrics:
    return Metrics(path)


def about_run(path: Path, after: int = 0) -> dict[str, Any]:
    """A run's model, state and last values, and its curves after a step, as JSON."""
    config = Config.load(path / "config.json")
    if not _is_inside(path.parent.parent, file := path / "metrics.jsonl") and file.exists():
        raise InputError(f"{file.name} is not a file of this folder")
    metrics = _metrics(file)
    with metrics.lock:
        metrics.update()
        state = _state(path, config, metrics)
        after -= after % metrics.mean_of
        return {
            "folder": f"{RUNS}/{path.name}",
            "address": _address(path),
            "model": f"{config.model.kind}: {config.model.description}",
            "text": _text(config),
            "state": state,
            "step": metrics.step,
            "steps": config.training.steps,
            "has_model": (path / "model").is_dir(),
            "damaged": metrics.damaged,
            "last": metrics.last,
            "facts": _facts(config, metrics, state),
            # Another curve is another file, or another number of steps in each point.
            "curve": f"{metrics.identity}-{metrics.mean_of}",
            "mean_of": metrics.mean_of,
            "after": after,
            "loss": metrics.points(after, whole=state == "training"),
            "validation": metrics.validations,
        }


def _state(path: Path, config: Config, metrics: Metrics) -> str:
    """Whether a run is finished, still training, or interrupted.

    A run has its lock file while it trains. If it was killed the file is still there, but nothing
    is written any more.
    """
    if (path / "model").is_dir() or metrics.step >= config.training.steps:
        return "finished"
    fresh = max(FRESH, 20 * metrics.seconds_per_step)
    for name in "metrics.jsonl", "config.json":
        try:
            age = time.time() - (path / name).stat().st_mtime
        except OSError:
            continue
        if age < fresh and (path / LOCK).exists():
            return "training"
    return "interrupted"


def _text(config: Config) -> str:
    task = {"ntp": "next-token prediction", "mlm": "masked modelling"}[config.task]
    kind = {"bpe": "byte-pair tokens", "words": "word tokens"}[config.tokens.kind]
    return f"{task}, {config.tokens.size} {kind}, context {config.model.context}"


def _facts(config: Config, metrics: Metrics, state: str) -> dict[str, str]:
    """What the page says about the run so far; a dash stands for what is not known."""
    last, validations = metrics.last, metrics.validations
    best = min(validations, key=lambda point: point[1], default=None)
    left = (config.training.steps - metrics.step) * metrics.seconds_per_step
    return {
        "Steps": f"{metrics.step:,} of {config.training.steps:,}",
        "Training loss": f"{last['loss']:.4f} nats per token" if last else "–",
        "Validation loss": _at(validations[-1]) if validations else "–",
        "Lowest validation loss": _at(best) if best else "–",
        "Learning rate": f"{last['lr']:.3g}" if "lr" in last else "–",
        "Speed": (
            f"{last['tokens_per_second']:,.0f} tokens/s" if "tokens_per_second" in last else "–"
        ),
        "Time": _duration(last["seconds"]) if "seconds" in last else "–",
        "Time left": f"about {_duration(left)}" if left and state == "training" else "–",
    }


def _at(point: tuple[int, float]) -> str:
    return f"{point[1]:.4f} nats per token at step {point[0]:,}"


def _duration(seconds: float) -> str:
    """
    >>> _duration(7.26), _duration(769), _duration(7500)
    ('7 s', '12 min 49 s', '2 h 5 min')
    """
    minutes, rest = divmod(round(seconds), 60)
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def runs(shown: Path) -> list[dict[str, Any]]:
    """What the list shows of each run; of a damaged one, why it cannot be read."""
    found = []
    for path in folders(shown, RUNS, "config.json")[:MOST_SHOWN]:
        run = {"folder": f"{RUNS}/{path.name}", "address": _address(path)}
        try:
            about = about_run(path)
        except (InputError, OSError) as error:
            found.append(run | {"error": _relative(error, path)})
            continue
        validations = about.pop("validation")
        for name in "loss", "curve", "mean_of", "after":
            del about[name]
        last = validations[-1] if validations else None
        found.append(about | {"validation": last, "error": None})
    return sorted(found, key=lambda run: run.get("state") != "training")


def _relative(error: Exception, path: Path) -> str:
    """An error as a sentence, with files named relative to the shown folder."""
    reason = str(error).replace(f"{path.parent.parent}/", "")
    return sentence(f"This run cannot be read: {reason}")


def _run(request: Request, after: int = 0) -> dict[str, Any]:
    path = _named(request, RUNS, "config.json")
    try:
        return about_run(path, after)
    except InputError as error:
        raise InputError(_relative(error, path)) from None


def _settings(config: Any, prefix: str = "") -> list[tuple[str, Any]]:
    """All fields of a configuration, as `--set` names them."""
    rows: list[tuple[str, Any]] = []
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            rows += _settings(value, f"{prefix}{field.name}.")
        else:
            rows.append((prefix + field.name, value))
    return rows


# The pages.


def page(request: Request) -> Response:
    shown = request.app.state.folder
    return render(request, "report", reports=reports(shown), runs=runs(shown), most=MOST_SHOWN)


def report_page(request: Request) -> Response:
    kind = request.path_params["kind"]
    if kind not in REPORTS:
        raise HTTPException(404)
    path = _named(request, kind, "index.html")
    return FileResponse(path / "index.html", media_type="text/html", headers=REPORT_HEADERS)


def run_page(request: Request) -> Response:
    scale = choice(request, "scale", ["linear", "log"])
    run = _run(request)
    config = Config.load(request.app.state.folder / run["folder"] / "config.json")
    return render(request, "run", run=run, scale=scale, settings=_settings(config))


def json_list(request: Request) -> Response:
    shown = request.app.state.folder
    return answer_json({"reports": reports(shown), "runs": runs(shown)})


def json_run(request: Request) -> Response:
    after = integer(request, "after", "0", least=0, most=MOST_STEPS)
    return answer_json(_run(request, after))


routes = [
    Route("/report", page),
    Route("/report/runs/{name}", run_page),
    Route("/report/{kind}/{name}", report_page),
    Route("/api/report", json_list),
    Route("/api/runs/{name}", json_run),
]
