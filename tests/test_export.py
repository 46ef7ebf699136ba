"""The text on standard output and in files."""

import os
import shutil
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

needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


def test_lines() -> None:
    spelled = lines(words(2, 3000)).decode().split("\n")
    assert spelled.pop() == ""
    assert spelled == [nt_api.word(n) for n in range(2, 3000)]


def test_words_are_printed_one_a_line(nt) -> None:
    assert nt("words", "2", "4").stdout == "10\n10\n1100\n10\n"
    assert nt("words", "2**63-1", "1").stdout.split() == [nt_api.word(2**63 - 1)]
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


def test_an_older_file_survives_a_failed_export(tmp_path: Path, monkeypatch) -> None:
    def failing(*_: object, **__: object):
        yield 2, words(2, 1000)
        raise RuntimeError("disk error")

    path = tmp_path / "text.npy"
    path.write_text("older")
    monkeypatch.setattr("arithmetext.text.export.segments", failing)
    with pytest.raises(RuntimeError, match="disk error"):
        export(path, 2, 5000)
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]


def start_long_export(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [NT, "words", "2", "1e9", "--out", "big.npz"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(600):
        if any(part.stat().st_size for part in folder.glob(".big.npz.*")):
            return process
        time.sleep(0.1)
    raise TimeoutError("nothing was written in a minute")


def test_a_killed_run_leaves_no_file_of_that_name(tmp_path: Path) -> None:
    process = start_long_export(tmp_path)
    process.kill()
    process.wait(timeout=60)
    assert not (tmp_path / "big.npz").exists()


@pytest.mark.skipif(os.name != "posix", reason="Windows has other interrupts")
def test_an_interrupted_run_leaves_no_file_and_prints_one_line(tmp_path: Path) -> None:
    process = start_long_export(tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 130
    assert process.stderr.read().endswith("nt: interrupted\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
def test_links_are_followed_and_pipes_are_refused(tmp_path: Path, refused, nt) -> None:
    (tmp_path / "target.npy").write_text("older")
    (tmp_path / "link.npy").symlink_to("target.npy")
    assert nt("words", "2", "10", "--out", "link.npy").returncode == 0
    assert (tmp_path / "link.npy").is_symlink()
    assert len(np.load(tmp_path / "target.npy")) == 10
    os.mkfifo(tmp_path / "pipe.npy")
    assert "not a regular file" in refused("words", "2", "10", "--out", "pipe.npy")
    assert (tmp_path / "pipe.npy").is_fifo()


@needs_bash
def test_a_closed_pipe_ends_quietly() -> None:
    command = f"{NT} words 2 1e8 | head -1; exit ${{PIPESTATUS[0]}}"
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (answer.returncode, answer.stdout, answer.stderr) == (141, "10\n", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("arguments", ["words 2 1e6", "word 2", "census 100 --json"])
def test_a_full_disk_gives_a_one_line_error(arguments: str) -> None:
    command = f"{NT} {arguments} > /dev/full"
    answer = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (answer.returncode, answer.stderr) == (2, "nt: No space left on device\n")


@needs_bash
def test_closed_output_gives_a_one_line_error() -> None:
    answer = subprocess.run(["bash", "-c", f"{NT} word 2 >&-"], capture_output=True, text=True)
    assert (answer.returncode, answer.stderr) == (2, "nt: standard output is closed\n")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("words 1 10", "begins at 2"),
        ("words 2 0", "empty range"),
        ("words 2**63 1", "beyond 2^63"),
        ("words 2 10 --out x.npy --surrogate 1", "leave it out, or leave out --out"),
        ("words 2 10 --surrogate -1", "nt: --surrogate must be at least 0, not -1"),
        ("words 2 10 --out x.csv", "should end in .txt, .npy or .npz"),
        ("words 2 10 --out no/such/folder/x.npy", "there is no folder"),
        ("words 2", "Missing argument"),
    ],
)
def test_bad_input(refused, arguments: str, complaint: str) -> None:
    assert complaint in refused(*arguments.split())
