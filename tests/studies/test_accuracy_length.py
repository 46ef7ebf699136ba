from dataclasses import replace

import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.evaluation.evaluate import LengthAccuracy
from arithmetext.evaluation.lengths import add_spread
from arithmetext.paper.studies import accuracy_length as study

from .cases import Case, check, committed, draw, outcomes

# Place 0 lies within the training text; no claim is about it.
CASES: list[Case] = [
    ({"places.0.by_tokens.-1.accuracy": Estimate(0.9, 0.9, 0.9)}, {}),
    ({"places.1.by_tokens.-1.accuracy": Estimate(0.47, 0.46, 0.48)}, {"settles-1e13": False}),
    ({"places.2.by_tokens.-1.accuracy": Estimate(0.47, 0.451, 0.48)}, {"settles-1e14": False}),
    ({"places.2.by_tokens.-1.accuracy": Estimate(0.47, 0.45, 0.48)}, {}),
    ({"places.3.by_tokens.-1.accuracy": Estimate(0.33, 0.32, 0.349)}, {"settles-1e15": False}),
    ({"places.3.by_tokens.-1.accuracy": Estimate(0.34, 0.32, 0.35)}, {}),
    ({"places.3.by_tokens.-1.accuracy": UNKNOWN}, {"settles-1e15": False}),
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


def test_statistics_follow_from_the_accuracy_of_each_prompt() -> None:
    result = committed("accuracy_length")
    assert study.summarise(result.places, result.training, result.generation) == result
    for scale in result.places:
        for length in scale.by_tokens:
            measured = LengthAccuracy(length.tokens, length.accuracy, length.each)
            assert add_spread(measured) == length


def test_a_length_at_which_no_prompt_has_a_word() -> None:
    base = committed("accuracy_length")
    nothing = add_spread(LengthAccuracy(1, UNKNOWN, [None] * 128))
    scales = [replace(each, by_tokens=[nothing, *each.by_tokens[1:]]) for each in base.places]
    result = study.summarise(scales, base.training, base.generation)
    assert outcomes(study, result) == outcomes(study, base) | {
        "highest-for-few": False,
        "varies-for-few": False,
    }
    assert "nan" not in " ".join(verdict.ours for verdict in study.verdicts(result))
    draw("accuracy_length", result)
