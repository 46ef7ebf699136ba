"""Walks of single words: variances by numpy, and walks whose exponents are known."""

import json
import re
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
import pytest

from arithmetext.counting import walks
from arithmetext.counting.walks import crossover, fluctuations, walk
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


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda: walk("10", 2, 10**9), "too many"),
        (lambda: walk("10", 2, 100), "too short"),
        (lambda: walk("01", 2, 10**4), "not a Dyck word"),
        (lambda: walk("", 2, 10**4), "does not occur"),
        (lambda: walk("10" * 40, 2, 10**4), "does not occur"),
        (lambda: crossover([1, 2, 3], [1, 2, 3]), "at least 7"),
    ],
)
def test_one_line_for_bad_input(ask: Callable[[], object], answer: str) -> None:
    with pytest.raises(InputError, match=re.escape(answer)) as refusal:
        ask()
    assert "\n" not in str(refusal.value)
