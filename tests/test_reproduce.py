"""The main job: studies found, run once, kept, and shown on one page."""

import json
import os
import re
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache, partial
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

from arithmetext import packed, sources
from arithmetext.cli.reproduce import report as report_command
from arithmetext.cli.reproduce import reproduce
from arithmetext.errors import InputError
from arithmetext.evaluation import without_attention
from arithmetext.evaluation.ablation import HeadSettings
from arithmetext.evaluation.beliefs import BeliefSettings
from arithmetext.evaluation.codec import to_json
from arithmetext.evaluation.filters import WindowSettings
from arithmetext.evaluation.interventions import InterventionSettings
from arithmetext.evaluation.phases import PhaseSettings
from arithmetext.evaluation.probes import ProbeSettings
from arithmetext.evaluation.surrogate import TextSettings
from arithmetext.files import sole_writer
from arithmetext.paper import outputs, report, runs
from arithmetext.paper import study as studies
from arithmetext.paper.runs import PromptSettings, TrainedModel, trained_models
from arithmetext.paper.studies.impossible_words import Places
from arithmetext.paper.studies.square_free_runs import PromptsOfRuns
from arithmetext.paper.studies.surrogate_text import Pair
from arithmetext.paper.studies.tokenization import AttentionSettings
from arithmetext.paper.studies.unigram_likelihood import (
    READERS,
    ReversalSettings,
    SequenceSettings,
)
from arithmetext.paper.sweeps import Sweep, SweepPoint
from arithmetext.tokens import BPE
from arithmetext.training import run_cache
from conftest import Run, changed

_FEW = ("steps=4", "batch=2^10", "device_batch=2^10", "validation=2^10", "interval=2")
_TINY = (*(f"training.{change}" for change in _FEW), "model.context=64")
_TINY_GPT = ("tokens.kind=bpe", "model.layers=1", *_TINY)
_NTP = TrainedModel("ntp-laptop", _TINY_GPT)
_WORDS = TrainedModel("ntp-laptop", ("model.layers=1", *_TINY))
_PHASES = TrainedModel(
    "record", ("tokens.size=256", "model.layers=1", "model.width=16", "model.bound=16", *_TINY)
)
_LONGCONV = TrainedModel(
    "longconv-laptop", ("tokens.size=256", "model.layers=1", "model.width=16", *_TINY)
)
_HMM = TrainedModel("hmm-paper-d64", _TINY)
_READER = ("tokens.size=64", "model.layers=1", *_TINY)
_GENERATION = PromptSettings(prompts=4, tokens=64, stride=16, seed=0, blocks=2)


def _with_vocabulary(task: str, size: int) -> TrainedModel:
    return TrainedModel(f"{task}-laptop", (f"tokens.size={size}", *_TINY_GPT))


def _tiny_sweep() -> Sweep:
    """Two points of two seeds each, on every axis."""
    one, other = (
        SweepPoint(model.with_seeds(2), rho)
        for rho, model in {"1": _NTP, "1/2": _with_vocabulary("ntp", 64)}.items()
    )
    axes = {axis: {"1/2": other, "1": one} for axis in "LnDρ"}
    return Sweep(axes, dict.fromkeys("LnDρ", "1"), {"1/2": (_NTP,), "1": (_NTP,)})


