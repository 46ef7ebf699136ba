from dataclasses import replace
from typing import Any

import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.paper.studies import precision_recall as study
from arithmetext.paper.studies.precision_recall import FILTER, Result

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


def hmm_at_primes(trained: Estimate, filtered: Estimate) -> dict[str, Any]:
    """Edits of precision and recall in both readings of the HMM."""
    readings = {"HMM": trained, FILTER: filtered}
    return {
        path: new
        for name, estimate in readings.items()
        for path, new in at(name, "10", precision=estimate, recall=estimate).items()
    }


def square_free(**changes: Estimate) -> dict[str, Any]:
    """Edits of three words: all measures are 0.45 but those of 1010 that are named."""
    measures = dict.fromkeys(("precision", "recall", "f1"), about(0.45))
    return (
        at("GPT-2", "1010", **measures | changes)
        | at("GPT-2", "101010", **measures)
        | at("GPT-2", "10101010", **measures)
    )


def highest(trained: Estimate, filtered: Estimate) -> dict[str, Any]:
    return {"hmm_highest.HMM.f1": trained, f"hmm_highest.{FILTER}.f1": filtered}


BOTH_AGREE = {"precision-at-primes-GPT-2": True, "recall-at-primes-GPT-2": True}
BOTH_AGREE_HMM = {"precision-at-primes-HMM": True, "recall-at-primes-HMM": True}
BOTH_DIFFER_HMM = {"precision-at-primes-HMM": False, "recall-at-primes-HMM": False}
LOW, HIGH, BETWEEN = about(0.1), about(0.3), about(0.2)

CASES: list[Case] = [
    (primes(), BOTH_AGREE | {"primes-near-0.3": True}),
    (
        primes(precision=about(0.6)),
        BOTH_AGREE | {"precision-at-primes-GPT-2": False, "primes-near-0.3": False},
    ),
    (
        primes(recall=about(0.1)),
        BOTH_AGREE | {"recall-at-primes-GPT-2": False, "primes-near-0.3": False},
    ),
    # The whole interval must lie from 0.25 to 0.35.
    (primes(precision=Estimate(0.26, 0.25, 0.27)), BOTH_AGREE | {"primes-near-0.3": True}),
    (primes(precision=Estimate(0.26, 0.249, 0.27)), BOTH_AGREE | {"primes-near-0.3": None}),
    (primes(f1=Estimate(0.242, 0.232, 0.251)), BOTH_AGREE | {"primes-near-0.3": None}),
    (primes(f1=Estimate(0.242, 0.232, 0.249)), BOTH_AGREE | {"primes-near-0.3": False}),
    (primes(f1=Estimate(0.4, 0.351, 0.41)), BOTH_AGREE | {"primes-near-0.3": False}),
    (primes(f1=WIDE, recall=WIDE), BOTH_AGREE | {"primes-near-0.3": None}),
    (primes(f1=WIDE, recall=about(0.2)), BOTH_AGREE | {"primes-near-0.3": False}),
    (at("GPT-2", "10", **NEVER_GENERATED), NO_PRIMES),
    # In one of the two readings of the HMM.
    (hmm_at_primes(about(0.04), about(0.04)), BOTH_AGREE_HMM),
    (hmm_at_primes(about(0.3), about(0.04)), BOTH_AGREE_HMM),
    (hmm_at_primes(UNKNOWN, about(0.04)), BOTH_AGREE_HMM),
    (hmm_at_primes(about(0.3), about(0.3)), BOTH_DIFFER_HMM),
    (hmm_at_primes(about(0.3), UNKNOWN), BOTH_DIFFER_HMM),
    (hmm_at_primes(UNKNOWN, UNKNOWN), dict.fromkeys(BOTH_AGREE_HMM)),
    (square_free(), {"square-free-near-0.4": True}),
    (square_free(f1=Estimate(0.36, 0.35, 0.37)), {"square-free-near-0.4": True}),
    (square_free(f1=Estimate(0.36, 0.34, 0.37)), {"square-free-near-0.4": None}),
    (square_free(recall=about(0.2)), {"square-free-near-0.4": False}),
    (square_free(precision=about(0.7)), {"square-free-near-0.4": False}),
    (highest(LOW, HIGH), {"hmm-f1-below-0.2": True}),
    (highest(BETWEEN, LOW), {"hmm-f1-below-0.2": True}),
    (highest(HIGH, HIGH), {"hmm-f1-below-0.2": False}),
    (highest(HIGH, BETWEEN), {"hmm-f1-below-0.2": None}),
    (highest(UNKNOWN, UNKNOWN), {"hmm-f1-below-0.2": None}),
    ({"f1.higher_share": Estimate(0.6, 0.501, 0.7)}, {"outperforms-hmm": True}),
    ({"f1.higher_share": Estimate(0.6, 0.5, 0.7)}, {"outperforms-hmm": None}),
    ({"f1.higher_share": Estimate(0.3, 0.2, 0.4)}, {"outperforms-hmm": False}),
    ({"f1.higher_share": UNKNOWN}, {"outperforms-hmm": None}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("precision_recall", case)


@pytest.mark.parametrize(
    ("word", "changed"),
    [
        ("10", NO_PRIMES | {"recall-at-primes-GPT-2": None}),
        ("101010", {"square-free-near-0.4": False}),
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
    draw("precision_recall", result)


def made_with(result: Any) -> Any:
    """The settings of the committed result."""
    settings = study.settings("gpu")
    models = {name: settings.models[name][: result.seeds[name]] for name in result.seeds}
    return replace(settings, models=models, generation=result.generation)


def test_statistics_follow_from_the_scores() -> None:
    result = committed("precision_recall")
    assert study.summarise(made_with(result), result.words) == result


def test_a_model_without_words_has_no_scores() -> None:
    base = committed("precision_recall")
    words = base.words | {"HMM": {}, FILTER: {}}
    result = study.summarise(made_with(base), words)
    assert outcomes(study, result) == outcomes(study, base) | {
        "precision-at-primes-HMM": None,
        "recall-at-primes-HMM": None,
        "hmm-f1-below-0.2": None,
        "outperforms-hmm": None,
    }
    draw("precision_recall", result)


def test_a_stand_in_tests_no_claim() -> None:
    result = replace(committed("precision_recall"), stand_in="This model is a small one.")
    assert set(outcomes(study, result).values()) == {None}
