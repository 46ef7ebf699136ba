from dataclasses import replace
from math import inf

import numpy as np
import pytest
import torch

from arithmetext.evaluation.estimates import Estimate
from arithmetext.evaluation.generation import Continuations
from arithmetext.evaluation.temperatures import resampled_measures
from arithmetext.paper.studies import accuracy_beta as study
from arithmetext.text.sieve import Words

from .cases import Case, check, committed, draw, outcomes

GPT, HMM = "curves.GPT-2", "curves.HMM"
ABOVE, BELOW, AROUND = Estimate(0.1, 0.01, 0.2), Estimate(-0.1, -0.2, -0.01), Estimate(0, -0.1, 0.1)
ROWS = range(12)  # 0 to 4 have β < 1, row 5 has β = 1, rows from 6 on β ≥ 1.4, the last β = ∞
SAME = {f"{GPT}.{i}.kl_paper": Estimate(0.1, 0.09, 0.11) for i in ROWS}
FAR = {f"{HMM}.5.kl_paper": Estimate(0.2, 0.19, 0.21), f"{HMM}.-1.kl_paper": BELOW}
FEW = {f"{GPT}.{i}.malformed": Estimate(0.002, 0.001, 0.0024) for i in ROWS}
NONE = {f"{GPT}.{i}.malformed": Estimate(0.0, 0.0, 0.001) for i in ROWS}
LESS = {f"fewer_malformed.{i}": ABOVE for i in ROWS}


def best(measure: str, better: list[float], worse: list[float]) -> dict[str, list[float]]:
    """Edits of the β outside the paper's range that are better than its best, or worse than all."""
    return {f"best.{measure}.better_outside": better, f"best.{measure}.worse_outside": worse}


def below(measure: str, **rows: Estimate) -> dict[str, Estimate]:
    """Edits of how much worse the β below 1 are; all are worse but those named (`row2`)."""
    changed = {f"row{i}": ABOVE for i in range(5)} | rows
    return {f"worse_than_one.{measure}.{row[3:]}": new for row, new in changed.items()}


def accuracies(ratio: float, gpt: Estimate, hmm: Estimate) -> dict[str, object]:
    """Edits of the accuracy at every β."""
    rows = {f"{GPT}.{i}.accuracy": gpt for i in ROWS} | {f"{HMM}.{i}.accuracy": hmm for i in ROWS}
    return {"accuracy_ratio": ratio, **rows}


HIGHER, LOWER = Estimate(0.4, 0.39, 0.41), Estimate(0.1, 0.09, 0.11)

