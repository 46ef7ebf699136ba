"""The sieve against python-flint: random windows, and the places where it could go wrong."""

from itertools import accumulate, pairwise, takewhile
from math import log2
from operator import mul

import numpy as np
import pytest
from flint import fmpz
from hypothesis import example, given, settings
from hypothesis import strategies as st

import arithmetext as nt
from arithmetext.text import kernels, sieve
from arithmetext.text.sieve import Words, segments, words, words_in_buffer, words_of_windows


def by_flint(n: int) -> int:
    """The packed word of n from FLINT's factorisation alone."""

    def word(n: int) -> str:
        return "".join(f"1{word(int(a))}0" for _, a in sorted(fmpz(n).factor()))

    return int(word(n), 2)


def check(lo: int, hi: int) -> None:
    assert words(lo, hi).tolist() == [by_flint(n) for n in range(lo, hi)]


def test_the_first_words() -> None:
    assert words(2, 13).tolist() == [2, 2, 12, 2, 10, 2, 12, 12, 10, 2, 50]
    assert words(2, 3).tolist() == [2]


# First, so that the primes for 2^63 serve all other tests.
def test_the_last_integers_below_2_to_the_63() -> None:
    check(2**63 - 400, 2**63)


@pytest.mark.parametrize("scale", [10**6, 10**10, 10**13, 10**15, 10**18])
def test_random_windows_against_flint(scale: int) -> None:
    rng = np.random.default_rng(scale % 997)
    for start in rng.integers(scale // 2, scale, 4).tolist():
        check(start, start + 250)
    check(scale - 100, scale + 100)


@settings(max_examples=60)
@given(st.integers(2, 10**14), st.integers(1, 40))
def test_any_window(lo: int, count: int) -> None:
    check(lo, lo + count)


@settings(max_examples=60)
@given(st.integers(2, 52), st.integers(1, 40))
def test_around_powers_of_two(exponent: int, reach: int) -> None:
    check(max(2, 2**exponent - reach), 2**exponent + reach)


# Primes p whose square lies close to a round number, and squares times small cofactors.
@pytest.mark.parametrize("p", [67, 65537, 99991, 999983, 31622743, 99999989, 3037000493])
def test_squares_of_large_primes(p: int) -> None:
    n = p * p
    check(max(2, n - 20), min(2**63, n + 20))
    for cofactor in (2, 3, 7, 30, 49, 64, 101):
        if n * cofactor < 2**63:
            check(n * cofactor, n * cofactor + 1)


def test_high_powers_and_many_squares() -> None:
    special = [7**k for k in range(1, 22)] + [3**k for k in range(1, 39)] + [5**26, 11**18, 13**17]
    special += [(7 * 11 * 13) ** 2, (7 * 11 * 13 * 17) ** 4, (7 * 11 * 13 * 17 * 19 * 23) ** 2]
    special += [7**4 * 11**4 * 13**4, 2**7 * 3**4 * 5**4 * 7**4 * 11**6, 614889782588491410]
    for n in special:
        assert words(n, n + 1).tolist() == [by_flint(n)], n


def test_borders_between_segments_and_the_small_table() -> None:
    check(4090, 4100)
    size = sieve.segment_size(10**7)
    check(3 * size - 50, 3 * size + 50)
    whole = words(2, 3 * size + 5)
    assert np.array_equal(np.concatenate([piece for _, piece in segments(2, 3 * size + 5)]), whole)
    assert np.array_equal(whole, words(2, 3 * size + 5, threads=1))


def test_segments_say_where_they_begin() -> None:
    starts = [lo for lo, _ in segments(10**6, 10**6 + 600_000)]
    lengths = [len(piece) for _, piece in segments(10**6, 10**6 + 600_000)]
    assert starts[0] == 10**6
    assert starts[1:] == [a + b for a, b in zip(starts, lengths, strict=True)][:-1]
    assert sum(lengths) == 600_000


def test_a_window_with_more_squares_than_foreseen(monkeypatch) -> None:
    # By the Chinese remainder theorem, a window in which every integer has a square to patch.
    primes = [13, 17, 19, 23, 29]
    n, modulus = 0, 1
    for k, p in enumerate(primes):
        n += modulus * ((-k - n) * pow(modulus, -1, p * p) % (p * p))
        modulus *= p * p
    check(n, n + len(primes))
    monkeypatch.setattr(sieve, "_patch_room", lambda count: 1)
    check(n, n + len(primes))  # the sieve notices it and repeats the segment with more room
    patches = np.empty(2, np.int64)
    out = np.empty(5, np.uint64)
    primes_needed = sieve.base_primes(10**6)
    args = (n, primes_needed, kernels.tables(), np.empty(5, np.uint16), patches, out)
    assert kernels.sieve_segment(*args) > len(patches)


@pytest.mark.parametrize(("lo", "expected"), [(10**10, 3422995), (10**15, 3820061)])
def test_sum_of_omega(lo: int, expected: int) -> None:
    # The number of primes of n is the number of children of its tree.
    total = 0
    for word, count in zip(*np.unique(words(lo, lo + 10**6), return_counts=True), strict=True):
        total += len(nt.tree_of_word(nt.unpack(int(word))).children) * int(count)
    assert total == expected


def test_base_primes() -> None:
    primes = kernels.primes_to(10**6)
    assert len(primes) == 78498
    assert primes[:5].tolist() == [2, 3, 5, 7, 11]
    assert kernels.primes_to(65537)[-1] == 65537
    assert kernels.primes_to(65536)[-1] == 65521


def in_small_pieces(lo: int, hi: int) -> Words:
    """The words of a range from segments whose last integer is at most twice the first."""
    cuts = [*range(lo, hi, 1 << 12), hi]
    return np.concatenate([words_in_buffer(a, b).copy() for a, b in pairwise(cuts)])


@settings(max_examples=50)
@given(
    st.lists(st.integers(2, 10**4) | st.integers(2, 10**13), min_size=1, max_size=8),
    st.integers(1, 2000),
)
@example([10**6, 4096], 4096**2 // 4 - 4096)
@example([10**6, 4096], 4096**2 // 4 - 4095)
@example([2**50, 4096], 1)
def test_words_of_windows(starts: list[int], length: int) -> None:
    found = words_of_windows(starts, length).copy()
    assert found.shape == (len(starts), length)
    for start, row in zip(starts, found, strict=True):
        assert np.array_equal(row, words(start, start + length))


def test_windows_with_the_most_patches() -> None:
    """Every integer of a short window has the square of a prime from 13 on."""
    n, modulus = 0, 1
    for k, p in enumerate((13, 17, 19, 23, 29)):  # n + k ≡ 0 (mod p²)
        n += modulus * ((-k - n) * pow(modulus, -1, p * p) % (p * p))
        modulus *= p * p
    starts = [n, 10**6, n]
    assert np.array_equal(words_of_windows(starts, 5), [words(lo, lo + 5) for lo in starts])


@pytest.mark.parametrize("starts", [[1, 5000], [2**63 - 9, 2]])
def test_windows_outside_the_text(starts: list[int]) -> None:
    with pytest.raises(nt.InputError):
        words_of_windows(starts, 10)


@settings(max_examples=15)
@given(st.integers(2, 5000), st.integers(1, 12 * 10**6), st.data())
@example(2, 9_000_000, None)
@example(4096, 4096**2 // 4, None)
@example(4096, 4096**2 // 4 + 1, None)
def test_segments_that_end_far_beyond_their_beginning(
    lo: int, hi: int, data: st.DataObject | None
) -> None:
    hi = max(hi, lo + 1)
    found = words_in_buffer(lo, hi).copy()
    assert np.array_equal(found, in_small_pieces(lo, hi))
    # Multiples of a prime just above √hi, at the end of the range: there the sum of the logarithms
    # of the other primes is closest to the threshold.
    prime = next(int(p) for p in sieve.base_primes(10**4) if p * p >= hi)
    largest = (hi - 1) // prime * prime
    drawn = data.draw(st.lists(st.integers(lo, hi - 1), max_size=20)) if data else []
    for n in [*drawn, *range(largest, max(lo, largest - 20 * prime), -prime)]:
        assert found[n - lo] == by_flint(n), n


@pytest.mark.parametrize("lo", [kernels.SIEVE_FROM, 5000, 7001])
def test_the_longest_segment_that_the_kernel_takes(lo: int) -> None:
    hi = kernels.longest_segment_end(lo)
    out, acc = np.empty(hi - lo, np.uint64), np.empty(hi - lo, np.uint16)
    patches = np.empty(hi - lo, np.int64)
    primes = sieve.base_primes(hi)
    kernels.sieve_segment(lo, primes, kernels.tables(), acc, patches, out)
    assert np.array_equal(out, in_small_pieces(lo, hi))


def test_rounded_logarithms_never_mislead() -> None:
    """The two inequalities of docs/sieve.md, with the primes whose logarithms are rounded most."""
    units = kernels._LOG_UNIT
    rounded = {p: round(units * log2(p)) for p in kernels.primes_to(1 << 16).tolist()}
    per_bit = max(abs(log - units * log2(p)) / log2(p) for p, log in rounded.items())
    assert 1 + per_bit * 63 < 32  # a complete sum is never taken for an incomplete one
    assert 1 + per_bit * 63 / 2 < 31  # and an incomplete one never for a complete one
    assert units * 63 + 1 + per_bit * 63 < 1 << kernels._COUNT_BIT
    most = takewhile(lambda n: n < 2**63, accumulate(kernels.primes_to(100)[5:].tolist(), mul))
    assert len(list(most)) == 12 < 1 << 16 - kernels._COUNT_BIT


@pytest.mark.parametrize("kind", [np.uint64, np.int32, np.uint32, np.int64])
def test_numpy_integers_are_accepted_as_bounds(kind: type) -> None:
    expected = [by_flint(n) for n in range(10**6, 10**6 + 300)]
    assert words(kind(10**6), kind(10**6 + 300)).tolist() == expected
    assert words_in_buffer(kind(10**6), kind(10**6 + 300)).tolist() == expected
    assert [w for _, piece in segments(kind(2**31 - 9), kind(2**31 - 1)) for w in piece] == [
        by_flint(n) for n in range(2**31 - 9, 2**31 - 1)
    ]


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
        words(lo, hi)
    with pytest.raises(nt.InputError, match=complaint):
        list(segments(lo, hi))
    with pytest.raises(nt.InputError, match=complaint):
        words_in_buffer(lo, hi)
