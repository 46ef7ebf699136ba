"""Map and reduce over integer ranges: threads here, a Dask cluster elsewhere.

What is asked of the whole text is asked of its pieces, and the answers are put together. The
pieces are done in parallel and come back in order, so that the caller reduces with a plain loop.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from itertools import islice
from typing import Any, TypeVar

from ..errors import InputError
from ..progress import progress

MAX = 2**63  # the text is served up to here; packed words fit 64 bits

T = TypeVar("T")

# Start a job on a piece and give the function that waits for its result; and how many pieces
# may be under way now.
_Start = Callable[[Callable[[int, int], Any], int, int], Callable[[], Any]]
_Workers = tuple[_Start, Callable[[], int]]

_PATIENCE = 8  # seconds that a cluster has to answer, and then to show a worker


def spans(lo: int, hi: int, size: int) -> Iterator[tuple[int, int]]:
    """Cut [lo, hi) into half-open pieces of at most `size` integers, at multiples of `size`.

    The cuts do not depend on lo and hi, so the pieces of overlapping ranges coincide.
    """
    while lo < hi:
        cut = min(hi, lo - lo % size + size)
        yield lo, cut
        lo = cut


def over_ranges(
    job: Callable[[int, int], T],
    lo: int,
    hi: int,
    *,
    size: int,
    threads: int | None = None,
    cluster: str | None = None,
    title: str = "",
    unit: str = "words",
) -> Generator[T, None, None]:
    """Yield job(lo, hi) for the pieces of [lo, hi) in order, working on several at once.

    The pieces go to threads (as many as there are cores unless said otherwise; a kernel that
    releases the GIL gains from it) or, with `cluster="tcp://host:port"`, to the workers of a Dask
    cluster, which must be able to import the job. A piece whose worker dies is done again; when
    no worker is left, the work waits for new ones.

    At most two pieces a worker are under way, whatever the range: memory does not grow with it.
    An exception in a job is raised here, and ends the work, as does closing the iterator.
    """
    workers = _threads(threads or os.cpu_count() or 1) if cluster is None else _cluster(cluster)
    pieces = spans(lo, hi, size)
    started: deque[tuple[int, Callable[[], T]]] = deque()
    with workers as (start, room), progress(title, hi - lo, unit) as advance:
        while True:
            for a, b in islice(pieces, max(0, room() - len(started))):
                started.append((b - a, start(job, a, b)))
            if not started:
                return
            integers, result = started.popleft()
            yield result()
            advance(integers)


@contextmanager
def _threads(count: int) -> Iterator[_Workers]:
    if count == 1:  # inline: a job not called yet is one that starts when its result is wanted
        yield partial, lambda: 1
        return
    from concurrent.futures import ThreadPoolExecutor

    pool = ThreadPoolExecutor(count)
    try:
        yield lambda job, a, b: pool.submit(job, a, b).result, lambda: 2 * count
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _cluster(address: str) -> Iterator[_Workers]:
    import asyncio
    import logging
    from concurrent.futures import CancelledError, ThreadPoolExecutor

    dask: Any = import_module("distributed")
    for chatty in "distributed.client", "distributed.batched":  # what matters is raised below
        logging.getLogger(chatty).setLevel(logging.CRITICAL)

    try:
        # In a thread, because a notebook already runs an event loop in this one.
        with ThreadPoolExecutor(1) as aside:
            aside.submit(asyncio.run, _greet(dask.rpc(address))).result()
    except Exception:  # not only OSError: a stranger's answer can be read as anything
        raise InputError(f"cannot reach a Dask cluster at {address}") from None

    with closing(dask.Client(address, timeout=_PATIENCE, set_as_default=False)) as client:
        try:
            client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            raise InputError(f"the Dask cluster at {address} has no workers") from None
        try:
            # Dask itself does again what a dead worker was doing, or had done and not yet handed
            # over. Workers come and go, so they are counted anew each time.
            yield (
                lambda job, a, b: client.submit(job, a, b, pure=False).result,
                lambda: max(1, 2 * sum(client.nthreads().values())),
            )
        except Exception as error:
            lost = isinstance(error, CancelledError | dask.comm.CommClosedError)
            if client.status == "running" and not lost:
                raise
            raise InputError(f"lost the Dask cluster at {address}") from None


async def _greet(server: Any) -> None:
    """Raise unless a scheduler answers: Client alone waits for ever on a port that is silent."""
    import asyncio

    async with asyncio.timeout(_PATIENCE), server:
        if (await server.identity())["type"] != "Scheduler":
            raise ConnectionError
