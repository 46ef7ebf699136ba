"""Figures with their intervals."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest, gmean, norm, t, ttest_1samp, ttest_ind

from arithmetext.evaluation.estimates import (
    FEW,
    UNKNOWN,
    Estimate,
    bootstrap,
    format_estimate,
    mean_and_error,
    over_prompts,
    over_seeds_and_blocks,
    overlaps,
    rate,
    ratio,
    ratio_of_geometric_means,
    ratio_over_blocks,
    share,
    share_of,
    statistic_over_blocks,
    t_quantile,
    wilson,
    with_seed_spread,
    within,
)
from arithmetext.evaluation.separation import overlap


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_shares_as_scipy_has_them(counts: tuple[int, int]) -> None:
    some, n = counts
    theirs = binomtest(some, n).proportion_ci(method="wilson")
    ours = wilson(some, n)
    assert np.allclose(ours, (some / n, theirs.low, theirs.high), atol=1e-9)
    assert share(np.arange(n) < some) == ours


@given(st.integers(0, 1000))
def test_a_rate_of_one_seed_is_a_ratio_over_prompts(seed: int) -> None:
    """If enough prompts have hits and misses; otherwise it covers Wilson's, too."""
    random = np.random.default_rng(seed)
    among = random.integers(1, 9, (1, 24))
    hits = random.binomial(among, random.choice([0.1, 0.5]))
    over_prompts, places = ratio(hits[0], among[0]), wilson(hits.sum(), among.sum())
    found = rate(hits, among)
    if min(np.count_nonzero(hits), np.count_nonzero(among - hits)) >= FEW:
        assert found == over_prompts
    else:
        assert found.value == over_prompts.value
        assert found.low == min(over_prompts.low or 0, places.low or 0)
        assert found.high == max(over_prompts.high or 0, places.high or 0)


@pytest.mark.parametrize("alike", [False, True])
@pytest.mark.parametrize(("mean", "share"), [(0.05, 0.02), (5, 0.02), (5, 0.3)])
def test_intervals_of_rates_hold_the_truth(alike: bool, mean: float, share: float) -> None:
    """Of five seeds that err alike or independently; they have the same prompts and places."""
    random = np.random.default_rng(0)
    held = []
    for _ in range(200):
        places = random.poisson(mean, 160)
        if places.any():
            among = np.repeat(places[None], 5, 0)
            hits = random.binomial(among[:1] if alike else among, share)
            held.append(overlaps(rate(np.broadcast_to(hits, among.shape), among), share, share))
    assert np.mean(held) >= 0.93


def test_a_rate_of_several_seeds_is_wider_by_their_spread() -> None:
    among = np.full((3, 40), 10)
    hits = np.random.default_rng(0).binomial(among, np.array([[0.45], [0.5], [0.55]]))
    found, one = rate(hits, among), rate(hits.sum(0)[None], among.sum(0)[None])
    assert found.value == one.value
    assert found == with_seed_spread(one, (hits.sum(1) / 400).tolist())
    assert found.low < one.low and found.high > one.high


def test_a_rate_of_none_or_all_has_an_interval_and_stays_a_share() -> None:
    among = np.full((2, 5), 4)
    # The seeds have the same prompts, so twice as many places are no more evidence.
    assert rate(0 * among, among) == wilson(0, 20)
    assert rate(among, among) == wilson(20, 20)
    assert rate(0 * among, 0 * among) == UNKNOWN
    far = rate(np.array([[4] * 5, [0] * 5]), among)  # the spread over two seeds is vast
    assert far == (0.5, 0.0, 1.0)


def test_a_rate_of_a_rare_word_has_an_interval() -> None:
    """All its places are in one prompt, so the bootstrap over prompts has no width."""
    hits, among = np.array([[1, 0, 0, 0]]), np.array([[2, 0, 0, 0]])
    assert ratio(hits[0], among[0]) == (0.5, 0.5, 0.5)
    assert rate(hits, among) == wilson(1, 2)


