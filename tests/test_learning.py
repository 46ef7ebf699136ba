"""Tests of evaluation/learning.py: smoothed loss curves and their plateaus."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arithmetext.evaluation.estimates import UNKNOWN, above
from arithmetext.evaluation.learning import (
    LossCurve,
    _leaves_band,
    _smoothed,
    end_ratio,
    length_ratios,
    loss_curve,
)
from arithmetext.training.run_cache import thinned


def curve(*falls: tuple[float, float], start: float = 5.0, steps: int = 4000, noise: float = 0.0):
    """A loss that falls by `depth` around the step `where`, for each (where, depth) in `falls`."""
    x = np.log(np.arange(1, steps + 1))
    losses = start - sum(depth / (1 + np.exp(-6 * (x - math.log(where)))) for where, depth in falls)
    losses = losses + noise * np.random.default_rng(0).standard_normal(steps)
    return thinned(losses.tolist())


def test_a_plateau_lies_between_two_falls() -> None:
    found = loss_curve(curve((5, 1.0), (400, 1.5))).plateau
    assert found is not None
    assert 12 < found.slowest < 170
    assert found.begin < found.slowest < found.end < 400
    assert math.isclose(found.loss, 4.0, rel_tol=0.01)


@given(st.floats(0.02, 3), st.sampled_from([1, -1]))
def test_the_end_of_a_plateau_is_interpolated(speed: float, sign: int) -> None:
    """A straight line leaves the band of 3 % at a step that is known, between two points."""
    x = np.arange(0, 7, 0.1)
    known = math.exp(min(x[-1], 0.03 * 4 / speed))
    assert math.isclose(_leaves_band(np.exp(x), 4 + sign * speed * x), known, rel_tol=1e-9)


def test_noise_hardly_moves_the_plateau() -> None:
    quiet, noisy = (
        loss_curve(curve((5, 1.0), (400, 1.5), noise=noise)).plateau for noise in (0, 0.02)
    )
    assert quiet is not None and noisy is not None
    assert math.isclose(quiet.end, noisy.end, rel_tol=0.2)


def test_one_fall_has_no_plateau() -> None:
    assert loss_curve(curve((50, 2.0))).plateau is None


def test_a_run_that_ends_on_the_plateau_has_found_none() -> None:
    assert loss_curve(curve((5, 1.0), (400, 1.5), steps=150)).plateau is None


def test_a_pause_above_the_lowest_loss_without_attention_is_not_the_plateau() -> None:
    """The run pauses at 4.0 and ends at 2.5; a plateau at 2.5 or below would not have ended."""
    known = curve((5, 1.0), (400, 1.5))
    assert loss_curve(known, lowest=4.0) == loss_curve(known)
    for lowest in (2.6, 2.0):
        assert loss_curve(known, lowest).plateau is None


def test_a_small_fall_is_no_descent() -> None:
    assert loss_curve(curve((5, 1.0), (400, 0.1))).plateau is None


def test_the_last_of_several_pauses_counts() -> None:
    found = loss_curve(curve((3, 0.8), (40, 0.8), (900, 0.8))).plateau
    assert found is not None
    assert 40 < found.slowest < 900


@given(st.floats(0.01, 100))
def test_the_unit_of_the_loss_does_not_matter(unit: float) -> None:
    known = curve((5, 1.0), (400, 1.5))
    one = loss_curve(known).plateau
    two = loss_curve([(step, unit * loss) for step, loss in known]).plateau
    assert one is not None and two is not None
    assert one.slowest == two.slowest
    assert (two.begin, two.end) == pytest.approx((one.begin, one.end))
    assert math.isclose(one.loss * unit, two.loss)


def test_a_straight_line_has_one_speed() -> None:
    steps = np.arange(1.0, 200)
    losses, speeds = _smoothed(steps, 5 - 0.3 * np.log(steps))
    assert np.allclose(speeds, 0.3)
    assert np.allclose(losses, 5 - 0.3 * np.log(steps))


def test_losses_between_the_steps_of_a_curve() -> None:
    found = loss_curve([(step, 5 - 0.3 * math.log(step)) for step in (1, 2, 4, 8, 16, 32)])
    assert math.isclose(found.loss_at(4), 5 - 0.3 * math.log(4))
    assert math.isclose(found.loss_at(11), 5 - 0.3 * math.log(11))
    assert math.isclose(found.loss_at(100), found.losses[-1])


def falling(*steps: int) -> LossCurve:
    """A loss that falls by 1.2 around each of these steps."""
    return loss_curve(curve(*((step, 1.2) for step in steps)))


def test_plateaus_that_end_later_over_seeds() -> None:
    early, late = [falling(5, step) for step in (98, 100, 103)], [falling(5, 300)] * 3
    later = end_ratio(late, early)
    assert later.value == pytest.approx(3, rel=0.05) and above(later, 1)
    assert later.low is not None and later.high is not None
    assert later.low < later.value < later.high
    back = end_ratio(early, late)
    assert back.value == pytest.approx(1 / later.value) and back.high == pytest.approx(
        1 / later.low
    )
    one = end_ratio(late[:1], early[:1])
    assert one.value == pytest.approx(3, rel=0.1) and (one.low, one.high) == (0, math.inf)


def test_longer_plateaus_over_seeds() -> None:
    """Both end at the same step; one of them begins earlier."""
    longer, shorter = [falling(2, 300)] * 2, [falling(20, 300)] * 2
    logarithmic, linear = length_ratios(longer, shorter)
    assert logarithmic.value is not None and 5 < logarithmic.value < 20
    assert linear.value is not None and 1 < linear.value < 2
    assert end_ratio(longer, shorter).value == pytest.approx(1, rel=0.1)


def test_a_run_that_never_leaves_its_plateau_does_not_count() -> None:
    learned, stuck = falling(5, 300), falling(5)
    for some, others in (
        ([learned, stuck], [learned, learned]),
        ([learned, learned], [learned, stuck]),
    ):
        assert end_ratio(some, others) == UNKNOWN
        assert length_ratios(some, others) == (UNKNOWN, UNKNOWN)


def test_a_run_that_ends_on_its_plateau_gives_a_lower_bound() -> None:
    """The plateaus of `early` end near step 85; the runs of `stuck` have 4,000 steps."""
    early = [falling(5, step) for step in (98, 100, 103)]
    stuck = [loss_curve(curve((5, 1.2)), lowest=3.8)] * 3
    assert stuck[0].plateau is None and stuck[0].ends_on_plateau
    ends = [run.plateau.end for run in early if run.plateau]
    found = end_ratio(stuck, early)
    assert found.value == pytest.approx(stuck[0].steps[-1] / np.exp(np.log(ends).mean()))
    assert found.high == math.inf
    # Student's t with two degrees of freedom, of one number and a mean of three.
    error = np.log(ends).std(ddof=1) * math.sqrt(1 + 1 / 3)
    assert found.low == pytest.approx(found.value * math.exp(-4.30265 * error), rel=1e-4)
    assert end_ratio(stuck, early, early).low > found.low  # more is known about the spread
    assert end_ratio(early, stuck) == UNKNOWN
    assert end_ratio([*stuck, falling(5)], early) == UNKNOWN  # the last has not come down so far


def test_other_runs_tell_how_much_seeds_differ() -> None:
    """One run of each kind gives no interval; further runs give it, if they left their plateau."""
    late, early = [falling(5, 300)], [falling(5, 150)]
    alike = [falling(5, step) for step in (98, 100, 103)]
    later = end_ratio(late, early, alike, [falling(5)])
    assert later == end_ratio(late, early, alike)
    assert later.value == end_ratio(late, early).value and above(later, 1)
    shifted = [falling(10, 2 * step) for step in (98, 100, 103)]
    assert end_ratio(late, early, alike, shifted).low > (later.low or 0)  # more is known


def test_since_when_a_loss_is_settled() -> None:
    """A curve that stays on its plateau has it since the step where it would begin."""
    run, control = falling(5, 300), falling(5)
    assert run.plateau is not None
    middle = run.plateau.slowest
    assert run.settled_by(middle) == pytest.approx(run.plateau.begin)
    assert control.settled_by(middle) == pytest.approx(run.plateau.begin, rel=0.02)
    assert falling(10).settled_by(middle) == pytest.approx(2 * run.plateau.begin, rel=0.05)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=3000), st.integers(1, 300))
def test_thinning_keeps_the_mean(values: list[float], points: int) -> None:
    borders = sorted({round((len(values) + 1) ** (k / points)) for k in range(points + 1)})
    thin = thinned(values, points)
    weights = np.diff(borders)
    assert len(thin) == len(weights) <= points
    total = sum(mean * weight for (_, mean), weight in zip(thin, weights, strict=True))
    assert math.isclose(total, sum(values), rel_tol=1e-9, abs_tol=1e-6)
    assert all(1 <= step <= len(values) for step, _ in thin)
