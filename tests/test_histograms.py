"""Word counts against counting by hand and against the census."""

import re
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arithmetext.counting import histograms
from arithmetext.counting.census import census
from arithmetext.counting.histograms import chunk_histograms, count_words
from arithmetext.errors import InputError
from arithmetext.text.sieve import words
from arithmetext.trees import packed


@settings(max_examples=40)
@given(st.integers(2, 10**12), st.integers(1, 300))
def test_counts_of_any_window(lo: int, length: int) -> None:
    counts = count_words(lo, lo + length)
    assert counts == Counter(packed(n) for n in range(lo, lo + length))
    assert list(counts) == sorted(counts, key=lambda word: (-counts[word], word))


def test_counts_equal_the_census() -> None:
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
        assert count_words(lo, hi, cluster=cluster.scheduler_address) == count_words(lo, hi)


def test_chunk_histograms() -> None:
    n, chunks = 300_000, 30
    vocabulary, counts = chunk_histograms(n, chunks)
    assert counts.shape == (chunks, len(vocabulary))
    assert dict(zip(vocabulary.tolist(), counts.sum(0).tolist(), strict=True)) == census(n)
    for k in (0, 1, 17, 29):
        first = max(2, k * 10_000 + 1)
        expected = Counter(words(first, (k + 1) * 10_000 + 1).tolist())
        assert Counter(dict(zip(vocabulary.tolist(), counts[k].tolist(), strict=True))) == expected
    assert np.array_equal(chunk_histograms(n, chunks, threads=1)[1], counts)


def test_a_growing_hash_table() -> None:
    rng = np.random.default_rng(1)
    table = histograms.HashTable(10**6)
    expected: Counter[int] = Counter()
    for size in (1, 10, 1000, 50_000):
        keys = rng.integers(1, 2**16, size, np.uint64) << np.uint64(47)
        table.add(keys)
        expected.update(keys.tolist())
    found = table.items()
    assert dict(zip(*(part.tolist() for part in found), strict=True)) == expected
    assert table.used == len(expected)
    assert table[np.array([7, *found[0][:5]], np.uint64)].tolist() == [0, *found[1][:5]]


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda: count_words(1, 10), "begins at 2"),
        (lambda: count_words(10, 10), "empty range"),
        (lambda: count_words(10, 2**63 + 1), "beyond 2^63"),
        (lambda: chunk_histograms(10, 6), "6 equal chunks"),
        (lambda: chunk_histograms(10, 10), "10 equal chunks"),
        (lambda: chunk_histograms(10, 0), "0 equal chunks"),
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
