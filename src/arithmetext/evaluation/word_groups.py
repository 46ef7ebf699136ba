"""Whether the words of a group, such as the square-free words, are confused with each other.

`predicted` and `true` hold one array of packed words per prompt; the prompts of one seed follow
those of another (see `evaluation.words`). Intervals are over prompts and seeds.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..text.sieve import Words
from .estimates import Estimate, over_prompts, rate, share_of
from .square_free import are_square_free
from .words import MALFORMED

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Pairs = list[tuple[Words, Words]]


class GroupCells(NamedTuple):
    """How often the words of a group are generated, in the group's own rows and in other rows.

    A cell is a share of its row; the cells are those of words with their own rows and columns.
    """

    cell: float  # mean cell in the group's rows and columns
    rest: float  # mean of all other cells
    excess: Estimate  # the difference of the two
    generated: Estimate  # how often a word of the group is generated where the true word is in it
    generated_elsewhere: float  # how often where the true word is not in it


def group_cells(counts: Integers, group: list[int]) -> GroupCells:
    """Cells of the confusion matrices of all prompts (`words.confusion_by_prompt`).

    They are [seeds, prompts, true: labels + others, predicted: labels + others + malformed], and
    `group` holds the indices of some labels.
    """
    inside = np.zeros(counts.shape[2] - 1, bool)
    inside[group] = True
    corner = inside[:, None] & inside

    def means(sums: Floats) -> tuple[Floats, Floats]:
        """The mean cell in the group and elsewhere, [samples] each; NaN if there is none."""
        shares = sums / np.maximum(1e-9, sums.sum(2, keepdims=True))
        cells = shares[:, :-1, :-2]
        inner, outer = (
            share_of(cells[:, chosen].sum(1), np.full(len(cells), chosen.sum()))
            for chosen in (corner, ~corner)
        )
        return inner, outer

    def excess(sums: Floats) -> Floats:
        cell, rest = means(sums)
        return cell - rest

    whole = counts.sum((0, 1))
    other_rows = np.delete(whole, group, 0)
    rows = counts[:, :, group]
    (cell,), (rest,) = np.nan_to_num(means(whole[None]))
    return GroupCells(
        cell=float(cell),
        rest=float(rest),
        excess=over_prompts(excess, counts),
        generated=rate(rows[..., group].sum((2, 3)), rows.sum((2, 3))),
        generated_elsewhere=float(other_rows[:, group].sum() / max(1, other_rows.sum())),
    )


class SquareFreeErrors(NamedTuple):
    """Errors by whether the true and the generated word are square-free, over all words.

    A malformed word is not square-free. The classes are shares of all errors.
    """

    within: Estimate  # a square-free word in place of another one
    lost: Estimate  # another word in place of a square-free word
    gained: Estimate  # a square-free word in place of another word
    outside: Estimate  # neither is square-free
    lead: Estimate  # `within` minus the largest of the other three
    at_square_free: Estimate  # share of square-free words among the errors at square-free words
    by_chance: float  # this share if wrong words were drawn from the generated words


def square_free_errors(
    predicted: Sequence[Words], true: Sequence[Words], seeds: int
) -> SquareFreeErrors:
    pairs = [(p, t[: len(p)]) for p, t in zip(predicted, true, strict=True)]
    counts = np.array([_classes(*pair) for pair in pairs], np.int64).reshape(seeds, -1, 4)
    within, lost, gained, outside = np.moveaxis(counts, -1, 0)

    def lead(sums: Floats) -> Floats:
        return share_of(sums[:, 0] - sums[:, 1:].max(1), sums.sum(1))

    return SquareFreeErrors(
        within=rate(within, counts.sum(2)),
        lost=rate(lost, counts.sum(2)),
        gained=rate(gained, counts.sum(2)),
        outside=rate(outside, counts.sum(2)),
        lead=over_prompts(lead, counts),
        at_square_free=rate(within, within + lost),
        by_chance=_by_chance(pairs),
    )


def square_free_words(words: Words) -> NDArray[np.bool_]:
    """Which words are square-free; a malformed word is not."""
    free: NDArray[np.bool_] = are_square_free(words) & (words != MALFORMED)
    return free


def _classes(predicted: Words, true: Words) -> list[int]:
    """Errors by class, in the order of the fields of `SquareFreeErrors`."""
    wrong = predicted != true
    guess, truth = square_free_words(predicted[wrong]), square_free_words(true[wrong])
    classes = ((truth, guess), (truth, ~guess), (~truth, guess), (~truth, ~guess))
    return [int((a & b).sum()) for a, b in classes]


def _by_chance(pairs: Pairs) -> float:
    """The mean chance that a wrong word is square-free, over the errors at square-free words.

    A wrong word is drawn from all generated words except the true word.
    """
    predicted, true = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
    places, errors = np.unique(
        true[(predicted != true) & square_free_words(true)], return_counts=True
    )
    generated = np.array([(predicted == word).sum() for word in places], np.int64)
    others = square_free_words(predicted).sum() - generated
    chances = others / np.maximum(1, len(predicted) - generated)
    return float((errors * chances).sum() / max(1, errors.sum()))
