"""Confusion matrices of the words, for the GPT-2 and the HMM."""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from ...evaluation.estimates import decided_above
from ...evaluation.word_groups import (
    GroupCells,
    SquareFreeErrors,
    group_cells,
    square_free_errors,
)
from ...evaluation.words import confusion_by_prompt
from ...trees import is_square_free, unpack
from ..runs import Comparison, PromptSettings, comparison
from ..study import Table, Verdict, if_papers_model
from ..wording import (
    describe_continuations,
    describe_seeds,
    format_estimate,
    format_number,
    join,
    sentences,
    undecided,
)

TITLE = "Confusion of words"
ORDER = 134
COST = {"laptop": 1, "gpu": 1}

WORDS = 16  # with rows and columns of their own
CORNER = ("10", "1010", "101010")


@dataclass(frozen=True)
class Matrix:
    words: list[str]  # square-free words first, by length; then the others by frequency
    counts: list[list[int]]  # [words, others; generated words, others, malformed]
    shares: list[list[float]]  # counts as shares of their rows
    places: list[int]  # sums of the rows
    total: int
    corner: GroupCells  # of 10, 1010 and 101010
    errors: SquareFreeErrors  # of all words, also those without rows of their own


@dataclass(frozen=True)
class Result:
    at: int
    generation: PromptSettings
    seeds: dict[str, int]  # by model
    stand_in: str  # why the GPT-2 is not the paper's; empty if it is
    confusion: dict[str, Matrix]


def settings(scale: str) -> Comparison:
    return comparison(scale)


def run(settings: Comparison) -> Result:
    matrices = {}
    for name in settings.models:
        predicted, true, seeds = settings.words(name)
        labels, counts = confusion_by_prompt(predicted, true, WORDS)
        by_seed = counts.reshape(seeds, -1, *counts.shape[1:])
        errors = square_free_errors(predicted, true, seeds)
        matrices[name] = summarise([unpack(word) for word in labels], by_seed, errors)
    return Result(
        settings.at,
        settings.generation,
        settings.seeds,
        settings.stand_ins["GPT-2"],
        matrices,
    )


def summarise(words: list[str], by_prompt: NDArray[np.int64], errors: SquareFreeErrors) -> Matrix:
    """Statistics of confusion matrices, [seeds, prompts, true, predicted].

    Words are in the order of their frequency.
    """
    order = sorted(
        range(len(words)), key=lambda i: (0, len(words[i])) if is_square_free(words[i]) else (1, i)
    )
    rows, columns = ([*order, *range(len(words), size)] for size in by_prompt.shape[2:])
    by_prompt = by_prompt[:, :, rows][..., columns]
    words, counts = [words[i] for i in order], by_prompt.sum((0, 1))
    places = counts.sum(1)
    return Matrix(
        words,
        counts.tolist(),
        (counts / np.maximum(1, places[:, None])).tolist(),
        places.tolist(),
        int(counts.sum()),
        group_cells(by_prompt, [i for i, word in enumerate(words) if word in CORNER]),
        errors,
    )


def plot(result: Result) -> Figure:
    matrices = result.confusion
    figure = Figure(figsize=(9.6, 5.6), layout="constrained")
    panels = figure.subplots(1, len(matrices), squeeze=False)[0]
    highest = max(max(map(max, matrix.shares)) for matrix in matrices.values())
    for axes, (name, matrix) in zip(panels, matrices.items(), strict=True):
        image = axes.imshow(matrix.shares, cmap="viridis", vmin=0, vmax=highest or 1)
        axes.set_title(name)
        _label(axes, matrix.words)
    panels[0].set_ylabel("word in the text")
    figure.colorbar(
        image, ax=list(panels), label="share of the row", location="bottom", aspect=50, shrink=0.6
    )
    return figure


def _label(axes: Axes, words: list[str]) -> None:
    axes.set_xticks(range(len(words) + 2), [*words, "others", "malformed"], rotation=90)
    axes.set_yticks(range(len(words) + 1), [*words, "others"])
    axes.tick_params(labelsize=8, length=2)
    axes.set_xlabel("word generated")
    inner = sum(map(is_square_free, words))
    for border in (inner - 0.5, len(words) - 0.5):
        axes.axhline(border, color="white", lw=1)
        axes.axvline(border, color="white", lw=1)
    corner = sum(word in CORNER for word in words)  # these come first
    axes.add_patch(
        Rectangle(
            (-0.5, -0.5), corner, corner, fill=False, ec="red", lw=1.5, zorder=3, clip_on=False
        )
    )
    for label in (*axes.get_xticklabels()[:inner], *axes.get_yticklabels()[:inner]):
        label.set_fontweight("bold")


