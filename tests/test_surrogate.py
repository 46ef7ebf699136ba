"""Surrogate text: the periods of the real text, with other phases."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from math import isqrt, prod

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import arithmetext as nt
from arithmetext.text import surrogate
from arithmetext.text.sieve import segment_size, words
from arithmetext.text.surrogate import LAST_PRIME_BELOW, Surrogate
from conftest import Run

REAL, SHIFTED = Surrogate(None), Surrogate(1)
MOST = 2**63 - 1


def exponent(n: int, p: int, most: int) -> int:
    """The exponent of p in n, at most `most`."""
    return next(e for e in range(most + 1) if e == most or n % p ** (e + 1))


def largest_exponent(p: int) -> int:
    return next(e for e in range(1, 64) if p ** (e + 1) > MOST)


def exponents(text: Surrogate, n: int) -> Iterator[tuple[int, int]]:
    """The primes up to √n that a surrogate has at n, with their exponents, by definition."""
    for p, shift in zip(*(array.tolist() for array in text.shifts(isqrt(n))), strict=True):
        if e := exponent(n + shift, p, largest_exponent(p)):
            yield p, e


def by_definition(text: Surrogate, n: int) -> tuple[int, float]:
    """The packed word at n, and the product of its prime powers up to √n."""
    found = list(exponents(text, n))
    product = prod(p**e for p, e in found)
    word = "".join(f"1{nt.word(e)}0" for _, e in found)
    return nt.pack(word + "10" * (product < n**LAST_PRIME_BELOW)), float(product)


@settings(max_examples=60)
@given(
    st.integers(2, 10**4) | st.integers(2, 10**13) | st.integers(2, 10**15), st.integers(1, 2000)
)
@example(2, 2_000_000)
@example(10**15, 2000)
def test_unshifted_it_is_the_real_text(lo: int, count: int) -> None:
    assert np.array_equal(REAL.words(lo, lo + count), words(lo, lo + count))


@settings(max_examples=30)
@given(st.integers(1, 10**6), st.integers(1, 40))
def test_unshifted_squares_are_right(root: int, reach: int) -> None:
    lo = max(2, root * root - reach)
    assert np.array_equal(REAL.words(lo, lo + 2 * reach), words(lo, lo + 2 * reach))


def test_unshifted_high_powers_are_right() -> None:
    for n in [2**44, 3**27 - 1, 2**40 * 3, 5**18, 7**15, 30**9, (2 * 3 * 5 * 7 * 11 * 13) ** 3]:
        assert np.array_equal(REAL.words(n - 2, n + 3), words(n - 2, n + 3)), n


def test_unshifted_products_are_n_or_lack_one_prime() -> None:
    n = np.arange(10**6, 10**6 + 5000)
    rest = n / REAL.words_and_products(10**6, 10**6 + 5000).products
    primes = rest > 1
    assert (rest[primes] > np.sqrt(n[primes])).all()
    assert all(nt.word(round(each)) == "10" for each in rest[primes].tolist())


@settings(max_examples=30)
@given(st.integers(0, MOST), st.integers(2, 5000) | st.integers(2, 10**8), st.integers(1, 30))
@example(7, 2, 150)
def test_words_by_definition(seed: int, lo: int, count: int) -> None:
    text = Surrogate(seed)
    found, products = text.words_and_products(lo, lo + count)
    expected = [by_definition(text, n) for n in range(lo, lo + count)]
    assert found.tolist() == [word for word, _ in expected]
    assert products == pytest.approx([product for _, product in expected], rel=1e-12)


def test_some_integer_has_the_phases_of_any_small_primes() -> None:
    """By the Chinese remainder theorem; so the exponents have the periods of the real text."""
    place, modulus = 0, 1
    for p, shift in zip(*(array.tolist() for array in SHIFTED.shifts(7)), strict=True):
        power = p**20
        place += modulus * ((shift - place) * pow(modulus, -1, power) % power)
        modulus *= power
    for n in range(49, 121):  # √n is between 7 and 11
        found = {p: e for p, e in exponents(SHIFTED, n)}
        true = {p: exponent(place + n, p, 20) for p in (2, 3, 5, 7)}
        assert found == {p: e for p, e in true.items() if e}
    assert by_definition(SHIFTED, 100)[0] == SHIFTED.words(100, 101)[0]


def test_each_prime_keeps_its_period() -> None:
    """A shift of a single prime moves its pattern, and that of no other prime."""
    lo, count = 10**6, 900
    for p in (2, 3, 5, 31, 997):
        text = Surrogate(None)
        primes, none = text.shifts(10**3)
        shifts = none.copy()
        shifts[np.searchsorted(primes, p)] = shift = p**3 + 2
        text._shifts = shifts
        products = text.words_and_products(lo, lo + count).products
        n = range(lo, lo + count)
        for i, real in enumerate(REAL.words_and_products(lo, lo + count).products.tolist()):
            without = real / p ** exponent(n[i], p, 60)
            assert products[i] == pytest.approx(without * p ** exponent(n[i] + shift, p, 60))


def test_phases_are_uniform() -> None:
    shifts = np.array([Surrogate(seed).shifts(7)[1] for seed in range(400)])
    for column, power in zip(shifts.T, (16, 9, 5, 7), strict=True):
        counts = np.bincount(column % np.uint64(power), minlength=power)
        expected = 400 / power
        # The χ² of 4 to 15 degrees of freedom exceeds 45 once in 10,000 times, or less.
        assert ((counts - expected) ** 2 / expected).sum() < 45


def test_a_seed_decides_everything() -> None:
    window = 10**11, 10**11 + 3000
    again = Surrogate(1)
    again.words(2, 100)  # fewer primes first
    assert np.array_equal(again.words(*window), SHIFTED.words(*window))
    others = [words(*window), *(Surrogate(seed).words(*window) for seed in (0, 2, MOST))]
    for other in others:
        assert 0.05 < (other == SHIFTED.words(*window)).mean() < 0.2  # as many as by chance


@settings(max_examples=20)
@given(st.integers(2, 10**4) | st.integers(2, 10**12), st.integers(1, 900), st.integers(1, 900))
def test_overlapping_ranges_agree(lo: int, skip: int, count: int) -> None:
    whole = SHIFTED.words(lo, lo + skip + count)
    assert np.array_equal(whole[skip:], SHIFTED.words(lo + skip, lo + skip + count))


@settings(max_examples=20)
@given(
    st.lists(st.integers(2, 10**5) | st.integers(2, 10**12), min_size=1, max_size=5),
    st.integers(1, 900),
    st.none() | st.integers(0, MOST),
)
def test_windows_have_the_words_of_the_text(
    starts: list[int], length: int, seed: int | None
) -> None:
    windows = Surrogate(seed).words_of_windows(starts, length)
    assert windows.shape == (len(starts), length)
    for start, row in zip(starts, windows, strict=True):
        assert np.array_equal(row, Surrogate(seed).words(start, start + length))


def test_shifts_drawn_in_parts_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surrogate, "_DRAWN_AT_ONCE", 100)
    shown: dict[str, list[int]] = {}

    @contextmanager
    def noted(title: str, total: int, unit: str = "") -> Iterator[Callable[[int], None]]:
        shown[title] = []
        yield shown[title].append

    monkeypatch.setattr(surrogate, "progress", noted)
    text = Surrogate(1)
    text.prepare(10**8)
    drawn = text._shifts
    primes, shifts = text.shifts(10**4 - 1)
    assert text._shifts is drawn
    monkeypatch.setattr(surrogate, "_DRAWN_AT_ONCE", 1 << 20)
    whole = [Surrogate(1).shifts(p)[1][-1] for p in (2, 541, 547, 9973)]
    assert shifts[[0, 99, 100, len(primes) - 1]].tolist() == whole
    # The bar moves on with every part.
    assert shown["phases"][:3] == [100, 100, 100] and sum(shown["phases"]) >= len(primes)


def test_the_command_draws_the_shifts_with_a_bar(nt: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[int] = []
    monkeypatch.setattr(Surrogate, "prepare", lambda self, hi: prepared.append(hi))
    assert nt("words", "1e6", "3", "--surrogate", "1").returncode == 0
    assert prepared == [10**6 + 3]


def test_threads_share_the_shifts() -> None:
    """Windows at any height, read by threads at once, while the list of shifts grows."""
    starts = [[10**k, 2 * 10**k] for k in range(2, 12)] * 3
    expected = [SHIFTED.words_of_windows(each, 50) for each in starts]
    shared = Surrogate(SHIFTED.seed)
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda each: shared.words_of_windows(each, 50), starts)
        for ours, theirs in zip(expected, found, strict=True):
            assert np.array_equal(ours, theirs)


def test_pieces_and_threads_do_not_matter() -> None:
    size = segment_size(10**7)
    lo, hi = size - 5, 2 * size + 5
    assert np.array_equal(
        SHIFTED.words(lo, hi),
        np.concatenate([SHIFTED.words(a, a + 1000) for a in range(lo, hi, 1000)])[: hi - lo],
    )
    assert np.array_equal(SHIFTED.words(lo, hi, threads=1), SHIFTED.words(lo, hi, threads=3))


@pytest.mark.parametrize("lo", [2, 10**6, 10**13])
def test_words_are_dyck_words(lo: int) -> None:
    for word in np.unique(SHIFTED.words(lo, lo + 10**5)).tolist():
        assert nt.tree_of_word(nt.unpack(word)).packed == word > 0


def test_a_word_beyond_64_digits_loses_its_last_children() -> None:
    """All primes up to √n, each with its largest exponent: that happens in no seed we know."""
    n = 10**4
    text = Surrogate(None)
    primes, none = text.shifts(100)
    text._shifts = none.copy()
    tops = [(p, largest_exponent(p)) for p in primes.tolist()]
    for k, (p, most) in enumerate(tops):
        text._shifts[k] = -n % p**most
    spelled = nt.unpack(int(text.words(n, n + 1)[0]))
    children = [f"1{nt.word(most)}0" for _, most in tops]
    expected = ""
    for child in children:
        expected += child if len(expected + child) <= 64 else ""
    assert spelled == expected
    assert nt.tree_of_word(spelled).word == spelled


def test_last_primes_are_as_frequent_as_in_the_real_text() -> None:
    count = 2 * 10**5
    for at in (10**8, 10**12):
        n = np.arange(at, at + count)
        real = REAL.words_and_products(at, at + count).products
        ours = SHIFTED.words_and_products(at, at + count).products
        assert (real < n).mean() == pytest.approx((ours < n**LAST_PRIME_BELOW).mean(), abs=0.01)
        assert 0.08 < (ours > n).mean() < 0.09  # tends to 1 - e^-γ (3 - 2 ln 2) = 0.094


def test_the_command_prints_the_text(nt: Run) -> None:
    for seed in (0, 1):
        expected = Surrogate(seed).words(10**13, 10**13 + 50)
        printed = nt("words", "1e13", "50", "--surrogate", str(seed)).stdout.split()
        assert [int(word, 2) for word in printed] == expected.tolist()
    listed = nt("words", "1e13", "50", "--surrogate", "1", "--format", "json").stdout
    assert json.loads(listed) == printed


@pytest.mark.parametrize(
    ("lo", "hi", "complaint"),
    [
        (1, 10, "begins at 2"),
        (10, 10, "empty range"),
        (10, 9, "empty range"),
        (2**63 - 1, 2**63 + 1, r"beyond 2\^63"),
    ],
)
def test_ranges_outside_the_text(lo: int, hi: int, complaint: str) -> None:
    with pytest.raises(nt.InputError, match=complaint):
        SHIFTED.words(lo, hi)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_bad_seeds(seed: int) -> None:
    with pytest.raises(nt.InputError, match="a seed is an integer from 0"):
        Surrogate(seed)
