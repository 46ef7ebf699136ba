"""Loss curves of masked modelling for two vocabularies (the paper's figure of MLM losses).

The paper's model has learned positions. With them, short runs do not leave their plateau: there is
one of 2,000 steps for each D and, for D = 256, one of 20,000 small steps. On a plateau the losses
of different learning rates hardly differ, so short masked runs cannot tell rates apart. The rate of
the long run is therefore the one that is best for next-token prediction with the same model and
the same small steps. Several seeds at that rate show when next-token prediction leaves its plateau.

With rotary positions, masked runs do leave their plateau; they show what another model does and
decide no claim.

The paper masks 15 % of the tokens, and says that a token is predicted from a sequence in which it
alone is masked. All other runs mask 15 % at once, as is usual; one masks one token in each window.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import decided_above
from ...evaluation.learning import Longer, length_ratios
from ..runs import TrainedModel, mlm_with_learned_positions, with_vocabulary
from ..study import Table, Verdict, if_papers_model
from ..wording import join, plural
from ._losses import (
    define_plateau,
    describe_lowest_losses,
    describe_plateaus,
    describe_ratio,
    describe_training,
    draw_legend,
    draw_series,
    draw_smoothed,
    ends_later_verdict,
    no_runs,
    plateau_verdict,
    run_table,
    why_undecided,
)
from ._training_runs import (
    RATES,
    SEEDS,
    STEPS,
    Models,
    Series,
    TrainingRun,
    curves,
    load,
    lowest_losses,
    measure,
    models_by_warmup,
    short_run,
    small_steps,
)

TITLE = "Learning to fill gaps"
ORDER = 170
COST = {"laptop": 30, "gpu": 1750}

SIZES = (64, 256)
SEARCHED = 256  # D of the search for a learning rate, of the long run, and of `one_token`
ONE_TOKEN = ("training.warmup=300", "training.patience=1000", "training.predicted=0.001")

DECIDES, LONG = "learned positions", "learned positions and small steps"


@dataclass(frozen=True)
class Settings:
    rotary: Models
    learned: Models  # the paper's model
    causal: Models  # next-token prediction in steps of the same size
    # Next-token prediction in small steps, by learning rate. `run` takes the best rate for several
    # seeds of each D, and for the paper's model in many small steps.
    searched: dict[float, TrainedModel]
    one_token: TrainedModel | None  # one masked token in each window


@dataclass(frozen=True)
class Result:
    rotary: Series
    learned: Series
    causal: Series
    longer: dict[int, Longer]  # plateaus of `learned` ÷ those of `causal`, by D
    searched: dict[float, float]  # validation loss of next-token prediction, by learning rate
    small: Series  # next-token prediction at the best rate, to compare `long` with
    long: TrainingRun | None
    one_token: TrainingRun | None
    lowest: dict[int, float]  # the lowest loss without attention, in nats per token
    stand_in: str  # why there is no run of the paper's model; empty if there is one


def settings(scale: str) -> Settings:
    rotary: Models = {size: (with_vocabulary("mlm", scale, size),) for size in SIZES}
    if scale == "laptop":
        return Settings(rotary, {}, {}, {}, None)
    causal = next(iter(models_by_warmup("ntp", scale, SIZES).values()))
    if scale == "paper":  # its recipes have learned positions
        return Settings({}, rotary, causal, {}, None)
    return Settings(
        rotary,
        {size: (mlm_with_learned_positions(size),) for size in SIZES},
        causal,
        {rate: small_steps("ntp", SEARCHED, rate) for rate in RATES},
        short_run("mlm", SEARCHED, *ONE_TOKEN),
    )


def run(settings: Settings) -> Result:
    searched = {
        rate: float(model.record().validation[-1]["validation_loss"])
        for rate, model in settings.searched.items()
    }
    rate = best_rate(searched)
    lowest = lowest_losses(settings.learned or settings.rotary)
    without_gaps = lowest_losses(settings.causal)
    causal = measure(settings.causal, without_gaps)
    learned = measure(settings.learned, lowest, alike=causal)
    small = {
        size: small_steps("ntp", size, rate).with_seeds(SEEDS) for size in SIZES if rate is not None
    }
    long = small_steps("mlm", SEARCHED, rate) if rate is not None else None
    one = settings.one_token
    return Result(
        rotary=measure(settings.rotary, lowest),
        learned=learned,
        causal=causal,
        longer=longer(learned, causal),
        searched=searched,
        small=measure(small, without_gaps),
        long=load(long, lowest[SEARCHED]) if long else None,
        one_token=load(one, lowest[SEARCHED]) if one else None,
        lowest=lowest,
        stand_in=(settings.learned or settings.rotary)[SEARCHED][0].stand_in,
    )


def best_rate(losses: dict[float, float]) -> float | None:
    """The learning rate with the lowest loss; None without a search."""
    return min(losses, key=losses.__getitem__, default=None)


def longer(masked: Series, causal: Series) -> dict[int, Longer]:
    """How many times longer plateaus are in masked modelling than in next-token prediction."""
    return {
        size: length_ratios(curves(runs), curves(causal.runs[size]))
        for size, runs in masked.runs.items()
    }


def plot(result: Result) -> Figure:
    panels = {"rotary positions": result.rotary, "learned positions": result.learned}
    shown = {title: series for title, series in panels.items() if series.runs}
    figure = Figure(figsize=(max(6.0, 4.8 * len(shown)), 4.2), layout="constrained")
    axes = figure.subplots(1, len(shown), squeeze=False)[0]
    for one, (title, series) in zip(axes, shown.items(), strict=True):
        draw_series(one, series, result.lowest)
        one.set_title(title, fontsize=10)
    others = _draw_others(axes[-1], result)
    draw_legend(axes[0], result.lowest, others)
    return figure


def _draw_others(axes: Axes, result: Result) -> dict[str, str]:
    """Draw the single runs of the paper's model; returns their line styles for the legend."""
    lines = {}
    for run, label, line in (
        (result.long, f"D = {SEARCHED}, many small steps", ":"),
        (result.one_token, "one masked token in a window", "--"),
    ):
        if run:
            draw_smoothed(axes, run, SEARCHED, color="0.3", ls=line, lw=1.8)
            lines[label] = line
    return lines


