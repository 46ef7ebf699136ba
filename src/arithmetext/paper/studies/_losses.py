"""What the two studies of losses share: how runs are drawn, and the claims about plateaus."""

from collections.abc import Callable, Mapping, Sequence
from math import floor, log
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ...evaluation.estimates import UNKNOWN, Estimate, all_decided_above
from ...evaluation.learning import BAND, FALL, SLOW
from ..figures import styles
from ..study import Table, Verdict
from ..wording import format_estimate, format_percent, format_range, join, plural, sentences
from ._training_runs import Series, TrainingRun

SHOWN = 20  # validations in the figure, at most
BAND_WIDTH = 9  # of the line that marks a plateau, in points

LabelledSeries = Mapping[str, Series]


def draw_series(
    axes: Axes,
    series: Series,
    lowest: Mapping[int, float],
    dotted: Mapping[int, TrainingRun] | None = None,
) -> None:
    """Losses divided by ln D, and thin lines at the lowest losses without attention."""
    for size, loss in lowest.items():
        axes.axhline(loss / log(size), color=style_of(size, lowest)["color"], lw=0.8, zorder=1)
    for size, runs in series.runs.items():
        style = style_of(size, lowest)
        _draw_plateau(axes, runs[0], size, style["color"])
        for run in runs:
            draw_training(axes, run, size, color=style["color"], ls=style["ls"], lw=0.9)
        _draw_validation(axes, runs[0], size, style)
    for size, run in (dotted or {}).items():
        draw_smoothed(axes, run, size, color=style_of(size, lowest)["color"], ls=":", lw=1.8)
    axes.set_xscale("log")
    axes.grid(alpha=0.3)
    axes.set_xlabel("training step")
    axes.set_ylabel("loss / ln D")


def draw_training(axes: Axes, run: TrainingRun, size: int, **style: Any) -> None:
    steps, losses = np.array(run.record.training).T
    axes.plot(steps, losses / log(size), **style)


def draw_smoothed(axes: Axes, run: TrainingRun, size: int, **style: Any) -> None:
    axes.plot(run.curve.steps, np.array(run.curve.losses) / log(size), **style)


def _draw_plateau(axes: Axes, run: TrainingRun, size: int, colour: str) -> None:
    """A pale band along the curve."""
    if plateau := run.curve.plateau:
        steps = np.geomspace(plateau.begin, plateau.end, 50)
        losses = [run.curve.loss_at(step) / log(size) for step in steps]
        axes.plot(steps, losses, color=colour, lw=BAND_WIDTH, alpha=0.3, solid_capstyle="butt")


