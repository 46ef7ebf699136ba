"""The list of reports and runs, and the loss curve of a run."""

import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from arithmetext.training.recipes import recipe
from arithmetext.web import report

from .conftest import Browser, check_accessibility, check_width

RESULTS = Path(__file__).parents[2] / "results"
CONFIG = json.dumps(asdict(recipe("ntp-laptop")))
STEPS = 600  # of this recipe
HOSTILE = [
    b"\xff\xfe",
    b"[" * 100_000,
    b"[1]",
    b'{"step": "1"}',
    b'{"step": true, "loss": 1}',
    b'{"step": 1e3, "loss": 1}',
    b'{"step": -1, "loss": 1}',
    b'{"step": 1' + b"0" * 400 + b', "loss": 1}',
    b'{"step": 1' + b"0" * 5000 + b', "loss": 1}',
    b'{"step": 3, "loss": 1}',  # again
]


def row(step: int, **values: object) -> bytes:
    return json.dumps({"step": step, "loss": 5 / step, "seconds": step / 10} | values).encode()


def make_run(folder: Path, *, steps: int = 0, config: str = CONFIG) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(config)
    rows = [row(step, waited=time.time_ns() % 1e9) for step in range(1, steps + 1)]
    (folder / "metrics.jsonl").write_bytes(b"".join(each + b"\n" for each in rows))
    return folder


@pytest.fixture
def run(shown_folder: Path) -> Iterator[Path]:
    """A run of 20 steps in the shown folder."""
    folder = make_run(shown_folder / "runs" / "mine", steps=20)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def made_report(shown_folder: Path) -> Iterator[Path]:
    folder = shown_folder / "results" / "h200"
    folder.mkdir(parents=True)
    shutil.copy(RESULTS / "h200" / "index.html", folder)
    yield folder
    shutil.rmtree(folder)


def append(folder: Path, *rows: bytes) -> None:
    with (folder / "metrics.jsonl").open("ab") as file:
        file.write(b"".join(each + b"\n" for each in rows))


def get(server: str, path: str) -> tuple[int, str]:
    """The status and text of an answer to exactly this path, as it is written."""
    with closing(HTTPConnection(server.removeprefix("http://"))) as connection:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def about(client: TestClient, name: str = "mine", **parameters: object) -> Any:
    answer = client.get(f"/api/runs/{name}", params=parameters)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_finished_run(client: TestClient, shown_folder: Path, finished: Path) -> None:
    """A run that `nt train` has made."""
    real = shown_folder / "runs" / "real"
    shutil.copytree(finished, real)
    rows = [json.loads(line) for line in (real / "metrics.jsonl").read_text().splitlines()]
    shown = about(client, "real")
    assert shown["state"] == "finished" and shown["has_model"]
    assert shown["loss"] == [[r["step"], r["loss"]] for r in rows if "loss" in r]
    validations = [[r["step"], r["validation_loss"]] for r in rows if "validation_loss" in r]
    assert shown["validation"] == validations
    listed = {run["folder"]: run for run in client.get("/api/report").json()["runs"]}
    assert listed["runs/real"]["validation"] == validations[-1]
    page = client.get("/report/runs/real").text
    assert f"{rows[-2]['loss']:.4f}" in page
    assert re.search(r'href="/model\?model=runs(/|%2F)real&amp;at=1e13"', page)
    assert "training.weight_decay" in page
    shutil.rmtree(real)


def test_a_run_is_followed(client: TestClient, run: Path) -> None:
    first = about(client)
    assert [step for step, _ in first["loss"]] == list(range(1, 21))
    append(run, row(21), b'{"step": 21, "validation_loss": 0.25}', row(22))
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(row(23)[:9])  # half-written
    second = about(client, after=20)
    assert second["loss"] == [[21, 5 / 21], [22, 5 / 22]]
    assert second["validation"] == [[21, 0.25]]
    assert second["curve"] == first["curve"]
    with (run / "metrics.jsonl").open("ab") as file:
        file.write(row(23)[9:] + b"\n")
    assert about(client, after=22)["loss"] == [[23, 5 / 23]]


def test_a_run_that_begins_again_is_another_curve(client: TestClient, run: Path) -> None:
    before = about(client)
    draft = run / "draft"
    draft.write_bytes(row(1) + b"\n" + row(2, loss=7.0) + b"\n")
    draft.replace(run / "metrics.jsonl")  # as `nt train --resume` does
    after = about(client)
    assert after["curve"] != before["curve"]
    assert after["loss"] == [[1, 5.0], [2, 7.0]]


