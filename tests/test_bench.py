"""`nt bench`: which subjects there are, and how speeds are compared."""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from arithmetext import bench
from arithmetext.bench import train
from arithmetext.bench.comparison import compare
from arithmetext.training.devices import World
from arithmetext.training.run import Run, StepResult
from arithmetext.training.stream import Batch, ProcessBatches
from tiny_runs import tiny


def test_every_subject_has_a_file() -> None:
    folder = Path(bench.__file__).parent
    others = {"__init__", "comparison", "hugging_face"}
    assert {path.stem for path in folder.glob("*.py")} - others == set(bench.SUBJECTS)


def test_the_sustained_rate_is_that_of_all_steps_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling is not in it; the text is."""
    log: list[str] = []
    clock = iter([100.0, 104.0])
    text, step = ProcessBatches.parts, Run.step

    def parts(self: ProcessBatches, first: int) -> Generator[Batch, None, None]:
        for part in text(self, first):
            log.append("text")
            yield part

    def logged_step(self: Run, i: int, parts: Iterator[Batch]) -> StepResult:
        log.append(f"step {i}")
        return step(self, i, parts)

    def perf_counter() -> float:
        log.append("clock")
        return next(clock)

    monkeypatch.setattr(ProcessBatches, "parts", parts)
    monkeypatch.setattr(Run, "step", logged_step)
    monkeypatch.setattr(train, "time", SimpleNamespace(perf_counter=perf_counter))
    config = tiny("ntp", "training.device_batch=256")
    rate = train.sustained_rate(config, World(0, 1, torch.device("cpu")), 3)
    assert rate == 3 * 256 / 4.0
    each = [[f"step {i}", "text"] for i in range(4)]
    assert log == [*each[0], "clock", *each[1], *each[2], *each[3], "clock"]


def test_the_best_of_several_rounds_counts() -> None:
    def timer(*seconds: float) -> Callable[[], float]:
        return iter(seconds).__next__

    report = compare(
        {
            "ours": {"few": timer(3.0, 1.0), "many": timer(8.0, 9.0)},
            "peer": {"few": timer(4.0, 5.0)},
        },
        {"few": 2_000_000, "many": 4_000_000},
        unit="millions a second",
        conditions={"text": "none"},
        rounds=2,
    )
    assert report["conditions"].pop("machine")
    assert report == {
        "conditions": {"best of": 2, "text": "none"},
        "unit": "millions a second",
        "ours": {"few": 2.0, "many": 0.5},
        "peers": {"peer": {"few": 0.5}},
        "ratio": {"peer": {"few": 4.0}},
    }


def test_a_peer_that_is_far_slower_is_compared_exactly() -> None:
    """Rounded to three digits after the point, its rate would be 0."""
    timers = {"ours": {"case": lambda: 1.0}, "peer": {"case": lambda: 7000.0}}
    report = compare(timers, {"case": 10**6}, unit="millions a second", conditions={})
    assert report["ratio"] == {"peer": {"case": 7000.0}}
    assert report["peers"] == {"peer": {"case": 0.0001429}}