# What takes minutes at laptop scale, made to take seconds.
SMALL: dict[str, dict[str, Any]] = {
    "decided_sentences": {"searched_to": 10**6},
    "js_divergence": {"n": 10**7, "chunks": 20, "shown": 10},
    "orientation": {"counts": [10**4, 10**5, 10**6]},
    "rank_frequency": {"powers": (5, 6, 7, 8)},
    "walks": {"count": 10**6, "below": 10**7, "lags": [10**3, 10**4]},
    "baselines": {
        "integers": 1 << 16,
        "bounds": [1, 2, 31],
        "prompts": PromptSettings(prompts=4, tokens=96, stride=16, seed=0, blocks=2),
        "following_tokens": 8,
        "ngram_words": 10**5,
        "trained": {
            "HMM, one token": _HMM.with_seeds(2),
            "HMM, sequences": (TrainedModel("hmm-laptop", ("model.states=16", *_TINY)),),
            "GPT-2": (_NTP,),
        },
    },
    "locator": {"lengths": [32, 64], "windows": 2},
    "tokenization": {
        "models": _NTP.with_seeds(2),
        "by_distance": _NTP.with_seeds(2),
        "attention": AttentionSettings((5, 14), 10**13, windows=4, farthest=24, seed=0),
        "sizes": (64, 256),
        "counted": (10**10, 10**10 + 10**4),
    },
    "ntp_losses": {
        "models": {20: {size: (_with_vocabulary("ntp", size),) for size in (64, 256, 1024)}}
    },
    "mlm_losses": {"rotary": {size: (_with_vocabulary("mlm", size),) for size in (64, 256)}},
    "mlm_accuracy": {"model": _with_vocabulary("mlm", 64), "windows": 4},
    "accuracy_length": {
        "models": _NTP.with_seeds(2),
        "generation": _GENERATION,
        "bounds": [1, 2, 7, 61],
        "integers": 1 << 16,
    },
    "horizon": {
        "models": (_NTP,),
        "generation": _GENERATION,
        "scored": PromptSettings(prompts=4, tokens=56, stride=16, seed=0, blocks=2),
        "scored_tokens": 8,
        "bounds": (1, 2, 3, 5, 7),
        "integers": 1 << 16,
    },
    "scaling": {
        "sweep": _tiny_sweep(),
        "prompts": 4,
        "blocks": 2,
        "bounds": (1, 2, 3),
        "integers": 1 << 16,
    },
    "accuracy_beta": {
        "models": {"GPT-2": (_NTP,), "HMM": (_HMM,)},
        "betas": (0.1, 1.0, 3.3, inf),
        "generation": _GENERATION,
    },
    "unigram_likelihood": {
        "models": (_NTP,),
        "sequences": SequenceSettings(98 * 10**9, (2, 8, 64), sequences=8, blocks=2, seed=0),
        "reversal": ReversalSettings(10**5, 64, sequences=8, seed=0),
        "readers": {
            direction: TrainedModel("ntp-laptop", ("n=1e5", f"direction={direction}", *_READER))
            for direction in READERS
        },
    },
    "square_free_runs": {
        "models": {"GPT-2": (_NTP,), "HMM": (_HMM,)},
        "prompts": PromptsOfRuns(10**13, (16, 64), sequences=8, blocks=2, seed=0),
    },
    "impossible_words": {
        "models": {"GPT-2": (_NTP,), "HMM": (_HMM,)},
        "places": Places(10**13, 64, number=8, blocks=2, seed=0),
    },
    "surrogate_text": {
        "models": (_WORDS,),
        "texts": TextSettings((98 * 10**9, 10**13), (1, 2), windows=4, blocks=2),
        "counted": 1 << 14,
        "pairs": (
            Pair((_WORDS, replace(_WORDS, changes=(*_WORDS.changes, "surrogate=1"))), (1, 2)),
        ),
        "pairs_tested": TextSettings((98 * 10**9,), (), windows=4, blocks=2),
    },
    "residue_probes": {
        "models": {"words": (_WORDS,)},
        "probes": ProbeSettings(
            (2, 3, 5), (98 * 10**9, 10**13), windows=4, token_windows=4, tested=4, blocks=2, seeds=2
        ),
    },
    "residue_interventions": {
        "interventions": InterventionSettings(
            primes=(2, 3),
            at=98 * 10**9,
            layers=(3,),
            detailed=3,
            windows=4,
            tested=4,
            blocks=2,
            positions=4,
            seeds=2,
        ),
    },
    "residue_heads": {
        "models": (_WORDS,),
        "chosen": HeadSettings(98 * 10**9, windows=2, blocks=2, seed=1),
        "shown": HeadSettings(98 * 10**9, windows=2, blocks=2, seed=0),
    },
    "belief_states": {
        "beliefs": BeliefSettings(
            places=(98 * 10**9,), training_windows=16, seeds=2, blocks=2, windows=8
        ),
    },
    "phases": {
        "model": _PHASES,
        "other": _LONGCONV,
        "phases": PhaseSettings(
            fitted=WindowSettings(98 * 10**9, windows=2, blocks=2, seed=1),
            tested=WindowSettings(10**13, windows=2, blocks=2, seed=0),
        ),
        "scored": WindowSettings(10**13, windows=2, blocks=2, seed=0),
    },
    "filters": {
        "model": _LONGCONV,
        "gpt": _WORDS,
        "places": (98 * 10**9, 10**13),
        "prompts": 2,
        "blocks": 2,
        "scored": WindowSettings(10**13, windows=2, blocks=2, seed=0),
        "ablated": WindowSettings(98 * 10**9, windows=2, blocks=2, seed=0),
    },
    **{
        name: {"models": {"GPT-2": (_NTP,), "HMM": (_HMM,)}, "generation": _GENERATION}
        for name in ("precision_recall", "prime_positions", "confusion_matrix")
    },
}


