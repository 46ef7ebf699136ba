"""Several processes that train together."""

import json
import os
import shutil
import socket
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path

import pytest

from arithmetext.errors import InputError
from arithmetext.files import sole_writer
from arithmetext.training.loop import train
from arithmetext.training.monitor import read
from tiny_runs import command, tiny, training_rows


@pytest.mark.parametrize(
    ("task", "optimizer"), [("ntp", "adamw"), ("mlm", "muon")], ids=["ntp-adamw", "mlm-muon"]
)
def test_two_processes_give_the_losses_of_one(task: str, optimizer: str, tmp_path: Path) -> None:
    settings = (f"training.optimizer={optimizer}", "training.steps=20")
    train(tiny(task, *settings), tmp_path / "one")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    together = [*torchrun, "--nproc-per-node=2", "-m", "arithmetext"]
    arguments = [*command(task, tmp_path / "two", *settings), "--search-lr", "1e-2"]
    answer = subprocess.run(
        [*together, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("validation") == 2  # one of them speaks: of the search, of the run
    one, two = (read(tmp_path / name / "metrics.jsonl") for name in ("one", "two"))
    assert len(one) == len(two) == 24
    for a, b in zip(one, two, strict=True):
        for figure in ("step", "loss", "nats_per_word", "gradient_norm", "validation_loss"):
            if a.get(figure) is not None:
                assert a[figure] == pytest.approx(b[figure], rel=1e-3)  # steps amplify rounding
    assert json.loads((tmp_path / "two" / "environment.json").read_text())["processes"] == 2


def apart(parent: Path) -> None:
    """One of two processes that see different folders; what it comes to goes to standard output."""
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
    print(json.dumps([said, asdict(train(None, out, resume=True))]))


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
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    about = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    code = "import sys, pathlib, test_processes as t; t.apart(pathlib.Path(sys.argv[1]))"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, parent],
            env=os.environ | about | {"RANK": rank},
            cwd=Path(__file__).parent,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    try:
        answers = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for said, outcome in answers:
        assert len(said) == 2
        assert "is in use by process" in said[0]
        assert said[1].startswith(f"cannot read {parent / '0' / 'config.json'}")
        assert outcome["steps"] == whole.steps
        assert outcome["validation_loss"] == pytest.approx(whole.validation_loss, rel=2e-4)
    assert [path.name for path in parent.iterdir()] == ["0"]
    rows = training_rows(parent / "0")
    assert [row["step"] for row in rows] == list(range(1, 11))
    assert [row["loss"] for row in rows] == pytest.approx(losses, rel=2e-4)
