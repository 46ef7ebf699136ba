"""Estimate the time, memory and disk that a command needs.

A command announces long work before it starts, and refuses work that this machine cannot do.

The times are for a CPU core of 2023 and are right within a factor of two or three. Each comes from
the measurement in its docstring; docs/sieve.md explains the times of the sieve.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt, log
from pathlib import Path

from .errors import InputError
from .memory import check_memory, format_size, two_digits

LONG = 10.0  # seconds; work that takes longer is announced
LARGE = 1e9  # bytes of memory or disk; work that needs more is announced
ENDLESS = 365 * 86400.0  # seconds; work that takes longer is refused

# suffix of a file: (nanoseconds, bytes) per word
_FILES = {".txt": (50, 9), ".npy": (9, 8), ".npz": (290, 1), ".parquet": (60, 1.4)}


@dataclass(frozen=True)
class Cost:
    """Seconds of time, and bytes of memory and of disk."""

    seconds: float = 0.0
    memory: float = 0.0
    disk: float = 0.0


def check(cost: Cost, folder: Path | None = None) -> None:
    """Announce long work on standard error; refuse work that this machine cannot do.

    `folder` is where the files are written.
    """
    check_memory(cost.memory)
    if folder is not None:
        if not folder.is_dir():
            raise InputError(f"there is no folder {folder}")
        free = shutil.disk_usage(folder).free
        if cost.disk > free:
            raise InputError(
                f"this needs about {format_size(cost.disk)} on disk,"
                f" and {format_size(free)} are free"
            )
    if cost.seconds > ENDLESS:
        raise InputError(f"this would take about {_time(cost.seconds)}: ask for less")
    if cost.seconds > LONG or max(cost.memory, cost.disk) > LARGE:
        parts = [
            _time(cost.seconds),
            f"{format_size(cost.memory)} of memory" if cost.memory > LARGE else "",
            f"{format_size(cost.disk)} on disk" if cost.disk > LARGE else "",
        ]
        print(f"This will take about {', '.join(filter(None, parts))}.", file=sys.stderr)


def visit(lo: int, hi: int, *, nanoseconds: float = 0.0) -> Cost:
    """The cost of sieving lo ≤ n < hi on all cores, with `nanoseconds` of other work per word.

    A word takes 1.5 ns, and each segment takes 2.5 ns more for every prime up to √hi. Measured: 580
    million words a second at 10^10, 168 million at 10^15, 20 million at 10^18.
    """
    from .text.sieve import check_range, segment_size

    check_range(lo, hi)
    root = isqrt(hi) + 2
    sieving = 1.5 + 2.5 * root / log(root) / segment_size(hi)
    return Cost((hi - lo) * (sieving + nanoseconds) * 1e-9 / _cores())


def export(lo: int, hi: int, suffix: str) -> Cost:
    """The cost of writing words to a file: one core writes while the others sieve."""
    nanoseconds, size = _FILES.get(suffix, (0, 0))
    seconds = max(visit(lo, hi).seconds, (hi - lo) * nanoseconds * 1e-9)
    # Other suffixes are refused later.
    return Cost(seconds, disk=(hi - lo) * size) if size else Cost()


def arrays(lo: int, hi: int, fields: Sequence[str], suffix: str) -> Cost:
    """The cost of writing arithmetic functions to a file: one core writes, the others sieve.

    Measured with 1, 2 and 9 fields at 10^6 and 10^15. For an .npz file the range is sieved once for
    each field.
    """
    number = len(fields)
    compressed = sum(1.0 if name == "packed" else 0.4 for name in fields)
    whole = sum(8.0 if name == "packed" else 1.0 for name in fields)
    nanoseconds, size = {
        ".csv": (200.0 + 65 * number, len(str(hi)) + 1.0 + 2 * number),
        ".npy": (9.0 * number, whole),
        ".npz": (150.0 * number, compressed),
        ".parquet": (20.0 * number, compressed),
    }.get(suffix, (0.0, 0.0))  # other suffixes are refused later
    rounds = number if suffix == ".npz" else 1
    sieving = rounds * visit(max(lo, 2), max(hi, 3), nanoseconds=number).seconds
    return Cost(max(sieving, (hi - lo) * nanoseconds * 1e-9), disk=(hi - lo) * size)


def census(x: int) -> Cost:
    """The cost of a census up to x.

    Measured on one core: 3 s at 10^13, 21 s at 10^14, 122 s and 290 MB at 10^15. Two thirds of the
    work run on all cores. The memory holds a sieve up to 32 √x.
    """
    from .counting.census import check_bound

    check_bound(x)
    seconds = 122 * (x / 1e15) ** 0.77
    return Cost(seconds * (1 + 2 / _cores()) / 3, memory=9.2 * isqrt(x))


def divergence(n: int, chunks: int) -> Cost:
    """The cost of counting the words of each chunk and comparing every two chunks.

    Measured: 1.5 ns to count a word, 3.2 ns to compare the counts of one word in two chunks.
    """
    from .counting.dictionary import dictionary_size
    from .counting.histograms import check_chunks

    check_chunks(n, chunks)
    words = dictionary_size(n)
    comparing = chunks**2 / 2 * words * 3.2e-9
    tables, matrix = 64 * chunks * words, 8 * chunks**2
    return Cost(visit(2, n, nanoseconds=1.5).seconds + comparing, memory=tables + matrix)


def blocks(lo: int, hi: int, longest: int) -> Cost:
    """The cost of counting blocks of 1 to `longest` words; each word more doubles the time.

    Measured at 10^15: 45 ns per integer for blocks of up to 3 words, 80 ns for 4, 580 ns for 6.
    Blocks of 8 words are refused wherever there are more than 255 different words.
    """
    return visit(lo, hi, nanoseconds=8.0 * 2 ** min(longest, 8))


def compression(lo: int, hi: int) -> Cost:
    """The cost of compressing the text: 15 µs per word, nearly all for xz, which needs 700 MB."""
    from .counting.order import check_length

    check_length(lo, hi)
    return Cost(visit(lo, hi).seconds + 15e-6 * (hi - lo), memory=7e8 + 20 * (hi - lo))


def tokenizer(size: int, lines: int) -> Cost:
    """The cost of training byte-pair encoding.

    Measured: 23 s for 16,384 tokens from 8,192 lines, and 8 kB of memory per line.
    """
    from .tokens.training import check_lines, check_size

    check_size(size)
    check_lines(lines)
    return Cost(lines * (1.5e-4 + 2e-7 * size), memory=8e3 * lines)


def evaluation(
    prompts: int, context: int, parameters: int, *, generates: bool, windowed: bool, gpu: bool
) -> Cost:
    """The cost of measuring a model in one window of the text.

    A windowed model reads its whole context for each generated token, and generates as many tokens
    as its context has. The other measurements read about 200 contexts per prompt; a masked model
    reads 9 in all. A model without parameters takes about 2 s per prompt.
    """
    contexts = (context if windowed else 0) + 200 if generates else 9
    seconds = _reading(contexts * context, parameters, gpu) if parameters else 2.0
    return Cost(prompts * seconds, memory=48 * prompts * context)


def probing(windows: int, context: int, parameters: int, *, gpu: bool) -> Cost:
    """The cost of probes: a model with trained weights and one without read all windows.

    Measured on one core with 70 windows: 43 s for `pretrained`, 129 s for `longconv`.
    """
    return Cost(2 * _reading(windows * context, parameters, gpu))


def _reading(tokens: float, parameters: int, gpu: bool) -> float:
    """Seconds in which a model reads tokens: a core does about 5e10 operations a second."""
    return 2 * parameters * tokens / (4e14 if gpu else 5e10 * _cores())


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # the process may be restricted to some cores
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _time(seconds: float) -> str:
    """Seconds in a readable unit.

    >>> _time(75), _time(7200), _time(3.5e9)
    ('75 s', '2 h', '110 years')
    """
    for unit, name in ((365 * 86400, "years"), (86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * unit:
            return f"{two_digits(seconds / unit)} {name}"
    return f"{two_digits(seconds)} s"
