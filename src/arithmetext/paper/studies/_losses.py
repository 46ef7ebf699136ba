"""What the two studies of losses share: how curves are drawn, and the claims about plateaus.

`data` is what such a study has: a record (training/run_cache.py) for each vocabulary size D.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from math import log
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ...evaluation.learning import BAND, FALL, SLOW, WIDTH, Plateau, plateau, smoothed
from ..figures import COLOURS, LINES, MARKS
from ..study import Verdict

Scale = Callable[[int, dict[str, Any]], tuple[float, float]]

SHOWN = 20  # validations
LATER = 1.1  # times as many steps: less is not told apart


def of_uniform(size: int, record: dict[str, Any]) -> tuple[float, float]:
    """Steps as they are, and the loss divided by that of a guess among D tokens."""
    return 1.0, 1 / log(size)


def draw(axes: Axes, data: dict[str, Any], scale: Scale) -> None:
    """Training as lines, validation as marks, and the plateau as a pale band along the line."""
    for (size, record), style in zip(data.items(), _styles(), strict=False):
        across, up = scale(int(size), record)
        steps, losses, _ = smoothed(record)
        pause = plateau(record)
        if pause:
            inside = (steps >= pause.begin) & (steps <= pause.end)
            axes.plot(
                steps[inside] * across,
                losses[inside] * up,
                color=style["color"],
                lw=9,
                alpha=0.3,
                solid_capstyle="butt",
            )
        raw = np.array(record["training"]) * (across, up)
        axes.plot(*raw.T, color=style["color"], ls=style["ls"], lw=1.3)
        rows = _few(record["validation"])
        axes.plot(
            [row["step"] * across for row in rows],
            [row["validation_loss"] * up for row in rows],
            style["marker"],
            color=style["color"],
            markerfacecolor="white",
            ms=5,
        )
    axes.set_xscale("log")
    axes.grid(alpha=0.3)


def draw_without_attention(axes: Axes, least: dict[str, float]) -> Line2D:
    """For each D, the least loss without attention, as a share of ln D; what the legend shows."""
    for (size, loss), style in zip(least.items(), _styles(), strict=False):
        axes.axhline(loss / log(int(size)), color=style["color"], lw=0.8, zorder=1)
    return Line2D([], [], color="0.3", lw=0.8, label="least without attention")


def draw_speeds(axes: Axes, data: dict[str, Any]) -> None:
    """How fast the loss falls; a plateau is a valley, its slowest place is marked."""
    for (size, record), style in zip(data.items(), _styles(), strict=False):
        steps, _, speeds = smoothed(record)
        axes.plot(steps, speeds / log(int(size)), color=style["color"], ls=style["ls"], lw=1.3)
        pause = plateau(record)
        if pause:
            axes.plot(
                pause.slowest,
                np.interp(pause.slowest, steps, speeds) / log(int(size)),
                style["marker"],
                color=style["color"],
                ms=8,
            )
    axes.set_xscale("log")
    axes.grid(alpha=0.3)


def legend(axes: Axes, data: dict[str, Any], *others: Line2D) -> None:
    """What the lines are; `others` have labels of their own."""
    handles = [
        Line2D([], [], markerfacecolor="white", ms=5, lw=1.3, label=f"D = {size}", **style)
        for size, style in zip(data, _styles(), strict=False)
    ]
    if any(plateau(record) for record in data.values()):
        handles.append(Line2D([], [], color="0.5", lw=9, alpha=0.4, label="plateau"))
    axes.legend(
        handles=[*handles, *others], fontsize=8, loc="lower left", handlelength=3, frameon=False
    )


def _styles() -> list[dict[str, Any]]:
    return [
        {"color": colour, "ls": line, "marker": mark}
        for colour, line, mark in zip(COLOURS, LINES, MARKS, strict=True)
    ]


def _few(rows: Sequence[Any]) -> Sequence[Any]:
    """Some of many, the last among them."""
    each = -(-len(rows) // SHOWN) or 1
    return rows[(len(rows) - 1) % each :: each]


def how_trained(data: dict[str, Any]) -> str:
    """Of all runs, in a sentence: model, batch, text and time."""
    configs = [record["config"] for record in data.values()]
    model, training = configs[0]["model"], configs[0]["training"]
    seconds = [record["seconds"] for record in data.values()]
    return (
        f"One run for each D (seed {configs[0]['seed']}) of a model with {model['layers']} layers"
        f" of {model['heads']} heads, L = {model['context']} and {training['batch']:,} tokens a"
        f" step, the learning rate rising for {training['warmup']:,} steps,"
        f" {_listed(f'{_last(record):,}' for record in data.values())} steps,"
        f" {_listed(f'{each:.0f}' for each in seconds)} seconds on"
        f" {next(iter(data.values()))['environment']['device']}."
    )


def what_a_plateau_is() -> str:
    """For captions: how the pale bands were found."""
    return (
        f"A plateau is found where learning, −dloss/dln(step) smoothed over {WIDTH:g} in ln(step),"
        f" slows to less than {100 * SLOW:.0f} % of its speed before and after, with a fall of at"
        f" least {100 * FALL:.0f} % on either side; it is taken to last while the loss is within"
        f" {100 * BAND:.0f} %."
    )


def about_least(least: dict[str, float], *, seen: str) -> str:
    """How low a model can get without attention, for the reader who sees how high plateaus lie."""
    said = _listed(f"{loss / log(int(size)):.3f}" for size, loss in least.items())
    return f"The least without attention, if only {seen} is seen, is {said} ln D."


def table(
    data: dict[str, Any], least: dict[str, float], *, places: bool = True
) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    """The curves at powers of two, at validations, and where the plateau lies."""
    header = ["D", "step", "tokens read", "training loss / ln D", "validation loss / ln D"]
    header += ["validation, nats a word", "least without attention / ln D", "where"]
    rows = []
    for size, record in data.items():
        batch, unit = record["config"]["training"]["batch"], log(int(size))
        steps, losses, _ = smoothed(record)
        checked = {row["step"]: row for row in _few(record["validation"])}
        pause = plateau(record) if places else None
        marked = _places(pause) if pause else {}
        powers = {2**k for k in range(int(steps[-1]).bit_length())}
        for step in sorted(powers | set(checked) | set(marked)):
            row = checked.get(step, {})
            loss, nats = row.get("validation_loss"), row.get("validation_nats_per_word")
            rows.append(
                [
                    int(size),
                    step,
                    step * batch,
                    round(float(np.interp(log(step), np.log(steps), losses)) / unit, 4),
                    "" if loss is None else round(loss / unit, 4),
                    "" if nats is None else round(nats, 3),
                    round(least[size] / unit, 4),
                    marked.get(step, ""),
                ]
            )
    return header, rows


def _places(pause: Plateau) -> dict[int, str]:
    return {
        round(pause.steepest): "second descent steepest",
        round(pause.begin): "plateau begins",
        round(pause.end): "plateau ends",
        round(pause.slowest): "slowest place of the plateau",
    }


def seen(data: dict[str, Any], *, claim: str, paper: str, why: str = "") -> Verdict:
    """That every curve has a plateau."""
    pauses = {size: plateau(record) for size, record in data.items()}
    return Verdict(
        claim=claim,
        paper=paper,
        ours="; ".join(f"D = {size}: {_said(int(size), each)}" for size, each in pauses.items())
        + " (one run each; agrees if all have one)",
        agrees=all(pauses.values()),
        why=" ".join(
            [
                f"No second descent by step {_last(data[size]):,} for D = {size}: the run ends"
                " before it or does not pause."
                for size, each in pauses.items()
                if each is None
            ]
            + [why] * bool(why)
        ),
    )


def extends(data: dict[str, Any], *, claim: str) -> Verdict:
    """That the plateau ends later for a larger vocabulary."""
    pauses = {size: plateau(record) for size, record in data.items()}
    ends = [each.end for each in pauses.values() if each]
    batches = {record["config"]["training"]["batch"] for record in data.values()}
    lengths = {record["config"]["training"]["steps"] for record in data.values()}
    why = [
        f"For D = {size} it has not ended by step {_last(data[size]):,}, if it is one."
        for size, each in pauses.items()
        if each is None
    ]
    if len(batches) > 1:
        why.append("The runs differ in the size of their steps, so these cannot be compared.")
    if len(lengths) > 1:
        why.append("The runs differ in length, and so in how fast their learning rate falls.")
    warmups = [record["config"]["training"]["warmup"] for record in data.values()]
    if ends and max(ends) <= min(warmups):
        why.append(f"All end while the learning rate still rises, for {min(warmups):,} steps.")
    return Verdict(
        claim=claim,
        paper="further as D increases",
        ours="it ends at "
        + "; ".join(
            f"step {each.end:.0f} ({_tokens(each.end, data[size])}) for D = {size}"
            if each
            else f"no step found for D = {size}"
            for size, each in pauses.items()
        )
        + " (one run each; agrees if later by a tenth for every larger D)",
        agrees=len(ends) == len(data)
        and len(batches) == 1
        and all(LATER * one < other for one, other in pairwise(ends)),
        why=" ".join(why),
    )


def _said(size: int, pause: Plateau | None) -> str:
    if pause is None:
        return "none found"
    earlier = " and one at ".join(f"{step:.0f}" for step in pause.others)
    return (
        f"steps {pause.begin:.0f} to {pause.end:.0f}, at {pause.loss / log(size):.3f} ln D, then a"
        f" descent that is steepest at {pause.steepest:.0f}"
        + (f"; before it a pause at {earlier}" if earlier else "")
    )


def _tokens(step: float, record: dict[str, Any]) -> str:
    return f"{step * record['config']['training']['batch'] / 1e6:.3g} million tokens"


def _last(record: dict[str, Any]) -> int:
    return int(record["tokens"] // record["config"]["training"]["batch"])


def _listed(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last
