"""How much of the context is used: predictions from the true tokens before them."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..models.language import LanguageModel
from ..progress import progress
from .estimates import Estimate, ratio, share
from .generation import generate
from .prompts import TextPrompts
from .scoring import score

WORD = 20  # tokens that end a word, nearly always: some words are spelled letter by letter


class Stretch(NamedTuple):
    """Positions that have from `first` to `last` tokens before them."""

    first: int
    last: int
    token_accuracy: Estimate
    nats_per_word: Estimate
    word_accuracy: Estimate  # of the word that ends next after exactly `first` tokens


def by_context(model: LanguageModel, prompts: TextPrompts) -> list[Stretch]:
    """In stretches that double; the prompts need some tokens that follow them.

    Tokens may hold pieces of several words, so there is no telling from single tokens which words a
    model has right: it has to go on by itself until one ends.
    """
    scores = score(model, prompts.ids)
    ended = prompts.tokenizer.words_ended[prompts.ids.numpy()]
    stretches = []
    first = 1
    with progress("contexts", prompts.length.bit_length(), "") as advance:
        while first < prompts.length:
            last = min(2 * first, prompts.length) - 1
            part = slice(first - 1, last)  # of what begins with the second token
            nats, words = -scores.logs[:, part].sum(1), ended[:, first : last + 1].sum(1)
            stretches.append(
                Stretch(
                    first=first,
                    last=last,
                    token_accuracy=ratio(scores.right[:, part].mean(1)),
                    nats_per_word=ratio(nats, words),
                    word_accuracy=share(next_words_right(model, prompts.cut(first))),
                )
            )
            first = last + 1
            advance()
    return stretches


def next_words_right(model: LanguageModel, prompts: TextPrompts) -> NDArray[np.bool_]:
    """For each prompt, whether the word that ends next is predicted.

    The prompt may have begun it, or begin inside it: what is left of it is compared.
    """
    rights = []
    for _, batch in prompts.batches():
        made = generate(model.read(batch), WORD).cpu().numpy()
        for said, true in zip(made, batch.following.numpy(), strict=True):
            rest = prompts.tokenizer.text(true).partition(" ")[0]
            rights.append(prompts.tokenizer.text(said).startswith(f"{rest} "))
    return np.array(rights)
