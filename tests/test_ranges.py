"""Pieces of a range: each computed once and in order, on threads and on a Dask cluster."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arithmetext.errors import InputError
from arithmetext.text import ranges
from arithmetext.text.ranges import over_ranges, spans

TIMEOUT = 60  # seconds for steps that take one second on an idle machine


# Jobs. Workers import them from this file.


def integers(lo: int, hi: int) -> tuple[int, int, int]:
    return lo, hi, sum(range(lo, hi))


def traced(folder: Path, seconds: float, lo: int, hi: int) -> tuple[int, int, int]:
    """Write a file named by the piece and the process, then sleep."""
    (folder / f"{lo}-{os.getpid()}").touch()
    time.sleep(seconds)
    return integers(lo, hi)


def fail_at(where: int, lo: int, hi: int) -> int:
    if lo <= where < hi:
        raise FileNotFoundError(f"nothing at {where}")
    return lo


def traces(folder: Path) -> list[tuple[int, int]]:
    """(piece, process), sorted by piece."""
    names = (path.name.split("-") for path in folder.iterdir())
    return sorted((int(lo), int(pid)) for lo, pid in names)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# Pieces


@given(st.integers(2, 2**63), st.integers(0, 2000), st.integers(1, 500))
def test_spans_cover_the_range_once(lo: int, length: int, size: int) -> None:
    pieces = list(spans(lo, lo + length, size))
    assert [n for a, b in pieces for n in range(a, b)] == list(range(lo, lo + length))
    assert all(0 < b - a <= size for a, b in pieces)
    assert all(b % size == 0 for _, b in pieces[:-1])


def test_spans_are_lazy() -> None:
    assert list(islice(spans(2, 2**63, 10), 3)) == [(2, 10), (10, 20), (20, 30)]


# Threads


@pytest.mark.parametrize("threads", [None, 1, 2, 5])
def test_threads_keep_the_order(threads: int | None) -> None:
    expected = [integers(a, b) for a, b in spans(13, 5000, 70)]
    assert list(over_ranges(integers, 13, 5000, size=70, threads=threads)) == expected


def test_an_empty_range_has_no_pieces() -> None:
    assert list(over_ranges(integers, 7, 7, size=10)) == []


def test_one_piece_runs_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without threads and progress, which take longer than a small job."""
    monkeypatch.setattr(ranges, "progress", None)
    here = threading.get_ident()
    where = over_ranges(lambda lo, hi: (lo, hi, threading.get_ident()), 30, 40, size=20, threads=2)
    assert list(where) == [(30, 40, here)]


def test_threads_work_at_the_same_time() -> None:
    meeting = threading.Barrier(2)

    def meet(lo: int, hi: int) -> int:
        meeting.wait(TIMEOUT)
        return lo

    assert list(over_ranges(meet, 0, 8, size=1, threads=2)) == list(range(8))


@pytest.mark.parametrize(("threads", "most"), [(1, 1), (2, 4)])
def test_threads_do_not_run_ahead_of_the_consumer(threads: int, most: int) -> None:
    started: list[int] = []

    def note(lo: int, hi: int) -> int:
        started.append(lo)
        return lo

    for taken, _ in enumerate(over_ranges(note, 0, 30, size=1, threads=threads)):
        time.sleep(0.01)  # enough time to run ahead
        assert len(started) <= taken + most


@pytest.mark.parametrize("threads", [1, 2])
def test_the_exception_of_a_job_is_raised_unchanged(threads: int) -> None:
    before = threading.active_count()
    with pytest.raises(FileNotFoundError, match="nothing at 55"):
        list(over_ranges(partial(fail_at, 55), 0, 100, size=10, threads=threads))
    assert threading.active_count() == before


def test_closing_ends_the_work() -> None:
    before = threading.active_count()
    started: list[int] = []

    def note(lo: int, hi: int) -> int:
        started.append(lo)
        time.sleep(0.05)
        return lo

    results = over_ranges(note, 0, 10**9, size=1, threads=2)
    assert next(results) == 0
    results.close()
    assert len(started) <= 4
    assert threading.active_count() == before


@pytest.mark.skipif(os.name != "posix", reason="a process cannot interrupt itself there")
def test_an_interrupt_ends_the_work() -> None:
    before = threading.active_count()

    def interrupt(lo: int, hi: int) -> None:
        if lo == 5:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.05)

    with pytest.raises(KeyboardInterrupt):
        list(over_ranges(interrupt, 0, 10**9, size=1, threads=2))
    assert threading.active_count() == before


