"""How every kernel of the project is compiled, and where its machine code is kept.

Numba takes a third of a second to load, so a kernel loads it when it is first called, and importing
a module with kernels costs nothing.

Numba builds the constants that a kernel uses into its machine code, also those that come from other
modules. Left to itself, it keeps the code beside the source and compiles again only if the kernel's
own file changes, so that a constant changed elsewhere has no effect. Here the code of a module's
kernels is kept in a folder named by a digest of all that it depends on: the source of the module
and of the project's modules it imports, the versions of Python and the libraries, the CPU, and
numba's settings. Whatever such a folder holds is up to date.
"""

import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache, update_wrapper
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any, TypeVar, cast

_Function = TypeVar("_Function", bound=Callable[..., Any])

# FLINT makes so many words in 0.05 s at 1e13 and in 0.16 s next to 2^63, where a few of them take a
# millisecond each. Loading the kernels takes about 0.35 s.
FEW = 1 << 13
_made_without_kernels = 0  # words, by this process

# The project's imports are relative, and kernels use only what their module imports at its top.
# `sources` finds imports exactly, but it parses every file: that takes longer than a command may.
_IMPORT = re.compile(r"^from (\.+)([\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)

_UNUSED = 30 * 86400  # seconds after which a folder of machine code that nobody used is removed

_loading = RLock()


def kernels_loaded() -> bool:
    """Whether numba is there already."""
    return "numba" in sys.modules


def few(words: int) -> bool:
    """Whether FLINT makes these words sooner than the kernels, which have to be loaded first.

    Words that were made without kernels before count too, so many small windows load them as well.
    """
    global _made_without_kernels
    if kernels_loaded() or _made_without_kernels + words > FEW:
        return False
    try:
        import flint  # noqa: F401  a machine that only trains models can do without it
    except ImportError:
        return False
    _made_without_kernels += words
    return True


def kernel(function: _Function) -> _Function:
    """Compile with numba: once, kept on disk, free of the GIL so that threads run side by side.

    Division is that of the machine: Python's checks for zero would keep loops from being
    vectorised.
    """
    return cast(_Function, _Kernel(function, nogil=True, error_model="numpy"))


def inlined(function: _Function) -> _Function:
    """Copy a function into the kernels that call it, where constant arguments become constants."""
    return cast(_Function, _Kernel(function, inline="always"))


class _Kernel:
    """A function that is given to numba when it is first called."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        update_wrapper(self, function)
        self._function, self._options = function, options
        self._declared: Any = None

    def __call__(self, *arguments: Any) -> Any:
        return (self._declared or self._declare())(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a question about this object, not about the compiled function
            raise AttributeError(name)
        return getattr(self._declare(), name)

    def _declare(self) -> Any:
        """Give the function to numba, and with it the kernels of its module, which it may call."""
        with _loading:
            if self._declared is None:
                self._declared = _declared(self._function, self._options)
                names = self._function.__globals__
                for name, value in list(names.items()):
                    if isinstance(value, _Kernel):
                        names[name] = value._declare()
            return self._declared


def _declared(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    numba = _numba()
    folder = None if "inline" in options else _folder(Path(function.__code__.co_filename))
    if folder is None:
        return numba.njit(**options)(function)
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)  # read when a function is declared
    try:
        declared = numba.njit(cache=True, **options)(function)
    finally:
        numba.config.CACHE_DIR = before
    if hasattr(declared, "_cache"):  # not so if NUMBA_DISABLE_JIT is set
        _make_safe(declared._cache, function.__name__)
    return declared


def _make_safe(cached: Any, name: str) -> None:
    """Let several processes write to a kernel's cache, and go on where the disk is full.

    Numba numbers the files of a kernel, one for each combination of argument types. Two processes
    that compile different ones at the same time can take the same number, and one would then run
    the machine code of the other. With random names they can at worst compile once more.
    """
    from uuid import uuid4

    save = cached.save_overload

    def save_if_possible(*arguments: Any) -> None:
        with suppress(OSError):
            save(*arguments)

    cached.save_overload = save_if_possible
    cached._cache_file._data_name = lambda number: f"{name}.{uuid4().hex}.nbc"


@cache
def _numba() -> ModuleType:
    """Import numba as if SciPy and PyYAML were not installed.

    Numba looks for both, and importing them takes a third of the whole. SciPy's linear algebra
    serves np.correlate alone, which no kernel uses, and PyYAML reads a file of settings that few
    folders have. A None in sys.modules is Python's way to say that a module cannot be imported;
    other imports of the two find them as ever.
    """
    hidden = {"scipy", "scipy.linalg.cython_blas"}
    if not Path(".numba_config.yaml").exists():
        hidden.add("yaml")
    hidden -= sys.modules.keys()
    sys.modules.update(dict.fromkeys(hidden, cast(ModuleType, None)))
    try:
        import numba
        import numba.np.arraymath  # the module that looks for it
    finally:
        for name in hidden:
            del sys.modules[name]
    return numba


@cache
def _folder(source: Path) -> Path | None:
    """Where the machine code of a module's kernels is kept; None if nothing can be written."""
    import hashlib

    from .files import cache_folder, is_writable

    try:
        files = sorted(imported(source).items())
        parents = [cache_folder() / "kernels"]
    except OSError:
        return None
    if asked := os.environ.get("NUMBA_CACHE_DIR"):
        parents.insert(0, Path(asked))
    depends = repr((_machine(), [(path.name, text) for path, text in files]))
    name = hashlib.sha256(depends.encode()).hexdigest()[:32]
    for parent in parents:
        folder = parent / name
        new = not folder.exists()
        if is_writable(folder):
            with suppress(OSError):  # another process may be tidying up as well
                os.utime(folder)  # it is in use
                if new:
                    _tidy(parent)
            return folder
    return None


def imported(source: Path) -> dict[Path, str]:
    """The source of a module and of all modules of the project that it imports, by file."""
    found: dict[Path, str] = {}
    due = [source]
    while due:
        path = due.pop()
        if path in found:
            continue
        found[path] = path.read_text(encoding="utf-8")
        for dots, module, names in _IMPORT.findall(found[path]):
            base = path.parents[len(dots) - 1].joinpath(*module.split("."))
            inside = [base / name for name in re.findall(r"\w+", re.sub(r" as \w+", "", names))]
            for target in (base, *inside):
                files = (target.with_suffix(".py"), target / "__init__.py")
                due += [file for file in files if file.is_file()]
    return found


@cache
def _machine() -> str:
    """What else decides the machine code: versions, the CPU, and numba's settings."""
    import llvmlite
    import llvmlite.binding as llvm
    import numpy

    settings = sorted(
        (name, value)
        for name, value in os.environ.items()
        if name.startswith("NUMBA_") and name != "NUMBA_CACHE_DIR"
    )
    cpu = llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()
    versions = [library.__version__ for library in (_numba(), llvmlite, numpy)]
    return repr((sys.version, versions, llvm.get_process_triple(), cpu, settings))


def _tidy(parent: Path) -> None:
    """Remove the folders of older versions that nobody has used for a month."""
    import shutil
    import time

    for folder in parent.iterdir():
        unused = time.time() - folder.stat().st_mtime
        if re.fullmatch("[0-9a-f]{32}", folder.name) and unused > _UNUSED:
            shutil.rmtree(folder, ignore_errors=True)
