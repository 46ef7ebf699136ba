"""Random windows of the encoded text.

A window is cut from the tokens of the whole text, as the paper cuts its sentences, so it may begin
and end inside a word. To get these tokens without encoding from 2 on, encoding begins at some word
before the window, and the first `ENCODER_WARMUP` tokens, which depend on that word, are dropped.
"""

from collections.abc import Sequence

import numpy as np

from ..text.sieve import Words, words_of_windows
from ..text.splits import Range
from ..text.surrogate import Surrogate
from ..text.windows import Windows
from .spelling import LongIds as LongIds
from .tokenizer import Tokenizer

# After at most 80 characters, so after at most 80 tokens, two encodings that begin at different
# words agree (D ≤ 1024).
ENCODER_WARMUP = 80

# Words after a place that can change its tokens: two encodings of overlapping texts agree except in
# the first and the last words.
ENCODER_MARGIN = 32


class TokenWindows(Windows):
    """All windows of `tokens` tokens, by their smallest integer.

    Encoding begins at this integer or, if the text is read `backward`, ends at it. With a seed
    `surrogate`, the windows are those of a surrogate text.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        ranges: Sequence[Range],
        tokens: int,
        *,
        backward: bool = False,
        surrogate: int | None = None,
    ) -> None:
        super().__init__(ranges, integers_for(tokenizer, tokens))
        self.tokenizer, self.tokens, self.backward = tokenizer, tokens, backward
        self.surrogate = None if surrogate is None else Surrogate(surrogate)

    def draw(self, random: np.random.Generator) -> LongIds:
        """The ids of a random window, [tokens]."""
        return self.with_warmup([self.random_start(random)])[0, ENCODER_WARMUP:]

    def with_warmup(self, starts: Sequence[int]) -> LongIds:
        """The ids of windows and of the warm-up before each, [windows, ENCODER_WARMUP + tokens]."""
        if self.surrogate is None:
            words = words_of_windows(starts, self.length)
        else:
            words = self.surrogate.words_of_windows(starts, self.length)
        if self.backward:
            words = np.ascontiguousarray(words[:, ::-1])
        return self.tokenizer.encode_rows(words, ENCODER_WARMUP + self.tokens)


def integers_for(tokenizer: Tokenizer, tokens: int) -> int:
    """How many integers always give the warm-up and `tokens` tokens."""
    return (ENCODER_WARMUP + tokens) * max(1, int(tokenizer.words_ended.max()))


def cut(tokenizer: Tokenizer, words: Words, tokens: int) -> LongIds:
    """`tokens` tokens of these words, skipping the encoder's warm-up."""
    ids = tokenizer.encode(np.ascontiguousarray(words), threads=1)
    return ids[ENCODER_WARMUP : ENCODER_WARMUP + tokens].astype(np.int64)
