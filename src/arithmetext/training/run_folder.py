"""Read the folder of a run, whether it is finished, interrupted or still training."""

import json
from dataclasses import dataclass, field
from math import isfinite
from os import PathLike
from pathlib import Path
from typing import Any

from ..display import drawn
from ..errors import InputError
from . import monitor
from .config import Config


@dataclass(frozen=True)
class RunFolder:
    """What `nt train` has written to a folder so far, apart from the weights."""

    folder: Path
    config: Config
    metrics: list[dict[str, Any]] = field(repr=False)  # the rows of metrics.jsonl
    environment: dict[str, Any] = field(repr=False)  # versions and device when the run began

    @property
    def steps(self) -> int:
        """Number of training steps done."""
        return max((row["step"] for row in self.metrics), default=0)

    def curve(self, name: str) -> list[tuple[int, float]]:
        """(step, value) of a metric, such as "loss" or "validation_loss", where it is finite."""
        pairs = [(row["step"], row.get(name)) for row in self.metrics]
        return [(step, x) for step, x in pairs if isinstance(x, int | float) and isfinite(x)]

    def _repr_html_(self) -> str:
        return drawn("html.run_folder", self)


def run_folder(folder: str | PathLike[str]) -> RunFolder:
    """Read a folder that `nt train` made, such as "runs/ntp-laptop"."""
    path = Path(folder)
    if not (path / "config.json").exists():
        raise InputError(f"{path} is not the folder of a run: it has no config.json")
    config = Config.load(path / "config.json")
    try:
        environment = json.loads((path / "environment.json").read_text(encoding="utf-8"))
        metrics = monitor.read(path / "metrics.jsonl")
    except OSError as error:
        raise InputError(f"cannot read {error.filename}: {error.strerror}") from None
    except (ValueError, RecursionError):
        environment = None
    if not isinstance(environment, dict):
        raise InputError(f"{path / 'environment.json'} is damaged: it holds no JSON object")
    return RunFolder(path, config, metrics, environment)
