"""Search the learning rate as the paper does: short runs, and the lowest validation loss wins.

Each candidate trains for a twentieth of the steps (750 of the paper's 15,000 epochs). Its folder is
an ordinary run folder, so a killed search can be resumed.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import inf, isfinite
from pathlib import Path

from ..errors import InputError
from . import devices
from .config import Config
from .loop import Diverged, existing_run_message, train

SHORTER = 20  # a short run has 1/20 of the steps of the full run


def short_run(config: Config, lr: float) -> Config:
    """The short run that tries a learning rate."""
    steps = max(1, config.training.steps // SHORTER)
    training = replace(
        config.training,
        lr=lr,
        steps=steps,
        warmup=min(config.training.warmup, steps // 4),
        interval=min(config.training.interval, steps),
    )
    return replace(config, training=training)


def search_learning_rate(
    config: Config, folder: Path, candidates: Sequence[float], *, resume: bool, wait: bool = False
) -> tuple[Config, dict[float, float]]:
    """The configuration with the best learning rate, and the validation loss of each rate."""
    with devices.world() as world, world.sole_writers(folder, wait=wait):
        world.from_first(lambda: _check(folder, resume=resume))
        losses = {}
        for lr in candidates:
            try:
                outcome = train(short_run(config, lr), folder / "search" / str(lr), resume=resume)
                loss = outcome.validation_loss
                losses[lr] = loss if isfinite(loss) else inf
            except Diverged:
                losses[lr] = inf
    best = min(losses, key=lambda lr: losses[lr])
    if losses[best] == inf:
        raise InputError("training diverges with each of these learning rates: try lower ones")
    return replace(config, training=replace(config.training, lr=best)), losses


def _check(folder: Path, *, resume: bool) -> None:
    if (folder / "config.json").exists() and not resume:
        raise InputError(existing_run_message(folder))
