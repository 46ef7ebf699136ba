"""The main job: studies found, run once, kept, and shown on one page."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from arithmetext import report, studies
from arithmetext.training import config, recipes
from conftest import Run

_FEW = ["training.steps=4", "training.device_batch=2^10", "training.validation=2^10"]
# What takes minutes at laptop scale, made to take seconds.
SMALL: dict[str, dict[str, Any]] = {
    "baselines": {
        "integers": 1 << 16,
        "bounds": [1, 2, 3, 7, 31, 1021],
        "prompts": 4,
        "prompt_tokens": 96,
        "following_tokens": 8,
        "ngram_words": 10**5,
        "trained": {
            "HMM, one token": ["hmm-paper-d64", *_FEW, "training.batch=2^10"],
            "HMM, sequences": ["hmm-laptop", "training.steps=4", "model.states=16"],
            "GPT": ["ntp-laptop", "training.steps=4", "model.layers=1"],
        },
    },
    "locator": {"lengths": [32, 64], "windows": 2},
}


def test_the_page_holds_every_study_and_runs_them_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, changes in SMALL.items():
        study = studies.all_studies()[name]
        small = study.settings("laptop") | changes
        monkeypatch.setattr(study, "settings", lambda scale, small=small: small)
    for study in studies.all_studies().values():
        result, kept = studies.perform(study, "laptop", tmp_path / "data")
        assert not kept
        assert studies.perform(study, "laptop", tmp_path / "data") == (result, True)
    page = report.build(tmp_path).read_text()
    for name, study in studies.all_studies().items():
        assert f'<section id="{name}"' in page
        assert study.TITLE in page
        assert (tmp_path / f"data/{name}.csv").exists()
    # Self-contained: nothing is fetched from anywhere.
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)
    assert report.build(tmp_path).read_text() == page


@pytest.mark.parametrize("scale", studies.SCALES)
def test_settings_of_every_scale_can_be_kept(scale: str) -> None:
    for study in studies.all_studies().values():
        assert json.loads(json.dumps(study.settings(scale))) == study.settings(scale)


@pytest.mark.parametrize("scale", studies.SCALES)
def test_what_is_to_be_trained_exists(scale: str) -> None:
    for base, *changes in studies.all_studies()["baselines"].settings(scale)["trained"].values():
        config.changed(recipes.recipe(base), changes)


def test_reproduce_keeps_what_it_has_done(nt: Run, tmp_path: Path) -> None:
    chosen = ["--only", "dictionary_growth", "--only", "decided_sentences"]
    first = nt("reproduce", *chosen)
    assert first.returncode == 0, first.stderr
    page = (tmp_path / "reports/laptop/index.html").read_text()
    assert page.count("<section") == 2
    assert nt("reproduce", *chosen).stdout.count("kept from before") == 2
    assert (tmp_path / "reports/laptop/index.html").read_text() == page


def test_a_changed_setting_runs_again(tmp_path: Path, monkeypatch) -> None:
    study = studies.all_studies()["dictionary_growth"]
    folder = tmp_path / "data"
    _, kept = studies.perform(study, "laptop", folder)
    assert not kept
    smaller = study.settings("laptop") | {"counts_per_decade": 1}
    monkeypatch.setattr(study, "settings", lambda scale: smaller)
    result, kept = studies.perform(study, "laptop", folder)
    assert not kept
    assert result.settings == smaller
    assert studies.perform(study, "laptop", folder) == (result, True)


def test_a_damaged_result_is_made_again(tmp_path: Path) -> None:
    study = studies.all_studies()["dictionary_growth"]
    (tmp_path / "dictionary_growth.json").write_text('{"study": "dict')
    _, kept = studies.perform(study, "laptop", tmp_path)
    assert not kept


def test_a_result_of_another_version_is_left_out(tmp_path: Path, capsys) -> None:
    study = studies.all_studies()["dictionary_growth"]
    studies.perform(study, "laptop", tmp_path / "data")
    stale = tmp_path / "data/walks.json"
    stale.write_text('{"study": "walks", "key": "", "settings": {}, "seconds": 1, "data": {}}')
    page = report.build(tmp_path).read_text()
    assert "3266 (exact)" in page
    assert 'id="walks"' not in page
    assert "left out" in capsys.readouterr().err


def test_the_page_is_rebuilt_from_the_data_alone(tmp_path: Path) -> None:
    study = studies.all_studies()["dictionary_growth"]
    studies.perform(study, "laptop", tmp_path / "data")
    page = report.build(tmp_path).read_text()
    assert "3266 (exact)" in page
    counts = json.loads((tmp_path / "data/dictionary_growth.json").read_text())["data"]["counts"]
    assert counts[-1] == 7743611
