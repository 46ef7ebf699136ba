"""Long work as a stream of JSON lines, which stops when its reader leaves.

The work is a generator. Each step runs on a thread, and between two steps the stream looks whether
its reader is still there, so a step should take less than a second. At most `MOST_STREAMS` run at
once; one more is refused, because it would only slow the others down.
"""

import json
import time
import traceback
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from threading import BoundedSemaphore, Event
from typing import Any

import anyio
from anyio import to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..errors import InputError
from .pages import FAILED, sentence

MOST_STREAMS = 8
MOST_SECONDS = 300  # of one stream
LAST_LINE_SECONDS = 5  # a reader that takes longer to read the last lines is cut off

_slots = BoundedSemaphore(MOST_STREAMS)
stopping = Event()  # set when the server stops: every stream ends after its current step

Line = Mapping[str, Any]


class Busy(Exception):
    """Too much work is running already."""


@contextmanager
def slot() -> Iterator[None]:
    """Hold one of the places for long work while the block runs."""
    if not _slots.acquire(blocking=False):
        raise Busy(f"{MOST_STREAMS} long jobs are running already. Stop one, or try again soon.")
    try:
        yield
    finally:
        _slots.release()


class LineStream(Response):
    """Sends each line of the work as JSON; an exception becomes a last line with `error`."""

    media_type = "application/x-ndjson"

    def __init__(self, work: Generator[Line, None, None]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self.work = work
        self.ends = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        if scope["method"] == "HEAD":  # asks for the headers only: no work
            await send(start)
            await send({"type": "http.response.body", "body": b""})
            return
        with slot():
            self.ends = time.monotonic() + MOST_SECONDS
            try:
                async with anyio.create_task_group() as tasks:
                    # Also ends a stream whose reader stays but no longer reads.
                    tasks.cancel_scope.deadline = (
                        anyio.current_time() + MOST_SECONDS + LAST_LINE_SECONDS
                    )
                    tasks.start_soon(partial(_cancel_at_disconnect, receive, tasks.cancel_scope))
                    await send(start)
                    await self._send_lines(send)
                    tasks.cancel_scope.cancel()
            finally:
                # No step is running: a thread is not abandoned when its task is cancelled.
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(self._close)

    async def _send_lines(self, send: Send) -> None:
        more = True
        while more:
            body, more = await to_thread.run_sync(self._next_line)
            await send({"type": "http.response.body", "body": body, "more_body": more})

    def _next_line(self) -> tuple[bytes, bool]:
        """The next line, and whether others may follow."""
        if stopping.is_set():
            return _encoded({"error": "The explorer was stopped."}), False
        if time.monotonic() > self.ends:
            error = f"This was stopped after {MOST_SECONDS / 60:g} minutes."
            return _encoded({"error": error}), False
        try:
            return _encoded(next(self.work)), True
        except StopIteration:
            return b"", False
        except InputError as error:
            return _encoded({"error": sentence(str(error))}), False
        except Exception:
            traceback.print_exc()
            return _encoded({"error": FAILED}), False

    def _close(self) -> None:
        """Let the work clean up."""
        try:
            self.work.close()
        except Exception:
            traceback.print_exc()


def _encoded(line: Line) -> bytes:
    text = json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return f"{text}\n".encode()


async def _cancel_at_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