def test_the_page_holds_every_study_and_runs_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(without_attention, "MIN_TOKENS", 2**12)
    monkeypatch.setattr(without_attention, "TOKENS_PER_PAIR", 1)
    monkeypatch.setattr(BPE, "train", cache(partial(BPE.train, lines=1024)))
    for name, changes in SMALL.items():
        study = studies.all_studies()[name]
        small = changed(study.settings("laptop"), **changes)
        monkeypatch.setattr(study, "settings", lambda scale, small=small: small)
    for study in studies.all_studies().values():
        assert studies.cached_result(study, "laptop", tmp_path / "data") is None
        result = studies.perform(study, "laptop", tmp_path / "data")
        again = studies.cached_result(study, "laptop", tmp_path / "data")
        assert again is not None
        assert to_json(again) == to_json(result)
    page = report.build(tmp_path).read_text()
    for name, study in studies.all_studies().items():
        assert f'<section id="{name}"' in page
        assert study.TITLE in page
        assert (tmp_path / f"data/{name}.csv").exists()
    # Self-contained: nothing is fetched from anywhere.
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)


@pytest.mark.parametrize("scale", studies.SCALES)
def test_settings_of_every_scale_can_be_kept(scale: str) -> None:
    for study in studies.all_studies().values():
        settings = to_json(study.settings(scale))
        assert json.loads(json.dumps(settings)) == settings


@pytest.mark.parametrize("scale", studies.SCALES)
def test_what_is_to_be_trained_exists(scale: str) -> None:
    found = [
        model
        for study in studies.all_studies().values()
        for model in trained_models(study.settings(scale))
    ]
    assert len(found) > 10
    for model in found:
        assert model.config


def test_on_a_laptop_studies_measure_the_model_in_the_package() -> None:
    """Except for those of loss curves, masked models, several sizes and phases."""
    others = {"ntp_losses", "mlm_losses", "mlm_accuracy", "scaling", "phases"}
    for name, study in studies.all_studies().items():
        found = trained_models(study.settings("laptop"))
        assert (runs.TrainedModel("pretrained") in found) == bool(found and name not in others)


def test_at_the_papers_size_the_models_are_the_papers() -> None:
    d, tokens, positions = 768, 256, 1024
    block = (3 * d * d + 3 * d) + (d * d + d) + (4 * d * d + 4 * d) + (4 * d * d + d) + 4 * d
    for scale in ("gpu", "paper"):
        counted = runs.ntp(scale).parameters()
        assert counted == (tokens + positions) * d + 12 * block + 2 * d
    config = runs.ntp("paper").config
    assert (config.model.context, config.tokens.kind, config.tokens.size) == (1024, "bpe", 256)


def test_reproduce_keeps_what_it_has_done(nt: Run, tmp_path: Path, monkeypatch) -> None:
    decided = studies.all_studies()["decided_sentences"]
    small = changed(decided.settings("laptop"), **SMALL["decided_sentences"])
    monkeypatch.setattr(decided, "settings", lambda scale: small)
    chosen = ["--only", "dictionary_growth", "--only", "decided_sentences"]
    first = nt("reproduce", *chosen)
    assert first.returncode == 0, first.stderr
    page = (tmp_path / "reports/laptop/index.html").read_text()
    assert page.count("<section") == 2
    assert nt("reproduce", *chosen).stdout.count("kept from before") == 2
    assert (tmp_path / "reports/laptop/index.html").read_text() == page


