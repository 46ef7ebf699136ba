"""The order of words: blocks counted by hand, entropies, compression, orientation."""

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

from arithmetext.counting import histograms, order
from arithmetext.counting.census import unigram_entropy
from arithmetext.counting.histograms import count_words
from arithmetext.counting.order import block_entropies, compression, orientation
from arithmetext.errors import InputError
from arithmetext.trees import packed

Blocks = dict[tuple[int, ...], int]  # how often each block of packed words occurs


def blocks_by_hand(lo: int, hi: int, k: int) -> Counter[tuple[int, ...]]:
    text = [packed(n) for n in range(lo, hi)]
    return Counter(zip(*(text[place:] for place in range(k)), strict=False))


def count_blocks(
    lo: int, hi: int, k: int, threads: int | None = None, cluster: str | None = None
) -> Blocks:
    """The blocks that entropies and orientation are computed from, as words."""
    vocabulary = order._vocabulary(lo, hi, k, threads, cluster)
    table = order._count_blocks(vocabulary, lo, hi, k, threads, cluster)
    keys, counts = table.items()
    ranks = order._digits(keys, k, len(vocabulary))[:, ::-1].astype(np.int64)
    blocks = map(tuple, vocabulary[ranks - 1].tolist())
    return dict(zip(blocks, counts.tolist(), strict=True))


# --- blocks


def test_facts_about_pairs() -> None:
    pairs = count_blocks(2, 10**6, 2)
    prime, square, tower, semiprime = 0b10, 0b1100, 0b111000, 0b1010
    assert pairs[prime, prime] == pairs[square, prime] == pairs[square, square] == 1
    assert pairs[tower, prime] == 2  # 16 and 256
    assert (prime, tower) not in pairs
    square_free = {int("10" * k, 2) for k in range(1, 9)}
    for quadruple in count_blocks(2, 10**6, 4):
        assert len(set(quadruple)) > 1
        assert not square_free.issuperset(quadruple)
    triples = count_blocks(2, 36, 3)
    assert [t for t in triples if len(set(t)) == 1] == [(semiprime,) * 3]


@settings(max_examples=25)
@given(st.integers(2, 10**9), st.integers(4, 200), st.integers(1, 4))
def test_blocks_of_any_window(lo: int, length: int, k: int) -> None:
    blocks = count_blocks(lo, lo + length, k)
    assert blocks == blocks_by_hand(lo, lo + length, k)
    assert sum(blocks.values()) == length - k + 1


def test_no_block_is_lost_between_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    lo, hi = 10**8, 10**8 + 5000
    monkeypatch.setattr(order, "piece_size", lambda hi: 7)
    monkeypatch.setattr(histograms, "segment_size", lambda hi: 3)
    monkeypatch.setattr(order, "CACHE_BLOCK", 2)
    for k, threads in itertools.product((1, 2, 5), (1, 2)):
        assert count_blocks(lo, hi, k, threads) == blocks_by_hand(lo, hi, k)


def test_blocks_on_a_cluster() -> None:
    distributed = pytest.importorskip("distributed")
    lo, hi = 10**9, 10**9 + 10**5
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
    ) as cluster:
        blocks = count_blocks(lo, hi, 3, cluster=cluster.scheduler_address)
    assert blocks == count_blocks(lo, hi, 3)


# --- entropies


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


# --- compression


def test_compression() -> None:
    """Close to what the programs gzip and xz need for 5 MB of text from 10^6 on: 5.12 and 3.74."""
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
    # 2..5: 10 10 1100 10 has the triples aab and aba; the reversal of aab does not occur.
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


@pytest.mark.parametrize(
    ("ask", "answer"),
    [
        (lambda: block_entropies(2, 10, 9), "no blocks of 9"),
        (lambda: orientation(2, 10, 0), "no blocks of 0"),
        (lambda: block_entropies(2, 10**6, 9), "at most 8 fit"),
        (lambda: compression(2, 0), "empty range"),
        (lambda: compression(2, 10**9), "too many"),
    ],
)
def test_one_line_for_bad_input(ask: Callable[[], object], answer: str) -> None:
    with pytest.raises(InputError, match=re.escape(answer)) as refusal:
        ask()
    assert "\n" not in str(refusal.value)
