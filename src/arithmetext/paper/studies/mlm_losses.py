"""Loss curves of masked modelling for two vocabularies (the paper's figure of MLM losses)."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ...evaluation.learning import NO_PLATEAU, PlateauLength, plateau_length
from ...evaluation.without_attention import lowest_loss
from ..figures import styles
from ..runs import TrainedModel, mlm_with_learned_positions, with_vocabulary
from ..study import Table, Verdict, if_papers_model
from ._losses import (
    define_plateau,
    describe_lowest_losses,
    describe_training,
    draw_losses_by_step,
    loss_table,
    plateau_end_verdict,
    plateau_verdict,
    why_not_the_papers,
)
from ._training_runs import TrainingRun, summarise

TITLE = "Learning to fill gaps"
ORDER = 170
COST = {"laptop": 50, "gpu": 1250}


@dataclass(frozen=True)
class Settings:
    """Models by the size D of their vocabulary."""

    best_masked: dict[int, TrainedModel]  # masked modelling, trained until it leaves its plateau
    masked_like_causal: dict[int, TrainedModel]  # masked modelling with the positions of `causal`
    causal: dict[int, TrainedModel]  # next-token prediction


@dataclass(frozen=True)
class Result:
    """Runs by the size D of their vocabulary, as in the settings."""

    best_masked: dict[int, TrainingRun]
    masked_like_causal: dict[int, TrainingRun]
    causal: dict[int, TrainingRun]
    masked_lengths: dict[int, PlateauLength]  # of `masked_like_causal`
    causal_lengths: dict[int, PlateauLength]  # of `causal`
    without_attention: dict[int, float]  # the lowest loss, in nats per token

    @property
    def positions(self) -> str:
        return next(iter(self.best_masked.values())).positions

    @property
    def other_runs(self) -> dict[int, TrainingRun]:
        """The runs of `masked_like_causal` that are not in `best_masked`."""
        return {
            size: run
            for size, run in self.masked_like_causal.items()
            if run.record.config != self.best_masked[size].record.config
        }


def settings(scale: str) -> Settings:
    sizes = (64, 256)
    return Settings(
        best_masked={size: with_vocabulary("mlm", scale, size) for size in sizes},
        masked_like_causal={size: mlm_with_learned_positions(scale, size) for size in sizes},
        causal={size: with_vocabulary("ntp", scale, size) for size in sizes},
    )


def run(settings: Settings) -> Result:
    best_masked, masked_like_causal, causal = (
        {size: summarise(model.record()) for size, model in models.items()}
        for models in (settings.best_masked, settings.masked_like_causal, settings.causal)
    )
    lowest = {size: lowest_loss(model.config) for size, model in settings.best_masked.items()}
    return compare(best_masked, masked_like_causal, causal, lowest)


def compare(
    best_masked: dict[int, TrainingRun],
    masked_like_causal: dict[int, TrainingRun],
    causal: dict[int, TrainingRun],
    lowest: dict[int, float],
) -> Result:
    of_masked = {
        size: plateau_length(run.curve, best_masked[size].curve)
        for size, run in masked_like_causal.items()
    }
    of_causal = {size: plateau_length(run.curve) for size, run in causal.items()}
    return Result(best_masked, masked_like_causal, causal, of_masked, of_causal, lowest)


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_losses_by_step(
        left, result.best_masked, result.without_attention, dotted=result.other_runs
    )
    for (size, run), style in zip(result.best_masked.items(), styles(), strict=False):
        curve, speeds = run.curve, np.array(run.curve.speeds) / log(size)
        right.plot(curve.steps, speeds, color=style["color"], ls=style["ls"], lw=1.3)
        if curve.plateau:
            slowest = curve.plateau.slowest
            speed = speeds[curve.steps.index(slowest)]
            right.plot(slowest, speed, style["marker"], color=style["color"], ms=8)
    right.set_xscale("log")
    right.grid(alpha=0.3)
    right.set_xlabel("training step")
    right.set_ylabel("speed of learning / ln D")
    return figure


def caption(result: Result) -> str:
    others = list(result.other_runs.values())
    positions = (
        f" These runs have {result.positions} positions; dotted lines are runs with"
        f" {others[0].positions} positions, as in GPT-2, and may be shorter."
        if others
        else ""
    )
    return (
        "Loss of masked modelling during training, over the tokens to be filled in. Left: the loss"
        " divided by ln D, the loss of a uniform guess. Lines are the training loss (means over"
        " steps that are close on the axis), markers the validation loss, pale bands plateaus."
        " Thin lines are the lowest loss that a model without attention can reach, which sees only"
        " what the gap shows (the mask, the true token or another). Right: how fast"
        " the loss falls; a plateau is a valley, and its slowest step is marked."
        f" {describe_training(result.best_masked)}{positions} {define_plateau()}"
    )


def table(result: Result) -> Table:
    def adapted(row: Sequence[Any], positions: str) -> list[Any]:
        return [positions, *row[:dropped], *row[dropped + 1 :]]

    rows = []
    for runs, mark in ((result.best_masked, True), (result.other_runs, False)):
        # The other runs may not leave their plateau, so no step is known at which it ends.
        header, run_rows = loss_table(runs, result.without_attention, mark_plateau=mark)
        dropped = header.index("validation, nats per word")  # not defined for gaps
        rows += [adapted(row, runs[row[0]].positions) for row in run_rows]
    return adapted(header, "positions"), rows


def verdicts(result: Result) -> list[Verdict]:
    lowest = describe_lowest_losses(result.without_attention, seen="what the gap shows")
    found = [
        plateau_verdict(
            result.best_masked,
            claim="In masked modelling too the loss rests on a plateau before a second descent.",
            paper="for both D",
            why=lowest,
        ),
        plateau_end_verdict(
            result.best_masked,
            claim="The plateau of masked modelling extends further as D increases.",
        ),
    ]
    return [
        *if_papers_model(found, why_not_the_papers(result.best_masked)),
        *if_papers_model(
            [_is_more_evident(result)],
            why_not_the_papers(result.masked_like_causal) or why_not_the_papers(result.causal),
        ),
    ]


def _is_more_evident(result: Result) -> Verdict:
    """Does the plateau last longer than in next-token prediction?"""
    pairs = [(each, result.causal_lengths[size]) for size, each in result.masked_lengths.items()]
    # The ratio of a plateau that has not ended is only a lower bound.
    ended = all(masked.ended and causal.ended for masked, causal in pairs)
    shorter = any(masked.ended and masked.ratio <= causal.ratio for masked, causal in pairs)
    return Verdict(
        key="more-evident",
        claim="The plateau is more evident in masked modelling than in next-token prediction.",
        paper="even more evident",
        ours="; ".join(
            f"D = {size}, {result.masked_like_causal[size].positions} positions: last ÷ first"
            f" step of the plateau in masked modelling {_format_length(length)}, in next-token"
            f" prediction {_format_length(result.causal_lengths[size])}"
            for size, length in result.masked_lengths.items()
        ),
        criterion="this ratio is larger in masked modelling for every D",
        agrees=False if shorter else True if ended else None,
        why=""
        if ended
        else "A run that ends on its plateau shows no second descent, and not how long the plateau"
        " lasts.",
    )


def _format_length(length: PlateauLength) -> str:
    if length == NO_PLATEAU:
        return "no plateau"
    return f"{'' if length.ended else 'at least '}{length.ratio:.1f}"
