"""What holds for every study."""

import importlib
import pkgutil

import pytest

import studies
from arithmetext import sources
from arithmetext.evaluation.codec import from_json, to_json
from arithmetext.paper.study import Verdict, all_studies

from .cases import committed, draw, outcomes

NAMES = list(all_studies())


@pytest.mark.parametrize("name", NAMES)
def test_a_result_survives_json(name: str) -> None:
    result = committed(name)
    assert from_json(type(result), to_json(result)) == result


def test_the_report_has_one_order() -> None:
    orders = [study.ORDER for study in all_studies().values()]
    assert orders == sorted(set(orders))


@pytest.mark.parametrize("name", NAMES)
def test_everything_is_drawn(name: str) -> None:
    draw(name, committed(name))


@pytest.mark.parametrize("name", NAMES)
def test_some_case_turns_each_verdict(name: str) -> None:
    cases = importlib.import_module(f"studies.test_{name}").CASES
    before = outcomes(all_studies()[name], committed(name))
    turned = {key for _, expected in cases for key in expected if expected[key] != before[key]}
    assert turned == before.keys()


@pytest.mark.parametrize("name", NAMES)
def test_words_and_figures_make_no_result_stale(name: str) -> None:
    files = sources.of_function(f"paper.studies.{name}", "run")
    assert f"paper/studies/{name}.py" in files
    assert not {"paper/figures.py", "paper/wording.py", "paper/study.py"} & files.keys()


def test_a_claim_that_is_not_tested_needs_a_reason() -> None:
    with pytest.raises(ValueError, match="needs a reason"):
        Verdict(key="k", claim="C", paper="", ours="", criterion="", agrees=None)


def test_every_study_has_its_tests() -> None:
    modules = {module.name for module in pkgutil.iter_modules(studies.__path__)}
    assert {f"test_{name}" for name in NAMES} <= modules
