"""Accuracy of masked modelling, by the share of masked tokens and by β."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle

from ...evaluation.evaluate import BETAS, MASKING_SHARES
from ...evaluation.masking import MaskedAccuracy, masked_accuracy
from ...evaluation.prompts import draw
from ...text.splits import unseen
from ...training.config import PREDICTED_SHARE
from ..runs import TEST_NEAR, TESTS_FAR, TrainedModel, Training, mlm
from ..study import Table, Verdict
from ..wording import format_beta, format_estimate, format_integer, join

TITLE = "Filling gaps"
PLACE = 175
COST = {"laptop": 40, "gpu": 60}

# The paper states two accuracies: one for a range of β, one for all p_m and β⁻¹ up to some bound.
BEST_BETAS, BEST_ABOVE = (3.3, 10.0), 0.4
GOOD_MASKED, GOOD_TEMPERATURE, GOOD_ABOVE = 0.4, 0.5, 0.3


@dataclass(frozen=True)
class Settings:
    model: TrainedModel
    scales: tuple[int, ...]
    masked: tuple[float, ...]
    betas: tuple[float, ...]
    windows: int
    seed: int


@dataclass(frozen=True)
class Region:
    """Values of p_m and β for which the paper has accuracies above a level."""

    level: float
    worst: dict[int, MaskedAccuracy]  # the lowest accuracy near each integer
    above: int  # accuracies above the level
    total: int

    @property
    def scales_above(self) -> list[int]:
        return [at for at, cell in self.worst.items() if _value(cell) > self.level]


@dataclass(frozen=True)
class Steps:
    """Steps to the next larger p_m or β⁻¹, near all integers."""

    total: int
    down: int
    clearly_down: int  # by more than the intervals of 95 %
    clearly_up: int


@dataclass(frozen=True)
class Result:
    windows: int
    tokens: int
    training: Training
    tables: dict[int, list[MaskedAccuracy]]  # near each integer, for every p_m and β
    trained_share: float  # the p_m nearest to that of training
    best_region: Region
    good_region: Region
    steps: Steps
    highest: float  # the highest accuracy
    widest: float  # half the width of the widest interval

    @property
    def masked(self) -> list[float]:
        """p_m, upwards."""
        return sorted({cell.masked for cells in self.tables.values() for cell in cells})

    @property
    def betas(self) -> list[float]:
        """β, downwards: the temperature β⁻¹ grows."""
        return sorted({cell.beta for cells in self.tables.values() for cell in cells}, reverse=True)


def settings(scale: str) -> Settings:
    return Settings(
        model=mlm(scale),
        scales=(TEST_NEAR, TESTS_FAR[0]) if scale == "laptop" else (TEST_NEAR, *TESTS_FAR),
        masked=MASKING_SHARES,
        betas=(*BETAS, inf),
        windows=64 if scale == "laptop" else 128,
        seed=0,
    )


def run(settings: Settings) -> Result:
    subject = settings.model.load()
    tables = {}
    for at in settings.scales:
        drawn = draw(
            subject.tokenizer,
            unseen(at, subject.trained),
            number=settings.windows,
            length=subject.context,
            following=0,
            seed=settings.seed,
        )
        tables[at] = masked_accuracy(
            subject.model,
            drawn.ids,
            shares=settings.masked,
            betas=settings.betas,
            seed=settings.seed,
        )
    return summarise(settings.windows, subject.context, settings.model.training(), tables)


def summarise(
    windows: int, tokens: int, training: Training, tables: dict[int, list[MaskedAccuracy]]
) -> Result:
    grids = [_grid(cells) for cells in tables.values()]
    shares = {cell.masked for cells in tables.values() for cell in cells}
    nearest = min(shares, key=lambda share: abs(share - PREDICTED_SHARE))
    low, high = BEST_BETAS
    return Result(
        windows,
        tokens,
        training,
        tables,
        trained_share=nearest,
        best_region=_region(
            tables, BEST_ABOVE, lambda cell: cell.masked == nearest and low <= cell.beta <= high
        ),
        good_region=_region(
            tables,
            GOOD_ABOVE,
            lambda cell: cell.masked <= GOOD_MASKED and 1 / cell.beta <= GOOD_TEMPERATURE,
        ),
        steps=_steps(grids),
        highest=max(float(grid[..., 0].max()) for grid in grids),
        widest=max(float((grid[..., 2] - grid[..., 1]).max()) for grid in grids) / 2,
    )


def _region(
    tables: dict[int, list[MaskedAccuracy]], level: float, inside: Callable[[MaskedAccuracy], bool]
) -> Region:
    chosen = {at: list(filter(inside, cells)) for at, cells in tables.items()}
    values = [_value(cell) for cells in chosen.values() for cell in cells]
    worst = {at: min(cells, key=_value) for at, cells in chosen.items()}
    return Region(level, worst, sum(value > level for value in values), len(values))


def _steps(grids: list[np.ndarray]) -> Steps:
    total = down = clearly_down = clearly_up = 0
    for grid in grids:
        for before, after in ((grid[:-1], grid[1:]), (grid[:, :-1], grid[:, 1:])):
            (value, low, high), (value_after, low_after, high_after) = before.T, after.T
            total += value.size
            down += int((value_after < value).sum())
            clearly_down += int((high_after < low).sum())
            clearly_up += int((low_after > high).sum())
    return Steps(total, down, clearly_down, clearly_up)


def _grid(cells: list[MaskedAccuracy]) -> np.ndarray:
    """Accuracies and the ends of their intervals: [β downwards, p_m upwards, 3]."""
    ordered = sorted(cells, key=lambda cell: (-cell.beta, cell.masked))
    rows = len({cell.beta for cell in cells})
    return np.array([cell.accuracy for cell in ordered], np.float64).reshape(rows, -1, 3)


def _value(cell: MaskedAccuracy) -> float:
    assert cell.accuracy.value is not None  # some tokens are always masked
    return cell.accuracy.value


def plot(result: Result) -> Figure:
    columns = min(2, len(result.tables))
    rows = -(-len(result.tables) // columns)
    figure = Figure(figsize=(4.8 * columns, 4.2 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
    for axes in panels.flat[len(result.tables) :]:
        axes.remove()
    for axes, (at, cells) in zip(panels.flat, result.tables.items(), strict=False):
        image = _plot_table(axes, _grid(cells)[..., 0], result)
        axes.set_title(f"near {format_integer(at)}", fontsize=10)
    for axes in panels[-1]:
        axes.set_xlabel("share of tokens masked, $p_m$")
    for axes in panels[:, 0]:
        axes.set_ylabel("inverse temperature β")
    figure.colorbar(image, ax=panels, label="share of masked tokens found", fraction=0.04)
    return figure


def _plot_table(axes: Axes, accuracies: np.ndarray, result: Result) -> AxesImage:
    """A map of accuracies, [β, p_m], with their values, and the paper's region in a frame."""
    top = max(result.highest, BEST_ABOVE)
    digits = 2 if result.highest >= 0.1 else 3
    image = axes.imshow(accuracies, cmap="cividis", vmin=0, vmax=top, aspect="auto")
    for (row, column), value in np.ndenumerate(accuracies):
        axes.text(
            column,
            row,
            f"{value:.{digits}f}".removeprefix("0"),
            ha="center",
            va="center",
            fontsize=8,
            color="white" if value < 0.5 * top else "black",
        )
    # Every cell as four points, so that the lines run along its edges and not through numbers.
    x, y = (np.repeat(np.arange(n + 1) - 0.5, 2)[1:-1] for n in accuracies.shape[::-1])
    points = accuracies.repeat(2, 0).repeat(2, 1)
    for level, line in ((GOOD_ABOVE, "--"), (BEST_ABOVE, "-")):
        if accuracies.min() < level < accuracies.max():
            axes.contour(x, y, points, [level], colors="white", linestyles=line, linewidths=1.8)
    width = sum(share <= GOOD_MASKED for share in result.masked)
    height = sum(1 / beta <= GOOD_TEMPERATURE for beta in result.betas)
    colour = "black" if result.highest > top / 2 else "white"
    frame = Rectangle((-0.5, -0.5), width, height, fill=False, ec=colour, lw=2.5, ls=":", zorder=5)
    frame.set_clip_on(False)
    axes.add_patch(frame)
    axes.set_xticks(range(len(result.masked)), [f"{share:g}" for share in result.masked])
    axes.set_yticks(range(len(result.betas)), [format_beta(beta) for beta in result.betas])
    axes.tick_params(length=0)
    return image


