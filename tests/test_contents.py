"""What tokens hold, and the merges behind a vocabulary."""

import pytest

from arithmetext.tokens.contents import contents, count_merged


# Kinds of the eight tokens of 5 to 14: 10 1010 10 1100 1100 1010 10 110010 10 1010.
@pytest.mark.parametrize(
    ("tokens", "one", "several", "part", "space", "split"),
    [
        (
            ("10 1010 ", "10 1100", " 1100", " 1010", " ", "10 1100", "10 ", "10 1010"),
            *(2, 3, 2, 1, [12]),
        ),
        (
            ("10 1010 ", "10 1100", " 1100", " 1010 ", "10 ", "1100", "10 ", "10 1010"),
            *(3, 3, 2, 0, [12]),
        ),
        (
            ("10 1010 ", "10 1100", " 1100", " 1010", " ", "10 ", "110010 ", "10 1010"),
            *(4, 3, 0, 1, []),
        ),
        (
            ("10 1010 ", "10 1100", " 1100 1010", " ", "10 11", "00", "10 ", "10 1010"),
            *(0, 4, 3, 1, [12]),
        ),
        (
            ("10 10", "10 10 1100", " 1100", " 1010", " ", "10 ", "110010 ", "10 1010"),
            *(4, 1, 2, 1, [6]),
        ),
    ],
)
def test_what_tokens_hold(
    tokens: tuple[str, ...], one: int, several: int, part: int, space: int, split: list[int]
) -> None:
    found = contents(tokens, 5)
    assert list(found.counts.values()) == [one, several, part, space]
    assert found.split == split


def test_only_different_tokens_of_two_earlier_ones_are_merges() -> None:
    assert count_merged([" ", "0", "1", "10", "1010", "10 "]) == 3
    assert count_merged([" ", "0", "1", "110"]) == 0
    assert count_merged([" ", "0", "1", "10", "10"]) == 1
