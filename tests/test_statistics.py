"""Statistics of the text: by hand, against scipy, and against facts known from elsewhere."""

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from math import log, log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import jensenshannon

from arithmetext.counting import histograms, order, walks
from arithmetext.counting.census import census, unigram_entropy
from arithmetext.counting.divergence import fit_ranks, js_divergence, js_matrix, rank_frequency
from arithmetext.counting.histograms import chunk_histograms, count_words
from arithmetext.counting.order import block_counts, block_entropies, compression, orientation
from arithmetext.counting.walks import crossover, fluctuations, walk
from arithmetext.errors import InputError
from arithmetext.text.sieve import words
from arithmetext.trees import packed

any_histogram = st.dictionaries(st.integers(1, 40), st.integers(1, 10**9), min_size=1, max_size=30)


def blocks_by_hand(lo: int, hi: int, k: int) -> Counter[tuple[int, ...]]:
    text = [packed(n) for n in range(lo, hi)]
    return Counter(zip(*(text[place:] for place in range(k)), strict=False))


def as_counter(blocks: order.Blocks) -> dict[tuple[int, ...], int]:
    return dict(zip(map(tuple, blocks.words.tolist()), blocks.counts.tolist(), strict=True))


# --- counting words


@settings(max_examples=40)
@given(st.integers(2, 10**12), st.integers(1, 300))
def test_counts_of_any_window(lo: int, length: int) -> None:
    counts = count_words(lo, lo + length)
    assert counts == Counter(packed(n) for n in range(lo, lo + length))
    assert list(counts) == sorted(counts, key=lambda word: (-counts[word], word))


def test_counts_are_the_census() -> None:
    for x in (2, 12, 10**7):
        assert list(count_words(2, x + 1).items()) == list(census(x).items())


def test_counts_do_not_depend_on_threads_or_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    lo, hi = 10**10, 10**10 + 2 * 10**6
    whole = count_words(lo, hi, threads=1)
    monkeypatch.setattr(histograms, "piece_size", lambda hi: 100_003)
    assert count_words(lo, hi, threads=2) == whole


def test_counts_on_a_cluster() -> None:
    distributed = pytest.importorskip("distributed")
    lo, hi = 10**9, 10**9 + 10**5
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as cluster:
        there = cluster.scheduler_address
        assert count_words(lo, hi, cluster=there) == count_words(lo, hi)
        blocks = block_counts(lo, hi, 3, cluster=there)
    assert as_counter(blocks) == as_counter(block_counts(lo, hi, 3))


def test_a_growing_table() -> None:
    rng = np.random.default_rng(1)
    table = histograms.Table(10**6)
    expected: Counter[int] = Counter()
    for size in (1, 10, 1000, 50_000):
        keys = rng.integers(1, 2**16, size, np.uint64) << np.uint64(47)
        table.add(keys)
        expected.update(keys.tolist())
    found = table.items()
    assert dict(zip(*(part.tolist() for part in found), strict=True)) == expected
    assert table.used == len(expected)
    assert table[np.array([7, *found[0][:5]], np.uint64)].tolist() == [0, *found[1][:5]]


# --- divergence


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


def test_chunks() -> None:
    n, chunks = 300_000, 30
    vocabulary, counts = chunk_histograms(n, chunks)
    assert counts.shape == (chunks, len(vocabulary))
    assert dict(zip(vocabulary.tolist(), counts.sum(0).tolist(), strict=True)) == census(n)
    for k in (0, 1, 17, 29):
        first = max(2, k * 10_000 + 1)
        expected = Counter(words(first, (k + 1) * 10_000 + 1).tolist())
        assert Counter(dict(zip(vocabulary.tolist(), counts[k].tolist(), strict=True))) == expected
    matrix = js_matrix(counts)
    assert np.array_equal(matrix, matrix.T)
    assert not matrix.diagonal().any()
    for i, j in ((0, 1), (0, 29), (13, 7)):
        assert matrix[i, j] == pytest.approx(jensenshannon(*counts[[i, j]], base=2) ** 2, abs=1e-12)
    assert matrix.argmax() < chunks  # the first chunk is the one most unlike another
    assert np.array_equal(chunk_histograms(n, chunks, threads=1)[1], counts)


# --- ranks and frequencies