def test_the_interval_of_an_overlap_holds_the_truth() -> None:
    """Both the overlap of two samples and that of their resamples are too low."""
    random, held = np.random.default_rng(0), []
    for _ in range(30):  # moved by the bias once, less than half of the intervals hold it
        samples = random.normal(size=40), random.normal(0.2, 1, 40)
        held.append(overlaps(bootstrap(overlap, *samples), 0.92034, 0.92034))  # 2 Φ(−0.1)
    assert np.mean(held) >= 0.6


def test_a_bootstrap_contains_its_value() -> None:
    """Resamples of two equal samples differ more than the samples do."""
    for seed in range(20):
        a, b = np.random.default_rng(seed).normal(size=(2, 200))
        value, low, high = bootstrap(overlap, a, b)
        assert low is not None and value is not None and high is not None
        assert low <= value == overlap(a, b) <= high


def test_nothing_to_divide_by() -> None:
    assert wilson(0, 0) == UNKNOWN
    assert bootstrap(np.mean, np.array([])) == UNKNOWN
    assert not overlaps(UNKNOWN, 0, 1)
    assert not within(UNKNOWN, 0, 1)
    assert format_estimate(UNKNOWN) == "not known"


def test_a_bootstrap_of_means_is_as_wide_as_their_error() -> None:
    values = np.random.default_rng(1).normal(3, 2, 400)
    found = bootstrap(np.mean, values)
    assert found.value == values.mean()
    assert found.low is not None and found.high is not None
    assert math.isclose(found.high - found.low, 2 * 1.96 * values.std() / 20, rel_tol=0.1)


def test_the_standard_error_of_a_mean() -> None:
    assert mean_and_error(np.array([1.0, 2.0, 3.0, 4.0])) == (2.5, math.sqrt(5 / 3 / 4))


def test_ratios_have_intervals_of_95_percent() -> None:
    """As wide as large samples make them: 2 · 1.96 standard errors, by the delta method.

    A thousand draws give a width to 3 %, so many widths are averaged. Intervals of 90 % would have
    0.84 of it, those of 94 % 0.96.
    """
    random = np.random.default_rng(2)
    means, shares = [], []
    for n in range(200, 500, 10):  # prompts are drawn anew for every number of them
        below = random.integers(5, 20, n)
        above = random.binomial(below, 0.4)
        for found, widths, weights in (
            (ratio(above), means, np.ones(n)),
            (ratio(above, below), shares, below),
        ):
            value = above.sum() / weights.sum()
            error = np.sqrt(((above - value * weights) ** 2).sum()) / weights.sum()
            assert found.value == value
            assert found.low is not None and found.high is not None
            assert found.low < value < found.high
            widths.append((found.high - found.low) / (2 * norm.ppf(0.975) * error))
    assert math.isclose(np.mean(means), 1, abs_tol=0.03)
    assert math.isclose(np.mean(shares), 1, abs_tol=0.03)


def test_samples_are_drawn_on_their_own() -> None:
    values = np.random.default_rng(1).normal(0, 1, 200)
    # Of the same values twice the difference is 0, but not sure to be.
    found = bootstrap(lambda a, b: a.mean() - b.mean(), values, values)
    assert found.value == 0
    assert found.low is not None and found.low < -0.1


def test_ranges() -> None:
    known = Estimate(0.3, 0.2, 0.4)
    assert overlaps(known, 0.4, 0.5) and overlaps(known, 0.1, 0.2) and overlaps(known, 0.25, 0.3)
    assert not overlaps(known, 0.41, 0.5) and not overlaps(known, 0, 0.19)
    assert within(known, 0.2, 0.4)
    assert not within(known, 0.21, 0.4) and not within(known, 0.2, 0.39)
    assert format_estimate(known) == "0.300 [0.200, 0.400]"
    assert format_estimate(known, 1) == "0.3 [0.2, 0.4]"


