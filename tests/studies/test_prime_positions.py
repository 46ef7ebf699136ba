from dataclasses import replace

import numpy as np
import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate, rate
from arithmetext.paper.studies import prime_positions as study
from arithmetext.paper.studies.prime_positions import SIDES, Bar, side
from arithmetext.text.sieve import Words

from .cases import Case, check, committed, draw, outcomes

GPT = "primes.GPT-2"

ABOVE, BELOW, AROUND = Estimate(0.2, 0.1, 0.3), Estimate(-0.2, -0.3, -0.1), Estimate(0, -0.1, 0.1)


def wrong(side: str, estimate: Estimate) -> dict[str, object]:
    """Edits: 0.6 of all words are square-free, and this share of the wrong words at primes."""
    return {f"{GPT}.{side}.wrong_square_free": estimate, f"{GPT}.{side}.square_free": 0.6}


CASES: list[Case] = [
    *(
        ({f"excess.{side}": estimate}, {f"more-primes-{side}": expected})
        for side in SIDES
        for estimate, expected in ((ABOVE, True), (AROUND, None), (BELOW, False), (UNKNOWN, None))
    ),
    *(
        (wrong(side, estimate), {f"square-free-{side}": expected})
        for side in SIDES
        for estimate, expected in (
            (Estimate(0.7, 0.61, 0.8), True),
            (Estimate(0.7, 0.6, 0.8), None),
            (Estimate(0.5, 0.4, 0.59), False),
            (UNKNOWN, None),
        )
    ),
    ({"primes.HMM.standing.wrong_square_free": UNKNOWN}, {}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("prime_positions", case)


GENERATED = [("1010", 600), ("10", 300), ("1100", 50), ("malformed", 50)]
EVERYWHERE = [("10", 50), ("1010", 60), ("1100", 40)]  # 0.6 square-free, except 10


def test_a_side_counts_places_and_wrong_words() -> None:
    right, wrong = Estimate(0.3, 0.2, 0.4), Estimate(0.86, 0.8, 0.9)
    found = side(GENERATED, right, wrong, EVERYWHERE)
    assert found.places == 1000
    assert (found.right, found.wrong_square_free) == (right, wrong)
    assert found.square_free == 0.6
    assert found.bars[1] == Bar("10", 300, 0.3)


def test_bars_are_the_most_frequent_words_10_and_the_rest() -> None:
    words = [("1100" + "10" * k, 20) for k in range(15)]
    bars = side([*words, ("10", 10), ("1010", 5)], UNKNOWN, UNKNOWN, EVERYWHERE).bars
    assert [bar.word for bar in bars] == [*(word for word, _ in words[:12]), "10", "all others"]
    assert (bars[-1].count, bars[-1].share) == (65, 65 / 315)


def test_a_side_without_words() -> None:
    found = side([], UNKNOWN, UNKNOWN, [])
    assert (found.places, found.bars, found.square_free) == (0, [], 0)
    base = committed("prime_positions")
    primes = base.primes | {"HMM": {name: found for name in SIDES}}
    empty = study.summarise(study.settings("gpu"), primes)
    assert empty.excess == {name: UNKNOWN for name in SIDES}
    draw("prime_positions", empty)


def packed(*words: str) -> Words:
    return np.array([int(word, 2) for word in words], np.uint64)


def test_wrong_words_at_primes_are_counted_by_prompt_and_seed() -> None:
    """Two seeds, two prompts; a malformed word is wrong and not square-free."""
    true = [packed("10", "10", "1100"), packed("10", "1010")] * 2
    predicted = [
        packed("10", "1010", "1010"),
        packed("1100", "10"),
        packed("101010", "0", "10"),
        packed("10", "10"),
    ]
    found = study.wrong_square_free(predicted, true, 2)
    assert found == rate(np.array([[1, 0], [1, 0]]), np.array([[1, 1], [2, 0]]))
    # At generated primes, the text has 1010, 1100 and 1010 in place of 10.
    found = study.wrong_square_free(true, predicted, 2)
    assert found == rate(np.array([[0, 1], [0, 1]]), np.array([[0, 1], [1, 1]]))


def test_a_stand_in_tests_no_claim() -> None:
    result = replace(committed("prime_positions"), stand_in="This model is a small one.")
    assert set(outcomes(study, result).values()) == {None}
