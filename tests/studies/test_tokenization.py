import pytest

from arithmetext.evaluation.estimates import UNKNOWN
from arithmetext.paper.studies.tokenization import (
    PAPER_TOKENS,
    count_merged,
    describe_cut,
    last_token,
)

from .cases import Case, check, committed, draw, edited

CASES: list[Case] = [
    ({"cut.tokens.3": " 1010 ", "cut.tokens.4": ""}, {"eight-tokens": False}),
    ({"cut.counts.one word": 0}, {"kinds-of-tokens": False}),
    ({"cut.counts.several words": 0}, {"kinds-of-tokens": False}),
    ({"cut.counts.part of a word": 0}, {"kinds-of-tokens": False}),
    ({"cut.split": [6]}, {"kinds-of-tokens": False}),
    ({"cut.counts.a space": 0}, {}),
    ({"merged": 252}, {"one-token-per-merge": False}),
    ({"vocabulary.0": "0", "vocabulary.1": " "}, {"one-token-per-merge": False}),
    ({"attention.most": 7}, {"attends-to-previous": True}),
    ({"attention.layers_at_previous": 12}, {}),  # the verdict is about the mean of all heads
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("tokenization", case)


def test_unknown_attention_is_drawn() -> None:
    unknown = {f"distances.own.{curve}.2": UNKNOWN for curve in ("all_heads", "periodic")}
    draw("tokenization", edited(committed("tokenization"), unknown))


# Kinds of the eight tokens of 5 to 14: 10 1010 10 1100 1100 1010 10 110010 10 1010.
@pytest.mark.parametrize(
    ("tokens", "one", "several", "part", "space", "split"),
    [
        (PAPER_TOKENS, 2, 3, 2, 1, [12]),
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
    cut = describe_cut(list(tokens), 5)
    assert list(cut.counts.values()) == [one, several, part, space]
    assert cut.split == split


def test_only_different_tokens_of_two_earlier_ones_are_merges() -> None:
    assert count_merged([" ", "0", "1", "10", "1010", "10 "]) == 3
    assert count_merged([" ", "0", "1", "110"]) == 0
    assert count_merged([" ", "0", "1", "10", "10"]) == 1


def test_attention_to_the_last_token_itself_does_not_count() -> None:
    found = last_token([[0.2, 0.3, 0.5], [0.6, 0.1, 0.3], [0.1, 0.2, 0.7]])
    assert found.mean == pytest.approx([0.3, 0.2, 0.5])
    assert (found.most, found.largest) == (1, pytest.approx(0.3))
    assert found.layers_at_previous == 2
