"""Accuracy of masked modelling, by the share of masked tokens and by β.

The paper says: "Within the high-β regime (in the range 3.3 ≤ β ≤ 10), the accuracy on tokens is
above 0.4, remaining above 0.3 even with values of p_m and β⁻¹ growing up to 0.4 and 0.5". It does
not say which p_m the first number is for. All p_m cannot be meant, since the same sentence lets the
accuracy fall to 0.3 as p_m grows. Here the first number is tested for every p_m up to that of
training, and the largest p_m for which it holds is given.

The paper measures "on the test set", which it defines as the last quarter of the tenth chunk and
three windows of a million words far beyond. The verdicts are on this set: every place counts by its
number of words, which makes 99.9 % near 9.8e10. Each place and the mean of all places are shown.

The paper's model has learned positions. It is measured if a long run of it (mlm_losses.py) learned
more than is possible without attention. Otherwise a model with rotary positions stands in for it.
"""

from dataclasses import dataclass, replace
from math import inf

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from ...evaluation.estimates import above, decided_above, over_seeds_and_blocks
from ...evaluation.evaluate import BETAS, MASKING_SHARES
from ...evaluation.masking import (
    AccuracyGrid,
    MaskedAccuracy,
    Steps,
    accuracy_grid,
    count_steps,
    pooled,
    predict_masked,
)
from ...evaluation.prompts import draw_from_blocks
from ...evaluation.subjects import EvaluatedModel
from ...evaluation.without_attention import lowest_loss
from ...text.splits import FAR_LENGTH, blocks_near
from ...training.config import PREDICTED_SHARE
from ..outputs import Arrays
from ..runs import TEST_NEAR, TESTS_FAR, TrainedModel, TrainingFacts, mlm
from ..study import Table, Verdict, if_papers_model, unless_trained_less
from ..wording import format_beta, format_estimate, format_integer, format_percent, join
from ._training_runs import (
    LONG_RATES,
    RATES,
    best_rate,
    left_plateau,
    long_runs,
    search,
    small_steps,
)

TITLE = "Filling gaps"
ORDER = 175
COST = {"laptop": 40, "gpu": 60}

# The paper states two accuracies: one for a range of β, one for all p_m and β⁻¹ up to some bound.
BEST_MASKED, BEST_BETAS, BEST_ABOVE = PREDICTED_SHARE, (3.3, 10.0), 0.4
GOOD_MASKED, GOOD_BETAS, GOOD_ABOVE = 0.4, (2.0, inf), 0.3

# A pattern is clear if nearly all steps lead down, of those whose direction is known. It must be
# known for most steps; some changes of β hardly matter.
DOWN, DECIDED = 0.9, 0.5


@dataclass(frozen=True)
class Masking:
    """Which windows are masked, and how."""

    masking_shares: tuple[float, ...]  # p_m
    betas: tuple[float, ...]
    windows: int
    blocks: int  # of a million integers each, that the windows are drawn from
    seed: int


@dataclass(frozen=True)
class Settings:
    model: TrainedModel  # measured if no model of `long` learned
    long: dict[float, TrainedModel]  # the paper's model, by learning rate
    searched: dict[float, TrainedModel]  # next-token prediction, to find the rate
    scales: tuple[int, ...]
    masking: Masking


@dataclass(frozen=True)
class Region:
    """Values of p_m and β for which the paper has accuracies above a level."""

    level: float
    masked: float  # for p_m up to this
    lowest: MaskedAccuracy  # on the test set
    lowest_mean: MaskedAccuracy  # of all places with equal weights
    lowest_near: dict[int, MaskedAccuracy]  # near each integer
    holds_to: float | None  # the largest p_m up to which the test set is above the level


@dataclass(frozen=True)
class Result:
    windows: int
    blocks: int
    tokens: int
    training: TrainingFacts
    tables: dict[int, list[MaskedAccuracy]]  # near each integer, for every p_m and β
    weights: dict[int, int]  # words of the test set near each integer
    test_set: list[MaskedAccuracy]  # all places with these weights
    mean: list[MaskedAccuracy]  # all places with equal weights
    best_region: Region
    good_region: Region
    steps: Steps  # near all integers
    highest: float  # the highest accuracy
    widest: float  # half the width of the widest interval


