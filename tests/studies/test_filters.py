"""What long convolutions learn, on made-up numbers: what the texts and figures make of them."""

from dataclasses import replace

import pytest

from arithmetext.evaluation.estimates import Estimate
from arithmetext.evaluation.filters import PERIODS, PRIMES
from arithmetext.paper.runs import TrainingFacts
from arithmetext.paper.studies import filters as study
from arithmetext.paper.studies.filters import SPECTRUM, Place, Result

from .cases import Case, draw

CASES: list[Case] = []  # the paper has no such model
FACTS = TrainingFacts(2**25, 1800.0, "cpu", "a whole word", stand_in="")


def certain(value: float, error: float = 0.01) -> Estimate:
    return Estimate(value, value - error, value + error)


def rows(own: dict[int, float], other: float = 0.0) -> list[list[Estimate]]:
    """What each removed period costs each group of words: `own` by prime, `other` elsewhere."""
    return [
        [certain(own.get(p, 0.0) if i == k else other) for k in range(len(PRIMES) + 1)]
        for i, p in enumerate(PRIMES)
    ]


def made_up() -> Result:
    how = study.settings("gpu")
    return Result(
        places=[Place(at, certain(0.5)) for at in how.places],
        nats=[[certain(2 - k / 10) for k in range(bits)] for bits in (12, 10)],
        spectra=[[10.0 if q in PRIMES else 0.5 for q in SPECTRUM] for _ in range(3)],
        removed=rows({2: 1.0, 3: 0.5, 5: 0.2}),
        random=rows({}),
        words=[100] * (len(PRIMES) + 1),
        prompts=how.prompts,
        tokens=4096,
        scored=how.scored,
        ablated=how.ablated,
        training=[FACTS, FACTS],
        sizes=[3_000_000, 5_000_000],
    )


def test_primes_whose_period_matters_are_named() -> None:
    assert study.needed(made_up()) == [2, 3, 5]
    short = study.in_short(made_up())
    assert "without the period of one of the primes 2, 3 and 5, words" in short
    assert "cost 0.20 to 1.00 nats more" in short
    assert "0.500 [0.490, 0.510] of the generated words right near 9.8e10" in short


@pytest.mark.parametrize(
    "change",
    [
        {"removed": rows({2: 0.055, 3: 0.5})},  # 2: the interval reaches below 0.05
        {"removed": rows({2: 1.0, 3: 0.5}, other=0.5)},  # 3: no more than other periods
        {"random": rows({2: 0.3, 3: 0.1, 5: 0.1})},  # 5: hardly more than random frequencies
    ],
)
def test_other_primes_are_not(change: dict[str, list[list[Estimate]]]) -> None:
    before, after = made_up(), replace(made_up(), **change)
    named = [study.needed(before), study.needed(after)]
    assert named[1] != named[0] and set(named[1]) < {2, 3, 5}
    draw("filters", after)


def test_a_model_may_need_no_period() -> None:
    nothing = replace(made_up(), removed=rows({}))
    assert study.in_short(nothing).endswith("No prime depends on its own period alone.")
    draw("filters", nothing)


def test_the_table_has_the_diagonal() -> None:
    header, body = study.table(made_up())
    assert [row[0] for row in body] == list(PERIODS)
    assert [row[1] for row in body[:4]] == [1.0, 0.5, 0.2, 0.0]
    assert len(header) == len(body[0])
