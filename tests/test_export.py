"""The text on standard output and in files."""

import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

import arithmetext as nt_api
from arithmetext.text.export import export, lines
from arithmetext.text.sieve import words
from conftest import NT


def test_lines() -> None:
    spelled = lines(words(2, 3000)).decode().split("\n")
    assert spelled.pop() == ""
    assert spelled == [nt_api.word(n) for n in range(2, 3000)]


def test_words_are_printed_one_a_line(nt) -> None:
    assert nt("words", "2", "4").stdout == "10\n10\n1100\n10\n"
    assert nt("words", "2**63-1", "1").returncode == 2  # no subtraction: said so, not guessed
    assert nt("words", "1e15", "3").stdout.split() == [nt_api.word(10**15 + i) for i in range(3)]


@pytest.mark.parametrize("suffix", [".txt", ".npy", ".npz"])
def test_files(nt, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"text{suffix}"
    assert nt("words", "1e6", "600_000", "--out", path).returncode == 0
    expected = words(10**6, 1_600_000)
    if suffix == ".txt":
        assert path.read_bytes() == lines(expected)
    elif suffix == ".npy":
        assert np.array_equal(np.load(path), expected)
    else:
        assert np.array_equal(np.load(path)["words"], expected)
    assert list(tmp_path.iterdir()) == [path]


def test_an_older_file_survives_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "text.npy"
    path.write_text("older")
    with pytest.raises(nt_api.InputError, match="begins at 2"):
        export(path, 1, 10)
    assert path.read_text() == "older"


def test_a_killed_run_leaves_no_file_of_that_name(tmp_path: Path) -> None:
    process = subprocess.Popen([NT, "words", "2", "1e12", "--out", "big.npy"], cwd=tmp_path)
    for _ in range(600):
        if any(part.stat().st_size for part in tmp_path.glob(".big.npy.*")):
            break
        time.sleep(0.1)
    else:
        pytest.fail("nothing was written in a minute")
    os.kill(process.pid, signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("words 1 10", "begins at 2"),
        ("words 2 0", "empty range"),
        ("words 2**63 1", "beyond 2^63"),
        ("words 2 10 --out x.csv", "should end in .txt, .npy or .npz"),
        ("words 2 10 --out no/such/folder/x.npy", "cannot write"),
        ("words 2", "Missing argument"),
    ],
)
def test_bad_input(refused, arguments: str, complaint: str) -> None:
    assert complaint in refused(*arguments.split())
