"""What the explorer refuses, how much work it does at once, and how it ends."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from http.client import HTTPConnection
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from arithmetext.errors import InputError
from arithmetext.web import report, streams, text
from arithmetext.web.app import make_app
from arithmetext.web.streams import MOST_STREAMS, LineStream

ROUTES = [route.path for route in make_app(Path()).routes if isinstance(route, Route)]
WEB = Path(streams.__file__).parent

# The parameters that pages read, so that random values reach them.
PARAMETERS = sorted(
    {
        name
        for path in WEB.glob("*.py")
        for name in re.findall(r'\(\s*request,\s*"(\w+)"', path.read_text())
    }
    | {"n"}
)
NUMBERS = ["0", "1", "2", "100", "1e5", "1e13", "2^63", "1e400", "9" * 300, "-1", "nan", "inf"]
TEXTS = ["", "1100", "110010 10", "\0", "%00", "..", "../../etc/passwd", "runs/none", "<script>"]
VALUES = st.one_of(
    st.text(max_size=20), st.integers().map(str), st.sampled_from([*NUMBERS, *TEXTS, "x" * 5000])
)


# A server with streams of its own.


class Work:
    """Endless streams, which say what became of them."""

    def __init__(self) -> None:
        self.lines, self.closed = 0, Event()
        self.streams: list[LineStream] = []  # kept, so that nothing but `close` ends their work

    def stream(self) -> LineStream:
        self.streams.append(LineStream(self.steps()))
        return self.streams[-1]

    def steps(self) -> Generator[dict[str, Any], None, None]:
        try:
            while True:
                time.sleep(0.02)
                self.lines += 1
                yield {"line": self.lines}
        finally:
            self.closed.set()


def fail(kind: str) -> Generator[dict[str, Any], None, None]:
    yield {"line": 1}
    if kind == "input":
        raise InputError("this cannot be read")
    if kind == "nan":
        yield {"line": float("nan")}
    if kind == "close":
        try:
            yield {"line": 2}
        finally:
            raise ValueError("while closing")
    raise ZeroDivisionError


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def app(work: Work, tmp_path: Path) -> Starlette:
    """The explorer with pages for these tests."""

    def ending(request: Request) -> Response:
        return LineStream(fail(request.path_params["kind"]))

    def broken(request: Request) -> Response:
        raise ZeroDivisionError

    made = make_app(tmp_path)
    made.router.routes += [
        Route("/api/endless", lambda request: work.stream()),
        Route("/api/broken", broken),
        Route("/broken", broken),
        Route("/api/{kind}", ending),
    ]
    return made


@pytest.fixture
def address(app: Starlette) -> Iterator[tuple[str, int]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        running = uvicorn.Server(uvicorn.Config(app, log_level="critical"))
        thread = Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        yield listening.getsockname()
        running.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@contextmanager
def reading(address: tuple[str, int], path: str = "/api/endless") -> Iterator[Any]:
    """An answer that is being read; the reader leaves at the end of the block."""
    with closing(HTTPConnection(*address, timeout=20)) as connection:
        connection.request("GET", path)
        yield connection.getresponse()


def wait_until(true: Callable[[], bool], seconds: float) -> None:
    """Wait for something; fail if it takes longer."""
    ends = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < ends
        time.sleep(0.01)


def free_slots() -> int:
    return streams._slots._value


def test_a_reader_who_leaves_stops_the_work(address: tuple[str, int], work: Work) -> None:
    with reading(address) as answer:
        assert json.loads(answer.readline()) == {"line": 1}
        assert free_slots() == MOST_STREAMS - 1
    wait_until(lambda: free_slots() == MOST_STREAMS, 10)
    assert work.closed.is_set()
    lines = work.lines
    time.sleep(0.1)
    assert work.lines == lines


def test_one_stream_too_many(address: tuple[str, int]) -> None:
    readers = [reading(address) for _ in range(MOST_STREAMS)]
    for each in readers:
        each.__enter__().readline()
    with reading(address) as refused:
        assert refused.status == 503
        assert "long jobs are running already" in json.loads(refused.read())["error"]
        assert refused.getheader("content-security-policy")
    readers.pop().__exit__(None, None, None)
    wait_until(lambda: free_slots() == 1, 10)
    with reading(address) as answer:
        assert answer.status == 200
    for each in readers:
        each.__exit__(None, None, None)
    wait_until(lambda: free_slots() == MOST_STREAMS, 10)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/find?sentence=10", 503),
        ("/api/locate?words=10", 503),
        ("/api/model?model=oracle-13", 503),
        ("/api/attention?model=oracle-13", 503),
        ("/api/oracle?at=1e9", 503),
        ("/api/text?tokens=bpe-64", 503),
        ("/api/n/2^200", 503),
        ("/api/n/360", 200),
        ("/api/text", 200),
        ("/model", 200),
    ],
)
def test_while_all_places_are_taken(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, path: str, status: int
) -> None:
    """Long work is refused, and the rest goes on."""
    monkeypatch.setattr(text, "_tokenizers", {})
    with ExitStack() as taken:
        for _ in range(MOST_STREAMS):
            taken.enter_context(streams.slot())
        assert client.get(path).status_code == status


def test_many_readers_come_and_go(address: tuple[str, int]) -> None:
    """However they leave, no slot is lost."""
    for i in range(40):
        with socket.create_connection(address) as connection:
            connection.sendall(b"GET /api/endless HTTP/1.1\r\nHost: localhost\r\n\r\n")
            if i % 3:
                connection.recv(10)
            if i % 2:  # reset, not closed
                linger = b"\1\0\0\0\0\0\0\0"
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    wait_until(lambda: free_slots() == MOST_STREAMS, 20)


@pytest.mark.parametrize(
    ("kind", "words"),
    [("input", "This cannot be read."), ("nan", "failed"), ("close", "failed"), ("bug", "failed")],
)
def test_work_that_fails(
    address: tuple[str, int], capfd: pytest.CaptureFixture[str], kind: str, words: str
) -> None:
    """It ends in a line of JSON, and only a bug is shown in the terminal."""
    with reading(address, f"/api/{kind}") as answer:
        *_, last = [json.loads(line) for line in answer.read().splitlines()]
    assert words in last["error"]
    wait_until(lambda: free_slots() == MOST_STREAMS, 10)
    assert ("Traceback" in capfd.readouterr().err) == (kind != "input")


def test_a_stream_has_a_time_limit(
    address: tuple[str, int], work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MOST_SECONDS", 0.2)
    with reading(address) as answer:
        last = answer.read().splitlines()[-1]
    assert "stopped after" in json.loads(last)["error"]
    assert work.closed.wait(5)


def test_a_reader_that_does_not_read(
    app: Starlette, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its stream is cut off too."""
    import anyio

    monkeypatch.setattr(streams, "MOST_SECONDS", 0.1)
    monkeypatch.setattr(streams, "LAST_LINE_SECONDS", 0.1)

    async def forever(*message: object) -> Any:
        await anyio.sleep_forever()

    async def call() -> None:
        with anyio.fail_after(10):
            await LineStream(work.steps())({"type": "http", "method": "GET"}, forever, forever)

    with ThreadPoolExecutor(1) as pool:  # Playwright has a loop in this thread
        pool.submit(anyio.run, call).result()
    assert free_slots() == MOST_STREAMS


