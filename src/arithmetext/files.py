"""Files that appear whole or not at all, and folders that one process writes to at a time."""

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from .errors import InputError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; what was written there becomes `path` at the end.

    A process that is killed or fails on the way leaves no file under the final name, and an older
    file of that name as it was. The new file is on disk before it gets its name, so a power cut
    leaves the old file or the new one, never half of one. A link is followed; a device or a pipe is
    refused, since it cannot be replaced by a file.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        raise InputError(f"cannot write {path}: it is not a regular file")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    os.close(handle)
    draft = Path(name)
    try:
        yield draft
        # mkstemp makes files that only their owner may read; give back what the umask would have.
        umask = os.umask(0)
        os.umask(umask)
        draft.chmod(0o666 & ~umask)
        sync(draft)
        draft.replace(path)
        sync(path.parent)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


def sync(path: Path) -> None:
    """Wait until a file's content, or the names in a folder, are on disk."""
    if path.is_dir() and os.name == "nt":  # Windows cannot open folders
        return
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cache_folder() -> Path:
    """Where the user keeps what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "arithmetext"


@contextmanager
def sole_writer(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Make a folder and hold its lock: other processes that ask for it are refused, or wait.

    The operating system holds the lock for the process and releases it when the process ends,
    however it ends. So a lock file that a killed process left behind locks nothing.
    """
    make_folder(folder)
    try:
        file = (folder / LOCK).open("a+", encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot write to {folder}: {error.strerror}") from None
    with file:
        if not _take(file, wait=wait):
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise InputError(f"{folder} is in use by {holder}: wait for it, or use another folder")
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


def _take(file: IO[str], *, wait: bool) -> bool:
    """Lock an open file; False if another process has it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, unless it is there."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {path}: {error.strerror}") from None


def write_whole(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8")
