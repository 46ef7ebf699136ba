"""Random numbers inside kernels are those of numpy."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arithmetext.text.philox import below, choose, philox, uniform
from arithmetext.text.windows import generator

words = st.integers(0, 2**63 - 1)
bounds = (
    st.integers(1, 300)
    | st.integers(1, 2**63 - 1)
    | st.integers(2**31, 2**33)
    | st.sampled_from([2**32 - 1, 2**32, 2**32 + 1, 3 * 2**30, 3 * 2**61, 2**63 - 1])
)
positions = st.integers(1, 1100) | st.integers(9_990, 10_100)
draws = st.lists(
    st.tuples(st.just("integer"), bounds, st.just(0.0))
    | st.tuples(st.just("uniform"), st.just(1), st.just(0.0))
    | st.tuples(st.just("choice"), positions, st.floats(0, 1)),
    max_size=12,
)


@given(words, words, words, words, draws)
@example(2**63 - 1, 4, 0, 1, [("choice", 10_000, 0.03), ("choice", 10_001, 0.03)] * 2)
@example(0, 0, 3, 5, [("choice", 10_050, 0.0199), ("choice", 10_050, 0.0201), ("uniform", 1, 0.0)])
def test_all_draws(
    seed: int, purpose: int, i: int, k: int, draws: list[tuple[str, int, float]]
) -> None:
    """In any order: some leave half of a random number of 64 bits, which the next one uses."""
    state = philox(*(np.uint64(number) for number in (seed, purpose, i, k)))
    reference = generator(seed, purpose, i, k)
    for kind, n, share in draws:
        if kind == "integer":
            assert below(state, n) == reference.integers(n)
        elif kind == "uniform":
            assert uniform(state) == reference.random()
        else:
            chosen = np.empty(max(1, round(share * n)), np.int64)
            choose(state, n, chosen)
            expected = reference.choice(n, len(chosen), replace=False)
            assert chosen.tolist() == sorted(expected.tolist())


@pytest.mark.parametrize("n", [3 * 2**30, 3 * 2**61, 2**31 + 1, 2**62 + 1])
def test_integers_that_are_often_drawn_again(n: int) -> None:
    """Up to half of the random numbers are rejected, so that all integers are equally likely."""
    state = philox(*(np.uint64(number) for number in (1, 2, 3, 4)))
    expected = generator(1, 2, 3, 4).integers(n, size=1000).tolist()
    assert [below(state, n) for _ in range(1000)] == expected
