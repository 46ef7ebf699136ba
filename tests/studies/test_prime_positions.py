from dataclasses import replace

import numpy as np
import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate, rate
from arithmetext.paper.studies import prime_positions as study
from arithmetext.paper.studies.prime_positions import SIDES, Bar, side
from arithmetext.text.sieve import Words
from arithmetext.trees import unpack

from .cases import Case, check, draw, outcomes

GPT = "primes.GPT-2"

ABOVE, BELOW, AROUND = Estimate(0.2, 0.1, 0.3), Estimate(-0.2, -0.3, -0.1), Estimate(0, -0.1, 0.1)


def wrong(side: str, share: Estimate, excess: Estimate) -> dict[str, object]:
    """Edits of the share of square-free words, and of its excess over that of all words."""
    where = f"{GPT}.{side}"
    return {f"{where}.wrong_square_free": share, f"{where}.excess_square_free": excess}


LONG, SHORT = {"trained_on": 10**11}, {"trained_on": 10**8}  # the paper's: 4.4e10 tokens
MOST, FEW, HALF = Estimate(0.7, 0.51, 0.8), Estimate(0.4, 0.3, 0.49), Estimate(0.5, 0.4, 0.6)

CASES: list[Case] = [
    *(
        ({f"excess.{side}": estimate}, {f"more-primes-{side}": expected})
        for side in SIDES
        for estimate, expected in ((ABOVE, True), (AROUND, None), (BELOW, False), (UNKNOWN, None))
    ),
    *(
        (wrong(side, share, excess), {f"square-free-{side}": expected})
        for side in SIDES
        for share, excess, expected in (
            (MOST, ABOVE, True),
            (MOST, AROUND, None),
            (MOST, BELOW, False),
            (HALF, ABOVE, None),
            (HALF, BELOW, False),
            (FEW, ABOVE, False),
            (UNKNOWN, UNKNOWN, None),
        )
    ),
    ({"primes.HMM.standing.wrong_square_free": UNKNOWN}, {}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("prime_positions", case, LONG)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(("excess", "expected"), [(ABOVE, True), (BELOW, None)])
def test_a_worse_model_after_short_training(
    side: str, excess: Estimate, expected: bool | None
) -> None:
    check("prime_positions", ({f"excess.{side}": excess}, {f"more-primes-{side}": expected}), SHORT)


def packed(*words: str) -> Words:
    return np.array([int(word, 2) for word in words], np.uint64)


# Two seeds, two prompts; a malformed word is wrong and not square-free.
TRUE = [packed("10", "10", "1100"), packed("10", "1010")] * 2
PREDICTED = [
    packed("10", "1010", "1010"),
    packed("1100", "10"),
    packed("101010", "0", "10"),
    packed("10", "10"),
]


def test_words_at_primes_are_counted_by_prompt_and_seed() -> None:
    """Places, right, wrong and square-free; words that are not 10, and the square-free ones."""
    assert study.tally(PREDICTED, TRUE, 2).tolist() == [
        [[2, 1, 1, 2, 2], [1, 0, 0, 1, 0]],
        [[2, 0, 1, 2, 1], [1, 1, 0, 0, 0]],
    ]
    assert study.tally(TRUE, PREDICTED, 2).tolist() == [
        [[1, 1, 0, 1, 0], [1, 0, 1, 1, 1]],
        [[1, 0, 0, 1, 0], [2, 1, 1, 1, 1]],
    ]


def test_a_side_counts_places_and_wrong_words() -> None:
    tallied = study.tally(PREDICTED, TRUE, 2)
    found = side([(2, 2), (10, 1), (12, 1), (42, 1), (0, 1)], tallied)
    assert found.places == 6
    assert found.right == rate(np.array([[1, 0], [0, 1]]), np.array([[2, 1], [2, 1]]))
    assert found.wrong_square_free == rate(np.array([[1, 0], [1, 0]]), np.array([[1, 1], [2, 0]]))
    assert found.square_free == 3 / 5
    assert found.excess_square_free.value == pytest.approx(2 / 4 - 3 / 5)
    assert found.bars[0] == Bar("10", 2, 1 / 3)
    assert found.counts[-1] == ("malformed", 1)


def test_bars_are_the_most_frequent_words_10_and_the_rest() -> None:
    words = [int("1100" + "10" * k, 2) for k in range(15)]
    tallied = np.array([[[315, 10, 5, 400, 200]]])
    bars = side([*((word, 20) for word in words), (2, 10), (10, 5)], tallied).bars
    assert [bar.word for bar in bars] == [
        *(unpack(word) for word in words[:12]),
        "10",
        "all others",
    ]
    assert (bars[-1].count, bars[-1].share) == (65, 65 / 315)


def test_a_model_that_generates_nothing() -> None:
    none = [np.zeros(0, np.uint64)] * 2
    made = {"GPT-2": (PREDICTED, TRUE, 2), "HMM": (none, TRUE[:2], 1)}
    result = study.summarise(study.settings("gpu"), made)
    found = result.primes["HMM"]["generated"]
    assert (found.places, found.bars, found.square_free) == (0, [], 0)
    assert result.excess == {name: UNKNOWN for name in SIDES}
    ours = {verdict.key: verdict.ours for verdict in study.verdicts(result)}
    assert ours["more-primes-standing"].endswith("HMM undefined: the HMM generates no prime")
    assert ours["square-free-generated"].endswith("HMM undefined: no wrong words")
    draw("prime_positions", result)


def test_the_excess_over_the_hmm_is_that_of_the_same_prompts() -> None:
    made = {"GPT-2": (TRUE, TRUE, 2), "HMM": (PREDICTED, TRUE, 2)}
    result = study.summarise(study.settings("gpu"), made)
    gpt, hmm = (result.primes[name]["generated"].right.value for name in ("GPT-2", "HMM"))
    assert result.excess["generated"].value == pytest.approx(gpt - hmm) == pytest.approx(2 / 3)


def test_a_stand_in_tests_no_claim_about_itself() -> None:
    made = {"GPT-2": (TRUE, TRUE, 2), "HMM": (PREDICTED, TRUE, 2)}
    found = study.summarise(study.settings("gpu"), made)
    assert outcomes(study, found)["more-primes-generated"]
    small = replace(found, stand_ins={"GPT-2": "A small model.", "HMM": ""})
    assert set(outcomes(study, small).values()) == {None}
    other = replace(found, stand_ins={"GPT-2": "", "HMM": "Another HMM."})
    assert outcomes(study, other)["more-primes-generated"] is None
    reasons = {verdict.key: "Another HMM." in verdict.why for verdict in study.verdicts(other)}
    assert reasons["more-primes-generated"] and not reasons["square-free-generated"]
