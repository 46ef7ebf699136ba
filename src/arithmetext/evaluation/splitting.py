"""Word accuracy from the text alone: generated and true text are split and compared word by word.

Elsewhere the integer of every word is known, and the unfinished word at the end of a prompt is
joined with its continuation. Here only the text after the prompt is compared, so the first word may
be the end of a word.

The prompt may also end with a whole word whose space is still to come. Then the true text begins
with a space. If the model extends this word instead, its text does not begin with a space.
`text.split()` drops a space at the beginning, so from there on each generated word is compared with
a neighbour of the right word, and the continuation scores like noise. The same happens if only the
generated text begins with a space. `text.split(" ")` keeps an empty word before the space, and
nothing shifts.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from ..tokens.spelling import spell
from .prompts import TextPrompts
from .words import Floats


class SplitScores(NamedTuple):
    """The accuracy of each prompt in two ways to split the text, [prompts]."""

    split: Floats  # text.split()
    split_at_spaces: Floats  # text.split(" ")
    first_differs: NDArray[np.bool_]  # only one of the two texts begins with a space


def split_scores(prompts: TextPrompts, tokens: Tensor) -> SplitScores:
    """Score generated tokens, [prompts, tokens], against the true text after each prompt."""
    generated = [prompts.tokenizer.text(row) for row in tokens.cpu().numpy()]
    true = true_texts(prompts, [text.count(" ") + 2 for text in generated])
    pairs = list(zip(generated, true, strict=True))
    return SplitScores(
        split=np.array([split_accuracy(*pair) for pair in pairs]),
        split_at_spaces=np.array([split_accuracy(*pair, separator=" ") for pair in pairs]),
        first_differs=np.array(
            [ours[:1].isspace() != truth[:1].isspace() for ours, truth in pairs]
        ),
    )


def true_texts(prompts: TextPrompts, counts: list[int]) -> list[str]:
    """The true text after each prompt, to the end of `counts` words."""
    spelled = map(spell, prompts.true_words(counts))
    return [text[len(begun) :] for text, begun in zip(spelled, prompts.begun(), strict=True)]


def split_accuracy(generated: str, true: str, separator: str | None = None) -> float:
    """The share of generated words that equal the true word at the same place.

    An unfinished word at the end of the generated text counts as a word.

    >>> split_accuracy(" 1010 10 ", "10 1010 10 1100 ")
    0.0
    >>> split_accuracy(" 1010 10", "10 1010 10 1100 ", " ")
    0.6666666666666666
    """
    words, truth = generated.split(separator), true.split(separator)
    return sum(a == b for a, b in zip(words, truth, strict=False)) / max(1, len(words))