def test_outputs_kept_from_before_keep_their_time(tmp_path: Path, monkeypatch, capsys) -> None:
    """Another folder of reports has none of the results, but the cache has the outputs."""
    study = studies.all_studies()["dataset_splits"]
    data = study.run(study.settings("laptop"))

    def make() -> outputs.Arrays:
        time.sleep(0.5)
        return {"made": np.arange(3)}

    def run(settings: Any) -> Any:
        for _ in range(2):  # it is counted once
            outputs.keep(_NTP.config, runs.generated_tokens, 3, make)
        return data

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(study, "run", run)

    def seconds(folder: str) -> float:
        reproduce("laptop", ["dataset_splits"], tmp_path / folder)
        result = tmp_path / folder / "laptop/data/dataset_splits.json"
        return float(json.loads(result.read_text())["seconds"])

    made_in = seconds("first")
    assert made_in >= 0.5
    assert "outputs kept" not in capsys.readouterr().out
    # For this process the first study has counted them.
    assert seconds("same process") < 0.5
    outputs._used.clear()
    assert 0.5 <= seconds("another process") < made_in + 0.5
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(" s  ")[2] for line in said if "[1/1]" in line] == [
        "",
        "outputs kept from before",
    ]


def test_a_changed_setting_runs_again(tmp_path: Path, monkeypatch) -> None:
    study = studies.all_studies()["dictionary_growth"]
    studies.perform(study, "laptop", tmp_path)
    assert studies.cached_result(study, "laptop", tmp_path) is not None
    smaller = changed(study.settings("laptop"), counts_per_decade=1)
    monkeypatch.setattr(study, "settings", lambda scale: smaller)
    assert studies.cached_result(study, "laptop", tmp_path) is None
    result = studies.perform(study, "laptop", tmp_path)
    assert result.settings == to_json(smaller)
    assert studies.cached_result(study, "laptop", tmp_path) == result


def test_a_result_of_an_earlier_version_is_made_again(tmp_path: Path, capsys) -> None:
    old = {"study": "dataset_splits", "key": "a1b2c3d4e5f60718", "seconds": 1.0}
    settings = studies.all_studies()["dataset_splits"].settings("laptop")
    data = studies.perform(studies.all_studies()["dataset_splits"], "laptop", tmp_path).data
    path = tmp_path / "laptop/data/dataset_splits.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(to_json(old | {"settings": settings, "data": data})))
    assert "10 chunks" in report.build(tmp_path / "laptop").read_text()  # it can still be shown
    reproduce("laptop", ["dataset_splits"], tmp_path)
    assert "recomputed: made by an earlier version\n" in capsys.readouterr().out
    reproduce("laptop", ["dataset_splits"], tmp_path)
    assert "kept from before\n" in capsys.readouterr().out


def test_it_is_said_why_a_result_is_made_again(tmp_path: Path, capsys) -> None:
    reproduce("laptop", ["dataset_splits"], tmp_path)
    assert "recomputed" not in capsys.readouterr().out
    path = tmp_path / "laptop/data/dataset_splits.json"
    result = json.loads(path.read_text())
    assert "text/splits.py" in result["sources"]
    path.write_text(json.dumps(result | {"sources": result["sources"] | {"text/splits.py": ""}}))
    reproduce("laptop", ["dataset_splits"], tmp_path)
    said = capsys.readouterr().out
    assert re.search(r"dataset_splits .* s  recomputed: text/splits.py changed$", said, re.M)


def test_one_process_at_a_time_writes_a_report(tmp_path: Path, capsys) -> None:
    pytest.importorskip("fcntl")
    folder = tmp_path / "laptop"
    studies.perform(studies.all_studies()["dataset_splits"], "laptop", folder / "data")
    with sole_writer(folder):
        with pytest.raises(InputError, match="laptop is in use by process"):
            reproduce("laptop", ["dataset_splits"], tmp_path)
        with pytest.raises(InputError, match="laptop is in use by process"):
            report_command(folder)
        report_command(folder, markdown=True)  # it writes nothing
    assert capsys.readouterr().out.startswith("5 claims: ")
    assert {path.name for path in folder.iterdir()} == {"data"}
    report_command(folder)
    assert (folder / "index.html").exists()


def test_a_second_process_may_wait(tmp_path: Path, capsys) -> None:
    pytest.importorskip("fcntl")
    began = threading.Event()

    def hold() -> None:
        with sole_writer(tmp_path / "laptop"):
            began.set()
            time.sleep(0.2)
            print("first", flush=True)

    with ThreadPoolExecutor(1) as others:
        holding = others.submit(hold)
        began.wait()
        reproduce("laptop", ["dataset_splits"], tmp_path, wait=True)
        holding.result()
    assert capsys.readouterr().out.splitlines()[0] == "first"


