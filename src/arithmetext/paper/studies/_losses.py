"""What the two studies of losses share: how runs are drawn, and the claims about plateaus.

Runs are kept in a dict by the size D of their vocabulary (`RunsBySize`).
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ...evaluation.learning import BAND, FALL, SLOW, WIDTH, Plateau
from ...training.config import from_json
from .. import runs as runs_module
from ..figures import styles
from ..study import Table, Verdict
from ..wording import format_percent, join
from ._training_runs import RunsBySize, TrainingRun

SHOWN = 20  # validations in figure and table, at most
MIN_END_RATIO = 1.1  # a plateau ends later if it ends after more than this many times the steps


def draw_losses_by_step(
    axes: Axes, runs: RunsBySize, lowest: Mapping[int, float], dotted: RunsBySize | None = None
) -> None:
    """Losses divided by the loss of a uniform guess, with a legend.

    Thin lines are the lowest losses without attention. Only the smoothed training loss is
    drawn of the runs in `dotted`.
    """
    draw_losses(axes, runs, {size: (1, 1 / log(size)) for size in runs})
    legend = [
        Line2D([], [], markerfacecolor="white", ms=5, lw=1.3, label=f"D = {size}", **style)
        for size, style in zip(runs, styles(), strict=False)
    ]
    if any(run.curve.plateau for run in runs.values()):
        legend.append(Line2D([], [], color="0.5", lw=9, alpha=0.4, label="plateau"))
    legend.append(Line2D([], [], color="0.3", lw=0.8, label="lowest without attention"))
    colours = {size: style["color"] for size, style in zip(runs, styles(), strict=False)}
    for size, run in (dotted or {}).items():
        losses = np.array(run.curve.losses) / log(size)
        label = f"D = {size}, {run.positions} positions"
        legend += axes.plot(run.curve.steps, losses, ":", color=colours[size], lw=1.6, label=label)
    for size, loss in lowest.items():
        axes.axhline(loss / log(size), color=colours[size], lw=0.8, zorder=1)
    axes.legend(handles=legend, fontsize=8, loc="lower left", handlelength=3, frameon=False)
    axes.set_xlabel("training step")
    axes.set_ylabel("loss / ln D")


def draw_losses(axes: Axes, runs: RunsBySize, units: Mapping[int, tuple[float, float]]) -> None:
    """Training as lines, validation as markers, and plateaus as pale bands along the lines.

    `units` are the factors of steps and losses for each D.
    """
    for (size, run), style in zip(runs.items(), styles(), strict=False):
        colour, curve, plateau = style["color"], run.curve, run.curve.plateau
        if plateau:
            points = np.column_stack([curve.steps, curve.losses])
            inside = (points[:, 0] >= plateau.begin) & (points[:, 0] <= plateau.end)
            band = (points[inside] * units[size]).T
            axes.plot(*band, color=colour, lw=9, alpha=0.3, solid_capstyle="butt")
        training = (np.array(run.record.training) * units[size]).T
        axes.plot(*training, color=colour, ls=style["ls"], lw=1.3)
        rows = [(row["step"], row["validation_loss"]) for row in _thin_out(run.record.validation)]
        validation = (np.array(rows).reshape(-1, 2) * units[size]).T
        axes.plot(*validation, style["marker"], color=colour, markerfacecolor="white", ms=5)
    axes.set_xscale("log")
    axes.grid(alpha=0.3)


def _thin_out(rows: Sequence[Any]) -> Sequence[Any]:
    """Every k-th row, ending with the last, at most SHOWN."""
    stride = -(-len(rows) // SHOWN) or 1
    return rows[(len(rows) - 1) % stride :: stride]


def describe_training(runs: RunsBySize) -> str:
    """The model, its batches and how long it was trained, in a sentence."""
    first, *_ = runs.values()
    model = first.record.config["model"]
    return (
        f"One run for each D (seed {first.record.config['seed']}): {model['layers']} layers of"
        f" {model['heads']} heads, L = {model['context']}, {first.batch:,} tokens per step, a"
        f" learning-rate warm-up of {first.warmup:,} steps;"
        f" {join(f'{run.last_step:,}' for run in runs.values())} steps in"
        f" {join(f'{run.record.seconds:.0f}' for run in runs.values())} seconds on"
        f" {first.record.environment['device']}."
    )


def define_plateau() -> str:
    """How plateaus are found, for captions."""
    return (
        f"The speed of learning is −dloss/dln(step), smoothed over {WIDTH:g} in ln(step). A plateau"
        f" is where learning slows to less than {format_percent(SLOW)} of its speed before and"
        f" after, and the loss falls by at least {format_percent(FALL)} on either side; the plateau"
        f" lasts while the loss stays within {format_percent(BAND)}."
    )


def describe_lowest_losses(lowest: Mapping[int, float], *, seen: str) -> str:
    """The lowest losses without attention, to compare with the levels of plateaus."""
    shares = join(f"{loss / log(size):.3f}" for size, loss in lowest.items())
    return f"The lowest loss without attention, where a model sees only {seen}, is {shares} ln D."


def loss_table(
    runs: RunsBySize, lowest: Mapping[int, float], *, mark_plateau: bool = True
) -> Table:
    """The losses at powers of two, at validations, and where the plateau lies."""
    header = ["D", "step", "tokens read", "training loss / ln D", "validation loss / ln D"]
    header += ["validation, nats per word", "lowest without attention / ln D", "event"]
    rows = []
    for size, run in runs.items():
        validations = {row["step"]: row for row in _thin_out(run.record.validation)}
        plateau, uniform = run.curve.plateau, log(size)
        events = _events(plateau) if plateau and mark_plateau else {}
        powers = {2**k for k in range(int(run.curve.steps[-1]).bit_length())}
        for step in sorted({*powers, *validations, *events}):
            row = validations.get(step, {})
            loss, nats = row.get("validation_loss"), row.get("validation_nats_per_word")
            rows.append(
                [
                    size,
                    step,
                    step * run.batch,
                    round(run.curve.loss_at(step) / uniform, 4),
                    "" if loss is None else round(loss / uniform, 4),
                    "" if nats is None else round(nats, 3),
                    round(lowest[size] / uniform, 4),
                    events.get(step, ""),
                ]
            )
    return header, rows


def _events(plateau: Plateau) -> dict[int, str]:
    return {
        round(plateau.steepest): "second descent is steepest",
        round(plateau.begin): "plateau begins",
        round(plateau.end): "plateau ends",
        round(plateau.slowest): "plateau is slowest",
    }


def why_not_the_papers(runs: RunsBySize) -> str:
    """Why one of these is not a run of the paper's model; empty if all are."""
    reasons = (runs_module.why_not_the_papers(from_json(r.record.config)) for r in runs.values())
    return next(filter(None, reasons), "")


