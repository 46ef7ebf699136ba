"""Results of models with different seeds, measured on the same text, taken together."""

from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from math import inf
from typing import Any, TypeVar, cast

import numpy as np

from .estimates import UNKNOWN, Estimate, with_seed_spread

T = TypeVar("T")


def over_seeds(
    estimates: Sequence[Estimate], least: float = -inf, greatest: float = inf
) -> Estimate:
    """The mean over models that were trained with different seeds and measured on the same prompts.

    Prompts count once, however many seeds there are: the interval is the mean interval, widened by
    the spread over seeds. Its ends are kept between `least` and `greatest`, such as 0 and 1.
    """
    if UNKNOWN in estimates:
        return UNKNOWN
    mean_estimate = Estimate(*np.array(estimates, np.float64).mean(0).tolist())
    value, low, high = with_seed_spread(mean_estimate, [each.value or 0.0 for each in estimates])
    assert low is not None and high is not None
    return Estimate(value, max(least, low), min(greatest, high))


def averaged(results: Sequence[T]) -> T:
    """The same result of several models with every estimate and every number averaged.

    Results are dataclasses, lists, tuples and dicts of these. Estimates are averaged by
    `over_seeds`. What is neither an estimate nor a float must be equal for all models, and so must
    the keys of dicts.

    >>> averaged([{"layer 1": 0.25, "moduli": (2, 3)}, {"layer 1": 0.75, "moduli": (2, 3)}])
    {'layer 1': 0.5, 'moduli': (2, 3)}
    """
    return cast(T, _averaged(results))


def _averaged(results: Sequence[Any]) -> Any:
    first = results[0]
    if len(results) == 1:
        return first
    if isinstance(first, Estimate):
        return over_seeds(results)
    if isinstance(first, float):
        return float(np.mean(results))
    if is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in fields(first)]
        return replace(
            first, **{n: _averaged([getattr(each, n) for each in results]) for n in names}
        )
    if isinstance(first, dict) and all(each.keys() == first.keys() for each in results):
        return {key: _averaged([each[key] for each in results]) for key in first}
    if isinstance(first, list | tuple):
        items = map(_averaged, zip(*results, strict=True))
        return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)
    if any(each != first for each in results):
        raise ValueError(f"models differ in what cannot be averaged: {results}")
    return first
