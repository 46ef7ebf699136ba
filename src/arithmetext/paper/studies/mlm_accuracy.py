"""Accuracy of masked modelling, by the share of masked tokens and by β.

The paper says: "Within the high-β regime (in the range 3.3 ≤ β ≤ 10), the accuracy on tokens is
above 0.4, remaining above 0.3 even with values of p_m and β⁻¹ growing up to 0.4 and 0.5". It does
not say which p_m the first number is for. All p_m cannot be meant, since the same sentence lets the
accuracy fall to 0.3 as p_m grows. Here the first number is tested for every p_m up to that of
training, and the largest p_m for which it holds is given.

The paper does not say on which of its four test sets the accuracies are measured. The verdicts are
on all places together, each with equal weight, and each place is shown. (In all of the paper's test
text, 99.9 % of the words are near 9.8e10, where the accuracy is highest.)
"""

from dataclasses import dataclass
from math import inf

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from ...evaluation.estimates import above, decided_above
from ...evaluation.evaluate import BETAS, MASKING_SHARES
from ...evaluation.masking import (
    AccuracyGrid,
    MaskedAccuracy,
    MaskedWindows,
    Steps,
    accuracy_grid,
    count_steps,
    masked_windows,
    pooled,
    with_intervals,
)
from ...training.config import PREDICTED_SHARE
from ..runs import TEST_NEAR, TESTS_FAR, TrainedModel, TrainingFacts, mlm
from ..study import Table, Verdict, if_papers_model
from ..wording import format_beta, format_estimate, format_integer, format_number, join

TITLE = "Filling gaps"
ORDER = 175
COST = {"laptop": 20, "gpu": 60}

# The paper states two accuracies: one for a range of β, one for all p_m and β⁻¹ up to some bound.
BEST_MASKED, BEST_BETAS, BEST_ABOVE = PREDICTED_SHARE, (3.3, 10.0), 0.4
GOOD_MASKED, GOOD_BETAS, GOOD_ABOVE = 0.4, (2.0, inf), 0.3


@dataclass(frozen=True)
class Settings:
    model: TrainedModel
    scales: tuple[int, ...]
    masking_shares: tuple[float, ...]  # p_m
    betas: tuple[float, ...]
    windows: int
    seed: int


@dataclass(frozen=True)
class Region:
    """Values of p_m and β for which the paper has accuracies above a level."""

    level: float
    masked: float  # for p_m up to this
    lowest: MaskedAccuracy  # of all places together
    lowest_near: dict[int, MaskedAccuracy]  # near each integer
    holds_to: float | None  # the largest p_m up to which all places together are above the level


@dataclass(frozen=True)
class Result:
    windows: int
    tokens: int
    training: TrainingFacts
    tables: dict[int, list[MaskedAccuracy]]  # near each integer, for every p_m and β
    together: list[MaskedAccuracy]  # all places, with equal weights
    best_region: Region
    good_region: Region
    steps: Steps  # near all integers
    highest: float  # the highest accuracy
    widest: float  # half the width of the widest interval


def settings(scale: str) -> Settings:
    return Settings(
        model=mlm(scale),
        scales=(TEST_NEAR, TESTS_FAR[0]) if scale == "laptop" else (TEST_NEAR, *TESTS_FAR),
        masking_shares=MASKING_SHARES,
        betas=(*BETAS, inf),
        windows=64 if scale == "laptop" else 128,
        seed=0,
    )


def run(settings: Settings) -> Result:
    model, shares, betas = settings.model, settings.masking_shares, settings.betas
    tables = {}
    for at in settings.scales:
        how = MaskedWindows(at, settings.windows, shares, betas, settings.seed)
        accuracies = model.outputs(masked_windows, how)["accuracy"]
        tables[at] = with_intervals(accuracies, shares, betas)
    context = model.config.model.context
    return summarise(settings.windows, context, model.training(), tables)


def summarise(
    windows: int, tokens: int, training: TrainingFacts, tables: dict[int, list[MaskedAccuracy]]
) -> Result:
    together = pooled(list(tables.values()))
    grids = [accuracy_grid(cells) for cells in tables.values()]
    return Result(
        windows,
        tokens,
        training,
        tables,
        together,
        _region(tables, together, BEST_MASKED, BEST_BETAS, BEST_ABOVE),
        _region(tables, together, GOOD_MASKED, GOOD_BETAS, GOOD_ABOVE),
        count_steps(grids),
        highest=max(float(grid.values.max()) for grid in grids),
        widest=max(float(np.ptp(grid.estimates[..., 1:], axis=-1).max()) for grid in grids) / 2,
    )


def _region(
    tables: dict[int, list[MaskedAccuracy]],
    together: list[MaskedAccuracy],
    masked: float,
    betas: tuple[float, float],
    level: float,
) -> Region:
    def lowest(cells: list[MaskedAccuracy]) -> MaskedAccuracy:
        inside = [c for c in cells if c.masked <= masked and betas[0] <= c.beta <= betas[1]]
        return min(inside, key=lambda cell: cell.value)

    holds_to = None
    for share in sorted({cell.masked for cell in together}):
        here = [c for c in together if c.masked == share and betas[0] <= c.beta <= betas[1]]
        if not all(above(cell.accuracy, level) for cell in here):
            break
        holds_to = share
    near = {at: lowest(cells) for at, cells in tables.items()}
    return Region(level, masked, lowest(together), near, holds_to)


