"""Shared by all tests: the installed command, run as a user runs it."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# Tests make their own tables for encoders, and leave those of the user alone.
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="arithmetext-tests-")

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

NT = Path(sys.executable).with_name("nt")

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def nt(tmp_path: Path) -> Run:
    """Run `nt` with the given arguments in an empty folder."""

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
