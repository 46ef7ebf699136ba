from dataclasses import replace

import numpy as np
import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.evaluation.evaluate import AlignedContinuation, LengthAccuracy
from arithmetext.paper.studies import accuracy_length as study
from arithmetext.paper.studies._lengths import add_spread, count, trends

from .cases import Case, check, committed, draw, outcomes

# Scale 0 lies within the training text; no claim is about it.
CASES: list[Case] = [
    ({"scales.0.by_tokens.-1.accuracy": Estimate(0.9, 0.9, 0.9)}, {}),
    ({"scales.1.by_tokens.-1.accuracy": Estimate(0.47, 0.46, 0.48)}, {"settles-1e13": False}),
    ({"scales.2.by_tokens.-1.accuracy": Estimate(0.47, 0.451, 0.48)}, {"settles-1e14": False}),
    ({"scales.2.by_tokens.-1.accuracy": Estimate(0.47, 0.45, 0.48)}, {}),
    ({"scales.3.by_tokens.-1.accuracy": Estimate(0.33, 0.32, 0.349)}, {"settles-1e15": False}),
    ({"scales.3.by_tokens.-1.accuracy": Estimate(0.34, 0.32, 0.35)}, {}),
    ({"scales.3.by_tokens.-1.accuracy": UNKNOWN}, {"settles-1e15": False}),
    ({"far.scale_change": Estimate(0.0, -0.02, 0.02)}, {"same-at-all-scales": True}),
    ({"far.scale_change": Estimate(-0.01, -0.021, 0.0)}, {}),
    ({"far.scale_change": Estimate(0.01, 0.0, 0.021)}, {}),
    ({"far.best_tokens": 8}, {}),
    ({"far.best_tokens": 16}, {"highest-for-few": False}),
    ({"far.fall": Estimate(0.01, 0.0, 0.02)}, {"highest-for-few": False}),
    ({"far.fall": Estimate(0.01, 0.001, 0.02)}, {}),
    ({"far.deviation_fall": Estimate(0.01, 0.0, 0.02)}, {"varies-for-few": False}),
    ({"far.deviation_fall": Estimate(0.01, 0.001, 0.02)}, {}),
    ({"far.late_change": Estimate(0.01, 0.0, 0.021)}, {"independent-of-length": False}),
    ({"far.late_change": Estimate(-0.01, -0.021, 0.0)}, {"independent-of-length": False}),
    ({"far.late_change": Estimate(0.0, -0.02, 0.02)}, {}),
    ({"far_counts.low_or_collapsed": 3}, {}),  # as many as between
    ({"far_counts.low_or_collapsed": 4}, {"two-clusters": True}),
    ({"far_counts.low_or_collapsed": 192, "far_counts.majority": 192}, {}),  # no majority
    ({"far_counts.low_or_collapsed": 191, "far_counts.majority": 193}, {"two-clusters": True}),
    ({"far_counts.between": 0}, {}),  # no second group
    ({"counts.low_or_collapsed": 4}, {}),  # it is not about the training text
    ({"far_chance": 0.101}, {"chance-level": False}),
    ({"far_chance": 0.1}, {}),
    ({"far_chance": 0.08}, {}),
    ({"far_chance": 0.079}, {"chance-level": False}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("accuracy_length", case)


def curve(*each: list[float | None]) -> list[LengthAccuracy]:
    """The accuracies of prompts at the first, second, … length."""
    return [LengthAccuracy(2**i, UNKNOWN, values) for i, values in enumerate(each)]


def test_statistics_follow_from_the_accuracy_of_each_prompt() -> None:
    result = committed("accuracy_length")
    assert study.summarise(result.scales, result.training, result.generation) == result
    for scale in result.scales:
        for length in scale.by_tokens:
            measured = LengthAccuracy(length.tokens, length.accuracy, length.each)
            assert add_spread(measured) == length


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


def test_a_length_at_which_no_prompt_has_a_word() -> None:
    base = committed("accuracy_length")
    nothing = add_spread(LengthAccuracy(1, UNKNOWN, [None] * 128))
    scales = [replace(each, by_tokens=[nothing, *each.by_tokens[1:]]) for each in base.scales]
    result = study.summarise(scales, base.training, base.generation)
    assert outcomes(study, result) == outcomes(study, base) | {
        "highest-for-few": False,
        "varies-for-few": False,
    }
    assert "nan" not in " ".join(verdict.ours for verdict in study.verdicts(result))
    draw("accuracy_length", result)


def test_continuations_are_counted_by_accuracy() -> None:
    values = [(0.4, False), (0.3, False), (0.5, False), (0.51, False), (0.29, False), (0.12, False)]
    values += [(0.119, False), (0.05, True), (0.2, True), (0.35, True)]
    found = replace(
        committed("accuracy_length").scales[0].alignment,
        explained_by_shift=Estimate(2 / 3, 0.2, 0.9),
        each=[AlignedContinuation(a, a, lost, i % 2, 0) for i, (a, lost) in enumerate(values)],
    )
    counts = count([found, found])
    assert (counts.continuations, counts.majority, counts.between) == (20, 8, 4)
    assert (counts.low, counts.collapsed, counts.low_or_collapsed) == (4, 6, 8)
    assert (counts.slipped, counts.explained) == (10, 4)
    assert counts.collapsed_share.value == 0.3


def test_the_oracle_closest_to_the_model_over_all_scales() -> None:
    base = committed("accuracy_length")
    ours = [scale.whole.accuracy.value for scale in base.scales]
    oracles = [{2: a + 0.03, 13: a - 0.02, 19: a} for a in ours]
    oracles[0][19] += 0.2
    scales = [
        replace(scale, oracles=known) for scale, known in zip(base.scales, oracles, strict=True)
    ]
    assert study.summarise(scales, base.training, base.generation).oracle_bound == 13
