"""The training runs of the two studies of losses, with their smoothed loss curves.

Apart from `_losses.py`, which draws and describes them: a new label must not run a study again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ...evaluation.estimates import Estimate
from ...evaluation.learning import LossCurve, end_ratio, is_below, loss_curve
from ...evaluation.without_attention import lowest_loss
from ...training.stream import predicted_count
from ..runs import Record, TrainedModel, with_vocabulary

SEEDS = 3
WARMUPS = (300, 30)  # steps

# In small steps, more of them fit in the same time. A run must not stop early on its plateau, so
# its patience is longer than the run.
SMALL_STEPS = ("batch=2^14", "warmup=300", "interval=1000", "patience=1000")
STEPS = {"mlm": 20_000, "ntp": 1000}
RATES = (2.5e-4, 5e-4, 1e-3, 2e-3)


@dataclass(frozen=True)
class TrainingRun:
    """The record of a run and its smoothed loss curve."""

    record: Record
    curve: LossCurve
    lowest: float  # the lowest loss without attention, in nats per token

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

    @property
    def left_plateau(self) -> bool:
        """Whether the run ends clearly below the lowest loss without attention."""
        return is_below(self.curve.losses[-1], self.lowest)


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


def lowest_losses(models: Models) -> dict[int, float]:
    """The lowest loss without attention, by D."""
    return {size: lowest_loss(same[0].config) for size, same in models.items()}


def load(model: TrainedModel, lowest: float) -> TrainingRun:
    return summarise(model.record(), lowest)


def summarise(record: Record, lowest: float) -> TrainingRun:
    return TrainingRun(record, loss_curve(record.training, lowest), lowest)


def compare(runs: dict[int, list[TrainingRun]], alike: Series | None = None) -> Series:
    """The series of some runs; the spread over seeds is assumed to be equal to that in `alike`."""
    others = [curves(same) for same in (alike.runs.values() if alike else ())]
    later = {b: end_ratio(curves(runs[b]), curves(runs[a]), *others) for a, b in pairwise(runs)}
    return Series(runs, later)


def curves(runs: Sequence[TrainingRun]) -> list[LossCurve]:
    return [run.curve for run in runs]


def models_by_warmup(
    task: str, scale: str, sizes: Sequence[int]
) -> dict[int, dict[int, tuple[TrainedModel, ...]]]:
    """The models of a series for each warm-up.

    On a GPU three seeds and two warm-ups; elsewhere one run, with the warm-up of its recipe.
    """
    if scale == "gpu":
        return {
            warmup: {
                size: short_run(task, size, f"training.warmup={warmup}").with_seeds(SEEDS)
                for size in sizes
            }
            for warmup in WARMUPS
        }
    models = {size: with_vocabulary(task, scale, size) for size in sizes}
    [warmup] = {model.config.training.warmup for model in models.values()}
    return {warmup: {size: (model,) for size, model in models.items()}}


def short_run(task: str, size: int, *changes: str) -> TrainedModel:
    """The paper's model, trained for a minute on a GPU: mostly long enough to leave a plateau."""
    short = ("steps=500", "batch=2^16", "interval=100", "validation=2^19")
    return _papers_model(task, size, *(f"training.{change}" for change in short), *changes)


def small_steps(task: str, size: int, rate: float) -> TrainedModel:
    """The paper's model in small steps."""
    changes = (*SMALL_STEPS, "validation=2^19", f"steps={STEPS[task]}", f"lr={rate:g}")
    return _papers_model(task, size, *(f"training.{change}" for change in changes))


def _papers_model(task: str, size: int, *changes: str) -> TrainedModel:
    return TrainedModel(f"{task}-paper" + (f"-d{size}" if size != 256 else ""), changes)
