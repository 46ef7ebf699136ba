"""The page that finds sentences."""

import json
import threading
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import arithmetext as nt
from arithmetext.search.sentences import parse_sentence
from arithmetext.web import find

from .conftest import Browser, check_accessibility, check_refused, check_width


def lines(client: TestClient, **parameters: object) -> list[dict[str, Any]]:
    names = {name.rstrip("_"): value for name, value in parameters.items()}
    answer = client.get("/api/find", params=names)
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def places(found: list[dict[str, Any]]) -> list[int]:
    return [int(n) for line in found for n in line.get("places", [])]


@given(st.integers(2, 10**6), st.integers(0, 3000), st.integers(1, 3), st.booleans())
@settings(max_examples=30, deadline=None)
def test_places_are_those_of_the_text(
    client: TestClient, lo: int, length: int, count: int, hole: bool
) -> None:
    text = [nt.unpack(int(word)) for word in nt.words(lo, lo + length + 1)]
    sentence = text[length // 2 :][:count]
    if hole and len(sentence) == 3:
        sentence[1] = "*"
    found = lines(client, sentence=" ".join(sentence), from_=lo, to=lo + length)
    expected = [
        lo + i
        for i in range(len(text) - len(sentence) + 1)
        if all(w in ("*", there) for w, there in zip(sentence, text[i:], strict=False))
    ]
    assert places(found) == expected
    assert found[0]["words"] == sentence
    assert found[-1]["total"] == found[-1]["sent"] == len(expected)


def test_the_law_and_the_progress(client: TestClient) -> None:
    found = lines(client, sentence="10 111000 *", from_=2, to="2e7")
    assert found[0]["law"] is None and found[0]["starts"] is None
    shares = [line["done"] for line in found[1:-1]]
    assert shares == sorted(shares) and shares[-1] == 1
    assert found[-2]["searched"] == str(2 * 10**7 - 2)  # the last start of three words


@pytest.mark.parametrize(
    ("sentence", "starts", "there"),
    [("10 10", ["2"], [2]), ("10 10 10", ["2"], []), ("1010 10 10", [], [])],
)
def test_only_starts_that_arithmetic_allows_are_tested(
    client: TestClient, sentence: str, starts: list[str], there: list[int]
) -> None:
    """A search through 10^11 integers would take minutes."""
    found = lines(client, sentence=sentence, to="1e11")
    assert "the sentence" in found[0]["law"]
    assert found[0]["starts"] == starts
    assert places(found) == there
    assert found[-1]["total"] == found[-1]["sent"] == len(there)
    assert places(lines(client, sentence=sentence, from_=3, to="1e11")) == []


def test_back_returns_to_the_search_before(browser: Browser) -> None:
    page = browser.open("/find", width=360)
    assert page.locator("#results").is_hidden()
    page.fill("[name=sentence]", "10 10 10")
    page.get_by_role("button", name="Find").click()
    page.get_by_text(
        "0 places from 2 to 1,000,000,000; every start that arithmetic allows"
    ).wait_for()
    check_accessibility(page)
    page.fill("[name=sentence]", "111000 10")
    page.fill("[name=to]", "1000")
    page.get_by_role("button", name="Find").click()
    page.get_by_text("2 places from 2 to 1,000;").wait_for()
    page.go_back()
    page.get_by_text("0 places from 2 to 1,000,000,000;").wait_for()
    assert page.input_value("[name=sentence]") == "10 10 10"
    assert page.locator("#sentence svg").count() == 3
    page.go_forward()
    page.get_by_text("2 places from 2 to 1,000;").wait_for()
    assert page.input_value("[name=to]") == "1000"
    page.go_back()
    page.go_back()
    page.locator("#results").wait_for(state="hidden")
    assert page.input_value("[name=to]") == "1e9"


def test_a_search_that_arithmetic_decides_can_be_interrupted(browser: Browser) -> None:
    """Between its places and its end; nothing was searched, so there is nothing to go on from."""
    answer = [
        {"law": "one start", "from": "2", "to": "1000000000", "starts": [["2", "2"]]},
        {"places": ["2"], "total": 1, "done": 1},
        {"error": "The explorer was stopped."},
    ]
    body = "".join(f"{json.dumps(line)}\n" for line in answer)
    page = browser.open("/find")
    page.route("**/api/find?*", lambda route: route.fulfill(body=body))
    page.fill("[name=sentence]", "10 10")
    page.get_by_role("button", name="Find").click()
    page.get_by_text("The explorer was stopped.").wait_for()
    assert page.locator("#places a").first.inner_text() == "2"


def test_places_beyond_the_most_that_are_sent_are_counted(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(find, "MOST_PLACES", 5)
    found = lines(client, sentence="10", to="1e7")
    assert places(found) == [2, 3, 5, 7, 11]
    assert found[-1]["total"] == 664579  # the primes
    assert found[-1]["sent"] == 5


def test_a_sentence_longer_than_the_range_is_nowhere(client: TestClient) -> None:
    found = lines(client, sentence="10 10", from_=2, to=2)
    assert places(found) == [] and found[-1]["total"] == 0


def test_a_closed_search_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing the generator closes the search below it, on one thread and on several."""
    for threads in (1, 2):
        monkeypatch.setattr(find, "THREADS", threads)
        monkeypatch.setattr(find, "LINE_SECONDS", 0.0)
        before = threading.enumerate()
        searching = find.search(parse_sentence("10"), 2, 10**11)
        next(searching)
        assert next(searching)["done"] < 0.01
        searching.close()
        assert set(threading.enumerate()) <= set(before)  # others may have ended


WRONG = [
    ({"sentence": "10 1001"}, "Word 2 of the sentence: not a Dyck word"),
    ({"sentence": "* *"}, "at least one word"),
    ({"sentence": ""}, "at least one word"),
    ({"sentence": "10 " * 65}, "at most 64"),
    ({"sentence": "10" * 3000}, "at most 4096"),
    ({}, "The parameter “sentence” is missing."),
    ({"sentence": "10", "from": "1"}, "“from” must be from 2"),
    ({"sentence": "10", "from": "x"}, "Not a number"),
    ({"sentence": "10", "from": "100", "to": "99"}, "nothing to search"),
    ({"sentence": "10", "to": "1e18"}, "“to” must be from 2 to"),
    ({"sentence": "10", "to": "1e12"}, "at most 1e11 are searched"),
]


@pytest.mark.parametrize(("parameters", "words"), WRONG)
def test_wrong_parameters_get_a_sentence(
    client: TestClient, parameters: dict[str, str], words: str
) -> None:
    check_refused(client, "/api/find", parameters, words)


@given(
    st.text("01* x", max_size=30),
    st.sampled_from(["", "2", "1e3", "-1", "2^63", "1e400", "é"]),
    st.sampled_from(["", "1", "5000", "1e18", "nan"]),
)
@settings(max_examples=30, deadline=None)
def test_no_parameters_make_it_fail(client: TestClient, sentence: str, lo: str, last: str) -> None:
    answer = client.get("/api/find", params={"sentence": sentence, "from": lo, "to": last})
    assert answer.status_code in (200, 400)
    if answer.status_code == 400:
        assert answer.json()["error"].endswith((".", "?", "!"))
    assert client.get("/find", params={"sentence": sentence, "from": lo}).status_code == 200


def test_find_in_a_browser(browser: Browser, theme: str) -> None:
    page = browser.open("/find?sentence=111000+10&to=1e5", theme=theme)
    page.get_by_text("2 places from 2 to 100,000;").wait_for()
    assert page.locator("#places a").first.get_attribute("href") == "/n/16"
    assert page.locator("#places a").nth(3).get_attribute("href") == "/text?from=256"
    check_accessibility(page)


def test_trees_and_text_stay_in_step(browser: Browser) -> None:
    page = browser.open("/find", width=360)
    field = page.locator("[name=sentence]")
    page.fill("[name=sentence]", "10")
    page.locator(".node").nth(1).click()  # a child on the child of the root
    assert field.input_value() == "1100"
    page.locator(".node").first.focus()
    for key in "+", "ArrowUp", "ArrowRight", "+":  # a child of the root, and a child on it
        page.keyboard.press(key)
    assert field.input_value() == "11001100"
    page.keyboard.press("Delete")  # the focus is on the second child of the root
    assert field.input_value() == "1100"
    page.get_by_role("button", name="Append 101010", exact=True).click()
    page.get_by_role("button", name="any word").first.click()
    assert field.input_value() == "1100 101010 *"
    page.get_by_role("button", name="Move word 3 left").click()
    assert field.input_value() == "1100 * 101010"
    page.get_by_role("radio", name="removes it").check()
    page.get_by_role("button", name="Root of word 1").click()
    assert field.input_value() == "* 101010"
    page.get_by_role("button", name="Remove word 1").click()
    for _ in range(3):  # a tree without nodes but its root is any word
        page.get_by_role("button", name="Node 1 of word 1").click()
    assert field.input_value() == "*"
    assert "At least one word must be known" in page.text_content("#problem")
    page.fill("[name=sentence]", "10 100")
    assert "Word 2, 100, is not a Dyck word" in page.text_content("#problem")
    assert field.get_attribute("aria-invalid") == "true"
    page.fill("[name=sentence]", "10 1100")
    assert page.text_content("#problem") == "2 words"
    assert page.locator("#sentence svg").count() == 2
    check_width(page)
    check_accessibility(page)


def test_a_search_can_be_stopped_in_a_browser(browser: Browser) -> None:
    page = browser.open("/find?" + urlencode({"sentence": "111000 10", "to": "9e10"}))
    page.locator("#places li").first.wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_role("link", name="Search on from there").wait_for()
    assert page.get_by_role("button", name="Stop").is_disabled()
    assert page.locator("#error").is_hidden()


def test_wrong_input_in_a_browser(browser: Browser) -> None:
    page = browser.open("/find?sentence=10&from=5&to=4", width=360)
    page.get_by_text("There is nothing to search: “to” (4) is below “from” (5).").wait_for()
    check_accessibility(page)
    check_width(page)


def test_without_javascript(browser: Browser) -> None:
    page = browser.open("/find?sentence=111000+10&to=1000", javascript=False)
    link = page.get_by_role("link", name="the places as lines of JSON").get_attribute("href")
    assert "sentence=111000+10" in link and "to=1000" in link
