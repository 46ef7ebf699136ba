"""Whether a group of words is confused within itself: statistics of a confusion matrix.

`counts` is the matrix of `evaluation.words.confusion`, [true: labels + others, predicted: labels +
others + malformed], and `group` holds the indices of some labels. Places are treated as
independent.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .estimates import Estimate, wilson

Integers = NDArray[np.int64]


class GroupCells(NamedTuple):
    """How often the words of a group are generated, in the group's own rows and in other rows."""

    cell: float  # mean cell in the group's rows and columns, as a share of its row
    cell_elsewhere: float  # mean cell in the group's columns and the rows of other words
    generated: Estimate  # how often a word of the group is generated where the true word is in it
    generated_elsewhere: float  # how often where the true word is not in it


def group_cells(counts: Integers, group: list[int]) -> GroupCells:
    shares = counts / np.maximum(1, counts.sum(1, keepdims=True))
    inside = np.ix_(group, group)
    other_rows = np.delete(counts, group, 0)
    return GroupCells(
        cell=float(shares[inside].mean()) if group else 0.0,
        cell_elsewhere=float(np.delete(shares, group, 0)[:, group].mean()) if group else 0.0,
        generated=wilson(int(counts[inside].sum()), int(counts[group].sum())),
        generated_elsewhere=float(other_rows[:, group].sum() / max(1, other_rows.sum())),
    )


def errors_in_group(counts: Integers, group: list[int]) -> tuple[Estimate, float]:
    """The share of words of the group among the errors where the true word is in the group.

    Also the share expected if a wrong word were drawn from the model's own word frequencies.
    """
    rows = np.array(group, np.int64)
    generated = counts.sum(0)
    right = counts[rows, rows]
    wrong = counts[rows].sum(1) - right
    alike = counts[np.ix_(rows, rows)].sum(1) - right
    others = generated[rows].sum() - generated[rows]
    chance = others / np.maximum(1, generated.sum() - generated[rows])
    by_chance = float((wrong * chance).sum() / max(1, wrong.sum()))
    return wilson(int(alike.sum()), int(wrong.sum())), by_chance


def share_of_errors(counts: Integers, group: list[int]) -> Estimate:
    """The share of all errors in which one word of the group replaces another.

    A lower bound: all words without a label count as wrong.
    """
    right = np.trace(counts[:-1, :-2])
    alike = counts[np.ix_(group, group)]
    return wilson(int(alike.sum() - np.trace(alike)), int(counts.sum() - right))