@given(st.integers(1, 9000), st.integers(0, 9000))
@settings(max_examples=25)
def test_long_curves_are_means(tmp_path_factory: pytest.TempPathFactory, n: int, k: int) -> None:
    losses = {step: 1 / step for step in range(1, n + 1)}
    metrics = report.Metrics(Path("none"))
    for step, loss in losses.items():
        metrics._add(json.dumps({"step": step, "loss": loss}).encode())
    size = metrics.mean_of
    k -= k % size
    points = metrics.points(k, whole=False)
    assert len(metrics.points(0, whole=False)) <= report.MOST_POINTS + 1
    begin = k
    for end, mean in points:
        inside = [losses[step] for step in range(begin + 1, end + 1)]
        assert mean == pytest.approx(sum(inside) / len(inside))
        assert end % size == 0 or end == n
        begin = end
    assert begin == max(n, k)
    kept = [point for point in points if point[0] % size == 0]
    assert metrics.points(k, whole=True) == kept


def test_states(client: TestClient, run: Path) -> None:
    assert about(client)["state"] == "interrupted"
    (run / ".lock").touch()
    assert about(client)["state"] == "training"
    assert about(client)["facts"]["Time left"] == "about 58 s"
    long_ago = time.time() - 3600
    for name in "metrics.jsonl", "config.json":
        os.utime(run / name, (long_ago, long_ago))
    assert about(client)["state"] == "interrupted"  # it was killed
    append(run, *(row(step) for step in range(21, STEPS + 1)))
    assert about(client)["state"] == "finished"


@pytest.mark.parametrize("damage", HOSTILE, ids=range(len(HOSTILE)))
def test_damaged_metrics(client: TestClient, run: Path, damage: bytes) -> None:
    """What comes before the damage is shown."""
    append(run, damage, row(21))
    shown = about(client)
    assert shown["step"] == 20 and shown["damaged"]
    assert "damaged row" in client.get("/report/runs/mine").text


def test_values_that_are_no_numbers(client: TestClient, run: Path) -> None:
    """Nothing that JSON cannot hold gets into the answer."""
    append(
        run,
        b'{"step": 21, "loss": NaN, "validation_loss": Infinity}',
        b'{"step": 21, "loss": "<b>", "validation_loss": null}',
        b'{"step": 22, "loss": 1' + b"0" * 400 + b', "lr": []}',
    )
    shown = about(client)
    assert shown["step"] == 20 and not shown["damaged"]
    assert client.get("/report").status_code == 200


@pytest.mark.parametrize(
    "config", ["", "{", "[]", '{"task": "<script>"}', "[" * 10**5, CONFIG.replace("600", "1e400")]
)
def test_damaged_configurations(client: TestClient, shown_folder: Path, config: str) -> None:
    folder = make_run(shown_folder / "runs" / "damaged", config=config)
    answer = client.get("/api/runs/damaged")
    assert answer.status_code == 400
    assert answer.json()["error"].startswith(
        "This run cannot be read: runs/damaged/config.json is not the configuration of a run: "
    )
    for path in "/report", "/report/runs/damaged":
        page = client.get(path)
        assert "This run cannot be read" in page.text
        assert "<script>" not in page.text
    shutil.rmtree(folder)


def test_a_run_without_metrics(client: TestClient, run: Path) -> None:
    (run / "metrics.jsonl").unlink()
    assert about(client)["loss"] == []
    assert client.get("/report/runs/mine").status_code == 200


def test_any_name_of_a_folder(client: TestClient, server: str, shown_folder: Path) -> None:
    names = ["a b", "100%", "a?b#c", "%2e%2e", "ü 1e13", "<b>&amp;", '"']
    folders = [make_run(shown_folder / "runs" / name, steps=1) for name in names]
    unprintable = make_run(shown_folder / "runs" / os.fsdecode(b"\xff"), steps=1)
    listed = client.get("/api/report").json()["runs"]
    assert sorted(run["folder"] for run in listed) == sorted(f"runs/{name}" for name in names)
    for run in listed:
        assert get(server, run["address"])[0] == 200
        _, answer = get(server, run["address"].replace("/report", "/api", 1))
        assert json.loads(answer)["folder"] == run["folder"]
    page = client.get("/report").text
    assert sorted(re.findall(r'"(/report/runs/[^"]*)"', page)) == sorted(
        run["address"] for run in listed
    )
    for folder in [*folders, unprintable]:
        shutil.rmtree(folder)


