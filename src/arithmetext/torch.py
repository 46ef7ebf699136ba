"""Random windows of the text as a PyTorch dataset, with the integer behind every token.

Window i is a pure function of (seed, i), so a dataset resumes from one integer, the number of the
next window. Workers of a `DataLoader` take turns: worker w of W makes the windows w, w + W,
w + 2W, …

The text is every word followed by one space, and the space belongs to the word before it. So every
character belongs to one integer. A token may hold several characters, of one word or of several
words; `n` is the integer of its last character, the last integer whose word a model has begun to
read at this token. A token that is only a space has the integer of the word that it ends.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from operator import index
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from .errors import InputError
from .text.sieve import check_range
from .text.splits import TRAINED_TO, Range, splits
from .text.windows import TRAIN, generator
from .tokens import BPE, Tokenizer
from .tokens.windows import ENCODER_WARMUP, TokenWindows

Window = dict[str, Tensor]


@cache
def paper_tokens() -> Tokenizer:
    """Byte-pair encoding of 256 tokens, trained once in a process, in about a second."""
    return BPE.train(256)


class WindowDataset(IterableDataset[Window]):
    """Endless random windows of `length` tokens, from the given ranges of integers.

    A window has `ids` [length], `n` [length], the integer of each token, and `residues`
    [length, moduli], n modulo each of the `moduli`. By default the tokens are byte-pair encoding of
    256 tokens, and the ranges those that the paper trains on.

    Iterating begins with window 0, or goes on where `load_state_dict` says. `StatefulDataLoader` of
    torchdata uses these states; it must resume with as many workers as before. Processes that train
    together need different seeds.
    """

    def __init__(
        self,
        tokenizer: Tokenizer | None = None,
        ranges: Sequence[Range] | None = None,
        length: int = 1024,
        *,
        seed: int = 0,
        moduli: Sequence[int] = (2, 3, 5, 7, 11, 13),
    ) -> None:
        if length < 1:
            raise InputError(f"a window has 1 token or more, not {length}")
        if not 0 <= seed < 2**63:
            raise InputError(f"a seed is a number from 0 to 2^63 - 1, not {seed}")
        for modulus in moduli:
            if not 1 <= index(modulus) < 2**63:
                raise InputError(f"a modulus is an integer from 1 to 2^63 - 1, not {modulus}")
        tokenizer = paper_tokens() if tokenizer is None else tokenizer
        ranges = splits(TRAINED_TO).train if ranges is None else ranges
        self.windows = TokenWindows(tokenizer, [check_range(lo, hi) for lo, hi in ranges], length)
        self.seed = seed
        self.moduli = np.array(moduli, np.int64)
        self._words_ended = tokenizer.words_ended
        self._ends_word = np.array([token.endswith(" ") for token in tokenizer.vocabulary])
        self._next = 0  # the next window of the iterator that was used last
        self._skipped = 0  # windows that the next iterator leaves out, since they were read before

    def window(self, i: int) -> Window:
        """Window i; the same in every process."""
        start = self.windows.random_start(generator(self.seed, TRAIN, i, 0))
        [ids] = self.windows.with_warmup([start])
        n = start + np.cumsum(self._words_ended[ids]) - self._ends_word[ids]
        ids, n = ids[ENCODER_WARMUP:], n[ENCODER_WARMUP:]
        arrays = {"ids": ids, "n": n, "residues": n[:, None] % self.moduli}
        return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}

    def __iter__(self) -> Iterator[Window]:
        worker = get_worker_info()
        first, step = (0, 1) if worker is None else (worker.id, worker.num_workers)
        first, self._skipped = first + self._skipped, 0
        self._next = first  # set here, because a state may be asked for before the first window
        return self._from(first, step)

    def _from(self, i: int, step: int) -> Iterator[Window]:
        while True:
            window = self.window(i)
            i += step
            self._next = i
            yield window

    def state_dict(self) -> dict[str, Any]:
        """The number of the next window, and what tells the windows apart from others."""
        return {"seed": self.seed, "length": self.windows.tokens, "next": self._next}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Let the next iterator begin with the window that `state_dict` named."""
        for name, ours in ("seed", self.seed), ("length", self.windows.tokens):
            if state.get(name) != ours:
                raise InputError(
                    f"this state is of a dataset with {name} {state.get(name)}, not {ours}"
                )
        worker = get_worker_info()
        self._next = state["next"]
        self._skipped = self._next - (0 if worker is None else worker.id)
