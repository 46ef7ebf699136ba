"""The folder of a run: its files, its one writer, a lost model, and files that were changed."""

import io
import json
import math
import shutil
import tempfile
import threading
from contextlib import redirect_stderr
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arithmetext.cli.train import train as train_command
from arithmetext.errors import InputError
from arithmetext.evaluation.subjects import subject
from arithmetext.files import sole_writer
from arithmetext.models.hugging_face import load_pretrained
from arithmetext.training import checkpoints
from arithmetext.training.checkpoints import State
from arithmetext.training.config import Config
from arithmetext.training.config import settings as settings_of
from arithmetext.training.loop import train
from arithmetext.training.search import search_learning_rate
from conftest import Run
from test_files import assert_synced, recorded
from tiny_runs import command, contents, finished_run, tiny, training_rows, weights

# Files


def test_the_folder_of_a_run(tmp_path: Path, process: Run) -> None:
    answer = process(*command("ntp", tmp_path / "run"), "--tensorboard")
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    assert answer.stdout.count("\n") == 1
    out = tmp_path / "run"
    assert Config.load(out / "config.json") == tiny()
    assert {path.name for path in out.iterdir()} == {
        "config.json",
        "environment.json",
        "tokenizer.json",
        "metrics.jsonl",
        "checkpoints",
        "model",
        "tensorboard",
    }
    about = json.loads((out / "environment.json").read_text())
    assert about["torch"] == torch.__version__
    rows = training_rows(out)
    assert [row["step"] for row in rows] == list(range(1, 41))
    assert [row["tokens"] for row in rows] == list(range(256, 41 * 256, 256))
    assert all(math.isfinite(row["loss"]) and row["tokens_per_second"] > 0 for row in rows)
    assert all(row["nats_per_word"] > row["loss"] for row in rows)  # words of several tokens
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(out / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("loss")] == list(range(1, 41))


def test_all_that_a_run_writes_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recorded(monkeypatch) as log:
        train(tiny("ntp", "training.steps=5"), tmp_path / "run")
    assert {"config.json", "tokenizer.json", "00000005", "model.safetensors"} <= {
        *assert_synced(log)
    }


def test_a_run_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    config = tiny("ntp", "n=1e4")
    for begin in (
        partial(train, replace(config, model=replace(config.model, context=256))),
        partial(train, None),
    ):
        with pytest.raises(InputError):
            begin(tmp_path / "run", resume=True)
        assert list(tmp_path.iterdir()) == []


