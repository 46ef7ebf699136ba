"""What can be predicted without attention: from the token at the place alone.

A transformer whose attention tells it nothing sees one token: to predict the next one, the token
before it; to fill a gap, what stands in the gap. Its position tells nothing either, since windows
begin anywhere.
"""

import numpy as np
from numpy.typing import NDArray

from ..text.windows import TRAIN, generator
from ..tokens import Tokenizer
from ..tokens.windows import LongIds, TokenWindows
from ..training.config import MASK_SHARE, REPLACED_SHARE, Config

Floats = NDArray[np.float64]

FEWEST = 2**22  # tokens to be counted,
FOR_EACH_PAIR = 8  # or so many for each of the D² pairs
LENGTH = 2**10  # of a window


def least_loss(config: Config) -> float:
    """The least loss that a GPT with this configuration can have without attention, in nats."""
    tokenizer = config.tokens.tokenizer(config.text, config.n)
    windows, size = _windows(config, tokenizer), tokenizer.size
    if config.task == "mlm":
        counts = np.bincount(windows.ravel(), minlength=size)
        return conditional_entropy(gaps(counts / counts.sum()))
    pairs = windows[:, :-1] * size + windows[:, 1:]
    joint = np.bincount(pairs.ravel(), minlength=size**2).reshape(size, size)
    return conditional_entropy(joint) + miller_madow(joint)


def _windows(config: Config, tokenizer: Tokenizer) -> LongIds:
    """Of the text that it is trained on."""
    windows = TokenWindows(tokenizer, config.text.train, LENGTH + 1)
    number = max(FEWEST, FOR_EACH_PAIR * tokenizer.size**2) // LENGTH
    return np.stack([windows.draw(generator(config.seed, TRAIN, 0, k)) for k in range(number)])


def gaps(frequencies: Floats) -> Floats:
    """How likely each token, a column, is behind each that is shown, a row, the mask the last."""
    size = len(frequencies)
    shown = np.full((size + 1, size), REPLACED_SHARE / (size - 1))
    np.fill_diagonal(shown, 1 - MASK_SHARE - REPLACED_SHARE)
    shown[size] = MASK_SHARE
    return shown * frequencies


def conditional_entropy(joint: Floats | LongIds) -> float:
    """Of the column, the row being known, in nats; of counts or of probabilities."""
    rows = joint.sum(1, keepdims=True)
    logs = np.log(np.divide(joint, rows, out=np.ones(joint.shape), where=joint > 0))
    return float(-(joint * logs).sum() / joint.sum())


def miller_madow(counts: LongIds) -> float:
    """What the conditional entropy of counts lacks, since they scatter; for many counts it is 0."""
    pairs, firsts = np.count_nonzero(counts), np.count_nonzero(counts.sum(1))
    return float((pairs - firsts) / (2 * counts.sum()))
