"""The web app: its pages, what every response has in common, and how errors look.

Each page has a module with its `routes`, a template, and a script of the same name: `number` is
/n/360 and the JSON at /api/n/360. Work is cheap, or it is a stream (`streams`), of which only a few
run at once.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from threading import Thread

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..errors import InputError
from . import find, locate, model, number, report, text
from .pages import FAILED, answer_json, render, sentence
from .streams import Busy

# A page may load scripts, styles and data from this server only, and nothing may frame it.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",  # ask again: files change while the explorer runs
}

PAGES = (number, text, find, locate, model, report)


def make_app(folder: Path, models: Sequence[str] = ()) -> Starlette:
    """The app. It shows the runs and reports in a folder, and these models first."""
    routes = [
        Route("/", lambda request: RedirectResponse("/n/360")),
        *(route for page in PAGES for route in page.routes),
        Mount("/static", StaticFiles(directory=str(files(__package__).joinpath("static")))),
    ]
    app = Starlette(
        routes=routes,
        lifespan=_warm_up,
        middleware=[
            Middleware(SafeHeaders),
            # Another site's name that resolves to this machine must not reach the app.
            Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"]),
            Middleware(OwnRequests),
        ],
        exception_handlers={
            InputError: _bad_input,
            Busy: _busy,
            HTTPException: _http_error,
            Exception: _failure,
        },
    )
    app.state.folder = folder.resolve()
    app.state.models = list(models)
    return app


@asynccontextmanager
async def _warm_up(app: Starlette) -> AsyncIterator[None]:
    """Count words and load kernels in the background, so that the first page is fast too."""
    Thread(target=number.prepare, daemon=True).start()
    yield


class SafeHeaders:
    """Adds the security headers to every response that does not set them itself."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_safe(message: Message) -> None:
            if message["type"] == "http.response.start":
                present = {name for name, _ in message["headers"]}
                message["headers"] = [
                    *message["headers"],
                    *(
                        (name.encode(), value.encode())
                        for name, value in HEADERS.items()
                        if name.encode() not in present
                    ),
                ]
            await send(message)

        await self.app(scope, receive, send_safe if scope["type"] == "http" else send)


class OwnRequests:
    """Refuses what a page of another site loads, which could start work here; links are followed.

    Browsers say in headers where a request comes from (Sec-Fetch-Site) and what it is for
    (Sec-Fetch-Dest); other programs send none.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            own = headers.get("sec-fetch-site", "none") in ("none", "same-origin")
            if not own and headers.get("sec-fetch-dest") != "document":  # such as a frame
                message = "The explorer answers its own pages only, not those of other sites.\n"
                await PlainTextResponse(message, 403)(scope, receive, send)
                return
        await self.app(scope, receive, send)


def error(request: Request, message: str, status: int) -> Response:
    """An error as a sentence: JSON for the API, a page for people."""
    message = sentence(message)
    if request.url.path.startswith("/api/"):
        return answer_json({"error": message}, status=status)
    asked = request.path_params.get("n") or request.query_params.get("n", "")
    return render(request, "error", status=status, message=message, asked=asked)


def _bad_input(request: Request, exception: Exception) -> Response:
    return error(request, str(exception), 400)


def _busy(request: Request, exception: Exception) -> Response:
    return error(request, str(exception), 503)


def _http_error(request: Request, exception: Exception) -> Response:
    assert isinstance(exception, HTTPException)
    path, message = request.url.path, exception.detail
    if exception.status_code == 405:
        message = f"{_shortened(path)} can only be read: use GET."
    elif message == HTTPStatus.NOT_FOUND.phrase:  # the router has no sentence
        message = f"There is no page {_shortened(path)}."
    response = error(request, message, exception.status_code)
    response.headers.update(exception.headers or {})
    return response


def _shortened(path: str) -> str:
    return path if len(path) <= 80 else f"{path[:79]}…"


def _failure(request: Request, exception: Exception) -> Response:
    response = error(request, FAILED, 500)
    response.headers.update(HEADERS)  # this answer is made outside of all middleware
    return response
