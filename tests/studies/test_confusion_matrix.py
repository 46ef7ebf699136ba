import dataclasses

import numpy as np
import pytest
from numpy.typing import NDArray

from arithmetext.evaluation.estimates import UNKNOWN, Estimate, rate
from arithmetext.evaluation.word_groups import square_free_errors
from arithmetext.evaluation.words import confusion_by_prompt
from arithmetext.paper.studies import confusion_matrix as study
from arithmetext.paper.studies.confusion_matrix import Matrix, summarise
from arithmetext.text.sieve import Words
from arithmetext.trees import is_square_free, unpack

from .cases import Case, check, committed, draw, outcomes

RESULT = committed("confusion_matrix")
GPT = "confusion.GPT-2"
ABOVE, AROUND, BELOW = Estimate(0.6, 0.51, 0.7), Estimate(0.6, 0.5, 0.7), Estimate(0.3, 0.2, 0.4)
DECIDED = ((ABOVE, True), (AROUND, None), (BELOW, False), (UNKNOWN, None))


POSITIVE, ZERO, NEGATIVE = Estimate(0.1, 0.01, 0.2), Estimate(0, -0.1, 0.1), Estimate(-0.1, -0.2, 0)
SIGNS = ((POSITIVE, True), (ZERO, None), (NEGATIVE, False), (UNKNOWN, None))

CASES: list[Case] = [
    *(({f"{GPT}.corner.excess": each}, {"bright-corner": expected}) for each, expected in SIGNS),
    ({f"{GPT}.corner.generated": BELOW}, {}),  # the columns of frequent words are bright anyway
    *(
        (
            {f"{GPT}.errors.at_square_free": estimate, f"{GPT}.errors.by_chance": 0.5},
            {"confuses-square-free": expected},
        )
        for estimate, expected in DECIDED
    ),
    *(({f"{GPT}.errors.lead": each}, {"dominant-error": expected}) for each, expected in SIGNS),
    ({f"{GPT}.errors.within": Estimate(0.3, 0.2, 0.4)}, {}),  # the largest may be below one half
    ({"confusion.HMM.errors.lead": NEGATIVE}, {}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("confusion_matrix", case)


WORDS = ("1100", "101010", "111000", "10", "110010", "10101010", "1010")
FREE = [word for word in WORDS if is_square_free(word)]
OTHER = [word for word in WORDS if not is_square_free(word)]


def texts(right: float, like: float, *, seeds: int = 2) -> tuple[list[Words], list[Words], int]:
    """40 prompts of 50 words; a wrong word is of the same kind as the true word, or any word."""
    text = np.random.default_rng(0)
    true, predicted = [], []
    for seed in range(seeds):
        random = np.random.default_rng([seed, 1])
        for _ in range(40):
            words = text.choice(WORDS, 50)
            kinds = [FREE if is_square_free(word) else OTHER for word in words]
            alike = [random.choice(kind) for kind in kinds]
            wrong = np.where(random.random(50) < like, alike, random.choice(WORDS, 50))
            true.append(packed(words))
            predicted.append(packed(np.where(random.random(50) < right, words, wrong)))
    return predicted, true, seeds


def packed(words: NDArray[np.str_]) -> Words:
    return np.array([int(word, 2) for word in words], np.uint64)


def matrix(predicted: list[Words], true: list[Words], seeds: int) -> Matrix:
    labels, counts = confusion_by_prompt(predicted, true, study.WORDS)
    errors = square_free_errors(predicted, true, seeds)
    by_seed = counts.reshape(seeds, -1, *counts.shape[1:])
    return summarise([unpack(word) for word in labels], by_seed, errors)


def decided(gpt: Matrix) -> dict[str, bool | None]:
    confusion = {"GPT-2": gpt, "HMM": matrix(*texts(0.1, 0))}
    result = dataclasses.replace(RESULT, confusion=confusion, stand_in="")
    draw("confusion_matrix", result)
    return outcomes(study, result)


def test_words_decide_the_verdicts() -> None:
    assert decided(matrix(*texts(0.4, 0.8))) == {
        "bright-corner": True,  # square-free words are mostly confused with each other
        "confuses-square-free": True,
        "dominant-error": True,  # four of the seven words are square-free
    }
    blind = decided(matrix(*texts(0.0, 0.0)))
    assert blind["bright-corner"] is None and blind["confuses-square-free"] is None
    predicted, true, seeds = texts(0.4, 0.8)
    swapped = [np.where(words == 42, np.uint64(12), words) for words in predicted]
    assert decided(matrix(swapped, true, seeds))["dominant-error"] is not True


def test_no_words() -> None:
    none = [np.zeros(0, np.uint64)] * 4
    assert set(decided(matrix(none, none, 2)).values()) == {None}


def test_square_free_words_come_first_and_rows_sum_to_one() -> None:
    found = matrix(*texts(0.4, 0.8))
    assert found.words[:4] == ["10", "1010", "101010", "10101010"]
    assert set(found.words[4:]) == set(OTHER)
    assert np.sum(found.shares[:-1], 1) == pytest.approx(1)
    assert found.places == [sum(row) for row in found.counts]
    assert found.total == sum(found.places) == 2 * 40 * 50


def test_rows_and_columns_are_sorted_alike() -> None:
    """Columns: 1100, 10, others, malformed; the rows have no malformed words."""
    counts = np.array([[5, 1, 2, 1], [3, 4, 0, 6], [7, 8, 9, 10]])
    errors = RESULT.confusion["GPT-2"].errors
    found = summarise(["1100", "10"], np.array([[counts, 2 * counts]] * 2), errors)
    assert found.words == ["10", "1100"]
    expected = [[4, 3, 0, 6], [1, 5, 2, 1], [8, 7, 9, 10]]
    assert found.counts == (6 * np.array(expected)).tolist()
    assert found.corner.generated == rate(np.array([[4, 8]] * 2), np.array([[13, 26]] * 2))


def test_a_stand_in_tests_no_claim() -> None:
    result = dataclasses.replace(RESULT, stand_in="This model is a small one.")
    assert set(outcomes(study, result).values()) == {None}
