from dataclasses import replace

import numpy as np
import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.paper.studies import accuracy_length as study

from .cases import Case, check, committed, draw, edited, outcomes

WHOLE = "by_tokens.-1.accuracy"
SPLIT = "far_summary.split"
EVEN = {f"{SPLIT}.continuations": 400, f"{SPLIT}.majority": 300, f"{SPLIT}.low": 60}

# Place 0 lies within the training text; no claim is about it.
CASES: list[Case] = [
    ({f"places.0.{WHOLE}": Estimate(0.9, 0.9, 0.9)}, {}),
    ({f"places.1.{WHOLE}": Estimate(0.47, 0.46, 0.48)}, {"settles-1e13": False}),
    ({f"places.1.{WHOLE}": Estimate(0.44, 0.42, 0.46)}, {"settles-1e13": None}),
    ({f"places.2.{WHOLE}": Estimate(0.47, 0.451, 0.48)}, {"settles-1e14": False}),
    ({f"places.2.{WHOLE}": Estimate(0.4, 0.36, 0.44)}, {}),
    ({f"places.3.{WHOLE}": Estimate(0.33, 0.32, 0.349)}, {"settles-1e15": False}),
    ({f"places.3.{WHOLE}": Estimate(0.36, 0.34, 0.38)}, {"settles-1e15": None}),
    ({f"places.3.{WHOLE}": UNKNOWN}, {"settles-1e15": None}),
    ({"far.scale_change": Estimate(0.0, -0.049, 0.049)}, {}),
    ({"far.scale_change": Estimate(-0.07, -0.08, -0.06)}, {"same-at-all-scales": False}),
    ({"far.scale_change": Estimate(0.07, 0.06, 0.08)}, {"same-at-all-scales": False}),
    ({"far.scale_change": Estimate(-0.04, -0.06, -0.02)}, {"same-at-all-scales": None}),
    ({"far.best_tokens": 8}, {}),
    ({"far.best_tokens": 16}, {"highest-for-few": False}),
    ({"far.fall": Estimate(0.01, 0.0, 0.02)}, {"highest-for-few": False}),
    ({"far.fall": Estimate(0.01, 0.001, 0.02)}, {}),
    ({"far.deviation_fall": Estimate(0.01, 0.0, 0.02)}, {"varies-for-few": False}),
    ({"far.deviation_fall": Estimate(0.01, 0.001, 0.02)}, {}),
    ({"far.late_change": Estimate(-0.06, -0.07, -0.051)}, {"independent-of-length": False}),
    ({"far.late_change": Estimate(0.04, 0.02, 0.06)}, {"independent-of-length": None}),
    ({"far.late_change": Estimate(0.0, -0.04, 0.04)}, {}),
    (EVEN | {f"{SPLIT}.between": 59}, {}),
    (EVEN | {f"{SPLIT}.between": 60}, {"two-clusters": False}),
    (EVEN | {f"{SPLIT}.between": 0, f"{SPLIT}.low": 0}, {"two-clusters": False}),
    (EVEN | {f"{SPLIT}.between": 0, f"{SPLIT}.majority": 200}, {"two-clusters": False}),
    ({"far_summary.known.low": 100, "far_summary.known.between": 200}, {}),  # another scoring
    ({"far_summary.chance.value": 0.101}, {"chance-level": False}),
    ({"far_summary.chance.value": 0.1}, {}),
    ({"far_summary.chance.value": 0.08}, {}),
    ({"far_summary.chance.value": 0.079}, {"chance-level": False}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("accuracy_length", case)


def test_a_model_that_is_not_the_papers_decides_nothing() -> None:
    result = edited(committed("accuracy_length"), {"training.stand_in": "This model is small."})
    assert set(outcomes(study, result).values()) == {None}


def test_statistics_follow_from_the_accuracy_of_each_prompt() -> None:
    result = committed("accuracy_length")
    measured = [place.measured for place in result.places]
    assert study.summarise(measured, result.training, result.generation) == result


def test_the_low_cluster_is_where_the_first_characters_differ() -> None:
    """Continuation by continuation, at every place, but for those that slipped."""
    for place in committed("accuracy_length").places:
        scores = place.measured.scores
        slipped = np.array(scores.slips) > 0
        low, differs = np.array(scores.split) < study.LOW, np.array(scores.first_differs)
        assert (low == differs)[~slipped].all()
        assert place.summary.exceptions == (low != differs).sum()
        assert (np.array(scores.known)[differs & ~slipped] > study.LOW).all()
        assert 0.1 < differs.mean() < 0.35


def test_a_length_at_which_no_prompt_has_a_word() -> None:
    base = committed("accuracy_length")
    scales = []
    for place in base.places:
        first, *others = place.measured.lengths
        nothing = replace(first, each=[[None] * len(row) for row in first.each])
        scales.append(replace(place.measured, lengths=[nothing, *others]))
    result = study.summarise(scales, base.training, base.generation)
    assert outcomes(study, result) == outcomes(study, base) | {
        "highest-for-few": False,
        "varies-for-few": False,
    }
    assert "nan" not in " ".join(verdict.ours for verdict in study.verdicts(result))
    draw("accuracy_length", result)
