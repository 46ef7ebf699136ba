"""The paper's training, validation and test ranges.

The text of 2..n is cut into ten chunks. Chunk k is (k n/10, (k+1) n/10]; the first begins at 2. The
first three quarters of each chunk are for training. The last quarter is for validation, except in
the tenth chunk, where it is for testing. Windows of 10^6 integers far beyond n are for testing too.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import InputError
from ..integers import format_integer
from .ranges import MAX

Range = tuple[int, int]  # half-open: lo ≤ i < hi

TRAINED_TO = 10**11  # the paper trains on the text of 2..10^11
CHUNKS = 10
FAR_LENGTH = 10**6


@dataclass(frozen=True)
class Splits:
    """Half-open, disjoint ranges of integers."""

    train: tuple[Range, ...]
    validation: tuple[Range, ...]
    test: Range

    @property
    def seen(self) -> tuple[Range, ...]:
        """The ranges that shaped a model: it was trained on some and chosen by its loss on others.

        A test must avoid both.
        """
        return self.train + self.validation


def splits(n: int) -> Splits:
    """The paper's ranges for the text of 2..n.

    >>> splits(10**11).test
    (97500000001, 100000000001)
    """
    if n < 100:
        raise InputError(f"a text of 2..{n} is too short to be split: n must be at least 100")
    # The borders of the quarters of the chunks; neighbouring quarters share a border for any n.
    borders = [max(2, 1 + n * quarter // (4 * CHUNKS)) for quarter in range(4 * CHUNKS + 1)]
    train = tuple((borders[4 * k], borders[4 * k + 3]) for k in range(CHUNKS))
    *validation, test = ((borders[4 * k + 3], borders[4 * k + 4]) for k in range(CHUNKS))
    return Splits(train, tuple(validation), test)


def far_window(power: int) -> Range:
    """The paper's test window [10^power, 10^power + 10^6], both ends included."""
    return 10**power, 10**power + FAR_LENGTH + 1


def unseen(at: int, seen: Sequence[Range]) -> Range:
    """A window of a million integers outside the `seen` ranges: from `at` on, or else before it.

    >>> unseen(10**13, splits(10**11).seen) == far_window(13)
    True
    """
    [block] = blocks_near(at, seen, 1)
    return block


def blocks_near(at: int, seen: Sequence[Range], number: int) -> tuple[Range, ...]:
    """`number` windows of a million integers outside the `seen` ranges, all within 2 % of `at`.

    The first begins at `at`, or ends there. The others follow at distances of at / 500.

    >>> blocks_near(98 * 10**9, splits(10**11).seen, 10)[-1]
    (99764000000, 99765000001)
    """
    if at + (number - 1) * (at // 500) + FAR_LENGTH >= MAX:
        raise InputError(
            f"{format_integer(at)} is too large: the text to test on would end beyond 2^63"
        )
    blocks = []
    for k in range(number):
        near = at + k * (at // 500)
        for lo, hi in (near, near + FAR_LENGTH + 1), (near - FAR_LENGTH, near):
            if lo >= 2 and not any(lo < end and begin < hi for begin, end in seen):
                blocks.append((lo, hi))
                break
        else:
            raise InputError(
                f"the integers around {format_integer(at)} were used for training or validation:"
                " choose others, such as 1e13"
            )
    return tuple(blocks)
