"""Several processes that train together."""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from arithmetext.errors import InputError
from arithmetext.files import sole_writer
from arithmetext.training.loop import Outcome, train
from arithmetext.training.monitor import read
from tiny_runs import PROCESSES, command, tiny, training_rows


def joined(rank: int, port: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in one of two processes that train together."""
    os.environ |= {
        "RANK": str(rank),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "localhost",
        "MASTER_PORT": str(port),
    }
    return function(*arguments)


def by_two(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """What a function returns in both of two processes that train together."""
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    with PROCESSES.Pool(2) as pool:
        found = [pool.apply_async(joined, (k, port, function, *arguments)) for k in range(2)]
        return [each.get(timeout=120) for each in found]


def assert_alike(folder: Path, rows: int) -> None:
    """The run of two processes has the losses of the run of one."""
    one, two = (read(folder / name / "metrics.jsonl") for name in ("one", "two"))
    assert len(one) == len(two) == rows
    for a, b in zip(one, two, strict=True):
        for figure in ("step", "loss", "nats_per_word", "gradient_norm", "validation_loss"):
            if a.get(figure) is not None:
                assert a[figure] == pytest.approx(b[figure], rel=1e-3)  # steps amplify rounding
    assert json.loads((folder / "two" / "environment.json").read_text())["processes"] == 2


def test_two_processes_give_the_losses_of_one(tmp_path: Path) -> None:
    config = tiny("mlm", "training.optimizer=muon", "training.steps=20")
    train(config, tmp_path / "one")
    by_two(train, config, tmp_path / "two")
    assert_alike(tmp_path, rows=24)


def test_torchrun_starts_them(tmp_path: Path) -> None:
    settings = ("training.optimizer=adamw", "training.steps=20")
    train(tiny("ntp", *settings), tmp_path / "one")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    together = [*torchrun, "--nproc-per-node=2", "-m", "arithmetext"]
    arguments = [*command("ntp", tmp_path / "two", *settings), "--search-lr", "1e-2"]
    answer = subprocess.run(
        [*together, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("validation") == 2  # one of them speaks: of the search, of the run
    assert_alike(tmp_path, rows=24)


def apart(parent: Path) -> tuple[list[str], Outcome]:
    """One of two processes that see different folders: what it is told, and what it comes to."""
    first = os.environ["RANK"] == "0"
    out, said = parent / os.environ["RANK"], []
    for damage in ("lock", "config"):
        with ExitStack() as undo:
            if first and damage == "lock":
                undo.enter_context(sole_writer(out))
            elif first:
                (out / "config.json").rename(out / "other.json")
                undo.callback((out / "other.json").rename, out / "config.json")
            try:
                train(None, out, resume=True)
            except InputError as error:
                said.append(str(error))
    return said, train(None, out, resume=True)


def test_processes_that_see_different_folders_go_on_together(
    finished: Path, tmp_path: Path
) -> None:
    """The first one's folder counts; what it refuses, or is refused, ends the others too."""
    whole = train(None, finished, resume=True)
    losses = [row["loss"] for row in training_rows(finished)]
    shutil.rmtree(finished / "checkpoints" / "00000010")
    shutil.rmtree(finished / "model")
    parent = tmp_path / "apart"
    parent.mkdir()
    finished.rename(parent / "0")
    for said, outcome in by_two(apart, parent):
        assert len(said) == 2
        assert "is in use by process" in said[0]
        assert said[1].startswith(f"cannot read {parent / '0' / 'config.json'}")
        assert outcome.steps == whole.steps
        assert outcome.validation_loss == pytest.approx(whole.validation_loss, rel=2e-4)
    assert [path.name for path in parent.iterdir()] == ["0"]
    rows = training_rows(parent / "0")
    assert [row["step"] for row in rows] == list(range(1, 11))
    assert [row["loss"] for row in rows] == pytest.approx(losses, rel=2e-4)
