"""Walks of single words: variances by numpy, and walks whose exponents are known."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import pytest

from arithmetext.counting import walks
from arithmetext.counting.walks import crossover, fluctuations, local_walks, walk
from arithmetext.errors import InputError
from arithmetext.text.sieve import words

LAGS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]


def path_of(steps: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(steps)]).astype(np.int32)


def test_fluctuations_are_variances() -> None:
    path = path_of(np.random.default_rng(2).integers(0, 2, 3000))
    expected = [np.var(path[lag:] - path[:-lag]) for lag in LAGS]
    assert fluctuations(path, LAGS) == pytest.approx(expected)
    # Windows so long that the sum of squares of their counts has more than 53 bits.
    path = path_of(np.arange(10**6) < 500_000)
    lags = [3, 123_456, 400_000]
    expected = [np.var(path[lag:] - path[:-lag]) for lag in lags]
    assert fluctuations(path, lags) == pytest.approx(expected)


def test_coin_tosses_are_diffusive_and_a_step_is_ballistic() -> None:
    coins = np.random.default_rng(3).integers(0, 2, 10**6)
    fit = crossover(LAGS, fluctuations(path_of(coins), LAGS))
    assert (fit.before, fit.after) == pytest.approx((1, 1), abs=0.05)
    step = fluctuations(path_of(np.arange(10**6) < 500_000), LAGS)
    assert np.diff(np.log2(step)) == pytest.approx(2, abs=0.01)


def test_a_crossover_is_found() -> None:
    lags = np.unique(np.logspace(0, 6, 61).round().astype(int)).tolist()
    squares = [lag if lag < 1000 else lag**1.8 / 1000**0.8 for lag in lags]
    fit = crossover(lags, squares)
    assert fit.lag == pytest.approx(1000, rel=0.05)
    assert (fit.before, fit.after) == pytest.approx((1, 1.8), abs=0.01)
    assert fit.rms < 0.01


def test_the_walk_of_one_word(monkeypatch: pytest.MonkeyPatch) -> None:
    lo, hi = 10**7, 10**7 + 30_000
    found = walk("1010", lo, hi)
    steps = words(lo, hi) == 0b1010
    assert found.occurrences == steps.sum()
    assert found.fluctuations == fluctuations(path_of(steps), found.lags)
    assert found.lags[0] == 1
    assert found.lags[-1] == 300
    json.dumps(asdict(found))
    monkeypatch.setattr(walks, "piece_size", lambda hi: 1009)
    assert walk("1010", lo, hi, threads=1) == found


def test_the_crossover_is_the_drift_of_the_density() -> None:
    """Superdiffusive from 2 on, but not in as many integers from 10^10 on."""
    assert walk("10", 2, 10**6).crossover.after > 1.5
    assert max(walk("10", 10**10, 10**10 + 10**6).exponents) < 1.1


def test_local_walks_are_those_of_a_plain_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walks, "segment_size", lambda hi: 1009)  # segments that cut chunks
    found = local_walks(["10", "1010"], 60_000, [10, 100], 3)
    text = np.concatenate([[0, 0], words(2, 60_000)])
    for w, word in enumerate([0b10, 0b1010]):
        for k, lag in enumerate([10, 100]):
            c = [np.sum(text[i : i + lag] == word) for i in range(0, 60_000, lag)]
            assert found.around_mean[w, k] == pytest.approx(np.var(c))
            for part in range(3):
                triples = [
                    (c[i], c[i + 1], c[i + 2])
                    for i in range(part * 20_000 // lag, (part + 1) * 20_000 // lag - 2)
                    if i >= 100
                ]
                assert found.windows[part, k] == len(triples)
                expected = sum((a - 2 * b + c) ** 2 for a, b, c in triples) / 6
                assert found.deviations[part, w, k] == pytest.approx(expected)


def gaussian_steps(exponent: float, count: int) -> np.ndarray:
    """Stationary steps of a walk with F²(l) = l^exponent (fractional Brownian motion)."""
    lag = np.arange(count // 2 + 1.0)
    correlation = ((lag + 1) ** exponent + abs(lag - 1) ** exponent) / 2 - lag**exponent
    spectrum = np.fft.fft(np.concatenate([correlation, correlation[-2:0:-1]])).real
    noise = np.fft.fft(np.random.default_rng(5).normal(size=len(spectrum)))
    return np.fft.ifft(noise * np.sqrt(np.maximum(0, spectrum))).real


@pytest.mark.parametrize("exponent", [0.8, 1.0, 1.5, 1.9])
def test_detrending_removes_a_trend_and_keeps_memory(exponent: float) -> None:
    steps = np.round(1000 * gaussian_steps(exponent, 2**20)).astype(np.int64)
    trend = np.arange(len(steps))
    lags = np.array([1, 4, 16, 64, 256, 1024])

    def squares(steps: np.ndarray) -> np.ndarray:
        found = [walks._moments(steps[None], lag, 0) for lag in lags.tolist()]
        return np.array([deviations[0] / windows for _, _, deviations, windows in found])

    slope, _ = np.polyfit(np.log(lags), np.log(squares(steps)), 1)
    assert slope == pytest.approx(exponent, abs=0.05)
    assert squares(steps + trend) == pytest.approx(squares(steps))


def test_without_the_drift_there_is_no_superdiffusion() -> None:
    """On 2..10^7, where the walk around the mean is nearly ballistic."""
    lags = [1000, 2000, 5000, 10_000]
    found = local_walks(["10", "1010"], 10**7, lags, 100)
    local = found.deviations.sum(0) / found.windows.sum(0)
    for squares, least, most in ((found.around_mean, 1.4, 2.0), (local, 0.6, 1.1)):
        for each in squares:
            assert least < np.polyfit(np.log(lags), np.log(each), 1)[0] < most


def test_primes_vary_locally_as_conjectured() -> None:
    """The variance of Montgomery and Soundararajan, l (ln(n/l) + 1 − γ − ln 2π) / ln² n.

    The Hadamard variance of V(l) is (15 V(l) − 6 V(2l) + V(3l)) / 6.
    """
    lags, n = [100, 200, 500, 1000, 2000], 10**7
    found = local_walks(["10"], n, lags, 100)
    for k, lag in enumerate(lags):
        m = np.arange(max(lag * 100, 1000), n, 1000)

        def variance(length: int, m: np.ndarray = m) -> np.ndarray:
            return length * (np.log(m / length) + 1 - np.euler_gamma - np.log(2 * np.pi))

        local = (15 * variance(lag) - 6 * variance(2 * lag) + variance(3 * lag)) / 6
        expected = np.mean(local / np.log(m) ** 2)
        measured = found.deviations[:, 0, k].sum() / found.windows[:, k].sum()
        assert measured == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda: walk("10", 2, 10**9), "too many"),
        (lambda: walk("10", 2, 100), "too short"),
        (lambda: walk("01", 2, 10**4), "not a Dyck word"),
        (lambda: walk("", 2, 10**4), "does not occur"),
        (lambda: walk("10" * 40, 2, 10**4), "does not occur"),
        (lambda: crossover([1, 2, 3], [1, 2, 3]), "at least 7"),
        (lambda: local_walks(["10"], 10**5, [1000, 1500], 10), "cannot be cut"),
        (lambda: local_walks(["10"], 10**5, [1000], 7), "cannot be cut"),
        (lambda: local_walks(["10"], 10**5, [1000, 5000], 10), "cannot be cut"),
    ],
)
def test_one_line_for_bad_input(ask: Callable[[], object], answer: str) -> None:
    with pytest.raises(InputError, match=re.escape(answer)) as refusal:
        ask()
    assert "\n" not in str(refusal.value)