def test_head_does_no_work(address: tuple[str, int], work: Work) -> None:
    with closing(HTTPConnection(*address)) as connection:
        connection.request("HEAD", "/api/endless")
        answer = connection.getresponse()
        assert answer.status == 200 and answer.read() == b""
    assert work.lines == 0


def test_a_bug_is_a_sentence(app: Starlette) -> None:
    client = TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)
    for path in "/broken", "/api/broken":
        answer = client.get(path)
        assert answer.status_code == 500
        assert "the terminal shows why" in answer.text
        assert "Traceback" not in answer.text and "Zero" not in answer.text
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]


# Any request.


@pytest.mark.parametrize("route", ROUTES)
@given(data=st.data())
@settings(max_examples=8)
def test_any_parameters(client: TestClient, route: str, data: st.DataObject) -> None:
    """An answer, or a sentence: never a failure."""
    path = re.sub(r"\{\w+\}", lambda _: data.draw(st.text(min_size=1, max_size=30)), route)
    query = data.draw(st.dictionaries(st.sampled_from(PARAMETERS) | st.text(max_size=5), VALUES))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "MOST_SECONDS", 0.1)
        answer = client.get(httpx_path(path), params=query, follow_redirects=False)
    assert answer.status_code < 500 or answer.status_code == 503, answer.text
    assert "Traceback" not in answer.text
    if path.startswith("/api/"):
        lines = [json.loads(line) for line in answer.text.splitlines()]
        if answer.status_code >= 400:
            check_sentence(lines[0]["error"])
    elif answer.status_code < 300 or answer.status_code >= 400:
        assert answer.text.startswith("<!doctype html>")


