"""Write files and folders whole, lock folders, find the cache folder, read input."""

import errno
import os
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path

from .errors import InputError

LOCK = ".lock"
_POLL = 0.1  # seconds between two attempts to take a lock


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path` and rename it to `path` when the block ends.

    If the block fails or the process is killed, nothing appears at `path`, and an older file there
    stays as it was. The new file is synced to disk before it is renamed, so even a power cut leaves
    either the old file or the new one, never half of one. Links are followed. Devices and pipes are
    refused, since a file cannot replace them.
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
        draft.chmod(0o666 & ~_umask())  # mkstemp makes files that only their owner may read
        sync(draft)
        draft.replace(path)
        sync(path.parent)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder beside `path` and rename it to `path` when the block ends.

    As with `whole_file`, nothing appears at `path` before everything is complete and on disk. Older
    folders and files are not replaced: there must be nothing at `path`.
    """
    path = path.resolve()
    check_new(path)
    try:
        name = tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    draft = Path(name)
    try:
        yield draft
        draft.chmod(0o777 & ~_umask())  # mkdtemp makes folders that only their owner may read
        for each in *draft.rglob("*"), draft:
            sync(each)
        draft.rename(path)
        sync(path.parent)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror or error}") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def check_new(path: Path) -> None:
    """Refuse a path at which there is something."""
    if path.exists():
        raise InputError(f"{path} exists already: choose another folder, or remove this one")


def _umask() -> int:
    """The permissions that new files of this process do not get."""
    umask = os.umask(0)
    os.umask(umask)
    return umask


def sync(path: Path) -> None:
    """Wait until a file's content, or the names in a folder, are on disk."""
    if path.is_dir():
        with suppress(OSError):  # Windows and some network file systems cannot sync a folder
            _sync(path, os.O_RDONLY)
    else:
        _sync(path, os.O_RDWR if os.name == "nt" else os.O_RDONLY)


def _sync(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cache_folder() -> Path:
    """The user's cache folder.

    If that is not writable, for example for a user without a home, the result is a temporary folder
    that only this user can write to. The cache holds machine code, so nobody else may write to it.
    """
    try:
        caches = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    except RuntimeError:  # the user has no home
        return _temporary_cache()
    folder = caches / "arithmetext"
    return folder if is_writable(folder) else _temporary_cache()


@cache
def _temporary_cache() -> Path:
    # Windows has no user ids, but a temporary folder for each user.
    user = os.getuid() if hasattr(os, "getuid") else None
    folder = Path(tempfile.gettempdir()) / f"arithmetext-{user}"
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        ours = user is None or (status.st_uid == user and not stat.S_IMODE(status.st_mode) & 0o022)
        if stat.S_ISDIR(status.st_mode) and ours:
            return folder
    return Path(tempfile.mkdtemp(prefix="arithmetext-"))


def is_writable(folder: Path) -> bool:
    """Whether files can be written to a folder; makes the folder if it is missing."""
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return os.access(folder, os.W_OK | os.X_OK)


@contextmanager
def sole_writer(folder: Path, *, wait: bool = False) -> Iterator[None]:
    """Make a folder and hold its lock; other processes are refused, or wait.

    The operating system releases the lock when the process ends, even if it is killed: a lock file
    that is left behind locks nothing. At the end the lock file is removed, and a folder made here
    is removed if it is still empty. On a file system without locks nobody is refused.
    """
    path, new, waiting = folder / LOCK, not folder.exists(), False
    while True:
        make_folder(folder)
        try:
            file = path.open("a+", encoding="utf-8", errors="replace")
        except OSError as error:
            raise InputError(f"cannot write to {folder}: {error.strerror}") from None
        if _take(file.fileno()):
            if _is_named(file.fileno(), path):
                break
            file.close()  # its last owner has just removed this lock file: try again
            time.sleep(_POLL)
            continue
        with file:
            file.seek(0)
            holder = " ".join(file.read(200).split()) or "another process"
        if not wait:
            raise InputError(
                f"{folder} is in use by {holder}: wait for it with --wait, or use another folder"
            )
        if not waiting:
            waiting = True
            print(f"nt: waiting for {holder}, which uses {folder}", file=sys.stderr, flush=True)
        time.sleep(_POLL)
    try:
        with file:
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()}")
            file.flush()
            try:
                yield
            finally:
                with suppress(OSError):  # Windows cannot remove an open file; it may stay
                    path.unlink()
    finally:
        if new:
            with suppress(OSError):  # not empty
                folder.rmdir()


def _is_named(handle: int, path: Path) -> bool:
    """Whether this open file is the one at the path."""
    try:
        return os.path.samestat(os.fstat(handle), path.stat())
    except FileNotFoundError:
        return False


if sys.platform == "win32":
    import msvcrt

    def _take(handle: int) -> bool:
        """Lock an open file; False if another process has it."""
        # Others cannot read a locked byte: lock one far behind the text that names the process.
        os.lseek(handle, 1 << 30, os.SEEK_SET)
        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        except OSError as error:
            return error.errno not in (errno.EACCES, errno.EDEADLK)
        return True

else:
    import fcntl

    def _take(handle: int) -> bool:
        """Lock an open file; False if another process has it."""
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK, errno.ENOSYS):
                raise
        return True


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents, and sync them to disk."""
    try:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {path}: {error.strerror}") from None
    for folder in missing:
        sync(folder.parent)


def read_text(path: Path | None, most: int) -> str:
    """The text of a file, or of standard input; refused if it has more than `most` bytes.

    Never reads more than that, because a file may be endless or larger than the memory.
    """
    name = "standard input" if path is None else str(path)
    if path is None and sys.stdin is None:
        raise InputError("standard input is closed")
    try:
        with nullcontext(sys.stdin.buffer) if path is None else path.open("rb") as file:
            content = file.read(most + 1)
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror}") from None
    if len(content) > most:
        raise InputError(f"{name} is too long: at most {most} bytes are read")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name} is not text") from None


def write_whole(path: Path, text: str) -> None:
    """Write a text file atomically."""
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8")
