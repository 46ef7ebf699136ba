"""The locator as a language model: it finds the integers of a prompt and factors those after them.

If a prompt cannot be located, or continues unlike the text, all tokens are equally likely.
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

FARTHEST = 10**16  # it searches below; the paper's last block begins at 10^15
LOOKAHEAD = 1 << 10  # words that are sieved at once
# Words after which two encodings agree that begin at different words; the same before their ends.
ENCODER_MARGIN = 32


class Locator(LanguageModel):
    """A language model over any tokens."""

    deterministic = True
    can_score = False  # likelihoods are 0, 1 or those of uniform tokens

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
        """What follows a prompt; None if it cannot be located."""
        prompt = self.tokenizer.decode(ids, inside=True)
        if not len(prompt.words) or len(prompt.malformed):
            return None
        found = locate(prompt.words, self.below)
        if len(found.places) != 1 or found.too_short:
            return None
        return _continuation(self.tokenizer, found.places[0] + len(prompt.words), prompt.tail)


class LocatedReading:
    """Prompts, and what follows each of them in the text."""

    def __init__(self, tokenizer: Tokenizer, after: list["_Continuation | None"]) -> None:
        self._size, self._after = tokenizer.size, after

    def log_probabilities(self) -> Tensor:
        logs = np.full((len(self._after), self._size), -np.log(self._size))
        for row, continuation in zip(logs, self._after, strict=True):
            if continuation is not None:
                row[:] = -np.inf
                row[continuation.token] = 0
        return torch.from_numpy(logs)

    def append(self, tokens: Tensor) -> None:
        for i, token in enumerate(tokens.tolist()):
            continuation = self._after[i]
            if continuation is not None:
                self._after[i] = continuation.next() if continuation.token == token else None


@dataclass(frozen=True)
class _Continuation:
    """A position in the text, whose next token is known."""

    tokenizer: Tokenizer
    first: int  # the integer at which `ids` begin
    ids: Ids
    index: int  # of the next token

    @property
    def token(self) -> int:
        return int(self.ids[self.index])

    def next(self) -> "_Continuation | None":
        if self.index + 1 < len(self.ids):
            return replace(self, index=self.index + 1)
        read = self.tokenizer.text(self.ids)
        n = self.first + read.count(" ")
        return _continuation(self.tokenizer, n, read[read.rfind(" ") + 1 :])


def _continuation(tokenizer: Tokenizer, n: int, begun: str) -> _Continuation | None:
    """What follows `begun` in the word of n; None if that word begins otherwise."""
    first = max(2, n - ENCODER_MARGIN)
    text = words(first, n + LOOKAHEAD + ENCODER_MARGIN, threads=1)
    before = len(spell(text[: n - first])) + len(begun)
    if not spell(text[n - first :]).startswith(begun):
        return None
    ids = tokenizer.encode(text, threads=1)
    ends = np.cumsum([len(tokenizer.vocabulary[token]) for token in ids])
    index = int(np.searchsorted(ends, before, side="right"))
    if index and ends[index - 1] != before:
        return None  # the text has no token boundary where the prompt ends
    last = int(np.searchsorted(ends, len(spell(text[:-ENCODER_MARGIN]))))
    return _Continuation(tokenizer, first, ids[:last], index)
