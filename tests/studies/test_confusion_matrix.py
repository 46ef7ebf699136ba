import dataclasses

import numpy as np
import pytest

from arithmetext.evaluation.estimates import Estimate, wilson
from arithmetext.paper.studies import confusion_matrix as study
from arithmetext.paper.studies.confusion_matrix import Matrix, summarise

from .cases import Case, check, committed, draw

RESULT = committed("confusion_matrix")
GPT = "confusion.GPT-2"
LOW = Estimate(0.6, 0.5, 0.7)

CASES: list[Case] = [
    ({f"{GPT}.corner.cell": 0.2, f"{GPT}.corner.cell_elsewhere": 0.2}, {"bright-corner": False}),
    ({f"{GPT}.corner.cell": 0.21, f"{GPT}.corner.cell_elsewhere": 0.2}, {}),
    (
        {f"{GPT}.corner.generated": LOW, f"{GPT}.corner.generated_elsewhere": 0.5},
        {"bright-corner": False},
    ),
    ({f"{GPT}.corner.generated": LOW, f"{GPT}.corner.generated_elsewhere": 0.49}, {}),
    (
        {f"{GPT}.square_free_errors": LOW, f"{GPT}.square_free_by_chance": 0.5},
        {"confuses-square-free": False},
    ),
    ({f"{GPT}.square_free_errors": LOW, f"{GPT}.square_free_by_chance": 0.49}, {}),
    ({f"{GPT}.dominant_errors": LOW}, {"dominant-error": False}),
    ({f"{GPT}.dominant_errors.low": 0.51}, {}),
    ({"confusion.HMM.dominant_errors": Estimate(0.1, 0.0, 0.2)}, {}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("confusion_matrix", case)


WORDS = ("1100", "101010", "111000", "10", "110010", "10101010", "1010")
KINDS = {"10": "corner", "1010": "corner", "101010": "corner", "10101010": "free"}
Counts = tuple[int, int, int, int, int]  # of the word itself; of corner, free, other and the rest
BLIND = (5, 30, 5, 5, 5)  # the same words whatever stands there, those of the corner most


def matrix(
    *,
    corner: Counts = (60, 40, 40, 5, 5),
    free: Counts = (60, 40, 40, 5, 5),
    other: Counts = (60, 5, 5, 20, 5),
    rest: Counts = (5, 5, 5, 5, 5),
) -> Matrix:
    """For each kind of word in the text: how often it is right, and how often each other word."""
    rows = {"corner": corner, "free": free, "other": other, "others": rest}
    columns = [*WORDS, "others", "malformed"]
    kinds = dict.fromkeys(WORDS, "other") | KINDS
    counts = []
    for word in columns[:-1]:
        right, *wrong = rows[kinds.get(word, word)]
        missed = dict(zip(("corner", "free", "other", "rest"), wrong, strict=True))
        counts.append([right if c == word else missed[kinds.get(c, "rest")] for c in columns])
    return summarise(list(WORDS), np.array(counts))


def disagreeing(gpt: Matrix) -> list[str]:
    result = dataclasses.replace(RESULT, confusion={"GPT-2": gpt, "HMM": matrix()})
    draw("confusion_matrix", result)
    return [verdict.key for verdict in study.verdicts(result) if not verdict.agrees]


@pytest.mark.parametrize(
    ("gpt", "keys"),
    [
        (matrix(), []),
        (matrix(corner=(60, 5, 5, 40, 5)), ["confuses-square-free", "dominant-error"]),
        (matrix(other=(60, 5, 5, 40, 5)), ["dominant-error"]),
        (matrix(other=(60, 5, 5, 20, 40)), ["dominant-error"]),
        (matrix(corner=(5, 5, 100, 5, 5)), ["bright-corner"]),
        (
            matrix(
                corner=(5, 5, 100, 5, 5),
                free=(60, 0, 40, 5, 5),
                other=(60, 0, 5, 5, 5),
                rest=(5, 0, 5, 5, 5),
            ),
            [],
        ),
        (
            matrix(corner=(30, 30, 5, 5, 5), free=BLIND, other=BLIND, rest=BLIND),
            ["bright-corner", "confuses-square-free", "dominant-error"],
        ),
        (
            summarise([], np.array([[5, 5]])),
            ["bright-corner", "confuses-square-free", "dominant-error"],
        ),
        (
            summarise([], np.array([[0, 0]])),
            ["bright-corner", "confuses-square-free", "dominant-error"],
        ),
    ],
)
def test_counts_decide_the_verdicts(gpt: Matrix, keys: list[str]) -> None:
    assert disagreeing(gpt) == keys


def test_square_free_words_come_first_and_rows_sum_to_one() -> None:
    found = matrix()
    assert found.words == ["10", "1010", "101010", "10101010", "1100", "111000", "110010"]
    assert np.sum(found.shares, 1) == pytest.approx(1)
    assert found.places == [sum(row) for row in found.counts]
    assert found.total == sum(found.places)
    assert [row[i] for i, row in enumerate(found.counts)] == [60] * 7 + [5]


def test_the_groups_are_the_corner_and_all_square_free_words() -> None:
    """Columns: 1100, 10101010, 10, 1010, others, malformed; the rows have no others."""
    counts = np.array(
        [[5, 1, 2, 1, 0, 1], [0, 4, 3, 3, 0, 0], [1, 1, 6, 2, 0, 0], [0, 2, 3, 5, 0, 0]]
    )
    found = summarise(["1100", "10101010", "10", "1010"], np.vstack([counts, np.zeros(6, int)]))
    assert found.words == ["10", "1010", "10101010", "1100"]
    assert found.corner.generated == wilson(6 + 2 + 3 + 5, 20)
    assert found.square_free_errors == wilson(2 + 1 + 3 + 2 + 3 + 3, 4 + 5 + 6)
    assert found.dominant_errors == wilson(14, 40 - 20)
