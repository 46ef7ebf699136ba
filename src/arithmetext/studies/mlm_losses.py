"""Loss curves of masked modelling for two vocabularies (the paper's figure of MLM losses)."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from ..reproduction import learning, record
from . import Verdict
from ._losses import (
    draw,
    draw_speeds,
    extends,
    how_trained,
    legend,
    of_uniform,
    seen,
    what_a_plateau_is,
)
from ._losses import table as curves_table

TITLE = "Learning to fill gaps"
PLACE = 170
COST = {"laptop": 50, "gpu": 700}


def settings(scale: str) -> dict[str, Any]:
    return {"trained": {str(size): learning("mlm", scale, size) for size in (64, 256)}}


def run(settings: dict[str, Any]) -> dict[str, Any]:
    return {size: record(recipe) for size, recipe in settings["trained"].items()}


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw(left, data, of_uniform)
    left.set_ylabel("loss, as a share of ln D")
    legend(left, data)
    draw_speeds(right, data)
    right.set_ylabel("fall of loss / ln D while steps grow e-fold")
    for axes in (left, right):
        axes.set_xlabel("training step")
    return figure


def caption(data: dict[str, Any]) -> str:
    return (
        "Loss of masked modelling while it is learned, taken over the tokens to be filled in."
        " Left, divided by ln D, the loss of a guess: training as lines (means over steps that are"
        " near each other on the axis), validation as marks, plateaus as pale bands. Right, how"
        " fast it falls: a plateau is a valley, its slowest place is marked."
        f" {how_trained(data)} {what_a_plateau_is()}"
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    header, rows = curves_table(data)
    dropped = header.index("validation, nats a word")  # which gaps do not have

    def kept(row: Sequence[Any]) -> list[Any]:
        return [*row[:dropped], *row[dropped + 1 :]]

    return kept(header), [kept(row) for row in rows]


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    return [
        seen(
            data,
            claim="In masked modelling too the loss rests on a plateau before a second descent.",
            paper="for both D, even more evident than in next-token prediction",
            why="Whether it is more evident is not decided here: this figure has no curve of"
            " next-token prediction; see the same numbers beside that one.",
        ),
        extends(data, claim="The plateau of masked modelling extends further as D increases."),
    ]
