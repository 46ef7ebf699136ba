from dataclasses import replace
from math import inf
from typing import Any

import pytest

from arithmetext.evaluation.estimates import Estimate
from arithmetext.evaluation.temperatures import BestBeta
from arithmetext.paper.studies import accuracy_beta as study

from .cases import Case, check, committed

GPT, HMM = "curves.GPT-2", "curves.HMM"
FEW_MALFORMED = {
    f"{GPT}.0.malformed": Estimate(0.003, 0.0025, 0.0035),
    **{f"{GPT}.{i}.malformed": Estimate(0.002, 0.001, 0.003) for i in range(1, 12)},
}

# Rows 0 and 1 have β = 0.1 and 0.2, row 5 has β = 1, the last has β = ∞. Outside the paper's ranges
# there are nine β each.
CASES: list[Case] = [
    ({"best.GPT-2.accuracy.as_good": [5.0, 10.0, inf]}, {"best-accuracy": False}),
    ({"best.GPT-2.accuracy.as_good": [1.0, 1.4, 2.0, 3.3, 5.0, 10.0, inf]}, {}),
    (
        {"best.GPT-2.accuracy.as_good": [0.7, 1.0, 1.4, 2.0, 3.3, 5.0, 10.0, inf]},
        {"best-accuracy": False},
    ),
    ({"best.GPT-2.kl_paper.as_good": [1.4, 2.0, 3.3]}, {"best-kl": True}),
    ({"best.GPT-2.kl_paper.as_good": [1.4, 2.0]}, {}),
    ({"best.HMM.kl_paper.as_good": [1.4, 2.0, 3.3]}, {}),
    *(
        (
            {f"{GPT}.0.accuracy": low, f"{GPT}.5.accuracy": Estimate(0.36, 0.35, 0.37)},
            expected,
        )
        for low, expected in (
            (Estimate(0.3, 0.28, 0.349), {}),
            (Estimate(0.3, 0.28, 0.35), {"accuracy-worse-below-1": False}),
            (Estimate(0.5, 0.49, 0.51), {"accuracy-worse-below-1": False}),
        )
    ),
    ({f"{GPT}.0.kl_paper": Estimate(0.2, 0.18, 0.22)}, {"kl-worse-below-1": True}),
    ({f"{GPT}.0.kl_paper": Estimate(-0.2, -0.22, -0.18)}, {"kl-worse-below-1": True}),
    ({f"{GPT}.0.kl_paper": Estimate(0.01, 0.0, 0.02)}, {}),
    (FEW_MALFORMED, {"few-malformed": True}),
    (FEW_MALFORMED | {f"{GPT}.6.malformed": Estimate(0.003, 0.0026, 0.004)}, {}),
    ({f"{GPT}.1.malformed": Estimate(0.02, 0.01, 0.03)}, {"most-malformed-at-lowest": False}),
    (
        {f"{GPT}.{i}.malformed": Estimate(0.0, 0.0, 0.001) for i in range(12)},
        {"most-malformed-at-lowest": None, "few-malformed": True},
    ),
    ({"accuracy_ratio": 1.99}, {"outperforms-hmm": False}),
    ({"accuracy_ratio": 2.0}, {}),
    ({f"{HMM}.1.accuracy": Estimate(0.11, 0.1, 0.42)}, {"outperforms-hmm": False}),
    ({f"{HMM}.0.accuracy": Estimate(0.11, 0.1, 0.42)}, {}),  # not its best β
    ({f"{HMM}.-1.kl_paper": Estimate(0.12, 0.1, 0.14)}, {"same-kl-as-hmm": True}),
    ({f"{HMM}.5.kl_paper": Estimate(0.05, 0.03, 0.08)}, {"same-kl-as-hmm": True}),
    ({f"{HMM}.4.kl_paper": Estimate(0.12, 0.1, 0.14)}, {}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("accuracy_beta", case)


def made_with(result: Any) -> Any:
    """The settings of the committed result."""
    return replace(study.settings("gpu"), generation=result.generation)


def test_statistics_follow_from_the_curves() -> None:
    result = committed("accuracy_beta")
    assert study.summarise(made_with(result), result.curves) == result


def about(value: float) -> Estimate:
    return Estimate(value, value - 0.01, value + 0.01)


def test_the_best_accuracies_are_compared() -> None:
    base = committed("accuracy_beta")
    low, one, *_, last = base.curves["HMM"]
    accuracies = {"GPT-2": (0.1, 0.4, 0.385), "HMM": (0.12, 0.105, 0.11)}
    curves = {
        name: [
            replace(row, accuracy=about(a)) for row, a in zip((low, one, last), each, strict=True)
        ]
        for name, each in accuracies.items()
    }
    found = study.summarise(study.settings("gpu"), curves)
    assert found.accuracy_ratio == pytest.approx(0.4 / 0.12)
    assert found.best["GPT-2"]["accuracy"] == BestBeta(one.beta, [one.beta, inf])
    assert found.best["HMM"]["accuracy"] == BestBeta(low.beta, [low.beta, one.beta, inf])


@pytest.mark.parametrize(
    ("malformed", "most", "elsewhere"),
    [((0.003, 0.004, 0.001), 1, 1), ((0.004, 0.001, 0.003), 0, 2)],
)
def test_malformed_words_elsewhere_leave_out_the_lowest_beta(
    malformed: tuple[float, ...], most: int, elsewhere: int
) -> None:
    base = committed("accuracy_beta")
    rows = [
        replace(row, malformed=about(share))
        for row, share in zip(base.curves["GPT-2"], malformed, strict=False)
    ]
    found = study.summarise(study.settings("gpu"), base.curves | {"GPT-2": rows})
    assert found.most_malformed == rows[most].beta
    assert found.most_malformed_elsewhere == rows[elsewhere].beta