def test_a_report_of_nothing_makes_no_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere/data: nt reproduce makes them"):
        report_command(tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_result_is_made_again(tmp_path: Path) -> None:
    study = studies.all_studies()["dictionary_growth"]
    (tmp_path / "dictionary_growth.json").write_text('{"study": "dict')
    assert studies.cached_result(study, "laptop", tmp_path) is None


def test_one_that_fails_does_not_stop_the_others(tmp_path, monkeypatch, capsys) -> None:
    def run(settings: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError("no such luck")

    monkeypatch.setattr(studies.all_studies()["dictionary_growth"], "run", run)
    with pytest.raises(typer.Exit) as exit:
        reproduce("laptop", ["dictionary_growth", "dataset_splits"], tmp_path)
    assert exit.value.exit_code == 1
    said = capsys.readouterr()
    assert "no such luck" in said.err
    assert said.err.splitlines()[-1].startswith("failed: dictionary_growth; ")
    assert re.search(r"\[2/2\] dataset_splits +0\.0 s", said.out)
    assert (tmp_path / "laptop/index.html").exists()
    with pytest.raises(typer.Exit) as exit:
        reproduce("laptop", ["dictionary_growth"], tmp_path / "nothing")
    assert exit.value.exit_code == 1
    assert "The report" not in capsys.readouterr().out


def test_results_are_computed_again_from_outputs(tmp_path, monkeypatch, capsys) -> None:
    """One study that fails does not stop the others; older code is not forgotten.

    Studies that use no model are not run.
    """
    chosen = {
        name: studies.all_studies()[name]
        for name in ("orientation", "precision_recall", "square_free_runs", "accuracy_length")
    }
    for name in chosen:
        small = changed(chosen[name].settings("laptop"), **SMALL[name])
        monkeypatch.setattr(chosen[name], "settings", lambda scale, small=small: small)
    length = chosen["accuracy_length"]
    assert studies.reproduce({"accuracy_length": length}, "laptop", tmp_path) == []
    before = studies.load(length, tmp_path / "data").data
    for name in ("orientation", "square_free_runs"):
        monkeypatch.setattr(chosen[name], "run", lambda settings: 1 / 0)
    monkeypatch.setattr(run_cache, "train", None)
    assert studies.rescore(chosen, "laptop", tmp_path) == ["square_free_runs"]
    assert studies.load(length, tmp_path / "data").data == before
    assert studies.cached_result(length, "laptop", tmp_path / "data") is not None
    said = capsys.readouterr()
    assert "precision_recall: left as it is, since no output" in said.out
    assert "orientation: left as it is, since it uses no model" in said.out
    assert "ZeroDivisionError" in said.err
    later = {"models/gpt.py": "new"}
    for function in ("of_module", "of_function"):
        digests = getattr(sources, function)
        monkeypatch.setattr(sources, function, lambda *a, digests=digests: digests(*a) | later)
    assert studies.rescore({"accuracy_length": length}, "laptop", tmp_path) == []
    assert studies.why_recomputed(length, "laptop", tmp_path / "data") == "models/gpt.py changed"


def test_bad_input_of_a_study_is_one_line(tmp_path, monkeypatch, capsys) -> None:
    def run(settings: dict[str, Any]) -> dict[str, Any]:
        raise InputError("the disk is full")

    monkeypatch.setattr(studies.all_studies()["dictionary_growth"], "run", run)
    with pytest.raises(typer.Exit):
        reproduce("laptop", ["dictionary_growth"], tmp_path)
    assert capsys.readouterr().err.splitlines()[0] == "dictionary_growth: the disk is full"


def test_the_time_left_goes_by_the_pace_of_what_is_done(monkeypatch) -> None:
    now = [0.0]
    monkeypatch.setattr(studies.time, "perf_counter", lambda: now[0])
    short, long = (studies.all_studies()[name] for name in ("dictionary_growth", "accuracy_length"))
    monkeypatch.setattr(short, "COST", {"laptop": 600})
    monkeypatch.setattr(long, "COST", {"laptop": 1200})
    clock = studies.Clock("laptop", [short, long])
    assert clock.left() == "about 30 min left"
    now[0] = 1200.0  # twice as long as it should have taken
    clock.tick(short)
    assert clock.left() == "about 39 min left"
    clock.tick(long)
    assert clock.left() == ""
    assert studies.Clock("paper", [short]).left() == ""


def test_a_record_outlives_the_weights(tmp_path, monkeypatch, capsys) -> None:
    model = TrainedModel("ntp-laptop", (*_TINY_GPT, "seed=17"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "one"))
    with run_cache.saved_to(tmp_path / "carried"):
        known = model.record()
    assert [row["step"] for row in known.validation] == [2, 4]
    assert known.tokens == 4 << 10
    assert known.config["seed"] == 17
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "another"))
    monkeypatch.setattr(run_cache, "train", None)  # it would have to be called
    with pytest.raises(TypeError):
        model.record()
    (tmp_path / "carried/damaged.json").write_bytes(b"\xff{")
    run_cache.load_records(tmp_path / "carried")
    assert "damaged.json: damaged, or written by an earlier version" in capsys.readouterr().err
    assert model.record() == known


