"""The page of a model: its continuation, the oracle beside it, and attention."""

import http.client
import json
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient
from torch import Tensor

import arithmetext
from arithmetext.evaluation.prompts import TextPrompts, before
from arithmetext.evaluation.subjects import EvaluatedModel, subject
from arithmetext.models.files import save
from arithmetext.models.gpt import GPT, GPTConfig
from arithmetext.text.sieve import words
from arithmetext.tokens import BPE
from arithmetext.trees import unpack
from arithmetext.web import continuation, streams
from arithmetext.web.app import make_app
from tiny_runs import tiny

from .conftest import Browser, check_accessibility, check_width

RUN = "runs/run"
SMALL = 500_000  # n where factoring is fast


@pytest.fixture(scope="module", autouse=True)
def run(shown_folder: Path) -> Iterator[Path]:
    """The folder of a run with byte-pair encoding, which the explorer shows; it is not trained."""
    folder = shown_folder / RUN
    torch.manual_seed(0)
    config = tiny("ntp", "model.layers=2", "model.heads=2", "tokens.size=64")
    assert isinstance(config.model, GPTConfig)
    model = GPT(config.model, vocabulary=64, causal=True)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 4  # so that predictions differ
    save(model, BPE.train(64, lines=256), folder / "model")
    config.save(folder / "config.json")
    yield folder
    shutil.rmtree(folder)


def lines(client: TestClient, **parameters: Any) -> list[Any]:
    answer = client.get("/api/model", params={"model": RUN, **parameters})
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def words_of(answer: list[Any]) -> list[Any]:
    return [line for line in answer if "truth" in line]


def prompt_of_whole_words(model: EvaluatedModel) -> tuple[int, TextPrompts]:
    """An n whose prompt ends with the word before n; other prompts end inside a word."""
    for n in range(SMALL, SMALL + 100):
        prompt = before(model.tokenizer, n, length=model.context)
        if prompt.integers[0] == n and prompt.begun() == [""]:
            return n, prompt
    raise AssertionError


@pytest.mark.parametrize(("at", "beta", "seed"), [("1e13", "inf", 0), ("1000003", "0.7", 5)])
def test_continuations_are_those_of_the_command(
    client: TestClient, run: Path, nt: Any, at: str, beta: str, seed: int
) -> None:
    options = ("--at", at, "--beta", beta, "--words", 30, "--seed", seed, "--json")
    command = json.loads(nt("generate", run, *options).stdout)
    answer = lines(client, at=at, beta=beta, words=30, seed=seed)
    assert answer[0]["model"] == command["model"]
    assert answer[0]["context"] == command["context"]
    assert answer[-1] == {"words": 30, "right": command["right"]}
    assert [
        {
            "n": int(word["n"]),
            "truth": word["truth"],
            "prediction": word["prediction"] or "(malformed)",
        }
        for word in words_of(answer)
    ] == command["words"]


def test_baselines_continue_too(client: TestClient, nt: Any) -> None:
    at = 10**9 + 7
    answer = lines(client, model="oracle-13", at=at, words=5)
    command = json.loads(nt("generate", "oracle-13", "--at", at, "--words", 5, "--json").stdout)
    predicted = [word["prediction"] for word in command["words"]]
    assert [word["prediction"] for word in words_of(answer)] == predicted
    # It knows n, so the tokens before n do not matter to it.
    assert answer[0]["context"] is None
    assert answer[0]["attention"] is None


def test_probabilities_are_those_of_the_model(client: TestClient, run: Path) -> None:
    """Every token is read again with its whole context, without a cache."""
    model = subject(str(run), SMALL)
    at, prompt = prompt_of_whole_words(model)
    answer = lines(client, at=at, words=12, beta="1", seed=3)
    assert answer[0]["dropped"] == 0
    vocabulary = model.tokenizer.vocabulary
    tokens: list[Any] = []  # of all words, each once
    for word in words_of(answer):
        # Only the last token of a word can also hold a piece of the next one.
        shared = tokens and tokens[-1] == word["tokens"][0]
        tokens += word["tokens"][bool(shared) :]
        assert word["probability"] == pytest.approx(
            math.prod(token["probability"] for token in word["tokens"])
        )
    text = "".join(token["token"] for token in tokens)
    assert " ".join(word["written"] for word in words_of(answer)) in text
    ids = prompt.ids[0].tolist()
    for token in tokens:
        with torch.no_grad():
            window = torch.tensor([ids[-model.context :]])
            shares = model.model.predict_next(window)[0, -1].softmax(-1).tolist()
        number = vocabulary.index(token["token"])
        assert token["probability"] == pytest.approx(shares[number], rel=1e-4)
        others = [(vocabulary.index(o["token"]), o["probability"]) for o in token["others"]]
        rest = sorted((p for i, p in enumerate(shares) if i != number), reverse=True)
        assert [p for _, p in others] == pytest.approx(rest[: len(others)], rel=1e-4)
        assert all(p == pytest.approx(shares[i], rel=1e-4) for i, p in others)
        ids.append(number)