def caption(result: Result) -> str:
    return (
        f"Share of masked tokens that the model finds in {result.windows} windows of"
        f" {result.tokens} tokens near the integer above each panel. It was not trained on these"
        f" windows. Tokens (each {result.training.token}) are drawn with probabilities proportional"
        f" to p^β. The model was trained for {result.training.seconds / 60:.1f} minutes with a"
        f" share of {PREDICTED_SHARE:g} masked. White lines, if any: accuracy {GOOD_ABOVE:g}"
        f" (dashed) and {BEST_ABOVE:g} (solid). Dotted frame: the paper has more than"
        f" {GOOD_ABOVE:g} there. Intervals of 95 % (bootstrap over windows) are at most"
        f" ± {result.widest:.3f}."
    )


def table(result: Result) -> Table:
    header = ["near", "β", *(f"p_m = {share:g}" for share in result.masked)]
    rows = [
        [format_integer(at), format_beta(beta), *(round(float(value), 4) for value in row)]
        for at, cells in result.tables.items()
        for beta, row in zip(result.betas, _grid(cells)[..., 0], strict=True)
    ]
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    low, high = BEST_BETAS
    return [
        _above(
            result.best_region,
            key="best-region",
            claim=f"More than {BEST_ABOVE:g} of the masked tokens are found for {low:g} ≤ β ≤"
            f" {high:g} (here with p_m = {result.trained_share:g}).",
        ),
        _above(
            result.good_region,
            key="good-region",
            claim=f"More than {GOOD_ABOVE:g} are found up to p_m = {GOOD_MASKED:g} and"
            f" β⁻¹ = {GOOD_TEMPERATURE:g}.",
        ),
        _degrades(result),
    ]


