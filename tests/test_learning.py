"""Tests of evaluation/learning.py: smoothed loss curves and their plateaus."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arithmetext.evaluation.estimates import UNKNOWN, above
from arithmetext.evaluation.learning import (
    NO_PLATEAU,
    LossCurve,
    _leaves_band,
    end_ratio,
    largest_difference,
    length_ratio,
    loss_curve,
    plateau_length,
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
    assert found.begin < found.slowest < found.end < found.steepest
    assert math.isclose(found.steepest, 400, rel_tol=0.1)
    assert math.isclose(found.loss, 4.0, rel_tol=0.01)
    assert found.earlier_pauses == ()


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


def test_where_the_final_level_begins() -> None:
    found = loss_curve(curve((5, 1.0), (400, 1.5), steps=150))
    assert 5 < found.final_from < 20 and math.isclose(found.losses[-1], 4.0, rel_tol=0.01)
    found = loss_curve(curve((5, 1.0), (400, 1.5)))
    assert 400 < found.final_from < 1500 and math.isclose(found.losses[-1], 2.5, rel_tol=0.01)


def test_a_small_fall_is_no_descent() -> None:
    assert loss_curve(curve((5, 1.0), (400, 0.1))).plateau is None


def test_the_last_of_several_pauses_counts() -> None:
    found = loss_curve(curve((3, 0.8), (40, 0.8), (900, 0.8))).plateau
    assert found is not None
    assert 40 < found.slowest < 900
    assert len(found.earlier_pauses) == 1 and 3 < found.earlier_pauses[0] < 40


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
    found = loss_curve([(step, 5 - 0.3 * math.log(step)) for step in range(1, 200)])
    assert np.allclose(found.speeds, 0.3)
    assert np.allclose(found.losses, 5 - 0.3 * np.log(found.steps))


def test_losses_between_the_steps_of_a_curve() -> None:
    found = loss_curve([(step, 5 - 0.3 * math.log(step)) for step in (1, 2, 4, 8, 16, 32)])
    assert math.isclose(found.loss_at(4), 5 - 0.3 * math.log(4))
    assert math.isclose(found.loss_at(11), 5 - 0.3 * math.log(11))
    assert math.isclose(found.loss_at(100), found.losses[-1])


def falling(*steps: int) -> LossCurve:
    """A loss that falls by 1.2 around each of these steps."""
    return loss_curve(curve(*((step, 1.2) for step in steps)))


def test_a_plateau_between_two_falls() -> None:
    found = plateau_length(falling(5, 300), falling(5, 300))
    assert found.ended and 5 < found.ratio < 60


def test_a_plateau_at_the_end_counts_if_another_run_gets_below_it() -> None:
    found = plateau_length(falling(5), falling(5, 300))
    assert not found.ended and found.ratio > 100
    assert plateau_length(falling(5), falling(5)) == NO_PLATEAU


def test_without_another_run_a_plateau_at_the_end_counts_if_it_is_the_only_one() -> None:
    assert plateau_length(falling(5, 100)).ended
    assert not plateau_length(falling(5)).ended


def test_the_longer_of_two_plateaus_counts() -> None:
    """The run pauses between its falls, and rests at its end, where another run goes on."""
    early = falling(5, 20)
    assert early.plateau is not None
    lasting = plateau_length(early, falling(5, 20, 300))
    assert not lasting.ended
    assert lasting.ratio > early.plateau.end / early.plateau.begin


@pytest.mark.parametrize(
    ("masked", "trained", "causal", "longer"),
    [
        ((5, 100), (5, 100), (5, 50), True),
        ((5, 100), (5, 100), (5, 100), False),
        ((5, 100), (5, 100), (5, 150), False),
        ((5, 100), (5, 300), (5, 150), False),
        ((50,), (50,), (5, 50), False),
        ((5,), (5,), (5, 50), False),
        ((5,), (5, 300), (5, 150), True),
        ((900,), (5, 100), (5, 100), False),
        ((5, 300), (5, 300), (50,), False),
        ((5, 300), (5, 300), (2000,), True),
    ],
)
def test_which_task_has_the_longer_plateau(
    masked: tuple[int, ...], trained: tuple[int, ...], causal: tuple[int, ...], longer: bool
) -> None:
    """Each curve falls around the given steps."""
    ours = plateau_length(falling(*masked), falling(*trained))
    assert (ours.ratio > plateau_length(falling(*causal)).ratio) == longer


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
    found = length_ratio(longer, shorter)
    assert found.value is not None and 5 < found.value < 20
    assert end_ratio(longer, shorter).value == pytest.approx(1, rel=0.1)


def test_a_run_that_never_leaves_its_plateau_does_not_count() -> None:
    learned, stuck = falling(5, 300), falling(5)
    for compare in (end_ratio, length_ratio):
        assert compare([learned, stuck], [learned, learned]) == UNKNOWN
        assert compare([learned, learned], [learned, stuck]) == UNKNOWN


def test_how_far_a_control_is_from_a_run() -> None:
    run, control = falling(5, 300), falling(5)
    assert run.plateau is not None
    assert largest_difference(control, run, run.plateau.slowest) < 0.01
    assert largest_difference(control, run, 4000) == pytest.approx(1.2 / 2.6, rel=0.05)
    assert largest_difference(run, control, 4000) == pytest.approx(1.2 / 3.8, rel=0.05)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=3000), st.integers(1, 300))
def test_thinning_keeps_the_mean(values: list[float], points: int) -> None:
    borders = sorted({round((len(values) + 1) ** (k / points)) for k in range(points + 1)})
    thin = thinned(values, points)
    weights = np.diff(borders)
    assert len(thin) == len(weights) <= points
    total = sum(mean * weight for (_, mean), weight in zip(thin, weights, strict=True))
    assert math.isclose(total, sum(values), rel_tol=1e-9, abs_tol=1e-6)
    assert all(1 <= step <= len(values) for step, _ in thin)
