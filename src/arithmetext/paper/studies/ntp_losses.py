"""Loss curves of next-token prediction for three vocabularies (the paper's NTP losses)."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import (
    UNKNOWN,
    Estimate,
    all_of,
    decided_within,
    ratio_of_geometric_means,
)
from ...evaluation.learning import BAND
from ...training.recipes import SIZES
from ..figures import styles
from ..runs import TrainedModel
from ..study import Table, Verdict, if_papers_model
from ..wording import format_percent
from ._losses import (
    define_plateau,
    describe_lowest_losses,
    describe_plateaus,
    describe_ratio,
    describe_training,
    draw_legend,
    draw_series,
    ends_later_verdict,
    plateau_verdict,
    run_table,
)
from ._training_runs import (
    Series,
    TrainingRun,
    load,
    lowest_losses,
    measure,
    models_by_warmup,
    short_run,
)

TITLE = "Learning to predict the next token"
ORDER = 100
COST = {"laptop": 50, "gpu": 1150}
PAPER_PARAMETERS = 8.7e7
PAPER_SHAPE = (12, 12, 1024)  # layers, heads, L
CONTROL_WARMUP = 300

# The plateaus of a model and its control begin at the same step if these differ by less than this
# factor. With this warm-up, the beginnings of two D differ by factors of 1.6 and 2.1, those of two
# seeds by up to 1.08.
SAME_BEGIN = 1.5


@dataclass(frozen=True)
class Settings:
    models: dict[int, dict[int, tuple[TrainedModel, ...]]]  # by warm-up and D, one for each seed
    without_attention: dict[int, TrainedModel]  # controls by D, like the first of CONTROL_WARMUP


@dataclass(frozen=True)
class Control:
    """A run in which attention adds nothing, beside the same run with attention."""

    run: TrainingRun
    # Ratios to the seeds with attention where their plateau is slowest; unknown without a plateau:
    level: Estimate  # of the losses
    begin: Estimate  # of the steps since which the loss has been at this level
    # As shares of the loss on the plateau; None if the model has no plateau:
    reached: float | None  # the lowest loss of the control
    possible: float | None  # the lowest loss that is possible without attention


@dataclass(frozen=True)
class Result:
    series: dict[int, Series]  # by warm-up
    controls: dict[int, Control]  # by D
    parameters: dict[int, int]
    lowest: dict[int, float]  # the lowest loss without attention, in nats per token
    stand_in: str  # why these are not the paper's models


def settings(scale: str) -> Settings:
    controls = {
        size: short_run("ntp", size, f"training.warmup={CONTROL_WARMUP}", "model.attention=off")
        for size in SIZES
    }
    return Settings(models_by_warmup("ntp", scale, SIZES), controls if scale == "gpu" else {})


def run(settings: Settings) -> Result:
    first = next(iter(settings.models.values()))
    lowest = lowest_losses(first)
    series = {warmup: measure(models, lowest) for warmup, models in settings.models.items()}
    return Result(
        series=series,
        controls={
            size: compare_control(
                load(model, lowest[size]), series[CONTROL_WARMUP].runs[size], lowest[size]
            )
            for size, model in settings.without_attention.items()
        },
        parameters={size: same[0].parameters() for size, same in first.items()},
        lowest=lowest,
        stand_in=first[256][0].stand_in,
    )


def compare_control(control: TrainingRun, runs: Sequence[TrainingRun], lowest: float) -> Control:
    """Compare a control with runs of several seeds, where the first of them learns slowest."""
    plateau = runs[0].curve.plateau
    if plateau is None:
        return Control(control, UNKNOWN, UNKNOWN, None, None)
    curves, step = [run.curve for run in runs], plateau.slowest
    return Control(
        control,
        level=ratio_of_geometric_means(
            [control.curve.loss_at(step)], [curve.loss_at(step) for curve in curves]
        ),
        begin=ratio_of_geometric_means(
            [control.curve.settled_by(step)], [curve.settled_by(step) for curve in curves]
        ),
        reached=min(control.curve.losses) / plateau.loss,
        possible=lowest / plateau.loss,
    )


def plot(result: Result) -> Figure:
    panels = len(result.series) + 1
    figure = Figure(figsize=(4.4 * panels, 4.2), layout="constrained")
    *left, right = figure.subplots(1, panels)
    controls = {size: control.run for size, control in result.controls.items()}
    for axes, (warmup, series) in zip(left, result.series.items(), strict=True):
        shown = controls if warmup == CONTROL_WARMUP else {}
        draw_series(axes, series, result.lowest, dotted=shown)
        axes.set_title(f"warm-up of {warmup:,} steps", fontsize=10)
    draw_legend(left[0], result.lowest, {"no attention": ":"} if controls else {})
    _draw_ends(right, result)
    return figure


def _draw_ends(axes: Axes, result: Result) -> None:
    """Where the plateau of each run ends, and lines through the means over seeds."""
    for (warmup, series), style in zip(result.series.items(), styles(), strict=False):
        ends = {
            size: [run.curve.plateau.end for run in runs if run.curve.plateau]
            for size, runs in series.runs.items()
        }
        points = [(size, end) for size, several in ends.items() for end in several]
        means = [(size, sum(several) / len(several)) for size, several in ends.items() if several]
        for size, runs in series.runs.items():
            if last := [run.last_step for run in runs if run.curve.ends_on_plateau]:
                axes.plot(size, max(last), "^", color="0.3", markerfacecolor="0.3")
        if points:
            axes.plot(*zip(*means, strict=True), color="0.3", ls=style["ls"], lw=1)
            axes.plot(
                *zip(*points, strict=True),
                style["marker"],
                color="0.3",
                markerfacecolor="white",
                label=f"warm-up of {warmup:,} steps",
            )
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(result.lowest), [str(size) for size in result.lowest])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.set_xlabel("size D of the vocabulary")
    axes.set_ylabel("step at which the plateau ends")
    axes.set_title("one marker per run", fontsize=10)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, frameon=False, loc="lower right")


def in_short(result: Result) -> str:
    return describe_plateaus(
        {f"{warmup:,} warm-up steps": each for warmup, each in result.series.items()}
    )


def caption(result: Result) -> str:
    control = (
        " Dotted: a control in which attention adds nothing, trained in the same way (seed 0)."
        if result.controls
        else ""
    )
    return (
        "Loss of next-token prediction during training, divided by ln D, the loss of a uniform"
        " guess. Lines are the training loss of each seed (averaged over neighbouring steps),"
        " markers the validation loss of the first seed, pale bands its plateau."
        f"{control} Thin horizontal lines: the lowest loss possible without attention, when only"
        " the token before is seen. Last panel: the step at which each plateau ends; the line joins"
        " the means over seeds; a triangle at the last step is a run that ends on its plateau."
        f" {describe_training(list(result.series.values()))} {define_plateau()}"
    )


def table(result: Result) -> Table:
    runs = [
        ("", size, run)
        for series in result.series.values()
        for size, same in series.runs.items()
        for run in same
    ]
    controls = [("no attention", size, control.run) for size, control in result.controls.items()]
    return run_table([*runs, *controls])


def verdicts(result: Result) -> list[Verdict]:
    series = {f"warm-up {warmup:,}": each for warmup, each in result.series.items()}
    about_learning = [
        plateau_verdict(
            series,
            claim="After a rapid decrease the loss rests on a brief plateau before a second"
            " descent, for every D.",
            paper="all three curves do",
            why=describe_lowest_losses(result.lowest, seen="the previous token"),
        ),
        ends_later_verdict(series, claim="The plateau extends further in training as D increases."),
        _has_two_phases(result),
    ]
    return [*if_papers_model(about_learning, result.stand_in), _has_parameters(result)]


def _has_two_phases(result: Result) -> Verdict:
    """Without attention, is the first phase the same, and the second one missing?"""
    agrees, why = _decide_phases(result)
    band = format_percent(BAND)
    described = "; ".join(
        f"D = {size}: {_describe_control(control)}" for size, control in result.controls.items()
    )
    return Verdict(
        key="two-phases",
        claim="The model might first discover some basic properties, and learn more complex"
        " relations only after the plateau.",
        paper="suggested by the plateau",
        ours="a control without attention, which cannot relate tokens, beside the same model with"
        f" attention: {described}"
        if described
        else "no control was trained",
        criterion="for every D the control reaches the level of the model's plateau, within"
        f" {band} (the width of a plateau), and at the same step, within a factor of {SAME_BEGIN:g}"
        " (the beginnings of two D differ by more), with the whole intervals (Student's t over the"
        " model's seeds; equal spread of the control), and leaves no plateau; differs if an"
        f" interval is outside, or if the control falls more than {band} below the plateau",
        agrees=agrees,
        why=why,
    )


def _decide_phases(result: Result) -> tuple[bool | None, str]:
    """The outcome, and the reason for it."""
    controls = list(result.controls.values())
    if len(controls) < len(result.lowest):
        return None, "For some D no model was trained without attention."
    reached = [control.reached for control in controls if control.reached is not None]
    if len(reached) < len(controls):
        return None, "A model with attention has no plateau."
    if min(reached) < 1 - BAND:
        return False, "The control leaves the plateau too."
    follows = all_of(
        outcome
        for control in controls
        for outcome in (
            decided_within(control.level, 1 - BAND, 1 + BAND),
            decided_within(control.begin, 1 / SAME_BEGIN, SAME_BEGIN),
        )
    )
    if follows is False:
        return False, "The control does not follow the model: attention matters before the plateau."
    why = [] if follows else ["An interval contains a limit, so it is open whether it follows."]
    if all(control.possible is not None and control.possible >= 1 - BAND for control in controls):
        why.append(
            "That the control stays on the plateau holds by construction: without attention no"
            " lower loss is possible. What is tested is that it follows the model until then."
        )
    return follows, " ".join(why)


def _describe_control(control: Control) -> str:
    if control.reached is None or control.possible is None:
        return "the model has no plateau"
    return (
        f"it has {describe_ratio(control.level, 3)} times the loss on the plateau, reaches it after"
        f" {describe_ratio(control.begin)} times the steps, and by step {control.run.last_step:,}"
        f" falls to {control.reached:.3f} of it, where {control.possible:.3f} is possible"
    )


def _has_parameters(result: Result) -> Verdict:
    """The models are as large as the paper's, if they have its shape."""
    runs = next(iter(result.series.values())).runs.values()
    models = [run.record.config["model"] for same in runs for run in same]
    shapes = {(model["layers"], model["heads"], model["context"]) for model in models}
    counts = result.parameters
    tested = shapes == {PAPER_SHAPE}
    near = all(abs(count / PAPER_PARAMETERS - 1) < 0.02 for count in counts.values())
    layers, heads, context = PAPER_SHAPE
    return Verdict(
        key="parameters",
        claim="The model has 8.7e7 trainable parameters.",
        paper="8.7e7",
        ours="exactly " + ", ".join(f"{count:,} for D = {size}" for size, count in counts.items()),
        criterion="all parameter counts are within 2 % of the paper's",
        agrees=near if tested else None,
        why=f"To two digits {', '.join(f'{count:.1e}' for count in counts.values())}. Input and"
        " output share one embedding matrix."
        if tested
        else "These models do not have the paper's shape:"
        f" {layers} layers of {heads} heads and L = {context}.",
    )
