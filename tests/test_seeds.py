"""Results of models with different seeds, taken together."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pytest
from scipy.stats import t

from arithmetext.evaluation.estimates import UNKNOWN, Estimate
from arithmetext.evaluation.seeds import averaged, over_seeds


def test_the_mean_over_seeds_keeps_the_interval_over_prompts_and_adds_the_spread() -> None:
    one = Estimate(0.8, 0.7, 0.85)
    assert over_seeds([one]) == one
    np.testing.assert_allclose(over_seeds([one, one, one]), one)
    value, low, high = over_seeds([Estimate(0.6, 0.55, 0.65), Estimate(0.8, 0.75, 0.85)])
    spread = t.ppf(0.975, 1) * 0.1  # two values, each 0.1 from their mean
    assert (value, low, high) == pytest.approx(
        (0.7, 0.7 - math.hypot(0.05, spread), 0.7 + math.hypot(0.05, spread))
    )
    wide = over_seeds([Estimate(0.6, 0.55, 0.65), Estimate(0.8, 0.75, 0.85)], 0, 1)
    assert wide == (pytest.approx(0.7), 0, 1)
    assert over_seeds([one, Estimate(None, None, None)]) == (None, None, None)


@dataclass(frozen=True)
class Inner:
    layer: int
    r2: tuple[Estimate, ...]


@dataclass(frozen=True)
class Outer:
    name: str
    share: float
    inner: dict[str, list[Inner]]
    missing: Inner | None


def outer(value: float, *, layer: int = 3) -> Outer:
    estimate = Estimate(value, value - 0.1, value + 0.1)
    return Outer("n mod 5", value, {"first": [Inner(layer, (estimate, UNKNOWN))]}, None)


def test_every_estimate_and_number_is_averaged() -> None:
    one, other = outer(0.5), outer(0.7)
    assert averaged([one]) is one
    found = averaged([one, other])
    [inner] = found.inner["first"]
    [before], [after] = one.inner["first"], other.inner["first"]
    assert (found.name, found.share, found.missing) == ("n mod 5", pytest.approx(0.6), None)
    assert inner.layer == 3 and isinstance(inner.r2, tuple)
    assert inner.r2 == (over_seeds([before.r2[0], after.r2[0]]), UNKNOWN)


def test_results_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be averaged"):
        averaged([outer(0.5), outer(0.5, layer=4)])
    for unlike in [[1.0, 2.0], [1.0]], [{"a": 1.0}, {"a": 1.0, "b": 2.0}]:
        with pytest.raises(ValueError):
            averaged(unlike)


def test_named_tuples_stay_what_they_are() -> None:
    class Pair(NamedTuple):
        first: float
        second: int

    assert averaged([Pair(1.0, 2), Pair(2.0, 2)]) == Pair(1.5, 2)