def plot(result: Result) -> Figure:
    columns = 3
    rows = -(-(1 + len(result.tables)) // columns)
    figure = Figure(figsize=(12, 4.2 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    shown = {"all places together": result.together} | {
        f"near {format_integer(at)}": cells for at, cells in result.tables.items()
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
        if grid.values.min() < level < grid.values.max():
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


def in_short(result: Result) -> str:
    best, good = result.best_region, result.good_region
    model = "a stand-in for the paper's model" if result.training.stand_in else "the model"
    return (
        f"Of the masked tokens, {model} finds at least"
        f" {format_number(best.lowest.accuracy.value)} where the paper has more than"
        f" {best.level:g}, and at least {format_number(good.lowest.accuracy.value)} where the paper"
        f" has more than {good.level:g}. The highest share is {result.highest:.3f}."
    )


def caption(result: Result) -> str:
    return (
        f"Share of masked tokens that the model finds in {result.windows} windows of"
        f" {result.tokens} tokens near the integer above each panel. The model was not trained on"
        f" these windows. Tokens (each {result.training.token}) are drawn with probabilities"
        f" proportional to p^β. The model was trained for {result.training.seconds / 60:.1f}"
        f" minutes with a share of {PREDICTED_SHARE:g} masked. The first panel is the mean of the"
        f" others. White lines, if any: accuracy"
        f" {GOOD_ABOVE:g} (dashed) and {BEST_ABOVE:g} (solid). Dotted frame: where the paper has"
        f" more than {GOOD_ABOVE:g}. Intervals of 95 % (bootstrap over windows) are at most"
        f" ± {result.widest:.3f}."
    )


def table(result: Result) -> Table:
    grids = {"all": accuracy_grid(result.together)} | {
        format_integer(at): accuracy_grid(cells) for at, cells in result.tables.items()
    }
    rows = [
        [near, format_beta(beta), *np.round(row, 4).tolist()]
        for near, grid in grids.items()
        for beta, row in zip(grid.betas, grid.values, strict=True)
    ]
    return ["near", "β", *(f"p_m = {share:g}" for share in grids["all"].masking_shares)], rows


def verdicts(result: Result) -> list[Verdict]:
    steps = result.steps
    mostly_down = steps.down >= 0.9 * steps.total
    found = [
        _above(
            result.best_region,
            "best-region",
            f"More than {BEST_ABOVE:g} of the masked tokens are found for {BEST_BETAS[0]:g} ≤ β ≤"
            f" {BEST_BETAS[1]:g}.",
            f" (p_m up to {BEST_MASKED:g}, as in training: the paper names none here)",
        ),
        _above(
            result.good_region,
            "good-region",
            f"More than {GOOD_ABOVE:g} of the masked tokens are found up to p_m = {GOOD_MASKED:g}"
            f" and β⁻¹ = {1 / GOOD_BETAS[0]:g}.",
            "",
        ),
        Verdict(
            key="degrades",
            claim="Fewer masked tokens are found as p_m and β⁻¹ grow.",
            paper="a clear pattern",
            ours=f"{steps.down} of {steps.total} steps to the next p_m or β⁻¹ lead down,"
            f" {steps.clearly_down} of them and {steps.clearly_up} of the others by more than the"
            " intervals of 95 %",
            criterion="at least nine in ten steps lead down and none leads up by more than the"
            " intervals",
            agrees=mostly_down and not steps.clearly_up,
            why=""
            if mostly_down
            else f"This model finds {result.highest:.3f} of the masked tokens at best.",
        ),
    ]
    return if_papers_model(found, result.training.stand_in)


def _above(region: Region, key: str, claim: str, condition: str) -> Verdict:
    agrees = decided_above(region.lowest.accuracy, region.level)
    near = join(
        f"{format_estimate(cell.accuracy)} near {format_integer(at)}"
        for at, cell in region.lowest_near.items()
    )
    holds = (
        f"holds for p_m up to {region.holds_to:g}" if region.holds_to else "holds for no p_m tested"
    )
    return Verdict(
        key=key,
        claim=claim,
        paper=f"above {region.level:g}",
        ours=f"at least {_describe(region.lowest)} at all places together; at least {near}. At all"
        f" places together it {holds}",
        criterion=f"the lowest accuracy of this region{condition}, at all places together, is above"
        f" {region.level:g} with its whole interval; differs if the interval is below",
        agrees=agrees,
        why="" if agrees is not None else f"The interval includes {region.level:g}.",
    )


def _describe(cell: MaskedAccuracy) -> str:
    where = f"p_m = {cell.masked:g}, β = {format_beta(cell.beta)}"
    return f"{format_estimate(cell.accuracy)} ({where})"
