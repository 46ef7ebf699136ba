"""Runs that were killed: resumed, they end with the same weights."""

import shutil
import signal
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from arithmetext.training.config import Config
from arithmetext.training.loop import train
from conftest import Run
from tiny_runs import PROCESSES, command, tiny, training_rows, weights


@cache
def undisturbed(task: str, optimizer: str, parent: Path) -> bytes:
    folder = parent / f"{task}-{optimizer}"
    train(tiny(task, f"training.optimizer={optimizer}"), folder)
    return weights(folder)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], bytes]:
    """The weights of runs that nothing disturbed."""
    parent = tmp_path_factory.mktemp("undisturbed")
    return lambda task, optimizer: undisturbed(task, optimizer, parent)


def killed(config: Config, out: Path, ripe: Callable[[], bool], delay: float = 0.0) -> None:
    """Begin a run, or go on with it, in another process; kill that some time after it is ripe."""
    run = PROCESSES.Process(target=train, args=(config, out), kwargs={"resume": True})
    run.start()
    try:
        deadline = time.monotonic() + 60
        while not ripe() and run.is_alive():
            assert time.monotonic() < deadline
            time.sleep(0.002)
        time.sleep(delay)
    finally:
        run.kill()
        run.join()


@pytest.mark.parametrize(
    ("task", "optimizer"), [("ntp", "adamw"), ("mlm", "muon")], ids=["ntp-adamw", "mlm-muon"]
)
def test_killed_and_resumed_without_a_trace(
    task: str, optimizer: str, tmp_path: Path, reference: Callable[[str, str], bytes]
) -> None:
    out = tmp_path / "run"
    config = tiny(task, f"training.optimizer={optimizer}")
    moments: list[tuple[Callable[[], bool], float]] = [
        (lambda: (out / "metrics.jsonl").exists(), 0.0),  # before there is any checkpoint
        (lambda: (out / "checkpoints").exists(), 0.0),  # while one is written
        (lambda: (out / "checkpoints" / "00000010").exists(), 0.03),
        (lambda: (out / "checkpoints" / "00000025").exists(), 0.01),
    ]
    for ripe, delay in moments:
        killed(config, out, ripe, delay)
    train(config, out, resume=True)
    assert weights(out) == reference(task, optimizer)
    assert [row["step"] for row in training_rows(out)] == list(range(1, 41))
    assert not list(out.glob("checkpoints/.*"))


def test_a_damaged_checkpoint_is_noticed_and_the_one_before_is_used(
    tmp_path: Path, nt: Run, reference: Callable[[str, str], bytes]
) -> None:
    out = tmp_path / "run"
    arguments = command("ntp", out, "training.optimizer=adamw")
    config = tiny("ntp", "training.optimizer=adamw")
    killed(config, out, lambda: (out / "checkpoints" / "00000015").exists())
    newest = max(path for path in (out / "checkpoints").iterdir() if path.name.isdigit())
    file = newest / "optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    answer = nt(*arguments, "--resume")
    assert answer.returncode == 0
    assert f"{newest} is damaged" in answer.stderr
    assert weights(out) == reference("ntp", "adamw")


def test_a_full_disk_ends_the_run_and_loses_nothing(
    tmp_path: Path, process: Run, nt: Run, reference: Callable[[str, str], bytes]
) -> None:
    """Files cannot grow beyond a limit that the second checkpoint would cross."""
    resource = pytest.importorskip("resource")
    out = tmp_path / "run"
    arguments = command("ntp", out, "training.optimizer=adamw")
    config = tiny("ntp", "training.optimizer=adamw")
    killed(config, out, lambda: (out / "checkpoints" / "00000005").exists())
    # Whole checkpoints only: the process may have been killed while it wrote another one.
    before = {path: path.stat().st_size for path in out.glob("checkpoints/[0-9]*/*")}

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    answer = process(*arguments, "--resume", preexec_fn=limit)
    assert answer.returncode == 2
    assert answer.stderr.startswith("nt: cannot write the checkpoint")
    assert "--resume goes on from step" in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert {path: path.stat().st_size for path in out.glob("checkpoints/*/*")} == before
    assert not list(out.glob("checkpoints/.*"))
    assert nt(*arguments, "--resume").returncode == 0
    assert weights(out) == reference("ntp", "adamw")


def test_a_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    config = tiny()
    first = train(config, tmp_path / "run")

    def stamps() -> dict[Path, int]:
        files = (tmp_path / "run").rglob("*")
        return {path: path.stat().st_mtime_ns for path in files}

    before = stamps()
    assert train(config, tmp_path / "run", resume=True) == first
    assert stamps() == before


def test_resume_needs_no_recipe(tmp_path: Path, nt: Run) -> None:
    out = tmp_path / "run"
    train(tiny(), out)
    shutil.rmtree(out / "checkpoints" / "00000040")
    shutil.rmtree(out / "model")
    answer = nt("train", "--resume", "--out", out)
    assert answer.returncode == 0, answer.stderr
    assert (out / "model" / "model.safetensors").exists()


def test_a_run_on_surrogate_text(tmp_path: Path, nt: Run) -> None:
    """Its text is part of its configuration, also when it is resumed."""
    out = tmp_path / "run"
    config = tiny("ntp", "surrogate=1")
    train(config, out)
    whole = weights(out)
    assert Config.load(out / "config.json").surrogate == 1
    shutil.rmtree(out / "checkpoints" / "00000040")
    shutil.rmtree(out / "model")
    refusal = nt(*command("ntp", out, "surrogate=2"), "--resume")
    assert refusal.returncode == 2
    assert "surrogate = 1 and 2" in refusal.stderr or "surrogate = 2 and 1" in refusal.stderr
    assert nt("train", "--resume", "--out", out).returncode == 0
    assert weights(out) == whole
    assert Config.load(out / "config.json") == config
    train(tiny("ntp"), tmp_path / "real")
    assert weights(tmp_path / "real") != whole
