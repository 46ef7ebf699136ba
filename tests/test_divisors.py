"""Words of a model beside the answers of oracles, and beside the primes that divide n."""

from collections.abc import Callable
from dataclasses import replace

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arithmetext.evaluation.divisors import (
    PlacedWords,
    accuracy,
    agreement,
    children,
    divisibility,
    expected_agreement,
    place_words,
    pool,
)
from arithmetext.evaluation.estimates import UNKNOWN
from arithmetext.search import residues
from arithmetext.text.sieve import words

SOME_WORDS = words(2, 40)


def text(lo: int, hi: int, prompts: int = 1) -> PlacedWords:
    """The true words of lo ≤ n < hi, cut into prompts of equal length, all predicted."""
    true = words(lo, hi)
    prompt = np.arange(hi - lo) * prompts // (hi - lo)
    return PlacedWords(prompt, np.arange(lo, hi, dtype=np.uint64), true, true, min(prompts, 5))


def test_words_are_placed_at_their_integers() -> None:
    first = np.array([100, 50, 1000])
    lengths = [3, 0, 2]
    true = [words(n, n + 4) for n in first.tolist()]
    predicted = [SOME_WORDS[:length] for length in lengths]
    placed = place_words(first, predicted, true, 3)
    assert placed.prompt.tolist() == [0, 0, 0, 2, 2]
    assert placed.integers.tolist() == [100, 101, 102, 1000, 1001]
    assert placed.predicted.tolist() == [*SOME_WORDS[:3], *SOME_WORDS[:2]]
    assert placed.true.tolist() == [*words(100, 103), *words(1000, 1002)]
    both = pool([placed, placed])
    assert both.integers.tolist() == 2 * placed.integers.tolist()
    assert both.prompt.tolist() == 2 * placed.prompt.tolist()


@given(st.integers(2, 10**12))
def test_children_are_primes(lo: int) -> None:
    primes = [len(flint.fmpz(n).factor()) for n in range(lo, lo + 10)]
    assert children(words(lo, lo + 10)).tolist() == primes
    assert children(np.zeros(2, np.uint64)).tolist() == [0, 0]


some_words = st.sampled_from(SOME_WORDS[:8].tolist())


