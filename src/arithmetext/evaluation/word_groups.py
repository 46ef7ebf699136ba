"""Whether a group of words is confused within itself: statistics of a confusion matrix.

`counts` holds the matrix of each prompt (`evaluation.words.confusion_by_prompt`), [seeds, prompts,
true: labels + others, predicted: labels + others + malformed], and `group` holds the indices of
some labels. Intervals are over prompts and seeds.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .estimates import Estimate, rate

Integers = NDArray[np.int64]


class GroupCells(NamedTuple):
    """How often the words of a group are generated, in the group's own rows and in other rows."""

    cell: float  # mean cell in the group's rows and columns, as a share of its row
    cell_elsewhere: float  # mean cell in the group's columns and the rows of other words
    generated: Estimate  # how often a word of the group is generated where the true word is in it
    generated_elsewhere: float  # how often where the true word is not in it


def group_cells(counts: Integers, group: list[int]) -> GroupCells:
    whole = counts.sum((0, 1))
    shares = whole / np.maximum(1, whole.sum(1, keepdims=True))
    other_rows = np.delete(whole, group, 0)
    rows = counts[:, :, group]
    return GroupCells(
        cell=float(shares[np.ix_(group, group)].mean()) if group else 0.0,
        cell_elsewhere=float(np.delete(shares, group, 0)[:, group].mean()) if group else 0.0,
        generated=rate(rows[..., group].sum((2, 3)), rows.sum((2, 3))),
        generated_elsewhere=float(other_rows[:, group].sum() / max(1, other_rows.sum())),
    )


def errors_in_group(counts: Integers, group: list[int]) -> tuple[Estimate, float]:
    """The share of words of the group among the errors where the true word is in the group.

    Also the share expected if a wrong word were drawn from the model's own word frequencies.
    """
    rows = counts[:, :, group]  # [seeds, prompts, group, predicted]
    alike = rows[..., group].sum(3) - _right(rows, group)
    wrong = rows.sum(3) - _right(rows, group)
    generated = counts.sum((0, 1, 2))
    others = generated[group].sum() - generated[group]
    chance = others / np.maximum(1, generated.sum() - generated[group])
    by_chance = float((wrong * chance).sum() / max(1, wrong.sum()))
    return rate(alike.sum(2), wrong.sum(2)), by_chance


def share_of_errors(counts: Integers, group: list[int]) -> Estimate:
    """The share of all errors in which one word of the group replaces another.

    A lower bound: all words without a label count as wrong.
    """
    labels = list(range(counts.shape[2] - 1))
    rows = counts[:, :, group]
    alike = rows[..., group].sum((2, 3)) - _right(rows, group).sum(2)
    return rate(alike, counts.sum((2, 3)) - _right(counts[:, :, labels], labels).sum(2))


def _right(rows: Integers, labels: list[int]) -> Integers:
    """How often each of these labels, which have the rows, is right: [seeds, prompts, labels]."""
    right: Integers = rows[..., range(len(labels)), labels]
    return right
