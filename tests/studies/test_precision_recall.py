from dataclasses import replace
from typing import Any

import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
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
NO_PRIMES = {
    "precision-at-primes-GPT-2": False,
    "recall-at-primes-GPT-2": False,
    "primes-near-0.3": False,
}

CASES: list[Case] = [
    (
        at("GPT-2", "10", precision=about(0.6)),
        {"precision-at-primes-GPT-2": False, "primes-near-0.3": False},
    ),
    (
        at("GPT-2", "10", recall=about(0.1)),
        {"recall-at-primes-GPT-2": False, "primes-near-0.3": False},
    ),
    (at("HMM", "10", precision=about(0.3)), {"precision-at-primes-HMM": False}),
    (at("HMM", "10", recall=about(0.3)), {"recall-at-primes-HMM": False}),
    (at("GPT-2", "10", precision=about(0.22), recall=about(0.4)), {"primes-near-0.3": False}),
    (at("GPT-2", "10", precision=about(0.26), recall=about(0.34)), {}),
    (at("GPT-2", "10", f1=Estimate(0.2, 0.19, 0.249)), {"primes-near-0.3": False}),
    (at("GPT-2", "10", f1=Estimate(0.2, 0.19, 0.25)), {}),
    (at("GPT-2", "10", f1=Estimate(0.4, 0.35, 0.41)), {}),
    (at("GPT-2", "10", f1=Estimate(0.4, 0.351, 0.41)), {"primes-near-0.3": False}),
    (at("GPT-2", "10", **NEVER_GENERATED), NO_PRIMES),
    (at("GPT-2", "10101010", f1=about(0.38)), {"square-free-near-0.4": False}),
    (at("GPT-2", "10101010", f1=Estimate(0.38, 0.37, 0.4)), {}),
    (at("GPT-2", "10101010", recall=about(0.2)), {"square-free-near-0.4": False}),
    (at("GPT-2", "1010", precision=about(0.7)), {"square-free-near-0.4": False}),
    (at("GPT-2", "1010", f1=about(0.52)), {"square-free-near-0.4": False}),
    (at("GPT-2", "1010", f1=Estimate(0.52, 0.5, 0.54)), {}),
    (at("GPT-2", "110010", **NEVER_GENERATED), {}),
    (at("GPT-2", "110010", true=0, precision=UNKNOWN, recall=UNKNOWN, f1=UNKNOWN), {}),
    ({"hmm_highest.f1": Estimate(0.2, 0.19, 0.21)}, {"hmm-f1-below-0.2": False}),
    ({"hmm_highest.f1": Estimate(0.199, 0.19, 0.21)}, {}),
    ({"hmm_highest.word": None, "hmm_highest.f1": UNKNOWN}, {"hmm-f1-below-0.2": False}),
    ({"f1.higher_share": Estimate(0.6, 0.5, 0.7)}, {"outperforms-hmm": False}),
    ({"f1.higher_share": Estimate(0.6, 0.501, 0.7)}, {}),
    ({"f1.higher_share": UNKNOWN}, {"outperforms-hmm": False}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("precision_recall", case)


@pytest.mark.parametrize(
    ("word", "changed"), [("10", NO_PRIMES), ("101010", {"square-free-near-0.4": False})]
)
def test_verdicts_on_a_word_that_does_not_occur(word: str, changed: dict[str, bool]) -> None:
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
    return replace(study.settings("gpu"), generation=result.generation)


def test_statistics_follow_from_the_scores() -> None:
    result = committed("precision_recall")
    assert study.summarise(made_with(result), result.words) == result


def test_a_model_without_words_has_no_scores() -> None:
    base = committed("precision_recall")
    result = study.summarise(study.settings("gpu"), base.words | {"HMM": {}})
    assert outcomes(study, result) == outcomes(study, base) | {
        "precision-at-primes-HMM": False,
        "recall-at-primes-HMM": False,
        "hmm-f1-below-0.2": False,
        "outperforms-hmm": False,
    }
    draw("precision_recall", result)
