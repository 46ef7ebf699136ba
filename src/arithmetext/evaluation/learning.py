"""Loss curves: how fast they fall, and where they have a plateau."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
    steepest: float  # where the second descent is steepest
    earlier_pauses: tuple[float, ...]  # the slowest steps of earlier pauses

    @property
    def length(self) -> float:
        """The last step over the first: the length on a logarithmic axis."""
        return self.end / self.begin


@dataclass(frozen=True)
class LossCurve:
    """A smoothed loss curve and its plateau."""

    steps: list[float]
    losses: list[float]
    speeds: list[float]  # −dloss/dln(step)
    plateau: Plateau | None
    final_from: float  # the step from which on the loss is nearly its final value

    def loss_at(self, step: float) -> float:
        """The smoothed loss, interpolated in ln(step)."""
        return float(np.interp(np.log(step), np.log(self.steps), self.losses))


class PlateauLength(NamedTuple):
    """The longest plateau of a run: its last step over its first, 0 if there is none."""

    ratio: float
    ended: bool  # False if the run ends on the plateau


NO_PLATEAU = PlateauLength(0, True)


def loss_curve(training: Sequence[tuple[float, float]]) -> LossCurve:
    """Smooth a curve of (step, loss) and find its plateau.

    Loss and speed at a step come from a line fitted to the points around it.
    """
    steps, raw = np.array(training, np.float64).reshape(-1, 2).T
    x = np.log(steps)
    weights = np.exp(-(((x[:, None] - x) / WIDTH) ** 2) / 2)  # [steps, points]
    weights /= weights.sum(1, keepdims=True)
    centres = weights @ x
    offsets = x - centres[:, None]
    speeds = -((weights * offsets) @ raw) / np.maximum((weights * offsets**2).sum(1), 1e-12)
    losses = weights @ raw - speeds * (x - centres)
    return LossCurve(
        steps.tolist(),
        losses.tolist(),
        speeds.tolist(),
        _plateau(steps, losses, speeds),
        _final_from(steps, losses),
    )


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
    *earlier, k = pauses
    return Plateau(
        begin=_leaves_band(steps[k::-1], losses[k::-1]),
        slowest=float(steps[k]),
        end=_leaves_band(steps[k:], losses[k:]),
        loss=float(losses[k]),
        steepest=float(steps[k + speeds[k:].argmax()]),
        earlier_pauses=tuple(float(steps[i]) for i in earlier),
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


def _final_from(steps: Floats, losses: Floats) -> float:
    outside = np.flatnonzero(np.abs(losses / losses[-1] - 1) > BAND)
    return float(steps[outside.max(initial=-1) + 1])


def plateau_length(curve: LossCurve, better: LossCurve | None = None) -> PlateauLength:
    """How long the longest plateau lasts.

    A plateau at the end of a run counts if another run, `better`, gets clearly below it. Without
    another run it counts if there is no earlier plateau.
    """
    lengths, plateau = [NO_PLATEAU], curve.plateau
    if plateau:
        lengths.append(PlateauLength(plateau.end / plateau.begin, ended=True))
    if better.losses[-1] <= (1 - FALL) * curve.losses[-1] if better else not plateau:
        lengths.append(PlateauLength(curve.steps[-1] / curve.final_from, ended=False))
    return max(lengths)


def end_ratio(curves: Sequence[LossCurve], others: Sequence[LossCurve]) -> Estimate:
    """How many times later the plateaus of some runs end than those of other runs.

    The curves are those of several seeds. Unknown if a run has no plateau or has not left it.
    """
    return _ratio(curves, others, lambda plateau: plateau.end)


def length_ratio(curves: Sequence[LossCurve], others: Sequence[LossCurve]) -> Estimate:
    """How many times longer the plateaus of some runs are (`Plateau.length`), as in `end_ratio`."""
    return _ratio(curves, others, lambda plateau: plateau.length)


def _ratio(
    curves: Sequence[LossCurve], others: Sequence[LossCurve], what: Callable[[Plateau], float]
) -> Estimate:
    if not all(curve.plateau for curve in (*curves, *others)):
        return UNKNOWN
    values, references = (
        [what(curve.plateau) for curve in each if curve.plateau] for each in (curves, others)
    )
    return ratio_of_geometric_means(values, references)


def largest_difference(one: LossCurve, other: LossCurve, until: float) -> float:
    """How far two curves are apart, up to a step, as a share of the second one's loss."""
    steps = [step for step in one.steps if step <= until]
    return max(abs(one.loss_at(step) / other.loss_at(step) - 1) for step in steps)
