from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.paper.studies import accuracy_length as study

from .cases import Case, check, committed, draw, edited, outcomes

WHOLE = "by_tokens.-1.accuracy"
KNOWN, SPLIT = "far_summary.known", "far_summary.split"
GOOD = {f"places.{i}.{WHOLE}": Estimate(0.4, 0.36, 0.44) for i in (1, 2, 3)}
GOOD |= {
    "far.scale_change": Estimate(0.0, -0.049, 0.049),
    "far.fall": Estimate(0.01, 0.001, 0.02),
    "far.deviation_fall": Estimate(0.01, 0.001, 0.02),
    "far.late_change": Estimate(0.0, -0.04, 0.04),
    "far_summary.text_chance": Estimate(0.09, 0.08, 0.1),
    "far_summary.chance": Estimate(0.12, 0.11, 0.13),  # the model's own; no claim is about it
}


def clusters(scoring: str, **changed: Any) -> dict[str, Any]:
    """Two clusters in a scoring, but for what is changed."""
    two = {"continuations": 400, "majority": 300, "low": 60, "between": 59}
    estimates = {"low_share": Estimate(0.15, 0.021, 0.2), "low_mean": Estimate(0.08, 0.05, 0.1)}
    return {f"{scoring}.{name}": value for name, value in (two | estimates | changed).items()}


GOOD |= clusters(KNOWN) | clusters(SPLIT)
ONE = {"low": 1, "between": 99}
RARE, DOUBTFUL = Estimate(0.01, 0.0, 0.019), Estimate(0.03, 0.01, 0.05)
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
    # The integers known decides, if it shows two clusters or may show them.
    (clusters(SPLIT, **ONE), {}),
    (clusters(KNOWN, low_share=DOUBTFUL), {"two-clusters": None}),
    (clusters(KNOWN, low_mean=Estimate(0.1, 0.09, 0.11)), {"two-clusters": None}),
    (clusters(KNOWN, low_mean=UNKNOWN), {"two-clusters": None}),
    (clusters(KNOWN, low=1, between=0), {}),  # the share decides
    # If it does not, two clusters after text.split() are due to the scoring.
    (clusters(KNOWN, **ONE), {"two-clusters": None}),
    (clusters(KNOWN, **ONE) | clusters(SPLIT, low_share=DOUBTFUL), {"two-clusters": None}),
    *(
        (clusters(KNOWN, **changed) | clusters(SPLIT, **changed), {"two-clusters": False})
        for changed in (
            ONE,
            {"between": 60},
            {"majority": 200},
            {"low_share": RARE},
            {"low_mean": Estimate(0.04, 0.03, 0.049)},
        )
    ),
    ({"far_summary.text_chance": Estimate(0.11, 0.101, 0.12)}, {"chance-level": False}),
    ({"far_summary.text_chance": Estimate(0.095, 0.09, 0.101)}, {"chance-level": None}),
    ({"far_summary.text_chance": Estimate(0.04, 0.03, 0.049)}, {"chance-level": False}),
]
CASES: list[Case] = [(GOOD | edits, AGREED | turned) for edits, turned in TURNED]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("accuracy_length", case)


def test_a_model_that_is_not_the_papers_decides_only_what_is_about_the_text() -> None:
    small = GOOD | {"training.stand_in": "This model is small."}
    found = outcomes(study, edited(committed("accuracy_length"), small))
    assert {key: agrees for key, agrees in found.items() if agrees is not None} == {
        "chance-level": True
    }


def why(edits: dict[str, Any], key: str) -> str:
    found = study.verdicts(edited(committed("accuracy_length"), GOOD | edits))
    return next(verdict.why for verdict in found if verdict.key == key)


def test_a_change_that_the_papers_figure_cannot_show_is_named() -> None:
    small = {"far.scale_change": Estimate(-0.02, -0.03, -0.01)}
    assert "falls by 0.020, less than" in why(small, "same-at-all-scales")
    assert "less than" not in why({}, "same-at-all-scales")


def test_an_undecided_claim_names_the_bound() -> None:
    change = {"far.late_change": Estimate(-0.04, -0.06, -0.02)}
    assert why(change, "independent-of-length").startswith(
        "Tested, not decided: the interval of the change contains -0.05. "
    )
    assert "the change is not known. " in why({"far.late_change": UNKNOWN}, "independent-of-length")
    two = clusters(KNOWN, low_share=DOUBTFUL, low_mean=Estimate(0.07, 0.04, 0.11))
    assert (
        "the interval of the share below 0.12 contains 0.02; the interval of the mean of those"
        " below 0.12 contains 0.05 and 0.1. " in why(two, "two-clusters")
    )
    assert "depends on the scoring" in why(clusters(KNOWN, **ONE), "two-clusters")
    assert "depends on the scoring" not in why(two, "two-clusters")


def test_it_is_said_who_is_low() -> None:
    other = clusters(KNOWN, **ONE)
    few, many = (other | {"far_summary.exceptions": exceptions} for exceptions in (3, 4))
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