def test_a_share_lies_within_its_interval() -> None:
    for n in range(1, 200):
        for hits in range(n + 1):
            value, low, high = wilson(hits, n)
            assert 0 <= low <= value <= high <= 1


def test_quantiles_of_student_as_scipy_has_them() -> None:
    for freedom in (1, 2, 3, 9, 30, 200):
        assert math.isclose(t_quantile(freedom), t.ppf(0.975, freedom), rel_tol=1e-4)


def test_one_seed_has_the_interval_of_its_blocks() -> None:
    values = np.random.default_rng(0).random((1, 40))
    by_block = np.array([values[0, k::10].mean() for k in range(10)])
    theirs = ttest_1samp(by_block, 0).confidence_interval()
    assert np.allclose(
        over_seeds_and_blocks(values, 10), (values.mean(), theirs.low, theirs.high), atol=1e-4
    )
    assert with_seed_spread(Estimate(0.5, 0.4, 0.7), [0.5]) == Estimate(0.5, 0.4, 0.7)
    assert with_seed_spread(UNKNOWN, [1, 2]) == UNKNOWN


def test_seeds_that_differ_widen_an_interval() -> None:
    values = np.random.default_rng(0).random((3, 40))
    narrow = over_seeds_and_blocks(values[:1].repeat(3, 0), 10)
    assert np.allclose(narrow, over_seeds_and_blocks(values[:1], 10))
    shifted = over_seeds_and_blocks(np.add(values[:1], [[-0.1], [0.0], [0.1]]), 10)
    half = t_quantile(2) * 0.1 / math.sqrt(3)
    assert narrow.high is not None and narrow.value is not None and shifted.high is not None
    assert math.isclose(shifted.high - narrow.value, math.hypot(narrow.high - narrow.value, half))


def test_intervals_over_seeds_and_blocks_hold_the_truth_as_often_as_they_say() -> None:
    """Normal effects of seeds and of blocks: 400 experiments, within four standard errors of 95 %.

    Two t intervals in quadrature are a little too wide, never too narrow.
    """
    random, held = np.random.default_rng(0), 0
    for _ in range(400):
        seeds, blocks = random.normal(size=(3, 1)), random.normal(size=(1, 10))
        prompts = 0.3 * random.normal(size=(3, 50))
        estimate = over_seeds_and_blocks(seeds + np.tile(blocks, 5) + prompts, 10)
        assert estimate.low is not None and estimate.high is not None
        held += estimate.low <= 0 <= estimate.high
    assert held >= 400 * 0.95 - 4 * math.sqrt(400 * 0.95 * 0.05)


def test_prompts_without_a_value_are_left_out() -> None:
    values = np.array([[0.2, 0.4, math.nan, 0.6], [0.2, 0.4, 0.2, math.nan]])
    estimate = over_seeds_and_blocks(values, 2)
    assert estimate.value is not None
    assert math.isclose(estimate.value, ((0.2 + 0.2 + 0.2) / 3 + (0.4 + 0.4 + 0.6) / 3) / 2)
    for missing in (0, slice(None)), (slice(None), [0, 2]):  # a seed, a block
        without = values.copy()
        without[missing] = math.nan
        assert over_seeds_and_blocks(without, 2) == UNKNOWN


steps = st.lists(st.floats(1, 1e6), min_size=1, max_size=5)


@given(steps, steps)
@pytest.mark.filterwarnings("ignore:Precision loss")  # equal numbers
def test_a_ratio_of_geometric_means_is_scipys_t_interval(
    one: list[float], two: list[float]
) -> None:
    found = ratio_of_geometric_means(one, two)
    if len(one) == len(two) == 1:
        assert found == Estimate(found.value, 0.0, math.inf)
    else:
        theirs = ttest_ind(np.log(one), np.log(two)).confidence_interval(0.95)
        assert found.low is not None and found.high is not None
        low, high = np.log(found.low), np.log(found.high)
        assert np.allclose((low, high), (theirs.low, theirs.high), rtol=1e-5, atol=1e-5)
    assert found.value is not None
    assert math.isclose(found.value, gmean(one) / gmean(two))