@settings(max_examples=25)
@given(st.lists(st.tuples(some_words, some_words, some_words), min_size=1, max_size=40))
def test_expected_agreement_is_that_of_all_pairs_with_the_same_true_word(
    rows: list[tuple[int, int, int]],
) -> None:
    true, predicted, answers = np.array(rows, np.uint64).T
    numbers = np.arange(len(rows))
    placed = PlacedWords(numbers // 3, numbers.astype(np.uint64), predicted, true, 1)
    pairs = [
        np.mean([answer == guess for kind, _, answer in rows if kind == truth])
        for truth, guess, _ in rows
    ]
    assert expected_agreement(placed, answers).tolist() == pytest.approx(pairs)
    found = agreement(placed, answers)
    wrong = [guess != truth for truth, guess, _ in rows]
    same = [guess == answer for _, guess, answer in rows]
    assert found.same.value == pytest.approx(np.mean(same))
    assert found.same_wrong.value == pytest.approx(np.mean(np.logical_and(same, wrong)))
    assert found.expected.value == pytest.approx(np.mean(pairs))
    assert found.expected_wrong.value == pytest.approx(np.mean(np.multiply(pairs, wrong)))
    if np.mean(pairs) < 1 - 1e-9:
        excess = (np.mean(same) - np.mean(pairs)) / (1 - np.mean(pairs))
        assert found.excess.value == pytest.approx(excess)


def test_errors_that_are_independent_given_the_true_word_agree_as_expected() -> None:
    random = np.random.default_rng(0)
    placed = text(10**9, 10**9 + 20_000, prompts=100)

    def guess() -> np.ndarray:
        """The true word, or the word of another integer; the easier, the longer the word is."""
        right = random.random(len(placed.true)) < np.bitwise_count(placed.true) / 8
        return np.where(right, placed.true, random.permutation(placed.true))

    found = agreement(replace(placed, predicted=guess()), guess())
    assert found.excess.value == pytest.approx(0, abs=0.015)
    assert found.same.value is not None and found.same.value > 0.2
    itself = guess()
    found = agreement(replace(placed, predicted=itself), itself)
    assert found.same.value == found.excess.value == 1
    assert found.same_wrong.value == np.mean(itself != placed.true)


@settings(max_examples=25)
@given(st.lists(some_words, min_size=30, max_size=30), st.integers(10, 10**9))
def test_who_does_not_know_n_modulo_p_does_not_notice_p(table: list[int], lo: int) -> None:
    """Predictions that depend on n modulo 30 alone: over a whole period of 30 · 7 integers."""
    placed = text(lo, lo + 210)
    predicted = np.array(table, np.uint64)[placed.integers.astype(np.int64) % 30]
    assert np.isclose(divisibility(replace(placed, predicted=predicted), 7).noticed.value, 0)


def test_who_knows_everything_writes_the_true_children() -> None:
    placed, cut = (text(10**9, 10**9 + 10_000, prompts) for prompts in (1, 10))
    primes = np.array([len(flint.fmpz(n).factor()) for n in placed.integers.tolist()])
    for prime in (2, 3, 61):
        divides = placed.integers % prime == 0
        found = divisibility(placed, prime)
        assert found.words == divides.sum()
        assert found.noticed.value == pytest.approx(
            primes[divides].mean() - primes[~divides].mean()
        )
        found = divisibility(cut, prime)
        assert found.recall == found.recall_elsewhere == (1, 1, 1)


def test_children_are_compared_within_a_prompt() -> None:
    """A prompt of longer words does not count as noticing a prime that divides more of its n."""
    placed = PlacedWords(
        prompt=np.array([0, 0, 0, 1, 1]),
        integers=np.array([9, 10, 12, 13, 15], np.uint64),
        predicted=np.array([0b10101010, 0b10101010, 0b10101010, 0b10, 0b1010], np.uint64),
        true=np.zeros(5, np.uint64),
        blocks=1,
    )
    assert divisibility(placed, 3).noticed.value == pytest.approx((0 + 0 + 1) / 3)


def test_recall_is_counted_where_the_prime_divides_n() -> None:
    placed = text(1000, 1000 + 600, prompts=10)
    wrong = np.where(placed.integers % 15 == 0, np.uint64(0), placed.true)
    found = divisibility(replace(placed, predicted=wrong), 5)
    assert (found.recall.value, found.recall_elsewhere.value) == (pytest.approx(2 / 3), 1)


def test_accuracy_is_counted_where_any_of_the_primes_divides_n() -> None:
    placed = text(1000, 1000 + 600, prompts=10)
    wrong = np.where(placed.integers % 6 == 0, np.uint64(0), placed.true)
    some = replace(placed, predicted=wrong)
    assert accuracy(some).value == pytest.approx(5 / 6)
    assert accuracy(some, [2]).value == pytest.approx(2 / 3)
    assert accuracy(some, [2, 3]).value == pytest.approx(3 / 4)  # 4 of 6, and 1 of them wrong
    assert accuracy(some, []) == UNKNOWN
    for prime in (2, 5, 7):
        assert accuracy(some, [prime]) == divisibility(some, prime).recall


@pytest.fixture(scope="module")
def by_oracle() -> Callable[[int], PlacedWords]:
    at, count = 10**13, 1 << 16
    placed = text(at, at + count, prompts=64)
    oracles = residues.estimate(at + count, at + (1 << 20), [7, 19, 31])
    return lambda bound: replace(
        placed, predicted={each.bound: each for each in oracles}[bound].answers(placed.integers)
    )


@pytest.mark.parametrize("bound", [7, 19, 31])
def test_an_oracle_notices_the_primes_up_to_its_bound(
    by_oracle: Callable[[int], PlacedWords], bound: int
) -> None:
    for prime in (2, 3, 7, 13, 19, 23, 31, 37):
        noticed = divisibility(by_oracle(bound), prime).noticed.value
        assert noticed == pytest.approx(float(prime <= bound), abs=0.08), prime


def test_an_oracle_agrees_most_with_itself(by_oracle: Callable[[int], PlacedWords]) -> None:
    excess = [agreement(by_oracle(19), by_oracle(b).predicted).excess.value for b in (7, 19, 31)]
    assert excess[1] == 1
    assert 0.2 < excess[0] < 0.9 and 0.2 < excess[2] < 0.9
