"""How many hidden tokens are found, over the share that is hidden and β."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ...evaluation.codec import to_json
from ...evaluation.estimates import said
from ...evaluation.evaluate import BETAS, MASKING_SHARES
from ...evaluation.masking import masked_accuracy
from ...evaluation.prompts import draw
from ...integers import format_integer
from ...text.splits import unseen
from ...training.config import PREDICTED_SHARE
from ..runs import FAR, NEAR, mlm, model, training
from ..study import Verdict

TITLE = "Filling gaps"
PLACE = 175
COST = {"laptop": 40, "gpu": 60}

# Where the paper has which accuracy: a range of β; all up to a p_m and a β⁻¹.
BEST_BETAS, BEST_ABOVE = (3.3, 10.0), 0.4
GOOD_MASKED, GOOD_TEMPERATURE, GOOD_ABOVE = 0.4, 0.5, 0.3

Cell = dict[str, Any]


def settings(scale: str) -> dict[str, Any]:
    return {
        "model": mlm(scale),
        "scales": [NEAR, FAR[0]] if scale == "laptop" else [NEAR, *FAR],
        "masked": list(MASKING_SHARES),
        "betas": [*BETAS, "inf"],
        "windows": 64 if scale == "laptop" else 128,
        "seed": 0,
    }


def run(settings: dict[str, Any]) -> dict[str, Any]:
    it = model(settings["model"])
    tables = {}
    for at in settings["scales"]:
        window = unseen(at, it.trained)
        drawn = draw(
            it.tokenizer,
            window,
            number=settings["windows"],
            length=it.context,
            following=0,
            seed=settings["seed"],
        )
        tables[str(at)] = to_json(
            masked_accuracy(
                it.model,
                drawn.ids,
                shares=settings["masked"],
                betas=[float(beta) for beta in settings["betas"]],
                seed=settings["seed"],
            )
        )
    return {
        "windows": settings["windows"],
        "tokens": it.context,
        "training": training(settings["model"]),
        "tables": tables,
    }


def plot(data: dict[str, Any]) -> Figure:
    tables = data["tables"]
    columns = min(2, len(tables))
    lines = -(-len(tables) // columns)
    figure = Figure(figsize=(4.8 * columns, 4.2 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False, sharex=True, sharey=True)
    most = max(_accuracy(cell) for cells in tables.values() for cell in cells)
    top = max(most, BEST_ABOVE)
    digits = 2 if most >= 0.1 else 3
    for axes in panels.flat[len(tables) :]:
        axes.remove()
    for axes, (at, cells) in zip(panels.flat, tables.items(), strict=False):
        shares, betas, found = _grid(cells)
        image = axes.imshow(found, cmap="cividis", vmin=0, vmax=top, aspect="auto")
        for (row, column), value in np.ndenumerate(found):
            axes.annotate(
                f"{value:.{digits}f}".removeprefix("0"),
                (column, row),
                ha="center",
                va="center",
                fontsize=8,
                color="white" if value < 0.5 * top else "black",
            )
        # Every cell as four points, so that the lines run along its edges and not through numbers.
        across, down = (np.repeat(np.arange(n + 1) - 0.5, 2)[1:-1] for n in found.shape[::-1])
        for level, line in ((GOOD_ABOVE, "--"), (BEST_ABOVE, "-")):
            if found.min() < level < found.max():
                axes.contour(
                    across,
                    down,
                    found.repeat(2, 0).repeat(2, 1),
                    [level],
                    colors="white",
                    linestyles=line,
                    linewidths=1.8,
                )
        wide = sum(share <= GOOD_MASKED for share in shares)
        high = sum(1 / beta <= GOOD_TEMPERATURE for beta in betas)
        axes.add_patch(
            Rectangle(
                (-0.5, -0.5),
                wide,
                high,
                fill=False,
                edgecolor="black" if most > top / 2 else "white",
                lw=2.5,
                ls=":",
                zorder=5,
                clip_on=False,
            )
        )
        axes.set_title(f"near {format_integer(int(at))}", fontsize=10)
        axes.set_xticks(range(len(shares)), [f"{share:g}" for share in shares])
        axes.set_yticks(range(len(betas)), [_written(beta) for beta in betas])
        axes.tick_params(length=0)
    for axes in panels[-1]:
        axes.set_xlabel("share of tokens hidden, $p_m$")
    for axes in panels[:, 0]:
        axes.set_ylabel("inverse temperature β")
    figure.colorbar(image, ax=panels, label="share of hidden tokens found", fraction=0.04)
    return figure


def _grid(cells: Sequence[Cell]) -> tuple[list[float], list[float], np.ndarray]:
    """Shares upwards, β downwards, and the accuracies of each β in a row."""
    shares = sorted({cell["masked"] for cell in cells})
    betas = sorted({float(cell["beta"]) for cell in cells}, reverse=True)
    known = {(cell["masked"], float(cell["beta"])): cell["accuracy"]["value"] for cell in cells}
    return shares, betas, np.array([[known[share, beta] for share in shares] for beta in betas])


def _written(beta: float) -> str:
    return "∞" if beta == inf else f"{beta:g}"


def caption(data: dict[str, Any]) -> str:
    cells = [cell for table in data["tables"].values() for cell in table]
    widest = max(cell["accuracy"]["high"] - cell["accuracy"]["low"] for cell in cells) / 2
    return (
        f"Share of hidden tokens that are found in {data['windows']} windows of {data['tokens']}"
        " tokens near each of the integers named above the panels, none of which was trained on,"
        f" when tokens (each {data['training']['token']}) are drawn in proportion to p^β. The model"
        f" learned for {data['training']['seconds'] / 60:.1f} minutes with a share of"
        f" {PREDICTED_SHARE:g}."
        f" White lines, where there are any: {GOOD_ABOVE:g} (dashed) and"
        f" {BEST_ABOVE:g} (full); dotted frame: where the paper has more than {GOOD_ABOVE:g}."
        f" Intervals of 95 % (bootstrap over windows) are at most ± {widest:.3f}."
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    grids = {at: _grid(cells) for at, cells in data["tables"].items()}
    shares = next(iter(grids.values()))[0]
    header = ["near", "β", *(f"p_m = {share:g}" for share in shares)]
    rows = [
        [format_integer(int(at)), _written(beta), *(round(float(value), 4) for value in row)]
        for at, (_, betas, found) in grids.items()
        for beta, row in zip(betas, found, strict=True)
    ]
    return header, rows


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    low, high = BEST_BETAS
    nearest = min(
        {cell["masked"] for cells in data["tables"].values() for cell in cells},
        key=lambda share: abs(share - PREDICTED_SHARE),
    )
    return [
        _above(
            data,
            BEST_ABOVE,
            lambda masked, beta: masked == nearest and low <= beta <= high,
            claim=f"More than {BEST_ABOVE:g} of the hidden tokens are found for {low:g} ≤ β ≤"
            f" {high:g} (here with p_m = {nearest:g}).",
        ),
        _above(
            data,
            GOOD_ABOVE,
            lambda masked, beta: masked <= GOOD_MASKED and 1 / beta <= GOOD_TEMPERATURE,
            claim=f"More than {GOOD_ABOVE:g} are found up to p_m = {GOOD_MASKED:g} and"
            f" β⁻¹ = {GOOD_TEMPERATURE:g}.",
        ),
        _degrades(data),
    ]


def _above(
    data: dict[str, Any], level: float, chosen: Callable[[float, float], bool], *, claim: str
) -> Verdict:
    """That all of a region is above a level, near every integer that was tried."""
    regions = {
        at: [cell for cell in cells if chosen(cell["masked"], float(cell["beta"]))]
        for at, cells in data["tables"].items()
    }
    worst = {at: min(cells, key=_accuracy) for at, cells in regions.items()}
    above = [format_integer(int(at)) for at, cell in worst.items() if _accuracy(cell) > level]
    cells = [cell for region in regions.values() for cell in region]
    found = sum(_accuracy(cell) > level for cell in cells)
    why = [f"{found} of these {len(cells)} values are above {level:g}."]
    if above:
        why.append(f"Near {' and '.join(above)} all are.")
    return Verdict(
        claim=claim,
        paper=f"above {level:g}",
        ours="at least "
        + "; ".join(
            f"{said(cell['accuracy'])} near {format_integer(int(at))} (p_m = {cell['masked']:g},"
            f" β = {_written(float(cell['beta']))})"
            for at, cell in worst.items()
        )
        + f" (agrees if all are above {level:g})",
        agrees=len(above) == len(worst),
        why=" ".join(why) if len(above) < len(worst) else "",
    )


def _accuracy(cell: Cell) -> float:
    return float(cell["accuracy"]["value"])


def _degrades(data: dict[str, Any]) -> Verdict:
    """That fewer are found at every step to a larger p_m or β⁻¹."""
    steps = [step for cells in data["tables"].values() for step in _steps(cells)]
    falls = sum(after["value"] < before["value"] for before, after in steps)
    rises = sum(after["low"] > before["high"] for before, after in steps)
    clear = sum(after["high"] < before["low"] for before, after in steps)
    most = max(_accuracy(cell) for cells in data["tables"].values() for cell in cells)
    return Verdict(
        claim="Fewer hidden tokens are found as p_m and β⁻¹ grow.",
        paper="a clear pattern",
        ours=f"of {len(steps)} steps to the next p_m or β⁻¹, {falls} lead down, {clear} of them and"
        f" {rises} of the others by more than the intervals of 95 % (agrees if at least nine in"
        " ten lead down and none clearly up)",
        agrees=falls >= 0.9 * len(steps) and not rises,
        why=""
        if falls >= 0.9 * len(steps)
        else f"This model finds {most:.3f} of the hidden tokens at best.",
    )


def _steps(cells: Sequence[Cell]) -> list[tuple[Any, Any]]:
    """The accuracies of neighbours in the map, from less difficult to more."""
    shares, betas, _ = _grid(cells)
    known = {(cell["masked"], float(cell["beta"])): cell["accuracy"] for cell in cells}
    lines = [[known[share, beta] for share in shares] for beta in betas]
    lines += [[known[share, beta] for beta in betas] for share in shares]
    return [step for line in lines for step in pairwise(line)]
