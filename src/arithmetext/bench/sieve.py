"""`nt bench sieve`: the speed of making words.

The peers do related work: PARI/GP factorises the same integers, and primesieve counts the primes
among them.
"""

import re
import shutil
import subprocess
import time
from functools import partial
from typing import Any

from ..text.ranges import over_ranges, spans
from ..text.sieve import piece_size, segment_size, words_in_buffer
from .comparison import Timers, compare


def measure() -> dict[str, Any]:
    def ours(lo: int, count: int, threads: int) -> float:
        def count_made(a: int, b: int) -> int:
            return sum(len(words_in_buffer(*span)) for span in spans(a, b, segment_size(b)))

        start = time.perf_counter()
        size = piece_size(lo + count)
        assert sum(over_ranges(count_made, lo, lo + count, size=size, threads=threads)) == count
        return time.perf_counter() - start

    ranges = {"1e10": (10**10, 10**7), "1e15": (10**15, 10**6)}
    # One thread and two are compared on a longer range, so that both threads have enough work.
    threads = {"1e10, 1 thread": 1, "1e10, 2 threads": 2}
    for lo, count in ranges.values():
        ours(lo, count, 1)  # compile the kernels and compute the base primes
    timers: Timers = {"ours": {name: partial(ours, *span, 1) for name, span in ranges.items()}}
    for name, number in threads.items():
        timers["ours"][name] = partial(ours, 10**10, 4 * 10**8, number)
    counts = {name: count for name, (_, count) in ranges.items()}
    counts |= dict.fromkeys(threads, 4 * 10**8)
    if shutil.which("gp"):
        bodies = {"forfactored, empty loop": "", "forfactored, counting primes": "c+=#n[2]~"}
        for peer, body in bodies.items():
            timers[peer] = {
                name: partial(_forfactored, *span, body) for name, span in ranges.items()
            }
    if shutil.which("primesieve"):
        timers["primesieve, counting"] = {
            name: partial(_primesieve, *span) for name, span in ranges.items()
        }
    return compare(
        timers,
        counts,
        unit="million integers a second",
        conditions={
            "ranges": "1e7 integers from 1e10 and 1e6 from 1e15, one thread; 4e8 from 1e10 for"
            " the threads",
            "not in the figures": "compiling, starting a process, and, for ours, computing the base"
            " primes, which is done once",
        },
    )


def _forfactored(lo: int, count: int, body: str) -> float:
    script = (
        f"c=0;t=getwalltime();\nforfactored(n={lo},{lo + count - 1},{body});\n"
        'print("ms ",getwalltime()-t)\n'
    )
    answer = subprocess.run(
        ["gp", "-q", "-f", "-s", "1G"], input=script, capture_output=True, text=True, check=True
    )
    return float(re.findall(r"ms (\d+)", answer.stdout)[0]) / 1000


def _primesieve(lo: int, count: int) -> float:
    # primesieve prints its time in milliseconds, which is too coarse here. So measure the time of a
    # process that does the work, and subtract the time of a process that counts a single integer.
    def run(length: int) -> float:
        start = time.perf_counter()
        subprocess.run(
            ["primesieve", str(lo), f"-d{length}", "-t1", "--quiet"],
            capture_output=True,
            check=True,
        )
        return time.perf_counter() - start

    return max(run(count) - run(1), 1e-4)