def test_a_record_is_that_of_the_weights(tmp_path, monkeypatch) -> None:
    model = TrainedModel("ntp-laptop", (*_TINY_GPT, "seed=18"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = run_cache.trained_run(model.config)
    known = json.loads((folder / "record.json").read_text())
    # One from elsewhere, and weights that are made here.
    shutil.rmtree(folder)
    folder.mkdir()
    (folder / "record.json").write_text(json.dumps(known | {"seconds": -1.0}))
    assert model.record().seconds == -1
    run_cache.trained_run(model.config)
    assert model.record().seconds > 0
    monkeypatch.setattr(run_cache, "train", None)  # they are there now
    assert run_cache.trained_run(model.config) == folder
    (folder / "record.json").write_text("{")
    assert model.record().validation == known["validation"]


def test_changed_code_trains_again(tmp_path, monkeypatch) -> None:
    model = TrainedModel("ntp-laptop", (*_TINY_GPT, "seed=19"))
    config = model.config
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    known, folders = sources.of_module("training.loop"), []
    for digest in ("first", "second"):
        changed = known | {"models/gpt.py": digest}
        monkeypatch.setattr(sources, "of_module", lambda module, changed=changed: changed)
        with run_cache.saved_to(tmp_path / "carried"):
            folders.append(run_cache.trained_run(config))
        [record] = (tmp_path / "carried").iterdir()  # of this configuration and by this code
        assert record.stem == folders[-1].name
        if digest == "first":
            assert run_cache.why_trained_again() == []
            oldest = folders[0].with_name(folders[0].name.partition("-")[0] + "-0")
            (oldest / "model").mkdir(parents=True)
            os.utime(oldest, (0, 0))
    assert run_cache.why_trained_again() == ["trained again: models/gpt.py changed"]
    assert run_cache.trained_run(config) == folders[-1]
    assert run_cache.why_trained_again() == []
    # Two are kept, since another checkout may use the older one.
    assert set((tmp_path / "arithmetext/runs").iterdir()) == set(folders)
    assert "sources" not in run_cache.record(config)


def test_a_run_that_is_being_trained_is_not_removed(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with sole_writer(tmp_path / "run"):
        run_cache._remove(tmp_path / "run")
        assert (tmp_path / "run").exists()
    run_cache._remove(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_prompts_are_taken_where_they_are_asked_for(tmp_path, monkeypatch) -> None:
    for at in (runs.TEST_NEAR, *runs.TESTS_FAR):
        prompts, made = _NTP.continuations(at, _GENERATION)
        blocks = at + np.arange(4) % 2 * (at // 500)  # two blocks, in turn
        assert ((prompts.integers >= blocks) & (prompts.integers <= blocks + 10**6)).all()
        place, word = int(prompts.integers[0]), int(made.true[0][0])
        assert packed(place) == word


def test_a_result_of_another_version_is_left_out(tmp_path: Path, capsys) -> None:
    study = studies.all_studies()["dictionary_growth"]
    studies.perform(study, "laptop", tmp_path / "data")
    stale = tmp_path / "data/walks.json"
    stale.write_text('{"study": "walks", "key": "", "settings": {}, "seconds": 1, "data": {}}')
    page = report.build(tmp_path).read_text()
    assert "3266 words (exact)" in page
    assert 'id="walks"' not in page
    assert "left out" in capsys.readouterr().err


def test_the_page_is_rebuilt_from_the_data_alone(tmp_path: Path) -> None:
    study = studies.all_studies()["dictionary_growth"]
    studies.perform(study, "laptop", tmp_path / "data")
    page = report.build(tmp_path).read_text()
    assert "3266 words (exact)" in page
    counts = json.loads((tmp_path / "data/dictionary_growth.json").read_text())["data"]["counts"]
    assert counts[-1] == 7743611
