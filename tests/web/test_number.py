"""Pages of integers."""

import json
from typing import Any

import pytest
from flint import fmpz
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import arithmetext as nt
from arithmetext.web import number

from .conftest import Browser, check_accessibility, check_width


def facts(client: TestClient, n: object) -> Any:
    answer = client.get(f"/api/n/{n}")
    assert answer.status_code == 200, answer.text
    return answer.json()


@given(st.integers(2, 2**63 - 1))
@settings(max_examples=40)
def test_facts_agree_with_flint(n: int) -> None:
    shown = number.about(n)
    factors = [(int(p), int(a)) for p, a in fmpz(n).factor()]
    assert shown["word"] == nt.word(n)
    assert shown["omega"] == len(factors)
    assert shown["big_omega"] == sum(a for _, a in factors)
    assert shown["mobius"] == int(fmpz(n).moebius_mu())
    assert int(shown["divisors"]) == int(fmpz(n).divisor_sigma(0))
    assert int(shown["least"]["n"]) == nt.least(shown["word"])
    assert {m["n"]: m["word"] for m in shown["neighbours"]}[str(n)] == shown["word"]


@given(st.integers(2, 10**5))
@settings(max_examples=40)
def test_nearest_equal_words(n: int) -> None:
    found = number.about(n)["same_word"]
    text = dict(enumerate(nt.words(2, 3 * 10**5).tolist(), start=2))
    for way, between in ("previous", range(n - 1, 1, -1)), ("next", range(n + 1, 3 * 10**5)):
        first = next((str(m) for m in between if text[m] == text[n]), None)
        nearest = found[way]["n"]
        assert nearest == first or (first is None and int(nearest) not in text)


def test_counts_are_those_of_the_paper(client: TestClient) -> None:
    last = {row["x"]: row for row in facts(client, 30)["counts"]}[str(10**11)]
    assert last["count"] == "19522428788"
    assert last["rank"] == 1


def test_any_way_to_write_an_integer(client: TestClient) -> None:
    for written in "1e13", "10^13", "10**13", "10_000_000_000_000":
        answer = client.get("/n", params={"n": written}, follow_redirects=False)
        assert answer.headers["location"] == "/n/10000000000000"
    assert facts(client, "2^64*3")["word"] == "1110100010"
    assert facts(client, 1)["word"] == ""


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("abc", "Not a number"),
        ("0", "0 has no tree"),
        ("-5", "negative"),
        ("1e401", "too long"),
        ("1e9999", "Too large"),
        ("<script>", "Not a number"),
    ],
)
def test_wrong_integers_get_a_sentence(client: TestClient, written: str, words: str) -> None:
    answer = client.get(f"/api/n/{written}")
    assert answer.status_code == 400
    assert words in answer.json()["error"]
    page = client.get(f"/n/{written}")
    assert page.status_code == 400
    assert "<script>" not in page.text


def test_what_cannot_be_factored_is_refused(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(number, "FACTORING_SECONDS", 0.2)
    hard = (10**90 + 289) * (10**88 + 7)
    answer = client.get(f"/api/n/{hard}")
    assert answer.status_code == 400
    assert "not factored" in answer.json()["error"]


def test_headers_keep_other_sites_out(client: TestClient) -> None:
    for path in "/n/360", "/api/n/360", "/static/style.css", "/nothing":
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
    assert client.get("/", headers={"host": "evil.example"}).status_code == 400
    assert client.post("/n/360").status_code == 405


def test_no_file_outside_the_static_folder(client: TestClient) -> None:
    for path in "/static/../app.py", "/static/%2e%2e/app.py", "/static//etc/passwd", "/static/":
        assert client.get(path).status_code == 404


def test_page_in_a_browser(browser: Browser, theme: str) -> None:
    page = browser.open("/n/360", theme=theme)
    assert page.text_content("h1") == "360"
    check_accessibility(page)
    page.keyboard.press("ArrowRight")
    page.wait_for_url("**/n/361")
    page.fill("#go", "2^40")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/n/{2**40}")


def test_page_on_a_phone_and_without_javascript(browser: Browser) -> None:
    for n in 360, 9223372036854775807, 2**64 * 3, 1:
        page = browser.open(f"/n/{n}", width=360, javascript=False)
        check_width_without_javascript(page)
        assert json.loads(page.text_content("h1").replace(",", "")) == n


def check_width_without_javascript(page: Any) -> None:
    box = page.locator("body").bounding_box()
    assert box["width"] <= 360


def test_wrong_input_in_a_browser(browser: Browser) -> None:
    page = browser.open("/n/abc", width=360)
    assert "Not a number" in page.text_content("[role=alert]")
    check_accessibility(page)
    check_width(page)
