"""Loss curves: where they have a plateau."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from arithmetext.evaluation.learning import plateau, rest, smoothed
from arithmetext.training.run_cache import thinned


def curve(*falls: tuple[float, float], start: float = 5.0, steps: int = 4000, noise: float = 0.0):
    """The record of a run whose loss falls by given amounts around given steps."""
    x = np.log(np.arange(1, steps + 1))
    losses = start - sum(depth / (1 + np.exp(-6 * (x - math.log(where)))) for where, depth in falls)
    losses = losses + noise * np.random.default_rng(0).standard_normal(steps)
    return {"training": thinned(losses.tolist())}


def test_a_plateau_lies_between_two_descents() -> None:
    found = plateau(curve((5, 1.0), (400, 1.5)))
    assert found is not None
    assert 12 < found.slowest < 170
    assert found.begin < found.slowest < found.end < found.steepest
    assert math.isclose(found.steepest, 400, rel_tol=0.1)
    assert math.isclose(found.loss, 4.0, rel_tol=0.01)
    assert found.others == ()


def test_noise_changes_little() -> None:
    quiet, noisy = (plateau(curve((5, 1.0), (400, 1.5), noise=each)) for each in (0, 0.02))
    assert quiet is not None and noisy is not None
    assert math.isclose(quiet.end, noisy.end, rel_tol=0.2)


def test_a_single_descent_has_no_plateau() -> None:
    assert plateau(curve((50, 2.0))) is None


def test_a_run_that_ends_on_its_plateau_has_no_plateau() -> None:
    assert plateau(curve((5, 1.0), (400, 1.5), steps=150)) is None


def test_the_final_level_of_a_run() -> None:
    begin, loss = rest(curve((5, 1.0), (400, 1.5), steps=150))
    assert 5 < begin < 20 and math.isclose(loss, 4.0, rel_tol=0.01)
    begin, loss = rest(curve((5, 1.0), (400, 1.5)))
    assert 400 < begin < 1500 and math.isclose(loss, 2.5, rel_tol=0.01)


def test_a_small_fall_is_no_descent() -> None:
    assert plateau(curve((5, 1.0), (400, 0.1))) is None


def test_the_last_of_several_plateaus_counts() -> None:
    found = plateau(curve((3, 0.8), (40, 0.8), (900, 0.8)))
    assert found is not None
    assert 40 < found.slowest < 900
    assert len(found.others) == 1 and 3 < found.others[0] < 40


@given(st.floats(0.01, 100))
def test_the_unit_of_the_loss_does_not_matter(unit: float) -> None:
    known = curve((5, 1.0), (400, 1.5))
    other = {"training": [(step, unit * loss) for step, loss in known["training"]]}
    one, two = plateau(known), plateau(other)
    assert one is not None and two is not None
    assert (one.begin, one.slowest, one.end) == (two.begin, two.slowest, two.end)
    assert math.isclose(one.loss * unit, two.loss)


def test_a_straight_line_has_constant_speed() -> None:
    steps, losses, speeds = smoothed(
        {"training": [(step, 5 - 0.3 * math.log(step)) for step in range(1, 200)]}
    )
    assert np.allclose(speeds, 0.3)
    assert np.allclose(losses, 5 - 0.3 * np.log(steps))


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=3000), st.integers(1, 300))
def test_thinning_keeps_the_mean(values: list[float], points: int) -> None:
    borders = sorted({round((len(values) + 1) ** (k / points)) for k in range(points + 1)})
    thin = thinned(values, points)
    weights = np.diff(borders)
    assert len(thin) == len(weights) <= points
    total = sum(mean * weight for (_, mean), weight in zip(thin, weights, strict=True))
    assert math.isclose(total, sum(values), rel_tol=1e-9, abs_tol=1e-6)
    assert all(1 <= step <= len(values) for step, _ in thin)
