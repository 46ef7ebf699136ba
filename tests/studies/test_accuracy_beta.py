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
NOISE = committed("accuracy_beta").other_text.kl_paper.value
ABOVE, BELOW, AROUND = Estimate(0.1, 0.01, 0.2), Estimate(-0.1, -0.2, -0.01), Estimate(0, -0.1, 0.1)
ROWS = range(12)  # 0 to 4 have β < 1, row 5 has β = 1, rows from 6 on β ≥ 1.4, the last β = ∞
FEW = {f"{GPT}.{i}.malformed": Estimate(0.002, 0.001, 0.0024) for i in ROWS}
NONE = {f"{GPT}.{i}.malformed": Estimate(0.0, 0.0, 0.001) for i in ROWS}
LONG, SHORT = {"trained_on": 10**11}, {"trained_on": 10**8}  # the paper's: 4.4e10 tokens
LESS = {f"fewer_malformed.{i}": ABOVE for i in ROWS}


def best(measure: str, **betas: float) -> dict[str, object]:
    """Edits of how much worse β outside the range are (`at_0`: the first of them), up to 0.001.

    All are worse by 0.1 but those that are named. Nine β are outside the paper's ranges, the last
    is ∞, and the neighbours are number 7 for the accuracy, and 5 and 6 for KL^w.
    """
    worse = {f"at_{i}": 0.1 for i in range(9)} | betas
    return {
        f"best.{measure}.outside.{name[3:]}.worse": Estimate(w, w - 0.001, w + 0.001)
        for name, w in worse.items()
    }


def below(measure: str, **rows: Estimate) -> dict[str, Estimate]:
    """Edits of how much worse the β below 1 are; all are worse but those named (`row2`)."""
    changed = {f"row{i}": ABOVE for i in range(5)} | rows
    return {f"worse_than_one.{measure}.{row[3:]}": new for row, new in changed.items()}


def kl_over_gpt(*differences: Estimate) -> dict[str, object]:
    """Edits of the first differences of KL^w, in units of the tolerance; the others are near 0."""
    rows = [*differences, *[Estimate(0.0, -0.1, 0.1)] * (5 - len(differences))]
    return {
        f"kl_over_gpt.{i}.difference": Estimate(*(NOISE / 4 * (part or 0) for part in row))
        for i, row in enumerate(rows)
    }


HIGHER, LOWER = Estimate(1.5, 1.01, 2), Estimate(-1.5, -2, -1.01)

CASES: list[Case] = [
    (best("accuracy"), {"best-accuracy": True}),
    (best("accuracy", at_8=-0.5), {"best-accuracy": True}),  # β = ∞
    (best("accuracy", at_7=0.0), {"best-accuracy": None}),
    (best("accuracy", at_0=-0.008), {"best-accuracy": True}),
    (best("accuracy", at_0=-0.012), {"best-accuracy": False}),
    (best("accuracy", at_0=-0.01), {"best-accuracy": None}),
    (best("kl_paper"), {"best-kl": True}),
    (best("kl_paper", at_8=-0.5), {"best-kl": True}),
    (best("kl_paper", at_5=0.0), {"best-kl": None}),
    (best("kl_paper", at_6=0.0), {"best-kl": None}),
    (best("kl_paper", at_0=-0.08 * NOISE), {"best-kl": True}),
    (best("kl_paper", at_7=-0.12 * NOISE), {"best-kl": False}),
    (best("kl_pooled", at_0=-0.5) | best("kl_paper"), {"best-kl": True}),
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
    ({"over_twice": ABOVE}, {"outperforms-hmm": True}),
    ({"over_twice": AROUND}, {"outperforms-hmm": None}),
    ({"over_twice": BELOW}, {"outperforms-hmm": False}),
    ({"over_guess": Estimate(0.01, 0.0, 0.02)}, {"hmm-like-random-guess": True}),
    ({"over_guess": Estimate(-0.01, -0.03, 0.01)}, {"hmm-like-random-guess": None}),
    ({"over_guess": Estimate(0.03, 0.021, 0.04)}, {"hmm-like-random-guess": False}),
    ({"over_guess": Estimate(-0.03, -0.04, -0.021)}, {"hmm-like-random-guess": False}),
    (kl_over_gpt(), {"same-kl-as-hmm": True}),
    (kl_over_gpt(Estimate(0.7, 0.4, 0.99)), {"same-kl-as-hmm": True}),
    (kl_over_gpt(Estimate(0.7, 0.4, 1.01)), {"same-kl-as-hmm": None}),
    (kl_over_gpt(Estimate(0, -3, 3)), {"same-kl-as-hmm": None}),  # a wide interval does not help
    (kl_over_gpt(HIGHER, LOWER), {"same-kl-as-hmm": None}),  # it holds for three β
    (kl_over_gpt(*[HIGHER] * 4, Estimate(0, -3, 3)), {"same-kl-as-hmm": None}),
    (kl_over_gpt(*[HIGHER] * 5), {"same-kl-as-hmm": False}),
    (kl_over_gpt(*[LOWER] * 5), {"same-kl-as-hmm": False}),
    ({f"{HMM}.-1.kl_paper": Estimate(0.1, 0.1, 0.1)}, {}),  # only β = 1 counts
]