def test_words_before_n_and_what_the_model_was_trained_on(client: TestClient) -> None:
    about = lines(client, at=1000, words=1)[0]
    assert [int(row["n"]) for row in about["before"]] == list(range(980, 1000))
    assert all(row["word"] == arithmetext.word(int(row["n"])) for row in about["before"])
    assert about["trained"]
    assert not lines(client, at="1e13", words=1)[0]["trained"]


def test_unfinished_words_are_shown(monkeypatch: pytest.MonkeyPatch, run: Path) -> None:
    """A model that spells words letter by letter, and one that never ends a word."""
    model, _ = continuation.load(str(run), SMALL)
    ids = {token: i for i, token in enumerate(model.tokenizer.vocabulary)}

    def written(text: str) -> list[Any]:
        def spelled(reading: Any, **_: Any) -> Iterator[Tensor]:
            for letter in text:
                reading.log_probabilities()
                yield torch.tensor([ids[letter]])

        monkeypatch.setattr(continuation, "sample_tokens", spelled)
        return list(continuation.continuation(str(run), at, 2, beta=1, seed=0))

    at, _ = prompt_of_whole_words(model)
    answer = written("110 1010 ")
    assert [line["begun"] for line in answer if "begun" in line][:3] == ["1", "11", "110"]
    first, second = words_of(answer)
    assert (first["prediction"], first["written"]) == (None, "110")
    assert second["prediction"] == "1010"
    assert len(second["tokens"]) == 5  # with the space
    assert written("10" * 64)[-1] == {"words": 0, "right": 0}


def test_only_offered_models(client: TestClient, run: Path) -> None:
    for name in str(run), "/etc", "..", "runs/../runs/run", "runs", "oracle-7", "":
        answer = client.get("/api/model", params={"model": name})
        assert answer.status_code == 400
        assert "“model” must be one of" in answer.json()["error"]


@pytest.mark.parametrize(
    ("model", "bound"), [(RUN, 13), ("oracle-13", 31), ("oracle-13&bound=13", 13)]
)
def test_an_oracle_is_not_compared_with_itself(client: TestClient, model: str, bound: int) -> None:
    assert f"<option selected>{bound}</option>" in client.get(f"/model?model={model}").text


def test_unfinished_runs_are_named(tmp_path: Path, run: Path) -> None:
    shutil.copytree(run, tmp_path / "runs" / "finished")
    for name in "one", "two":
        client = TestClient(make_app(tmp_path), base_url="http://127.0.0.1")
        assert ("not finished yet" in client.get("/model").text) == (name == "two")
        (tmp_path / "runs" / name).mkdir()
        shutil.copy(run / "config.json", tmp_path / "runs" / name)
        if name == "one":
            assert "runs/one is not finished yet." in client.get("/model").text
    assert "runs/one, runs/two are not finished yet." in client.get("/model").text


def test_models_of_the_command_line_come_first(tmp_path: Path, run: Path) -> None:
    app = make_app(tmp_path, [str(run)])
    client = TestClient(app, base_url="http://127.0.0.1")
    assert "predicts next tokens" in client.get("/api/model?words=1").text
    assert client.get("/api/model?words=1&model=runs/run").status_code == 400


def test_masked_and_damaged_runs_are_not_offered(tmp_path: Path, run: Path) -> None:
    for name, change in ("masked", '"mlm"'), ("damaged", "}{"):
        shutil.copytree(run, tmp_path / "runs" / name)
        path = tmp_path / "runs" / name / "config.json"
        path.write_text(path.read_text().replace('"ntp"', change))
    client = TestClient(make_app(tmp_path), base_url="http://127.0.0.1")
    refusal = client.get("/api/model?model=none").json()["error"]
    assert "oracle-13" in refusal
    assert "masked" not in refusal
    assert "damaged" not in refusal


