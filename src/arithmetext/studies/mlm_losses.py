"""Loss curves of masked modelling for two vocabularies (the paper's figure of MLM losses)."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from ..evaluation.learning import plateau
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
    return {
        "trained": {str(size): learning("mlm", scale, size) for size in (64, 256)},
        "beside": {str(size): learning("ntp", scale, size) for size in (64, 256)},
    }


def run(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        part: {size: record(recipe) for size, recipe in settings[part].items()}
        for part in ("trained", "beside")
    }


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw(left, data["trained"], of_uniform)
    left.set_ylabel("loss, as a share of ln D")
    legend(left, data["trained"])
    draw_speeds(right, data["trained"])
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
        f" {how_trained(data['trained'])} {what_a_plateau_is()}"
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    header, rows = curves_table(data["trained"])
    dropped = header.index("validation, nats a word")  # which gaps do not have

    def kept(row: Sequence[Any]) -> list[Any]:
        return [*row[:dropped], *row[dropped + 1 :]]

    return kept(header), [kept(row) for row in rows]


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    records = data["trained"]
    return [
        seen(
            records,
            claim="In masked modelling too the loss rests on a plateau before a second descent.",
            paper="for both D",
        ),
        extends(records, claim="The plateau of masked modelling extends further as D increases."),
        _more_evident(data),
    ]


def _more_evident(data: dict[str, Any]) -> Verdict:
    masked, causal = (
        {size: _lasts(record) for size, record in data[part].items()}
        for part in ("trained", "beside")
    )
    return Verdict(
        claim="The plateau is more evident in masked modelling than in next-token prediction.",
        paper="even more evident",
        ours="; ".join(
            f"D = {size}: from its first step to its last {_times(masked[size])}, for next tokens"
            f" {_times(causal[size])}"
            for size in masked
        )
        + " (agrees if it lasts longer for every D)",
        agrees=all((masked[size] or 0) > (causal[size] or 0) for size in masked),
        why="A plateau that is not left by the end of a run is not found.",
    )


def _lasts(record: dict[str, Any]) -> float | None:
    """How many times more steps a run has done when its plateau ends."""
    pause = plateau(record)
    return pause.end / pause.begin if pause else None


def _times(ratio: float | None) -> str:
    return f"{ratio:.1f} times as many" if ratio else "none found"