def _above(region: Region, *, key: str, claim: str) -> Verdict:
    worst = "; ".join(
        f"{format_estimate(cell.accuracy)} near {format_integer(at)} (p_m = {cell.masked:g},"
        f" β = {format_beta(cell.beta)})"
        for at, cell in region.worst.items()
    )
    above = [format_integer(at) for at in region.scales_above]
    agrees = len(above) == len(region.worst)
    why = f"{region.above} of these {region.total} values are above {region.level:g}."
    if above:
        why += f" Near {join(above)} all are."
    return Verdict(
        key=key,
        claim=claim,
        paper=f"above {region.level:g}",
        ours=f"at least {worst}",
        criterion=f"all are above {region.level:g}",
        agrees=agrees,
        why="" if agrees else why,
    )


def _degrades(result: Result) -> Verdict:
    steps = result.steps
    mostly_down = steps.down >= 0.9 * steps.total
    return Verdict(
        key="degrades",
        claim="Fewer masked tokens are found as p_m and β⁻¹ grow.",
        paper="a clear pattern",
        ours=f"{steps.down} of {steps.total} steps to the next p_m or β⁻¹ lead down,"
        f" {steps.clearly_down} of them and {steps.clearly_up} of the others by more than the"
        " intervals of 95 %",
        criterion="at least nine in ten lead down and none clearly up",
        agrees=mostly_down and not steps.clearly_up,
        why=""
        if mostly_down
        else f"This model finds {result.highest:.3f} of the masked tokens at best.",
    )
