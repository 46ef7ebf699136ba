"""Progress bars with rate and time left; nothing is shown unless stderr is a terminal."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Task


class Advance(Protocol):
    """Call it with the amount done since the last call."""

    def __call__(self, amount: int = 1, /) -> None: ...


def no_progress(amount: int = 1, /) -> None:
    """An Advance that shows nothing."""


@contextmanager
def progress(title: str, total: int, unit: str = "") -> Iterator[Advance]:
    """Show a bar on standard error while the block runs, if that is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        ProgressColumn,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: "Task") -> Text:
            return Text(_rate(task.finished_speed or task.speed, unit))

    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        Rate(),
        TimeRemainingColumn(compact=True),
        console=Console(stderr=True),
        transient=True,
    ) as bars:
        task = bars.add_task(title, total=total)

        def advance(amount: int = 1, /) -> None:
            bars.advance(task, amount)

        yield advance


def _rate(speed: float | None, unit: str) -> str:
    """A speed with three digits: 12.3 Mwords/s."""
    from rich.filesize import pick_unit_and_suffix

    if speed is None or not unit:
        return ""
    size, suffix = pick_unit_and_suffix(int(speed), ["", "k", "M", "G"], 1000)
    return f"{speed / size:.3g} {suffix}{unit}/s"
