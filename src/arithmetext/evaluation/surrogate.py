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
from ..progress import progress
from ..text.splits import blocks_near
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


@dataclass(frozen=True)
class TextSettings:
    """Where a model is scored, and on which texts."""

    places: tuple[int, ...]
    surrogates: tuple[int, ...]  # their seeds; the real text is always scored too
    windows: int  # of each text at each place
    blocks: int  # of a million integers each, that the windows are drawn from


def text_sums(model: EvaluatedModel, how: TextSettings) -> dict[str, Values]:
    """The number of scored words, their nats, and how many of them are right.

    Each array is [places, texts, windows, kinds]. The real text comes first, then the surrogates.
    Window k is from block k % blocks, and begins at the same integer in every text.
    """
    if how.windows < 1:
        raise InputError(f"the number of windows must be 1 or more, not {how.windows}")
    if not (model.model.causal and model.model.can_score):
        raise InputError(f"{model.name} does not give the probability of a next word")
    if any(" " in token[:-1] for token in model.tokenizer.vocabulary):
        raise InputError(
            f"{model.name} has tokens that hold pieces of several words: use a model with word"
            " tokens"
        )
    texts = [Surrogate(seed) for seed in (None, *how.surrogates)]
    shape = len(how.places), len(texts), how.windows, len(KINDS)
    arrays = {name: np.zeros(shape) for name in _Sums._fields}
    with progress("surrogate text", len(how.places) * len(texts), "texts") as advance:
        for i, at in enumerate(how.places):
            blocks = [
                TokenWindows(model.tokenizer, [block], model.context)
                for block in blocks_near(at, model.seen, how.blocks)
            ]
            starts = [
                blocks[k % how.blocks].random_start(generator(0, TEST, at, k))
                for k in range(how.windows)
            ]
            for j, text in enumerate(texts):
                sums = _sums(model, text, starts, blocks[0].length)
                for name, values in sums._asdict().items():
                    arrays[name][i, j] = values
                advance(1)
    return arrays


def entropy(surrogate: int | None, lo: int, hi: int) -> float:
    """The entropy of the frequencies of the words at lo ≤ n < hi, in nats: a loss without context.

    >>> round(entropy(None, 10**13, 10**13 + 10**5), 1)
    2.8
    """
    _, counts = np.unique(Surrogate(surrogate).words(lo, hi), return_counts=True)
    shares = counts / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def compare(
    subject: EvaluatedModel, at: int, *, surrogates: Sequence[int], number: int
) -> list[TextScore]:
    """Score a model on the real text near `at`, then on the surrogates with these seeds.

    Every text has the same `number` random windows of as many tokens as the model's context. The
    words that end in the second half of each window are scored. Intervals are bootstraps over
    windows.
    """
    how = TextSettings((at,), tuple(surrogates), windows=number, blocks=1)
    arrays = text_sums(subject, how)
    real, *others = (
        _Sums(**{name: values[0, j] for name, values in arrays.items()})
        for j in range(1 + len(surrogates))
    )
    return [
        _text_score(seed, sums, real)
        for seed, sums in zip((None, *surrogates), (real, *others), strict=True)
    ]


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


def _text_score(surrogate: int | None, sums: _Sums, real: _Sums) -> TextScore:
    words, nats, right = (each.sum(1) for each in sums)
    both = np.stack([nats, words, real.nats.sum(1), real.words.sum(1)], 1)
    return TextScore(
        surrogate=surrogate,
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