def test_nothing_outside_the_folders(
    client: TestClient, server: str, shown_folder: Path, run: Path, tmp_path: Path
) -> None:
    make_run(tmp_path / "secret", steps=1)
    (tmp_path / "secret" / "index.html").write_text("secret")
    (shown_folder / "reports" / "half").mkdir(parents=True)
    (shown_folder / "index.html").write_text("not a report")
    links = {
        shown_folder / "runs" / "link": tmp_path / "secret",
        shown_folder / "reports" / "link": tmp_path / "secret",
        shown_folder / "reports" / "half" / "index.html": tmp_path / "secret" / "index.html",
        shown_folder / "runs" / "circle": shown_folder / "runs" / "circle",
        run / "metrics.jsonl": tmp_path / "secret" / "metrics.jsonl",
        shown_folder / "runs" / "latest": run,  # leads nowhere else, but its metrics do
    }
    (run / "metrics.jsonl").unlink()
    for link, target in links.items():
        link.symlink_to(target)
    up = ["..", "%2e%2e", "%2E%2E%2F..", "..%2f..%2fsecret", "%2Fetc", "link", "half", "circle"]
    up += [".", "%00", "x" * 5000, "mine%2f..%2flink", "..\\", "%252e%252e", "link/", "half/"]
    for name in up:
        for start in "/report/runs", "/report/reports", "/report/results", "/api/runs":
            status, text = get(server, f"{start}/{name}")
            assert status in (404, 307), name  # 307: the same address without the last slash
            assert "secret" not in text.replace("/secret", "")
    for kind in "..", "%2e", "src", "runs%2fmine", str(tmp_path):
        assert get(server, f"/report/{kind}/secret")[0] == 404
    for name in "mine", "latest":
        answer = client.get(f"/api/runs/{name}")
        assert answer.status_code == 400
        assert "metrics.jsonl is not a file of this folder" in answer.json()["error"]
    assert client.get("/report").status_code == 200
    assert client.get("/api/report").json()["reports"] == []
    for link in links:
        link.unlink()
    shutil.rmtree(shown_folder / "reports")
    (shown_folder / "index.html").unlink()


def test_a_pipe_does_not_block(client: TestClient, run: Path) -> None:
    (run / "metrics.jsonl").unlink()
    os.mkfifo(run / "metrics.jsonl")
    assert client.get("/api/runs/mine").status_code == 400


def test_too_many_bytes(client: TestClient, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "MOST_BYTES", 1 << 8)
    assert "more than" in client.get("/api/runs/mine").json()["error"]


@given(after=st.one_of(st.text(), st.integers().map(str), st.floats().map(str)))
@settings(max_examples=50)
def test_parameters(client: TestClient, shown_folder: Path, after: str) -> None:
    if not (shown_folder / "runs" / "fixed").exists():
        make_run(shown_folder / "runs" / "fixed", steps=3)
    answer = client.get("/api/runs/fixed", params={"after": after})
    assert answer.status_code in (200, 400)
    shown = answer.json()
    assert ("error" in shown) == (answer.status_code == 400)
    assert client.get("/report/runs/fixed", params={"scale": after}).status_code in (200, 400)


def test_the_list_of_reports(client: TestClient, made_report: Path) -> None:
    (found,) = client.get("/api/report").json()["reports"]
    assert found["folder"] == "results/h200"
    assert found["scale"] == "gpu"
    page = client.get(found["address"]).text
    counted = re.match(r"(\d+) claims: (\d+) agree .*, (\d+) differ, (\d+) not", found["outcomes"])
    assert counted is not None
    classes = ["agrees", "differs", "untested"]
    rows = [page.count(f'<li class="claim {name}">') for name in classes]
    assert [int(n) for n in counted.groups()] == [sum(rows), *rows]
    assert f"<p>{found['outcomes']}.</p>" in client.get("/report").text


def test_a_page_that_is_no_report_of_ours(client: TestClient, shown_folder: Path) -> None:
    folder = shown_folder / "reports" / "other"
    folder.mkdir(parents=True)
    (folder / "index.html").write_bytes(b"\xff<b>5 claims</b><script>alert(1)</script>")
    assert client.get("/api/report").json()["reports"][0]["outcomes"] is None
    assert client.get("/report").status_code == 200
    shutil.rmtree(folder)


