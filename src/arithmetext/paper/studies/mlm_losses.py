"""Loss curves of masked modelling for two vocabularies (the paper's figure of MLM losses).

The paper's model has learned positions. With them, short runs of masked modelling do not leave
their plateau, so there is one long run for each D. On a plateau the losses of all learning rates
are equal, so short masked runs cannot tell rates apart. The rate is therefore the one that is best
for next-token prediction with the same model and the same small steps. If the long run of D = 256
does not end 5 % below the lowest loss without attention, it is repeated at twice this rate, and
both runs are reported. The rate of the other runs is then the one at which D = 256 learned, or the
first if it learned at neither.

Runs of next-token prediction at this rate are what the plateaus are compared with, and tell how
much plateaus differ between seeds. With rotary positions, short masked runs do leave their plateau;
they show what another model does and decide no claim.

The paper masks 15 % of the tokens, and says that a token is predicted from a sequence in which it
alone is masked. All other runs mask 15 % at once, as is usual; one masks one token in each window.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import decided_above
from ...evaluation.learning import Longer, length_ratios
from ...evaluation.without_attention import lowest_loss
from ..runs import TrainedModel
from ..study import Table, Verdict, if_papers_model
from ..wording import join, plural
from ._losses import (
    define_plateau,
    describe_absent,
    describe_lowest_losses,
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
    LONG_RATES,
    RATES,
    SEEDS,
    STEPS,
    WARMUPS,
    Series,
    TrainingRun,
    best_rate,
    curves,
    if_kept,
    load,
    long_runs,
    measure,
    models_by_warmup,
    search,
    short_run,
    small_steps,
)

TITLE = "Learning to fill gaps"
ORDER = 170
COST = {"laptop": 50, "gpu": 1600}

SIZES = (64, 256)
SEARCHED = 256  # D of the search for a learning rate, and of the run with one masked token
ROTARY = "model.positions=rotary"
ONE_TOKEN = ("training.warmup=300", "training.patience=1000", "training.predicted=0.001")

DECIDES = "learned positions"

Models = dict[int, tuple[TrainedModel, ...]]  # by D, one for each seed


@dataclass(frozen=True)
class Settings:
    rotary: Models
    searched: dict[float, TrainedModel]  # next-token prediction, by learning rate
    learned: dict[float, Models]  # long runs of the paper's model, by rate
    causal: dict[float, Models]  # next-token prediction with the same rate and steps
    one_token: TrainedModel | None  # one masked token in each window


@dataclass(frozen=True)
class Result:
    rotary: Series
    learned: Series  # long runs of the paper's model
    repeated: TrainingRun | None  # the long run of SEARCHED at another rate, if there is one
    searched: dict[float, float]  # validation loss of next-token prediction, by learning rate
    causal: Series  # next-token prediction, to compare `learned` with
    longer: dict[int, Longer]  # plateaus of `learned` ÷ those of `causal`, by D
    one_token: TrainingRun | None
    lowest: dict[int, float]  # the lowest loss without attention, in nats per token
    stand_in: str  # why there is no run of the paper's model; empty if there is one
    absent: list[str]  # runs that were not kept, in words


def settings(scale: str) -> Settings:
    if scale == "paper":
        [masked], [compared] = (
            models_by_warmup(task, scale, SIZES).values() for task in ("mlm", "ntp")
        )
        rate = masked[SEARCHED][0].config.training.lr
        return Settings({}, {}, {rate: masked}, {rate: compared}, None)
    [rotary] = models_by_warmup("mlm", scale, SIZES, ROTARY, warmups=WARMUPS[:1]).values()
    if scale == "laptop":
        return Settings(rotary, {}, {}, {}, None)
    causal = {
        rate: {size: small_steps("ntp", size, rate).with_seeds(SEEDS) for size in SIZES}
        for rate in LONG_RATES
    }
    return Settings(
        rotary,
        searched={rate: causal[rate][SEARCHED][0] for rate in RATES},
        learned={
            rate: {size: (small_steps("mlm", size, rate),) for size in SIZES} for rate in LONG_RATES
        },
        causal=causal,
        one_token=short_run("mlm", SEARCHED, *ONE_TOKEN),
    )


def run(settings: Settings) -> Result:
    searched = search(settings.searched)
    rate = best_rate(settings.searched or settings.learned, searched)
    long: dict[float, TrainingRun] = {}
    if rate is not None and searched:
        models = {each: models[SEARCHED][0] for each, models in settings.learned.items()}
        rate, long = long_runs(models, rate)
    masked, compared = (
        by_rate[rate] if rate is not None else {} for by_rate in (settings.learned, settings.causal)
    )
    lowest = lowest_losses(masked or settings.rotary)
    causal = measure(compared, lowest_losses(compared))
    learned = measure(masked, lowest, alike=causal)
    # Where there are runs of the paper's model, the others decide nothing and may be missing.
    rotary = (
        if_kept(measure, settings.rotary, lowest) if masked else measure(settings.rotary, lowest)
    )
    one = settings.one_token
    one_token = if_kept(load, one, lowest[SEARCHED]) if one else None
    return Result(
        rotary=rotary or Series({}, {}),
        learned=learned,
        repeated=next((run for each, run in long.items() if each != rate), None),
        searched=searched,
        causal=causal,
        longer=longer(learned, causal),
        one_token=one_token,
        lowest=lowest,
        stand_in=(masked or settings.rotary)[SEARCHED][0].stand_in,
        absent=[
            *(["the runs with rotary positions"] if rotary is None else []),
            *(["the run with one masked token"] if one and not one_token else []),
        ],
    )


def lowest_losses(models: Mapping[int, Sequence[TrainedModel]]) -> dict[int, float]:
    return {size: lowest_loss(same[0].config) for size, same in models.items()}


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
        (result.repeated, "another learning rate", ":"),
        (result.one_token, "one masked token in a window", "--"),
    ):
        if run:
            draw_smoothed(axes, run, SEARCHED, color="0.3", ls=line, lw=1.8)
            lines[label] = line
    return lines


def caption(result: Result) -> str:
    return (
        "Loss of masked modelling during training, over the tokens to be filled in, divided by"
        " ln D, the loss of a uniform guess. Lines are the training loss of each seed (averaged"
        " over neighbouring steps), markers the validation loss of the first seed, pale bands its"
        " plateau. Thin horizontal lines: the lowest loss possible without attention, when only"
        " what the gap shows is seen (the mask, the true token or another)."
        f" {describe_training([result.rotary if result.rotary.runs else result.learned])}"
        f"{_describe_learned(result)}{_describe_one_token(result)}"
        f"{describe_absent(result.absent)} {define_plateau()}"
    )


def _describe_learned(result: Result) -> str:
    """How the long runs were made, and how their rate was found."""
    runs = [run for same in result.learned.runs.values() for run in same]
    if not runs or not result.searched:
        return ""
    losses = join(f"{loss:.3f} at {rate:g}" for rate, loss in result.searched.items())
    return (
        f" Learned positions, as in the paper: one seed, {runs[0].last_step:,} steps of"
        f" {runs[0].batch:,} tokens at a learning rate of {_rate(runs[0]):g}. The best of"
        f" {len(result.searched)} rates for next-token prediction with the same model and"
        f" {STEPS['ntp']:,} steps of this size is"
        f" {best_rate(result.searched, result.searched):g} (D = {SEARCHED}; nats per token:"
        f" {losses}).{_describe_repeated(result)}"
    )


def _describe_repeated(result: Result) -> str:
    """Why there are two long runs of one D."""
    if result.repeated is None:
        return ""
    return (
        f" At that rate the long run of D = {SEARCHED} did not leave its plateau, so it was"
        f" repeated at twice the rate; dotted: the run at {_rate(result.repeated):g}."
    )


def _rate(run: TrainingRun) -> float:
    return float(run.record.config["training"]["lr"])


def _describe_one_token(result: Result) -> str:
    """How little the run with one masked token per window has to learn from."""
    one = result.one_token
    if one is None:
        return ""
    [long] = result.learned.runs[SEARCHED][:1]
    equal = plural(round(one.last_step * one.targets / long.targets), "step")
    text = (
        " Grey, dashed: one masked token in each window, as one sentence of the paper says"
        f" (D = {SEARCHED}). That gives {one.targets} tokens to predict in a step of"
        f" {one.batch:,}, and {one.last_step * one.targets:,} in {one.last_step:,} steps: as many"
        f" as {equal} of the long run."
    )
    if one.curve.plateau:
        return text
    return text + " So few cannot tell whether a model that is trained in this way would learn."


def table(result: Result) -> Table:
    series = {"": result.rotary, "long": result.learned, "next-token prediction": result.causal}
    runs = [
        (remark, size, run)
        for remark, each in series.items()
        for size, same in each.runs.items()
        for run in same
    ]
    if result.repeated:
        runs.append(("long, at another rate", SEARCHED, result.repeated))
    if result.one_token:
        runs.append(("one token in a window", SEARCHED, result.one_token))
    return run_table(runs, result.lowest)


def verdicts(result: Result) -> list[Verdict]:
    """Verdicts on the series with learned positions; the other runs stand beside."""
    decides, beside = {DECIDES: result.learned}, {"rotary positions": result.rotary}
    if run := result.repeated:
        label = f"{DECIDES} and a learning rate of {_rate(run):g}"
        beside = {label: Series({SEARCHED: [run]}, {}), **beside}
    return if_papers_model(
        [
            plateau_verdict(
                decides,
                result.lowest,
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
        ours="the plateau of masked modelling, as a multiple of that of next-token prediction with"
        " the same positions, learning rate and steps: "
        + "; ".join(
            f"D = {size}: {describe_ratio(both.logarithmic)} by last ÷ first step,"
            f" {describe_ratio(both.linear)} by the number of steps"
            for size, both in result.longer.items()
        )
        if ratios
        else no_runs(DECIDES),
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


def _are_longer(ratios: Sequence[Longer]) -> bool | None:
    """True if all intervals are above 1, False if both of some D are below, None otherwise."""
    decided = [{decided_above(ratio, 1) for ratio in both} for both in ratios]
    if decided and all(both == {True} for both in decided):
        return True
    return False if {False} in decided else None
