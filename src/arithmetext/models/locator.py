"""The locator as a model: it finds where a prompt stands and reads the rest off the integers.

Where a prompt cannot be located, or goes on otherwise than the text, nothing is known and every
token is as likely as any other.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..integers import format_integer
from ..search.locate import locate
from ..text.sieve import words
from ..tokens import Tokenizer
from ..tokens.spelling import Ids, spell
from .language import LanguageModel, Prompts

FARTHEST = 10**16  # beyond the paper's last block, which begins at 10^15
AHEAD = 1 << 10  # words that are looked up at once
# Encodings that begin, or end, at different words agree but for fewer letters than so many words
# have.
MARGIN = 32


class Locator(LanguageModel):
    """A language model over any tokens."""

    deterministic = True
    can_score = False  # it knows where a sequence stands, or nothing

    def __init__(self, tokenizer: Tokenizer, *, below: int = FARTHEST) -> None:
        self.tokenizer, self.below = tokenizer, below
        self.vocabulary = tokenizer.size

    @property
    def description(self) -> str:
        below = format_integer(self.below)
        return f"locator, finds where a prompt stands below {below} and reads on"

    def read(self, prompts: Prompts, *, stride: int = 1) -> "LocatedReading":
        rows = prompts.ids.cpu().numpy()
        return LocatedReading(self.tokenizer, [self._after(ids) for ids in rows])

    def _after(self, ids: Ids) -> "_Continuation | None":
        """What comes after a prompt, if it can be told."""
        prompt = self.tokenizer.decode(ids, inside=True)
        if not len(prompt.words) or len(prompt.malformed):
            return None
        found = locate(prompt.words, self.below)
        if len(found.places) != 1 or found.too_short:
            return None
        return _continuation(self.tokenizer, found.places[0] + len(prompt.words), prompt.tail)


class LocatedReading:
    """Prompts, and what comes after them in the text."""

    def __init__(self, tokenizer: Tokenizer, after: list["_Continuation | None"]) -> None:
        self._size, self._after = tokenizer.size, after

    def log_probabilities(self) -> Tensor:
        """Of every token to come next, [prompts, vocabulary], in nats."""
        logs = np.full((len(self._after), self._size), -np.log(self._size))
        for row, continuation in zip(logs, self._after, strict=True):
            if continuation is not None:
                row[:] = -np.inf
                row[continuation.token] = 0
        return torch.from_numpy(logs)

    def append(self, tokens: Tensor) -> None:
        """Read one more token of each prompt, [prompts]."""
        for i, token in enumerate(tokens.tolist()):
            continuation = self._after[i]
            if continuation is not None:
                self._after[i] = continuation.next() if continuation.token == token else None


@dataclass(frozen=True)
class _Continuation:
    """The next token of the text, the `place`-th of those that spell the words of `first`, …"""

    tokenizer: Tokenizer
    first: int
    ids: Ids
    place: int

    @property
    def token(self) -> int:
        return int(self.ids[self.place])

    def next(self) -> "_Continuation | None":
        if self.place + 1 < len(self.ids):
            return replace(self, place=self.place + 1)
        read = self.tokenizer.text(self.ids)
        n = self.first + read.count(" ")
        return _continuation(self.tokenizer, n, read[read.rfind(" ") + 1 :])


def _continuation(tokenizer: Tokenizer, n: int, begun: str) -> _Continuation | None:
    """What comes after the beginning of the word of n; None if that is another word."""
    first = max(2, n - MARGIN)
    text = words(first, n + AHEAD + MARGIN, threads=1)
    before = len(spell(text[: n - first])) + len(begun)
    if not spell(text[n - first :]).startswith(begun):
        return None
    ids = tokenizer.encode(text, threads=1)
    ends = np.cumsum([len(tokenizer.vocabulary[token]) for token in ids])
    place = int(np.searchsorted(ends, before, side="right"))
    if place and ends[place - 1] != before:
        return None  # the prompt was not cut into tokens as the text is
    last = int(np.searchsorted(ends, len(spell(text[:-MARGIN]))))
    return _Continuation(tokenizer, first, ids[:last], place)