def test_folders_that_are_not_shown_are_not_offered(tmp_path: Path, run: Path) -> None:
    """A link that leads out of the folder, and a name that no page can hold."""
    (tmp_path / "shown" / "runs").mkdir(parents=True)
    shutil.copytree(run, tmp_path / "shown" / "runs" / os.fsdecode(b"\xff"))
    (tmp_path / "shown" / "runs" / "linked").symlink_to(run)
    client = TestClient(make_app(tmp_path / "shown"), base_url="http://127.0.0.1")
    assert client.get("/model").status_code == 200
    assert "linked" not in client.get("/api/model?model=none").json()["error"]


def test_few_models_stay_in_memory_and_changed_ones_are_read_again(
    tmp_path: Path, run: Path
) -> None:
    names = [str(shutil.copytree(run, tmp_path / str(i))) for i in range(3)]
    loaded = [continuation.load(name, SMALL)[0] for name in names]
    assert len(continuation._entries) == continuation.MOST_MODELS
    assert continuation.load(names[2], SMALL)[0] is loaded[2]
    assert continuation.load(names[0], SMALL)[0] is not loaded[0]
    (tmp_path / "0" / "model" / "config.json").touch()
    assert continuation.load(names[0], SMALL)[0] is not loaded[0]


@pytest.mark.parametrize("bound", [7, 13])
def test_oracle(client: TestClient, bound: int) -> None:
    asked = {"at": "1e13", "words": 200, "bound": bound}
    answer = client.get("/api/oracle", params=asked).json()
    true = [unpack(int(word)) for word in words(10**13, 10**13 + 200)]
    assert [row["truth"] for row in answer["words"]] == true
    guesses = [row["likeliest"][0]["word"] for row in answer["words"]]
    assert answer["right"] == sum(a == b for a, b in zip(guesses, true, strict=True))
    # 1e13 = 2^13 5^13, so its residues decide its word.
    assert answer["words"][0]["truth_probability"] == pytest.approx(1)
    # Calibrated: five deviations of a sum of independent hits.
    p = np.array([row["likeliest"][0]["probability"] for row in answer["words"]])
    assert abs(answer["right"] - p.sum()) < 5 * np.sqrt((p * (1 - p)).sum())
    for row in answer["words"]:
        shares = [each["probability"] for each in row["likeliest"]]
        assert shares == sorted(shares, reverse=True)
        assert sum(shares) <= 1 + 1e-9
        listed = {each["word"]: each["probability"] for each in row["likeliest"]}
        assert row["truth_probability"] == listed.get(row["truth"], row["truth_probability"])
    # A place near it is answered by the same oracle.
    near = client.get("/api/oracle", params=asked | {"at": 10**13 + 50}).json()
    assert near["words"][:150] == answer["words"][50:]


def test_where_there_is_no_oracle(client: TestClient) -> None:
    """Also when the oracle is the model."""
    for at in 360, "1e18":
        for path in "oracle", "model", "attention":
            answer = client.get(f"/api/{path}", params={"at": at, "model": "oracle-13"})
            assert answer.status_code == 400
            assert "n must be from 5e7 to 1e17" in answer.json()["error"]
    for at in "5e7", 2**20 * 60 - 1:  # the least n, also where the shared oracle begins before it
        assert client.get("/api/oracle", params={"at": at, "words": 200}).status_code == 200


@pytest.mark.parametrize("layer", [1, 2])
def test_attention(client: TestClient, run: Path, layer: int) -> None:
    model = subject(str(run), SMALL)
    prompt = before(model.tokenizer, SMALL, length=model.context)
    answer = client.get(
        "/api/attention", params={"model": RUN, "at": SMALL, "layer": layer, "head": 2}
    ).json()
    weights = model.model.attention(prompt.ids[0])[layer - 1, 1, -1].tolist()
    assert answer["weights"] == pytest.approx(weights, abs=1e-6)
    assert sum(answer["weights"]) == pytest.approx(1, abs=1e-5)
    # The integer of each token is that of its first digit in the text.
    spelled, n = "".join(answer["tokens"]), int(answer["n"])
    first = n - spelled.count(" ")
    text = "".join(f"{arithmetext.word(m)} " for m in range(first, n + 1))
    begin = text.index(spelled)
    assert begin <= len(arithmetext.word(first))
    for token, distance in zip(answer["tokens"], answer["distances"], strict=True):
        assert n - distance == first + text[: begin + token.startswith(" ")].count(" ")
        begin += len(token)


