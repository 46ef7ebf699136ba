"""Loss curves: how fast they fall, and where they have a plateau."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WIDTH = 0.2  # of the smoothing kernel, in ln(step)
SLOW = 0.5  # a plateau is slower than this share of the greatest speed before and of that after
FALL = 0.05  # the loss must fall by this share of it before a plateau, and again after it
BAND = 0.03  # a plateau lasts while the loss differs by less than this share


class Plateau(NamedTuple):
    """A pause between two descents of the loss; all but `loss` are steps."""

    begin: float
    slowest: float
    end: float
    loss: float  # at the slowest step, nats per token
    steepest: float  # where the descent after it is steepest
    others: tuple[float, ...]  # the slowest steps of earlier plateaus


def smoothed(record: dict[str, Any]) -> tuple[Floats, Floats, Floats]:
    """Steps, smoothed loss, and its speed −dloss/dln(step), [steps] each, by local linear fits."""
    steps, losses = np.array(record["training"], np.float64).reshape(-1, 2).T
    x = np.log(steps)
    weights = np.exp(-(((x[:, None] - x) / WIDTH) ** 2) / 2)
    weights /= weights.sum(1, keepdims=True)
    centres = weights @ x
    aside = x - centres[:, None]
    speeds = -((weights * aside) @ losses) / np.maximum((weights * aside**2).sum(1), 1e-12)
    return steps, weights @ losses - speeds * (x - centres), speeds


def plateau(record: dict[str, Any]) -> Plateau | None:
    """The last plateau: where learning is less than half as fast as before and as after.

    The loss must fall on both sides (FALL). A plateau lasts while the loss stays within BAND.
    """
    steps, losses, speeds = smoothed(record)
    before, after = np.maximum.accumulate(speeds), np.maximum.accumulate(speeds[::-1])[::-1]
    descents = np.minimum(before, after)
    borders = np.flatnonzero(np.diff(speeds < SLOW * descents, prepend=False, append=False))
    slowest = [int(a + speeds[a:b].argmin()) for a, b in borders.reshape(-1, 2)]
    pauses = [
        k for k in slowest if min(losses[0] - losses[k], losses[k] - losses[-1]) >= FALL * losses[k]
    ]
    if not pauses:
        return None
    *others, k = pauses
    elsewhere = np.flatnonzero(np.abs(losses / losses[k] - 1) > BAND)
    return Plateau(
        begin=float(steps[elsewhere[elsewhere < k].max(initial=-1) + 1]),
        slowest=float(steps[k]),
        end=float(steps[elsewhere[elsewhere > k].min(initial=len(steps)) - 1]),
        loss=float(losses[k]),
        steepest=float(steps[k + speeds[k:].argmax()]),
        others=tuple(float(steps[i]) for i in others),
    )


def rest(record: dict[str, Any]) -> tuple[float, float]:
    """The step since which the loss is within BAND of the final loss, and the final loss."""
    steps, losses, _ = smoothed(record)
    elsewhere = np.flatnonzero(np.abs(losses / losses[-1] - 1) > BAND)
    return float(steps[elsewhere.max(initial=-1) + 1]), float(losses[-1])
