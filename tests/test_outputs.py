"""Outputs of models: computed once, carried to another machine, and used without any model."""

from dataclasses import asdict
from math import inf
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import torch

from arithmetext.evaluation.generation import continue_prompts
from arithmetext.evaluation.subjects import EvaluatedModel
from arithmetext.models.hmm import HMM
from arithmetext.paper import outputs, runs
from arithmetext.paper.outputs import Arrays
from arithmetext.paper.runs import PromptSettings, TrainedModel
from arithmetext.training import run_cache
from tiny_runs import SHORT_RUN, TINY

MODEL = TrainedModel("ntp-laptop", (*TINY, "training.steps=10"))
HOW = PromptSettings(prompts=6, tokens=32, stride=8, seed=1, blocks=3)
AT = 10**13

calls: list[int] = []


def squares(model: EvaluatedModel, settings: int) -> Arrays:
    calls.append(settings)
    return {"squares": np.arange(settings) ** 2, "width": np.array(model.context)}


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, as on another machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    # The digest of a function is read from the package's source.
    monkeypatch.setattr(squares, "__module__", "arithmetext.paper.runs")
    monkeypatch.setattr(squares, "__name__", "generated_tokens")
    runs._load.cache_clear()
    calls.clear()


def test_an_output_is_computed_once() -> None:
    for settings in (4, 4, 5, 4):
        found = MODEL.outputs(squares, settings)
        assert found["squares"].tolist() == [k * k for k in range(settings)]
        assert found["width"] == 32
    assert calls == [4, 5]


def test_an_hmm_generates_as_trained_or_as_a_filter(tmp_path: Path) -> None:
    """Both are kept, each under its own name."""
    small = ("model.states=8", "model.conditioned=token", "training.steps=10")
    trained = TrainedModel("hmm-laptop", (*SHORT_RUN, *small))
    hmm = cast(HMM, trained.load().model)
    for filtered, model in ((False, hmm), (True, hmm.conditioned_on("sequence"))):
        prompts, found = trained.continuations(AT, HOW, beta=1.0, filtered=filtered)
        expected = continue_prompts(model, prompts, HOW.tokens, beta=1.0, seed=HOW.seed)
        assert torch.equal(found.tokens, expected.tokens)
    for name in ("generated_tokens", "filtered_tokens"):
        assert len(list((tmp_path / "cache").rglob(f"*{name}*.npz"))) == 1


def test_a_damaged_output_is_computed_again(tmp_path: Path) -> None:
    MODEL.outputs(squares, 4)
    [path] = (tmp_path / "cache").rglob("*.npz")
    for damage in (b"", path.read_bytes()[:100], b"PK" + bytes(50)):
        path.write_bytes(damage)
        assert len(MODEL.outputs(squares, 4)["squares"]) == 4
    assert calls == [4] * 4


def test_outputs_can_be_carried_and_used_without_a_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "report"
    with outputs.saved_to(report):
        prompts, before = MODEL.continuations(AT, HOW, beta=2.0, tokens=5)
        losses = MODEL.record().training
        MODEL.outputs(squares, 3)
    MODEL.outputs(squares, 2)  # afterwards nothing is copied
    assert len(list((report / "outputs").iterdir())) == 2

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    monkeypatch.setattr(run_cache, "train", None)  # it would have to be called
    runs._load.cache_clear()
    # The code may have changed since then.
    monkeypatch.setattr(outputs.sources, "of_module", lambda module: {"other.py": module})
    with outputs.only_kept(report):
        again, after = MODEL.continuations(AT, HOW, beta=2.0, tokens=5)
        assert again.ids.equal(prompts.ids)
        assert after.tokens.equal(before.tokens)
        assert [row.tolist() for row in after.predicted] == [r.tolist() for r in before.predicted]
        assert [row.tolist() for row in after.true] == [row.tolist() for row in before.true]
        assert MODEL.record().training == losses
        assert MODEL.outputs(squares, 3)["squares"].tolist() == [0, 1, 4]
        for missing in (
            lambda: MODEL.continuations(AT, HOW, beta=inf, tokens=5),
            lambda: MODEL.outputs(squares, 4),
            lambda: MODEL.load(),
            lambda: TrainedModel(MODEL.recipe, (*MODEL.changes, "seed=1")).record(),
        ):
            with pytest.raises(run_cache.NotKept):
                missing()
    assert calls == [3, 2]
    with pytest.raises(TypeError):  # afterwards models are trained again
        MODEL.load()


