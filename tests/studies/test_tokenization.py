import pytest

from arithmetext.evaluation.estimates import UNKNOWN

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
    ({"attention.most": 7}, {}),  # the paper's arrows are an example
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("tokenization", case)


def test_unknown_attention_is_drawn() -> None:
    unknown = {f"distances.own.{curve}.2": UNKNOWN for curve in ("all_heads", "periodic")}
    draw("tokenization", edited(committed("tokenization"), unknown))
