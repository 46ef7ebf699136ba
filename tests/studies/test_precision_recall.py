from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.evaluation.words import WordCounts, word_counts
from arithmetext.paper.studies import precision_recall as study
from arithmetext.paper.studies.precision_recall import Result

from .cases import Case, check, committed, draw, edited, outcomes


def at(model: str, word: str, /, **changes: Any) -> dict[str, Any]:
    """Edits of what is known about one word."""
    return {f"words.{model}.{word}.{field}": new for field, new in changes.items()}


def without(model: str, word: str) -> Result:
    """The committed result without one word."""
    result = committed("precision_recall")
    scores = {other: score for other, score in result.words[model].items() if other != word}
    return replace(result, words=result.words | {model: scores})


def about(value: float) -> Estimate:
    return Estimate(value, value - 0.01, value + 0.01)


NEVER_GENERATED = {"predicted": 0, "precision": UNKNOWN, "recall": about(0.0), "f1": about(0.0)}
LONG, SHORT = {"trained_on": 10**11}, {"trained_on": 10**8}  # the paper's: 4.4e10 tokens
NO_PRIMES = {
    "precision-at-primes-GPT-2": None,
    "recall-at-primes-GPT-2": False,
    "primes-near-0.3": False,
}
NEAR, WIDE = about(0.3), Estimate(0.3, 0.24, 0.36)


def primes(
    precision: Estimate = NEAR, recall: Estimate = NEAR, f1: Estimate = NEAR
) -> dict[str, Any]:
    return at("GPT-2", "10", precision=precision, recall=recall, f1=f1)


def hmm_at_primes(sampled: Estimate, greedy: Estimate | None = None) -> dict[str, Any]:
    """Edits of precision and recall, the same at β = ∞ unless others are given."""
    other = f"other_hmm.{study.GREEDY}.10"
    return at("HMM", "10", precision=sampled, recall=sampled) | {
        f"{other}.{measure}": greedy or sampled for measure in ("precision", "recall")
    }


def hmm_highest(sampled: Estimate, greedy: Estimate | None = None) -> dict[str, Any]:
    return {"hmm_highest.f1": sampled, "greedy_hmm_highest.f1": greedy or sampled}


def square_free(**changes: Estimate) -> dict[str, Any]:
    """Edits of three words: all measures are 0.45 but those of 1010 that are named."""
    measures = dict.fromkeys(("precision", "recall", "f1"), about(0.45))
    return (
        at("GPT-2", "1010", **measures | changes)
        | at("GPT-2", "101010", **measures)
        | at("GPT-2", "10101010", **measures)
    )


def compared(words: int, higher: int, lower: int) -> dict[str, Any]:
    return {"f1.words": words, "f1.higher": higher, "f1.lower": lower}


BOTH_AGREE = {"precision-at-primes-GPT-2": True, "recall-at-primes-GPT-2": True}
BOTH_AGREE_HMM = {"precision-at-primes-HMM": True, "recall-at-primes-HMM": True}
BOTH_DIFFER_HMM = {"precision-at-primes-HMM": False, "recall-at-primes-HMM": False}