def test_outputs_of_an_earlier_version_lack_later_settings(tmp_path: Path) -> None:
    report = tmp_path / "report"
    with outputs.saved_to(report):
        MODEL.outputs(squares, 3)
    [path] = (report / "outputs").iterdir()
    about, arrays = outputs._read(path)
    assert about["config"].pop("direction") == asdict(MODEL.config)["direction"]
    np.savez(path, **{outputs._ABOUT: np.array(outputs.json.dumps(about))}, **arrays)
    with outputs.only_kept(report):
        assert len(MODEL.outputs(squares, 3)["squares"]) == 3


def test_an_interruption_loses_nothing_that_was_made(tmp_path: Path) -> None:
    """Records and outputs are copied as soon as there are any, also those of the cache."""
    MODEL.outputs(squares, 2)
    with pytest.raises(KeyboardInterrupt), outputs.saved_to(tmp_path):
        MODEL.outputs(squares, 2)
        assert len(list((tmp_path / "outputs").iterdir())) == 1
        MODEL.outputs(squares, 3)
        MODEL.record()
        raise KeyboardInterrupt
    assert len(list((tmp_path / "outputs").iterdir())) == 2
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_one_damaged_file_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with outputs.saved_to(tmp_path):
        MODEL.outputs(squares, 3)
        MODEL.record()
    [good] = (tmp_path / "outputs").iterdir()
    [record] = (tmp_path / "runs").iterdir()
    (tmp_path / "outputs" / "empty.npz").write_bytes(b"")
    (tmp_path / "runs" / "list.json").write_text("[]")
    about, arrays = outputs._read(good)
    about["config"]["removed_setting"] = 1
    text = np.array(outputs.json.dumps(about))
    np.savez(tmp_path / "outputs" / "removed.npz", **{outputs._ABOUT: text}, **arrays)
    changed = outputs.json.loads(record.read_text())
    changed["config"]["removed_setting"] = 1
    (tmp_path / "runs" / "removed.json").write_text(outputs.json.dumps(changed))
    with outputs.only_kept(tmp_path):
        assert len(MODEL.outputs(squares, 3)["squares"]) == 3
        assert MODEL.record().tokens > 0
    ignored = capsys.readouterr().err
    for name in ("empty.npz", "removed.npz", "list.json", "removed.json"):
        assert f"{name}: damaged, or written by another version" in ignored
    assert ignored.count("ignored") == 4


def test_code_that_changed_since_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with outputs.saved_to(tmp_path):
        MODEL.outputs(squares, 3)
        MODEL.record()
    with outputs.only_kept(tmp_path) as older:
        MODEL.outputs(squares, 3)
        MODEL.record()
        assert older == {}
    now = outputs.sources.of_module("training.loop")
    before = now["models/gpt.py"]
    later = now | {"models/gpt.py": "changed", "new.py": "added"}
    monkeypatch.setattr(outputs.sources, "of_module", lambda module: later)
    function = outputs.sources.of_function("paper.runs", "generated_tokens")
    monkeypatch.setattr(outputs.sources, "of_function", lambda *_: function | later)
    for use in (lambda: MODEL.outputs(squares, 3), MODEL.record):
        with outputs.only_kept(tmp_path) as older:
            use()
            assert older == {"models/gpt.py": before, "new.py": ""}


def test_outputs_that_were_carried_back_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with outputs.saved_to(tmp_path):
        MODEL.outputs(squares, 3)
    (tmp_path / "outputs" / "wrong.npz").write_bytes(b"not an archive")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another machine"))
    monkeypatch.setattr(run_cache, "train", None)
    outputs.load(tmp_path / "outputs")
    assert "wrong.npz: damaged" in capsys.readouterr().err
    assert MODEL.outputs(squares, 3)["squares"].tolist() == [0, 1, 4]
    assert calls == [3]


def test_seeds_and_stand_ins() -> None:
    first, second, third = MODEL.with_seeds(3)
    assert first == MODEL
    assert [model.config.seed for model in (first, second, third)] == [0, 1, 2]
    start = "This model is not the paper's: it has a depth of 1 (paper: 12), a width of 64"
    assert MODEL.stand_in.startswith(start)
    assert MODEL.stand_in.endswith("rotary positions (paper: learned), whole words as tokens.")
    assert TrainedModel("ntp-paper", ("training.steps=7", "seed=3")).stand_in == ""
    assert TrainedModel("ntp-paper-d64").stand_in == ""
    assert "rotary" in TrainedModel("mlm-paper", ("model.positions=rotary",)).stand_in
    assert TrainedModel("hmm-paper").stand_in == ""
    words = TrainedModel("hmm-paper", ("tokens.kind=words",))
    assert words.stand_in == "This HMM is not the paper's: it has whole words as tokens."
    assert (
        TrainedModel("ntp-paper", ("training.steps=7", "training.batch=2^16")).trained_on == 7 << 16
    )
