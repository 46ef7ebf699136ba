"""Random windows of the text.

There is no corpus: a window is drawn and sieved when it is needed. Training, evaluation and n-grams
all draw their windows with this module. A window drawn with `generator` is a pure function of
(seed, purpose, i, k): window k of batch i does not depend on the windows drawn before it. So
several processes can share a batch, and a run can resume from its step number alone. The windows of
`random_windows`, for n-grams, are a function of (seed, number) and of the ranges.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from ..errors import InputError
from .splits import Range

# The purposes of random numbers. No two purposes share random numbers, whatever the seed.
TRAIN, VALIDATION, GENERATION, TEST, MASKING = range(5)


def generator(seed: int, purpose: int, i: int, k: int, use: int = 0) -> np.random.Generator:
    """The random numbers for window k of batch i; `use` tells several uses of one window apart.

    In kernels, `philox` gives the same.
    """
    return np.random.Generator(np.random.Philox(key=(seed, purpose), counter=[0, use, i, k]))


class Windows:
    """All windows of `length` consecutive integers that lie inside one of the ranges."""

    def __init__(self, ranges: Sequence[Range], length: int) -> None:
        self.length = length
        self.ranges = [(lo, hi) for lo, hi in ranges if hi - lo >= length]
        if not self.ranges:
            raise InputError(
                f"a window needs {length} integers, but the longest range has"
                f" {max((hi - lo for lo, hi in ranges), default=0)}"
            )
        self.sizes = [hi - lo - length + 1 for lo, hi in self.ranges]  # windows in each range
        self._ends = list(accumulate(self.sizes))
        self.count = self._ends[-1]

    def start(self, index: int) -> int:
        """The first integer of window number `index`, 0 ≤ index < count."""
        containing = bisect_right(self._ends, index)  # the index of the range
        _, hi = self.ranges[containing]
        return hi - self.length + 1 - (self._ends[containing] - index)

    def random_start(self, random: np.random.Generator) -> int:
        """The first integer of a random window; all windows are equally likely."""
        return self.start(int(random.integers(self.count)))


def random_windows(ranges: Sequence[Range], number: int, length: int, seed: int) -> list[Range]:
    """`number` random windows of `length` integers, all drawn from one random generator.

    A different `number` gives different windows, even with the same seed.
    """
    windows = Windows(ranges, length)
    random = np.random.default_rng(seed)
    sizes = np.array(windows.sizes)
    chosen = random.choice(len(sizes), number, p=sizes / sizes.sum())  # indices of ranges
    begins = np.array([lo for lo, _ in windows.ranges])[chosen] + random.integers(sizes[chosen])
    return [(begin, begin + length) for begin in begins.tolist()]
