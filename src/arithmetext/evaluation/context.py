"""Accuracy and loss by the number of tokens before: how much of its context a model uses."""

from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..models.language import LanguageModel
from ..progress import progress
from .estimates import Estimate, ratio, share
from .generation import sample_tokens
from .prompts import TextPrompts
from .scoring import score

WORD_TOKENS = 41  # no word below 2^63 has more than 40 letters, and a space ends it


class ContextRange(NamedTuple):
    """Predictions from `first` to `last` tokens of context."""

    first: int
    last: int
    token_accuracy: Estimate
    nats_per_word: Estimate
    word_accuracy: Estimate  # of the word that ends next, after exactly `first` tokens


def by_context(model: LanguageModel, prompts: TextPrompts) -> list[ContextRange]:
    """Measure a model on contexts of 1, 2–3, 4–7, … tokens.

    Tokens may hold pieces of several words, so single tokens do not tell which words are right. For
    word accuracy the model generates tokens until a word ends, so `WORD_TOKENS` must follow each
    prompt.
    """
    scores = score(model, prompts.ids)
    ended = prompts.tokenizer.words_ended[prompts.ids.numpy()]
    ranges = []
    first = 1
    with progress("contexts", prompts.length.bit_length(), "") as advance:
        while first < prompts.length:
            last = min(2 * first, prompts.length) - 1
            part = slice(first - 1, last)  # scores begin with the second token
            nats, words = -scores.logs[:, part].sum(1), ended[:, first : last + 1].sum(1)
            ranges.append(
                ContextRange(
                    first=first,
                    last=last,
                    token_accuracy=ratio(scores.right[:, part].mean(1)),
                    nats_per_word=ratio(nats, words),
                    word_accuracy=share(next_words_right(model, prompts.cut(first))),
                )
            )
            first = last + 1
            advance()
    return ranges


def next_words_right(model: LanguageModel, prompts: TextPrompts) -> NDArray[np.bool_]:
    """For each prompt, whether the model predicts the word that ends next, [prompts].

    The prompt may end inside this word; then the rest of the word is compared.
    """
    rights = []
    for _, batch in prompts.batches():
        generated = _until_words_end(model, batch)
        for predicted, true in zip(generated, batch.following.numpy(), strict=True):
            rest = prompts.tokenizer.text(true).partition(" ")[0]
            rights.append(prompts.tokenizer.text(predicted).startswith(f"{rest} "))
    return np.array(rights)


def _until_words_end(model: LanguageModel, prompts: TextPrompts) -> NDArray[np.int64]:
    """Generate tokens until every prompt has ended a word, or `WORD_TOKENS`: [prompts, tokens]."""
    tokens, open_ = [], np.ones(len(prompts), np.bool_)
    for token in islice(sample_tokens(model.read(prompts)), WORD_TOKENS):
        tokens.append(token.cpu().numpy())
        open_ &= prompts.tokenizer.words_ended[tokens[-1]] == 0
        if not open_.any():
            break
    return np.stack(tokens, 1)
