"""The walk of one word: how its number of occurrences fluctuates in windows of every length."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import exp
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..errors import InputError
from ..text.ranges import over_ranges, spans
from ..text.sieve import Words, piece_size, segment_size, words_in_buffer
from ..trees import tree_of_word
from .order import check_length

_Floats = NDArray[np.float64]
_Integers = NDArray[np.int64]

LOCAL = 100  # windows of `local_walks` begin at this many times their length, or later


@dataclass(frozen=True)
class Crossover:
    """Two power laws that meet at `lag`, with exponents `before` and `after` this lag."""

    lag: float
    before: float
    after: float
    rms: float  # root mean square residual of ln F²


@dataclass(frozen=True)
class Walk:
    """How the number of occurrences of one word in a window varies with the window's length.

    `fluctuations` is F²(l), the variance of this number over all windows of length l, for each of
    the `lags`. `exponents` is the local slope d ln F² / d ln l: 1 for a walk without memory
    (diffusive), above 1 for a walk that persists (superdiffusive), 2 for a ballistic walk.
    """

    word: str
    occurrences: int
    lags: list[int]
    fluctuations: list[float]
    exponents: list[float]
    crossover: Crossover


def walk(
    word: str, lo: int, hi: int, *, threads: int | None = None, cluster: str | None = None
) -> Walk:
    """The walk that steps up at every lo ≤ n < hi that has the word.

    Lags go from 1 to a hundredth of the range, ten in each decade; for longer lags there would be
    too few windows. The variance is taken around the mean of the whole range. If the density of the
    word drifts within the range, the drift adds to F² and makes long lags look ballistic. To tell
    drift from memory, compare with a range of the same length higher up, where the text hardly
    drifts, or use `local_walks`.
    """
    check_length(lo, hi)
    if hi - lo < 1000:
        raise InputError(f"a walk over {hi - lo} integers is too short: it needs at least 1000")
    packed = tree_of_word(word).packed
    path = np.zeros(hi - lo + 1, np.int32)
    if packed < 2**64:
        begin = 1
        job = partial(_steps, packed)
        for steps in over_ranges(
            job, lo, hi, size=piece_size(hi), threads=threads, cluster=cluster, title="walking"
        ):
            end = begin + len(steps)
            np.cumsum(steps, out=path[begin:end])
            path[begin:end] += path[begin - 1]
            begin = end
    if not path[-1]:
        raise InputError(f"the word {word or '(empty)'} does not occur in {lo}..{hi - 1}")
    decades = np.log10((hi - lo) / 100)
    lags = np.unique(np.logspace(0, decades, int(10 * decades) + 1).round().astype(int)).tolist()
    squares = fluctuations(path, lags, threads=threads)
    exponents = np.gradient(np.log(squares), np.log(lags)).tolist()
    return Walk(word, int(path[-1]), lags, squares, exponents, crossover(lags, squares))


def _steps(packed: int, lo: int, hi: int) -> NDArray[np.bool_]:
    """Whether each integer of lo ≤ n < hi has the word."""
    return np.concatenate(
        [words_in_buffer(a, b) == np.uint64(packed) for a, b in spans(lo, hi, segment_size(hi))]
    )


def fluctuations(
    path: NDArray[np.int32], lags: Sequence[int], *, threads: int | None = None
) -> list[float]:
    """F²(l), the variance of path[i + l] − path[i] over all i, for each lag.

    A path goes up by 0 or 1 with each step and has at most MOST_IN_MEMORY steps.
    """
    with ThreadPoolExecutor(threads or os.cpu_count()) as pool:
        return list(pool.map(partial(_variance, path), lags))


@kernel
def _variance(path: NDArray[np.int32], lag: int) -> float:
    """The variance of path[i + lag] − path[i] over all i.

    The sums are of integers, which compile to vector instructions, over parts too short to
    overflow.
    """
    count = len(path) - lag
    # Roughly the mean distance; subtracting it avoids cancellation.
    mean = (np.int64(path[-1]) - path[0]) * lag // (len(path) - 1)
    total, squares = 0.0, 0.0
    for begin in range(0, count, 512):
        part, part_squares = 0, 0
        later = path[begin + lag : begin + lag + 512]
        earlier = path[begin : begin + len(later)]
        for i in range(len(later)):
            distance = np.int64(later[i]) - earlier[i] - mean
            part += distance
            part_squares += distance * distance
        total += part
        squares += part_squares
    return squares / count - (total / count) ** 2


def crossover(lags: Sequence[int], squares: Sequence[float]) -> Crossover:
    """Fit two straight lines that meet to ln F² against ln l, by least squares.

    The lag where the lines meet is the best point of a grid from the third lag to the third-last.
    """
    if len(lags) < 7:
        raise InputError(f"two lines need at least 7 lags, not {len(lags)}")
    x, y = np.log(lags), np.log(squares)

    def fit(meeting: float) -> tuple[float, float, float, float]:
        basis = np.stack([np.ones_like(x), x, np.maximum(x - meeting, 0)], 1)
        solution = np.linalg.lstsq(basis, y, rcond=None)[0]
        rms = float(np.sqrt(np.mean((y - basis @ solution) ** 2)))
        _, before, bend = solution.tolist()
        return rms, exp(meeting), before, before + bend

    rms, lag, before, after = min(fit(meeting) for meeting in np.linspace(x[2], x[-3], 500))
    return Crossover(lag, before, after, rms)


class LocalWalks(NamedTuple):
    """How often words occur in windows of each lag, in each of several equal parts of a range.

    In every part, windows of a lag follow each other without gaps. A window deviates from its
    neighbours by d = c₀ − 2 c₁ + c₂, where c₁ is its number of occurrences and c₀ and c₂ are those
    of the windows before and after it. The mean of d² / 6 is the Hadamard variance. For independent
    draws it is the variance of c₁. A density that changes linearly over the three windows does not
    change it, and a walk with F² ~ l^a keeps its exponent a.
    """

    means: _Floats  # [part, word, lag], of c₁
    squares: _Floats  # [part, word, lag], the mean of c₁²
    deviations: _Floats  # [part, word, lag], the sum of d² / 6
    windows: _Integers  # [part, lag], the number of terms of this sum

    @property
    def around_mean(self) -> _Floats:
        """[word, lag]: the variance around the mean of the whole range, as `walk` has it."""
        variance: _Floats = self.squares.mean(0) - self.means.mean(0) ** 2
        return variance


def local_walks(
    words: Sequence[str], n: int, lags: Sequence[int], parts: int, *, threads: int | None = None
) -> LocalWalks:
    """The walks of words on 2..n − 1, with the drift of the density removed locally.

    Every lag is a multiple of the first lag, and n / parts is a multiple of every lag. Near the
    beginning the density drifts too fast for a linear trend, so deviations of windows of length l
    are taken from 100 l on.

    Every integer is visited. With four words this takes 4 ns for each integer on one core: three
    and a half minutes for n = 10^11 on two cores.
    """
    size = n // parts
    if n % parts or any(size % lag or lag % lags[0] or size < 3 * lag for lag in lags):
        raise InputError(f"{parts} parts of 0..{n - 1} cannot be cut into windows of these lags")
    targets = np.array([tree_of_word(word).packed for word in words], np.uint64)
    job = partial(_local_part, targets, lags, size)
    found = over_ranges(job, 2, n, size=size, threads=threads, title="walking")
    return LocalWalks(*map(np.stack, zip(*found, strict=True)))


def _local_part(
    targets: Words, lags: Sequence[int], size: int, lo: int, hi: int
) -> tuple[_Floats, _Floats, _Floats, _Integers]:
    """The entries of `LocalWalks` for the part that holds lo ≤ n < hi."""
    begin = lo - lo % size
    counts = np.zeros((len(targets), size // lags[0]), np.int64)
    for a, b in spans(lo, hi, segment_size(hi)):
        _count_in_chunks(words_in_buffer(a, b), targets, a - begin, lags[0], counts)
    by_lag = [_moments(counts, lag // lags[0], LOCAL - begin // lag) for lag in lags]
    means, squares, deviations, windows = zip(*by_lag, strict=True)
    return np.stack(means, 1), np.stack(squares, 1), np.stack(deviations, 1), np.array(windows)


def _moments(counts: _Integers, chunks: int, skipped: int) -> tuple[_Floats, _Floats, _Floats, int]:
    """The moments for windows of so many chunks; no deviations from the first `skipped` windows."""
    c = counts.reshape(len(counts), -1, chunks).sum(2)  # [word, window]
    d = (c[:, :-2] - 2 * c[:, 1:-1] + c[:, 2:])[:, max(0, skipped) :]
    return c.mean(1), (c * c).mean(1), (d * d).sum(1) / 6, d.shape[1]


@kernel
def _count_in_chunks(
    words: Words, targets: Words, begin: int, chunk: int, counts: _Integers
) -> None:
    """Add how often each target occurs in each chunk; the first word has the index `begin`."""
    i = 0
    while i < len(words):
        k = (begin + i) // chunk
        end = min(len(words), (k + 1) * chunk - begin)
        part = words[i:end]
        for t in range(len(targets)):
            target = targets[t]
            occurrences = 0
            for word in part:
                occurrences += word == target
            counts[t, k] += occurrences
        i = end
