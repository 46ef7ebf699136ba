"""Loss curves: how fast they fall, and where they have a plateau."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .estimates import UNKNOWN, Estimate, ratio_of_geometric_means

Floats = NDArray[np.float64]

WIDTH = 0.2  # of the smoothing kernel, in ln(step)
SLOW = 0.5  # learning pauses below this share of its speed before and after
FALL = 0.05  # a descent lowers the loss at least by this share
BAND = 0.03  # a plateau lasts while the loss differs at most by this share


class Plateau(NamedTuple):
    """A pause between two descents; all fields but `loss` are steps."""

    begin: float
    slowest: float
    end: float
    loss: float  # at `slowest`, in nats per token

    @property
    def length(self) -> float:
        """The last step over the first: the length on a logarithmic axis."""
        return self.end / self.begin

    @property
    def duration(self) -> float:
        """The number of steps: the length on a linear axis."""
        return self.end - self.begin


@dataclass(frozen=True)
class LossCurve:
    """A smoothed loss curve and its plateau."""

    steps: list[float]
    losses: list[float]
    plateau: Plateau | None
    ends_on_plateau: bool  # the last loss is near the lowest loss without attention

    def loss_at(self, step: float) -> float:
        """The smoothed loss, interpolated in ln(step)."""
        return float(np.interp(np.log(step), np.log(self.steps), self.losses))

    def settled_by(self, step: float) -> float:
        """The step from which on the loss stays within BAND of its value at `step`, until then."""
        last = int(np.searchsorted(self.steps, step, side="right")) - 1
        steps, losses = (np.array(each)[last::-1] for each in (self.steps, self.losses))
        return _leaves_band(steps, losses)


def loss_curve(training: Sequence[tuple[float, float]], lowest: float = inf) -> LossCurve:
    """Smooth a curve of (step, loss) and find its plateau.

    `lowest` is the lowest loss without attention (`without_attention.lowest_loss`), if known. A run
    that does not get clearly below it is still on its plateau, whatever pauses it had before.
    """
    steps, raw = np.array(training, np.float64).reshape(-1, 2).T
    losses, speeds = _smoothed(steps, raw)
    plateau = _plateau(steps, losses, speeds) if is_below(losses[-1], lowest) else None
    ends_on_plateau = plateau is None and abs(losses[-1] / lowest - 1) < FALL
    return LossCurve(steps.tolist(), losses.tolist(), plateau, ends_on_plateau)


def is_below(loss: float, level: float) -> bool:
    """Whether a loss is clearly below a level, by as much as a descent."""
    return loss <= (1 - FALL) * level


def _smoothed(steps: Floats, raw: Floats) -> tuple[Floats, Floats]:
    """The loss and its speed, −dloss/dln(step), from lines fitted to the points around a step."""
    x = np.log(steps)
    weights = np.exp(-(((x[:, None] - x) / WIDTH) ** 2) / 2)  # [steps, points]
    weights /= weights.sum(1, keepdims=True)
    centres = weights @ x
    offsets = x - centres[:, None]
    speeds = -((weights * offsets) @ raw) / np.maximum((weights * offsets**2).sum(1), 1e-12)
    return weights @ raw - speeds * (x - centres), speeds


def _plateau(steps: Floats, losses: Floats, speeds: Floats) -> Plateau | None:
    """Where learning slows down to less than half of its speed before and after.

    The loss must fall on both sides. If there are several pauses, the last one counts.
    """
    before, after = np.maximum.accumulate(speeds), np.maximum.accumulate(speeds[::-1])[::-1]
    descents = np.minimum(before, after)
    borders = np.flatnonzero(np.diff(speeds < SLOW * descents, prepend=False, append=False))
    slowest = [int(a + speeds[a:b].argmin()) for a, b in borders.reshape(-1, 2)]
    pauses = [
        k for k in slowest if min(losses[0] - losses[k], losses[k] - losses[-1]) >= FALL * losses[k]
    ]
    if not pauses:
        return None
    k = pauses[-1]
    return Plateau(
        begin=_leaves_band(steps[k::-1], losses[k::-1]),
        slowest=float(steps[k]),
        end=_leaves_band(steps[k:], losses[k:]),
        loss=float(losses[k]),
    )


def _leaves_band(steps: Floats, losses: Floats) -> float:
    """Where the loss first differs from its first value by more than BAND; else the last step.

    Interpolated in ln(step): the points of a curve are 2 % apart, as far as the ends of two runs.
    """
    changes = losses / losses[0] - 1
    outside = np.flatnonzero(np.abs(changes) > BAND)
    if not len(outside):
        return float(steps[-1])
    j = outside[0]
    one, other = abs(changes[j - 1 : j + 1] * np.sign(changes[j]) - BAND)
    return float(np.exp((np.log(steps[j - 1]) * other + np.log(steps[j]) * one) / (one + other)))


def end_ratio(
    curves: Sequence[LossCurve], others: Sequence[LossCurve], *alike: Sequence[LossCurve]
) -> Estimate:
    """How many times later the plateaus of some runs end than those of other runs.

    The curves are those of several seeds. Seeds of further runs, `alike`, may tell how much the
    ends differ between seeds. If some of `curves` end on their plateau, their last step is a lower
    bound of its end, and the ratio has no upper limit. Unknown if a run has no plateau, or if one
    of `others` has not left it.
    """
    if not any(curve.ends_on_plateau for curve in curves):
        return _ratio(lambda plateau: plateau.end, curves, others, *alike)
    bounds = [
        curve.plateau.end if curve.plateau else curve.steps[-1]
        for curve in curves
        if curve.plateau or curve.ends_on_plateau
    ]
    ends = [curve.plateau.end for curve in others if curve.plateau]
    if len(bounds) < len(curves) or len(ends) < len(others):
        return UNKNOWN
    # One number, since last steps say nothing about how much seeds differ.
    found = ratio_of_geometric_means(
        [float(np.exp(np.log(bounds).mean()))],
        ends,
        *filter(None, ([c.plateau.end for c in same if c.plateau] for same in alike)),
    )
    return found._replace(high=inf)


class Longer(NamedTuple):
    """How many times longer the plateaus of some runs are, on two axes."""

    logarithmic: Estimate  # by `Plateau.length`
    linear: Estimate  # by `Plateau.duration`


def length_ratios(curves: Sequence[LossCurve], others: Sequence[LossCurve]) -> Longer:
    """How many times longer the plateaus of some runs are; unknown if a run has not left it."""
    return Longer(
        _ratio(lambda plateau: plateau.length, curves, others),
        _ratio(lambda plateau: plateau.duration, curves, others),
    )


def _ratio(what: Callable[[Plateau], float], *runs: Sequence[LossCurve]) -> Estimate:
    """The ratio of the first two, over seeds; the other runs say how much seeds differ."""
    found = [[what(curve.plateau) for curve in same if curve.plateau] for same in runs]
    if any(len(some) < len(same) for some, same in zip(found[:2], runs, strict=False)):
        return UNKNOWN
    return ratio_of_geometric_means(found[0], found[1], *filter(None, found[2:]))