def test_fits_find_what_was_put_in() -> None:
    ranks = np.arange(1, 1001)
    power = fit_ranks(0.3 * ranks**-1.2)
    assert (power.zipf.a, power.zipf.b) == pytest.approx((log(0.3), 1.2))
    assert power.zipf.r_squared == pytest.approx(1)
    assert power.bic_difference < 0
    bent = fit_ranks(np.exp(-1 - 0.5 * np.log(ranks) - 0.25 * np.log(ranks) ** 2))
    assert (bent.parabola.a, bent.parabola.b, bent.parabola.c) == pytest.approx((-1, 0.5, 0.25))
    assert bent.zipf.rms > 0.1 > bent.parabola.rms
    # Scatter of ten percent hides no law.
    scattered = ranks**-1.0 * np.exp(np.random.default_rng(0).normal(0, 0.1, 1000))
    assert fit_ranks(scattered).zipf.b == pytest.approx(1, abs=0.05)
    assert fit_ranks(scattered).aic_difference < 10


def test_weights_are_even_in_the_logarithm() -> None:
    """Against numpy's own weighted polynomial fit."""
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


# --- blocks


def test_facts_about_pairs() -> None:
    pairs = as_counter(block_counts(2, 10**6, 2))
    prime, square, tower, semiprime = 0b10, 0b1100, 0b111000, 0b1010
    assert pairs[prime, prime] == pairs[square, prime] == pairs[square, square] == 1
    assert pairs[tower, prime] == 2  # 16 and 256
    assert (prime, tower) not in pairs
    quadruples = block_counts(2, 10**6, 4)
    assert not (quadruples.words == quadruples.words[:, :1]).all(1).any()
    square_free = [int("10" * k, 2) for k in range(1, 9)]
    assert not np.isin(quadruples.words, square_free).all(1).any()
    triples = as_counter(block_counts(2, 36, 3))
    assert [t for t in triples if len(set(t)) == 1] == [(semiprime,) * 3]


@settings(max_examples=25)
@given(st.integers(2, 10**9), st.integers(4, 200), st.integers(1, 4))
def test_blocks_of_any_window(lo: int, length: int, k: int) -> None:
    blocks = block_counts(lo, lo + length, k)
    assert as_counter(blocks) == blocks_by_hand(lo, lo + length, k)
    assert blocks.counts.sum() == length - k + 1


def test_no_block_is_lost_between_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    lo, hi = 10**8, 10**8 + 5000
    monkeypatch.setattr(order, "piece_size", lambda hi: 7)
    monkeypatch.setattr(histograms, "segment_size", lambda hi: 3)
    monkeypatch.setattr(order, "CACHED", 2)
    for k, threads in itertools.product((1, 2, 5), (1, 2)):
        assert as_counter(block_counts(lo, hi, k, threads=threads)) == blocks_by_hand(lo, hi, k)


def test_entropies() -> None:
    lo, hi = 10**10, 10**10 + 10**6
    entropies = block_entropies(lo, hi, 4)
    assert entropies == block_entropies(lo, hi, 4, threads=1)
    assert [e.k for e in entropies] == [1, 2, 3, 4]
    assert [e.blocks for e in entropies] == [10**6, 10**6 - 1, 10**6 - 2, 10**6 - 3]
    assert entropies[0].entropy == pytest.approx(unigram_entropy(count_words(lo, hi)), abs=1e-12)
    for shorter, longer in itertools.pairwise(entropies):
        assert longer.conditional == pytest.approx(longer.entropy - shorter.entropy)
        assert longer.conditional < shorter.conditional
        assert longer.correction > shorter.correction
        assert longer.correction == (longer.distinct - 1) / (2 * longer.blocks * log(2))
    json.dumps([asdict(e) for e in entropies])


def test_entropies_by_hand() -> None:
    # 2..5: 10 10 1100 10
    one, two = block_entropies(2, 6, 2)
    assert one.entropy == pytest.approx(3 / 4 * log2(4 / 3) + 1 / 4 * 2)
    assert (two.entropy, two.distinct) == (pytest.approx(log2(3)), 3)


@pytest.mark.parametrize(("x", "bits"), [(10**10, 3.972063), (10**11, 4.018613)])
def test_unigram_entropy_of_the_whole_text(x: int, bits: float) -> None:
    frequencies = rank_frequency(census(x))
    assert -frequencies @ np.log2(frequencies) == pytest.approx(bits, abs=5e-7)


# --- compression


def test_compression() -> None:
    """Near what gzip and xz themselves made of 5 MB of text from 10^6 on: 5.12 and 3.74."""
    found = compression(10**6, 300_000)
    assert found.unigram_entropy == pytest.approx(3.73, abs=0.02)
    assert found.gzip_characters == pytest.approx(5.12, abs=0.05)
    assert found.xz_characters == pytest.approx(3.8, abs=0.1)
    # Consecutive words are not independent: a good compressor beats the unigram entropy.
    assert found.xz_ranks < found.unigram_entropy < found.gzip_ranks < found.gzip_characters
    assert compression(10**6, 1000) == compression(10**6, 1000, threads=1)


