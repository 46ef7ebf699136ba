"""The training runs of the two studies of losses, with their smoothed loss curves.

Apart from `_losses.py`, which draws and describes them: a new label must not run a study again.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ...evaluation.learning import LossCurve, loss_curve
from ..runs import Record


@dataclass(frozen=True)
class TrainingRun:
    """The record of a run, and what is computed from its losses."""

    record: Record
    curve: LossCurve
    tokens_per_word: float | None  # in the validation text, where it is known

    @property
    def batch(self) -> int:
        """Tokens per step."""
        return int(self.record.config["training"]["batch"])

    @property
    def warmup(self) -> int:
        return int(self.record.config["training"]["warmup"])

    @property
    def positions(self) -> str:
        return str(self.record.config["model"]["positions"])

    @property
    def last_step(self) -> int:
        return self.record.tokens // self.batch


RunsBySize = Mapping[int, TrainingRun]


def summarise(record: Record) -> TrainingRun:
    last = record.validation[-1] if record.validation else {}
    nats = last.get("validation_nats_per_word")
    tokens_per_word = None if nats is None else float(nats / last["validation_loss"])
    return TrainingRun(record, loss_curve(record.training), tokens_per_word)
