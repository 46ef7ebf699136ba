import numpy as np
import pytest

from arithmetext.counting.walks import Crossover, LocalWalks, Walk
from arithmetext.evaluation.estimates import Estimate
from arithmetext.paper.studies import walks as study
from arithmetext.paper.studies.walks import summarise, summarise_local

from .cases import Case, check, committed, draw, edited

# Four walks from each start: more than two must become superdiffusive from 2 on.
CASES: list[Case] = [
    ({"stretches.0.crossing": 2}, {"crossover": False}),
    ({"stretches.0.crossing": 3}, {}),
    ({"stretches.1.crossing": 3}, {}),  # the paper names no range from 1e10
    ({"local.0.trend_exponent": Estimate(1.5, 1.4, 1.6)}, {}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("walks", case)


def test_a_walk_crosses_if_its_exponent_rises_past_the_border() -> None:
    exponents = [(1.0, 1.9), (1.1, 1.3), (1.5, 1.8), (1.0, 1.1), (1.3, 1.0), (1.0, 1.2)]
    walks = [Walk("10", 1, [], [], [], Crossover(9.0, *pair, 0.0)) for pair in exponents]
    found = summarise(2, walks)
    assert (found.before, found.after, found.crossing) == ((1.0, 1.5), (1.0, 1.9), 2)


def test_exponents_of_long_lags() -> None:
    """One word: F² ~ l² around the mean and l^0.9 around the trend, beyond a hundredth."""
    lags, parts = [1, 10, 100, 1000, 10_000], 30
    long = np.array([lag / 100 if lag >= 100 else 1.0 for lag in lags])
    noise = np.random.default_rng(1).uniform(0.9, 1.1, (parts, 1, len(lags)))
    windows = np.full((parts, len(lags)), 4)
    windows[0, -1] = 0  # no local windows of the longest lag near the beginning
    found = LocalWalks(
        means=np.full((parts, 1, len(lags)), 0.25),
        squares=np.full((parts, 1, len(lags)), 0.0625 + long**2),
        deviations=windows[:, None] * long**0.9 * noise,
        windows=windows,
    )
    (walk,) = summarise_local(["10"], lags, found)
    assert walk.density == 0.25
    assert walk.around_mean == pytest.approx(long**2)
    assert walk.mean_exponent == pytest.approx(2)
    value, low, high = walk.trend_exponent
    assert value == pytest.approx(0.9, abs=0.02)
    assert low is not None and high is not None
    assert 0.85 < low < 0.9 < high < 0.95
    first = walk.around_trend[0]
    assert first.value == pytest.approx(noise[:, 0, 0].mean())
    assert not walk.superdiffusive


def test_the_words_follow_from_the_numbers() -> None:
    result = committed("walks")
    assert "From 1e10, 0 of 4 words become" in study.caption(result)
    (verdict,) = study.verdicts(result)
    assert "0 of 4 words stay superdiffusive. So the crossover comes from" in verdict.why
    changes = {
        "stretches.1.crossing": 4,
        "local.0.trend_exponent": Estimate(1.5, 1.25, 1.7),
        "local.1.trend_exponent": Estimate(1.5, 1.15, 1.9),  # may be below 1.2
    }
    other = edited(result, changes)
    assert "From 1e10, 4 of 4 words become" in study.caption(other)
    (verdict,) = study.verdicts(other)
    assert verdict.why.endswith("1 of 4 words stay superdiffusive.")
    draw("walks", other)