def httpx_path(path: str) -> str:
    """The path of an address, with everything escaped that has a meaning there."""
    from urllib.parse import quote

    return quote(path.encode(errors="surrogatepass"))


def check_sentence(text: str) -> None:
    assert text[0].isprintable() and text.endswith((".", "?", "!"))
    assert "\n" not in text and len(text) < 500


@pytest.mark.parametrize("route", ["/", *ROUTES, "/nothing", "/api/nothing", "/static/none"])
def test_every_route_is_read_only_and_cannot_be_framed(client: TestClient, route: str) -> None:
    path = re.sub(r"\{\w+\}", "1", route)
    for method in "POST", "PUT", "DELETE", "PATCH", "OPTIONS":
        answer = client.request(method, path)
        known = "othing" not in route
        assert answer.status_code == (405 if known else 404)
        assert not known or "GET" in answer.headers["allow"]
        assert "can only be read" in answer.text or not known
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "MOST_SECONDS", 0.1)
        got, head = (
            getattr(client, each)(path, follow_redirects=False) for each in ("get", "head")
        )
    assert head.status_code == got.status_code
    assert head.text == ""
    for name, value in {
        "content-security-policy": "frame-ancestors 'none'",
        "x-content-type-options": "nosniff",
        "cross-origin-resource-policy": "same-origin",
        "referrer-policy": "no-referrer",
    }.items():
        assert value in got.headers[name]


def test_a_report_cannot_be_framed_either() -> None:
    assert "frame-ancestors 'none'" in report.REPORT_HEADERS["content-security-policy"]


def test_unknown_pages_get_a_sentence(client: TestClient) -> None:
    assert client.get("/api/nothing").json() == {"error": "There is no page /api/nothing."}
    assert "There is no page /nothing." in client.get("/nothing").text
    assert len(client.get("/api/" + "x" * 5000).json()["error"]) < 120
    assert "&lt;script&gt;" in client.get("/<script>").text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:8360", 200),
        ("localhost:8360", 200),
        ("LOCALHOST", 200),
        ("[::1]:8360", 400),
        ("evil.example", 400),
        ("evil.example:8360", 400),
        ("127.0.0.1.evil.example", 400),
        ("localhost.evil.example", 400),
        ("127.0.0.1@evil.example", 400),
        ("evil.example:127.0.0.1", 400),
        ("0.0.0.0:8360", 400),
        ("", 400),
    ],
)
def test_hosts(client: TestClient, host: str, status: int) -> None:
    assert client.get("/n/360", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    ("site", "destination", "status"),
    [
        ("same-origin", "empty", 200),
        ("none", "document", 200),  # typed, or a bookmark
        ("cross-site", "document", 200),  # a link
        ("cross-site", "iframe", 403),
        ("cross-site", "image", 403),
        ("cross-site", "empty", 403),  # fetch
        ("same-site", "image", 403),  # another server on this machine
    ],
)
def test_other_sites(client: TestClient, site: str, destination: str, status: int) -> None:
    headers = {"sec-fetch-site": site, "sec-fetch-dest": destination}
    assert client.get("/api/n/360", headers=headers).status_code == status


@pytest.fixture
def other_site(tmp_path: Path) -> Iterator[str]:
    """A site with an empty page, and the icon of the explorer."""
    (tmp_path / "index.html").write_text("<!doctype html>")
    shutil.copy(WEB / "static" / "icon.svg", tmp_path)
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as other:
        Thread(target=other.serve_forever).start()
        yield f"http://localhost:{other.server_port}"
        other.shutdown()


