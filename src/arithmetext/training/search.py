"""The learning rate, found as the paper finds it: by short runs, the lowest validation loss wins.

Each candidate trains for a twentieth of the steps (750 of the paper's 15,000 epochs), in a folder
of its own that is a run like any other; so a search that was killed goes on where it was.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import InputError
from ..files import make_folder
from .config import Config
from .loop import Outcome, train

SHARE = 20


def short(config: Config, lr: float) -> Config:
    """The short run that tries a learning rate."""
    steps = max(1, config.training.steps // SHARE)
    training = replace(
        config.training,
        lr=lr,
        steps=steps,
        warmup=min(config.training.warmup, steps // 4),
        interval=min(config.training.interval, steps),
    )
    return replace(config, training=training)


def search(
    config: Config, folder: Path, candidates: Sequence[float], *, resume: bool
) -> tuple[Config, dict[float, Outcome]]:
    """The configuration with the best of the learning rates, and how each of them did."""
    if (folder / "config.json").exists() and not resume:
        raise InputError(f"{folder} holds a run already: --resume, or another --out")
    outcomes = {}
    for lr in candidates:
        tried = folder / "search" / f"{lr:g}"
        make_folder(tried.parent)
        outcomes[lr] = train(short(config, lr), tried, resume=resume)
    best = min(outcomes, key=lambda lr: outcomes[lr].validation_loss)
    return replace(config, training=replace(config.training, lr=best)), outcomes
