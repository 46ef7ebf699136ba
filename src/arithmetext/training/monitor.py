"""Show and record a run while it trains: `metrics.jsonl`, a live line, optionally TensorBoard."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..errors import InputError
from ..files import write_whole


class Monitor:
    """Writes and shows rows of metrics, each with its step."""

    def __init__(self, folder: Path, title: str, *, step: int, steps: int, board: bool) -> None:
        """Drop rows after `step`, which a killed run may have left."""
        self.path = folder / "metrics.jsonl"
        kept = [row for row in read(self.path) if row["step"] <= step]
        write_whole(self.path, "".join(json.dumps(row) + "\n" for row in kept))
        self.file = self.path.open("a", encoding="utf-8")
        self.board = _board(folder / "tensorboard", step) if board else None
        console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description}"),
            MofNCompleteColumn(),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[line]}"),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.progress.add_task(title, total=steps, completed=step, line="")
        self.validation = ""
        self.progress.start()

    def record(self, row: dict[str, Any]) -> None:
        """Write a row and show it."""
        try:
            self.file.write(json.dumps(row) + "\n")
            self.file.flush()
        except OSError as error:
            raise InputError(f"cannot write {self.path}: {error.strerror}") from None
        if self.board is not None:
            for name, value in row.items():
                if name != "step" and value is not None:
                    self.board.add_scalar(name, value, row["step"])
        if "validation_loss" in row:
            self.validation = f" · validation {row['validation_loss']:.4f}"
        else:
            line = format_row(row) + self.validation
            self.progress.update(self.task, completed=row["step"], line=line)

    def close(self) -> None:
        self.progress.stop()
        self.file.close()
        if self.board is not None:
            self.board.close()


def format_row(row: dict[str, Any]) -> str:
    """A row of metrics as a line for people."""
    parts = [f"{row['loss']:.4f} nats/token"]
    if row["nats_per_word"] is not None:
        parts.append(f"{row['nats_per_word']:.4f} nats/word")
    parts.append(f"{row['tokens_per_second'] / 1000:.3g} k tokens/s")
    if row["mfu"] is not None:
        parts.append(f"MFU {row['mfu']:.1%}")
    return " · ".join(parts)


def read(path: Path) -> list[dict[str, Any]]:
    """The rows of a `metrics.jsonl` up to the first damaged one; a kill may cut the last short."""
    rows: list[dict[str, Any]] = []
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            break
        if not isinstance(row, dict) or type(row.get("step")) is not int:
            break
        rows.append(row)
    return rows


def _board(folder: Path, step: int) -> Any:
    writer = import_module("torch.utils.tensorboard").SummaryWriter
    return writer(folder, purge_step=step + 1)
