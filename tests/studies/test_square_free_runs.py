import pytest

from arithmetext.evaluation.estimates import UNKNOWN
from arithmetext.evaluation.square_free import KINDS, StretchesSummary
from arithmetext.paper.studies import square_free_runs as study

from .cases import Case, check, committed, draw, edited

RESULT = committed("square_free_runs")
GPT, HMM = "models.GPT-2.runs", "models.HMM.runs"
INSIDE = {f"{GPT}.{k}.within": 0.51 for k in (0, 1)}  # both lengths that occur
ALL_INSIDE = {f"{HMM}.{k}.within": 0.51 for k in (2, 3, 4)}
NO_PLACE = StretchesSummary(
    10,
    0,
    dict.fromkeys(KINDS, UNKNOWN),
    auc=dict.fromkeys(("here", "elsewhere"), UNKNOWN),
    paired=dict.fromkeys(("here", "elsewhere"), UNKNOWN),
)


LOWEST = RESULT.models["GPT-2"].runs[0].mean.low  # of runs of two

CASES: list[Case] = [
    ({f"{GPT}.3.auc.low": 0.895}, {"long-runs-unlikely": False}),
    ({f"{GPT}.4.auc.low": 0.905}, {}),
    ({f"{GPT}.0.auc.low": 0.1, f"{GPT}.1.auc.low": 0.1}, {}),
    (INSIDE, {"short-runs-within": True}),
    (INSIDE | {f"{GPT}.0.within": 0.5}, {}),
    (INSIDE | {f"{GPT}.1.within": 0.5}, {}),
    ({f"{GPT}.2.within": 1.0}, {}),
    ({f"{GPT}.2.mean.high": -3.0}, {"long-below-short": False}),
    ({f"{GPT}.4.mean.high": LOWEST}, {"long-below-short": False}),
    ({f"{GPT}.4.mean.high": LOWEST - 0.01}, {}),
    ({f"{GPT}.4.mean": UNKNOWN}, {"long-below-short": False}),
    (ALL_INSIDE, {"hmm-long-runs-within": True}),
    (ALL_INSIDE | {f"{HMM}.2.within": 0.5}, {}),
    (ALL_INSIDE | {f"{HMM}.4.within": 0.5}, {}),
    ({"models.GPT-2.impossible": NO_PLACE, "models.HMM.impossible": NO_PLACE}, {}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("square_free_runs", case)


def test_a_control_without_places_is_drawn_and_not_quoted() -> None:
    result = edited(RESULT, {f"models.{name}.impossible": NO_PLACE for name in RESULT.models})
    draw("square_free_runs", result)
    assert not any("impossible words" in verdict.why for verdict in study.verdicts(result))