def settings(scale: str) -> Settings:
    gpu = scale == "gpu"
    return Settings(
        model=mlm(scale),
        long={rate: small_steps("mlm", 256, rate) for rate in LONG_RATES if gpu},
        searched={rate: small_steps("ntp", 256, rate) for rate in RATES if gpu},
        scales=(TEST_NEAR, TESTS_FAR[0]) if scale == "laptop" else (TEST_NEAR, *TESTS_FAR),
        masking=Masking(
            masking_shares=MASKING_SHARES,
            betas=(*BETAS, inf),
            windows=60 if scale == "laptop" else 160,
            blocks=10,
            seed=0,
        ),
    )


def run(settings: Settings) -> Result:
    masking, (model, stand_in) = settings.masking, choose(settings)
    found = {
        at: model.outputs(accuracies_near, (at, masking))["accuracies"] for at in settings.scales
    }
    lo, hi = model.config.text.test
    return summarise(
        masking,
        model.config.model.context,
        replace(model.training(), stand_in=stand_in),
        found,
        {at: hi - lo if lo <= at < hi else FAR_LENGTH + 1 for at in found},
    )


def choose(settings: Settings) -> tuple[TrainedModel, str]:
    """The model to be measured, and why it is not the paper's (empty if it is)."""
    rate = best_rate(settings.searched, search(settings.searched))
    if rate is None:
        return settings.model, settings.model.stand_in
    rate, runs = long_runs(settings.long, rate)
    model = settings.long[rate]
    if left_plateau(runs[rate], lowest_loss(model.config)):
        return model, model.stand_in
    rates = " and ".join(f"{each:g}" for each in runs)
    stayed = (
        f"The paper's model was still on its plateau after {runs[rate].last_step:,} steps of"
        f" {runs[rate].batch:,} tokens (learning rate {rates})."
    )
    return settings.model, f"{settings.model.stand_in} {stayed}"


def accuracies_near(model: EvaluatedModel, where: tuple[int, Masking]) -> Arrays:
    """The `accuracies` in windows near an integer, [masking shares, betas, windows].

    Besides, so that other measures can be computed later, arrays [windows, masked tokens of all
    masking shares]: `logs`, the log-probabilities of the true tokens at β = 1, `ranks`, how many
    tokens are likelier than these, and `likeliest`, the likeliest tokens.
    """
    at, masking = where
    windows = draw_from_blocks(
        model.tokenizer,
        blocks_near(at, model.seen, masking.blocks),
        number=masking.windows,
        length=model.context,
        following=0,
        seed=masking.seed,
    )
    found = predict_masked(
        model.model,
        windows.ids,
        masking_shares=masking.masking_shares,
        betas=masking.betas,
        seed=masking.seed,
    )
    logs, ranks, likeliest = (np.concatenate(kept, axis=1) for kept in found[1:])
    small = np.min_scalar_type(model.tokenizer.size - 1)
    return {
        "accuracies": found.accuracies.astype(np.float32),
        "logs": logs.astype(np.float16),
        "ranks": ranks.astype(small),
        "likeliest": likeliest.astype(small),
    }


def summarise(
    masking: Masking,
    tokens: int,
    training: TrainingFacts,
    found: dict[int, NDArray[np.floating]],
    weights: dict[int, int],
) -> Result:
    """The result for the `accuracies` found near each integer."""
    tables = {at: _table(accuracies, masking) for at, accuracies in found.items()}
    test_set = pooled(list(tables.values()), list(weights.values()))
    mean = pooled(list(tables.values()), [1] * len(tables))
    grids = [accuracy_grid(cells) for cells in tables.values()]
    return Result(
        masking.windows,
        masking.blocks,
        tokens,
        training,
        tables,
        weights,
        test_set,
        mean,
        _region(tables, test_set, mean, BEST_MASKED, BEST_BETAS, BEST_ABOVE),
        _region(tables, test_set, mean, GOOD_MASKED, GOOD_BETAS, GOOD_ABOVE),
        count_steps(list(found.values()), masking.blocks),
        highest=max(float(grid.values.max()) for grid in grids),
        widest=max(float(np.ptp(grid.estimates[..., 1:], axis=-1).max()) for grid in grids) / 2,
    )


def _table(accuracies: NDArray[np.floating], masking: Masking) -> list[MaskedAccuracy]:
    return [
        MaskedAccuracy(share, beta, over_seeds_and_blocks(values[None], masking.blocks))
        for share, by_beta in zip(masking.masking_shares, accuracies, strict=True)
        for beta, values in zip(masking.betas, by_beta, strict=True)
    ]