# A model that is worse than the paper's speaks against it only after as much training.
SHORT_CASES: list[Case] = [
    ({"over_twice": BELOW}, {"outperforms-hmm": None}),
    ({"over_twice": ABOVE}, {"outperforms-hmm": True}),
    (
        FEW | LESS | {f"{GPT}.6.malformed": Estimate(0.003, 0.0026, 0.004)},
        {"few-malformed": None, "most-malformed-at-lowest": True},
    ),
    (kl_over_gpt(*[HIGHER] * 5), {"same-kl-as-hmm": False}),  # the GPT-2 is better
    (kl_over_gpt(*[LOWER] * 5), {"same-kl-as-hmm": None}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("accuracy_beta", case, LONG)


@pytest.mark.parametrize("case", SHORT_CASES)
def test_verdicts_after_short_training(case: Case) -> None:
    check("accuracy_beta", case, SHORT)


def test_a_stand_in_tests_no_claim_about_itself() -> None:
    before = committed("accuracy_beta")
    for name, about_the_other in (("GPT-2", {"hmm-like-random-guess"}), ("HMM", OF_GPT)):
        result = replace(before, stand_ins=before.stand_ins | {name: f"A small {name}."})
        for old, new in zip(study.verdicts(before), study.verdicts(result), strict=True):
            assert new.agrees is (old.agrees if new.key in about_the_other else None)
            assert (f"A small {name}." in new.why) is (new.key not in about_the_other)
        draw("accuracy_beta", result)


OF_GPT = {"best-accuracy", "best-kl", "accuracy-worse-below-1", "kl-worse-below-1"}
OF_GPT |= {"few-malformed", "most-malformed-at-lowest"}


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


def summarised(gpt: study.Curve, hmm: study.Curve, chance: float) -> study.Result:
    """Other text has this share of right words."""
    settings = replace(study.settings("gpu"), betas=BETAS)
    base = committed("accuracy_beta")
    other = resampled_measures([continuations(chance, seed=9)])
    return study.summarise(settings, {"GPT-2": gpt, "HMM": hmm}, other, hmm[1.0], base.nats)


def test_continuations_decide_the_verdicts() -> None:
    """Right words and malformed words are the same prompts at every β, so differences are clear."""
    good = dict(zip(BETAS, (0.1, 0.2, 0.3, 0.5, 0.5, 0.5), strict=True))
    gpt, hmm = curve(good, {0.1: 0.02, 0.5: 0.01}), curve(dict.fromkeys(BETAS, 0.02), {})
    found = replace(summarised(gpt, hmm, 0.02), trained_on=10**11)
    assert found.seeds == {"GPT-2": 3, "HMM": 5}
    assert found.uniform_nats == pytest.approx(np.log(256))
    best = found.best["accuracy"]
    assert (best.best, best.best_inside, best.neighbours) == (3.3, 3.3, [1.0])
    assert [each.beta for each in best.outside] == [0.1, 0.5, 1.0, inf]
    expected = [0.2, 0.1, 0.0, -0.2, -0.2, -0.2]  # of the words that are not 2 by chance: 3/4
    differences = [each.value for each in found.worse_than_one["accuracy"]]
    assert differences == pytest.approx([0.75 * value for value in expected], abs=0.03)
    accuracies = [found.most_accurate(name).accuracy.value for name in ("GPT-2", "HMM")]
    assert found.over_twice.value == pytest.approx(accuracies[0] - 2 * accuracies[1])
    assert [each.beta for each in found.kl_over_gpt] == [3.3, 10.0]
    kl = found.row("HMM", 1).kl_paper.value - found.row("GPT-2", 10).kl_paper.value
    assert found.kl_over_gpt[1].difference.value == pytest.approx(kl)
    keys = outcomes(study, found)
    assert keys["best-accuracy"] and keys["accuracy-worse-below-1"]
    assert keys["few-malformed"] is False and keys["most-malformed-at-lowest"]
    assert keys["hmm-like-random-guess"] is not False
    draw("accuracy_beta", found)


def test_an_hmm_that_is_as_good_as_the_gpt_is_no_guess() -> None:
    good = curve(dict.fromkeys(BETAS, 0.5), {})
    keys = outcomes(study, replace(summarised(good, good, 0.02), trained_on=10**11))
    assert keys["outperforms-hmm"] is False
    assert keys["hmm-like-random-guess"] is False
    assert keys["best-accuracy"] is None


def test_which_reading_of_the_hmm_is_better() -> None:
    result = committed("accuracy_beta")

    def why(last: Estimate, whole: Estimate) -> str:
        nats = {study.LAST_TOKEN: last, study.ALL_TOKENS: whole}
        found = study.verdicts(replace(result, nats=nats))
        return next(verdict.why for verdict in found if verdict.key == "outperforms-hmm")

    cheap, dear = Estimate(4.0, 3.9, 4.1), Estimate(7.0, 6.9, 7.1)
    assert "That is better in nats" in why(cheap, dear) and "less than the filter" in why(
        cheap, dear
    )
    assert "That is worse in nats" in why(dear, cheap) and "less than" not in why(dear, cheap)


def test_the_caption_says_what_lies_outside_a_panel() -> None:
    result, said = committed("accuracy_beta"), "lies outside a panel"
    same = replace(result, curves=result.curves | {"HMM": [result.row("HMM", 1.0)] * 12})
    assert said not in study.caption(same)
    far = replace(result.row("HMM", 1.0), kl_pooled=Estimate(99, 98, 100))
    rows = [*same.curves["HMM"][:-1], far]
    assert said in study.caption(replace(same, curves=result.curves | {"HMM": rows}))


def test_the_caption_speaks_of_seeds_only_if_there_are_several() -> None:
    result = committed("accuracy_beta")
    assert "spread over seeds" in study.caption(replace(result, seeds={"GPT-2": 3, "HMM": 5}))
    assert "spread over seeds" not in study.caption(replace(result, seeds={"GPT-2": 1, "HMM": 1}))
