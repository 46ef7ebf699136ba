"""The notebooks of docs/notebooks run, and print what they show.

To store new outputs in them, run this file: python tests/test_notebooks.py
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
LARGEST = 300_000  # bytes


def run(notebook: Any, folder: str) -> Any:
    """A copy of a notebook with all its cells executed in a folder."""
    executed = nbformat.from_dict({**notebook, "cells": [dict(cell) for cell in notebook.cells]})
    client = NotebookClient(
        executed,
        timeout=300,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": folder}},
    )
    # Apart from IPython's settings of the user, which may change what cells print.
    client.execute(env=os.environ | {"IPYTHONDIR": str(Path(folder, "ipython"))})
    executed.metadata = notebook.metadata  # without the version of Python
    return executed


def outputs(cell: Any) -> list[Any]:
    """The outputs of a cell; only their kinds, if they depend on the processor."""
    plain = [dict(output) for output in cell.outputs]
    if "varies" not in cell.metadata.get("tags", []):
        return plain
    return [[output["output_type"], sorted(output.get("data", []))] for output in plain]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_shows(path: Path, tmp_path: Path) -> None:
    stored = nbformat.read(path, as_version=4)
    executed = run(stored, str(tmp_path))
    for before, now in zip(stored.cells, executed.cells, strict=True):
        if before.cell_type == "code":
            message = f"run: python tests/test_notebooks.py\n{before.source}"
            assert outputs(before) == outputs(now), message


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_small_and_complete(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert path.stat().st_size < LARGEST
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))


def test_there_are_notebooks() -> None:
    assert {path.stem for path in NOTEBOOKS} == {"models", "number_theory"}


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for path in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            nbformat.write(run(nbformat.read(path, as_version=4), folder), path)