def test_a_folder_that_holds_a_run_is_not_written_over(tmp_path: Path) -> None:
    train(tiny(), tmp_path / "run")
    before = weights(tmp_path / "run")
    with pytest.raises(InputError, match="holds a run already: continue it with --resume"):
        train(tiny(), tmp_path / "run")
    with pytest.raises(InputError, match=r"another setting: seed = 1 and 0 there"):
        train(tiny("ntp", "seed=1"), tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == before


def test_a_second_run_in_the_folder_is_refused_or_waits(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def write() -> None:
        with sole_writer(finished):
            holds.set()
            enough.wait(60)

    holds, enough = threading.Event(), threading.Event()
    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    holds.wait()
    before = contents(finished)
    for begin in (
        partial(train, None, finished, resume=True),
        partial(train_command, None, out=finished, resume=True),
        partial(search_learning_rate, tiny(), finished, [1e-3], resume=True),
    ):
        with pytest.raises(InputError, match="is in use by process"):
            begin()
    assert contents(finished) == before
    threading.Timer(0.3, enough.set).start()
    train_command(None, out=finished, resume=True, wait=True)
    said = capsys.readouterr()
    assert said.err.startswith("nt: waiting for process") and said.err.count("\n") == 1
    assert "10 steps" in said.out
    thread.join()


# A lost model


@pytest.mark.parametrize("lost", ["model", "config.json", "model.safetensors", "tokenizer.json"])
def test_the_model_of_a_finished_run_is_written_again(finished: Path, lost: str) -> None:
    """Without training: the model that was there comes back, and nothing else changes."""
    before = contents(finished)
    path = finished / "model" / lost
    shutil.rmtree(finished / "model") if lost == "model" else path.unlink()
    with pytest.raises(InputError, match=f"nt train --resume --out {finished}"):
        subject(str(finished), 10**13)
    train(None, finished, resume=True)
    assert contents(finished) == before
    if lost == "model.safetensors":
        path.write_bytes(path.read_bytes()[:-4])  # it is there, but not whole
        train(None, finished, resume=True)
        assert contents(finished) == before


def test_the_best_model_of_a_finished_run_is_written_again(tmp_path: Path) -> None:
    """It is not the last one; if its checkpoint is lost, no other is written in its place."""
    out = tmp_path / "run"
    config = tiny("ntp", "training.lr=1e-30", "training.patience=2")
    train(config, out)
    state = json.loads((out / "checkpoints" / "00000015" / "state.json").read_text())["state"]
    assert state["best_step"] == 5
    before = contents(out)
    shutil.rmtree(out / "model")
    train(config, out, resume=True)
    assert contents(out) == before
    shutil.rmtree(out / "model")
    shutil.rmtree(out / "checkpoints" / "00000005")
    with pytest.raises(InputError, match=r"00000005 is damaged .* its weights are lost"):
        train(config, out, resume=True)
    assert not (out / "model").exists()


# Changed files


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "mlm"}, "tokens.weight is .32, 64. in the checkpoint and .33, 64. in"),
        ({"model": {"layers": 2}}, "is missing in the checkpoint"),
        ({"model": {"heads": 2}}, "in the checkpoint and .* in the configured run"),
        ({"model": {"positions": "learned"}}, "positions.weight is missing in the checkpoint"),
        ({"training": {"optimizer": "adamw"}}, "exp_avg is missing in the checkpoint"),
        ({"training": {"steps": 9}}, r"at step 10 does not fit config.json \(training.steps = 9,"),
        (
            {"training": {"steps": 20}},
            r"at step 10 does not fit config.json \(training.steps = 20,",
        ),
        ({"tokens": {"size": 33}}, "tokens.size is 33 .* tokenizer.json has 32 tokens"),
        ({"model": {"layers": 10**12}}, "too little memory: the .* GB of this device"),
        ({"training": {"batch": 2**62}}, r"training.batch must be below 2\^32"),
        ({"model": {"layers": 10**400}}, r"model.layers must be below 2\^63"),
        ({"model": {"heads": 2**60}}, "too little memory: the .* GB of this device"),
        ({"training": {"lr": 10**400}}, "training.lr cannot be 1000.*…$"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_config_that_does_not_fit(finished: Path, change: dict[str, Any], message: str) -> None:
    path = finished / "config.json"
    values = json.loads(path.read_text())
    for name, value in change.items():
        values[name] = values[name] | value if isinstance(value, dict) else value
    path.write_text(json.dumps(values))
    before = contents(finished)
    with pytest.raises(InputError, match=message) as refused:
        train(None, finished, resume=True)
    assert "\n" not in str(refused.value)
    assert contents(finished) == before


def test_a_run_that_ends_before_its_checkpoint(finished: Path) -> None:
    shutil.rmtree(finished / "checkpoints" / "00000010")
    path = finished / "config.json"
    values = json.loads(path.read_text())
    for steps in (4, 5):
        values["training"]["steps"] = steps
        path.write_text(json.dumps(values))
        with pytest.raises(InputError, match="the checkpoint at step 5 does not fit"):
            train(None, finished, resume=True)


def test_checkpoints_without_a_config(finished: Path) -> None:
    (finished / "config.json").unlink()
    with pytest.raises(InputError, match=r"has checkpoints but no config\.json"):
        train(tiny(), finished)
    assert not (finished / "config.json").exists()


numbers = st.sampled_from([-1, 0, 1, 2, 5, 10, 32, 64, 128, 10**400]) | st.floats()

anything = st.recursive(
    st.none() | st.booleans() | st.text(max_size=3) | numbers,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=3,
)

fields = [name for name in settings_of() if name != "n"]


@given(
    st.sampled_from([None] * 8 + ["[", '{"model":']),
    st.dictionaries(st.sampled_from(fields), numbers | anything, max_size=2),
    st.dictionaries(st.sampled_from([*asdict(State())]), anything, max_size=2),
    st.booleans(),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_is_refused_or_goes_on(
    finished_folder: Path,
    deep: str | None,
    config: dict[str, Any],
    state: dict[str, Any],
    last: bool,
) -> None:
    """Whatever config.json and state.json say: it ends in one line, or as a run should."""
    with tempfile.TemporaryDirectory() as parent, redirect_stderr(io.StringIO()):
        folder = shutil.copytree(finished_run(finished_folder), Path(parent) / "run")
        values = json.loads((folder / "config.json").read_text())
        for name, value in config.items():
            *group, field = name.split(".")
            (values[group[0]] if group else values)[field] = value
        text = deep * 100_000 if deep is not None else json.dumps(values)
        (folder / "config.json").write_text(text)
        if not last:
            shutil.rmtree(folder / "checkpoints" / "00000010")
        newest = max((folder / "checkpoints").iterdir())
        about = json.loads((newest / "state.json").read_text())
        about["state"] |= state
        about["digest"] = checkpoints._digest(newest, about["state"])
        (newest / "state.json").write_text(json.dumps(about))
        try:
            outcome = train(None, folder, resume=True)
        except InputError as error:
            assert "\n" not in str(error)
        else:
            assert outcome.steps <= values["training"]["steps"]
            load_pretrained(folder / "model")
