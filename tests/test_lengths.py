"""Accuracy by the number of tokens generated, and by the scale."""

from typing import Any

import numpy as np
import pytest

from arithmetext.evaluation.estimates import UNKNOWN, over_seeds_and_blocks
from arithmetext.evaluation.lengths import LengthScores, spread, trends


def curve(*rows: Any) -> list[LengthScores]:
    """The accuracies, [prompts] or [seeds][prompts], at the first, second, … length."""
    return [
        LengthScores(2**i, row if isinstance(row[0], list) else [row]) for i, row in enumerate(rows)
    ]


def test_lengths_are_compared_prompt_by_prompt() -> None:
    """All prompts change alike, so there is no doubt about the change, though they differ."""
    before = np.array([0.3, 0.7, 0.5, 0.6])
    rows = [(before + change).tolist() for change in (0.1, 0.3, 0.02, 0.01, 0.0)]
    found = trends([curve(*rows), curve(*rows)], 2)
    mean = (0.1 + 0.3 + 0.02 + 0.01) / 4  # at 1, 2, 4 and 8 tokens; the last length is 16
    assert found.fall == pytest.approx((mean, mean, mean))
    assert found.few_accuracy.value == pytest.approx(0.525 + mean)
    assert (found.quarter_tokens, found.few_continuations) == (4, 8)
    assert found.late_change == pytest.approx((-0.02, -0.02, -0.02))
    assert (found.quarter_accuracy, found.whole_accuracy) == pytest.approx((0.545, 0.525))
    assert found.deviation_fall == pytest.approx((0, 0, 0))
    assert found.deviation_first.value == pytest.approx(before.std())
    assert found.deviation_last.value == pytest.approx(before.std())


def test_the_standard_deviation_falls() -> None:
    random = np.random.default_rng(0)
    first, last = 0.4 + 0.2 * random.normal(size=(3, 200)), 0.4 + 0.1 * random.normal(size=(3, 200))
    found = trends([curve(first.tolist(), last.tolist())], 10)
    expected = first.std(1).mean() - last.std(1).mean()
    assert found.deviation_fall.value == pytest.approx(expected)
    assert found.deviation_fall.low is not None and 0.05 < found.deviation_fall.low < expected


def test_scales_are_compared_over_all_tokens() -> None:
    first, middle, last = ([a, a + 0.02] for a in (0.4, 0.9, 0.3))
    found = trends([curve([1.0, 1.0], end) for end in (first, middle, last)], 2)
    assert found.scale_change == pytest.approx((-0.1, -0.1, -0.1))


def test_seeds_that_change_differently_widen_the_change() -> None:
    """Each seed has its own level, which is no doubt about the change; its own change is."""
    levels = [[0.4] * 4, [0.5] * 4]
    same, other = (np.subtract(levels, change).tolist() for change in ([[0.1]], [[0.1], [0.12]]))
    narrow, wide = (trends([curve(levels), curve(end)], 2).scale_change for end in (same, other))
    assert narrow == pytest.approx((-0.1, -0.1, -0.1))
    assert wide.value == pytest.approx(-0.11)
    assert wide.low is not None and wide.low < -0.2


def test_blocks_that_change_differently_widen_the_change() -> None:
    change = np.array([[0.0, 0.02, 0.04, 0.02]])
    found = trends([curve([[0.4] * 4]), curve((0.4 + change).tolist())], 2).scale_change
    assert found == pytest.approx(over_seeds_and_blocks(change, 2))
    assert found.value == pytest.approx(0.02)


def test_prompts_without_a_word_are_left_out() -> None:
    few, many = [None, 0.8, 0.6, None], [0.9, 0.5, 0.3, 0.1]
    longer = [many, many, many, many]
    found = trends([curve(few, *longer), curve(few, *longer)], 2)
    # The means of 0.8 and three times 0.5 minus 0.5, and of 0.6 and three times 0.3 minus 0.3.
    assert found.fall == pytest.approx((0.075, 0.075, 0.075))
    assert (found.few_continuations, found.few_accuracy.value) == (4, pytest.approx(0.475))
    assert found.deviation_first.value == pytest.approx(0.1)
    length = spread(curve(few)[0], 2)
    assert length.continuations == 2 and length.deviation == pytest.approx(0.1)
    assert length.quantiles == pytest.approx([0.6, 0.65, 0.7, 0.75, 0.8])
    assert length.accuracy.value == pytest.approx(0.7)


def test_a_length_without_any_word() -> None:
    none, many = [None] * 4, [0.9, 0.5, 0.3, 0.1]
    found = trends([curve(none, many), curve(none, many)], 2)
    assert found.fall == found.deviation_first == found.deviation_fall == UNKNOWN
    assert (found.few_continuations, found.whole_accuracy) == (0, pytest.approx(0.45))


def test_prompts_must_fill_the_blocks_of_each_scale() -> None:
    with pytest.raises(AssertionError):
        trends([curve([0.5, 0.5, 0.5]), curve([0.5, 0.5, 0.5])], 2)


def test_a_spread_without_any_word() -> None:
    none = [None] * 4
    length = spread(curve(none)[0], 2)
    assert (length.accuracy, length.continuations, length.deviation) == (UNKNOWN, 0, None)
    assert length.quantiles == [None] * 5