def test_another_site_in_a_browser(chromium: Any, server: str, other_site: str) -> None:
    """It can neither show a picture of the explorer nor frame a page."""
    page = chromium.new_page()
    page.goto(other_site)

    def image(site: str) -> Any:
        return page.evaluate(
            "(source) => new Promise((done) => { const image = new Image(); image.src = source;"
            " image.onload = () => done('shown'); image.onerror = () => done('refused') })",
            f"{site}/icon.svg",
        )

    assert image(other_site) == "shown"
    assert image(f"{server}/static") == "refused"
    page.evaluate(
        "(source) => new Promise((done) => { const frame = document.createElement('iframe');"
        " frame.onload = done; frame.src = source; document.body.append(frame) })",
        f"{server}/n/360",
    )
    assert page.frames[-1].locator("h1.integer").count() == 0
    page.close()


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"GET /n/" + b"1" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X: x\r\n" * 40_000 + b"\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"\0\xff" * 50_000,
        b"\x16\x03\x01\x02\x00\x01\x00",  # a browser that tries https
    ],
    ids=["address", "header", "headers", "no host", "two hosts", "bytes", "tls"],
)
def test_no_request_harms_the_server(address: tuple[str, int], request_bytes: bytes) -> None:
    with socket.create_connection(address, timeout=10) as connection:
        connection.sendall(request_bytes + b"\r\n\r\n")
        assert b" 400 " in connection.recv(1000)
    with reading(address, "/n/360") as answer:
        assert answer.status == 200


@pytest.mark.parametrize(
    "path", ["/%00", "/static/%00", "/n/%00", "/n/%ff", "/static/" + "x" * 300]
)
def test_odd_paths(address: tuple[str, int], path: str) -> None:
    with reading(address, path) as answer:
        assert answer.status in (400, 404)


# The command.


@contextmanager
def explore(folder: Path, *arguments: str) -> Iterator[tuple[Any, tuple[str, int]]]:
    """A running `nt explore`, and where it listens."""
    command = [sys.executable, "-m", "arithmetext", "explore", "--no-browser", "--port", "0"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, *arguments], cwd=folder, env=environment, **pipes) as running:
        try:
            line = running.stdout.readline()
            found = re.fullmatch(r"The explorer is at http://(127.0.0.1):(\d+)/ .*\n", line)
            assert found is not None, running.stderr.read()
            yield running, (found[1], int(found[2]))
        finally:
            running.kill()


LONG_STREAM = """
import sys, time
from starlette.routing import Route
from arithmetext.web import app, streams

def steps():
    while True:
        time.sleep(0.3)
        yield {"line": 1}

make_app = app.make_app
def with_stream(folder, models):
    made = make_app(folder, models)
    made.router.routes.insert(0, Route("/api/long", lambda request: streams.LineStream(steps())))
    return made
app.make_app = with_stream
"""


def test_a_model_that_does_not_exist_is_refused(refused: Callable[..., str]) -> None:
    assert refused("explore", "pretrained", "nowhere").startswith(
        "nt: there is no folder nowhere; models without a folder are: pretrained"
    )


def test_ctrl_c_ends_the_explorer_and_its_streams(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(LONG_STREAM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(tmp_path), *sys.path])
        with explore(tmp_path) as (running, address), reading(address, "/api/long") as answer:
            assert json.loads(answer.readline()) == {"line": 1}
            began = time.monotonic()
            running.send_signal(signal.SIGINT)
            *_, last = answer.read().splitlines()
            out, err = running.communicate(timeout=20)
            assert time.monotonic() - began < 10
    assert json.loads(last) == {"error": "The explorer was stopped."}
    assert (running.returncode, out, err) == (130, "", "nt: interrupted\n")


def test_a_port_in_use(refused: Callable[..., str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        message = refused("explore", "--no-browser", "--port", port)
    assert message == f"nt: port {port} is in use: choose another with --port"


def test_bad_ports(refused: Callable[..., str]) -> None:
    assert "at most 65535" in refused("explore", "--port", "65536")
    assert "at least 0" in refused("explore", "--port", "-1")


def test_only_this_machine(tmp_path: Path) -> None:
    with explore(tmp_path) as (running, (_, port)):
        listening = Path(f"/proc/{running.pid}/net/tcp")
        if not listening.exists():
            pytest.skip("/proc/net is not there")
        addresses = {line.split()[1] for line in listening.read_text().splitlines()}
        assert {each for each in addresses if each.endswith(f":{port:04X}")} == {
            f"0100007F:{port:04X}"
        }
        assert f":{port:04X} " not in Path(f"/proc/{running.pid}/net/tcp6").read_text()
