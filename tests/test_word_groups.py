"""How often words of a group are confused with each other, counted by hand."""

import numpy as np
import pytest

from arithmetext.evaluation.estimates import UNKNOWN, rate, wilson
from arithmetext.evaluation.word_groups import errors_in_group, group_cells, share_of_errors

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
    assert found.cell_elsewhere == pytest.approx((0.3 + 0.1) / 2)
    assert found.generated == shares([4, 2], [6, 4])
    assert found.generated_elsewhere == pytest.approx(4 / 20)


def test_a_group_of_one_word_has_no_errors_within() -> None:
    assert errors_in_group(COUNTS, [0]) == (wilson(0, 4), 0)
    assert share_of_errors(COUNTS, [0]) == wilson(0, 30 - 6 - 5)


def test_errors_by_chance_follow_what_is_generated() -> None:
    counts = COUNTS * np.array([1, 1, 0])[:, None]
    errors, by_chance = errors_in_group(counts, [0, 1])
    assert errors == shares([2, 3], [3, 6])
    # 9, 7, 2 and 2 are generated: a wrong word at the first is the second in 7 of 11 cases.
    assert by_chance == pytest.approx((4 * 7 / 11 + 5 * 9 / 13) / 9)
    assert share_of_errors(counts, [0, 1]) == shares([2, 3], [3, 6])


def test_an_empty_group() -> None:
    assert group_cells(COUNTS, []) == (0, 0, UNKNOWN, 0)
    assert errors_in_group(COUNTS, []) == (UNKNOWN, 0)
    assert share_of_errors(COUNTS, []) == wilson(0, 19)