CASES: list[Case] = [
    (primes(), BOTH_AGREE | {"primes-near-0.3": True}),
    # The paper's interval is [0.203, 0.450]. One that overlaps must not be wider.
    (
        primes(precision=about(0.6)),
        BOTH_AGREE | {"precision-at-primes-GPT-2": False, "primes-near-0.3": False},
    ),
    (
        primes(precision=Estimate(0.3, 0.1, 0.5)),
        BOTH_AGREE | {"precision-at-primes-GPT-2": None, "primes-near-0.3": None},
    ),
    (
        primes(precision=Estimate(0.7, 0.5, 0.9)),
        BOTH_AGREE | {"precision-at-primes-GPT-2": False, "primes-near-0.3": False},
    ),
    (
        primes(recall=about(0.1)),
        BOTH_AGREE | {"recall-at-primes-GPT-2": False, "primes-near-0.3": False},
    ),
    # All intervals must lie from 0.25 to 0.35.
    (primes(f1=Estimate(0.26, 0.25, 0.27)), BOTH_AGREE | {"primes-near-0.3": True}),
    (primes(f1=Estimate(0.242, 0.232, 0.251)), BOTH_AGREE | {"primes-near-0.3": None}),
    (primes(f1=Estimate(0.242, 0.232, 0.249)), BOTH_AGREE | {"primes-near-0.3": False}),
    (primes(f1=Estimate(0.4, 0.351, 0.41)), BOTH_AGREE | {"primes-near-0.3": False}),
    (primes(f1=WIDE), BOTH_AGREE | {"primes-near-0.3": None}),
    (at("GPT-2", "10", **NEVER_GENERATED), NO_PRIMES),
    (hmm_at_primes(about(0.04)), BOTH_AGREE_HMM),
    (hmm_at_primes(about(0.3)), BOTH_DIFFER_HMM),
    (hmm_at_primes(Estimate(0.1, 0.0, 0.3)), dict.fromkeys(BOTH_AGREE_HMM)),
    (hmm_at_primes(UNKNOWN), dict.fromkeys(BOTH_AGREE_HMM)),
    # What depends on β is not tested.
    (hmm_at_primes(about(0.04), about(0.3)), dict.fromkeys(BOTH_AGREE_HMM)),
    (hmm_at_primes(about(0.3), about(0.04)), dict.fromkeys(BOTH_AGREE_HMM)),
    (hmm_highest(about(0.1), about(0.3)), {"hmm-f1-below-0.2": None}),
    (hmm_highest(about(0.1), UNKNOWN), {"hmm-f1-below-0.2": None}),
    (square_free(), {"square-free-near-0.4": True}),
    (square_free(f1=Estimate(0.36, 0.35, 0.37)), {"square-free-near-0.4": True}),
    (square_free(f1=Estimate(0.36, 0.34, 0.37)), {"square-free-near-0.4": None}),
    (square_free(f1=about(0.2)), {"square-free-near-0.4": False}),
    (square_free(recall=about(0.7)), {"square-free-near-0.4": False}),
    (square_free(precision=WIDE), {"square-free-near-0.4": None}),
    (hmm_highest(about(0.1)), {"hmm-f1-below-0.2": True}),
    (hmm_highest(about(0.2)), {"hmm-f1-below-0.2": None}),
    (hmm_highest(about(0.3)), {"hmm-f1-below-0.2": False}),
    (hmm_highest(UNKNOWN), {"hmm-f1-below-0.2": None}),
    (compared(80, 40, 2), {"outperforms-hmm": True}),
    (compared(80, 39, 0), {"outperforms-hmm": None}),
    (compared(80, 40, 3), {"outperforms-hmm": None}),
    (compared(80, 10, 11), {"outperforms-hmm": False}),
    (compared(0, 0, 0), {"outperforms-hmm": None}),
]


