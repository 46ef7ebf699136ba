"""Divergences and rank fits: by hand, against scipy and numpy, and against known values."""

import re
from collections.abc import Callable, Mapping
from math import log, log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from arithmetext.counting.census import census
from arithmetext.counting.divergence import fit_ranks, js_matrix, rank_frequency
from arithmetext.counting.histograms import chunk_histograms, count_words
from arithmetext.errors import InputError

any_histogram = st.dictionaries(st.integers(1, 40), st.integers(1, 10**9), min_size=1, max_size=30)


def js_divergence(p: Mapping[int, int], q: Mapping[int, int]) -> float:
    """The Jensen–Shannon divergence of two histograms, by the matrix of both."""
    support = sorted(p.keys() | q.keys())
    return float(js_matrix([[h.get(word, 0) for word in support] for h in (p, q)])[0, 1])


def test_divergence_by_hand() -> None:
    assert js_divergence({2: 1}, {12: 1}) == 1
    # m = (3/4, 1/4): ½ log₂(4/3) + ½ (½ log₂(2/3) + ½ log₂ 2)
    expected = log2(4 / 3) / 2 + log2(2 / 3) / 4 + 1 / 4
    assert js_divergence({2: 1}, {2: 5, 12: 5}) == pytest.approx(expected, abs=1e-15)


@given(any_histogram, any_histogram)
def test_divergence_against_scipy(p: dict[int, int], q: dict[int, int]) -> None:
    found = js_divergence(p, q)
    support = sorted(p.keys() | q.keys())
    vectors = np.array([[h.get(word, 0) for word in support] for h in (p, q)])
    assert found == pytest.approx(jensenshannon(*vectors, base=2) ** 2, abs=1e-12)
    assert found == pytest.approx(js_divergence(q, p), abs=1e-12)
    assert js_divergence(p, {word: 3 * count for word, count in p.items()}) < 1e-12
    # Zero only where the two are equal: Pinsker's bound below, the total variation above.
    shares = vectors / vectors.sum(1, keepdims=True)
    variation = np.abs(shares[0] - shares[1]).sum() / 2
    assert variation**2 / (2 * log(2)) - 1e-12 <= found <= variation + 1e-12 <= 1 + 2e-12


def test_divergence_of_the_first_and_last_chunk() -> None:
    """The paper's largest value, 0.0238; computed to six digits by a C sieve."""
    last = count_words(10**11 - 10**8 + 1, 10**11 + 1)
    assert js_divergence(census(10**8), last) == pytest.approx(0.0238425, abs=5e-8)


def test_divergences_between_chunks() -> None:
    chunks = 30
    _, counts = chunk_histograms(300_000, chunks)
    matrix = js_matrix(counts)
    assert np.array_equal(matrix, matrix.T)
    assert not matrix.diagonal().any()
    for i, j in ((0, 1), (0, 29), (13, 7)):
        assert matrix[i, j] == pytest.approx(jensenshannon(*counts[[i, j]], base=2) ** 2, abs=1e-12)
    assert matrix.argmax() < chunks  # the largest divergence is one from the first chunk


def test_fits_recover_their_parameters() -> None:
    ranks = np.arange(1, 1001)
    power = fit_ranks(0.3 * ranks**-1.2)
    assert (power.zipf.a, power.zipf.b) == pytest.approx((log(0.3), 1.2))
    assert power.zipf.r_squared == pytest.approx(1)
    assert power.bic_difference < 0
    bent = fit_ranks(np.exp(-1 - 0.5 * np.log(ranks) - 0.25 * np.log(ranks) ** 2))
    assert (bent.parabola.a, bent.parabola.b, bent.parabola.c) == pytest.approx((-1, 0.5, 0.25))
    assert bent.zipf.rms > 0.1 > bent.parabola.rms
    # Ten percent of noise does not hide a power law.
    scattered = ranks**-1.0 * np.exp(np.random.default_rng(0).normal(0, 0.1, 1000))
    assert fit_ranks(scattered).zipf.b == pytest.approx(1, abs=0.05)
    assert fit_ranks(scattered).aic_difference < 10


def test_the_weighted_fit_against_numpy() -> None:
    """Rank r weighs 1/r; numpy's polyfit takes the square roots of the weights."""
    frequencies = rank_frequency(census(10**6))
    x, y = np.log(np.arange(1, len(frequencies) + 1)), np.log(frequencies)
    slope, height = np.polyfit(x, y, 1, w=np.exp(-x / 2))
    fit = fit_ranks(frequencies).zipf
    assert (fit.a, -fit.b, fit.c) == pytest.approx((height, slope, 0))


def test_zipf_fails() -> None:
    fits = fit_ranks(rank_frequency(census(10**9)))
    assert fits.ranks == 1195
    assert fits.zipf.r_squared < 0.95 < 0.995 < fits.parabola.r_squared
    assert fits.aic_difference > 100
    assert fits.bic_difference > 100


@pytest.mark.parametrize(("x", "bits"), [(10**10, 3.972063), (10**11, 4.018613)])
def test_entropy_of_the_frequencies_by_rank(x: int, bits: float) -> None:
    frequencies = rank_frequency(census(x))
    assert -frequencies @ np.log2(frequencies) == pytest.approx(bits, abs=5e-7)


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda: js_divergence({}, {2: 1}), "empty"),
        (lambda: fit_ranks([0.5, 0.5]), "at least 4"),
    ],
)
def test_one_line_for_bad_input(ask: Callable[[], object], answer: str) -> None:
    with pytest.raises(InputError, match=re.escape(answer)) as refusal:
        ask()
    assert "\n" not in str(refusal.value)
