"""The page that locates words."""

import json
import threading
import time
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import arithmetext as nt
from arithmetext.search.sentences import parse_sentence
from arithmetext.web import locate

from .conftest import Browser, check_accessibility, check_refused, check_width


def text(n: int, length: int) -> list[str]:
    return [nt.unpack(int(word)) for word in nt.words(n, n + length)]


def lines(client: TestClient, words: list[str], below: object = "1e15") -> list[dict[str, Any]]:
    answer = client.get("/api/locate", params={"words": " ".join(words), "below": str(below)})
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


@given(st.integers(2, 10**15 - 1))
@settings(max_examples=5, deadline=None)
def test_words_of_the_text_are_located(client: TestClient, n: int) -> None:
    found = lines(client, text(n, 100))
    assert found[0] == {"words": 100, "below": str(10**15)}
    assert found[-1]["answer"]["places"] == [str(n)]
    assert "1 place found" in found[-1]["answer"]["verdict"]


def test_the_residues_are_those_of_n(client: TestClient) -> None:
    n = 31415926535897
    steps = [line["step"] for line in lines(client, text(n, 128)) if "step" in line]
    steps = [step for step in steps if int(step["from"]) <= n <= int(step["to"])]
    for i, step in enumerate(steps, start=1):
        assert [known["p"] for known in step["known"]] == [2, 3, 5, 7, 11, 13, 17][:i]
        assert step["modulus"] == str(np.prod([known["q"] for known in step["known"]]))
        for known in step["known"]:
            assert len(known["shares"]) == known["p"]
            assert sum(known["shares"]) == pytest.approx(1, abs=0.01)
    for known in steps[-1]["known"][:3]:
        assert known["shares"][n % known["p"]] > 0.99
        assert known["residue"] == n % known["q"]


def test_the_answer_says_which_words_differ(client: TestClient) -> None:
    words = text(10**12, 100)
    there = words[30:32]
    words[30:32] = ["10", "10"]
    answer = lines(client, words)[-1]["answer"]
    assert answer["places"] == [] and answer["complete"]
    assert (answer["law"]["first_word"], answer["law"]["last_word"]) == (31, 32)
    assert answer["near"]["place"] == str(10**12)
    assert answer["near"]["differs"] == [
        {"word": 31, "there": there[0], "here": "10"},
        {"word": 32, "there": there[1], "here": "10"},
    ]


def test_too_few_words(client: TestClient) -> None:
    answer = lines(client, ["10"])[-1]["answer"]
    assert answer["too_short"] and len(answer["places"]) == 20 and answer["found"] > 20
    assert "too few to locate" in answer["verdict"]


def test_a_closed_search_ends_within_a_second() -> None:
    """Thirty words take ten seconds to locate."""
    before = threading.enumerate()
    searching = locate.search(parse_sentence(" ".join(text(10**14, 30))), 10**15)
    for line in searching:
        if line.get("step", {}).get("p") == 7:
            break
    began = time.process_time()
    searching.close()
    assert time.process_time() < began + 1
    assert set(threading.enumerate()) <= set(before)  # others may have ended


def test_examples_are_words_of_the_text(client: TestClient) -> None:
    words = client.get("/api/locate/example").json()["words"]
    assert len(words) == locate.EXAMPLE_WORDS
    n = int(lines(client, words)[-1]["answer"]["places"][0])
    assert words == text(n, len(words))


WRONG = [
    ({}, "The parameter “words” is missing."),
    ({"words": " "}, "There are no words"),
    ({"words": "* *"}, "at least one word"),
    ({"words": "10 1001"}, "Word 2 of the sentence: not a Dyck word"),
    ({"words": "10 " * 257}, "at most 256"),
    ({"words": "10" * 10000}, "at most 16384"),
    ({"words": "10", "below": "2"}, "“below” must be from 3"),
    ({"words": "10", "below": "2^64"}, "“below” must be from 3"),
    ({"words": "10", "below": "x"}, "Not a number"),
]


@pytest.mark.parametrize(("parameters", "words"), WRONG)
def test_wrong_parameters_get_a_sentence(
    client: TestClient, parameters: dict[str, str], words: str
) -> None:
    check_refused(client, "/api/locate", parameters, words)


