"""Files that appear whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import InputError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path`; what was written there becomes `path` at the end.

    A run that is killed or fails on the way leaves no file under the final name, and an older
    file of that name as it was. A link is followed; a device or a pipe is refused, since it cannot
    be replaced by a file.
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
        # mkstemp makes files for the owner's eyes only; give back what the umask would have.
        umask = os.umask(0)
        os.umask(umask)
        draft.chmod(0o666 & ~umask)
        draft.replace(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


def cache_folder() -> Path:
    """Where the user keeps what can be made again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "arithmetext"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep other processes out of this block; they wait. Where locks are unknown, all may enter."""
    make_folder(path.parent)
    if fcntl is None:
        yield
        return
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
