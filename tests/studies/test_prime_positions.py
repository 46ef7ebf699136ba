import pytest

from arithmetext.evaluation.estimates import UNKNOWN, Estimate, wilson
from arithmetext.paper.runs import PromptSettings
from arithmetext.paper.studies import prime_positions as study
from arithmetext.paper.studies.prime_positions import (
    SIDES,
    Bar,
    Counts,
    Result,
    Side,
    side,
    summarise,
)

from .cases import Case, check, draw

GPT = "primes.GPT-2"

CASES: list[Case] = [
    ({"excess.generated.low": 0.0}, {"more-primes-generated": False}),
    ({"excess.generated.low": 0.001}, {}),
    ({"excess.standing.low": 0.0}, {"more-primes-standing": False}),
    ({"excess.standing": UNKNOWN}, {"more-primes-standing": False}),
    (
        {f"{GPT}.generated.wrong_square_free.low": 0.6, f"{GPT}.generated.square_free": 0.6},
        {"square-free-generated": False},
    ),
    ({f"{GPT}.generated.wrong_square_free.low": 0.601, f"{GPT}.generated.square_free": 0.6}, {}),
    (
        {f"{GPT}.standing.wrong_square_free.low": 0.6, f"{GPT}.standing.square_free": 0.6},
        {"square-free-standing": False},
    ),
    ({f"{GPT}.standing.wrong_square_free": UNKNOWN}, {"square-free-standing": False}),
    ({"primes.HMM.standing.wrong_square_free": UNKNOWN}, {}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("prime_positions", case)


GENERATED = [("1010", 600), ("10", 300), ("1100", 50), ("malformed", 50)]
STANDING = [("1010", 600), ("10", 300), ("1100", 100)]
EVERYWHERE = [("10", 50), ("1010", 60), ("1100", 40)]  # 0.6 square-free, except 10
HMM_STANDING = [("1100", 660), ("1010", 300), ("10", 40)]


def about(value: float, spread: float = 0.01) -> Estimate:
    return Estimate(value, value - spread, value + spread)


def result(
    *,
    generated: Counts = GENERATED,
    standing: Counts = STANDING,
    right: tuple[Estimate, Estimate] = (about(0.3), about(0.3)),
    hmm_standing: Counts = HMM_STANDING,
    hmm_right: tuple[Estimate, Estimate] = (about(0.04), about(0.04)),
) -> Result:
    def sides(counts: tuple[Counts, Counts], right: tuple[Estimate, Estimate]) -> dict[str, Side]:
        return {
            name: side(some, share, EVERYWHERE)
            for name, some, share in zip(SIDES, counts, right, strict=True)
        }

    models = {
        "GPT-2": sides((generated, standing), right),
        "HMM": sides((hmm_standing, hmm_standing), hmm_right),
    }
    return summarise(10**13, PromptSettings(20, 256, 64, 0, 10), models)


@pytest.mark.parametrize(
    ("found", "keys"),
    [
        (result(), []),
        (result(hmm_right=(about(0.31), about(0.04))), ["more-primes-generated"]),
        (result(hmm_right=(about(0.04), about(0.31))), ["more-primes-standing"]),
        (result(right=(about(0.06, 0.05), about(0.3))), ["more-primes-generated"]),
        (result(generated=[("1010", 560), ("1100", 440)]), ["square-free-generated"]),
        (result(standing=[("1010", 560), ("1100", 440)]), ["square-free-standing"]),
        (result(standing=[("1010", 7), ("1100", 3)]), ["square-free-standing"]),
        (result(standing=[("10", 900), ("1010", 70), ("1100", 30)]), []),
        (result(standing=[("10", 900), ("1010", 50), ("1100", 50)]), ["square-free-standing"]),
        (
            result(standing=[], right=(about(0.3), UNKNOWN)),
            ["more-primes-standing", "square-free-standing"],
        ),
        (
            result(hmm_standing=[], hmm_right=(UNKNOWN, UNKNOWN)),
            ["more-primes-generated", "more-primes-standing"],
        ),
    ],
)
def test_counts_decide_the_verdicts(found: Result, keys: list[str]) -> None:
    assert [verdict.key for verdict in study.verdicts(found) if not verdict.agrees] == keys
    draw("prime_positions", found)


def test_a_side_counts_places_and_wrong_words() -> None:
    found = side(GENERATED, about(0.3), EVERYWHERE)
    assert found.places == 1000
    assert found.wrong_square_free == wilson(600, 700)  # malformed words are not square-free
    assert found.square_free == 0.6
    assert found.bars[1] == Bar("10", 300, 0.3)


def test_bars_are_the_most_frequent_words_10_and_the_rest() -> None:
    words = [("1100" + "10" * k, 20) for k in range(15)]
    bars = side([*words, ("10", 10), ("1010", 5)], about(0.0), EVERYWHERE).bars
    assert [bar.word for bar in bars] == [*(word for word, _ in words[:12]), "10", "all others"]
    assert (bars[-1].count, bars[-1].share) == (65, 65 / 315)


def test_a_side_without_words() -> None:
    found = side([], UNKNOWN, [])
    assert (found.places, found.bars, found.square_free) == (0, [], 0)
    assert found.wrong_square_free == UNKNOWN
