"""Every verdict must be able to come out each way, by the numbers that its claim is about.

A case starts from the committed result in results/h200, replaces some numbers, and names the
verdicts whose outcome this changes; all other verdicts must stay as they were.

    CASES = [
        ({"rows.2.text": 20.0}, {"oriented": None}),
    ]

The path of a number is fields, keys and positions joined by dots, where negative positions count
from the end. A new result in results/h200 may turn verdicts, and then some
cases must be adapted. Until a study has a result there, its tests make one up (`made_up`).
"""

from dataclasses import is_dataclass, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from arithmetext.paper.study import Study, all_studies, load

RESULTS = Path(__file__).parents[2] / "results" / "h200" / "data"

Case = tuple[dict[str, Any], dict[str, bool | None]]


@cache
def committed(name: str) -> Any:
    """The result of a study in results/h200; if it has none yet, the one that its tests make up."""
    if not (RESULTS / f"{name}.json").exists():
        return import_module(f"studies.test_{name}").made_up()
    return load(all_studies()[name], RESULTS).data


def edited(result: Any, edits: dict[str, Any]) -> Any:
    """A result with the values at some paths replaced; it shares the others."""
    for path, value in edits.items():
        result = _replaced(result, path.split("."), value)
    return result


def _replaced(place: Any, path: list[str], value: Any) -> Any:
    if not path:
        return value
    first, *rest = path
    if is_dataclass(place):
        return replace(place, **{first: _replaced(getattr(place, first), rest, value)})
    if hasattr(place, "_replace"):
        return place._replace(**{first: _replaced(getattr(place, first), rest, value)})
    if isinstance(place, dict):
        [key] = [key for key in place if str(key) == first]
        return place | {key: _replaced(place[key], rest, value)}
    items = list(place)
    items[int(first)] = _replaced(items[int(first)], rest, value)
    return items


def outcomes(study: Study, result: Any) -> dict[str, bool | None]:
    found = study.verdicts(result)
    assert all(verdict.key and verdict.criterion for verdict in found)
    assert len({verdict.key for verdict in found}) == len(found)
    return {verdict.key: verdict.agrees for verdict in found}


def check(name: str, case: Case, first: dict[str, Any] | None = None) -> None:
    """A case turns the verdicts that it names, and no others; `first` are edits before it."""
    edits, expected = case
    study, base = all_studies()[name], edited(committed(name), first or {})
    before = outcomes(study, base)
    assert expected.keys() <= before.keys()
    assert outcomes(study, edited(base, edits)) == before | expected


def draw(name: str, result: Any) -> None:
    """Make everything that a reader sees; every row has as many cells as the header."""
    study = all_studies()[name]
    study.plot(result).draw_without_rendering()
    for text in (study.in_short(result), study.caption(result)):
        assert text.endswith(".")
    header, rows = study.table(result)
    assert rows and {len(row) for row in rows} == {len(header)}
