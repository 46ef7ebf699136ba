"""Prompts from the text, and the text that follows them.

A prompt may end inside a word. Then the continuation completes this word, and the whole word counts
as the first word of the continuation. `integers` holds the integer of this first word.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..models.language import Prompts
from ..text.sieve import Words, words
from ..text.splits import Range
from ..text.windows import TEST, generator
from ..tokens import Tokenizer
from ..tokens.spelling import read, spell
from ..tokens.windows import ENCODER_MARGIN, ENCODER_WARMUP, TokenWindows, integers_for

BATCH = 128  # prompts read together


@dataclass(frozen=True, kw_only=True)
class TextPrompts(Prompts):
    """Prompts from the text, and the tokens that follow them in the text."""

    integers: NDArray[np.int64]  # [prompts]: whose word is the first to end after the prompt
    following: Tensor  # [prompts, following tokens]
    tokenizer: Tokenizer
    blocks: int = 1  # prompt k was drawn from block k % blocks of the text

    @property
    def length(self) -> int:
        """Number of tokens of a prompt."""
        return self.ids.shape[1]

    def followed_by(self, count: int) -> "TextPrompts":
        """The same prompts with only the first `count` tokens after them."""
        return replace(self, following=self.following[:, :count])

    def cut(self, length: int) -> "TextPrompts":
        """Prompts of the first `length` tokens; the rest of each prompt now follows it."""
        rest = self.ids[:, length:]
        return replace(
            self,
            ids=self.ids[:, :length],
            following=torch.cat([rest, self.following], 1),
            integers=self.integers - self.tokenizer.words_ended[rest.numpy()].sum(1),
        )

    def batches(self) -> Iterator[tuple[int, "TextPrompts"]]:
        """At most `BATCH` prompts at a time, and the number of the first of them."""
        for first in range(0, len(self), BATCH):
            part = slice(first, first + BATCH)
            yield (
                first,
                replace(
                    self,
                    ids=self.ids[part],
                    following=self.following[part],
                    integers=self.integers[part],
                ),
            )

    def begun(self) -> list[str]:
        """The unfinished word at the end of each prompt; often empty."""
        rows = self.ids.numpy()
        return [self.tokenizer.decode(row, inside=True).tail for row in rows]

    def words_after(self, following: Tensor) -> list[Words]:
        """The words that tokens after each prompt, [prompts, tokens], complete; 0 if malformed."""
        rows = zip(self.begun(), following.cpu().numpy(), strict=True)
        return [
            read(begun + self.tokenizer.text(after), inside=False).words for begun, after in rows
        ]

    def true_words(self, counts: list[int], *, margin: int = 0) -> list[Words]:
        """The true words after each prompt: `counts` of them, and `margin` more on both sides."""
        return [
            words(place - margin, place + count + margin, threads=1) if count + margin else _NONE
            for place, count in zip(self.integers.tolist(), counts, strict=True)
        ]


_NONE = np.zeros(0, np.uint64)


def draw(
    tokenizer: Tokenizer, window: Range, *, number: int, length: int, following: int, seed: int = 0
) -> TextPrompts:
    """Draw `number` prompts of `length` tokens from a range, with `following` tokens after each.

    Prompt k is a pure function of (seed, the range, the lengths, k). Prompts may overlap.
    """
    return _draw(tokenizer, [window] * number, length, following, seed)


def draw_from_blocks(
    tokenizer: Tokenizer,
    blocks: Sequence[Range],
    *,
    number: int,
    length: int,
    following: int,
    seed: int = 0,
) -> TextPrompts:
    """As `draw`, but prompt k comes from block k % len(blocks), and no two prompts overlap.

    A block is cut into slots of equal length, and each prompt with its continuation lies in a slot
    of its own.
    """
    rows = -(-number // len(blocks))  # slots of a block
    slots = []
    for k in range(number):
        lo, hi = blocks[k % len(blocks)]
        begin = lo + (hi - lo) * (k // len(blocks)) // rows
        slots.append((begin, begin + (hi - lo) // rows))
    return replace(_draw(tokenizer, slots, length, following, seed), blocks=len(blocks))


def _draw(
    tokenizer: Tokenizer, ranges: Sequence[Range], length: int, following: int, seed: int
) -> TextPrompts:
    """One prompt from each of the ranges."""
    starts, rows = [], []
    for k, each in enumerate(ranges):
        windows = TokenWindows(tokenizer, [each], length + following)
        starts.append(windows.random_start(generator(seed, TEST, each[0], k)))
        rows.append(windows.with_warmup(starts[-1:]))
    ids = np.concatenate(rows)
    ended = tokenizer.words_ended[ids]
    integers = np.array(starts) + ended[:, : ENCODER_WARMUP + length].sum(1)
    ids, ended = ids[:, ENCODER_WARMUP:], ended[:, ENCODER_WARMUP:]
    if following and not ended[:, length:].any(1).all():
        raise InputError(f"no word ends in {following} tokens: let more tokens follow")
    if not ended[:, :length].any(1).all():
        raise InputError(f"a prompt of {length} tokens may lie inside one word: use longer prompts")
    return TextPrompts(
        torch.from_numpy(ids[:, :length]),
        integers=integers,
        following=torch.from_numpy(ids[:, length:]),
        tokenizer=tokenizer,
    )


def before(tokenizer: Tokenizer, n: int, *, length: int) -> TextPrompts:
    """The prompt before the word of n; it may end inside the word before, at the end of a token."""
    start = n - integers_for(tokenizer, length)
    if start < 2:
        raise InputError(f"a prompt of {length} tokens does not fit before {n}: use a larger n")
    ids = tokenizer.encode(words(start, n + ENCODER_MARGIN, threads=1), threads=1).astype(np.int64)
    widths = np.array([len(token) for token in tokenizer.vocabulary])
    letters_before = len(spell(words(start, n, threads=1)))
    end = int(np.searchsorted(np.cumsum(widths[ids]), letters_before, side="right"))
    return TextPrompts(
        torch.from_numpy(ids[None, end - length : end]),
        integers=start + tokenizer.words_ended[ids[None, :end]].sum(1),
        following=torch.zeros((1, 0), dtype=torch.int64),
        tokenizer=tokenizer,
    )
