"""How figures look: the same colours, markers and kinds of plot in every study."""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path
from numpy.typing import ArrayLike

from ..drawing import Node, lay_out
from ..evaluation.estimates import Estimate
from ..tokens.picture import word_spans
from ..trees import tree_of_word

# Colours from dark to light, which stay apart in grey; each has its own line and its own marker.
COLOURS = ("#1f2a6b", "#b0413e", "#2a9d8f", "#e0a030")
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D")


def styles() -> list[dict[str, Any]]:
    """Colour, line and marker of the first, second, … curve, as keywords of `Axes.plot`."""
    return [
        {"color": colour, "ls": line, "marker": marker}
        for colour, line, marker in zip(COLOURS, LINES, MARKERS, strict=True)
    ]


def plot_estimates(axes: Axes, x: ArrayLike, estimates: Sequence[Estimate], **style: Any) -> None:
    """Values with error bars for their intervals; unknown values are left out."""
    points = [(a, e) for a, e in zip(np.asarray(x), estimates, strict=True) if e.value is not None]
    values, low, high = np.array([e for _, e in points], np.float64).reshape(-1, 3).T
    # Rounding may leave a bound on the wrong side of its value.
    lengths = np.maximum(0, [values - low, high - values])
    axes.errorbar([a for a, _ in points], values, yerr=lengths, capsize=2, **style)


def ridges(
    axes: Axes,
    values: Mapping[str, Sequence[ArrayLike]],
    rows: Sequence[str],
    *,
    bins: int,
    styles: Sequence[Mapping[str, Any]],
) -> None:
    """Rows of histograms, all with the same height and bins, from the bottom to the top.

    `values` has one sample per row for each entry of the legend.
    """
    together = np.concatenate([sample for samples in values.values() for sample in samples])
    edges = np.linspace(together.min(), together.max(), bins + 1)
    for (label, samples), style in zip(values.items(), styles, strict=True):
        line = {"color": style["color"], "ls": style["ls"]}
        for k, sample in enumerate(samples):
            counts, _ = np.histogram(sample, edges)
            first, last = counts.nonzero()[0][[0, -1]]  # the empty bins outside are not drawn
            heights = k + 0.85 * counts[first : last + 1] / counts.max()
            shown = edges[first : last + 2]
            axes.stairs(heights, shown, baseline=k, fill=True, color=line["color"], alpha=0.3)
            axes.stairs(heights, shown, baseline=k, label=None if k else label, **line)
    for k in range(len(rows)):
        axes.axhline(k, color="0.6", lw=0.6, zorder=0)
    axes.set_yticks(range(len(rows)), rows, va="bottom")
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(0, len(rows))
    axes.grid(axis="x", alpha=0.3)


def swarm(values: ArrayLike, *, bin_width: float, most: float) -> np.ndarray:
    """Offsets that put points of nearly equal value side by side, at most `most` to each side.

    `values` are in increasing order.
    """
    sorted_values = np.asarray(values, np.float64)
    _, first, counts = np.unique(sorted_values // bin_width, return_index=True, return_counts=True)
    rank = np.arange(len(sorted_values)) - np.repeat(first, counts)
    step = min(0.045, 2 * most / counts.max(initial=1))
    offsets: np.ndarray = step * ((rank + 1) // 2) * (-1.0) ** rank
    return offsets


def beta_position(beta: float, betas: Sequence[float]) -> float:
    """The position of β on a logarithmic axis: infinity is at 2.5 times the largest finite β."""
    return min(beta, 2.5 * max(each for each in betas if each < inf))


def beta_axis(axes: Axes, betas: Sequence[float], labelled: Sequence[float]) -> None:
    """A logarithmic axis for β, with infinity at its right, beyond a break."""
    axes.set_xscale("log")
    axes.minorticks_off()
    ticks = {beta: f"{beta:g}" for beta in betas if beta in labelled and beta < inf}
    if inf in betas:
        end = beta_position(inf, betas)
        ticks[end] = "∞"
        middle = (max(beta for beta in betas if beta < inf) * end) ** 0.5
        at_axis = axes.get_xaxis_transform()
        axes.text(middle, 0, "//", transform=at_axis, ha="center", va="center", fontsize=11)
    axes.set_xticks(list(ticks), list(ticks.values()))
    axes.set_xlabel("inverse temperature β")
    axes.grid(alpha=0.3)


def token_axis(axes: Axes, counts: Sequence[int], label: str) -> None:
    """A logarithmic axis (base 2) for numbers of tokens, each of them labelled."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(counts, [str(count) for count in counts])
    axes.minorticks_off()
    axes.set_xlabel(label)


def legend_above(axes: Axes, columns: int) -> None:
    axes.legend(
        loc="lower center", bbox_to_anchor=(0.5, 1), ncols=columns, frameon=False, fontsize=9
    )


_BOX = 1.9  # height of the box of a token
_GAP = 0.9  # between two boxes, in characters


def token_strip(axes: Axes, tokens: Sequence[str], first: int, attention: Sequence[float]) -> None:
    """Tokens in boxes, the trees of first, first + 1, … above, the last one's attention below."""
    middles, characters, x = [], [], 0.0  # x of the middles of boxes, and of their characters
    for token in tokens:
        box = FancyBboxPatch(
            (x, 0), len(token), _BOX, boxstyle="round,pad=0.15", fc="#eef0f8", ec="black", lw=1
        )
        axes.add_patch(box)
        middles.append(x + len(token) / 2)
        for letter in token.replace(" ", "·"):
            characters.append(x + 0.5)
            axes.text(
                x + 0.5, _BOX / 2, letter, family="monospace", size=12, ha="center", va="center"
            )
            x += 1
        x += _GAP
    text = "".join(tokens) + " "
    for n, (start, stop) in enumerate(word_spans(text), start=first):
        middle = (characters[start] + characters[stop - 1]) / 2
        axes.text(middle, _BOX + 0.6, str(n), ha="center", size=10, color="0.3")
        _small_tree(axes, text[start:stop], middle)
    _attention_arcs(axes, middles, attention)
    axes.set_xlim(-0.6, x - _GAP + 0.6)
    axes.set_ylim(-11.8, _BOX + 7.4)
    axes.axis("off")


def _small_tree(axes: Axes, word: str, middle: float) -> None:
    nodes = lay_out(tree_of_word(word), gap=1).nodes

    def place(node: Node) -> tuple[float, float]:
        return middle + 0.85 * (node.x - nodes[0].x), _BOX + 2.9 + 1.9 * node.depth

    edges = [[place(node), place(child)] for node in nodes for child in node.children]
    axes.add_collection(LineCollection(edges, colors="black", lw=1))
    x, y = zip(*map(place, nodes), strict=True)
    axes.scatter(x, y, 16, "white", edgecolors="black", lw=0.9, zorder=3)


def _attention_arcs(axes: Axes, middles: Sequence[float], attention: Sequence[float]) -> None:
    """Arcs from the last token to every other token, as wide as its attention to that token."""
    *others, last = middles
    for middle, weight in zip(others, attention, strict=False):
        depth = -3.6 - 0.26 * (last - middle)
        curve = Path(
            [(last, -1.9), (last, depth), (middle, depth), (middle, -2.3)],
            [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
        )
        axes.add_patch(PathPatch(curve, fc="none", ec=COLOURS[0], lw=0.3 + 18 * weight, alpha=0.75))
    axes.scatter(others, [-2.1] * len(others), 30, COLOURS[0], marker="^")
    for middle, weight in zip(middles, attention, strict=True):
        axes.text(middle, -0.45, f"{100 * weight:.0f} %", ha="center", va="top", size=9, zorder=4)
