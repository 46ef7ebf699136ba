import numpy as np
import pytest

from arithmetext.evaluation.codec import to_json
from arithmetext.evaluation.estimates import Estimate
from arithmetext.paper.studies import unigram_likelihood as study
from arithmetext.paper.studies.unigram_likelihood import compare

from .cases import Case, check, committed, edited

RESULT = committed("unigram_likelihood")


def area(control: str) -> str:
    """The path of the area of a control at the greatest length."""
    controls = [each.control for each in RESULT.separations]
    return f"separations.{len(controls) - 1 - controls[::-1].index(control)}.auc"


# Lengths are 2, 4, 8, …, 1024.
CASES: list[Case] = [
    ({"values.0.overlap": 0.45}, {"short-overlap": False}),
    ({"values.0.overlap": 0.51}, {}),
    ({"values.-1.distance": RESULT.values[-2].distance}, {"grows": False}),
    ({"values.3.distance": RESULT.values[4].distance + 0.1}, {"grows": False}),
    ({"values.5.disjoint": False}, {"long-disjoint": False}),  # 64 tokens
    ({"values.4.disjoint": False}, {}),  # 32 tokens
    ({"values": to_json(RESULT.values[:5])}, {"long-disjoint": False}),  # none is longer
    ({f"{area('shuffled')}.low": 0.495}, {"word-order": False}),
    ({f"{area('shuffled in eights')}.low": 0.495}, {"word-order": False}),
    ({f"{area('shuffled')}.low": 0.51}, {}),
    ({area("backwards"): Estimate(0.9, 0.89, 0.91), area("deleted"): Estimate(0.5, 0.4, 0.6)}, {}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("unigram_likelihood", case)


@pytest.mark.parametrize(
    ("middle", "words"), [(0.5, "does not tell"), (0.3, "tells"), (0.7, "tells")]
)
def test_word_order_says_whether_the_direction_is_told(middle: float, words: str) -> None:
    backwards = Estimate(middle, middle - 0.01, middle + 0.01)
    *_, order = study.verdicts(edited(RESULT, {area("backwards"): backwards}))
    assert f"The likelihood {words} the direction" in order.why


TRUE = np.arange(-40, -30) / 10


@pytest.mark.parametrize(("gap", "overlap"), [(0.0, 1.0), (0.35, 0.6), (0.55, 0.4), (2.0, 0.0)])
def test_overlap(gap: float, overlap: float) -> None:
    assert compare(2, TRUE, TRUE - gap).overlap == pytest.approx(overlap)


def test_distance_is_in_standard_deviations() -> None:
    assert compare(2, TRUE, TRUE - 2).distance == pytest.approx(2 / np.std(TRUE, ddof=1))


def test_one_random_sequence_as_likely_as_a_true_one_is_an_overlap() -> None:
    unigram = TRUE - 2
    assert compare(64, TRUE, unigram).disjoint
    unigram[5] = TRUE.min()
    assert not compare(64, TRUE, unigram).disjoint


def test_disjoint_from_the_length_after_the_last_overlap() -> None:
    assert RESULT.disjoint_from == 16
    assert edited(RESULT, {"values.7.disjoint": False}).disjoint_from == 512
    assert edited(RESULT, {"values.-1.disjoint": False}).disjoint_from is None
