"""Loss curves of masked modelling for two vocabularies (the paper's figure of MLM losses)."""

from collections.abc import Sequence
from math import log
from typing import Any, NamedTuple

from matplotlib.figure import Figure

from ...evaluation.learning import FALL, plateau, rest, smoothed
from ..figures import COLOURS
from ..runs import learning, masked_like_causal, record, without_attention
from ..study import Verdict
from ._losses import (
    about_least,
    draw,
    draw_speeds,
    draw_without_attention,
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
COST = {"laptop": 50, "gpu": 1250}


def settings(scale: str) -> dict[str, Any]:
    """Models that learn, and pairs with the same positions to compare both tasks."""
    sizes = (64, 256)
    return {
        "trained": {str(size): learning("mlm", scale, size) for size in sizes},
        "masked": {str(size): masked_like_causal(scale, size) for size in sizes},
        "causal": {str(size): learning("ntp", scale, size) for size in sizes},
    }


def run(settings: dict[str, Any]) -> dict[str, Any]:
    records = {
        part: {size: record(recipe) for size, recipe in settings[part].items()}
        for part in ("trained", "masked", "causal")
    }
    return records | {"without_attention": without_attention(settings["trained"])}


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw(left, data["trained"], of_uniform)
    colours = dict(zip(data["trained"], COLOURS, strict=False))
    dotted = [
        left.plot(
            smoothed(other)[0],
            smoothed(other)[1] / log(int(size)),
            ":",
            color=colours[size],
            lw=1.6,
            label=f"D = {size}, {_positions(other)} positions",
        )[0]
        for size, other in _others(data).items()
    ]
    left.set_ylabel("loss, as a share of ln D")
    level = draw_without_attention(left, data["without_attention"])
    legend(left, data["trained"], level, *dotted)
    draw_speeds(right, data["trained"])
    right.set_ylabel("fall of loss / ln D while steps grow e-fold")
    for axes in (left, right):
        axes.set_xlabel("training step")
    return figure


def caption(data: dict[str, Any]) -> str:
    return (
        "Loss of masked modelling while it is learned, taken over the tokens to be filled in."
        " Left, divided by ln D, the loss of a guess: training as lines (means over steps that are"
        " near each other on the axis), validation as marks, plateaus as pale bands; thin lines are"
        " the least that a model can have without attention, which sees the gap and no other token"
        " (some gaps show a token, the true one or another). Right, how fast it falls:"
        " a plateau is a valley, its slowest place is marked."
        f" {how_trained(data['trained'])}{_about_others(data)} {what_a_plateau_is()}"
    )


def _about_others(data: dict[str, Any]) -> str:
    others = _others(data)
    if not others:
        return ""
    trained, other = next(iter(data["trained"].values())), next(iter(others.values()))
    return (
        f" Its positions are {_positions(trained)}; dotted lines are for {_positions(other)} ones,"
        " as GPT-2 has them, and may be shorter."
    )


def _others(data: dict[str, Any]) -> dict[str, Any]:
    """The runs that are not among those which learn."""
    return {
        size: record
        for size, record in data["masked"].items()
        if record["config"] != data["trained"][size]["config"]
    }


def _positions(record: dict[str, Any]) -> str:
    positions: str = record["config"]["model"]["positions"]
    return positions


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    def kept(row: Sequence[Any], positions: str) -> list[Any]:
        return [positions, *row[:dropped], *row[dropped + 1 :]]

    rows = []
    for records, places in ((data["trained"], True), (_others(data), False)):
        # Those beside may rest on their plateau for good, which has no place where it ends.
        header, found = curves_table(records, data["without_attention"], places=places)
        dropped = header.index("validation, nats a word")  # which gaps do not have
        rows += [kept(row, _positions(records[str(row[0])])) for row in found]
    return kept(header, "positions"), rows


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    records = data["trained"]
    return [
        seen(
            records,
            claim="In masked modelling too the loss rests on a plateau before a second descent.",
            paper="for both D",
            why=f"With {_positions(next(iter(records.values())))} positions. "
            + about_least(data["without_attention"], seen="what stands in the gap"),
        ),
        extends(records, claim="The plateau of masked modelling extends further as D increases."),
        _more_evident(data),
    ]


def _more_evident(data: dict[str, Any]) -> Verdict:
    lasting = {
        size: (_lasts(record, data["trained"][size]), _lasts(data["causal"][size], None))
        for size, record in data["masked"].items()
    }
    return Verdict(
        claim="The plateau is more evident in masked modelling than in next-token prediction.",
        paper="even more evident",
        ours="; ".join(
            f"D = {size}, {_positions(data['masked'][size])} positions: from its first step to its"
            f" last {_times(masked)}, for next tokens {_times(causal)}"
            for size, (masked, causal) in lasting.items()
        )
        + " (agrees if it lasts longer for every D)",
        agrees=all(masked.ratio > causal.ratio for masked, causal in lasting.values()),
        why="A plateau of masked modelling that is not left by the end of a run is found only where"
        " another run, with other positions, shows that there is more to learn.",
    )


class _Lasting(NamedTuple):
    """How many times more steps a run has done when its plateau ends, or else the run."""

    ratio: float
    ended: bool


_NONE = _Lasting(0, True)


def _lasts(record: dict[str, Any], learned: dict[str, Any] | None) -> _Lasting:
    """The longest of its plateaus. One at the end counts if a run that learned got below it.

    Where there is no such run to tell, it counts if there is no other.
    """
    found = [_NONE]
    pause = plateau(record)
    if pause:
        found.append(_Lasting(pause.end / pause.begin, ended=True))
    begin, loss = rest(record)
    more_to_learn = rest(learned)[1] <= (1 - FALL) * loss if learned else not pause
    if more_to_learn:
        found.append(_Lasting(smoothed(record)[0][-1] / begin, ended=False))
    return max(found)


def _times(lasting: _Lasting) -> str:
    if lasting == _NONE:
        return "none found"
    return f"{'' if lasting.ended else 'at least '}{lasting.ratio:.1f} times as many"
