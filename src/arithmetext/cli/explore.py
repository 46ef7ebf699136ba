"""`nt explore`: the explorer in a browser."""

import errno
import socket
import sys
import webbrowser
from pathlib import Path
from threading import Event, Thread, Timer
from typing import Annotated

import typer

from ..errors import InputError
from ..models.names import check_name
from .evaluate import complete_model
from .options import at_least

ADDRESS = "127.0.0.1"  # other machines cannot reach it
GRACE = 2  # seconds in which answers may end after Ctrl-C


def explore(
    models: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]...",
            help="Models to show first: folders of runs, pretrained, longconv, record, locator,"
            " ngram-K or oracle-B.",
            autocompletion=complete_model,
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            parser=at_least(0, 65535), metavar="K", help="Port of the server; 0 takes a free one."
        ),
    ] = 8360,
    browser: Annotated[
        bool,
        typer.Option(
            "--browser/--no-browser",
            help="Open a web browser (the default), or only print the address.",
        ),
    ] = True,
) -> None:
    """Look at the text in a web browser.

    Pages about integers, the text, searches, models, and the runs and reports in this folder. The
    server is reachable from this machine only; Ctrl-C stops it.
    """
    import uvicorn

    from ..web.app import make_app
    from ..web.number import FACTORING_SECONDS
    from ..web.streams import stopping

    for name in models or []:
        check_name(name)
    app = make_app(Path(), models or [])
    try:
        listening = socket.create_server((ADDRESS, port))
    except OSError as error:
        used = error.errno == errno.EADDRINUSE
        why = "is in use" if used else f"cannot be used ({error.strerror})"
        raise InputError(f"port {port} {why}: choose another with --port") from None
    address = f"http://{ADDRESS}:{listening.getsockname()[1]}/"
    print(f"The explorer is at {address} (Ctrl-C stops it).", flush=True)
    if browser and sys.stdout.isatty():
        Timer(0.5, webbrowser.open, [address]).start()
    server = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=GRACE)
    )
    ended = Event()
    failures: list[BaseException] = []

    def serve() -> None:
        try:
            server.run(sockets=[listening])
        except BaseException as failure:
            failures.append(failure)
        finally:
            ended.set()

    Thread(target=serve, daemon=True).start()
    try:
        while not ended.wait(1):  # not join: once interrupted, it takes the thread for ended
            pass
    except KeyboardInterrupt:
        # Streams end after a step. A factorisation in its own process ends with its time limit; if
        # we left before, the process would go on.
        stopping.set()
        server.should_exit = True
        ended.wait(FACTORING_SECONDS + 1)
        raise
    for failure in failures:
        raise failure