def test_attention_that_is_not_there(client: TestClient) -> None:
    for parameters, error in (
        ({"model": "oracle-13", "at": "1e9"}, "This model has no attention"),
        ({"model": RUN, "layer": 3}, "Layer must be from 1 to 2"),
        ({"model": RUN, "head": 3}, "Head must be from 1 to 2"),
    ):
        answer = client.get("/api/attention", params=parameters)
        assert answer.status_code == 400
        assert error in answer.json()["error"]


def test_no_room_for_a_context(client: TestClient) -> None:
    [line] = lines(client, at=50, words=1)
    said = re.search(r"reads 32 tokens before n, so n must be at least (\d+)", line["error"])
    assert said
    least = int(said[1])
    assert "error" in lines(client, at=least - 1, words=1)[0]
    assert lines(client, at=least, words=1)[-1]["words"] == 1


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("at", ["1", "x", "-3", "2^63", "1e400", ""]),
        ("words", ["0", "201", "1e9"]),
        ("beta", ["0", "-1", "nan", "x", "-inf"]),
        ("seed", ["-1", "2^63", "x"]),
        ("model", ["x"]),
        ("bound", ["5", "x"]),
        ("layer", ["0", "x", "1001"]),
        ("head", ["0", "x"]),
        ("fold", ["1", "62"]),
    ],
)
def test_bounds(client: TestClient, name: str, wrong: list[str]) -> None:
    uses = {"bound": ["oracle"], "layer": ["attention"], "head": ["attention"], "fold": []}
    uses |= {"at": ["model", "oracle", "attention"], "words": ["model", "oracle"]}
    for value in wrong:
        for path in uses.get(name, ["model"]):
            answer = client.get(f"/api/{path}", params={name: value})
            assert answer.status_code == 400, (path, value)
            assert answer.json()["error"].endswith(".")
        assert client.get("/model", params={name: value}).status_code == 400


@given(
    st.dictionaries(
        st.sampled_from(["at", "beta", "seed", "words", "bound", "layer", "head", "model"]),
        st.one_of(
            st.text(max_size=20),
            st.integers(-5, 300).map(str),
            st.sampled_from(["1e13", "inf", "1e-320", "1e308", "2^63-1", "9e18", RUN]),
        ),
    )
)
@settings(max_examples=60)
def test_no_request_fails(client: TestClient, parameters: dict[str, str]) -> None:
    parameters = {"model": RUN, "words": "2", "at": "1e9"} | parameters
    if parameters["words"].isdigit() and int(parameters["words"]) > 5:
        parameters["words"] = "5"
    if parameters["at"] == "9e18":
        parameters["at"] = "9e12"  # primes up to √n would be sieved for seconds
    for path in "/api/model", "/api/attention", "/model":
        answer = client.get(path, params=parameters)
        assert answer.status_code in (200, 400), answer.text
        if answer.status_code == 400 and path != "/model":
            assert answer.json()["error"]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """The tokens that models have written; each takes 20 ms."""
    tokens: list[Tensor] = []
    sample: Callable[..., Iterator[Tensor]] = continuation.sample_tokens

    def slowly(*given: Any, **options: Any) -> Iterator[Tensor]:
        for token in sample(*given, **options):
            time.sleep(0.02)
            tokens.append(token)
            yield token

    monkeypatch.setattr(continuation, "sample_tokens", slowly)
    return tokens


def check_stopped(taken: list[Tensor]) -> None:
    deadline = time.monotonic() + 5
    while streams._slots._value < streams.MOST_STREAMS and time.monotonic() < deadline:
        time.sleep(0.01)
    assert streams._slots._value == streams.MOST_STREAMS
    number = len(taken)
    time.sleep(0.1)
    assert len(taken) == number < 200


def test_the_work_stops_when_the_reader_leaves(server: str, taken: list[Tensor]) -> None:
    connection = http.client.HTTPConnection(server.removeprefix("http://"))
    connection.request("GET", f"/api/model?at=1e9&words=200&model={RUN}")
    response = connection.getresponse()
    assert "model" in json.loads(response.readline())
    response.readline()
    response.close()
    connection.close()
    check_stopped(taken)


def test_stop_in_a_browser(browser: Browser, taken: list[Tensor]) -> None:
    page = browser.open(f"/model?at=1e9&words=200&model={RUN}")
    page.wait_for_selector(".guess")
    page.click("#stop")
    page.wait_for_selector("#status:has-text('Stopped. ')")
    check_stopped(taken)


