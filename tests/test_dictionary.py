"""The dictionary against brute force and known sizes."""

import pytest

import arithmetext as nt
from arithmetext.counting.dictionary import dictionary_size, first_occurrences

SIZES = [3, 12, 29, 63, 123, 230, 412, 708, 1195, 1984, 3266, 5272, 8420, 13270, 20757]
FIRST = [2, 4, 6, 12, 16, 18, 30, 36, 48, 60, 64, 90, 144, 150, 162, 180, 192, 210, 240]


def test_sizes() -> None:
    assert [dictionary_size(10**k) for k in range(1, 16)] == SIZES


def test_first_occurrences() -> None:
    assert first_occurrences(240) == FIRST


def test_both_against_brute_force() -> None:
    seen: set[str] = set()
    expected = []
    for n in range(2, 2000):
        if (word := nt.word(n)) not in seen:
            seen.add(word)
            expected.append(n)
        assert dictionary_size(n) == len(expected)
    assert first_occurrences(1999) == expected


def test_listing_and_counting_agree_at_a_large_x() -> None:
    x = 123456789 * 10**10
    assert len(first_occurrences(x)) == dictionary_size(x)


def test_16_bits_hold_the_dictionary_of_1e17_and_not_of_1e18() -> None:
    assert dictionary_size(10**17) <= 2**16 < dictionary_size(10**18)


@pytest.mark.parametrize("x", [1, 0])
def test_below_the_text(x: int) -> None:
    with pytest.raises(nt.InputError, match="begins at 2"):
        dictionary_size(x)
