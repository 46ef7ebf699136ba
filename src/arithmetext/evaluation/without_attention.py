"""The lowest loss that is possible without attention: predictions from one token alone.

A transformer without attention sees a single token: the token before the one that it predicts, or,
in masked modelling, the token shown at the masked position. The position tells it nothing, since
windows begin anywhere.
"""

import numpy as np
from numpy.typing import NDArray

from ..text.windows import TRAIN, generator
from ..tokens import Tokenizer
from ..tokens.windows import LongIds, TokenWindows
from ..training.config import MASK_SHARE, REPLACED_SHARE, Config

Floats = NDArray[np.float64]

# Count MIN_TOKENS tokens, or TOKENS_PER_PAIR for each of the D² pairs if that is more.
MIN_TOKENS = 2**22
TOKENS_PER_PAIR = 8
WINDOW = 2**10  # tokens


def lowest_loss(config: Config) -> float:
    """The lowest loss of a GPT with this configuration without attention, in nats per token."""
    tokenizer = config.tokens.tokenizer(config.text, config.n)
    windows, size = _windows(config, tokenizer), tokenizer.size
    if config.task == "mlm":
        counts = np.bincount(windows.ravel(), minlength=size)
        return conditional_entropy(shown_and_true(counts / counts.sum()))
    pairs = windows[:, :-1] * size + windows[:, 1:]
    joint = np.bincount(pairs.ravel(), minlength=size**2).reshape(size, size)
    return conditional_entropy(joint) + miller_madow(joint)


def _windows(config: Config, tokenizer: Tokenizer) -> LongIds:
    """Random windows of the training text, [windows, WINDOW + 1]."""
    windows = TokenWindows(tokenizer, config.text.train, WINDOW + 1)
    number = max(MIN_TOKENS, TOKENS_PER_PAIR * tokenizer.size**2) // WINDOW
    return np.stack([windows.draw(generator(config.seed, TRAIN, 0, k)) for k in range(number)])


def shown_and_true(frequencies: Floats) -> Floats:
    """The joint probability of shown and true token at a predicted position, [D + 1, D].

    The last row is for the mask token.
    """
    size = len(frequencies)
    shown = np.full((size + 1, size), REPLACED_SHARE / (size - 1))
    np.fill_diagonal(shown, 1 - MASK_SHARE - REPLACED_SHARE)
    shown[size] = MASK_SHARE
    return shown * frequencies


def conditional_entropy(joint: Floats | LongIds) -> float:
    """The entropy of the column given the row, in nats; `joint` holds counts or probabilities."""
    rows = joint.sum(1, keepdims=True)
    logs = np.log(np.divide(joint, rows, out=np.ones(joint.shape), where=joint > 0))
    return float(-(joint * logs).sum() / joint.sum())


def miller_madow(counts: LongIds) -> float:
    """The Miller–Madow correction: finite counts underestimate the conditional entropy by this."""
    pairs, firsts = np.count_nonzero(counts), np.count_nonzero(counts.sum(1))
    return float((pairs - firsts) / (2 * counts.sum()))
