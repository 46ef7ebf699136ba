"""Locks on folders; files that are synced to disk before they are renamed."""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from arithmetext import files
from arithmetext.errors import InputError
from arithmetext.files import (
    LOCK,
    make_folder,
    sole_writer,
    whole_file,
    whole_folder,
    write_whole,
)

needs_locks = pytest.mark.skipif(sys.platform == "win32", reason="uses flock and signals")

HOLDER = """
import sys
from pathlib import Path
from arithmetext.files import sole_writer

with sole_writer(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_by_another(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of a folder until it is killed."""
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        try:
            assert holder.stdout is not None and holder.stdout.readline() == "held\n"
            yield holder
        finally:
            holder.kill()


@needs_locks
def test_one_process_writes_at_a_time(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Others are refused or wait. A killed process leaves its lock file, but no lock."""
    folder = tmp_path / "run"
    taken, enough = threading.Event(), threading.Event()

    def waits() -> None:
        with sole_writer(folder, wait=True):
            taken.set()
            enough.wait()

    thread = threading.Thread(target=waits, daemon=True)
    with held_by_another(folder) as holder:
        name = f"process {holder.pid} on "
        for _ in range(2):
            with (
                pytest.raises(InputError, match=f"{folder} is in use by {name}.*--wait"),
                sole_writer(folder),
            ):
                pass
        thread.start()
        said = ""
        while "\n" not in said:
            time.sleep(0.01)
            said += capsys.readouterr().err
        assert said.startswith(f"nt: waiting for {name}")
        assert not taken.is_set()
        holder.send_signal(signal.SIGKILL)
        assert taken.wait(60)
    assert (folder / LOCK).read_text().startswith(f"process {os.getpid()} on ")
    with pytest.raises(InputError, match="is in use"), sole_writer(folder):
        pass
    enough.set()
    thread.join()
    assert capsys.readouterr().err == ""  # it said once that it waits
    with held_by_another(folder):
        pass  # killed
    assert (folder / LOCK).exists()
    with sole_writer(folder):
        pass
    assert list(folder.iterdir()) == []


@needs_locks
def test_a_lock_file_that_is_removed_before_it_is_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock must be on the file that other processes will open."""
    take, calls = files._take, []

    def take_late(handle: int) -> bool:
        calls.append(handle)
        if len(calls) == 1:
            (tmp_path / LOCK).unlink()
        return take(handle)

    monkeypatch.setattr(files, "_take", take_late)
    with sole_writer(tmp_path):
        assert len(calls) == 2
        with pytest.raises(InputError, match="is in use"), sole_writer(tmp_path):
            pass


def test_an_empty_new_folder_is_removed(tmp_path: Path) -> None:
    new, empty, used = (tmp_path / name for name in ("new", "empty", "used"))
    empty.mkdir()
    for folder in (new, empty, used):
        with pytest.raises(KeyError), sole_writer(folder):
            if folder == used:
                (folder / "file").write_text("")
            raise KeyError
    assert not new.exists()
    assert empty.exists()
    if sys.platform != "win32":
        assert [path.name for path in used.iterdir()] == ["file"]


@needs_locks
def test_file_systems_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors = [errno.EIO, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS]

    def flock(handle: Any, operation: int) -> None:
        code = errors.pop()
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", flock)
    while len(errors) > 1:
        with sole_writer(tmp_path):
            pass
    with pytest.raises(OSError, match=os.strerror(errno.EIO)), sole_writer(tmp_path):
        pass


# Files are synced before they are renamed

Event = tuple[str, Any, Any]


@contextmanager
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Event]]:
    """Record every sync and every rename, in order: the inode, and the target of a rename."""
    log: list[Event] = []
    with monkeypatch.context() as patch:
        fsync = os.fsync

        def synced(handle: int) -> None:
            fsync(handle)
            log.append(("sync", os.fstat(handle).st_ino, None))

        patch.setattr(os, "fsync", synced)
        for name, move in (("rename", os.rename), ("replace", os.replace)):

            def renamed(source: Any, target: Any, move: Any = move) -> None:
                inside = Path(source).iterdir() if Path(source).is_dir() else ()
                inodes = {path.stat().st_ino for path in (Path(source), *inside)}
                move(source, target)
                log.append(("rename", inodes, Path(target)))

            patch.setattr(os, name, renamed)
        yield log


def assert_synced(log: list[Event]) -> list[str]:
    """Files must be synced before a rename and their folder after it; return the new names."""
    names = []
    for i, (event, inodes, target) in enumerate(log):
        if event == "rename":
            names.append(target.name)
            assert inodes <= {inode for kind, inode, _ in log[:i] if kind == "sync"}, target
            folder = target.parent.stat().st_ino
            assert ("sync", folder, None) in log[i:], target
    return names


def test_a_file_is_synced_before_it_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recorded(monkeypatch) as log:
        write_whole(tmp_path / "file", "content")
    assert assert_synced(log) == ["file"]


def test_a_folder_is_synced_before_it_is_renamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recorded(monkeypatch) as log, whole_folder(tmp_path / "folder") as draft:
        (draft / "inside").mkdir()
        (draft / "inside" / "file").write_text("content")
        deep = (draft / "inside" / "file").stat().st_ino
    assert assert_synced(log) == ["folder"]
    assert ("sync", deep, None) in log
    (tmp_path / "plain").mkdir()
    assert (tmp_path / "folder").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    for error, seen in ((KeyError(), KeyError), (OSError(errno.ENOSPC, "No space"), InputError)):
        with pytest.raises(seen), whole_folder(path) as draft:
            (draft / "file").write_text("content")
            assert not path.exists()
            raise error
        assert list(tmp_path.iterdir()) == []
    path.write_text("older")
    with pytest.raises(InputError, match="exists already"), whole_folder(path):
        pass
    with pytest.raises(InputError, match="cannot write"), whole_folder(path / "inside"):
        pass
    assert path.read_text() == "older"
    assert list(tmp_path.iterdir()) == [path]


def test_new_folders_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with recorded(monkeypatch) as log:
        make_folder(tmp_path / "a" / "b")
        make_folder(tmp_path / "a" / "b")
    assert sorted(inode for _, inode, _ in log) == sorted(
        folder.stat().st_ino for folder in (tmp_path, tmp_path / "a")
    )


def test_a_disk_that_fails_to_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be synced is an error; a folder is not, as some systems cannot sync it."""
    path, fails_for = tmp_path / "file", "folders"
    write_whole(path, "old")

    def fsync(handle: int) -> None:
        folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        if (fails_for == "folders") == folder:
            raise OSError(errno.EINVAL, "Invalid argument")

    monkeypatch.setattr(os, "fsync", fsync)
    with whole_file(path) as draft:
        draft.write_text("new")
    assert path.read_text() == "new"
    fails_for = "files"
    with pytest.raises(InputError, match=r"cannot write .*: Invalid argument"):
        write_whole(path, "newer")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]