def shares(counts: np.ndarray) -> np.ndarray:
    return share_of(counts[..., 0], counts[..., 1])


def counts_of(seeds: int, chance: float, seed: int) -> np.ndarray:
    """Hits among ten, [seeds, 40 prompts, 2]."""
    hits = np.random.default_rng(seed).binomial(10, chance, (seeds, 40))
    return np.stack([hits, np.full_like(hits, 10)], -1)


def test_a_share_over_prompts_is_a_rate() -> None:
    counts = counts_of(3, 0.4, 1)
    expected = rate(counts[..., 0], counts[..., 1])
    # The resamples are moved to have the value as their mean.
    assert over_prompts(shares, counts) == pytest.approx(expected, abs=2e-3)


def test_a_difference_over_prompts_is_paired_and_has_the_spread_of_both_models() -> None:
    one, two = counts_of(3, 0.4, 1), counts_of(2, 0.4, 2)
    found = over_prompts(lambda a, b: shares(a) - shares(b), one, two)
    by_prompt = (one.mean(0) - two.mean(0))[:, 0] / 10
    spread = with_seed_spread(ratio(by_prompt), shares(one.sum(1)).tolist())
    assert found == pytest.approx(with_seed_spread(spread, shares(two.sum(1)).tolist()), abs=2e-3)
    nothing = over_prompts(lambda a, b: shares(a) - shares(b), one, one)
    assert nothing.value == 0


def test_a_share_of_nothing_is_unknown() -> None:
    assert over_prompts(shares, np.zeros((2, 5, 2))) == UNKNOWN


def test_the_interval_of_a_maximum_is_not_moved_up() -> None:
    """The maximum of ten equal chances is too high in every resample."""
    counts = np.random.default_rng(0).binomial(10, 0.5, (1, 40, 10))
    found = over_prompts(lambda sums: sums.max(-1) / 400, counts)
    weights = np.random.default_rng(0)
    assert found.low < found.value < found.high
    chosen = weights.integers(0, 40, (500, 40))
    drawn = counts[0][chosen].sum(1).max(-1) / 400
    assert drawn.mean() > found.value
    assert found.high - found.low == pytest.approx(
        np.ptp(np.quantile(drawn, [0.025, 0.975])), rel=0.3
    )


@given(st.integers(0, 2**32 - 1), st.integers(1, 3), st.integers(2, 6))
def test_a_mean_has_the_same_interval_as_a_statistic(seed: int, seeds: int, blocks: int) -> None:
    """The jackknife of a mean is Student's interval over blocks."""
    values = np.random.default_rng(seed).normal(size=(seeds, 3 * blocks))
    expected = over_seeds_and_blocks(values, blocks)
    assert statistic_over_blocks(np.mean, [values], blocks) == pytest.approx(expected)
    weights = np.full_like(values, 2.0)
    assert ratio_over_blocks(2 * values, weights, blocks) == pytest.approx(expected)


def test_the_interval_of_a_ratio_holds_for_other_text() -> None:
    """Blocks have levels of their own; 95 % of the intervals must contain the ratio of all text."""
    random = np.random.default_rng(0)
    held = 0
    for _ in range(400):
        weights = random.uniform(1, 3, (1, 160))
        levels = np.tile(random.normal(0.4, 0.05, 10), 16)
        _, low, high = ratio_over_blocks(weights * levels, weights, 10)
        held += low <= 0.4 <= high
    assert 0.92 < held / 400 < 0.98


def test_a_ratio_without_a_denominator_is_unknown() -> None:
    assert ratio_over_blocks([[0, 0]], [[0, 0]], 2) == UNKNOWN
    assert ratio_over_blocks([[1, 0]], [[1, 0]], 2) == UNKNOWN  # nothing without the first block
