"""Map a function over the pieces of an integer range, on threads or on a Dask cluster.

Pieces are computed in parallel, and results come back in order. The caller combines them with a
plain loop.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from itertools import islice, starmap
from typing import Any, TypeVar

from ..errors import InputError
from ..progress import progress

MAX = 2**63  # the end of the text: all integers are below, and their packed words fit 64 bits

T = TypeVar("T")

# Workers are two functions. The first starts a job on a piece and returns a function that waits for
# the result. The second returns how many pieces may be in flight now.
_Start = Callable[[Callable[[int, int], Any], int, int], Callable[[], Any]]
_Workers = tuple[_Start, Callable[[], int]]

_TIMEOUT = 8  # seconds to wait for the scheduler of a cluster, then for its first worker


def spans(lo: int, hi: int, size: int) -> Iterator[tuple[int, int]]:
    """Cut [lo, hi) into half-open pieces of at most `size` integers, at multiples of `size`.

    The cuts do not depend on lo and hi, so overlapping ranges are cut at the same integers.
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
    """Yield job(a, b) for each piece [a, b) of [lo, hi), in order, computing several in parallel.

    Pieces run on threads, by default one for each core; jobs run in parallel where their kernels
    release the GIL. With `cluster="tcp://host:port"` they run on the workers of a Dask cluster,
    which must be able to import the job. If a worker dies, its pieces are computed again; if no
    worker is left, the iterator waits for a new one.

    At most two pieces for each worker are in flight, so memory does not grow with the range. If a
    job raises an exception, it is raised here and the other jobs are cancelled. Closing the
    iterator cancels them too.
    """
    pieces = spans(lo, hi, size)
    if cluster is None and hi <= lo - lo % size + size:  # one piece needs no pool and no progress
        yield from starmap(job, pieces)
        return
    workers = _threads(threads or os.cpu_count() or 1) if cluster is None else _cluster(cluster)
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
    if count == 1:  # no pool: the job runs when its result is asked for
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
    for chatty in "distributed.client", "distributed.batched":  # errors are raised below
        logging.getLogger(chatty).setLevel(logging.CRITICAL)

    try:
        # In another thread, because in a notebook this thread already runs an event loop.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(asyncio.run, _check_scheduler(dask.rpc(address))).result()
    except Exception:  # another kind of server may send anything, so not only OSError
        raise InputError(f"cannot reach a Dask cluster at {address}") from None

    with closing(dask.Client(address, timeout=_TIMEOUT, set_as_default=False)) as client:
        try:
            client.wait_for_workers(1, timeout=_TIMEOUT)
        except TimeoutError:
            raise InputError(f"the Dask cluster at {address} has no workers") from None
        try:
            # If a worker dies, Dask computes its pieces again. Workers come and go, so they are
            # counted each time.
            yield (
                lambda job, a, b: client.submit(job, a, b, pure=False).result,
                lambda: max(1, 2 * sum(client.nthreads().values())),
            )
        except Exception as error:
            lost = isinstance(error, CancelledError | dask.comm.CommClosedError)
            if client.status == "running" and not lost:
                raise
            raise InputError(f"lost the Dask cluster at {address}") from None


async def _check_scheduler(server: Any) -> None:
    """Raise unless a scheduler answers in time: on a silent port dask.Client waits forever."""
    import asyncio

    async with asyncio.timeout(_TIMEOUT), server:
        if (await server.identity())["type"] != "Scheduler":
            raise ConnectionError
