"""Windows of the text with the integer of each token, for studies of a model's activations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..errors import InputError
from ..text.splits import Range, blocks_near
from ..tokens import Tokenizer
from ..torch import WindowDataset
from .subjects import EvaluatedModel

BATCH = 4  # windows read together


@dataclass(frozen=True)
class LabelledWindows:
    """Windows, and the integer of each token: that of its last character."""

    ids: Tensor  # [windows, tokens]
    integers: Tensor  # [windows, tokens]

    def __len__(self) -> int:
        return len(self.ids)

    def batches(self) -> Iterator[tuple[slice, "LabelledWindows"]]:
        """A few windows at a time, and which they are."""
        for first in range(0, len(self), BATCH):
            part = slice(first, first + BATCH)
            yield part, replace(self, ids=self.ids[part], integers=self.integers[part])


def labelled_windows(
    tokenizer: Tokenizer,
    texts: Sequence[Sequence[Range]],
    *,
    number: int,
    length: int,
    seed: int,
) -> LabelledWindows:
    """Random windows of `length` tokens; window k is from text k % len(texts).

    A text consists of one or several ranges of integers.
    """
    if number < 1:
        raise InputError(f"at least one window is needed, not {number}")
    datasets = [WindowDataset(tokenizer, text, length, seed=seed, moduli=()) for text in texts]
    # Number k everywhere: texts of equal length would otherwise have windows at equal offsets, and
    # so, where their first integers are round numbers, with equal residues.
    windows = [datasets[k % len(texts)].window(k) for k in range(number)]
    ids, integers = (torch.stack([window[name] for window in windows]) for name in ("ids", "n"))
    return LabelledWindows(ids, integers)


def windows_near(
    model: EvaluatedModel, at: int, *, number: int, blocks: int, seed: int
) -> LabelledWindows:
    """Random windows near one integer, in text that the model has not seen.

    Window k is from block k % blocks, of a million integers each.
    """
    texts = [[block] for block in blocks_near(at, model.seen, blocks)]
    return labelled_windows(model.tokenizer, texts, number=number, length=model.context, seed=seed)


def check_shared(windows: int, blocks: int) -> None:
    """Every block of the text must have as many windows."""
    if windows % blocks:
        raise InputError(f"the number of test windows must be a multiple of {blocks}")