# A cluster: real schedulers and workers, each in a process of its own


@contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of a cluster on this machine, and its scheduler."""
    distributed = pytest.importorskip("distributed")
    card = folder / "scheduler.json"
    common = ["--no-dashboard", "--scheduler-file", str(card)]
    roles = [["scheduler", "--host", "127.0.0.1", "--port", "0"]]
    # Without a nanny a killed worker stays dead.
    roles += [["worker", "--nthreads", "1", "--no-nanny"]] * workers
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with (folder / "cluster.log").open("wb") as log:
        processes = [
            subprocess.Popen(
                [sys.executable, "-m", "dask", *role, *common],
                cwd=folder,
                env=environment,
                stdout=log,
                stderr=log,
            )
            for role in roles
        ]
    try:
        wait_until(lambda: card.exists() and card.read_text().endswith("}"))
        address = json.loads(card.read_text())["address"]
        with distributed.Client(address, set_as_default=False) as client:
            wait_until(lambda: len(client.nthreads()) == workers)
        yield address, processes[0]
    finally:
        for process in processes:
            process.kill()
            process.wait()


def test_a_cluster_gives_what_threads_give(tmp_path: Path) -> None:
    trail = tmp_path / "trail"
    trail.mkdir()
    with dask_cluster(tmp_path, workers=2) as (address, scheduler):
        job = partial(traced, trail, 0.02)
        results = []
        for result in over_ranges(job, 13, 3000, size=100, cluster=address):
            results.append(result)
            assert len(traces(trail)) < len(results) + 4
        assert results == list(over_ranges(integers, 13, 3000, size=100, threads=2))
        assert len({pid for _, pid in traces(trail)} - {os.getpid()}) == 2

        with pytest.raises(FileNotFoundError, match="nothing at 55"):
            list(over_ranges(partial(fail_at, 55), 0, 100, size=10, cluster=address))

        endless = over_ranges(partial(traced, trail, 0.1), 10**6, 10**9, size=1, cluster=address)
        next(endless)
        endless.close()
        time.sleep(1)
        assert len(traces(trail)) <= len(results) + 4

        with pytest.raises(InputError, match=f"^lost the Dask cluster at {address}$"):
            for _ in over_ranges(integers, 2, 10**9, size=10, cluster=address):
                scheduler.kill()


@pytest.mark.parametrize("pause", [0, 1.5], ids=["at work", "result not fetched"])
def test_a_piece_whose_worker_is_killed_is_computed_again(tmp_path: Path, pause: float) -> None:
    trail = tmp_path / "trail"
    trail.mkdir()
    with dask_cluster(tmp_path, workers=2) as (address, _):
        results = over_ranges(partial(traced, trail, 0.3), 13, 1300, size=100, cluster=address)
        taken = list(islice(results, 4))
        piece = taken[-1][1] + 200  # the last of the three in flight
        wait_until(lambda: piece in dict(traces(trail)))
        time.sleep(pause)
        victim = dict(traces(trail))[piece]
        os.kill(victim, getattr(signal, "SIGKILL", signal.SIGTERM))  # Windows has no SIGKILL
        assert taken + list(results) == [integers(a, b) for a, b in spans(13, 1300, 100)]
        assert len([pid for lo, pid in traces(trail) if lo == piece and pid != victim]) == 1


def test_a_missing_cluster_gives_a_one_line_error(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "_TIMEOUT", 4)  # every address below uses all of it

    def complaint(address: str) -> str:
        with pytest.raises(InputError) as error:
            list(over_ranges(integers, 2, 100, size=10, cluster=address))
        return str(error.value)

    with (
        dask_cluster(tmp_path, workers=0) as (workless, _),
        socket.create_server(("127.0.0.1", 0)) as silent,
        socket.socket() as closed,
    ):
        closed.bind(("127.0.0.1", 0))  # bound but not listening: refuses connections
        ports = [listener.getsockname()[1] for listener in (silent, closed)]
        unreachable = [f"tcp://127.0.0.1:{port}" for port in ports]
        unreachable += [
            "",
            "tcp://",
            "tcp://127.0.0.1",
            "tcp://127.0.0.1:port",
            "carrier://pigeon:1",
        ]
        with ThreadPoolExecutor(8) as pool:
            complaints = list(pool.map(complaint, [workless, *unreachable]))
    assert complaints[0] == f"the Dask cluster at {workless} has no workers"
    assert complaints[1:] == [f"cannot reach a Dask cluster at {each}" for each in unreachable]
    assert capfd.readouterr().err == ""
