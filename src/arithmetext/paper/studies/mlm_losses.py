"""Loss curves of masked modelling for two vocabularies (the paper's figure of MLM losses).

The paper's model has learned positions. With them, short runs of masked modelling do not leave
their plateau, so one long run for each D is made at the best of three learning rates. With rotary
positions, short runs do leave it; they show what another model does and decide no claim.

The paper masks 15 % of the tokens, and says that a token is predicted from a sequence in which it
alone is masked. Both are trained: 15 % at once, as is usual, and one token in each window.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import Estimate
from ...evaluation.learning import length_ratio
from ...evaluation.without_attention import lowest_loss
from ..runs import TrainedModel
from ..study import Table, Verdict, if_papers_model
from ..wording import join
from ._losses import (
    decide_above_one,
    define_plateau,
    describe_lowest_losses,
    describe_ratio,
    describe_training,
    draw_legend,
    draw_series,
    draw_smoothed,
    ends_later_verdict,
    plateau_verdict,
    run_table,
    style_of,
    why_undecided,
)
from ._training_runs import (
    Series,
    TrainingRun,
    compare,
    curves,
    load,
    measure,
    models_by_warmup,
    short_run,
)

TITLE = "Learning to fill gaps"
ORDER = 170
COST = {"laptop": 50, "gpu": 3000}

SIZES = (64, 256)
SEARCHED = 256  # D of the search for a learning rate, and of the runs with one masked token
RATES = (3e-4, 1e-3, 3e-3)
ROTARY = "model.positions=rotary"
# A run must not stop early on its plateau, so its patience is longer than the run.
LONG = ("training.warmup=300", "training.patience=1000")
SMALL_STEPS = (*LONG, "training.batch=2^14", "training.interval=500")
ONE_TOKEN = (*LONG, "training.predicted=0.001", "training.steps=2000")


@dataclass(frozen=True)
class Settings:
    rotary: dict[int, dict[int, tuple[TrainedModel, ...]]]  # by warm-up and D, one for each seed
    rotary_causal: dict[int, dict[int, tuple[TrainedModel, ...]]]  # next-token prediction
    searched: dict[float, TrainedModel]  # learned positions, by learning rate
    learned: dict[float, dict[int, tuple[TrainedModel, ...]]]  # long runs, by rate and D
    learned_causal: dict[int, tuple[TrainedModel, ...]]  # next-token prediction, by D
    one_token: dict[str, TrainedModel]  # one masked token in each window, by positions


@dataclass(frozen=True)
class Result:
    rotary: dict[int, Series]  # by warm-up
    learned: Series  # long runs of the paper's model
    searched: dict[float, TrainingRun]  # by learning rate
    one_token: dict[str, TrainingRun]  # by positions
    # Lengths of plateaus in masked modelling ÷ those in next-token prediction, by D.
    rotary_longer: dict[int, dict[int, Estimate]]  # by warm-up and D
    learned_longer: dict[int, Estimate]
    lowest: dict[int, float]  # the lowest loss without attention, in nats per token
    stand_in: str  # why there is no run of the paper's model; empty if there is one


def settings(scale: str) -> Settings:
    if scale == "paper":
        masked, causal = (
            next(iter(models_by_warmup(task, scale, SIZES).values())) for task in ("mlm", "ntp")
        )
        rate = masked[SEARCHED][0].config.training.lr
        return Settings({}, {}, {}, {rate: masked}, causal, {})
    rotary, rotary_causal = (
        models_by_warmup(task, scale, SIZES, ROTARY) for task in ("mlm", "ntp")
    )
    if scale == "laptop":
        return Settings(rotary, rotary_causal, {}, {}, {}, {})
    first = next(iter(rotary))
    return Settings(
        rotary,
        {first: rotary_causal[first]},
        searched={rate: _small_steps(SEARCHED, rate, 4000) for rate in RATES},
        learned={
            rate: {size: (_small_steps(size, rate, 20_000),) for size in SIZES} for rate in RATES
        },
        learned_causal=models_by_warmup("ntp", scale, SIZES)[first],
        one_token={
            positions: short_run("mlm", SEARCHED, f"model.positions={positions}", *ONE_TOKEN)
            for positions in ("learned", "rotary")
        },
    )


def _small_steps(size: int, rate: float, steps: int) -> TrainedModel:
    """Masked modelling with learned positions: more steps in the same time, as they are smaller."""
    return short_run("mlm", size, *SMALL_STEPS, f"training.steps={steps}", f"training.lr={rate:g}")


def run(settings: Settings) -> Result:
    series = [*settings.learned.values(), *settings.rotary.values()]  # the first is the paper's
    lowest = {size: lowest_loss(same[0].config) for size, same in series[0].items()}
    searched = {rate: load(model, lowest[SEARCHED]) for rate, model in settings.searched.items()}
    best = min(settings.learned, key=lambda rate: _last_loss(searched, rate), default=None)
    learned = measure(settings.learned[best], lowest) if best is not None else compare({})
    rotary = {warmup: measure(models, lowest) for warmup, models in settings.rotary.items()}
    causal = [*settings.rotary_causal.values(), settings.learned_causal]
    causal_lowest = {size: lowest_loss(same[0].config) for size, same in causal[0].items()}
    return Result(
        rotary=rotary,
        learned=learned,
        searched=searched,
        one_token={
            positions: load(model, lowest[SEARCHED])
            for positions, model in settings.one_token.items()
        },
        rotary_longer={
            warmup: longer(rotary[warmup], measure(models, causal_lowest))
            for warmup, models in settings.rotary_causal.items()
        },
        learned_longer=longer(learned, measure(settings.learned_causal, causal_lowest)),
        lowest=lowest,
        stand_in=series[0][SEARCHED][0].stand_in,
    )


def _last_loss(searched: Mapping[float, TrainingRun], rate: float) -> float:
    """The last validation loss of the search at a rate; 0 if nothing was searched."""
    return float(searched[rate].record.validation[-1]["validation_loss"]) if searched else 0.0


def longer(masked: Series, causal: Series) -> dict[int, Estimate]:
    """How many times longer plateaus are in masked modelling than in next-token prediction."""
    return {
        size: length_ratio(curves(runs), curves(causal.runs[size]))
        for size, runs in masked.runs.items()
    }


def plot(result: Result) -> Figure:
    panels = len(result.rotary) + bool(result.learned.runs)
    figure = Figure(figsize=(max(6.0, 4.4 * panels), 4.2), layout="constrained")
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for one, (warmup, series) in zip(axes, result.rotary.items(), strict=False):
        draw_series(one, series, result.lowest)
        one.set_title(f"rotary positions, warm-up of {warmup:,} steps", fontsize=10)
    draw_legend(axes[0], result.lowest, {})
    if result.learned.runs:
        _draw_learned(axes[-1], result)
    return figure


def _draw_learned(axes: Axes, result: Result) -> None:
    """The long runs with learned positions, the search for a rate, and one token in a window."""
    draw_series(axes, result.learned, result.lowest)
    for run in result.searched.values():
        colour = style_of(SEARCHED, result.lowest)["color"]
        draw_smoothed(axes, run, SEARCHED, color=colour, ls=":", lw=1.3)
    for (positions, run), line in zip(result.one_token.items(), ("-", "--"), strict=False):
        label = f"one token in a window, {positions}"
        draw_smoothed(axes, run, SEARCHED, color="0.4", ls=line, lw=1.3, label=label)
    axes.set_title("learned positions (grey: one masked token)", fontsize=10)
    if result.one_token:
        axes.legend(fontsize=8, frameon=False, loc="lower left")


def caption(result: Result) -> str:
    learned = ""
    if runs := [run for same in result.learned.runs.values() for run in same]:
        training = runs[0].record.config["training"]
        rates = join(f"{rate:g}" for rate in result.searched) if result.searched else ""
        search = (
            f" the best of {rates} by the validation loss after"
            f" {next(iter(result.searched.values())).last_step:,} steps (dotted, D = {SEARCHED});"
            if rates
            else ""
        )
        learned = (
            f" Last panel: learned positions, as in the paper; learning rate {training['lr']:g},"
            f"{search} {join(f'{run.last_step:,}' for run in runs)} steps of"
            f" {runs[0].batch:,} tokens, one seed."
        )
    if result.one_token:
        learned += (
            f" Grey: a single masked token in each window, D = {SEARCHED}, with learned and with"
            " rotary positions."
        )
    return (
        "Loss of masked modelling during training, over the tokens to be filled in, divided by"
        " ln D, the loss of a uniform guess. Lines are the training loss of each seed (means over"
        " steps that are close on the axis), markers the validation loss of the first seed, pale"
        " bands its plateau. Thin horizontal lines: the lowest loss that a model without attention"
        " can reach, which sees only what the gap shows (the mask, the true token or another)."
        f" {describe_training(result.rotary or {0: result.learned})}{learned} {define_plateau()}"
    )


def table(result: Result) -> Table:
    runs = [
        ("", size, run)
        for series in (*result.rotary.values(), result.learned)
        for size, same in series.runs.items()
        for run in same
    ]
    runs += [("search for a rate", SEARCHED, run) for run in result.searched.values()]
    runs += [("one token in a window", SEARCHED, run) for run in result.one_token.values()]
    return run_table(runs, result.lowest)


def verdicts(result: Result) -> list[Verdict]:
    """Verdicts on the runs with learned positions; those with rotary positions stand beside."""
    decides = {"learned positions": result.learned}
    beside = {
        f"rotary positions, warm-up {warmup:,}": series for warmup, series in result.rotary.items()
    }
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
            ),
            _more_evident(result),
        ],
        result.stand_in,
    )


def _more_evident(result: Result) -> Verdict:
    decisive = list(result.learned_longer.values())
    compared = {"learned positions": result.learned_longer} | {
        f"rotary positions, warm-up {warmup:,}": ratios
        for warmup, ratios in result.rotary_longer.items()
    }
    agrees = decide_above_one(decisive)
    return Verdict(
        key="more-evident",
        claim="The plateau is more evident in masked modelling than in next-token prediction.",
        paper="even more evident",
        ours="last ÷ first step of the plateau, in masked modelling as a multiple of next-token"
        " prediction with the same positions: "
        + "; ".join(
            f"{label}: {join(f'{describe_ratio(ratio)} for D = {size}' for size, ratio in by_size)}"
            for label, ratios in compared.items()
            if (by_size := list(ratios.items()))
        ),
        criterion="with learned positions this ratio of geometric means over seeds is above 1 with"
        " its whole interval, for every D; runs that never leave their plateau do not count",
        agrees=agrees,
        why="" if agrees is not None else why_undecided(decisive),
    )
