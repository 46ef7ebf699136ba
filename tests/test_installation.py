"""The package: sdist and wheel, and the core without extras in an environment of its own."""

import email
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import arithmetext
from arithmetext import extras
from arithmetext.cli import train

ROOT = Path(__file__).parents[1]
# Packages and modules that need more than the core, except for those below.
LARGER = ("models", "training", "evaluation", "paper", "torch", "transformers")
LARGER += ("bench.train", "bench.hmm", "bench.generate")
SMALL = ("evaluation.alignment", "evaluation.estimates", "evaluation.learning", "evaluation.words")

IMPORT_ALL = """
import importlib, json, arithmetext
from pathlib import Path
missing = {}
folder = Path(arithmetext.__file__).parent
for path in sorted(folder.rglob("*.py")):
    name = ".".join(["arithmetext", *path.relative_to(folder).with_suffix("").parts])
    if not name.endswith("__main__"):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            missing[name] = error.name
        else:
            missing[name] = ""
print(json.dumps([arithmetext.__file__, missing]))
"""

SPELL = """
import numpy as np
from arithmetext.text.export import lines
print(lines(np.array([12], np.uint64)).decode(), end="")
"""


# Commands that need an extra, and their message without it.
LACKING = {
    "train ntp-laptop": "PyTorch: pip install 'arithmetext[models]'",
    "evaluate locator": "PyTorch: pip install 'arithmetext[models]'",
    "reproduce": "Matplotlib: pip install 'arithmetext[report]'",
    "report": "Matplotlib: pip install 'arithmetext[report]'",
    "export 2 10 --parquet words": "PyArrow: pip install 'arithmetext[parquet]'",
    "arrays 2 10 --out x.parquet": "PyArrow: pip install 'arithmetext[parquet]'",
    "find 10 --cluster tcp://127.0.0.1:1": "Dask: pip install 'arithmetext[cluster]'",
}


def run(folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    """Run a command outside the repository, so that it finds only installed packages."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, cwd=folder, env=clean
    )


def successful(folder: Path, *command: object) -> None:
    answer = run(folder, *command)
    assert answer.returncode == 0, answer.stderr


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sdist, and the wheel built from it."""
    folder = tmp_path_factory.mktemp("dist")
    successful(ROOT, sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder)
    [sdist] = folder.iterdir()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel"]
    successful(folder, *pip, "--no-deps", "--no-build-isolation", "-w", folder, sdist)
    [wheel] = folder.glob("*.whl")
    return sdist, wheel


def test_what_is_packaged(distributions: tuple[Path, Path]) -> None:
    with tarfile.open(distributions[0]) as archive:
        packed = {Path(name) for name in archive.getnames()}
    assert {path.parts[1] for path in packed} == {
        *("src", "docs", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE"),
        *("pyproject.toml", "PKG-INFO", ".gitignore"),
    }
    source = ROOT / "src" / "arithmetext"
    ours = {
        path.relative_to(source.parent).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {
        "arithmetext/py.typed",
        "arithmetext/paper/report/style.css",
        "arithmetext/models/pretrained/model.safetensors",
        "arithmetext/models/pretrained_longconv/model.safetensors",
        "arithmetext/models/pretrained_record/model.safetensors",
    } <= ours
    assert all(path.stat().st_size < 20 * 10**6 for path in distributions)
    with zipfile.ZipFile(distributions[1]) as archive:
        packages = {name for name in archive.namelist() if ".dist-info/" not in name}
        about = {name.partition(".dist-info/")[2] for name in archive.namelist()}
        [metadata] = [name for name in archive.namelist() if name.endswith("/METADATA")]
        fields = email.message_from_bytes(archive.read(metadata))
    assert packages == ours
    assert {"licenses/LICENSE", "entry_points.txt"} <= about
    assert (fields["Name"], fields["Version"]) == ("arithmetext", arithmetext.__version__)
    assert (fields["License-Expression"], fields["Requires-Python"]) == ("MIT", ">=3.11")


def test_the_core_alone(distributions: tuple[Path, Path], tmp_path: Path) -> None:
    """One test, since installing takes most of its time."""
    venv.create(tmp_path, with_pip=False, symlinks=os.name != "nt")
    programs = tmp_path / ("Scripts" if os.name == "nt" else "bin")
    python, nt = programs / "python", programs / "nt"
    options = ["--quiet", "--no-compile", "--retries", "1", "--disable-pip-version-check"]
    pip = [sys.executable, "-m", "pip", "--python", python, "install", *options]
    answer = run(tmp_path, *pip, distributions[1])
    if answer.returncode and "connection" in answer.stderr.lower():
        pytest.skip("no package index can be reached")
    assert answer.returncode == 0, answer.stderr

    answer = run(tmp_path, python, "-c", IMPORT_ALL)
    assert answer.returncode == 0, answer.stderr
    file, missing = json.loads(answer.stdout)
    assert Path(file).is_relative_to(tmp_path)
    assert len(missing) > 80
    for module, lacking in missing.items():
        name = module.removeprefix("arithmetext.")
        if name.startswith("web."):
            assert lacking in ("", "anyio", "jinja2", "starlette", "torch"), module
        elif name in SMALL or not name.startswith(LARGER):
            assert lacking == "", module
        else:
            assert lacking in ("", "torch", "safetensors", "matplotlib"), module

    for arguments, needed in LACKING.items():
        answer = run(tmp_path, nt, *arguments.split())
        assert (answer.returncode, answer.stdout) == (2, "")
        assert answer.stderr == f"nt: this needs {needed}\n"

    assert run(tmp_path, nt, "word", "360").stdout == "1100110010\n"
    # Kernels compile without scipy, which numba would use if it were installed.
    answer = run(tmp_path, python, "-c", SPELL)
    assert answer.stdout == "1100\n", answer.stderr


def test_extras() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {re.split(r"\W*[<>=]", each)[0] for each in project["dependencies"]} == {
        *("numba", "numpy", "python-flint", "rich", "typer")
    }
    assert {extra for _, extra in extras.EXTRAS.values()} == (
        set(project["optional-dependencies"]) - {"all", "dev"}
    )
    missing = ModuleNotFoundError("No module named 'torch.nn'", name="torch.nn")
    assert (
        extras.what_to_install(missing) == "this needs PyTorch: pip install 'arithmetext[models]'"
    )
    assert extras.what_to_install(ModuleNotFoundError(name="arithmetext.nothing")) is None


def test_without_tensorboard_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard", None)  # Python's way to say: not installed
    with pytest.raises(ModuleNotFoundError) as missing:
        train.train("ntp-laptop", out=tmp_path / "run", tensorboard=True)
    assert "'arithmetext[tensorboard]'" in extras.what_to_install(missing.value)
    assert list(tmp_path.iterdir()) == []
