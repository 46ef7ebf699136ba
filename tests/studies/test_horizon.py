from dataclasses import replace

import numpy as np
import pytest

from arithmetext.evaluation.divisors import PlacedWords
from arithmetext.evaluation.estimates import Estimate
from arithmetext.paper.runs import PromptSettings, TrainingFacts
from arithmetext.paper.studies.horizon import Result, summarise
from arithmetext.search.residues import RestCounts, estimate, transfer
from arithmetext.text.sieve import words

from .cases import Case, draw

CASES: list[Case] = []  # the paper has no oracles, so there are no verdicts

ESTIMATED_AT, COUNTED = 97 * 10**9, 1 << 17
PLACES = (98 * 10**9, 10**13, 10**14, 10**15)
BOUNDS = (1, 2, 3, 5, 7, 11)
NATS = {place: Estimate(1.2, 1.1, 1.3) for place in PLACES}


def answered(oracle: RestCounts, place: int) -> PlacedWords:
    """The answers of an oracle for 40 prompts of 500 words."""
    integers = np.arange(place, place + 20_000, dtype=np.uint64)
    answers, true = oracle.answers(integers), words(place, place + len(integers))
    return PlacedWords(np.arange(len(integers)) // 500, integers, answers, true, 10)


@pytest.fixture(scope="module")
def oracles() -> list[RestCounts]:
    return estimate(ESTIMATED_AT, ESTIMATED_AT + COUNTED, BOUNDS, below=PLACES[-1] + COUNTED)


@pytest.fixture(scope="module")
def result(oracles: list[RestCounts]) -> Result:
    """The model, with one seed, is the oracle of B = 7."""
    oracle = oracles[BOUNDS.index(7)]
    words_of = {place: [answered(oracle, place)] for place in PLACES}
    places, bound, recall = summarise(words_of, NATS, oracles)
    transfers = transfer(ESTIMATED_AT, PLACES, BOUNDS, count=COUNTED)
    generation = PromptSettings(prompts=40, tokens=500, stride=64, seed=0, blocks=10)
    training = TrainingFacts(10**6, 60.0, "cpu", "a word", stand_in="")
    how = (generation, generation, 32)
    return Result(transfers, places, bound, recall, 1, training, *how, ESTIMATED_AT, COUNTED)


def test_a_model_that_is_an_oracle_is_recognised(result: Result) -> None:
    assert result.oracle_bound == 7
    below, above = result.recall
    assert (below.primes, above.primes) == ([2, 3, 5, 7], [11])
    for recall in result.recall:
        assert recall.model == recall.best_match
    # It is right more often where it knows a divisor.
    assert (below.model.low or 0) > (above.model.high or 1)
    for place in result.places:
        excess = {scores.bound: scores.agreement.excess.value for scores in place.bounds}
        assert max(excess, key=lambda bound: excess[bound] or 0) == 7
        assert excess[7] == 1
        for scores in place.primes:
            expected = float(scores.prime <= 7)
            assert scores.model.noticed.value == pytest.approx(expected, abs=0.15)
            assert scores.knowing.noticed.value == pytest.approx(1, abs=0.15)
            assert 0.7 < (scores.truth.noticed.value or 0) < 1.15
            assert scores.not_knowing.noticed.value == pytest.approx(0, abs=0.15)
            assert scores.knowing.recall.value > scores.not_knowing.recall.value


def test_intervals_have_the_spread_between_seeds(oracles: list[RestCounts]) -> None:
    some = oracles[:3]
    one = answered(oracles[BOUNDS.index(7)], 10**13)
    other = replace(one, predicted=np.where(one.integers % 5 == 1, one.true, one.predicted))

    def widths(models: list[PlacedWords]) -> list[float]:
        [place], _, recall = summarise({10**13: models}, NATS, some)
        found = [place.bounds[-1].agreement.same, place.primes[-1].model.recall]
        found += [place.accuracy, recall[0].model]
        return [(each.high or 0) - (each.low or 0) for each in found]

    for equal, different in zip(widths([one, one]), widths([one, other]), strict=True):
        assert 0 < 2 * equal < different


def test_the_result_is_drawn(result: Result) -> None:
    draw("horizon", result)
