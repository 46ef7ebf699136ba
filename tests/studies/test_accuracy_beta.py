from math import inf
from typing import Any

import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
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


def test_statistics_follow_from_the_curves() -> None:
    result = committed("accuracy_beta")
    assert study.summarise(study.settings("gpu"), result.curves) == result


def row(beta: float, accuracy: float, kl: float = 0.1, malformed: float = 0.0) -> study.Row:
    def about(value: float) -> Estimate:
        return Estimate(value, value - 0.01, value + 0.01)

    unknown: dict[str, Any] = dict.fromkeys(
        ("kl_left_out", "kl_infinite", "kl_where_finite"), UNKNOWN
    )
    return study.Row(
        beta=beta,
        accuracy=about(accuracy),
        kl_paper=about(kl),
        malformed=about(malformed),
        jensen_shannon=about(1 - accuracy),
        **unknown,
    )


def test_the_best_beta_and_those_as_good() -> None:
    """A divergence is best where it is nearest to 0; β are as good if their intervals overlap."""
    gpt = [row(0.1, 0.1, -0.2, 0.003), row(1, 0.4, 0.05, 0.004), row(5, 0.385, 0.08, 0.001)]
    hmm = [row(0.1, 0.12), row(1, 0.105), row(inf, 0.11)]
    found = study.summarise(study.settings("gpu"), {"GPT-2": gpt, "HMM": hmm})
    assert found.best["GPT-2"]["accuracy"] == study.Best(1, [1, 5])
    assert found.best["GPT-2"]["kl_paper"] == study.Best(1, [1])
    assert found.best["GPT-2"]["jensen_shannon"] == study.Best(1, [1, 5])
    assert found.best["HMM"]["accuracy"] == study.Best(0.1, [0.1, 1, inf])
    assert found.accuracy_ratio == pytest.approx(0.4 / 0.12)
    assert (found.most_malformed, found.most_malformed_elsewhere) == (1, 1)


def test_malformed_words_elsewhere_leave_out_the_lowest_beta() -> None:
    gpt = [
        row(0.1, 0.1, malformed=0.004),
        row(1, 0.4, malformed=0.001),
        row(5, 0.4, malformed=0.003),
    ]
    found = study.summarise(study.settings("gpu"), {"GPT-2": gpt, "HMM": gpt})
    assert (found.most_malformed, found.most_malformed_elsewhere) == (0.1, 5)
