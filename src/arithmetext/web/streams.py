"""Long work as a stream of JSON lines, which stops when its reader leaves.

The work is a generator. Each step runs on a thread, and between two steps the stream looks whether
its reader is still there, so a step should take less than a second. At most `MOST_STREAMS` run at
once; one more is refused, because it would only slow the others down.
"""

import json
import time
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from threading import BoundedSemaphore
from typing import Any

import anyio
from anyio import to_thread
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..errors import InputError
from .pages import sentence

MOST_STREAMS = 4
MOST_SECONDS = 300  # of one stream

_slots = BoundedSemaphore(MOST_STREAMS)

Line = Mapping[str, Any]


class Busy(Exception):
    """Too much work is running already."""


@contextmanager
def slot() -> Iterator[None]:
    """Hold one of the places for long work while the block runs."""
    _take_slot()
    try:
        yield
    finally:
        _slots.release()


def _take_slot() -> None:
    if not _slots.acquire(blocking=False):
        raise Busy(f"{MOST_STREAMS} long jobs are running already. Stop one, or try again soon.")


class LineStream(Response):
    """Sends each line of the work as JSON; an InputError becomes a last line with `error`."""

    media_type = "application/x-ndjson"

    def __init__(self, work: Generator[Line, None, None]) -> None:
        super().__init__()
        del self.headers["content-length"]
        self.work = work
        self.ends = time.monotonic() + MOST_SECONDS

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        _take_slot()
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(_cancel_at_disconnect, receive, tasks.cancel_scope))
                await self._send_lines(send)
                tasks.cancel_scope.cancel()
        finally:
            # A step in progress has ended, since a thread is not abandoned when it is cancelled.
            with anyio.CancelScope(shield=True):
                await to_thread.run_sync(self.work.close)
            _slots.release()

    async def _send_lines(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        while (line := await to_thread.run_sync(self._next_line)) is not None:
            body = json.dumps(line, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
            await send(
                {"type": "http.response.body", "body": f"{body}\n".encode(), "more_body": True}
            )
        await send({"type": "http.response.body", "body": b""})

    def _next_line(self) -> Line | None:
        if time.monotonic() > self.ends:
            self.work.close()
            self.ends = float("inf")
            return {"error": f"This was stopped after {MOST_SECONDS // 60} minutes."}
        try:
            return next(self.work, None)
        except InputError as error:
            return {"error": sentence(str(error))}


async def _cancel_at_disconnect(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()