def in_short(result: Result) -> str:
    errors = result.confusion["GPT-2"].errors
    return (
        f"At square-free words, {format_number(errors.at_square_free.value)} of the errors of the"
        " GPT-2 are other square-free words; errors that do not depend on the true word would give"
        f" {format_number(errors.by_chance)}. Such confusions are"
        f" {format_number(errors.within.value)} of all its errors."
    )


def caption(result: Result) -> str:
    matrices = result.confusion
    sizes = join(f"{matrix.total:,} words of the {name}" for name, matrix in matrices.items())
    words = max(len(matrix.words) for matrix in matrices.values())
    return (
        "Words generated (columns) for each word in the text (rows), as shares of the row. Both"
        f" models have the same colour scale. Shown are the {words} most frequent words, all others"
        " together, and malformed words. Square-free words come first, by length, in bold and"
        " inside the first white lines. The others follow by frequency. A red frame marks the"
        f" corner that the paper names, of {join(CORNER)}. A column that is bright"
        " from top to bottom is a word that is generated whatever the word in the text."
        f" {describe_continuations(result.at, result.generation)} {describe_seeds(result.seeds)}"
        f" Counted are {sizes}."
    )


def table(result: Result) -> Table:
    matrices = result.confusion
    columns = list(dict.fromkeys(word for matrix in matrices.values() for word in matrix.words))
    columns += ["others", "malformed"]
    rows = []
    for name, matrix in matrices.items():
        names = [*matrix.words, "others", "malformed"]
        for word, shares, places in zip(names, matrix.shares, matrix.places, strict=False):
            cells = dict(zip(names, shares, strict=True))
            shown = [round(cells[word], 4) if word in cells else "" for word in columns]
            rows.append([name, word, places, *shown])
    return ["model", "word in the text", "places", *columns], rows


def verdicts(result: Result) -> list[Verdict]:
    gpt, hmm = result.confusion["GPT-2"], result.confusion["HMM"]
    corner, errors, theirs = gpt.corner, gpt.errors, hmm.errors
    bright = decided_above(corner.excess, 0)
    confuses = decided_above(errors.at_square_free, errors.by_chance)
    dominant = decided_above(errors.lead, 0)
    found = [
        Verdict(
            key="bright-corner",
            claim="In the matrix of the GPT-2 the corner of 10, 1010 and 101010 has higher values"
            " than the rest.",
            paper="higher",
            ours=f"a cell of the corner has {corner.cell:.3f} on average, any other cell"
            f" {corner.rest:.3f}; difference {format_estimate(corner.excess)}",
            criterion="the interval of the difference of these means is above 0; differs if it is"
            " below",
            agrees=bright,
            why=sentences(
                "These words are frequent, so their columns are bright for any model: for the HMM"
                f" a cell of the corner has {hmm.corner.cell:.3f}, any other {hmm.corner.rest:.3f}."
                " The GPT-2 generates one of the three at"
                f" {format_estimate(corner.generated)} of their places and at"
                f" {corner.generated_elsewhere:.3f} of the other places, the HMM at"
                f" {format_estimate(hmm.corner.generated)} and"
                f" {hmm.corner.generated_elsewhere:.3f}.",
                undecided(bright, "the interval contains 0, or a word does not occur"),
            ),
        ),
        Verdict(
            key="confuses-square-free",
            claim="Where the GPT-2 is wrong at a prime or another square-free word, it generates a"
            " square-free word more often than if errors did not depend on the true word.",
            paper="systematic confusion between square-free words",
            ours=f"{format_estimate(errors.at_square_free)} of these errors are square-free words;"
            f" independence would give {errors.by_chance:.3f}",
            criterion="the interval is above the share under independence; differs if it is below",
            agrees=confuses,
            why=sentences(
                f"The HMM has {format_estimate(theirs.at_square_free)}; independence would give"
                f" {theirs.by_chance:.3f}. Knowing that a number is not divisible by 4 tells"
                " square-free words from most others, but not from each other.",
                undecided(confuses, f"the interval contains {errors.by_chance:.3f}, or is unknown"),
            ),
        ),
        Verdict(
            key="dominant-error",
            claim="The most common error of the GPT-2 replaces a square-free word by another"
            " square-free word.",
            paper="the dominant error mode",
            ours="shares of all errors: both words square-free"
            f" {format_estimate(errors.within)}; only the generated word"
            f" {format_estimate(errors.gained)}; only the true word"
            f" {format_estimate(errors.lost)}; neither {format_estimate(errors.outside)}",
            criterion="the first is the largest of these four shares: the interval of the first"
            " minus the largest other is above 0; differs if it is below",
            agrees=dominant,
            why=sentences(
                f"The difference is {format_estimate(errors.lead)}; for the HMM"
                f" {format_estimate(theirs.lead)}, with a first share of"
                f" {format_estimate(theirs.within)}. All words are counted, also those without rows"
                " of their own.",
                undecided(dominant, "the interval of the difference contains 0, or is unknown"),
            ),
        ),
    ]
    return if_papers_model(found, result.stand_in)
