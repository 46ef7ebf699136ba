"""The page that `nt report` writes, in a real browser."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from arithmetext.paper.report import build

from .conftest import check_accessibility

DATA = Path(__file__).parents[2] / "results" / "h200" / "data"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A page of three studies; not all of their claims agree."""
    folder = tmp_path_factory.mktemp("report")
    (folder / "data").mkdir()
    for name in "accuracy_beta", "orientation", "locator":
        shutil.copy(DATA / f"{name}.json", folder / "data")
    return build(folder).as_uri()


def test_page(chromium: Any, theme: str, address: str) -> None:
    with chromium.new_context(color_scheme=theme, viewport={"width": 1280, "height": 800}) as each:
        page = each.new_page()
        requests: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.goto(address)
        assert requests == [address]
        check_accessibility(page)


def test_filter_without_javascript(chromium: Any, address: str) -> None:
    with chromium.new_context(java_script_enabled=False) as each:
        page = each.new_page()
        page.goto(address)
        shown = page.locator(".claim:visible")
        everything, untested = shown.count(), page.locator(".claim.untested").count()
        page.locator("#show-untested").check()
        assert 0 < shown.count() == untested < everything
        page.locator("#show-all").check()
        assert shown.count() == everything


def test_page_on_a_phone(chromium: Any, address: str) -> None:
    with chromium.new_context(viewport={"width": 360, "height": 740}) as each:
        page = each.new_page()
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
        check_accessibility(page)