@given(st.text("01* x", max_size=12), st.sampled_from(["", "3", "100", "1e5", "1e400", "é"]))
@settings(max_examples=40, deadline=None)
def test_no_parameters_make_it_fail(client: TestClient, words: str, below: str) -> None:
    parameters = {"words": words, "below": below}
    answer = client.get("/api/locate", params=parameters)
    assert answer.status_code in (200, 400)
    if answer.status_code == 400:
        assert answer.json()["error"].endswith((".", "?", "!"))
    else:
        assert "answer" in json.loads(answer.text.splitlines()[-1])
    assert client.get("/locate", params=parameters).status_code == 200


def test_locate_in_a_browser(browser: Browser, theme: str) -> None:
    n = 31415926535897
    page = browser.open("/locate?" + urlencode({"words": " ".join(text(n, 64))}), theme=theme)
    page.get_by_role("link", name="31,415,926,535,897").wait_for()
    page.get_by_text("n = 31,415,926,535,897").wait_for()  # the last step of the replay
    assert (
        page.get_by_role("img", name="n modulo 7 is", exact=False).get_attribute("aria-label")
        == f"n modulo 7 is {n % 7}"
    )
    page.get_by_role("slider", name="Step").fill("0")
    assert "After the prime 2" in page.text_content("#left")
    check_accessibility(page)


def test_an_example_and_words_that_differ_on_a_phone(browser: Browser) -> None:
    page = browser.open("/locate", width=360)
    page.get_by_role("button", name="Example").click()
    page.get_by_text("Guess, then press Locate").wait_for()
    assert len(page.input_value("#words").split()) == locate.EXAMPLE_WORDS
    words = text(10**12, 100)
    words[30:32] = ["10", "10"]
    page.fill("#words", " ".join(words))
    page.get_by_role("button", name="Locate").click()
    page.get_by_text("Except for 2 words").wait_for()
    assert page.locator(".differs tbody tr").count() == 2
    assert f"words={words[0]}" in page.url
    check_accessibility(page)
    check_width(page)


def test_too_few_words_leave_too_many_candidates_in_a_browser(browser: Browser) -> None:
    page = browser.open("/locate?" + urlencode({"words": " ".join(text(10**14, 4))}))
    page.get_by_text("too many candidates remain").first.wait_for()
    assert "places found" not in page.text_content("#status")
    page.get_by_text("The ranges begin at 4,194,304: every smaller integer").wait_for()
    page.get_by_role("slider", name="Step").fill("99")
    assert "After the prime" in page.text_content("#left")
    assert "None of these fits" not in page.text_content("#left")


def test_back_returns_to_the_search_before(browser: Browser) -> None:
    page = browser.open("/locate")
    for words, n in ("10 10 1100 10", "2"), ("1100 1100", "8"):
        page.fill("#words", words)
        page.fill("[name=below]", "1e5")
        page.get_by_role("button", name="Locate", exact=True).click()
        page.locator(f"#places .n[href='/n/{n}']").wait_for()
    page.go_back()
    page.locator("#places .n[href='/n/2']").wait_for()
    assert page.input_value("#words") == "10 10 1100 10"
    page.go_back()
    page.get_by_text("Nothing was searched yet.").wait_for()
    assert page.input_value("#words") == ""


def test_an_example_that_comes_too_late_changes_nothing(browser: Browser) -> None:
    page = browser.open("/locate")
    held: list[Any] = []
    page.route("**/api/locate/example", lambda route: held.append(route))
    with page.expect_request("**/api/locate/example"):
        page.get_by_role("button", name="Example").click()
    page.fill("#words", "10 10 1100 10")
    page.get_by_role("button", name="Locate").click()
    page.get_by_text("4 words: 1 place found").wait_for()
    held[0].fulfill(json={"words": ["10"]})
    page.wait_for_timeout(100)
    assert page.input_value("#words") == "10 10 1100 10"
    assert "4 words: 1 place found" in page.text_content("#status")


def test_a_search_can_be_stopped_in_a_browser(browser: Browser) -> None:
    page = browser.open("/locate?" + urlencode({"words": " ".join(text(10**14, 30))}))
    page.locator("#strips li").first.wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped.").wait_for()


def test_wrong_input_in_a_browser(browser: Browser) -> None:
    page = browser.open("/locate?words=10+1001", width=360)
    page.get_by_text("Word 2 of the sentence: not a Dyck word").wait_for()
    check_accessibility(page)
    check_width(page)


def test_without_javascript(browser: Browser) -> None:
    page = browser.open("/locate?words=10+1100&below=100", javascript=False)
    link = page.get_by_role("link", name="the search as lines of JSON").get_attribute("href")
    assert "words=10+1100" in link and "below=100" in link
