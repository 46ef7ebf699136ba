"""How often words of a group are confused with each other, counted by hand."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arithmetext.evaluation.estimates import UNKNOWN, rate
from arithmetext.evaluation.word_groups import group_cells, square_free_errors
from arithmetext.text.sieve import Words
from arithmetext.trees import is_square_free

# Two labels, others, malformed; one seed with two prompts.
FIRST = np.array([[4, 2, 0, 0], [0, 5, 0, 1], [1, 0, 3, 0]])
SECOND = np.array([[2, 0, 1, 1], [3, 0, 1, 0], [0, 2, 3, 1]])
COUNTS = np.array([[FIRST, SECOND]])  # [[6, 2, 1, 1], [3, 5, 1, 1], [1, 2, 6, 1]] together


def shares(hits: list[int], among: list[int]) -> object:
    """Over the prompts of one seed."""
    return rate(np.array([hits]), np.array([among]))


def test_cells_of_a_group() -> None:
    found = group_cells(COUNTS, [0])
    assert found.cell == pytest.approx(0.6)
    assert found.rest == pytest.approx((0.2 + 0.3 + 0.5) / 3)
    assert found.excess.value == pytest.approx(found.cell - found.rest)
    assert found.generated == shares([4, 2], [6, 4])
    assert found.generated_elsewhere == pytest.approx(4 / 20)


def test_a_matrix_of_equal_cells_has_no_bright_group() -> None:
    found = group_cells(np.full((2, 9, 4, 5), 3), [0, 1])
    assert (found.cell, found.rest, found.excess.value) == pytest.approx((0.2, 0.2, 0))


def test_groups_of_no_words_and_of_all_words() -> None:
    assert group_cells(COUNTS, []) == (0, pytest.approx(1.6 / 4), UNKNOWN, UNKNOWN, 0)
    assert group_cells(COUNTS, [0, 1]).excess == UNKNOWN


def packed(*words: str) -> Words:
    return np.array([int(word, 2) for word in words], np.uint64)


def test_errors_at_square_free_words_by_hand() -> None:
    """Two seeds continue one prompt; a malformed word (0) is not square-free."""
    true = [packed("10", "10", "1010", "1100", "1100", "10")] * 2
    predicted = [
        packed("10", "1010", "10", "10", "110010", "0"),
        packed("10", "10", "1100", "1100", "1010", "1010"),
    ]
    found = square_free_errors(predicted, true, 2)
    classes = np.array([[[2, 1, 1, 1]], [[1, 1, 1, 0]]])
    for i, share in enumerate((found.within, found.lost, found.gained, found.outside)):
        assert share == rate(classes[..., i], classes.sum(2))
    assert found.at_square_free == rate(np.array([[2], [1]]), np.array([[3], [2]]))
    assert found.lead.value == pytest.approx((3 - 2) / 8)
    # Of 12 generated words, 5 are 10 and 3 are 1010: 10 is wrong three times, 1010 twice.
    assert found.by_chance == pytest.approx((3 * 3 / 7 + 2 * 5 / 9) / 5)


WORDS = ["10", "1010", "101010", "1100", "110010", "0"]


@given(st.lists(st.tuples(st.sampled_from(WORDS[:-1]), st.sampled_from(WORDS)), min_size=1))
def test_errors_equal_those_of_plain_loops(pairs: list[tuple[str, str]]) -> None:
    true, predicted = (packed(*words) for words in zip(*pairs, strict=True))
    found = square_free_errors([predicted], [true], 1)
    errors = Counter(
        (is_square_free(t), p != "0" and is_square_free(p)) for t, p in pairs if t != p
    )
    n = errors.total()
    if not n:
        assert found[:6] == (UNKNOWN,) * 6
        return
    assert found.within.value == errors[True, True] / n
    assert found.lost.value == errors[True, False] / n
    assert found.gained.value == errors[False, True] / n
    assert found.outside.value == errors[False, False] / n
    others = max(errors[True, False], errors[False, True], errors[False, False])
    assert found.lead.value == pytest.approx((errors[True, True] - others) / n)


def test_a_class_that_leads_in_every_prompt_leads_clearly() -> None:
    true = [packed("10", "1010", "1100")] * 20
    found = square_free_errors([packed("1010", "10", "110010")] * 20, true, 1)
    assert found.lead == pytest.approx((1 / 3, 1 / 3, 1 / 3))