# Outside each of the paper's ranges there are nine β.
CASES: list[Case] = [
    (best("accuracy", [], [0.1, 0.2, 0.3, 0.5, 0.7]), {"best-accuracy": True}),
    (best("accuracy", [], [0.1, 0.2, 0.3, 0.5]), {"best-accuracy": False}),
    (best("accuracy", [inf], [0.1, 0.2, 0.3, 0.5, 0.7]), {"best-accuracy": False}),
    (best("kl_paper", [], [0.1, 0.2, 0.3, 0.5, 0.7]), {"best-kl": True}),
    (best("kl_paper", [], [0.1, 0.2, 0.3, 0.5]), {"best-kl": False}),
    (best("kl_paper", [5.0], [0.1, 0.2, 0.3, 0.5, 0.7]), {"best-kl": False}),
    (best("kl_pooled", [5.0], []), {}),
    *(
        (below(measure, **rows), {key: expected})
        for measure, key in (
            ("accuracy", "accuracy-worse-below-1"),
            ("kl_paper", "kl-worse-below-1"),
        )
        for rows, expected in (
            ({}, True),
            ({"row4": AROUND}, None),
            ({"row0": BELOW}, False),
            ({"row0": BELOW, "row4": AROUND}, False),
            ({"row6": BELOW}, True),  # β = 1.4
        )
    ),
    (below("kl_pooled", row0=BELOW), {}),
    (FEW | LESS, {"few-malformed": True, "most-malformed-at-lowest": True}),
    (
        FEW | LESS | {f"{GPT}.6.malformed": Estimate(0.003, 0.0026, 0.004)},
        {"few-malformed": False, "most-malformed-at-lowest": True},
    ),
    (
        FEW | LESS | {f"{GPT}.6.malformed": Estimate(0.002, 0.001, 0.004)},
        {"few-malformed": None, "most-malformed-at-lowest": True},
    ),
    (
        FEW | LESS | {"fewer_malformed.1": BELOW},
        {"few-malformed": True, "most-malformed-at-lowest": False},
    ),
    (
        FEW | LESS | {"fewer_malformed.1": AROUND},
        {"few-malformed": True, "most-malformed-at-lowest": None},
    ),
    (NONE | LESS, {"few-malformed": True, "most-malformed-at-lowest": None}),
    (accuracies(2.0, HIGHER, LOWER), {"outperforms-hmm": True}),
    (accuracies(1.99, HIGHER, LOWER), {"outperforms-hmm": False}),
    (accuracies(2.0, HIGHER, Estimate(0.1, 0.0, 0.4)), {"outperforms-hmm": False}),
    (SAME | FAR, {"same-kl-as-hmm": False}),
    (SAME | FAR | {f"{HMM}.5.kl_paper": Estimate(0.1, 0.09, 0.11)}, {"same-kl-as-hmm": True}),
    (SAME | FAR | {f"{HMM}.-1.kl_paper": Estimate(0.1, 0.1, 0.1)}, {"same-kl-as-hmm": True}),
    (SAME | FAR | {f"{HMM}.5.kl_paper": Estimate(0.1, 0.08, 0.11)}, {"same-kl-as-hmm": None}),
    (SAME | FAR | {f"{HMM}.4.kl_paper": Estimate(0.1, 0.09, 0.11)}, {"same-kl-as-hmm": False}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("accuracy_beta", case)


def test_a_stand_in_tests_no_claim() -> None:
    result = replace(committed("accuracy_beta"), stand_in="This model is a small one.")
    assert set(outcomes(study, result).values()) == {None}
    draw("accuracy_beta", result)


# From continuations to verdicts

WORDS = np.array([2, 10, 12, 42], np.uint64)
BETAS = (0.1, 0.5, 1.0, 3.3, 10.0, inf)


def continuations(right: float, malformed: float = 0.0, seed: int = 0) -> Continuations:
    """40 prompts of 50 words, a share of which is right; the others are the word 2."""
    random = np.random.default_rng(seed)
    true: list[Words] = [random.choice(WORDS, 50) for _ in range(40)]
    chances = [random.random(50) for _ in true]
    predicted = [np.where(u < right, words, 2) for words, u in zip(true, chances, strict=True)]
    spoiled = [np.where(u > 1 - malformed, 0, w) for w, u in zip(predicted, chances, strict=True)]
    return Continuations(torch.zeros(40, 1), spoiled, true)


def curve(right: dict[float, float], malformed: dict[float, float]) -> study.Curve:
    return {
        beta: resampled_measures(
            [continuations(share, malformed.get(beta, 0.0), seed) for seed in (1, 2, 3)]
        )
        for beta, share in right.items()
    }


def test_continuations_decide_the_verdicts() -> None:
    """Right words and malformed words are the same prompts at every β, so differences are clear."""
    base = committed("accuracy_beta")
    settings = replace(study.settings("gpu"), betas=BETAS)
    good = dict(zip(BETAS, (0.1, 0.2, 0.3, 0.5, 0.5, 0.5), strict=True))
    gpt, hmm = curve(good, {0.1: 0.02, 0.5: 0.01}), curve(dict.fromkeys(BETAS, 0.02), {})
    found = study.summarise(settings, {"GPT-2": gpt, "HMM": hmm}, base.readings)
    assert found.seeds == {"GPT-2": 3, "HMM": 5}
    assert found.best["accuracy"].worse_outside == [0.1, 0.5, 1.0]
    assert found.best["accuracy"].better_outside == []
    assert found.best["accuracy"].as_good == [3.3, 10.0, inf]
    expected = [0.2, 0.1, 0.0, -0.2, -0.2, -0.2]  # of the words that are not 2 by chance: 3/4
    differences = [each.value for each in found.worse_than_one["accuracy"]]
    assert differences == pytest.approx([0.75 * value for value in expected], abs=0.03)
    keys = outcomes(study, found)
    assert keys["best-accuracy"] and keys["accuracy-worse-below-1"] and keys["outperforms-hmm"]
    assert keys["few-malformed"] is False and keys["most-malformed-at-lowest"]
    draw("accuracy_beta", found)
