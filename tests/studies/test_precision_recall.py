from typing import Any

import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.paper.studies import precision_recall as study

from .cases import Case, check, committed, draw, edited, outcomes


def at(model: str, name: str, /, **changes: Any) -> dict[str, Any]:
    """Edits of what is known about one word."""
    words = [score.word for score in committed("precision_recall").words[model]]
    return {f"words.{model}.{words.index(name)}.{field}": new for field, new in changes.items()}


def about(value: float) -> Estimate:
    return Estimate(value, value - 0.01, value + 0.01)


NEVER_GENERATED = {"predicted": 0, "precision": UNKNOWN, "recall": about(0.0), "f1": about(0.0)}
NO_PRIMES = {
    "precision-at-primes-GPT-2": False,
    "recall-at-primes-GPT-2": False,
    "primes-near-0.3": False,
}
NO_WORD = {"word": "111000"}  # one that no claim is about

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
    (at("GPT-2", "10", **NO_WORD), NO_PRIMES),
    (at("GPT-2", "10101010", f1=about(0.38)), {"square-free-near-0.4": False}),
    (at("GPT-2", "10101010", f1=Estimate(0.38, 0.37, 0.4)), {}),
    (at("GPT-2", "10101010", recall=about(0.2)), {"square-free-near-0.4": False}),
    (at("GPT-2", "1010", precision=about(0.7)), {"square-free-near-0.4": False}),
    (at("GPT-2", "1010", f1=about(0.52)), {"square-free-near-0.4": False}),
    (at("GPT-2", "1010", f1=Estimate(0.52, 0.5, 0.54)), {}),
    (at("GPT-2", "101010", **NO_WORD), {"square-free-near-0.4": False}),
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


@pytest.mark.parametrize("change", [NEVER_GENERATED, NO_WORD])
def test_a_model_that_never_generates_a_prime(change: dict[str, Any]) -> None:
    result = edited(committed("precision_recall"), at("GPT-2", "10", **change))
    assert "The GPT-2 never generates a prime." in study.caption(result)
    assert "The HMM never" not in study.caption(result)
    draw("precision_recall", result)


def test_statistics_follow_from_the_scores() -> None:
    result = committed("precision_recall")
    assert study.summarise(study.settings("gpu"), result.words) == result


def score(word: str, f1: float, true: int = 100) -> study.Score:
    return study.Score(word, true, 100, about(f1), about(f1), about(f1))


def test_the_highest_f1_is_among_common_words() -> None:
    scores = [score("1010", 0.1), score("1100", 0.3, true=29), score("10", 0.2, true=30)]
    scores.append(score("111000", 0.0))
    assert study.highest_f1(scores) == study.HighestF1("10", about(0.2), 3, 1)
    assert study.highest_f1(scores[1:2]) == study.HighestF1(None, UNKNOWN, 0, 0)


def test_f1_is_compared_for_words_that_are_common_for_both() -> None:
    """Words with equal F1 do not count for the share."""
    ours = [score("10", 0.3), score("1010", 0.1), score("1100", 0.0), score("101010", 0.4)]
    ours += [score("111000", 0.4, true=29), score("110010", 0.4), score("110100", 0.4)]
    theirs = [score("10", 0.1), score("1010", 0.2), score("1100", 0.0), score("101010", 0.3)]
    theirs += [score("111000", 0.1), score("110010", 0.1, true=29)]
    found = study.compare_f1(ours, theirs)
    assert (found.higher, found.lower, found.equal) == (2, 1, 1)
    assert found.higher_share.value == pytest.approx(2 / 3)
    assert study.compare_f1(ours[2:3], theirs[2:3]).higher_share == UNKNOWN


def test_a_model_without_words_has_no_scores() -> None:
    base = committed("precision_recall")
    result = study.summarise(study.settings("gpu"), base.words | {"HMM": []})
    assert outcomes(study, result) == outcomes(study, base) | {
        "precision-at-primes-HMM": False,
        "recall-at-primes-HMM": False,
        "hmm-f1-below-0.2": False,
        "outperforms-hmm": False,
    }
    draw("precision_recall", result)