def test_page_in_a_browser(browser: Browser, theme: str) -> None:
    page = browser.open(f"/model?at=1e9&words=6&model={RUN}&seed=4", theme=theme)
    page.wait_for_selector("#rows > tr:nth-child(6) .guess")
    page.wait_for_selector("#rows > tr:nth-child(6) > td:last-child .word")
    page.wait_for_selector("#weights path")
    check_accessibility(page)
    assert page.text_content("#rows th a .whole") == "1,000,000,000"
    assert "of 6 words right" in page.text_content("#status")
    # The first word is chosen; the arrow key goes to the next.
    page.focus(".guess")
    page.keyboard.press("Enter")
    page.wait_for_selector(".details")
    check_accessibility(page)
    page.keyboard.press("ArrowDown")
    open_rows = "[...document.querySelectorAll('.guess')].map((b) => b.ariaExpanded)"
    assert page.evaluate(open_rows)[:3] == ["false", "true", "false"]
    # The folded weights add up to 1, and the address keeps what was chosen.
    page.locator("[name=fold]").fill("7")
    shares = page.evaluate(
        "[...document.querySelectorAll('#folded li[title]')].map((x) => x.title)"
    )
    assert len(shares) == 7
    assert sum(float(share.split(": ")[1]) for share in shares) == pytest.approx(1, abs=0.005)
    page.locator("[name=words]").fill("3")
    page.wait_for_selector("#rows > tr:nth-child(3):last-child")
    assert "fold=7" in page.url
    assert "words=3" in page.url
    assert "seed=4" in page.url


def test_rows_do_not_move_while_words_come(browser: Browser) -> None:
    page = browser.open(f"/model?at=1e9&words=8&model={RUN}")
    top = "document.querySelector('#rows').getBoundingClientRect().height"
    page.wait_for_selector("#rows > tr:nth-child(8)")
    height = page.evaluate(top)
    page.wait_for_selector("#rows > tr:nth-child(8) .guess")
    assert page.evaluate(top) == pytest.approx(height, abs=2)


def test_page_on_a_phone_and_wrong_input(browser: Browser) -> None:
    page = browser.open(f"/model?at=1e9&words=3&model={RUN}", width=360)
    page.wait_for_selector("#rows > tr:nth-child(3) .guess")
    page.click(".guess")
    check_width(page)
    page.fill("[name=at]", "50")
    page.wait_for_selector("#error:has-text('n must be at least')")
    page.fill("[name=at]", "5000")
    page.wait_for_selector("#rows > tr:nth-child(3) .guess")
    page.wait_for_selector("#oracle-note:has-text('5e7')")
    assert page.is_visible("#rows > tr:nth-child(3) .guess")
    page.fill("[name=at]", "many")
    page.wait_for_selector("#error:has-text('Not a number')")
    check_accessibility(page)
    check_width(page)


def test_a_model_without_attention_in_a_browser(browser: Browser) -> None:
    page = browser.open(f"/model?at=1e9&words=3&model={RUN}")
    page.wait_for_selector("#weights path")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.select_option("[name=model]", "oracle-13")
    page.wait_for_selector("#status:has-text('primes up to 31')")
    assert "knows n modulo" in page.text_content("#about")
    assert "reads the last" not in page.text_content("#about")
    assert page.is_hidden("#attention-section")
    assert any("api/oracle" in address for address in asked)
    assert not any("api/attention" in address for address in asked)
    page.fill("[name=at]", "360")
    page.wait_for_selector("#error:has-text('n must be from 5e7 to 1e17')")


def test_back_returns_to_the_continuation_before(browser: Browser) -> None:
    page = browser.open(f"/model?at=1e9&words=3&model={RUN}")
    ready = "#status:has-text('of 3 words right')"
    page.wait_for_selector(ready)
    page.fill("[name=at]", "2e9")
    page.wait_for_selector("#rows th a[aria-label='2,000,000,000']")  # without a step
    page.press("[name=at]", "Enter")
    page.wait_for_selector(ready)
    page.go_back()
    page.wait_for_selector("#rows th a[aria-label='1,000,000,000']")
    assert page.input_value("[name=at]") == "1e9"
    assert "at=1e9" in page.url
    page.go_forward()
    page.wait_for_selector("#rows th a[aria-label='2,000,000,000']")
    assert "at=2e9" in page.url


def test_page_without_javascript(browser: Browser) -> None:
    page = browser.open(f"/model?at=1e9&model={RUN}", javascript=False)
    assert "needs JavaScript" in page.text_content("noscript")
    assert page.locator("noscript a").count() == 2
