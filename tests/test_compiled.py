"""The cache of machine code: never stale, safe for several processes, optional."""

import ast
import errno
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Event
from types import ModuleType
from typing import Any

import pytest

import arithmetext
from arithmetext import compiled, files

PACKAGE = Path(arithmetext.__file__).parent
KERNELS = PACKAGE / "text" / "kernels.py"


@pytest.fixture
def fresh() -> Iterator[None]:
    """Forget the cache folders before and after the test."""
    remembered = (compiled._folder, compiled._machine, files._temporary_cache)
    for function in remembered:
        function.cache_clear()
    yield
    for function in remembered:
        function.cache_clear()


def declared(folder: Path) -> ModuleType:
    """A module with a small kernel, as another process would import it."""
    path = folder / "small.py"
    path.write_text(
        "from arithmetext.compiled import kernel\n@kernel\ndef twice(x): return x + x\n"
    )
    spec = importlib.util.spec_from_file_location("small", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_constant_of_another_module_is_never_stale(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "arithmetext", ignore=shutil.ignore_patterns("*.pyc"))
    text = tmp_path / "arithmetext" / "text"
    (text / "probe.py").write_text(
        "from ..compiled import kernel\n"
        "from .kernels import SIEVE_FROM\n"
        "@kernel\n"
        "def least(): return SIEVE_FROM\n"
    )

    def least() -> int:
        code = "from arithmetext.text.probe import least; print(least())"
        environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path)}
        answer = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment)
        return int(answer.stdout)

    assert least() == 4096
    source = (text / "kernels.py").read_text()
    (text / "kernels.py").write_text(source.replace("SIEVE_FROM = 4096", "SIEVE_FROM = 8192"))
    assert least() == 8192


@cache
def _imports(path: Path) -> set[Path]:
    """The files that a module imports at its top, found with Python's parser."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.level:
            base = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for target in (base, *(base / name.name for name in node.names)):
                found |= {target.with_suffix(".py"), target / "__init__.py"}
    return {each for each in found if each.is_file()}


def test_imports_are_found_as_by_the_parser() -> None:
    modules = [path for path in PACKAGE.rglob("*.py") if "\n@kernel\n" in path.read_text()]
    assert len(modules) > 10
    for module in modules:
        files = {module}
        while more := {each for path in files for each in _imports(path)} - files:
            files |= more
        assert compiled.imported_sources(module).keys() == files
    beam = {path.name for path in compiled.imported_sources(PACKAGE / "search" / "beam.py")}
    assert {"beam.py", "densities.py", "kernels.py", "trees.py"} <= beam
    assert "census.py" not in beam


def test_other_cpus_use_other_folders(
    fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = []
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for name, features in [("", ""), ("generic", ""), ("x86-64-v3", ""), ("x86-64-v3", "+avx2")]:
        monkeypatch.setenv("NUMBA_CPU_NAME", name)
        monkeypatch.setenv("NUMBA_CPU_FEATURES", features)
        compiled._folder.cache_clear()
        compiled._machine.cache_clear()
        folders.append(compiled._folder(KERNELS))
    assert len(set(folders)) == 4
    assert {folder.parent for folder in folders if folder} == {tmp_path}


def test_processes_that_compile_at_once_do_not_share_files(
    fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for value in (3, 0.5):
        twice = declared(tmp_path).twice._declare()  # in a process of its own …
        twice._cache._cache_file._load_index = dict  # … that finds an index without entries
        assert twice(value) == 2 * value
    assert len(list(tmp_path.rglob("*.nbc"))) == 2


def test_kernels_are_cached_and_reused(
    fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    for found in (0, 1):
        twice = declared(tmp_path).twice
        assert twice(21) == 42
        assert sum(twice.stats.cache_hits.values()) == found


def test_unused_folders_are_removed(
    fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    old, recent, other = (tmp_path / name for name in ("0" * 32, "1" * 32, "others"))
    for folder, days in (old, 40), (recent, 20), (other, 40):
        folder.mkdir()
        (folder / "code").touch()
        os.utime(folder, (time.time() - days * 86400,) * 2)
    used = compiled._folder(KERNELS)
    assert used is not None
    assert sorted(tmp_path.iterdir()) == sorted([recent, other, used])


def test_without_a_home_the_cache_is_temporary_and_private(
    fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path / "file" / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.delenv("NUMBA_CACHE_DIR")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = files.cache_folder()
    assert folder.parent == tmp_path
    assert declared(tmp_path).twice(21) == 42
    assert list(folder.rglob("*.nbc"))
    if os.name == "nt":
        return
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)  # someone else may have put machine code there
    files._temporary_cache.cache_clear()
    assert files.cache_folder() != folder


def test_kernels_work_without_a_writable_folder(
    fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    monkeypatch.setattr(files, "cache_folder", lambda: tmp_path / "file")
    assert declared(tmp_path).twice(21) == 42
    assert not list(tmp_path.rglob("*.nbc"))


def test_kernels_work_on_a_full_disk(
    fresh: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    module = declared(tmp_path)
    assert module.twice.py_func(21) == 42  # it is declared now; a call compiles it

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.twice._cache._cache_file, "save", full)
    assert module.twice(21) == 42


def test_kernels_run_without_being_compiled() -> None:
    script = "import arithmetext as nt; print(nt.words(10**4, 10**4 + 8200).tolist())"
    answer = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert json.loads(answer.stdout) == arithmetext.words(10**4, 10**4 + 8200).tolist()


def test_threads_wait_until_all_kernels_of_a_module_are_declared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Numba refuses a kernel that calls one it does not know, and remembers that it did."""
    names: dict[str, Any] = {"kernel": compiled.kernel}
    exec("@kernel\ndef first(): return second()\n@kernel\ndef second(): return 1", names)
    second_begun, go_on = Event(), Event()

    def declared(function: Callable[[], int], options: Any) -> Callable[[], bool]:
        if function.__name__ == "second":
            second_begun.set()
            assert go_on.wait(60)
        return lambda: isinstance(names["second"], compiled._Kernel)  # numba does not know it

    monkeypatch.setattr(compiled, "_declared", declared)
    first = names["first"]
    with ThreadPoolExecutor(2) as pool:
        one = pool.submit(first)
        assert second_begun.wait(60)
        other = pool.submit(first)
        with pytest.raises(TimeoutError):
            other.result(0.2)
        go_on.set()
        assert (one.result(60), other.result(60)) == (False, False)


def test_an_interruption_while_kernels_are_declared_loses_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names: dict[str, Any] = {"kernel": compiled.kernel}
    exec("@kernel\ndef first(): return second()\n@kernel\ndef second(): return 1", names)
    interrupted = []

    def declared(function: Callable[[], int], options: Any) -> Callable[[], bool]:
        if function.__name__ == "second" and not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        return lambda: isinstance(names["second"], compiled._Kernel)  # numba does not know it

    monkeypatch.setattr(compiled, "_declared", declared)
    first = names["first"]
    with pytest.raises(KeyboardInterrupt):
        first()
    assert first() is False


def test_many_small_windows_load_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.setattr(compiled, "_made_without_kernels", 0)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "flint", None)
        assert not compiled.flint_is_faster(5000)
    assert compiled.flint_is_faster(5000)
    assert not compiled.flint_is_faster(5000)
    assert compiled.flint_is_faster(3192) and not compiled.flint_is_faster(1)
    monkeypatch.setitem(sys.modules, "numba", compiled._numba())
    monkeypatch.setattr(compiled, "_made_without_kernels", 0)
    assert not compiled.flint_is_faster(1)