def in_short(result: Result) -> str:
    return describe_plateaus(
        {"learned positions": result.learned, "rotary positions": result.rotary}
    )


def caption(result: Result) -> str:
    series = result.learned if result.learned.runs else result.rotary
    return (
        "Loss of masked modelling during training, over the tokens to be filled in, divided by"
        " ln D, the loss of a uniform guess. Lines are the training loss (averaged over"
        " neighbouring steps), markers the validation loss, pale bands plateaus. Thin horizontal"
        " lines: the lowest loss possible without attention, when only what the gap shows is seen"
        " (the mask, the true token or another)."
        f" {describe_training([series])}{_describe_rotary(result)}{_describe_long(result)}"
        f"{_describe_one_token(result)} {define_plateau()}"
    )


def _describe_rotary(result: Result) -> str:
    """How long the runs of the other panel are."""
    if not (result.learned.runs and result.rotary.runs):
        return ""
    steps = join(
        f"{same[0].last_step:,} for D = {size}" for size, same in result.rotary.runs.items()
    )
    return f" With rotary positions: steps of the same size, {steps}."


def _describe_long(result: Result) -> str:
    """How the long run was made, and how its rate was found."""
    run = result.long
    if run is None:
        return ""
    losses = join(f"{loss:.3f} at {rate:g}" for rate, loss in result.searched.items())
    return (
        f" Grey, dotted: {run.last_step:,} steps of {run.batch:,} tokens (D = {SEARCHED}, one seed)"
        f" at a learning rate of {run.record.config['training']['lr']:g}, the best of"
        f" {len(result.searched)} for next-token prediction with the same model in"
        f" {STEPS['ntp']:,} steps of this size (nats per token: {losses})."
    )


def _describe_one_token(result: Result) -> str:
    """How little the run with one masked token per window has to learn from."""
    one, long = result.one_token, result.long
    if one is None or long is None:
        return ""
    equal = plural(round(one.last_step * one.targets / long.targets), "step")
    text = (
        " Grey, dashed: one masked token in each window, as one sentence of the paper says"
        f" (D = {SEARCHED}). That gives {one.targets} tokens to predict in a step of"
        f" {one.batch:,}, and {one.last_step * one.targets:,} in {one.last_step:,} steps: as many"
        f" as {equal} of the dotted run."
    )
    if one.curve.plateau:
        return text
    return text + " So few cannot tell whether a model that is trained in this way would learn."


