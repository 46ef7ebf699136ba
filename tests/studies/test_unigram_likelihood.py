import pytest

from arithmetext.evaluation.codec import to_json
from arithmetext.evaluation.estimates import Estimate
from arithmetext.paper.studies import unigram_likelihood as study

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
