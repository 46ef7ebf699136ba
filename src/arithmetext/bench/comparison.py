"""Run our code and its peers in turn, and compare their speeds."""

import platform
import re
import time
from collections.abc import Callable
from typing import Any

# "ours" or a peer → case → a function that runs it once and returns its seconds.
Timers = dict[str, dict[str, Callable[[], float]]]

ROUNDS = 5  # the fastest counts, since other work can slow a round down


def compare(
    timers: Timers,
    counts: dict[str, int],
    *,
    unit: str,
    conditions: dict[str, Any],
    per: float = 1e6,
    rounds: int = ROUNDS,
) -> dict[str, Any]:
    """Run all cases in turn, `rounds` times; return rates in units of `per`, and ours ÷ theirs.

    `counts`: how many integers, characters or tokens one run of each case handles.
    """
    best: dict[tuple[str, str], float] = {}
    for _ in range(rounds):
        for who, cases in timers.items():
            for case, timer in cases.items():
                best[who, case] = min(timer(), best.get((who, case), float("inf")))
    rates = {
        who: {case: counts[case] / best[who, case] / per for case in cases}
        for who, cases in timers.items()
    }
    ours = rates.pop("ours")
    ratio = {
        who: {case: ours[case] / rate for case, rate in cases.items()}
        for who, cases in rates.items()
    }
    return {
        "conditions": {"machine": machine(), "best of": rounds} | conditions,
        "unit": unit,
        "ours": _rounded(ours),
        "peers": {who: _rounded(cases) for who, cases in rates.items()},
        "ratio": {who: _rounded(cases) for who, cases in ratio.items()},
    }


def _rounded(values: dict[str, float]) -> dict[str, float]:
    """To four significant digits."""
    return {name: float(f"{value:.4g}") for name, value in values.items()}


def timed(work: Callable[[], Any]) -> float:
    """The seconds that a function takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def machine() -> str:
    """The name of the CPU and the version of Python."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
            name = re.findall(r"model name\s*: (.*)", cpuinfo.read())[0]
    except (OSError, IndexError):
        pass
    return f"{name}, Python {platform.python_version()}"
