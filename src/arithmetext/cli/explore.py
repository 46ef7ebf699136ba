"""`nt explore`: the explorer in a browser."""

import socket
import sys
import webbrowser
from pathlib import Path
from threading import Timer
from typing import Annotated

import typer

from ..errors import InputError
from .options import at_least

ADDRESS = "127.0.0.1"  # other machines cannot reach it


def explore(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Models to show first: folders of runs, locator, ngram-K or oracle-B.",
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            parser=at_least(0, 65535), metavar="K", help="Port of the server; 0 takes a free one."
        ),
    ] = 8360,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open a web browser.")
    ] = True,
) -> None:
    """Look at the text in a web browser.

    Pages about integers, the text, searches, models, and the runs and reports in this folder. The
    server is reachable from this machine only; Ctrl-C stops it.
    """
    import uvicorn

    from ..web.app import make_app

    app = make_app(Path(), models or [])
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((ADDRESS, port))
    except OSError:
        raise InputError(f"port {port} is in use: choose another with --port") from None
    address = f"http://{ADDRESS}:{listening.getsockname()[1]}/"
    print(f"The explorer is at {address} (Ctrl-C stops it).", flush=True)
    if browser and sys.stdout.isatty():
        Timer(0.5, webbrowser.open, [address]).start()
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=3))
    server.run(sockets=[listening])
