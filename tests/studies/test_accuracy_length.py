from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.paper.studies import accuracy_length as study

from .cases import Case, check, committed, draw, edited, outcomes

WHOLE = "by_tokens.-1.accuracy"
SPLIT = "far_summary.split"
GOOD = {f"places.{i}.{WHOLE}": Estimate(0.4, 0.36, 0.44) for i in (1, 2, 3)}
GOOD |= {
    "far.scale_change": Estimate(0.0, -0.049, 0.049),
    "far.fall": Estimate(0.01, 0.001, 0.02),
    "far.deviation_fall": Estimate(0.01, 0.001, 0.02),
    "far.late_change": Estimate(0.0, -0.04, 0.04),
    "far_summary.chance": Estimate(0.09, 0.08, 0.1),
    f"{SPLIT}.continuations": 400,
    f"{SPLIT}.majority": 300,
    f"{SPLIT}.low": 60,
    f"{SPLIT}.between": 59,
    f"{SPLIT}.low_share": Estimate(0.15, 0.021, 0.2),
    f"{SPLIT}.low_mean": Estimate(0.08, 0.05, 0.1),
}
AGREED = dict.fromkeys(
    [
        *(f"settles-{place}" for place in ("1e13", "1e14", "1e15")),
        *("same-at-all-scales", "highest-for-few", "varies-for-few", "independent-of-length"),
        *("two-clusters", "chance-level"),
    ],
    True,
)
ABOVE_ZERO = [("far.fall", "highest-for-few"), ("far.deviation_fall", "varies-for-few")]
WITHIN = [("far.scale_change", "same-at-all-scales"), ("far.late_change", "independent-of-length")]

# All verdicts agree but those that a case names. Place 0 lies within the training text; no claim is
# about it.
TURNED: list[Case] = [
    ({}, {}),
    ({f"places.0.{WHOLE}": Estimate(0.9, 0.9, 0.9)}, {}),
    ({f"places.1.{WHOLE}": Estimate(0.47, 0.46, 0.48)}, {"settles-1e13": False}),
    ({f"places.1.{WHOLE}": Estimate(0.44, 0.42, 0.46)}, {"settles-1e13": None}),
    ({f"places.2.{WHOLE}": Estimate(0.47, 0.451, 0.48)}, {"settles-1e14": False}),
    # Below 0.4 a short training decides nothing.
    ({f"places.3.{WHOLE}": Estimate(0.33, 0.32, 0.349)}, {"settles-1e15": None}),
    (
        {f"places.3.{WHOLE}": Estimate(0.33, 0.32, 0.349), "training.tokens": 10**15},
        {"settles-1e15": False},
    ),
    ({f"places.3.{WHOLE}": Estimate(0.36, 0.34, 0.38)}, {"settles-1e15": None}),
    ({f"places.3.{WHOLE}": UNKNOWN}, {"settles-1e15": None}),
    *(({path: Estimate(-0.07, -0.08, -0.06)}, {key: False}) for path, key in WITHIN),
    *(({path: Estimate(0.07, 0.06, 0.08)}, {key: False}) for path, key in WITHIN),
    *(({path: Estimate(-0.04, -0.06, -0.02)}, {key: None}) for path, key in WITHIN),
    *(({path: Estimate(-0.02, -0.03, -0.01)}, {}) for path, _ in WITHIN),
    *(({path: Estimate(0.01, 0.0, 0.02)}, {key: None}) for path, key in ABOVE_ZERO),
    *(({path: Estimate(-0.01, -0.02, -0.001)}, {key: False}) for path, key in ABOVE_ZERO),
    *(({path: UNKNOWN}, {key: None}) for path, key in ABOVE_ZERO),
    ({f"{SPLIT}.between": 60}, {"two-clusters": False}),
    ({f"{SPLIT}.low": 1, f"{SPLIT}.between": 0}, {}),  # the share decides
    ({f"{SPLIT}.low_share": Estimate(0.01, 0.0, 0.019)}, {"two-clusters": False}),
    ({f"{SPLIT}.low_share": Estimate(0.03, 0.01, 0.05)}, {"two-clusters": None}),
    ({f"{SPLIT}.low_mean": Estimate(0.04, 0.03, 0.049)}, {"two-clusters": False}),
    ({f"{SPLIT}.low_mean": Estimate(0.1, 0.09, 0.11)}, {"two-clusters": None}),
    ({f"{SPLIT}.low_mean": UNKNOWN}, {"two-clusters": None}),
    ({f"{SPLIT}.majority": 200}, {"two-clusters": False}),
    ({"far_summary.known.low": 100, "far_summary.known.between": 200}, {}),  # another scoring
    ({"far_summary.chance": Estimate(0.11, 0.101, 0.12)}, {"chance-level": False}),
    ({"far_summary.chance": Estimate(0.095, 0.09, 0.101)}, {"chance-level": None}),
    ({"far_summary.chance": Estimate(0.04, 0.03, 0.049)}, {"chance-level": False}),
]
CASES: list[Case] = [(GOOD | edits, AGREED | turned) for edits, turned in TURNED]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("accuracy_length", case)


def test_a_model_that_is_not_the_papers_decides_nothing() -> None:
    result = edited(committed("accuracy_length"), {"training.stand_in": "This model is small."})
    assert set(outcomes(study, result).values()) == {None}


def why(edits: dict[str, Any], key: str) -> str:
    found = study.verdicts(edited(committed("accuracy_length"), GOOD | edits))
    return next(verdict.why for verdict in found if verdict.key == key)


def test_a_change_that_the_papers_figure_cannot_show_is_named() -> None:
    small = {"far.scale_change": Estimate(-0.02, -0.03, -0.01)}
    assert "falls by 0.020, less than" in why(small, "same-at-all-scales")
    assert "less than" not in why({}, "same-at-all-scales")


def test_it_is_said_who_is_low() -> None:
    few, many = ({"far_summary.exceptions": exceptions} for exceptions in (3, 4))
    assert "These are the low ones after text.split(), with 3 exceptions." in why(
        few, "two-clusters"
    )
    assert "These are not the low ones after text.split(): 4" in why(many, "two-clusters")


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
        "highest-for-few": None,
        "varies-for-few": None,
    }
    assert "nan" not in " ".join(verdict.ours for verdict in study.verdicts(result))
    draw("accuracy_length", result)
