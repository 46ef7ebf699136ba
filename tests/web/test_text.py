"""The page on which the text is scrolled through."""

from itertools import pairwise
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from flint import fmpz
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

import arithmetext as nt
from arithmetext.trees import pack
from arithmetext.web import text

from .conftest import Browser, check_accessibility, check_width

END = 2**63


def stretch(client: TestClient, **parameters: str | int) -> Any:
    answer = client.get("/api/text", params={k.rstrip("_"): v for k, v in parameters.items()})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("first", [2, 4000, 10**13, 10**18, END - 512])
def test_words_are_those_of_the_library(client: TestClient, first: int) -> None:
    answer = stretch(client, from_=first, count=512)
    assert answer["from"] == str(first)
    step = 1 if first < 10**15 else 37  # one by one, without a sieve
    for k in range(0, 512, step):
        assert answer["words"][k] == nt.word(first + k)
    if first < 10**15:
        assert [pack(w) for w in answer["words"]] == nt.words(first, first + 512).tolist()


def test_the_text_ends(client: TestClient) -> None:
    assert len(stretch(client, from_=END - 3, count=512)["words"]) == 3
    assert stretch(client, from_="9_223_372_036_854_775_807", count=1)["from"] == str(END - 1)


@pytest.mark.parametrize("name", ["bpe-1024", "words-256"])
@pytest.mark.parametrize("first", [2, 20, 10**13, END - 200])
def test_borders_are_those_of_a_longer_text(client: TestClient, name: str, first: int) -> None:
    answer = stretch(client, from_=first, count=150, tokens=name)
    begin, end = max(2, first - 500), min(END, first + 650)
    longer = [nt.word(n) for n in range(begin, end)]
    tokens = text.tokenizer(name)
    ids = tokens.encode(np.array([pack(word) for word in longer], np.uint64))
    # Write a bar before each token, then take the words apart.
    barred = "".join("|" + tokens.vocabulary[number] for number in ids.tolist())
    assert barred.replace("|", "") == "".join(f"{word} " for word in longer)
    shown = "".join(
        "".join("|" * (place in cuts) + letter for place, letter in enumerate(f"{word} "))
        for word, cuts in zip(answer["words"], answer["borders"], strict=True)
    )
    at = len("".join(f"{word} " for word in longer[: first - begin]))
    places = [k for k, letter in enumerate(barred) if letter != "|"] + [len(barred)]
    start = places[at - 1] + 1 if at else 0
    assert barred[start:].startswith(shown)


def test_neighbouring_answers_agree(client: TestClient) -> None:
    whole = stretch(client, from_=10**12, count=300, tokens="bpe-1024")
    parts = [
        stretch(client, from_=10**12 + 100 * k, count=100, tokens="bpe-1024") for k in range(3)
    ]
    for kind in "words", "borders":
        assert whole[kind] == [value for part in parts for value in part[kind]]


values = st.one_of(
    st.integers(-(10**25), 10**25).map(str),
    st.text(max_size=12),
    st.sampled_from(["2^63", "1e400", "inf", "None", "0x10", "1.5", "", "9" * 300]),
)


@given(st.dictionaries(st.sampled_from(["from", "count", "tokens", "other"]), values))
@settings(max_examples=150)
def test_any_parameters_get_words_or_a_sentence(
    client: TestClient, parameters: dict[str, str]
) -> None:
    answer = client.get("/api/text", params=parameters)
    assert answer.status_code in (200, 400)
    if answer.status_code == 400:
        assert answer.json()["error"].endswith((".", "?", "!"))
    else:
        assert 1 <= len(answer.json()["words"]) <= text.MOST_WORDS


