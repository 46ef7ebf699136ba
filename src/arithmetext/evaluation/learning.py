"""Loss curves: how fast they fall, and where learning pauses."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

WIDTH = 0.2  # of the smoothing, in ln(step)
SLOW = 0.5  # of the speed before and of that after: a pause
FALL = 0.05  # of the loss, before a pause and after it: less is no descent
BAND = 0.03  # of the loss: what is nearer than this is the same plateau


class Plateau(NamedTuple):
    """A pause between two descents, in steps."""

    begin: float
    slowest: float
    end: float
    loss: float  # at the slowest, nats a token
    steepest: float  # where the second descent is steepest
    others: tuple[float, ...]  # the slowest places of other pauses


def smoothed(record: dict[str, Any]) -> tuple[Floats, Floats, Floats]:
    """Steps, the loss, and its speed −dloss/dln(step), from lines fitted nearby."""
    steps, losses = np.array(record["training"], np.float64).reshape(-1, 2).T
    x = np.log(steps)
    weights = np.exp(-(((x[:, None] - x) / WIDTH) ** 2) / 2)
    weights /= weights.sum(1, keepdims=True)
    centres = weights @ x
    aside = x - centres[:, None]
    speeds = -((weights * aside) @ losses) / np.maximum((weights * aside**2).sum(1), 1e-12)
    return steps, weights @ losses - speeds * (x - centres), speeds


def plateau(record: dict[str, Any]) -> Plateau | None:
    """Where learning slows down to less than half of its speed before and after.

    The loss has to fall on both sides; of several pauses the last counts, before the descent that
    goes on. It lasts while the loss is nearly the same.
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
    """Since which step the loss has been nearly what it is at the end, and that loss."""
    steps, losses, _ = smoothed(record)
    elsewhere = np.flatnonzero(np.abs(losses / losses[-1] - 1) > BAND)
    return float(steps[elsewhere.max(initial=-1) + 1]), float(losses[-1])
