"""The census against brute force, and against counts made independently of it."""

import random
from collections import Counter
from functools import cache

import pytest

from arithmetext.counting import census as module
from arithmetext.counting.census import census, unigram_entropy
from arithmetext.counting.dictionary import dictionary_size
from arithmetext.errors import InputError
from arithmetext.trees import first_primes, pack, packed, tree_of_word, unpack

SHORT = 1000
EXACT_AT_1E11 = {
    "101010": 19522428788,
    "10101010": 14709861824,
    "1010": 13959963049,
    "11001010": 7831233009,
    "1100101010": 7716621117,
    "1010101010": 6499261245,
    "10": 4118054813,
}


@cache
def known(x: int) -> dict[int, int]:
    return census(x)


def sieved_words(limit: int) -> list[int]:
    """The packed words of 0..limit (0 for 0 and 1), by a plain sieve."""
    words = [""] * (limit + 1)
    for p in range(2, limit + 1):
        if words[p]:
            continue
        for n in range(p, limit + 1, p):
            exponent, rest = 0, n
            while rest % p == 0:
                exponent, rest = exponent + 1, rest // p
            words[n] += f"1{unpack(packed(exponent))}0"
    return [pack(word) for word in words]


def test_every_short_text() -> None:
    counts: Counter[int] = Counter()
    for x in range(2, SHORT):
        counts[packed(x)] += 1
        assert census(x, threads=1) == counts, x


def test_longer_texts() -> None:
    limit = 150_000
    words = sieved_words(limit)
    squares = [p * p for p in first_primes(75)[35:]]
    near_squares = [p * p - 1 for p in first_primes(75)[65:]]
    anywhere = random.Random(0).sample(range(SHORT, limit), 20)
    counts: Counter[int] = Counter()
    done = 2
    for x in sorted([*squares, *near_squares, *anywhere, 2**16, 2**17, limit]):
        counts.update(words[done : x + 1])
        done = x + 1
        assert census(x, threads=1) == counts, x


def test_the_most_frequent_words_come_first() -> None:
    items = list(known(10**6).items())
    assert items == sorted(items, key=lambda item: (-item[1], item[0]))
    assert list(census(3).items()) == [(2, 2)]


def test_counts_at_1e11() -> None:
    counts = known(10**11)
    assert {word: counts[pack(word)] for word in EXACT_AT_1E11} == EXACT_AT_1E11
    assert list(counts)[:7] == [pack(word) for word in EXACT_AT_1E11]
    assert sum(counts.values()) == 10**11 - 1
    heights, primes = Counter[int](), Counter[int]()
    for word, count in counts.items():
        tree = tree_of_word(unpack(word))
        heights[tree.height] += count
        primes[len(tree.children)] += count
    assert [heights[h] for h in range(1, 6)] == [60792710279, 34799591326, 4406933906, 764488, 0]
    assert [primes[k] for k in range(1, 12)] == [
        *(4118082969, 17538171284, 30542141806, 28081847675, 14659052293),
        *(4330974319, 679402761, 49099640, 1222320, 4932, 0),
    ]


@pytest.mark.parametrize(("x", "bits"), [(10**10, 3.972063), (10**11, 4.018613)])
def test_entropy(x: int, bits: float) -> None:
    assert unigram_entropy(known(x)) == pytest.approx(bits, abs=5e-7)


def test_entropy_of_one_and_of_two_words() -> None:
    assert unigram_entropy({2: 7}) == 0
    assert unigram_entropy({2: 5, 12: 5}) == 1


def test_products_of_two_primes() -> None:
    """OEIS A036351."""
    found = [census(10**n)[0b1010] for n in range(1, 8)]
    assert found == [2, 30, 288, 2600, 23313, 209867, 1903878]


@pytest.mark.parametrize("x", [10**2, 10**5, 10**8, 10**10, 10**11])
def test_the_census_has_the_whole_dictionary(x: int) -> None:
    assert len(known(x)) == dictionary_size(x)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_census_does_not_depend_on_threads(threads: int) -> None:
    assert list(census(10**9, threads=threads).items()) == list(known(10**9).items())


def test_quotients_on_both_sides_of_exact_floats() -> None:
    for v in (2**50 - 1, 2**50, 2**50 + 1, 10**18):
        for k in (1, 2, 3, 7, 99991, 2**20 + 7):
            assert module._divide(v - v % k, k, 1 / k) == v // k
            assert module._divide(v - v % k - 1, k, 1 / k) == v // k - 1


def test_sums_on_both_sides_of_exact_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    """Integer division, which only x > 2^50 needs, and floating point give the same sum."""
    x = 10**8
    arguments = *module._tabulate(x), 6, x // 6, 2, 100
    monkeypatch.setattr(module, "_EXACT", 0)  # seen by the Python function, not by the kernel
    assert module._sum_of_pi.py_func(*arguments) == module._sum_of_pi(*arguments)


@pytest.mark.parametrize("x", [-5, 0, 1, 10**18 + 1, 10**30])
def test_out_of_range(x: int) -> None:
    with pytest.raises(InputError, match=r"x from 2 to 10\^18") as error:
        census(x)
    assert "\n" not in str(error.value)
