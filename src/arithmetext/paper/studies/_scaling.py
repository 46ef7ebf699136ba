"""What the scaling study finds: scores of the models of a sweep, and their statistics.

Apart from `scaling.py`, which measures the models and draws and judges the result.
"""

from dataclasses import dataclass
from itertools import combinations, pairwise
from math import inf

import numpy as np

from ...errors import InputError
from ...evaluation.estimates import Estimate
from ...evaluation.horizon import horizon_by_nats
from ...evaluation.sweeps import by_block, difference, mean, pooled_spread, power_law
from ...evaluation.words import Floats
from ...search.residues import curve
from ..sweeps import Sweep, SweepPoint


@dataclass(frozen=True)
class Settings:
    sweep: Sweep
    places: tuple[int, ...]
    prompts: int  # near each place, as long as the context of a model, like their continuations
    blocks: int  # of the text, that the prompts are drawn from
    bounds: tuple[int, ...]  # of the oracles
    integers: int  # that the oracles are measured on


@dataclass(frozen=True)
class SeedRun:
    """One trained model, and its scores near each place."""

    seconds: float  # of training
    tokens: int
    learning: list[tuple[float, float]]  # words read, and validation loss in nats per word
    accuracy: list[list[float]]  # [places][prompts], of whole continuations
    nats: list[list[float]]  # [places][blocks], per word of the true text after the prompts


@dataclass(frozen=True)
class PlaceScores:
    accuracy: Estimate
    nats: Estimate  # per word
    horizon: float | None  # the bound of the oracle with these nats; None if all oracles have more


@dataclass(frozen=True)
class Pair:
    """Two values of a parameter, and the change of accuracy from the first to the second."""

    first: str
    second: str
    change: Estimate

    @property
    def lower(self) -> str:
        """The value with the lower accuracy."""
        return self.first if value_of(self.change) > 0 else self.second


@dataclass(frozen=True)
class Point:
    """A point of the sweep; estimates are over all places, but for `places`."""

    rate: float  # the learning rate
    parameters: int
    runs: list[SeedRun]  # one for each seed
    places: list[PlaceScores]
    by_seed: list[float]  # the accuracy of each seed
    accuracy: Estimate
    change: Estimate  # of the accuracy, from the reference to this point
    nats: Estimate
    deviation: Estimate  # standard deviation of the accuracy between prompts of one block

    @property
    def words(self) -> float:
        """The number of words read in training, in millions."""
        return self.runs[0].learning[-1][0] / 1e6


@dataclass(frozen=True)
class Result:
    axes: dict[str, dict[str, Point]]
    reference: dict[str, str]
    places: list[int]
    pairs: dict[str, list[Pair]]  # every two values of L, n and D
    rises: list[Estimate]  # of the accuracy, from each ρ to the next, up to the reference
    whole_rise: Estimate  # from the smallest ρ to the reference
    seed_deviation: float  # of the accuracy between seeds, pooled over all points
    fluctuation: Estimate  # the deviation at the largest L minus that at the smallest
    exponent: Estimate  # of nats per word as a power of the number of parameters
    searches: dict[str, dict[str, float]]  # lowest validation loss of each learning rate, by ρ
    searched: dict[str, float]  # the share of the words that these runs read, by ρ
    prompts: int
    blocks: int
    stand_in: str  # why the reference is not the paper's model; empty if it is

    @property
    def middle(self) -> Point:
        """The reference."""
        return self.axes["ρ"][self.reference["ρ"]]


def best_rate(losses: dict[str, float]) -> float:
    best = min(losses, key=lambda rate: losses[rate])
    if losses[best] == inf:
        raise InputError(f"training diverges at every learning rate tried: {', '.join(losses)}")
    return float(best)


def summarise(
    settings: Settings,
    runs: dict[SweepPoint, list[SeedRun]],
    searches: dict[str, dict[str, float]],
) -> Result:
    axes, blocks = settings.sweep.axes, settings.blocks
    prompts = {
        point: by_block(np.array([run.accuracy for run in each]), blocks)
        for point, each in runs.items()
    }
    # [seeds, places, blocks] for each point
    accuracy = {point: values.mean(-1) for point, values in prompts.items()}
    deviation = {point: values.std(-1, ddof=1) for point, values in prompts.items()}
    nats = {point: np.array([run.nats for run in each]) for point, each in runs.items()}
    of_place = [
        [
            _means({point: numbers[:, k] for point, numbers in each.items()})
            for each in (accuracy, nats)
        ]
        for k in range(len(settings.places))
    ]
    oracles = [curve(at, settings.bounds, count=settings.integers) for at in settings.places]
    reference = settings.sweep.shared
    right_everywhere = _all_places(accuracy)
    overall = [_means(_all_places(each)) for each in (accuracy, nats, deviation)]
    points = {
        point: Point(
            best_rate(searches[point.rho]),
            point.models[0].parameters(),
            each,
            [
                PlaceScores(
                    right[point], loss[point], horizon_by_nats(oracle, value_of(loss[point]))
                )
                for (right, loss), oracle in zip(of_place, oracles, strict=True)
            ],
            right_everywhere[point].mean(1).tolist(),
            overall[0][point],
            _difference(right_everywhere, point, reference),
            overall[1][point],
            overall[2][point],
        )
        for point, each in runs.items()
    }
    sizes = [point for value, point in axes["ρ"].items() if value in settings.sweep.searches]
    lengths = list(axes["L"].values())
    return Result(
        {axis: {v: points[point] for v, point in on.items()} for axis, on in axes.items()},
        settings.sweep.reference,
        list(settings.places),
        {
            axis: [
                Pair(a, b, _difference(right_everywhere, on[b], on[a]))
                for a, b in combinations(on, 2)
            ]
            for axis, on in axes.items()
            if axis != "ρ"
        },
        [
            _difference(right_everywhere, larger, smaller)
            for smaller, larger in pairwise(sizes[: sizes.index(reference) + 1])
        ],
        _difference(right_everywhere, reference, sizes[0]),
        pooled_spread(list(right_everywhere.values())).deviation,
        _difference(_all_places(deviation), lengths[-1], lengths[0]),
        power_law(
            [points[each].parameters for each in sizes],
            [value_of(points[each].nats) for each in sizes],
        ),
        searches,
        {
            rho: models[0].trained_on / axes["ρ"][rho].models[0].trained_on
            for rho, models in settings.sweep.searches.items()
        },
        settings.prompts,
        blocks,
        reference.models[0].stand_in,
    )


def value_of(estimate: Estimate) -> float:
    assert estimate.value is not None  # every prompt has words
    return estimate.value


Tables = dict[SweepPoint, Floats]  # [seeds, blocks] for each point


def _all_places(tables: Tables) -> Tables:
    """The mean over places of [seeds, places, blocks]."""
    return {point: np.mean(numbers, 1) for point, numbers in tables.items()}


def _means(tables: Tables) -> dict[SweepPoint, Estimate]:
    spread = pooled_spread(list(tables.values()))
    return {point: mean(numbers, spread) for point, numbers in tables.items()}


def _difference(tables: Tables, point: SweepPoint, other: SweepPoint) -> Estimate:
    return difference(tables[point], tables[other], pooled_spread(list(tables.values())))
