"""Whether a group of words is confused within itself: statistics of a confusion matrix.

`counts` are those of `evaluation.words.confusion`, [true: labels + others, predicted: labels +
others + malformed], and `group` holds the positions of some labels. Places are treated as
independent.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .estimates import Estimate, wilson

Integers = NDArray[np.int64]


class GroupCells(NamedTuple):
    """The cells of a group's rows and columns, and those of its columns in the other rows."""

    cell: float  # mean share of its row that a cell of the group has
    cell_below: float  # the same in the other rows
    generated: Estimate  # how often a word of the group is generated where one of them stands
    generated_elsewhere: float  # and where another word stands


def group_cells(counts: Integers, group: list[int]) -> GroupCells:
    shares = counts / np.maximum(1, counts.sum(1, keepdims=True))
    inside = np.ix_(group, group)
    below = np.delete(counts, group, 0)
    return GroupCells(
        cell=float(shares[inside].mean()) if group else 0.0,
        cell_below=float(np.delete(shares, group, 0)[:, group].mean()) if group else 0.0,
        generated=wilson(int(counts[inside].sum()), int(counts[group].sum())),
        generated_elsewhere=float(below[:, group].sum() / max(1, below.sum())),
    )


def errors_in_group(counts: Integers, group: list[int]) -> tuple[Estimate, float]:
    """The share of words of the group among the errors where a word of the group stands.

    Also the share by chance, where a wrong word is any other word, as often as it was generated at
    all.
    """
    some = np.array(group, np.int64)
    generated = counts.sum(0)
    right = counts[some, some]
    wrong = counts[some].sum(1) - right
    alike = counts[np.ix_(some, some)].sum(1) - right
    others = generated[some].sum() - generated[some]
    chance = others / np.maximum(1, generated.sum() - generated[some])
    by_chance = float((wrong * chance).sum() / max(1, wrong.sum()))
    return wilson(int(alike.sum()), int(wrong.sum())), by_chance


def share_of_errors(counts: Integers, group: list[int]) -> Estimate:
    """The share of all errors in which one word of the group stands for another.

    A lower bound: all words without a label count as wrong.
    """
    right = np.trace(counts[:-1, :-2])
    alike = counts[np.ix_(group, group)]
    return wilson(int(alike.sum() - np.trace(alike)), int(counts.sum() - right))
