"""Shared by all tests: the command `nt`, caches apart from the user's, and tolerances."""

import dataclasses
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pytest
from hypothesis import settings

from arithmetext.files import cache_folder

# Compiled kernels are kept from one run of the tests to the next: compiling them takes minutes.
os.environ.setdefault("NUMBA_CACHE_DIR", str(cache_folder() / "kernels"))
# Tests make their own encoder tables and models, and leave those of the user alone. The processes
# that run tests side by side share the folder that the first one made.
if "PYTEST_XDIST_WORKER" not in os.environ:
    CACHE = tempfile.TemporaryDirectory(prefix="arithmetext-tests-", ignore_cleanup_errors=True)
    os.environ["XDG_CACHE_HOME"] = CACHE.name

# The models here are too small to share out: on a busy machine threads wait for each other. For
# torch it must be said before it is imported; commands that tests run inherit it.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["HF_HUB_OFFLINE"] = "1"

# A shell starts what runs in the background with interrupts ignored, which tests of them and the
# commands they run would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Kernels compile on their first call: a first example may take seconds.
settings.register_profile("arithmetext", deadline=None)
settings.load_profile("arithmetext")

# Two ways to add the same numbers differ in their last digits, which ones depends on the processor.
# So models are compared in float64, and what the library rounds to float32 within `tolerance`.
FLOAT32 = 2.0**-23  # the distance from 1 to the next number


def tolerance(terms: int) -> float:
    """How far two float32 sums of this many terms can be apart, as a share of the terms' sizes."""
    return terms * FLOAT32


NT = Path(sys.executable).with_name("nt")


class Answer(NamedTuple):
    """How a command ended, under the names that `subprocess.run` uses."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Answer]


@pytest.fixture
def nt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `nt` with the given arguments in an empty folder, without starting a process.

    A new process would spend two seconds importing torch. What depends on the process itself
    (pipes, signals, its environment) is tested with `process`.
    """
    from arithmetext import cli

    really_exit, here = os._exit, os.getpid()

    def leave(code: int) -> NoReturn:
        if os.getpid() != here:  # a child, which must not go on with the tests
            really_exit(code)
        raise SystemExit(code)

    def run(*arguments: object, input: str = "") -> Answer:
        given = io.TextIOWrapper(io.BytesIO(input.encode()), "utf-8")
        out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # a user would see it
            patch.chdir(tmp_path)
            patch.setattr(os, "_exit", leave)
            patch.setattr(sys, "argv", ["nt", *map(str, arguments)])
            for name, stream in (("stdin", given), ("stdout", out), ("stderr", err)):
                patch.setattr(sys, name, stream)
            with pytest.raises(SystemExit) as end:
                cli.main()
        printed = []
        for stream in (out, err):
            stream.flush()
            printed.append(stream.buffer.getvalue().decode())
        return Answer(end.value.code, *printed)

    return run


@pytest.fixture
def process(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the installed `nt` in an empty folder as a process of its own."""

    def run(*arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [NT, *map(str, arguments)], capture_output=True, text=True, cwd=tmp_path, **options
        )

    return run


@pytest.fixture
def refused(nt: Run) -> Callable[..., str]:
    """Run `nt`, insist on exit code 2 and a single line on standard error, and return that line."""

    def run(*arguments: object) -> str:
        answer = nt(*arguments)
        assert answer.returncode == 2, answer
        assert answer.stdout == ""
        assert answer.stderr.startswith("nt: ")
        assert answer.stderr.count("\n") == 1
        return answer.stderr.strip()

    return run


def changed(settings: Any, **changes: Any) -> Any:
    """Settings with some of them changed."""
    if dataclasses.is_dataclass(settings):
        return dataclasses.replace(settings, **changes)
    assert changes.keys() <= settings.keys()
    return settings | changes


@pytest.fixture(scope="session")
def finished_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which `tiny_runs.finished_run` makes its run, once."""
    return tmp_path_factory.mktemp("finished")


@pytest.fixture
def finished(finished_folder: Path, tmp_path: Path) -> Path:
    """A copy of a finished run of ten steps, with checkpoints at steps 5 and 10."""
    from tiny_runs import finished_run

    return shutil.copytree(finished_run(finished_folder), tmp_path / "run")


@pytest.fixture(scope="session")
def two_checkpoints(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """The folder of two checkpoints, and the bits of both."""
    from checkpoint_cases import FIRST, SECOND, Trained

    folder = tmp_path_factory.mktemp("two") / "checkpoints"
    trained = Trained(count=1)
    trained.save(folder, FIRST)
    first = trained.bits()
    trained.train(1)
    trained.save(folder, SECOND)
    return folder, first, trained.bits()


@pytest.fixture
def copied(two_checkpoints: tuple[Path, Any, Any], tmp_path: Path) -> Path:
    """A copy of the folder of two checkpoints."""
    return shutil.copytree(two_checkpoints[0], tmp_path / "checkpoints")