def plateau_verdict(runs: RunsBySize, *, claim: str, paper: str, why: str) -> Verdict:
    """Does every loss curve have a plateau?"""
    missing = [
        f"D = {size}: no plateau found by step {run.last_step:,}; either the loss never paused, or"
        " it had not fallen again."
        for size, run in runs.items()
        if run.curve.plateau is None
    ]
    return Verdict(
        key="plateau",
        claim=claim,
        paper=paper,
        ours="one run each; "
        + "; ".join(f"D = {size}: {_describe(size, run)}" for size, run in runs.items()),
        criterion="every run has a plateau",
        agrees=not missing,
        why=" ".join([*missing, why]),
    )


def _describe(size: int, run: TrainingRun) -> str:
    plateau = run.curve.plateau
    if plateau is None:
        return "no plateau"
    text = f"steps {plateau.begin:.0f} to {plateau.end:.0f} at {plateau.loss / log(size):.3f} ln D"
    if plateau.earlier_pauses:
        text += f", after {join(f'a pause at step {step:.0f}' for step in plateau.earlier_pauses)}"
    return f"{text}, then a descent that is steepest at step {plateau.steepest:.0f}"


def plateau_end_verdict(runs: RunsBySize, *, claim: str) -> Verdict:
    """Does the plateau end later for a larger vocabulary?"""
    plateaus = {size: run.curve.plateau for size, run in runs.items()}
    ends = [plateau.end for plateau in plateaus.values() if plateau]
    same_batch = len({run.batch for run in runs.values()}) == 1
    warmup = min(run.warmup for run in runs.values())
    why = [
        f"For D = {size} no plateau has ended by step {runs[size].last_step:,}."
        for size, plateau in plateaus.items()
        if plateau is None
    ]
    if not same_batch:
        why.append("The runs differ in tokens per step, so their steps cannot be compared.")
    if len({run.record.config["training"]["steps"] for run in runs.values()}) > 1:
        why.append("The runs differ in length, and so in how fast their learning rate falls.")
    if ends and max(ends) <= warmup:
        why.append(f"All plateaus end during the learning-rate warm-up of {warmup:,} steps.")
    return Verdict(
        key="ends-later-for-larger-d",
        claim=claim,
        paper="further as D increases",
        ours="one run each; the plateau ends at "
        + "; ".join(
            f"step {plateau.end:.0f} ({plateau.end * runs[size].batch / 1e6:.3g} million tokens)"
            f" for D = {size}"
            if plateau
            else f"no step for D = {size}"
            for size, plateau in plateaus.items()
        ),
        criterion="for every larger D the plateau ends later by more than a tenth, in steps of the"
        " same size",
        agrees=len(ends) == len(runs)
        and same_batch
        and all(MIN_END_RATIO * one < other for one, other in pairwise(ends)),
        why=" ".join(why),
    )
