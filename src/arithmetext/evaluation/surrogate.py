"""Does a model need integers, or do periodic patterns do? The real text beside surrogates of it.

A surrogate (`text/surrogate.py`) has the periods of the real text, but its prime powers do not
multiply to n. A model that uses only the residues of n modulo small primes predicts it as well as
the real text, up to the different frequencies of what these residues leave open: every combination
of them occurs in the real text too. What it may lose more is what the size of n decides: which
larger primes still fit, and whether a last prime is missing. So words are also scored by what the
product P of their prime powers up to √n decided.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError
from ..text.splits import unseen
from ..text.surrogate import LAST_PRIME_BELOW, Surrogate
from ..text.windows import TEST, generator
from ..tokens.windows import ENCODER_WARMUP, TokenWindows
from .estimates import Estimate, over_prompts, ratio, share_of
from .scoring import score
from .subjects import EvaluatedModel

# What P decides: a last prime is added; none is, and P ≤ n; none is, and P > n. In the real text
# P is n / the last prime, or n, and never above n.
KINDS = ("last prime", "complete", "too large")

Values = NDArray[np.float64]


@dataclass(frozen=True)
class KindScore:
    """The words of one kind. Unknown if there are none."""

    share: Estimate  # of all words
    nats: Estimate  # per word
    accuracy: Estimate


@dataclass(frozen=True)
class TextScore:
    """How well a model predicts a text, each word from the true words before it."""

    surrogate: int | None  # its seed; None: the real text
    nats: Estimate  # per word
    accuracy: Estimate  # the share of words all of whose tokens are the likeliest
    excess: Estimate  # nats per word above those of the real text at the same integers
    kinds: dict[str, KindScore]


class _Sums(NamedTuple):
    """Sums over the scored words of each kind, [windows, kinds] each."""

    words: Values
    nats: Values
    right: Values


def compare(
    subject: EvaluatedModel, at: int, *, surrogates: Sequence[int], number: int, seed: int = 0
) -> list[TextScore]:
    """Score a model on the real text near `at`, then on the surrogates with these seeds.

    Every text has the same `number` random windows of as many tokens as the model's context. The
    words that end in the second half of each window are scored. Intervals are bootstraps over
    windows.
    """
    if number < 1:
        raise InputError(f"the number of windows must be 1 or more, not {number}")
    if not (subject.model.causal and subject.model.can_score):
        raise InputError(f"{subject.name} does not give the probability of a next word")
    if any(" " in token[:-1] for token in subject.tokenizer.vocabulary):
        raise InputError(
            f"{subject.name} has tokens that hold pieces of several words: use a model with word"
            " tokens"
        )
    window = unseen(at, subject.seen)
    places = TokenWindows(subject.tokenizer, [window], subject.context)
    starts = [places.random_start(generator(seed, TEST, window[0], k)) for k in range(number)]
    texts = [Surrogate(each) for each in (None, *surrogates)]
    sums = [_sums(subject, text, starts, places.length) for text in texts]
    return [_text_score(*each, sums[0]) for each in zip(texts, sums, strict=True)]


def kinds(lo: int, products: Values) -> NDArray[np.int64]:
    """The kinds of the words from `lo` on, as indices of KINDS."""
    n = np.arange(lo, lo + len(products), dtype=np.float64)
    return np.where(products < n**LAST_PRIME_BELOW, 0, np.where(products <= n, 1, 2))


def _sums(subject: EvaluatedModel, text: Surrogate, starts: Sequence[int], length: int) -> _Sums:
    window = slice(ENCODER_WARMUP, ENCODER_WARMUP + subject.context)
    ids, places, decided = [], [], []
    for start in starts:
        words, products = text.words_and_products(start, start + length, threads=1)
        tokens = subject.tokenizer.encode(words, threads=1).astype(np.int64)
        ended = subject.tokenizer.words_ended[tokens]
        ids.append(tokens[window])
        places.append((np.cumsum(ended) - ended)[window])  # the word that each token belongs to
        decided.append(kinds(start, products))
    scores = score(subject.model, torch.from_numpy(np.stack(ids)))
    sums = _Sums(*(np.zeros((len(starts), len(KINDS))) for _ in _Sums._fields))
    for k, (row, word, kind) in enumerate(zip(ids, places, decided, strict=True)):
        half = subject.context // 2
        chosen = word[half:][subject.tokenizer.words_ended[row[half:]] > 0]
        # Scores begin with the second token.
        nats = np.bincount(word[1:], np.negative(scores.logs[k]))[chosen]
        wrong = np.bincount(word[1:], ~scores.right[k])[chosen]
        for total, values in zip(sums, (np.ones(len(chosen)), nats, wrong == 0), strict=True):
            total[k] = np.bincount(kind[chosen], values, minlength=len(KINDS))
    return sums


def _text_score(text: Surrogate, sums: _Sums, real: _Sums) -> TextScore:
    words, nats, right = (each.sum(1) for each in sums)
    both = np.stack([nats, words, real.nats.sum(1), real.words.sum(1)], 1)
    return TextScore(
        surrogate=text.seed,
        nats=ratio(nats, words),
        accuracy=ratio(right, words),
        excess=over_prompts(lambda sums: share_of(*sums.T[:2]) - share_of(*sums.T[2:]), both[None]),
        kinds={
            kind: KindScore(
                share=ratio(sums.words[:, k], words),
                nats=ratio(sums.nats[:, k], sums.words[:, k]),
                accuracy=ratio(sums.right[:, k], sums.words[:, k]),
            )
            for k, kind in enumerate(KINDS)
        },
    )
