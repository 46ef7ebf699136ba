"""Accuracy by the number of tokens generated, and its spread over prompts."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.evaluation.evaluate import AlignedContinuation, AlignmentSummary, LengthAccuracy
from arithmetext.evaluation.lengths import add_spread, count_accuracies, trends


def curve(*each: list[float | None]) -> list[LengthAccuracy]:
    """The accuracies of prompts at the first, second, … length."""
    return [LengthAccuracy(2**i, UNKNOWN, values) for i, values in enumerate(each)]


def test_lengths_are_compared_prompt_by_prompt() -> None:
    """All prompts change alike, so there is no doubt about the change, though they differ."""
    before = np.array([0.3, 0.7, 0.5, 0.6])
    rows = [(before + change).tolist() for change in (0.1, 0.3, 0.02, 0.01, 0.0)]
    found = trends([curve(*rows), curve(*rows)])
    assert found.fall == pytest.approx((0.1, 0.1, 0.1))
    assert (found.quarter_tokens, found.best_tokens) == (4, 2)
    assert found.best_accuracy == pytest.approx(0.825)
    assert found.late_change == pytest.approx((-0.02, -0.02, -0.02))
    assert (found.quarter_accuracy, found.whole_accuracy) == pytest.approx((0.545, 0.525))
    assert found.deviation_fall == pytest.approx((0, 0, 0))
    assert found.deviation_first.value == pytest.approx(before.std())


def test_scales_are_compared_over_all_tokens() -> None:
    first, middle, last = ([a, a + 0.02] for a in (0.4, 0.9, 0.3))
    change = trends([curve([1.0, 1.0], end) for end in (first, middle, last)]).scale_change
    assert change.value == pytest.approx(-0.1)
    assert change.low == pytest.approx(-0.12) and change.high == pytest.approx(-0.08)


def test_prompts_without_a_word_are_left_out() -> None:
    few, many = [None, 0.8, 0.6, None], [0.9, 0.5, 0.3, 0.1]
    found = trends([curve(few, many), curve([None] * 4, many)])
    assert found.fall == pytest.approx((0.3, 0.3, 0.3))
    assert (found.best_tokens, found.best_accuracy) == (1, pytest.approx(0.7))
    length = add_spread(curve(few)[0])
    assert length.prompts == 2 and length.deviation == pytest.approx(0.1)
    assert length.quantiles == pytest.approx([0.6, 0.65, 0.7, 0.75, 0.8])


def test_continuations_are_counted_by_accuracy() -> None:
    values = [(0.4, False), (0.3, False), (0.5, False), (0.51, False), (0.29, False), (0.12, False)]
    values += [(0.119, False), (0.05, True), (0.2, True), (0.35, True)]
    unknown: dict[str, Any] = {field.name: UNKNOWN for field in fields(AlignmentSummary)}
    each = [AlignedContinuation(a, a, lost, i % 2, 0) for i, (a, lost) in enumerate(values)]
    explained = Estimate(2 / 3, 0.2, 0.9)
    found = AlignmentSummary(**unknown | {"explained_by_shift": explained, "each": each})
    counts = count_accuracies([found, found], (0.3, 0.5), 0.12)
    assert (counts.continuations, counts.majority, counts.between) == (20, 8, 4)
    assert (counts.low, counts.collapsed, counts.low_or_collapsed) == (4, 6, 8)
    assert (counts.slipped, counts.explained) == (10, 4)
    assert counts.collapsed_share.value == 0.3