def _region(
    tables: dict[int, list[MaskedAccuracy]],
    test_set: list[MaskedAccuracy],
    mean: list[MaskedAccuracy],
    masked: float,
    betas: tuple[float, float],
    level: float,
) -> Region:
    def lowest(cells: list[MaskedAccuracy]) -> MaskedAccuracy:
        inside = [c for c in cells if c.masked <= masked and betas[0] <= c.beta <= betas[1]]
        return min(inside, key=lambda cell: cell.value)

    holds_to = None
    for share in sorted({cell.masked for cell in test_set}):
        here = [c for c in test_set if c.masked == share and betas[0] <= c.beta <= betas[1]]
        if not all(above(cell.accuracy, level) for cell in here):
            break
        holds_to = share
    near = {at: lowest(cells) for at, cells in tables.items()}
    return Region(level, masked, lowest(test_set), lowest(mean), near, holds_to)


def plot(result: Result) -> Figure:
    columns = 3
    rows = -(-(1 + len(result.tables)) // columns)
    figure = Figure(figsize=(12, 4.2 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    total = sum(result.weights.values())
    shown = {"mean of all places": result.mean} | {
        f"near {format_integer(at)} ({format_percent(result.weights[at] / total, 2)})": cells
        for at, cells in result.tables.items()
    }
    for axes, (title, cells) in zip(panels.flat, shown.items(), strict=False):
        image = _plot_grid(axes, accuracy_grid(cells), result.highest)
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("share of tokens masked, $p_m$")
    for axes in panels[:, 0]:
        axes.set_ylabel("inverse temperature β")
    for axes in panels.flat[len(shown) :]:
        axes.axis("off")
    figure.colorbar(image, ax=panels, label="share of masked tokens found", fraction=0.03)
    return figure


def _plot_grid(axes: Axes, grid: AccuracyGrid, highest: float) -> AxesImage:
    """A map of accuracies with their values, and the paper's region in a frame."""
    top, digits = max(highest, BEST_ABOVE), 2 if highest >= 0.1 else 3
    image = axes.imshow(grid.values, cmap="cividis", vmin=0, vmax=top, aspect="auto")
    for (row, column), value in np.ndenumerate(grid.values):
        number = f"{value:.{digits}f}".removeprefix("0")
        colour = "white" if value < 0.5 * top else "black"
        axes.text(column, row, number, ha="center", va="center", fontsize=8, color=colour)
    # Every cell as four points, so that the lines run along its edges and not through numbers.
    x, y = (np.repeat(np.arange(n + 1) - 0.5, 2)[1:-1] for n in grid.values.shape[::-1])
    points = grid.values.repeat(2, 0).repeat(2, 1)
    for level, line in ((GOOD_ABOVE, "--"), (BEST_ABOVE, "-")):
        if _is_crossed(level, grid.values):
            axes.contour(x, y, points, [level], colors="white", linestyles=line, linewidths=1.8)
    width = sum(share <= GOOD_MASKED for share in grid.masking_shares)
    height = sum(GOOD_BETAS[0] <= beta <= GOOD_BETAS[1] for beta in grid.betas)
    colour = "black" if highest > top / 2 else "white"
    frame = Rectangle((-0.5, -0.5), width, height, fill=False, ec=colour, lw=2.5, ls=":", zorder=5)
    frame.set_clip_on(False)
    axes.add_patch(frame)
    axes.set_xticks(
        range(len(grid.masking_shares)), [f"{share:g}" for share in grid.masking_shares]
    )
    axes.set_yticks(range(len(grid.betas)), [format_beta(beta) for beta in grid.betas])
    axes.tick_params(length=0)
    return image


def caption(result: Result) -> str:
    return (
        f"Share of masked tokens that the model finds in {result.windows} windows of"
        f" {result.tokens} tokens from {result.blocks} blocks of a million integers near the"
        " integer above each panel. The model has not seen these windows. Percentages: the place's"
        " share of the words of the test set. The first panel is the mean of the others. Tokens"
        f" (each {result.training.token}) are drawn with probabilities proportional to p^β. In"
        f" training, a share of {PREDICTED_SHARE:g} was masked.{_describe_lines(result)} Dotted"
        f" frame: where the paper has more than {GOOD_ABOVE:g}. Intervals of 95 % (Student's t over"
        f" blocks; one seed) are at most ± {result.widest:.3f}."
    )


def _describe_lines(result: Result) -> str:
    """What the white lines are, if there are any."""
    values = [accuracy_grid(cells).values for cells in (result.mean, *result.tables.values())]
    drawn = [
        f"{level:g} ({style})"
        for level, style in ((GOOD_ABOVE, "dashed"), (BEST_ABOVE, "solid"))
        if any(_is_crossed(level, each) for each in values)
    ]
    return f" White lines: accuracy {join(drawn)}." if drawn else ""


def _is_crossed(level: float, values: NDArray[np.floating]) -> bool:
    return bool(values.min() < level < values.max())


def table(result: Result) -> Table:
    grids = {
        "test set": accuracy_grid(result.test_set),
        "mean of all": accuracy_grid(result.mean),
    } | {format_integer(at): accuracy_grid(cells) for at, cells in result.tables.items()}
    rows = [
        [near, format_beta(beta), *np.round(row, 4).tolist()]
        for near, grid in grids.items()
        for beta, row in zip(grid.betas, grid.values, strict=True)
    ]
    return ["near", "β", *(f"p_m = {share:g}" for share in grids["test set"].masking_shares)], rows


def verdicts(result: Result) -> list[Verdict]:
    best, good = (
        unless_trained_less(verdict, worse=True, tokens=result.training.tokens)
        for verdict in (
            _above(
                result.best_region,
                "best-region",
                f"More than {BEST_ABOVE:g} of the masked tokens are found for {BEST_BETAS[0]:g} ≤"
                f" β ≤ {BEST_BETAS[1]:g}.",
                f" (p_m up to {BEST_MASKED:g}, as in training: the paper names none here)",
            ),
            _above(
                result.good_region,
                "good-region",
                f"More than {GOOD_ABOVE:g} of the masked tokens are found up to p_m ="
                f" {GOOD_MASKED:g} and β⁻¹ = {1 / GOOD_BETAS[0]:g}.",
                "",
            ),
        )
    )
    return if_papers_model([best, good, _degrades(result.steps)], result.training.stand_in)


def _degrades(steps: Steps) -> Verdict:
    decided = steps.down + steps.up
    known = decided >= DECIDED * steps.total
    return Verdict(
        key="degrades",
        claim="Fewer masked tokens are found as p_m and β⁻¹ grow.",
        paper="a clear pattern",
        ours=f"of {steps.total} steps to the next p_m or β⁻¹, {steps.down} lead down, {steps.up} up"
        f" and {steps.total - decided} neither, by intervals of 95 % of the difference (paired by"
        " window, Student's t over blocks)",
        criterion=f"at least {format_percent(DOWN)} of the steps that lead down or up lead down,"
        f" where these are at least {format_percent(DECIDED)} of all; differs if fewer do",
        agrees=steps.down >= DOWN * decided if known else None,
        why="" if known else "Most steps lead neither down nor up by more than the intervals.",
    )


def _above(region: Region, key: str, claim: str, condition: str) -> Verdict:
    agrees = decided_above(region.lowest.accuracy, region.level)
    with_mean = decided_above(region.lowest_mean.accuracy, region.level)
    outcome = {True: "agree", False: "differ", None: "be undecided"}[with_mean]
    why = [
        *([] if agrees is not None else [f"The interval includes {region.level:g}."]),
        *([] if agrees == with_mean else [f"The mean of all places would {outcome}."]),
    ]
    near = ", ".join(
        f"{format_estimate(cell.accuracy)} near {format_integer(at)}"
        for at, cell in region.lowest_near.items()
    )
    holds = f"p_m up to {region.holds_to:g}" if region.holds_to else "no p_m"
    return Verdict(
        key=key,
        claim=claim,
        paper=f"above {region.level:g}",
        ours=f"lowest accuracy in the region: {_describe(region.lowest)} on the test set; {near};"
        f" mean of places {format_estimate(region.lowest_mean.accuracy)}. Above {region.level:g}"
        f" for {holds}",
        criterion=f"the lowest accuracy of this region{condition}, on the test set as the paper"
        " defines it (each place counts by its number of words), is above"
        f" {region.level:g} with its whole interval; differs if the interval is below",
        agrees=agrees,
        why=" ".join(why),
    )


def _describe(cell: MaskedAccuracy) -> str:
    where = f"p_m = {cell.masked:g}, β = {format_beta(cell.beta)}"
    return f"{format_estimate(cell.accuracy)} ({where})"
