"""Compile kernels with numba, and cache their machine code.

Numba takes a third of a second to load. So a kernel loads it on its first call, and importing a
module with kernels is fast.

Numba's own cache goes stale: it compiles constants into the machine code, also constants from other
modules, but compiles again only if the kernel's own file changes. This module caches the machine
code of each module in a folder named by a digest of everything that the code depends on: the source
of the module and of the project's modules that it imports, the versions of Python and the
libraries, the CPU, and the settings of numba. So the machine code in such a folder is always up to
date.
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

# FLINT makes this many words in 0.05 s at 1e13 and in 0.16 s close to 2^63. Loading the kernels
# takes about 0.35 s.
FEW_WORDS = 1 << 13
_made_without_kernels = 0  # words that this process has made with FLINT

# This finds the relative imports at the top of a module, and kernels use no others. `sources` finds
# all imports, but it parses every file, which is too slow for the start of a command.
_IMPORT = re.compile(r"^from (\.+)([\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)

_UNUSED = 30 * 86400  # seconds after which an unused folder of machine code is removed

_loading = RLock()


def kernels_loaded() -> bool:
    """Whether numba is loaded."""
    return "numba" in sys.modules


def flint_is_faster(words: int) -> bool:
    """Whether FLINT makes this many words faster than the kernels, which must be loaded first.

    If so, these words are counted: after many small windows, loading the kernels pays.
    """
    global _made_without_kernels
    if kernels_loaded() or _made_without_kernels + words > FEW_WORDS:
        return False
    if not has_flint():
        return False
    _made_without_kernels += words
    return True


def has_flint() -> bool:
    """Whether FLINT is installed; machines that only train and measure models may lack it."""
    try:
        import flint  # noqa: F401
    except ImportError:
        return False
    return True


def kernel(function: _Function) -> _Function:
    """Compile with numba once, cache the code on disk, and release the GIL so that threads run.

    Division by zero is not checked as in Python, because the check prevents vectorised loops.
    """
    return cast(_Function, _Kernel(function, nogil=True, error_model="numpy"))


def inlined(function: _Function) -> _Function:
    """Inline a function into the kernels that call it, which makes constant arguments constants."""
    return cast(_Function, _Kernel(function, inline="always"))


class _Kernel:
    """A function that is given to numba on its first call."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        update_wrapper(self, function)
        self._function, self._options = function, options
        self._declared: Any = None
        self._declaring = False
        self._ready = False  # numba also has all kernels that this one may call

    def __call__(self, *arguments: Any) -> Any:
        return (self._declared if self._ready else self._declare())(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # an attribute of this object, not of the compiled function
            raise AttributeError(name)
        return getattr(self._declare(), name)

    def _declare(self) -> Any:
        """Give numba the function, and all kernels of its module, which it may call.

        Other threads wait until both are done. An interruption in between loses nothing.
        """
        with _loading:
            if self._declared is None:
                self._declared = _declared(self._function, self._options)
            if not (self._ready or self._declaring):  # kernels of a module lead back to each other
                self._declaring = True
                try:
                    names = self._function.__globals__
                    for name, value in list(names.items()):
                        if isinstance(value, _Kernel):
                            names[name] = value._declare()
                    self._ready = True
                finally:
                    self._declaring = False
            return self._declared


def _declared(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    numba = _numba()
    folder = None if "inline" in options else _folder(Path(function.__code__.co_filename))
    if folder is None:
        return numba.njit(**options)(function)
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(folder)  # numba reads it in njit
    try:
        declared = numba.njit(cache=True, **options)(function)
    finally:
        numba.config.CACHE_DIR = before
    if hasattr(declared, "_cache"):  # false if NUMBA_DISABLE_JIT is set
        _make_safe(declared._cache, function.__name__)
    return declared


def _make_safe(cached: Any, name: str) -> None:
    """Let several processes write to a kernel's cache, and ignore a full disk.

    Numba numbers the files of a kernel, one for each combination of argument types. Two processes
    that compile for different types at the same time can take the same number; then one would run
    the machine code of the other. With random file names the worst case is compiling twice.
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

    Numba tries to import both, which takes a third of its loading time. It needs SciPy for
    np.correlate only, which no kernel uses, and PyYAML to read a settings file that few folders
    have. A None in sys.modules makes an import fail; later imports of the two work as usual.
    """
    hidden = {"scipy", "scipy.linalg.cython_blas"}
    if not Path(".numba_config.yaml").exists():
        hidden.add("yaml")
    hidden -= sys.modules.keys()
    sys.modules.update(dict.fromkeys(hidden, cast(ModuleType, None)))
    try:
        import numba
        import numba.np.arraymath  # the module that tries to import SciPy
    finally:
        for name in hidden:
            del sys.modules[name]
    return numba


@cache
def _folder(source: Path) -> Path | None:
    """The folder with the machine code of a module's kernels; None if none can be written."""
    import hashlib

    from .files import cache_folder, is_writable

    try:
        files = sorted(imported_sources(source).items())
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
            with suppress(OSError):  # another process may be removing old folders too
                os.utime(folder)  # mark it as used
                if new:
                    _remove_unused(parent)
            return folder
    return None


def imported_sources(source: Path) -> dict[Path, str]:
    """The source text of a module and of all project modules that it imports, by file."""
    texts: dict[Path, str] = {}
    due = [source]
    while due:
        path = due.pop()
        if path in texts:
            continue
        texts[path] = path.read_text(encoding="utf-8")
        for dots, module, names in _IMPORT.findall(texts[path]):
            base = path.parents[len(dots) - 1].joinpath(*module.split("."))
            inside = [base / name for name in re.findall(r"\w+", re.sub(r" as \w+", "", names))]
            for target in (base, *inside):
                files = (target.with_suffix(".py"), target / "__init__.py")
                due += [file for file in files if file.is_file()]
    return texts


@cache
def _machine() -> str:
    """What the machine code depends on besides sources: versions, CPU, numba's settings."""
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


def _remove_unused(parent: Path) -> None:
    """Remove folders of machine code that have not been used for a month."""
    import shutil
    import time

    for folder in parent.iterdir():
        unused = time.time() - folder.stat().st_mtime
        if re.fullmatch("[0-9a-f]{32}", folder.name) and unused > _UNUSED:
            shutil.rmtree(folder, ignore_errors=True)