@given(st.dictionaries(st.sampled_from(["from", "view", "mark", "word", "r", "m"]), values))
@settings(max_examples=60)
def test_any_address_is_a_page_or_a_sentence(
    client: TestClient, parameters: dict[str, str]
) -> None:
    answer = client.get("/text", params=parameters)
    assert answer.status_code in (200, 400)
    assert ('role="alert">' in answer.text) == (answer.status_code == 400)


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("/api/text?from=1", "“from” must be from 2"),
        ("/api/text?from=2^63", "“from” must be from 2"),
        ("/api/text?count=513", "“count” must be from 1 to 512"),
        ("/api/text?tokens=gpt2", "“tokens” must be one of"),
        ("/text?from=abc", "Not a number"),
        ("/text?view=stones", "“view” must be one of"),
        ("/text?mark=twins", "mark must be one of"),
        ("/text?word=1001", "not a Dyck word".capitalize()),
        ("/text?r=4&m=4", "“r” must be from 0 to 3"),
        ("/text?r=1", "“m” is missing"),
        ("/text?m=4", "“r” is missing"),
        ("/text?r=1&m=1000001", "“m” must be from 1 to 1e6"),
    ],
)
def test_wrong_parameters_get_a_sentence(client: TestClient, address: str, words: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 400
    message = answer.json()["error"] if address.startswith("/api") else answer.text
    assert words.lower() in message.lower()


CELLS = """async () => {
  const region = document.querySelector("#text");
  const waits = () => [...region.querySelectorAll("ul")].some((list) => !list.children.length);
  while (waits()) await new Promise(requestAnimationFrame);
  const box = region.getBoundingClientRect();
  return [...region.querySelectorAll("li")].map((cell) => [
    cell.querySelector("a").getAttribute("href").slice(3),
    Math.round(cell.getBoundingClientRect().top - box.top),
    cell.className.trim(),
  ]);
}"""


def cells(page: Any) -> dict[int, tuple[int, str]]:
    """The integers in the page, each with its height in the region and its marks."""
    return {int(n): (top, marks) for n, top, marks in page.evaluate(CELLS)}


def scroll(page: Any, by: float) -> None:
    """Scroll, and wait until the page has answered to it."""
    page.evaluate(
        """async (by) => {
          document.querySelector("#text").scrollBy(0, by);
          for (let i = 0; i < 3; i++) await new Promise(requestAnimationFrame);
        }""",
        by,
    )


def test_page_in_a_browser(browser: Browser, theme: str) -> None:
    address = "/text?from=1e13&mark=primes&mark=square-free&word=101010&r=1&m=4"
    page = browser.open(address, theme=theme, width=400)
    shown = cells(page)
    assert min(shown) < 10**13 < max(shown)
    check_accessibility(page)
    for n, (_, marks) in shown.items():
        factors = fmpz(n).factor()
        square_free = all(a == 1 for _, a in factors)
        assert ("primes" in marks) == fmpz(n).is_prime()
        assert ("square-free" in marks) == square_free
        assert ("chosen" in marks) == (square_free and len(factors) == 3)
        assert ("residue" in marks) == (n % 4 == 1)
    link = page.locator(f"a[href='/n/{10**13 + 37}']")
    assert link.get_attribute("aria-label") == ("10000000000037, 10, prime, square-free, ≡ 1 mod 4")
    page.check("[value=words]")
    page.select_option("[name=tokens]", "bpe-1024")
    page.wait_for_selector(".token.begins")
    check_accessibility(page)


@pytest.mark.parametrize("way", [-1, 1])
def test_nothing_jumps(browser: Browser, way: int) -> None:
    page = browser.open("/text?from=1e13&view=words")
    seen = before = cells(page)
    for _ in range(25):
        scroll(page, way * 450)
        after = cells(page)
        common = before.keys() & after.keys()
        assert len(common) >= 50
        assert {before[n][0] - after[n][0] for n in common} == {way * 450}
        assert len(after) <= 2000  # far-away integers are dropped
        before, seen = after, seen | after
    assert sorted(seen) == list(range(min(seen), max(seen) + 1))
    assert len(seen) > 1500


def test_the_region_moves_along(browser: Browser) -> None:
    """Its height is limited, and the text is longer."""
    page = browser.open("/text?from=1e13")
    cells(page)
    for _ in range(3):
        scroll(page, -page.evaluate("document.querySelector('#text').scrollTop") + 700)
        assert page.evaluate("document.querySelector('#text').scrollTop") > 10**6
        before = cells(page)
        scroll(page, -200)
        after = cells(page)
        common = before.keys() & after.keys()
        assert {after[n][0] - before[n][0] for n in common} == {200}
    assert max(after) < 10**13 - 10**6


def test_both_ends(browser: Browser) -> None:
    page = browser.open("/text?from=1000")
    cells(page)
    page.focus("#text")
    page.keyboard.press("Home")
    page.wait_for_selector("a[href='/n/2']")
    assert min(cells(page)) == 2
    assert page.evaluate("document.querySelector('#text').scrollTop") == 0
    page.keyboard.press("End")
    page.wait_for_selector(f"a[href='/n/{END - 1}']")
    shown = cells(page)
    assert max(shown) == END - 1
    assert all(b - a == 1 for a, b in pairwise(sorted(shown)))
    assert page.locator(f"a[href='/n/{END - 1}']").is_visible()
    page.wait_for_url(f"**/text?from={END - 1}")


def test_the_address_follows_the_reader(browser: Browser) -> None:
    page = browser.open("/text?from=1e13")
    cells(page)
    page.fill("[name=from]", "2^40")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/text?from={2**40}")
    page.keyboard.press("PageDown")
    page.wait_for_url(lambda url: f"from={2**40}" not in url)
    page.check("[value=square-free]")
    page.fill("[name=r]", "2")
    page.fill("[name=m]", "6")
    page.locator(f"a[href='/n/{2**40 + 99}'] + button").click()
    page.wait_for_url("**word=*")
    state = parse_qs(urlsplit(page.url).query)
    assert state["mark"] == ["square-free"]
    assert (state["r"], state["m"]) == (["2"], ["6"])
    assert state["word"] == [nt.word(2**40 + 99)]
    again = browser.open(urlsplit(page.url).path + "?" + urlsplit(page.url).query)
    cells(again)
    top = int(state["from"][0])
    assert cells(again)[top][0] == min(y for y, _ in cells(again).values() if y > 0)
    counts = again.locator("[data-count]").all_text_contents()
    assert counts[0] == ""
    assert all(" of " in count for count in counts[1:])


def test_back_returns_to_the_place_before(browser: Browser) -> None:
    page = browser.open("/text?from=1e13&mark=primes")
    cells(page)
    scroll(page, 3000)
    page.get_by_role("button", name="On by 1,000").click()
    page.get_by_role("button", name="To ten times n").click()
    page.fill("[name=from]", "360")
    page.keyboard.press("Enter")
    page.wait_for_url("**/text?from=360&mark=primes")
    page.check("[value=words]")
    page.wait_for_url("**/text?from=360&view=words*")
    for _ in range(3):
        page.go_back()
    n = int(page.input_value("[name=from]"))
    assert 10**13 < n < 10**13 + 10**4
    shown = cells(page)
    assert shown[n][0] == min(y for y, _ in shown.values() if y > 0)
    assert page.locator("[value=trees]").is_checked()
    page.go_forward()
    page.wait_for_url(f"**/text?from={n + 1000}&*")
    page.go_forward()
    page.go_forward()
    page.wait_for_url("**/text?from=360&view=words*")
    assert page.locator("[value=words]").is_checked()
    assert 360 in cells(page)


def test_highlights_are_folded_on_a_phone(browser: Browser) -> None:
    page = browser.open("/text", width=360)
    assert page.locator(".marks").is_hidden() and page.locator("[name=tokens]").is_hidden()
    page.get_by_text("Highlights and tokens").click()
    assert page.locator(".marks").is_visible() and page.locator("[name=tokens]").is_visible()
    check_accessibility(page)
    assert browser.open("/text?mark=primes", width=360).locator(".marks").is_visible()
    wide = browser.open("/text")
    assert wide.locator(".marks").is_visible() and wide.locator("summary").is_hidden()


def test_wrong_input_in_a_browser(browser: Browser) -> None:
    page = browser.open("/text", width=360)
    cells(page)
    page.get_by_text("Highlights and tokens").click()
    for field, value, words in (
        ("from", "abc", "Not a number"),
        ("from", "1", "“from” must be from 2"),
        ("word", "1001", "1001 is not a Dyck word"),
    ):
        page.fill(f"[name={field}]", value)
        page.keyboard.press("Enter")
        page.get_by_text(words).wait_for()
    page.fill("[name=word]", "")
    page.fill("[name=r]", "7")
    page.fill("[name=m]", "7")
    page.keyboard.press("Tab")
    page.get_by_text("r from 0 to m − 1").wait_for()
    page.fill("[name=m]", "")
    page.get_by_text("r from 0 to m − 1").wait_for(state="hidden")
    page.keyboard.press("Tab")  # r alone is not ignored
    page.get_by_text("r from 0 to m − 1").wait_for()
    page.wait_for_timeout(400)
    assert "r=" not in page.url
    check_accessibility(page)


@pytest.mark.parametrize("view", ["trees", "words"])
def test_page_on_a_phone(browser: Browser, view: str) -> None:
    for first in "2", "1e13", END - 1:
        page = browser.open(f"/text?from={first}&view={view}", width=360)
        cells(page)
        check_width(page)


def test_without_javascript(browser: Browser) -> None:
    page = browser.open("/text?from=1e13", javascript=False)
    assert "needs JavaScript" in page.text_content("noscript")
    assert "/api/text?from=10000000000000" in page.inner_html("noscript")
