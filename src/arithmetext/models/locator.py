"""The locator as a language model: it finds the integers of a prompt and reads on in the text.

If a prompt cannot be located, or its continuation differs from the text, all tokens are equally
likely.
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
from ..tokens.windows import ENCODER_MARGIN
from .language import LanguageModel, Prompts

FARTHEST = 10**16  # the search ends below this; the paper's last block begins at 10^15
SIEVED_AHEAD = 1 << 10  # words after a prompt that are sieved at once


class Locator(LanguageModel):
    """A language model over any tokens."""

    deterministic = True
    can_score = False  # its probabilities are 0, 1 or uniform

    def __init__(self, tokenizer: Tokenizer, *, below: int = FARTHEST) -> None:
        self.tokenizer, self.below = tokenizer, below
        self.vocabulary = tokenizer.size

    @property
    def description(self) -> str:
        below = format_integer(self.below)
        return f"locator, finds the integers of a prompt below {below} and reads on"

    def read(self, prompts: Prompts, *, stride: int = 1) -> "LocatedReading":
        rows = prompts.ids.cpu().numpy()
        return LocatedReading(self.tokenizer, [self._locate(ids) for ids in rows])

    def _locate(self, ids: Ids) -> "_Continuation | None":
        """The continuation of a prompt; None if it cannot be located."""
        prompt = self.tokenizer.decode(ids, inside=True)
        if not len(prompt.words) or len(prompt.malformed):
            return None
        location = locate(prompt.words, self.below)
        if len(location.places) != 1 or location.too_short:
            return None
        n = location.places[0] + len(prompt.words)
        return _continuation(self.tokenizer, n, prompt.tail)


class LocatedReading:
    """Prompts, and the continuation of each prompt in the text."""

    def __init__(self, tokenizer: Tokenizer, continuations: list["_Continuation | None"]) -> None:
        self._size, self._continuations = tokenizer.size, continuations

    def log_probabilities(self) -> Tensor:
        logs = np.full((len(self._continuations), self._size), -np.log(self._size))
        for row, continuation in zip(logs, self._continuations, strict=True):
            if continuation is not None:
                row[:] = -np.inf
                row[continuation.token] = 0
        return torch.from_numpy(logs)

    def append(self, tokens: Tensor) -> None:
        for i, token in enumerate(tokens.tolist()):
            continuation = self._continuations[i]
            if continuation is not None:
                agrees = continuation.token == token
                self._continuations[i] = continuation.next() if agrees else None


@dataclass(frozen=True)
class _Continuation:
    """A position in the text, whose next token is known."""

    tokenizer: Tokenizer
    first: int  # the integer at which `ids` begin
    ids: Ids
    index: int  # the index of the next token in `ids`

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
    """The text after `begun`, the first letters of the word of n; None if they do not match."""
    first = max(2, n - ENCODER_MARGIN)
    text = words(first, n + SIEVED_AHEAD + ENCODER_MARGIN, threads=1)
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
