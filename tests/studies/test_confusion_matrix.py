import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

from arithmetext.evaluation.estimates import UNKNOWN, Estimate, rate
from arithmetext.paper.studies import confusion_matrix as study
from arithmetext.paper.studies.confusion_matrix import Matrix, summarise

from .cases import Case, check, committed, draw, outcomes

RESULT = committed("confusion_matrix")
GPT = "confusion.GPT-2"
ABOVE, AROUND, BELOW = Estimate(0.6, 0.51, 0.7), Estimate(0.6, 0.5, 0.7), Estimate(0.3, 0.2, 0.4)
DECIDED = ((ABOVE, True), (AROUND, None), (BELOW, False), (UNKNOWN, None))


def corner(cell: float, generated: Estimate) -> dict[str, object]:
    """Edits: other rows have 0.2 in a cell of the corner's columns, and 0.5 in all three."""
    return {
        f"{GPT}.corner.cell": cell,
        f"{GPT}.corner.cell_elsewhere": 0.2,
        f"{GPT}.corner.generated": generated,
        f"{GPT}.corner.generated_elsewhere": 0.5,
    }


CASES: list[Case] = [
    *((corner(0.21, estimate), {"bright-corner": expected}) for estimate, expected in DECIDED),
    (corner(0.2, ABOVE), {"bright-corner": False}),
    *(
        (
            {f"{GPT}.square_free_errors": estimate, f"{GPT}.square_free_by_chance": 0.5},
            {"confuses-square-free": expected},
        )
        for estimate, expected in DECIDED
    ),
    *(
        ({f"{GPT}.dominant_errors": estimate}, {"dominant-error": expected})
        for estimate, expected in DECIDED
    ),
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
    return summarise(list(WORDS), by_prompt(counts))


def by_prompt(counts: object) -> NDArray[np.int64]:
    """One seed, 50 prompts with the same counts."""
    return np.repeat(np.array(counts)[None, None], 50, 1)


def disagreeing(gpt: Matrix) -> list[str]:
    confusion = {"GPT-2": gpt, "HMM": matrix()}
    result = dataclasses.replace(RESULT, confusion=confusion, stand_in="")
    draw("confusion_matrix", result)
    return [verdict.key for verdict in study.verdicts(result) if not verdict.agrees]


@pytest.mark.parametrize(
    ("gpt", "keys"),
    [
        (matrix(), []),
        (matrix(corner=(60, 5, 5, 40, 5)), ["confuses-square-free", "dominant-error"]),
        (matrix(other=(60, 5, 5, 45, 5)), ["dominant-error"]),
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
            summarise([], by_prompt([[5, 5]])),
            ["bright-corner", "confuses-square-free", "dominant-error"],
        ),
        (
            summarise([], by_prompt([[0, 0]])),
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
    assert [row[i] for i, row in enumerate(found.counts)] == [50 * 60] * 7 + [50 * 5]


def test_the_groups_are_the_corner_and_all_square_free_words() -> None:
    """Columns: 1100, 10101010, 10, 1010, others, malformed; the rows have no others.

    Two seeds with two prompts; the second prompt of each has the counts twice.
    """
    counts = np.array(
        [[5, 1, 2, 1, 0, 1], [0, 4, 3, 3, 0, 0], [1, 1, 6, 2, 0, 0], [0, 2, 3, 5, 0, 0]]
    )
    whole = np.vstack([counts, np.zeros(6, int)])
    found = summarise(["1100", "10101010", "10", "1010"], np.array([[whole, 2 * whole]] * 2))
    assert found.words == ["10", "1010", "10101010", "1100"]
    each = np.array([[1, 2], [1, 2]])
    assert found.corner.generated == rate((6 + 2 + 3 + 5) * each, 20 * each)
    assert found.square_free_errors == rate((2 + 1 + 3 + 2 + 3 + 3) * each, (4 + 5 + 6) * each)
    assert found.dominant_errors == rate(14 * each, (40 - 20) * each)
    assert found.counts[0][:4] == [6 * 6, 6 * 2, 6 * 1, 6 * 1]


def test_a_stand_in_tests_no_claim() -> None:
    result = dataclasses.replace(RESULT, stand_in="This model is a small one.")
    assert set(outcomes(study, result).values()) == {None}