# A model that is worse than the paper's speaks against it only after as much training.
SHORT_CASES: list[Case] = [
    (
        primes(precision=about(0.6)),
        BOTH_AGREE | {"precision-at-primes-GPT-2": False, "primes-near-0.3": False},
    ),
    (
        primes(recall=about(0.1)),
        BOTH_AGREE | {"recall-at-primes-GPT-2": None, "primes-near-0.3": None},
    ),
    (
        primes(precision=about(0.1), recall=about(0.6)),
        {
            "precision-at-primes-GPT-2": None,
            "recall-at-primes-GPT-2": False,
            "primes-near-0.3": None,
        },
    ),
    (primes(f1=Estimate(0.242, 0.232, 0.249)), BOTH_AGREE | {"primes-near-0.3": None}),
    (at("GPT-2", "10", **NEVER_GENERATED), dict.fromkeys(NO_PRIMES)),
    (square_free(f1=about(0.2)), {"square-free-near-0.4": None}),
    (compared(80, 10, 11), {"outperforms-hmm": None}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("precision_recall", case, LONG)


@pytest.mark.parametrize("case", SHORT_CASES)
def test_verdicts_after_short_training(case: Case) -> None:
    check("precision_recall", case, SHORT)


@pytest.mark.parametrize(
    ("word", "changed"),
    [
        ("10", dict.fromkeys(NO_PRIMES)),
        ("101010", {"square-free-near-0.4": None}),
    ],
)
def test_verdicts_on_a_word_that_does_not_occur(word: str, changed: dict[str, bool | None]) -> None:
    before = outcomes(study, committed("precision_recall"))
    assert outcomes(study, without("GPT-2", word)) == before | changed


@pytest.mark.parametrize(
    "result",
    [
        edited(committed("precision_recall"), at("GPT-2", "10", **NEVER_GENERATED)),
        without("GPT-2", "10"),
    ],
)
def test_a_model_that_never_generates_a_prime(result: Result) -> None:
    assert "The GPT-2 never generates a prime." in study.caption(result)
    assert "The HMM never" not in study.caption(result)
    ours = {verdict.key: verdict.ours for verdict in study.verdicts(result)}
    assert ours["precision-at-primes-GPT-2"] == "undefined: the GPT-2 generates no prime"
    assert "precision undefined: the GPT-2 generates no prime" in ours["primes-near-0.3"]
    draw("precision_recall", result)


def counts(right: float, seeds: int) -> WordCounts:
    """30 prompts of 20 words, continued by models of some seeds; the wrong words are 10."""
    random = np.random.default_rng(0)
    true = [random.choice(np.array([2, 10, 12, 42], np.uint64), 20) for _ in range(30)]
    predicted = [
        np.where(np.random.default_rng([seed, k]).random(20) < right, words, 2)
        for seed in range(seeds)
        for k, words in enumerate(true)
    ]
    return word_counts(predicted, true * seeds, seeds)


def test_counts_decide_the_verdicts() -> None:
    settings = study.settings("gpu")
    made = {"GPT-2": counts(0.6, 3), "HMM": counts(0.05, 5)}
    found = study.summarise(settings, made, {study.GREEDY: made["HMM"]})
    assert found.seeds == {"GPT-2": 3, "HMM": 5}
    assert found.compared == {"GPT-2": 600, "HMM": 600}  # words of the text, whatever the seeds
    assert (found.f1.words, found.f1.higher, found.f1.lower) == (4, 4, 0)
    assert found.hmm_highest.word == 2
    keys = outcomes(study, replace(found, trained_on=10**11))
    assert keys["outperforms-hmm"] and keys["recall-at-primes-GPT-2"] is False
    draw("precision_recall", found)


def test_a_model_without_words_has_no_scores() -> None:
    none = word_counts([np.zeros(0, np.uint64)] * 30, [np.zeros(0, np.uint64)] * 30)
    made = {"GPT-2": counts(0.6, 3), "HMM": none}
    result = study.summarise(study.settings("gpu"), made, {study.GREEDY: none})
    keys = outcomes(study, result)
    for key in ("precision-at-primes-HMM", "hmm-f1-below-0.2", "outperforms-hmm"):
        assert keys[key] is None
    draw("precision_recall", result)


def test_a_stand_in_tests_no_claim_about_itself() -> None:
    made = {"GPT-2": counts(0.6, 3), "HMM": counts(0.05, 5)}
    found = study.summarise(study.settings("gpu"), made, {study.GREEDY: made["HMM"]})
    found = replace(found, trained_on=10**11)
    for name in made:
        result = replace(found, stand_ins=found.stand_ins | {name: f"A small {name}."})
        for old, new in zip(study.verdicts(found), study.verdicts(result), strict=True):
            other = new.key in OF_HMM if name == "GPT-2" else new.key not in OF_HMM | {BOTH}
            assert new.agrees is (old.agrees if other else None)
            assert (f"A small {name}." in new.why) is not other


OF_HMM, BOTH = {*BOTH_AGREE_HMM, "hmm-f1-below-0.2"}, "outperforms-hmm"