# --- orientation


def test_orientation_by_hand() -> None:
    # 2..8: 10 10 1100 10 1010 10 1100. Pairs: aa ab ba ac ca ab. One way only: none.
    text = orientation(2, 9, 2).text
    assert (text.distinct, text.one_way) == (5, 0)
    # ab : ba as 2 : 1 is all the asymmetry there is.
    expected = 3 / 6 * (1 + 2 / 3 * log2(2 / 3) + 1 / 3 * log2(1 / 3))
    assert text.divergence == pytest.approx(expected)
    # 2..5: 10 10 1100 10 has the triples aab and aba; aab is never reversed.
    text = orientation(2, 6, 3).text
    assert (text.distinct, text.one_way, text.divergence) == (2, 0.5, pytest.approx(0.5))


@pytest.mark.parametrize("k", [2, 3])
def test_orientation_against_scipy(k: int) -> None:
    lo, hi = 2, 20_000
    found = orientation(lo, hi, k)
    blocks = blocks_by_hand(lo, hi, k)
    mirrored = {block[::-1]: count for block, count in blocks.items()}
    support = sorted(blocks.keys() | mirrored.keys())
    p, q = ([h.get(block, 0) for block in support] for h in (blocks, mirrored))
    assert found.text.divergence == pytest.approx(jensenshannon(p, q, base=2) ** 2, abs=1e-12)
    assert found.text.distinct == len(blocks)
    assert found.text.one_way == sum(block not in mirrored for block in blocks) / len(blocks)
    assert found == orientation(lo, hi, k, threads=1)
    other = orientation(lo, hi, k, seed=1)
    assert (other.text, other.floor != found.floor) == (found.text, True)


def test_the_text_is_oriented_where_enough_of_it_is_counted() -> None:
    beginning = orientation(2, 10**7, 2)
    assert beginning.text.divergence > beginning.floor + 10 * beginning.spread
    # Further up 10^7 integers are too few to show it, and 10^8 are enough.
    few, many = (orientation(10**8, 10**8 + count, 2) for count in (10**7, 10**8))
    assert few.text.divergence < few.floor
    assert many.text.divergence > many.floor + 10 * many.spread
    json.dumps(asdict(many))


# --- walks


LAGS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]


def path_of(steps: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(steps)]).astype(np.int32)


def test_fluctuations_are_variances() -> None:
    path = path_of(np.random.default_rng(2).integers(0, 2, 3000))
    expected = [np.var(path[lag:] - path[:-lag]) for lag in LAGS]
    assert fluctuations(path, LAGS) == pytest.approx(expected)
    # Windows long enough that the sum of squares of their counts has more than 53 bits.
    path = path_of(np.arange(10**6) < 500_000)
    lags = [3, 123_456, 400_000]
    expected = [np.var(path[lag:] - path[:-lag]) for lag in lags]
    assert fluctuations(path, lags) == pytest.approx(expected)


def test_coins_diffuse_and_a_step_is_ballistic() -> None:
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


def test_a_walk(monkeypatch: pytest.MonkeyPatch) -> None:
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
    """Superdiffusive from 2 on; not at all in as many integers from 10^10 on."""
    assert walk("10", 2, 10**6).crossover.after > 1.5
    assert max(walk("10", 10**10, 10**10 + 10**6).exponents) < 1.1


# --- what is refused


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda: count_words(1, 10), "begins at 2"),
        (lambda: count_words(10, 10), "empty range"),
        (lambda: count_words(10, 2**63 + 1), "beyond 2^63"),
        (lambda: chunk_histograms(10, 6), "6 equal chunks"),
        (lambda: chunk_histograms(10, 10), "10 equal chunks"),
        (lambda: chunk_histograms(10, 0), "0 equal chunks"),
        (lambda: js_divergence({}, {2: 1}), "empty"),
        (lambda: fit_ranks([0.5, 0.5]), "at least 4"),
        (lambda: block_counts(2, 10, 0), "no blocks of 0"),
        (lambda: block_counts(2, 10, 9), "no blocks of 9"),
        (lambda: block_entropies(2, 10**6, 9), "at most 8 fit"),
        (lambda: compression(2, 0), "empty range"),
        (lambda: compression(2, 10**9), "too many"),
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


def test_more_words_than_16_bits_can_number_are_refused() -> None:
    numbers = np.arange(1, 1 + (1 << 16), dtype=np.uint64)
    assert histograms.ranks_of_piece(numbers[:-1], 2, 5).tolist() == [2, 2, 12]
    with pytest.raises(InputError, match="65536 different words are too many"):
        histograms.ranks_of_piece(numbers, 2, 5)
