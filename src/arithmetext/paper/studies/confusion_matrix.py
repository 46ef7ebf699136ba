"""Which words are taken for which, by the GPT-2 and by the HMM."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ...evaluation.estimates import Estimate, said, wilson
from ...evaluation.words import confusion
from ...integers import format_integer
from ...trees import square_free, unpack
from ..runs import compared, continuations
from ..study import Verdict

TITLE = "Words taken for others"
PLACE = 134
COST = {"laptop": 1, "gpu": 1}

CORNER = ("10", "1010", "101010")

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def settings(scale: str) -> dict[str, Any]:
    return compared(scale)


def run(settings: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, recipe in settings["models"].items():
        _, made = continuations(recipe, settings["at"], settings["continuing"])
        labels, counts = confusion(made.predicted, made.true, size=16)
        found[name] = {"words": [unpack(word) for word in labels], "counts": counts.tolist()}
    return {"at": settings["at"], "confusion": found, **settings["continuing"]}


def plot(data: dict[str, Any]) -> Figure:
    models = {name: _ordered(found) for name, found in data["confusion"].items()}
    figure = Figure(figsize=(9.6, 5.6), layout="constrained")
    panels = figure.subplots(1, len(models), squeeze=False)[0]
    highest = max(float(_shares(counts).max(initial=0)) for _, counts in models.values())
    for axes, (name, (words, counts)) in zip(panels, models.items(), strict=True):
        image = axes.imshow(_shares(counts), cmap="viridis", vmin=0, vmax=highest or 1)
        axes.set_title(name)
        _axes(axes, words)
    panels[0].set_ylabel("word that stands there")
    figure.colorbar(
        image, ax=list(panels), label="share of the row", location="bottom", aspect=50, shrink=0.6
    )
    return figure


def _axes(axes: Axes, words: list[str]) -> None:
    axes.set_xticks(range(len(words) + 2), [*words, "others", "malformed"], rotation=90)
    axes.set_yticks(range(len(words) + 1), [*words, "others"])
    axes.tick_params(labelsize=8, length=2)
    axes.set_xlabel("word generated")
    inner = sum(map(square_free, words))
    for border in (inner - 0.5, len(words) - 0.5):
        axes.axhline(border, color="white", lw=1)
        axes.axvline(border, color="white", lw=1)
    for labels in (axes.get_xticklabels(), axes.get_yticklabels()):
        for label in labels[:inner]:
            label.set_fontweight("bold")


def caption(data: dict[str, Any]) -> str:
    sizes = " and ".join(
        f"{np.sum(found['counts']):,} words of the {name}"
        for name, found in data["confusion"].items()
    )
    label = max(len(found["words"]) for found in data["confusion"].values())
    return (
        "What is generated (columns) where a word stands (rows), as shares of the row, with one"
        f" scale of colours for both models: the {label} commonest words, all others together, and"
        " malformed ones. Square-free words, in bold and inside the first white lines, come first,"
        " by length; then the others, the commonest first. A column that is bright from top to"
        " bottom is a word that is generated whatever stands there. Continuations (β = ∞) of"
        f" {data['prompts']} prompts of {data['tokens']} tokens near {format_integer(data['at'])}"
        " by as many"
        f" tokens, seed {data['seed']}: {sizes}."
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    models = {name: _ordered(found) for name, found in data["confusion"].items()}
    columns = list(dict.fromkeys(word for words, _ in models.values() for word in words))
    columns += ["others", "malformed"]
    rows = []
    for name, (words, counts) in models.items():
        for word, row, among in zip(
            [*words, "others"], _shares(counts), counts.sum(1), strict=True
        ):
            cells = dict(zip([*words, "others", "malformed"], row.round(4).tolist(), strict=True))
            rows.append([name, word, int(among), *(cells.get(column, "") for column in columns)])
    return ["model", "word that stands there", "places", *columns], rows


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    models = {name: _ordered(found) for name, found in data["confusion"].items()}
    return [_corner(models), _confused(models), _dominant(models)]


def _corner(models: dict[str, tuple[list[str], Integers]]) -> Verdict:
    def inside(name: str) -> tuple[Estimate, float, float, float]:
        words, counts = models[name]
        some = [place for place, word in enumerate(words) if word in CORNER]
        rest = np.delete(counts, some, 0)
        return (
            wilson(int(counts[np.ix_(some, some)].sum()), int(counts[some].sum())),
            float(rest[:, some].sum() / max(1, rest.sum())),
            float(_shares(counts)[np.ix_(some, some)].mean()) if some else 0.0,
            float(np.delete(_shares(counts), some, 0)[:, some].mean()) if some else 0.0,
        )

    here, elsewhere, cell, mean = inside("GPT-2")
    markov_here, markov_elsewhere, markov_cell, _ = inside("HMM")
    return Verdict(
        claim="In the matrix of the GPT-2 the corner of 10, 1010 and 101010 has higher values than"
        " the rest.",
        paper="higher",
        ours=f"a cell of the corner has {cell:.3f} on average, one below it {mean:.3f}; one of the"
        f" three is generated where one of them stands in {said(here)}, elsewhere in"
        f" {elsewhere:.3f} (agrees if the first is higher and the interval above the last)",
        agrees=cell > mean and here.low is not None and here.low > elsewhere,
        why="These words are common, so their columns are bright for any model: in that of the HMM"
        f" a cell of the corner has {markov_cell:.3f}, and it generates one of the three in"
        f" {said(markov_here)} and {markov_elsewhere:.3f}.",
    )


def _confused(models: dict[str, tuple[list[str], Integers]]) -> Verdict:
    ours, expected = _errors(*models["GPT-2"])
    theirs, markov_expected = _errors(*models["HMM"])
    return Verdict(
        claim="Where the GPT-2 is wrong at a prime or another square-free word, it generates a"
        " square-free word more often than it does anyway.",
        paper="systematic confusion between square-free words",
        ours=f"{said(ours)} of these errors are square-free words, independence would give"
        f" {expected:.3f} (agrees if the interval is above that)",
        agrees=ours.low is not None and ours.low > expected,
        why=f"The HMM has {said(theirs)}, independence would give {markov_expected:.3f}. Counted"
        " are the words that have rows and columns of their own, as if places were independent."
        " That a number is not divisible by 4 tells square-free words from most others, but"
        " not from each other.",
    )


def _dominant(models: dict[str, tuple[list[str], Integers]]) -> Verdict:
    ours, theirs = (_among_errors(*models[name]) for name in ("GPT-2", "HMM"))
    return Verdict(
        claim="Most errors of the GPT-2 are square-free words in place of other square-free words.",
        paper="the dominant error mode",
        ours=f"at least {said(ours)} of the errors (agrees if the interval is above one half)",
        agrees=ours.low is not None and ours.low > 0.5,
        why=f"The HMM has {said(theirs)}. Where one of the other words stands, all is counted as"
        " an error. Places are taken for independent.",
    )


def _among_errors(words: list[str], counts: Integers) -> Estimate:
    """The share of all errors that are square-free words where other such words stand.

    Among the words without a row of their own it is not known which are right; none is counted so.
    """
    wrong = counts.sum() - np.trace(counts[: len(words), : len(words)])
    some = [place for place, word in enumerate(words) if square_free(word)]
    corner = counts[np.ix_(some, some)]
    return wilson(int(corner.sum() - np.trace(corner)), int(wrong))


def _errors(words: list[str], counts: Integers) -> tuple[Estimate, float]:
    """Of the errors at square-free words, the share that are such words, and that by chance.

    By chance a wrong word is any other, in proportion to how often it was generated at all.
    """
    some = np.array([place for place, word in enumerate(words) if square_free(word)], np.int64)
    generated = counts.sum(0)
    hits = counts[some, some]
    wrong = counts[some].sum(1) - hits
    alike = counts[np.ix_(some, some)].sum(1) - hits
    other = (generated[some].sum() - generated[some]) / np.maximum(
        1, generated.sum() - generated[some]
    )
    by_chance = float((wrong * other).sum() / max(1, wrong.sum()))
    return wilson(int(alike.sum()), int(wrong.sum())), by_chance


def _ordered(found: dict[str, Any]) -> tuple[list[str], Integers]:
    """Square-free words first, by length, then the others as they are, the commonest first."""
    words = found["words"]
    order = sorted(
        range(len(words)), key=lambda i: (0, len(words[i])) if square_free(words[i]) else (1, i)
    )
    counts = np.array(found["counts"], np.int64)
    rows, columns = (
        [*order, *range(len(words), size)] for size in (counts.shape[0], counts.shape[1])
    )
    return [words[i] for i in order], counts[np.ix_(rows, columns)]


def _shares(counts: Integers) -> Floats:
    shares: Floats = counts / np.maximum(1, counts.sum(1, keepdims=True))
    return shares
