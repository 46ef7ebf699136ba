"""`nt train` and `nt recipes`: mistakes, the list of recipes, and imports."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from arithmetext.training import loop, search
from conftest import Run
from tiny_runs import command


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "which recipe?"),
        (("ntp-labtop",), "did you mean ntp-laptop?"),
        (("ntp-laptop", "--set", "lr=1"), "did you mean training.lr?"),
        (("ntp-laptop", "--set", "training.lr"), "NAME=VALUE"),
        (("ntp-laptop", "--set", "training.lr=fast"), "training.lr is a number, not 'fast'"),
        (("ntp-laptop", "--set", "training.batch=1000"), "multiple of model.context"),
        (("ntp-laptop", "--set", "n=1e4", "--set", "tokens.size=16"), "raise n or lower model"),
        (("ntp-laptop", "--search-lr", "1e-3,quick"), "--search-lr takes rates"),
        (
            ("--resume", "--out", "run", "--set", "seed=1", "--search-lr", "1e-3"),
            "leave out --set and --search-lr",
        ),
        (("--resume", "--out", "nowhere"), "cannot read nowhere/config.json"),
        (("ntp-laptop", "--out", f"{sys.executable}/run"), "cannot make the folder"),
    ],
)
def test_mistakes_are_named(
    arguments: tuple[str, ...], message: str, refused: Callable[..., str]
) -> None:
    assert message in refused("train", *arguments)


def test_files_that_are_not_of_a_run_are_kept(
    nt: Run, refused: Callable[..., str], tmp_path: Path
) -> None:
    nt("tokenizer", "train", "--size", 32, "--lines", 10, "--out", "mine")
    before = (tmp_path / "mine" / "tokenizer.json").read_bytes()
    assert refused("train", "ntp-laptop", "--out", "mine") == (
        "nt: mine/tokenizer.json is not of a run and would be replaced: choose another --out"
    )
    (tmp_path / "mine" / "checkpoints").mkdir()
    (tmp_path / "mine" / "checkpoints" / "epoch1.pt").touch()
    refused("train", "ntp-laptop", "--out", "mine")
    assert (tmp_path / "mine" / "tokenizer.json").read_bytes() == before


def test_a_run_that_was_killed_while_it_began_can_begin_again(nt: Run, tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert nt(*command("ntp", run)).returncode == 0
    for path in run.iterdir():  # but for the first two files, all is lost
        if path.name not in ("environment.json", "tokenizer.json"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert nt(*command("ntp", run)).returncode == 0


@pytest.mark.parametrize("part", ["search", "training"])
def test_an_interruption_says_how_to_go_on(
    part: str, nt: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    run = tmp_path / "run"
    if part == "search":
        monkeypatch.setattr(search, "train", interrupted)
        answer = nt(*command("ntp", run), "--search-lr", "1e-3,1e-2")
        note = "the search for a learning rate continues with the same command and --resume"
    else:
        monkeypatch.setattr(loop, "_export", interrupted)  # after the last step
        answer = nt(*command("ntp", run))
        note = f"saved at step 35; nt train --resume --out {run} continues"
    assert answer.returncode == 130
    assert answer.stderr == f"nt: {note}\nnt: interrupted\n"


def test_recipes_are_listed(nt: Run) -> None:
    listed = nt("recipes").stdout
    assert "ntp-paper" in listed
    assert "mlm-laptop" in listed
    assert json.loads(nt("recipes", "--json").stdout)["ntp-paper"]["model"]["layers"] == 12


def test_text_and_tokens_are_used_without_torch() -> None:
    modules = (
        "arithmetext.text.sieve, arithmetext.tokens, arithmetext.cli, arithmetext.paper.report"
    )
    script = f"import {modules}, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


def test_models_are_trained_and_measured_without_flint(tmp_path: Path) -> None:
    """Near 10^15, where FLINT makes short windows faster, if it is installed."""
    run = tmp_path / "run"
    evaluate = ["evaluate", str(run), "--at", "1e15", "--prompts", "8", "--json"]
    script = f"""
import sys
for name in "flint", "dask", "distributed", "jinja2", "starlette", "uvicorn":
    sys.modules[name] = None  # importing it fails
from arithmetext.cli import app
app({command("ntp", run)!r}, standalone_mode=False)
app({evaluate!r}, standalone_mode=False)
"""
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert '"at": 1000000000000000' in answer.stdout
