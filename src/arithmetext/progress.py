"""Progress for people at a terminal: what, how far, how fast, how long still. Silent elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.filesize import pick_unit_and_suffix
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text


class Advance(Protocol):
    """Call it with how much was done since the last call."""

    def __call__(self, amount: int = 1, /) -> None: ...


def no_progress(amount: int = 1, /) -> None:
    """For callers that want to see nothing."""


@contextmanager
def progress(title: str, total: int, unit: str = "") -> Iterator[Advance]:
    """Show a bar on standard error while the block runs, if that is a terminal."""
    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        _Rate(unit),
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    ) as bars:
        task = bars.add_task(title, total=total)

        def advance(amount: int = 1, /) -> None:
            bars.advance(task, amount)

        yield advance


class _Rate(ProgressColumn):
    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        if speed is None or not self.unit:
            return Text("")
        size, suffix = pick_unit_and_suffix(int(speed), ["", "k", "M", "G"], 1000)
        return Text(f"{speed / size:.3g} {suffix}{self.unit}/s")
