"""The main job: studies found, run once, kept, and shown on one page."""

import json
import re
from pathlib import Path

from arithmetext import report, studies


def test_the_page_holds_every_study_and_runs_them_once(nt, tmp_path: Path) -> None:
    first = nt("reproduce")
    assert first.returncode == 0, first.stderr
    page = (tmp_path / "reports/laptop/index.html").read_text()
    for name, study in studies.all_studies().items():
        assert f'<section id="{name}"' in page
        assert study.TITLE in page
        assert (tmp_path / f"reports/laptop/data/{name}.csv").exists()
    # Self-contained: nothing is fetched from anywhere.
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page)
    again = nt("reproduce")
    assert again.stdout.count("kept from before") == len(studies.all_studies())
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