def table(result: Result) -> Table:
    series = (
        ("", result.rotary),
        ("", result.learned),
        ("next-token prediction", result.causal),
        ("next-token prediction, small steps", result.small),
    )
    runs = [
        (remark, size, run)
        for remark, each in series
        for size, same in each.runs.items()
        for run in same
    ]
    if result.long:
        runs.append(("small steps", SEARCHED, result.long))
    if result.one_token:
        runs.append(("one token in a window", SEARCHED, result.one_token))
    return run_table(runs)


def verdicts(result: Result) -> list[Verdict]:
    """Verdicts on the runs with learned positions; the others stand beside."""
    decides, beside = {DECIDES: result.learned}, {"rotary positions": result.rotary}
    every = decides | ({LONG: Series({SEARCHED: [result.long]}, {})} if result.long else {})
    return if_papers_model(
        [
            plateau_verdict(
                every,
                claim="In masked modelling too the loss rests on a plateau before a second"
                " descent.",
                paper="for both D",
                why=describe_lowest_losses(result.lowest, seen="what the gap shows"),
                beside=beside,
            ),
            ends_later_verdict(
                decides,
                claim="The plateau of masked modelling extends further as D increases.",
                beside=beside,
                spread="; the runs of next-token prediction give the spread over seeds, which is"
                " taken to be equal in both tasks",
            ),
            _more_evident(result),
        ],
        result.stand_in,
    )


def _more_evident(result: Result) -> Verdict:
    ratios = [ratio for both in result.longer.values() for ratio in both]
    agrees = _are_longer(list(result.longer.values()))
    return Verdict(
        key="more-evident",
        claim="The plateau is more evident in masked modelling than in next-token prediction.",
        paper="even more evident",
        ours=_describe_lengths(result) if ratios else no_runs(DECIDES),
        criterion="both lengths of the plateau, last ÷ first step and the number of steps, are"
        " larger in masked modelling for every D, with the whole interval of the ratio of geometric"
        " means over seeds (Student's t; equal spread in both tasks); differs if both are smaller"
        " for some D; runs that never leave their plateau do not count",
        agrees=agrees,
        why=""
        if agrees is not None
        else "One length is larger and another smaller."
        if {decided_above(ratio, 1) for ratio in ratios} == {True, False}
        else why_undecided(ratios),
    )


def _describe_lengths(result: Result) -> str:
    """How long plateaus last in both tasks."""
    if any(both.linear.value is not None for both in result.longer.values()):
        return (
            "the plateau of masked modelling, as a multiple of that of next-token prediction with"
            " the same positions and steps: "
        ) + "; ".join(
            f"D = {size}: {describe_ratio(both.logarithmic)} by last ÷ first step,"
            f" {describe_ratio(both.linear)} by the number of steps"
            for size, both in result.longer.items()
        )
    compared = [(result.learned.runs[size][0], result.causal.runs[size]) for size in result.longer]
    if result.long and result.small.runs:
        compared.append((result.long, result.small.runs[SEARCHED]))
    return "; ".join(_compare_ends(masked, causal) for masked, causal in compared)


def _compare_ends(masked: TrainingRun, causal: Sequence[TrainingRun]) -> str:
    """When a masked run leaves its plateau, and when those of the other task leave theirs."""
    ends = [run.curve.plateau.end for run in causal if run.curve.plateau]
    plateau = masked.curve.plateau
    left = (
        f"leaves its plateau at step {plateau.end:.0f}"
        if plateau
        else f"does not leave its plateau by step {masked.last_step:,}"
    )
    others = f"leaves it at step {join(f'{end:.0f}' for end in ends)}"
    if len(ends) < len(causal):
        last = max(run.last_step for run in causal)
        stays = "does not" if len(causal) == 1 else f"does not in {len(causal) - len(ends)} of"
        stays += f" {len(causal)} runs" * (len(causal) > 1) + f" by step {last:,}"
        others = f"{others}, and {stays}" if ends else stays
    return (
        f"D = {masked.record.config['tokens']['size']}, steps of {masked.batch:,} tokens: masked"
        f" modelling {left}, next-token prediction {others}"
    )


def _are_longer(ratios: Sequence[Longer]) -> bool | None:
    """True if all intervals are above 1, False if both of some D are below, None otherwise."""
    decided = [{decided_above(ratio, 1) for ratio in both} for both in ratios]
    if decided and all(both == {True} for both in decided):
        return True
    return False if {False} in decided else None