def test_a_report_may_do_nothing_but_show(browser: Browser, made_report: Path) -> None:
    """It has its styles, its links and its files of numbers; a script in it does not run."""
    text = (made_report / "index.html").read_text()
    script = "<script>document.title = 'run'</script><form action='/n'><button>go</button></form>"
    (made_report / "index.html").write_text(text.replace("<header>", f"<header>{script}"))
    page = browser.open("/report/results/h200")
    assert page.title() == "The arithmetic text, reproduced"
    assert page.evaluate("getComputedStyle(document.querySelector('main')).display") == "block"
    assert page.evaluate("getComputedStyle(document.querySelector('.skip')).position") == "absolute"
    assert page.evaluate("origin") == "null"
    page.click("#dictionary_growth summary:text-is('Numbers')")
    with page.expect_download() as download:
        page.click("a[download=dictionary_growth\\.csv]")
    assert download.value.path().read_text().startswith("n,words\n10,3\n")
    page.click(".contents a[href='#walks']")
    assert page.evaluate("scrollY") > 1000
    before = page.url
    page.click("text=go")
    page.wait_for_timeout(100)
    assert page.url == before
    refused = [line for line in browser.errors if "sandbox" in line or "Content" in line]
    assert refused == browser.errors != []
    browser.errors.clear()


def test_lists_in_a_browser(browser: Browser, theme: str, run: Path, made_report: Path) -> None:
    page = browser.open("/report", theme=theme, width=360)
    check_accessibility(page)
    check_width(page)
    page.click("text=runs/mine")
    page.wait_for_selector("h1 >> text=runs/mine")


def test_an_empty_folder(client: TestClient, shown_folder: Path) -> None:
    shutil.rmtree(shown_folder / "runs", ignore_errors=True)
    page = client.get("/report").text
    assert "nt train ntp-laptop" in page and "nt reproduce" in page


def test_a_curve_in_a_browser(browser: Browser, theme: str, run: Path) -> None:
    (run / ".lock").touch()
    page = browser.open("/report/runs/mine?scale=log", theme=theme)
    page.wait_for_selector(".plot path.training")
    assert page.is_checked("input[value=log]")
    assert page.text_content("#readout") == "Step 20: training loss 0.2500"
    heights = "[...document.querySelectorAll('main > *')].map((e) => e.offsetTop)"
    before = page.evaluate(heights)
    append(run, *(row(step) for step in range(21, 41)))
    append(run, b'{"step": 40, "validation_loss": 0.75}')
    page.wait_for_selector("#readout >> text=Step 40")
    assert "validation loss 0.7500 at step 40" in page.text_content("#readout")
    assert page.locator(".validation circle").count() == 1
    assert page.evaluate(heights) == before  # nothing has moved
    page.check("input[value=linear]")
    assert page.url.endswith("/report/runs/mine")
    page.focus("#place")
    page.keyboard.press("Home")
    assert page.text_content("#readout") == "Step 1: training loss 5.0000"
    page.hover(".plot", position={"x": 400, "y": 100})
    assert re.match(r"Step \d+: training", page.text_content("#readout"))
    assert page.text_content("#facts dd") == "40 of 600"
    check_accessibility(page)
    append(run, *(row(step) for step in range(41, STEPS + 1)))
    page.wait_for_selector("#state >> text=finished")


def test_a_phone(browser: Browser, run: Path) -> None:
    page = browser.open("/report/runs/mine", width=360)
    page.wait_for_selector(".plot path.training")
    check_width(page)


def test_without_javascript(browser: Browser, run: Path) -> None:
    append(run, b'{"step": 20, "validation_loss": 0.75}')
    page = browser.open("/report/runs/mine", width=360, javascript=False)
    tables = page.locator("noscript table")
    assert tables.count() == 2
    assert "0.2500" in tables.nth(0).inner_text()
    assert "0.7500" in tables.nth(1).inner_text()


def test_an_error_while_following(browser: Browser, run: Path) -> None:
    (run / ".lock").touch()
    page = browser.open("/report/runs/mine")
    page.wait_for_selector(".plot path.training")
    (run / "config.json").rename(run / "config.old")
    page.wait_for_selector("#error >> text=There is no folder runs/mine")
    (run / "config.old").rename(run / "config.json")
    page.wait_for_selector("#error", state="hidden")
