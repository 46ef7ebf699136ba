"""A running explorer, and a browser to look at it."""

import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import uvicorn
from starlette.testclient import TestClient

from arithmetext.web.app import make_app

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
ARGUMENTS = [
    "--no-sandbox",  # for tests that run as root
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def shown_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder whose runs and reports the explorer shows."""
    return tmp_path_factory.mktemp("shown")


@pytest.fixture(scope="session")
def client(shown_folder: Path) -> TestClient:
    """Calls the app without a server."""
    app = make_app(shown_folder)
    return TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False)


@pytest.fixture(scope="session")
def server(shown_folder: Path) -> Iterator[str]:
    """The address of a running explorer."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(make_app(shown_folder), log_level="warning")
    running = uvicorn.Server(config)
    thread = Thread(target=running.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    running.should_exit = True
    thread.join()


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A headless Chromium, for all tests of this process."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(params=["light", "dark"])
def theme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Browser:
    """Opens pages of the explorer; a test fails if a page reports an error in its console."""

    def __init__(self, chromium: Any, server: str) -> None:
        self.chromium, self.server = chromium, server
        self.contexts: list[Any] = []
        self.errors: list[str] = []

    def open(
        self, path: str, *, theme: str = "light", width: int = 1280, javascript: bool = True
    ) -> Any:
        """A page of the explorer, loaded."""
        context = self.chromium.new_context(
            viewport={"width": width, "height": 800},
            color_scheme=theme,
            java_script_enabled=javascript,
        )
        context.set_default_timeout(20_000)
        self.contexts.append(context)
        page = context.new_page()
        page.on("console", lambda line: self._note(line.type, line.text))
        page.on("pageerror", lambda error: self._note("error", str(error)))
        page.goto(self.server + path)
        return page

    def _note(self, kind: str, text: str) -> None:
        # A refusal of the API is shown to the reader as a sentence; the console repeats its code.
        if kind == "error" and "the server responded with a status of" not in text:
            self.errors.append(text)


@pytest.fixture
def browser(chromium: Any, server: str) -> Iterator[Browser]:
    opened = Browser(chromium, server)
    yield opened
    for context in opened.contexts:
        context.close()
    assert opened.errors == []


def check_refused(client: TestClient, path: str, parameters: dict[str, str], words: str) -> None:
    """Fail unless the API refuses these parameters in a sentence with these words."""
    answer = client.get(path, params=parameters)
    assert answer.status_code == 400
    assert words in answer.json()["error"]


def check_accessibility(page: Any) -> None:
    """Fail with what axe finds: missing names, low contrast, wrong roles, …"""
    from axe_playwright_python.sync_playwright import Axe

    results = Axe().run(page)
    assert results.violations_count == 0, results.generate_report()


def check_width(page: Any) -> None:
    """Fail if the page is wider than the window, so that a phone would scroll sideways."""
    widths = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert widths[0] <= widths[1]
