"""`nt bench explore`: how fast the explorer answers a hundred readers at once.

Each reader has a connection of its own and asks for one page of an integer after another. The same
load runs twice: alone, and while the server also searches for a sentence. The
server is a process of its own; readers and server share the machine.
"""

import asyncio
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from .comparison import machine

READERS = 100
REQUESTS = 2000  # of each load
MOST_SECONDS = 20.0  # of each load
BELOW = 10**13  # the integers of new pages are random below this
SEARCH = "/api/find?sentence=111000+10&from=1e12&to=1090000000000"  # takes minutes

NEW, SEEN = "pages of new integers", "a page seen before"


def measure() -> dict[str, Any]:
    with _server() as port:
        _measure(port)  # compiles kernels and fills caches
        alone = _measure(port)
        with _search(port):
            searching = _measure(port)
    return {
        "conditions": {
            "machine": machine(),
            "cores": os.cpu_count(),
            "readers at once": READERS,
            "requests of each load": f"{REQUESTS}, in at most {MOST_SECONDS:g} s",
            "search": SEARCH,
        },
        "unit": "pages a second, and milliseconds that half and 99 % of the answers take at most",
        "ours": alone,
        "peers": {"while a search runs": searching},
        "ratio": {
            "while a search runs": {
                case: round(value / searching[case], 3) for case, value in alone.items()
            }
        },
    }


def _measure(port: int) -> dict[str, float]:
    figures = {}
    chance = random.Random()  # a seed would give pages that the server still has in memory
    loads = {
        NEW: (f"/n/{chance.randrange(2, BELOW)}" for _ in count()),
        SEEN: ("/n/360" for _ in count()),
    }
    for name, paths in loads.items():
        began = time.perf_counter()
        times = sorted(asyncio.run(_load(port, paths)))
        figures[f"{name}: pages/s"] = round(len(times) / (time.perf_counter() - began), 1)
        figures[f"{name}: ms, 50 %"] = round(1000 * times[len(times) // 2], 2)
        figures[f"{name}: ms, 99 %"] = round(1000 * times[len(times) * 99 // 100], 2)
    return figures


async def _load(port: int, paths: Iterator[str]) -> list[float]:
    """The seconds of each request, from all readers."""
    times: list[float] = []
    asked = iter(range(REQUESTS))
    ends = time.perf_counter() + MOST_SECONDS

    async def read_pages() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for path, _ in zip(paths, asked, strict=False):
            began = time.perf_counter()
            if began > ends:
                break
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head)
            if not head.startswith(b"HTTP/1.1 200 ") or length is None:
                raise ValueError(f"{path} was not answered: {head[:80]!r}")
            await reader.readexactly(int(length[1]))
            times.append(time.perf_counter() - began)
        writer.close()

    async with asyncio.TaskGroup() as readers:
        for _ in range(READERS):
            readers.create_task(read_pages())
    return times


@contextmanager
def _server() -> Iterator[int]:
    """The port of a running `nt explore`, in an empty folder."""
    run = "from arithmetext.cli import main; main()"
    command = [sys.executable, "-c", run, "explore", "--no-browser", "--port", "0"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as server,
    ):
        try:
            assert server.stdout is not None
            port = re.search(r"127\.0\.0\.1:(\d+)", server.stdout.readline())
            assert port is not None
            yield int(port[1])
        finally:
            server.kill()


@contextmanager
def _search(port: int) -> Iterator[None]:
    """Read the stream of a search in another process while the block runs."""
    reader = (
        "import sys, urllib.request\n"
        f"answer = urllib.request.urlopen('http://127.0.0.1:{port}{SEARCH}')\n"
        "print('begun', answer.readline(), flush=True)\n"
        "for line in answer: pass\n"
    )
    with subprocess.Popen([sys.executable, "-c", reader], stdout=subprocess.PIPE) as search:
        try:
            assert search.stdout is not None
            if not search.stdout.readline().startswith(b"begun"):
                raise ValueError(f"{SEARCH} was not answered")
            yield
            if search.poll() is not None:
                raise ValueError("the search ended before the load")
        finally:
            search.kill()