def _draw_validation(axes: Axes, run: TrainingRun, size: int, style: Mapping[str, Any]) -> None:
    rows = run.record.validation
    stride = -(-len(rows) // SHOWN) or 1
    points = [
        (row["step"], row["validation_loss"] / log(size))
        for row in rows[(len(rows) - 1) % stride :: stride]
    ]
    x, y = np.array(points).reshape(-1, 2).T
    axes.plot(x, y, style["marker"], color=style["color"], markerfacecolor="white", ms=5)


def style_of(size: int, sizes: Mapping[int, Any]) -> dict[str, Any]:
    """The style of a vocabulary: the same in all panels."""
    return styles()[list(sizes).index(size)]


def draw_legend(axes: Axes, sizes: Mapping[int, Any], others: Mapping[str, str]) -> None:
    """A legend of the sizes, of plateaus, and of `others`, in the line styles given there."""
    handles = [
        Line2D([], [], markerfacecolor="white", ms=5, lw=1.3, label=f"D = {size}", **style)
        for size, style in zip(sizes, styles(), strict=False)
    ]
    if any(line.get_linewidth() == BAND_WIDTH for line in axes.lines):
        handles.append(Line2D([], [], color="0.5", lw=BAND_WIDTH, alpha=0.4, label="plateau"))
    handles += [
        Line2D([], [], color="0.3", lw=1.8, ls=line, label=label) for label, line in others.items()
    ]
    handles.append(Line2D([], [], color="0.3", lw=0.8, label="lowest without attention"))
    axes.legend(handles=handles, fontsize=8, loc="lower left", handlelength=3, frameon=False)


def describe_training(series: Sequence[Series]) -> str:
    """The model, its batches and how long it was trained, in a sentence."""
    runs = [run for each in series for same in each.runs.values() for run in same]
    seeds = sorted({run.seed for run in runs})
    warmups = list(dict.fromkeys(run.record.config["training"]["warmup"] for run in runs))
    model, steps = runs[0].record.config["model"], sorted({run.last_step for run in runs})
    count = plural(len(seeds), "seed") if len(seeds) > 1 else "One seed"
    trained = (
        f"{count} for each D, {warmups[0]} warm-up steps"
        if len(warmups) == 1
        else f"{count} for each D and each warm-up of the learning rate"
        f" ({join(map(str, warmups))} steps)"
    )
    return (
        f"{trained}: {model['layers']} layers of {model['heads']} heads, L = {model['context']},"
        f" {model['positions']} positions, {join(f'{count:,}' for count in steps)} steps of"
        f" {runs[0].batch:,} tokens on {runs[0].record.environment['device']}."
    )


def describe_plateaus(series: LabelledSeries) -> str:
    """How many runs leave a plateau, and when, in two sentences."""
    ends = {
        label: {
            size: [run.curve.plateau.end for run in same if run.curve.plateau]
            for size, same in each.runs.items()
        }
        for label, each in series.items()
        if each.runs
    }
    counts = "; ".join(
        f"with {label}, {sum(map(len, left.values()))} of"
        f" {sum(map(len, series[label].runs.values()))}"
        for label, left in ends.items()
    )
    label, first = next(((a, left) for a, left in ends.items() if any(left.values())), ("", {}))
    steps = [f"{np.mean(each):.0f} for D = {size}" for size, each in first.items() if each]
    return sentences(
        f"Runs that leave a plateau of the loss: {counts}.",
        f"With {label} it ends at step {join(steps)} (means over seeds)." if steps else "",
    )


def define_plateau() -> str:
    """How plateaus are found, for captions."""
    return (
        "A plateau is where learning (−d loss / d ln step, smoothed) slows to less than"
        f" {format_percent(SLOW)} of its speed before and after, with a fall of at least"
        f" {format_percent(FALL)} on either side."
        f" It lasts while the loss stays within {format_percent(BAND)} of its value where learning"
        " is slowest."
    )


def describe_lowest_losses(lowest: Mapping[int, float], *, seen: str) -> str:
    """The lowest losses without attention, to compare with the levels of plateaus."""
    shares = join(f"{loss / log(size):.3f}" for size, loss in lowest.items())
    return f"The lowest loss without attention, where a model sees only {seen}, is {shares} ln D."


def run_table(runs: Sequence[tuple[str, int, TrainingRun]]) -> Table:
    """A row for each run; the runs come with a remark and with D."""
    header = ["D", "warm-up", "seed", "learning rate", "positions", "remark", "steps"]
    header += ["tokens per step", "plateau begins", "plateau ends", "million tokens at its end"]
    header += ["plateau loss / ln D", "last validation loss / ln D"]
    header += ["lowest without attention / ln D"]
    rows = []
    for remark, size, run in runs:
        config, plateau = run.record.config, run.curve.plateau
        training, validation = config["training"], run.record.validation
        found = (
            [
                round(plateau.begin, 1),
                round(plateau.end, 1),
                round(plateau.end * run.batch / 1e6, 2),
                round(plateau.loss / log(size), 4),
            ]
            if plateau
            else [""] * 4
        )
        last = round(validation[-1]["validation_loss"] / log(size), 4) if validation else ""
        rows.append(
            [
                *(size, training["warmup"], run.seed, training["lr"], config["model"]["positions"]),
                *(remark, run.last_step, run.batch),
                *found,
                *(last, round(run.lowest / log(size), 4)),
            ]
        )
    return header, rows


def plateau_verdict(
    series: LabelledSeries,
    *,
    claim: str,
    paper: str,
    why: str,
    beside: LabelledSeries | None = None,
) -> Verdict:
    """Does every loss curve have a plateau?

    The series in `beside` are described and decide nothing.
    """
    without = {
        (label, size): [run for run in same if run.curve.plateau is None]
        for label, each in series.items()
        for size, same in each.runs.items()
    }
    learned = any(run.left_plateau for runs in without.values() for run in runs)
    sizes = {size for _, size in without}
    complete = any(
        each.runs.keys() == sizes and not any(without[label, size] for size in sizes)
        for label, each in series.items()
        if each.runs
    )
    missing = [
        f"With {label} and D = {size}, runs without a plateau that ended by step"
        f" {runs[0].last_step:,}: {len(runs)} of {len(series[label].runs[size])}, at"
        f" {format_range([run.curve.losses[-1] / log(size) for run in runs], 3)} ln D."
        for (label, size), runs in without.items()
        if runs
    ]
    return Verdict(
        key="plateau",
        claim=claim,
        paper=paper,
        ours=_by_label(series, beside, _describe),
        criterion="with at least one of these settings every run has a plateau; differs if a run"
        f" has none and yet learned, which means that it ends {format_percent(FALL)} below the"
        " lowest loss without attention; runs that end on their plateau decide nothing",
        agrees=False if learned else True if complete else None,
        why=" ".join([*missing, why]),
    )


def _describe(series: Series) -> str:
    """How many runs have a plateau, and at which loss."""
    parts = []
    for size, runs in series.runs.items():
        levels = [run.curve.plateau.loss / log(size) for run in runs if run.curve.plateau]
        number = f"{len(levels)} of {plural(len(runs), 'run')}"
        parts.append(
            f"D = {size}: {number}, at {format_range(levels, 3)} ln D"
            if levels
            else _none_left(size, runs)
        )
    return "; ".join(parts)


def _none_left(size: int, runs: Sequence[TrainingRun]) -> str:
    return f"D = {size}: no run left a plateau by step {runs[0].last_step:,}"


def _by_label(
    series: LabelledSeries, beside: LabelledSeries | None, describe: Callable[[Series], str]
) -> str:
    decide = [
        f"With {label}: {describe(each)}" if each.runs else no_runs(label)
        for label, each in series.items()
    ]
    others = [
        f"With {label}: {describe(each)}" for label, each in (beside or {}).items() if each.runs
    ]
    return ". ".join(decide + others)


def no_runs(label: str) -> str:
    return f"no runs with {label}, which decide here"


def ends_later_verdict(
    series: LabelledSeries,
    *,
    claim: str,
    beside: LabelledSeries | None = None,
    spread: str = "",
) -> Verdict:
    """Does the plateau end later for a larger vocabulary, over seeds and in every series?

    The series in `beside` are described and decide nothing. `spread` says what is assumed about the
    spread over seeds.
    """
    ratios = [ratio for each in series.values() for ratio in each.later.values()]
    agrees = all_decided_above(ratios, 1) if ratios else None
    return Verdict(
        key="ends-later-for-larger-d",
        claim=claim,
        paper="further as D increases",
        ours=_by_label(series, beside, _ends),
        criterion="for each larger D the plateau ends later than for the next smaller one: the"
        f" ratio of geometric means over seeds is above 1 with its whole interval (Student's"
        f" t{spread}; the last step of runs that end on their plateau is a lower bound, and the"
        " spread over seeds is taken from the smaller D); differs if an interval is below 1",
        agrees=agrees,
        why="" if agrees is not None else why_undecided(ratios),
    )


def why_undecided(ratios: Sequence[Estimate]) -> str:
    if not ratios:
        return "There are no runs to compare."
    if any(ratio.value is None for ratio in ratios):
        return "A run has no plateau, or is still on it."
    if any(ratio.low == 0 for ratio in ratios):
        return "One seed for each D gives no interval."
    return "An interval includes 1."


def _ends(series: Series) -> str:
    """The ends of plateaus by seed, and how many times later they are for a larger D."""
    parts = []
    for size, runs in series.runs.items():
        ends = [run.curve.plateau.end for run in runs if run.curve.plateau]
        text = _none_left(size, runs)
        if ends:
            text = f"D = {size} ends at step {join(f'{end:.0f}' for end in ends)}"
            text += (
                f" ({format_range([end * runs[0].batch / 1e6 for end in ends], 1)} million tokens)"
            )
        if 0 < len(ends) < len(runs):
            text += f" in {len(ends)} of {plural(len(runs), 'run')}"
        ratio = series.later.get(size, UNKNOWN)
        if (ends and ratio.value is not None) or ratio.low:
            text += f", {describe_ratio(ratio)} times as late"
        parts.append(text)
    return "; ".join(parts)


def describe_ratio(ratio: Estimate, digits: int = 2) -> str:
    """A ratio with its interval; without an upper limit, its lower limit or the ratio alone."""
    if ratio.low is None or ratio.high != np.inf:
        return format_estimate(ratio, digits)
    if ratio.low > 0:
        return f"at least {floor(ratio.low * 10**digits) / 10**digits:.{digits}f}"
    return f"{ratio.value:.{digits}f}"
