"""N-grams of words: the cheap baseline, counted on windows of the paper's training ranges.

Each word that has a token is a class of its own. All other words form one class; within it each
word has a fixed probability. An n-gram of k words is one number with 8 bits per word: the context,
its last word first, then the word that follows. After sorting, n-grams whose contexts end with the
same words are adjacent, so one sort serves all orders.

Every order is interpolated with the one below, as in a Pitman–Yor process. If N words follow a
context, T of them different, a word seen c times has the probability

    (c - d [c > 0] + (s + d T) P(word | context shorter by one word)) / (N + s).

The discount d and the strength s of each order are fitted on windows that were not counted. On this
text the rule is better than Witten–Bell smoothing and than Kneser–Ney continuation counts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..counting.histograms import Counts, ranks_of
from ..errors import InputError
from ..search.residues import dictionary
from ..text.ranges import over_ranges, spans
from ..text.sieve import MAX, Words, words_in_buffer
from ..text.splits import Range, splits
from ..text.windows import random_windows
from ..tokens import WordTokens
from .language import LanguageModel, Prompts
from .names import LARGEST_ORDER
from .spelled import FIRST_WORD, SPACE, Probabilities, WordReading

_WINDOW = 1 << 15  # words counted in a row
_HELD_OUT = 4  # windows on which discounts and strengths are fitted
_DISCOUNTS = [k / 20 for k in range(20)]
_STRENGTHS = [2.0**k for k in range(-4, 13)]

_OTHER = 0  # the class of words without a token; the class of any other word is its rank
_NOTHING = 255  # the class of a missing word, before the beginning of the text
# A context of seven missing words, one byte (255) for each; the lowest byte of a context is unused.
_EMPTY = np.uint64(0xFFFFFFFFFFFFFF00)
_U = np.uint64

_Grams = tuple[Words, NDArray[np.uint32]]  # n-grams of one order, sorted, and their counts


@dataclass(frozen=True)
class TextScore:
    """How well the words of a text are predicted, each from the true words before it."""

    nats: float  # per word
    accuracy: float


class NGram(LanguageModel):
    """A language model over word tokens that sees the last order - 1 words."""

    def __init__(
        self,
        order: int,
        counted: Sequence[Range],
        held_out: Sequence[Range],
        *,
        tokens: WordTokens,
    ) -> None:
        """Count n-grams in some ranges, and fit the interpolation on others."""
        if not 1 <= order <= LARGEST_ORDER:
            raise InputError(f"n-grams are of order 1 to {LARGEST_ORDER}, not {order}")
        if len(tokens.words) >= _NOTHING:
            raise InputError(f"n-grams take at most {_NOTHING - 1} words: use fewer tokens")
        self.order, self.tokens, self.ranks = order, tokens, ranks_of(tokens.words)
        self.vocabulary = tokens.size
        grams, others = self._count(counted)
        self._keys = np.concatenate([keys for keys, _ in grams])
        self._counts = np.concatenate([counts for _, counts in grams])
        self._starts = np.cumsum([0, *(len(keys) for keys, _ in grams)])
        self._single = np.ones(1 + len(tokens.words)) / (1 + len(tokens.words))
        self._single[grams[0][0]] += grams[0][1]
        self._single /= self._single.sum()
        self.other_words, self.other_probabilities = self._spread(others)
        self._discounts, self._strengths = np.zeros(order + 1), np.zeros(order + 1)
        self._fit([words_in_buffer(lo, hi).copy() for lo, hi in held_out])

    @classmethod
    def count(
        cls, order: int, *, tokens: WordTokens, words: int = 10**8, seed: int = 0, n: int = 10**11
    ) -> "NGram":
        """Count at least `words` words in random windows of the paper's training ranges of 2..n.

        10^8 words up to order 8 take half a minute and 3 GB.
        """
        if words < 1:
            raise InputError(f"the number of words to count must be 1 or more, not {words}")
        number = -(-words // _WINDOW)
        windows = random_windows(splits(n).train, number + _HELD_OUT, _WINDOW, seed)
        return cls(order, windows[:number], windows[number:], tokens=tokens)

    def _count(self, ranges: Sequence[Range]) -> tuple[list[_Grams], Words]:
        """The n-grams of each order from 1 on, and all words without a token that occurred."""
        ends = np.cumsum([hi - lo - self.order + 1 for lo, hi in ranges]).tolist()
        keys = np.empty(ends[-1], np.uint64)

        def job(a: int, b: int) -> Words:
            others = []
            for (lo, hi), end in zip(ranges[a:b], ends[a:b], strict=True):
                words = words_in_buffer(lo, hi)
                classes = self.ranks[words]
                others.append(words[classes == _OTHER])
                whole = _grams(_contexts(classes), classes, self.order)[self.order - 1 :]
                keys[end - len(whole) : end] = whole
            return np.concatenate(others)

        pieces = over_ranges(job, 0, len(ranges), size=16, title="counting", unit="windows")
        others = np.concatenate(list(pieces))
        keys.sort()
        counts = np.empty(len(keys), np.uint32)
        grams = [_cut(_run_lengths(keys, counts), keys, counts)]
        while len(grams) < self.order:
            keys, counts = np.empty_like(grams[-1][0]), np.empty_like(grams[-1][1])
            grams.append(_cut(_shorten(*grams[-1], keys, counts), keys, counts))
        return grams[::-1], others

    def _spread(self, seen: Words) -> tuple[Words, Probabilities]:
        """The words without a token that occur below 2^63, sorted, and their probabilities.

        Unseen words share the probability of the words seen once (Good–Turing).
        """
        every = dictionary(MAX)
        others = np.flatnonzero(self.ranks[every.words] == _OTHER)
        others = others[np.argsort(every.words[others])]
        words, prior = every.words[others], every.prior[1 + others]
        kinds, counts = np.unique(seen, return_counts=True)
        unseen = max(1, int(np.count_nonzero(counts == 1)))
        probabilities = unseen * prior / prior.sum()
        probabilities[np.searchsorted(words, kinds)] += counts
        return words, probabilities / probabilities.sum()

    def _fit(self, texts: Sequence[Words]) -> None:
        """Fit discount and strength of each order in turn; higher orders do not affect them."""
        classes = np.concatenate([self.ranks[text] for text in texts])
        contexts = np.concatenate([_contexts(self.ranks[text]) for text in texts])
        lower = self._single[classes]
        for k in range(2, self.order + 1):
            part = slice(self._starts[k - 1], self._starts[k])
            stats = np.empty((len(classes), 3))
            _look_up(_grams(contexts, classes, k), self._keys[part], self._counts[part], stats)
            d, s = _fitted(stats, lower)
            self._discounts[k], self._strengths[k] = d, s
            lower = _mixed(stats, lower, d, s)

    def class_probabilities(self, contexts: Words) -> Probabilities:
        """Probability of each class after each context, [contexts, classes]."""
        out = np.tile(self._single, (len(contexts), 1))
        grams = self._keys, self._counts, self._starts
        _interpolate(contexts, *grams, self._discounts, self._strengths, out)
        return out

    def score(self, words: Words) -> TextScore:
        """Score a text, each word predicted from the true words before it."""
        classes = self.ranks[words]
        contexts = _contexts(classes)
        others = np.searchsorted(self.other_words, words[classes == _OTHER])
        nats = -np.log(self.other_probabilities[others]).sum()
        likeliest = self.other_probabilities.argmax()
        guesses = np.array([self.other_words[likeliest], *self.tokens.words], np.uint64)
        right = 0
        for a, b in spans(0, len(words), 1 << 12):
            p = self.class_probabilities(contexts[a:b])
            nats -= np.log(p[np.arange(b - a), classes[a:b]]).sum()
            p[:, _OTHER] *= self.other_probabilities[likeliest]
            right += int(np.count_nonzero(guesses[p.argmax(1)] == words[a:b]))
        return TextScore(float(nats) / len(words), right / len(words))

    @property
    def description(self) -> str:
        return f"{self.order}-grams of words"

    def read(self, prompts: Prompts, *, stride: int = 1) -> WordReading:
        """Read prompts of word tokens; they may end inside a word."""
        state = _Contexts(self, len(prompts))
        reading = WordReading(self.tokens, state)
        for i, row in enumerate(prompts.ids.cpu().numpy().astype(np.int64)):
            ends = np.flatnonzero((row == SPACE) | (row >= FIRST_WORD))
            last = row[ends[-LARGEST_ORDER:]]
            for rank in np.where(last >= FIRST_WORD, last - FIRST_WORD + 1, _OTHER).tolist():
                state.contexts[i] = _extended(state.contexts[i], _U(rank))
            if len(ends):
                reading.spell(i, row[ends[-1] + 1 :].tolist())
            elif len(row):  # the prompt may begin inside a word
                reading.lose(i)
        return reading


class _Contexts:
    """The last words of each prompt."""

    def __init__(self, model: NGram, prompts: int) -> None:
        self.model, self.contexts = model, np.full(prompts, _EMPTY)

    def probabilities(self) -> Probabilities:
        return self.model.class_probabilities(self.contexts)

    def others(self, prompt: int) -> tuple[Words, Probabilities]:
        return self.model.other_words, self.model.other_probabilities

    def advance(self, prompts: NDArray[np.int64], words: Words) -> None:
        ranks = self.model.ranks[words].astype(np.uint64)
        self.contexts[prompts] = _extended(self.contexts[prompts], ranks)


def _extended(contexts: Any, ranks: Any) -> Any:
    """Append a word to contexts; only the last seven words of a context stay."""
    return contexts >> _U(8) & _EMPTY | ranks << _U(56)


def _grams(contexts: Words, classes: Counts, k: int) -> Words:
    """The n-grams of k words: the last k - 1 words of each context, and the word after it."""
    ends = classes.astype(np.uint64)
    return contexts >> _U(72 - 8 * k) << _U(8) | ends if k > 1 else ends


def _cut(size: int, keys: Words, counts: NDArray[np.uint32]) -> _Grams:
    return keys[:size].copy(), counts[:size].copy()


def _fitted(stats: Probabilities, lower: Probabilities) -> tuple[float, float]:
    """The discount and the strength with the highest likelihood."""

    def cost(d: float, s: float) -> float:
        return -float(np.log(_mixed(stats, lower, d, s)).sum())

    d, s = 0.5, 1.0
    for _ in range(3):  # alternate; nothing changes after three rounds
        s = min(_STRENGTHS, key=partial(cost, d))
        d = min(_DISCOUNTS, key=partial(cost, s=s))
    return d, s


def _mixed(stats: Probabilities, lower: Probabilities, d: float, s: float) -> Probabilities:
    """Interpolate counts with the probabilities of the order below.

    stats: [words, 3], the columns of `_look_up`; lower: [words].
    """
    count, total, kinds = stats.T
    mixed: Probabilities = (count - d * (count > 0) + (s + d * kinds) * lower) / (total + s)
    return np.where(total > 0, mixed, lower)


@kernel
def _contexts(classes: Counts) -> Words:
    """The context of each word."""
    out = np.empty(len(classes), np.uint64)
    context = _EMPTY
    for i in range(len(classes)):
        out[i] = context
        context = context >> _U(8) & _EMPTY | _U(classes[i]) << _U(56)
    return out


@kernel
def _run_lengths(keys: Any, counts: Any) -> int:
    """Keep one of each of the sorted keys, and count them; return how many are left."""
    size = 0
    for key in keys:
        if size and keys[size - 1] == key:
            counts[size - 1] += np.uint32(1)
        else:
            keys[size] = key
            counts[size] = 1
            size += 1
    return size


@kernel
def _shorten(keys: Any, counts: Any, shorter: Any, sums: Any) -> int:
    """Drop the earliest word of n-grams and merge equal ones; return how many remain.

    Equal shorter contexts are already adjacent, so one pass is enough.
    """
    total = np.zeros(256, np.uint32)
    kinds = np.empty(256, np.uint8)  # the words after this context
    size = number = 0
    for i in range(len(keys)):
        context, word = keys[i] >> _U(16), np.uint8(keys[i])
        if total[word] == 0:
            kinds[number] = word
            number += 1
        total[word] += counts[i]
        if i + 1 == len(keys) or keys[i + 1] >> _U(16) != context:
            for word in kinds[:number]:
                shorter[size], sums[size] = context << _U(8) | _U(word), total[word]
                total[word] = 0
                size += 1
            number = 0
    return size


@kernel
def _lower_bound(keys: Any, a: Any, b: Any, key: Any) -> Any:
    """The index of the first element of the sorted keys[a:b] that is ≥ key; b if there is none."""
    while a < b:
        middle = (a + b) >> 1
        if keys[middle] < key:
            a = middle + 1
        else:
            b = middle
    return a


@kernel
def _look_up(grams: Any, keys: Any, counts: Any, stats: Any) -> None:
    """Fill in three numbers for each n-gram, stats: [n-grams, 3].

    These are the count of the n-gram, the count of its context, and the number of different words
    after the context.
    """
    for i in range(len(grams)):
        context = grams[i] >> _U(8)
        count = total = kinds = 0
        j = _lower_bound(keys, 0, len(keys), context << _U(8))
        while j < len(keys) and keys[j] >> _U(8) == context:
            count += counts[j] * (keys[j] == grams[i])
            total += counts[j]
            kinds += 1
            j += 1
        stats[i, 0], stats[i, 1], stats[i, 2] = count, total, kinds


@kernel
def _interpolate(
    contexts: Any, keys: Any, counts: Any, starts: Any, discounts: Any, strengths: Any, out: Any
) -> None:
    """Turn unigram probabilities into probabilities after contexts, order by order."""
    for i in range(len(contexts)):
        for k in range(2, len(starts)):
            context = contexts[i] >> _U(72 - 8 * k)
            begin = _lower_bound(keys, starts[k - 1], starts[k], context << _U(8))
            end = begin
            total = np.int64(0)
            while end < starts[k] and keys[end] >> _U(8) == context:
                total += counts[end]
                end += 1
            if total == 0:
                break  # no longer context was seen either
            share = 1 / (total + strengths[k])
            out[i] *= (strengths[k] + discounts[k] * (end - begin)) * share
            for j in range(begin, end):
                out[i, np.uint8(keys[j])] += (counts[j] - discounts[k]) * share
