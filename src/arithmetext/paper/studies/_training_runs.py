"""The training runs of the two studies of losses, with their smoothed loss curves.

Apart from `_losses.py`, which draws and describes them: a new label must not run a study again.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import Any, TypeVar

from ...evaluation.estimates import Estimate
from ...evaluation.learning import LossCurve, end_ratio, is_below, loss_curve
from ...evaluation.without_attention import lowest_loss
from ...training.run_cache import NotKept
from ...training.stream import predicted_count
from ..runs import Record, TrainedModel, with_vocabulary

SEEDS = 3
WARMUPS = (300, 30)  # steps; plateaus end within the first and after the second

# Long runs of masked modelling, and short ones of next-token prediction, in small steps. A run must
# not stop early on its plateau, so its patience is longer than the run.
STEPS = {"mlm": 20_000, "ntp": 1000}
SMALL_STEPS = ("batch=2^14", "warmup=300", "interval=1000", "patience=1000")
RATES = (5e-4, 1e-3, 2e-3)  # at 4e-3 next-token prediction stays on its plateau (docs/log.md)
RATE_STEP = 2  # a long run that stays on its plateau is repeated at a rate so many times larger
LONG_RATES = (*RATES, RATE_STEP * RATES[-1])

T = TypeVar("T")


@dataclass(frozen=True)
class TrainingRun:
    """The record of a run and its smoothed loss curve."""

    record: Record
    curve: LossCurve

    @property
    def batch(self) -> int:
        """Tokens per step."""
        return int(self.record.config["training"]["batch"])

    @property
    def targets(self) -> int:
        """Tokens that are predicted in a step of masked modelling."""
        context = int(self.record.config["model"]["context"])
        share = float(self.record.config["training"]["predicted"])
        return self.batch // context * predicted_count(share, context)

    @property
    def seed(self) -> int:
        return int(self.record.config["seed"])

    @property
    def last_step(self) -> int:
        return self.record.tokens // self.batch


@dataclass(frozen=True)
class Series:
    """Runs that differ only in the size D of the vocabulary and in the seed."""

    runs: dict[int, list[TrainingRun]]  # by D
    later: dict[int, Estimate]  # where the plateaus of D end ÷ where those of the next smaller end


Models = Mapping[int, Sequence[TrainedModel]]  # by D, one for each seed


def measure(models: Models, lowest: Mapping[int, float], alike: Series | None = None) -> Series:
    """The series of some models; `lowest` is the lowest loss without attention, by D."""
    runs = {size: [load(model, lowest[size]) for model in same] for size, same in models.items()}
    return compare(runs, alike)


def if_kept(function: Callable[..., T], *arguments: Any) -> T | None:
    """What a function returns; None if only kept runs are used and it needs others."""
    try:
        return function(*arguments)
    except NotKept:
        return None


def load(model: TrainedModel, lowest: float) -> TrainingRun:
    return summarise(model.record(), lowest)


def summarise(record: Record, lowest: float) -> TrainingRun:
    return TrainingRun(record, loss_curve(record.training, lowest))


def compare(runs: dict[int, list[TrainingRun]], alike: Series | None = None) -> Series:
    """The series of some runs. Where plateaus end must vary as much between seeds as in `alike`."""
    others = [curves(same) for same in (alike.runs.values() if alike else ())]
    later = {b: end_ratio(curves(runs[b]), curves(runs[a]), *others) for a, b in pairwise(runs)}
    return Series(runs, later)


def curves(runs: Sequence[TrainingRun]) -> list[LossCurve]:
    return [run.curve for run in runs]


def models_by_warmup(
    task: str,
    scale: str,
    sizes: Sequence[int],
    *changes: str,
    warmups: Sequence[int] = WARMUPS,
) -> dict[int, dict[int, tuple[TrainedModel, ...]]]:
    """The models of a series for each warm-up.

    On a GPU three seeds and these warm-ups; elsewhere one run, with the warm-up of its recipe.
    """
    if scale == "gpu":
        return {
            warmup: {
                size: short_run(task, size, f"training.warmup={warmup}", *changes).with_seeds(SEEDS)
                for size in sizes
            }
            for warmup in warmups
        }
    models = {size: with_vocabulary(task, scale, size) for size in sizes}
    [warmup] = {model.config.training.warmup for model in models.values()}
    return {warmup: {size: (model,) for size, model in models.items()}}


def short_run(task: str, size: int, *changes: str) -> TrainedModel:
    """The paper's model, trained for a minute on a GPU: long enough to leave a plateau."""
    name = f"{task}-paper" + (f"-d{size}" if size != 256 else "")
    short = ("steps=500", "batch=2^16", "interval=100", "validation=2^19")
    return TrainedModel(name, (*(f"training.{change}" for change in short), *changes))


def small_steps(task: str, size: int, rate: float) -> TrainedModel:
    """The paper's model in small steps, of which more fit in the same time."""
    changes = (*SMALL_STEPS, f"steps={STEPS[task]}", f"lr={rate:g}")
    return short_run(task, size, *(f"training.{change}" for change in changes))


def search(models: Mapping[float, TrainedModel]) -> dict[float, float]:
    """The last validation loss for each learning rate."""
    return {
        rate: float(model.record().validation[-1]["validation_loss"])
        for rate, model in models.items()
    }


def best_rate(rates: Iterable[float], losses: Mapping[float, float]) -> float | None:
    """The rate with the lowest loss in a search; the first without a search; None of no rates."""
    return min(rates, key=lambda rate: losses.get(rate, inf), default=None)


def long_runs(
    models: Mapping[float, TrainedModel], rate: float
) -> tuple[float, dict[float, TrainingRun]]:
    """The long run at a learning rate; if it stays on its plateau, also one at a larger rate.

    Returns the larger rate if that run left its plateau, otherwise the first; and the runs by rate.
    The run at the larger rate is missing if only kept runs are used and it is not among them.
    """
    lowest = lowest_loss(models[rate].config)
    runs = {rate: load(models[rate], lowest)}
    if left_plateau(runs[rate], lowest):
        return rate, runs
    larger = RATE_STEP * rate
    if again := if_kept(load, models[larger], lowest):
        runs[larger] = again
    return (larger if again and left_plateau(again, lowest) else rate), runs


def left_plateau(run: TrainingRun, lowest: float) -> bool:
    """Whether a run ends clearly below the lowest loss without attention."""
    return is_below(run.curve.losses[-1], lowest)
