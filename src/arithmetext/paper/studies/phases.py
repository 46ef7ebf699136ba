"""How soon does a model of phases know n modulo each prime power? (not in the paper)"""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import Estimate, ratio
from ...evaluation.filters import WindowSettings, losses_by_context
from ...evaluation.phases import PhaseSettings, residues_known
from ...integers import format_integer
from ..figures import plot_estimates, styles, token_axis
from ..runs import TEST_NEAR, TESTS_FAR, TrainedModel, TrainingFacts
from ..study import Table, Verdict
from ..wording import cell, format_estimate

TITLE = "How soon are the residues of n known?"
ORDER = 227
COST = {"laptop": 25}

SURE = 0.9  # the probability of the true residue from which it counts as known
NAMES = ("phases", "long convolutions")


@dataclass(frozen=True)
class Settings:
    model: TrainedModel
    other: TrainedModel
    phases: PhaseSettings
    scored: WindowSettings  # for the loss by context


@dataclass(frozen=True)
class Result:
    periods: list[int]
    layers: list[int]  # of each period, the layer that is measured, from 1 on
    lengths: list[int]
    known: list[list[float | None]]  # mean probability of the true residue, by length and period
    sure: list[list[float | None]]  # share of windows in which it is at least `SURE`
    nats: list[list[Estimate]]  # a word, of both models, after 1, 2 to 3, 4 to 7, … tokens
    tested: WindowSettings
    scored: WindowSettings
    training: list[TrainingFacts]  # of both models
    sizes: list[int]  # their parameters


def settings(scale: str) -> Settings:
    windows = 20 if scale == "laptop" else 160
    return Settings(
        TrainedModel("record"),
        TrainedModel("longconv"),
        PhaseSettings(
            fitted=WindowSettings(TEST_NEAR, windows=10, blocks=10, seed=1),
            tested=WindowSettings(TESTS_FAR[0], windows=windows, blocks=10, seed=0),
        ),
        scored=WindowSettings(TESTS_FAR[0], windows=windows, blocks=10, seed=0),
    )


def run(settings: Settings) -> Result:
    model, other = settings.model, settings.other
    found = model.outputs(residues_known, settings.phases)
    known = found["known"]  # [lengths, periods, windows]
    config = model.config.model
    losses = [each.outputs(losses_by_context, settings.scored) for each in (model, other)]
    return Result(
        periods=list(config.periods),  # type: ignore[union-attr]
        layers=(found["layer"] + 1).tolist(),
        lengths=(2 ** np.arange(1, len(known) + 1)).tolist(),
        known=_means(known),
        sure=_means(np.where(np.isnan(known), np.nan, known >= SURE)),
        nats=[list(map(ratio, scores["nats"], scores["words"])) for scores in losses],
        tested=settings.phases.tested,
        scored=settings.scored,
        training=[model.training(), other.training()],
        sizes=[model.parameters(), other.parameters()],
    )


def _means(values: np.ndarray) -> list[list[float | None]]:
    """Over the windows that have a value; None if none has."""
    counts = (~np.isnan(values)).sum(2)
    sums = np.nansum(values, 2)
    return [
        [float(s / n) if n else None for s, n in zip(*rows, strict=True)]
        for rows in zip(sums, counts, strict=True)
    ]


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(12, 4.4), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1, 1.7))
    _plot_nats(left, result)
    _plot_known(right, result)
    return figure


def _plot_nats(axes: Axes, result: Result) -> None:
    for label, nats, style in zip(NAMES, result.nats, styles(), strict=False):
        plot_estimates(axes, 2 ** np.arange(len(nats)), nats, label=label, ms=4, **style)
    token_axis(axes, [4**k for k in range(7)], "tokens before (at least; less than twice as many)")
    axes.set_ylabel(f"nats per word near {format_integer(result.scored.at)}")
    axes.grid(alpha=0.3)
    axes.legend()


def _plot_known(axes: Axes, result: Result) -> None:
    first = 3  # from 16 words on
    values = np.array([[np.nan if x is None else x for x in row] for row in result.known[first:]])
    image = axes.imshow(values, vmin=0, vmax=1, cmap="magma_r", aspect="auto", origin="lower")
    ticks = [i for i, q in enumerate(result.periods) if q in (2, 5, 11, 23, 47, 97, 199, 307, 499)]
    axes.set_xticks(ticks, [str(result.periods[i]) for i in ticks])
    axes.set_yticks(range(len(values)), [f"{length:,}" for length in result.lengths[first:]])
    axes.set(
        xlabel=f"period q (all prime powers up to {result.periods[-1]}, in order)",
        ylabel="words read",
    )
    assert axes.figure is not None
    axes.figure.colorbar(image, ax=axes, label="probability of the true n mod q")


def in_short(result: Result) -> str:
    last = min(map(len, result.nats)) - 1  # the longest contexts that both models have
    model, other = (nats[last] for nats in result.nats)
    shares = [share or 0.0 for share in result.sure[-1]]
    known = sum(share >= 0.5 for share in shares)
    return (
        f"After {result.lengths[-1]:,} words near {format_integer(result.tested.at)} the model"
        f" knows n modulo {known} of the {len(result.periods)} prime powers up to"
        f" {result.periods[-1]}, in at least half of the windows. After {1 << last:,} to"
        f" {(2 << last) - 1:,} tokens a word costs it {format_estimate(model)} nats, and"
        f" {format_estimate(other)} a model with long convolutions."
    )


def caption(result: Result) -> str:
    texts = [
        f"{size / 1e6:.1f} M parameters, {facts.tokens / 1e6:.0f} M tokens of training"
        for size, facts in zip(result.sizes, result.training, strict=True)
    ]
    return (
        "Left: the loss by the number of tokens read, of the model that keeps track of phases"
        f" ({texts[0]}) and of the one with long convolutions ({texts[1]}), near"
        f" {format_integer(result.scored.at)} ({result.scored.windows} windows, 95 % intervals)."
        " Right: the probability that the first of them gives to the true residue of n modulo each"
        f" prime power, mean over {result.tested.windows} windows near"
        f" {format_integer(result.tested.at)}; white where fewer words than one period were read."
        " The layer in which a residue is known best, and the class that it is about, were"
        " determined on other windows. One model of each kind, with one seed."
    )


def table(result: Result) -> Table:
    header = ["period", "layer", *(f"known after {length} words" for length in result.lengths)]
    rows = [
        [period, layer, *(cell(row[k]) for row in result.known)]
        for k, (period, layer) in enumerate(zip(result.periods, result.layers, strict=True))
    ]
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    """None: the paper has no such model."""
    return []
