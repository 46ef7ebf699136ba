"""Four square-free words in a row: does a model know that they never occur?

One of any four consecutive integers is divisible by 4, so four square-free words in a row are
impossible. `runs` is the paper's test. It compares true prompts with prompts that have runs of k
square-free words. The paper does not say how it makes these prompts, so `WAYS` has three ways:

    by frequency   k square-free words, one that is not, and so on. All words are drawn with their
                   frequencies, so even for k = 2 and 3 the prompt occurs nowhere.
    by residue     The words of consecutive integers n are drawn given n modulo 36 and given whether
                   they are square-free. For k = 2 and 3, multiples of 4 and 9 are not square-free.
                   For k > 3 the runs are those of the first way. Some of them contain multiples of
                   4 or 9, which get square-free words drawn with their frequencies.
    inserted       True text, in whose middle one run replaces the words of k integers. Before and
                   after the run are multiples of 4 or 9, and all other words are true. For k = 2
                   and 3 the new words fit modulo 36. For k > 3 all but one fit.

In none of them can the test tell impossible words from misplaced ones.

`impossible` is a test that can. In the middle of the text, it replaces the four words from n
on by other words whose unigram log-probability is equal within 0.1 nats:

    impossible   square-free words, drawn from the word frequencies
    elsewhere    words that can occur in a row, but not at n: modulo 4 and modulo 36, they misfit at
                 the same positions as the impossible words
    here         words that fit at n, modulo 36
    true         the original words; only they are not matched in probability

Whether a word fits depends on n modulo 36, which decides how the words of multiples of 2 and 3
begin. The words before the stretch nearly always tell n modulo 4: every multiple of 4 begins with
11 and every other even integer with 10, while an odd integer begins with 11 only if the square of
its least prime factor divides it. A model that knows only the period of 4 finds `elsewhere` as
unlikely as `impossible`.

The text before, the stretch and the text after are encoded together. A token may hold letters of
both text and stretch, and the tokens before it may depend on the stretch. So all kinds are scored
from the same token on: the first that differs between the kinds or holds a letter of a stretch.
Each kind is scored up to the token with the space that ends its stretch. All kinds have the same
tokens before. Statistics are in separation.py.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError
from ..models.language import LanguageModel
from ..progress import progress
from ..text.sieve import Words, words_in_buffer
from ..text.splits import Range
from ..text.windows import random_windows
from ..tokens import Tokenizer
from ..tokens.spelling import spell
from ..tokens.windows import LongIds, cut, integers_for
from ..trees import tree_of_word, unpack
from .likelihood import Sequences, Values, check_sizes, per_token
from .scoring import score

Way = Literal["by frequency", "by residue", "inserted"]
WAYS: tuple[Way, ...] = get_args(Way)
RUNS = (2, 3, 4, 5, 6)
LONGEST_RUN = 3  # of those that occur: one of any four consecutive integers is divisible by 4
KINDS = ("true", "here", "elsewhere", "impossible")
STRETCH_WORDS = 4  # words in a stretch
MATCH_TOLERANCE = 0.1  # nats by which matched unigram log-probabilities may differ

Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

_COUNTED_WORDS = 256, 1024  # words are drawn from 256 windows of 1024 words
_POOL = 1 << 16  # stretches to choose from
MODULUS = 36  # the least modulus that tells multiples of 4 and 9
# Values of `use` in `Sequences.random`; a run of k words adds k.
_USE_STRETCHES = 32
_USE_RUNS: dict[Way, int] = {"by frequency": 16, "by residue": 64, "inserted": 96}
_MARGIN = 128  # more tokens than a prompt has, so that a run has enough true text on both sides
_STRETCH_TOKENS = STRETCH_WORDS * 65  # more than enough: a word has at most 40 letters


def are_square_free(words: Words) -> Bools:
    """Which words are square-free, 1010…10: all their ones are at odd bits (bit 0 is the last)."""
    free: Bools = words & np.uint64(0x5555555555555555) == 0
    return free


class WordSample:
    """2^18 words from random windows of the text, to draw random words from."""

    def __init__(self, ranges: Sequence[Range], seed: int) -> None:
        windows = random_windows(ranges, *_COUNTED_WORDS, seed)
        words = np.concatenate([words_in_buffer(lo, hi).copy() for lo, hi in windows])
        residues = np.concatenate([np.arange(lo, hi) % MODULUS for lo, hi in windows])
        groups = MODULUS * are_square_free(words) + residues
        self.words = words[np.argsort(groups, kind="stable")]
        self._sizes = np.bincount(groups, minlength=2 * MODULUS)
        self._begins = np.cumsum(self._sizes) - self._sizes

    def frequencies(self) -> tuple[Words, Values]:
        """The distinct words and the frequency of each."""
        words, counts = np.unique(self.words, return_counts=True)
        return words, counts / counts.sum()

    def draw(self, free: Bools, random: np.random.Generator) -> Words:
        """Words that are square-free or not, as requested, drawn with their frequencies."""
        return self._pick(*self._all(free), random)

    def draw_at(self, integers: Indices, free: Bools, random: np.random.Generator) -> Words:
        """The same, given each integer modulo 36, except for square-free words at multiples of 4
        and 9: there are none in the text, so these are drawn with their frequencies.
        """
        groups = MODULUS * free + integers % MODULUS
        begins, sizes = self._all(free)
        some = self._sizes[groups] > 0
        begins, sizes = (
            np.where(some, of_residue[groups], of_all)
            for of_residue, of_all in ((self._begins, begins), (self._sizes, sizes))
        )
        return self._pick(begins, sizes, random)

    def _all(self, free: Bools) -> tuple[Indices, Indices]:
        """Where the square-free words, or the others, begin, and how many they are."""
        others = self._sizes[:MODULUS].sum()
        return np.where(free, others, 0), np.where(free, len(self.words) - others, others)

    def _pick(self, begins: Indices, sizes: Indices, random: np.random.Generator) -> Words:
        """A random one of the `sizes` words from number `begins` on, for each place."""
        picked: Words = self.words[begins + random.integers(sizes)]
        return picked


# Runs of square-free words


class RunLikelihoods(NamedTuple):
    """Log-likelihoods per token of true prompts, and of prompts with runs, [prompts] each."""

    way: Way
    length: int  # tokens of a prompt
    true: Values
    runs: dict[int, Values]  # by the length of the runs


def runs(
    model: LanguageModel,
    tokenizer: Tokenizer,
    windows: Sequence[Range],
    train: Sequence[Range],
    *,
    ways: Sequence[Way],
    number: int,
    lengths: Sequence[int],
    seed: int,
) -> list[RunLikelihoods]:
    """The paper's test, with `number` prompts of each length and kind.

    Prompt k of a kind is a pure function of (seed, windows, way, run, length, k).
    """
    check_sizes(number, *lengths)
    sample = WordSample(train, seed)
    scored = []
    total = number * len(lengths) * (1 + len(ways) * len(RUNS))
    with progress("square-free runs", total, "sequences") as advance:
        for length in lengths:
            prompts = PromptsWithRuns(tokenizer, windows, sample, length=length, seed=seed)
            true = per_token(model, [prompts.true(k) for k in range(number)], advance)
            for way in ways:
                made = {
                    run: per_token(
                        model, [prompts.made(way, run, k) for k in range(number)], advance
                    )
                    for run in RUNS
                }
                scored.append(RunLikelihoods(way, length, true, made))
    return scored


class PromptsWithRuns:
    """True prompts of `length` tokens, and prompts with runs of square-free words."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        windows: Sequence[Range],
        sample: WordSample,
        *,
        length: int,
        seed: int,
    ) -> None:
        self.tokenizer, self.length, self.sample = tokenizer, length, sample
        self.sequences = Sequences(tokenizer, windows, length=length + _MARGIN, seed=seed)

    def true(self, k: int) -> LongIds:
        """True prompt k, [length]."""
        return self.sequences.true(k)[: self.length]

    def made(self, way: Way, run: int, k: int) -> LongIds:
        """Prompt k with runs of `run` square-free words, [length]."""
        sequences, sample = self.sequences, self.sample
        random = sequences.random(k, _USE_RUNS[way] + run)
        count = sequences.windows.length
        if way == "by frequency":
            words = sample.draw(periodic(run, count, random), random)
        elif way == "by residue":
            integers = sequences.start(k) + np.arange(count)
            words = sample.draw_at(integers, runs_at(integers, run, random), random)
        else:
            return self._inserted(run, k, random)
        return cut(self.tokenizer, words, self.length)

    def _inserted(self, run: int, k: int, random: np.random.Generator) -> LongIds:
        words, start = self.sequences.words(k).copy(), self.sequences.start(k)
        place = place_for_run(run, start + self.sequences.middle(words)) - start
        inside = slice(place, place + run)
        integers = start + np.arange(place, place + run)
        words[inside] = self.sample.draw_at(integers, np.ones(run, np.bool_), random)
        ids = self.tokenizer.encode(words, threads=1).astype(np.int64)
        ended = np.cumsum(self.tokenizer.words_ended[ids])
        first, last = np.searchsorted(ended, [place, place + run])  # tokens that the run is in
        begin = (int(first) + int(last) + 1 - self.length) // 2
        return ids[begin : begin + self.length]


def periodic(run: int, count: int, random: np.random.Generator) -> Bools:
    """Which of `count` words are square-free: `run` in a row, then one that is not, and so on.

    The first word is a random word of this pattern.
    """
    inside: Bools = (np.arange(count) + random.integers(run + 1)) % (run + 1) < run
    return inside


def runs_at(integers: Indices, run: int, random: np.random.Generator) -> Bools:
    """Which words of consecutive integers are square-free, in runs of `run` words.

    For runs of three, all that are not divisible by 4 or 9. For runs of two, where the three
    integers between two multiples of 4 are all of this kind, a random one of the outer two is not
    square-free. Longer runs are impossible; they are periodic.
    """
    if run > LONGEST_RUN:
        return periodic(run, len(integers), random)
    free = _may_be_free(integers)
    if run < LONGEST_RUN:
        fours = integers // 4
        whole = np.all([_may_be_free(4 * fours + j) for j in (1, 2, 3)], axis=0)
        outer = random.choice([1, 3], int(fours[-1] - fours[0]) + 1)[fours - fours[0]]
        free &= ~(whole & (integers % 4 == outer))
    return free


def place_for_run(run: int, n: int) -> int:
    """The first integer from n on where `run` words can be replaced by a run.

    The integers before and after the run are multiples of 4 or 9. In it there are none, unless it
    is longer than three.
    """
    places = n + np.arange(MODULUS)
    bounded = ~(_may_be_free(places - 1) | _may_be_free(places + run))
    if run <= LONGEST_RUN:
        bounded &= np.all([_may_be_free(places + j) for j in range(run)], axis=0)
    return n + int(np.argmax(bounded))


def _may_be_free(integers: Indices) -> Bools:
    """Which integers can be square-free as far as n modulo 36 tells."""
    free: Bools = (integers % 4 > 0) & (integers % 9 > 0)
    return free


# Stretches put into the text


class Stretches(NamedTuple):
    """The nats of the stretches of each kind, [places] each, in the same order of places."""

    asked: int  # places that were tried; `nats` leaves out those without matching stretches
    nats: dict[str, Values]  # by kind


def impossible(
    model: LanguageModel,
    tokenizer: Tokenizer,
    windows: Sequence[Range],
    train: Sequence[Range],
    *,
    number: int,
    length: int,
    seed: int,
) -> Stretches:
    """Score stretches of each kind at `number` places, with `length` tokens of context and stretch.

    The stretches of place k depend only on (seed, windows, length, k).
    """
    check_sizes(number, length)
    pool = Pool(*WordSample(train, seed).frequencies(), seed)
    places = Sequences(tokenizer, windows, length=length + _STRETCH_TOKENS, seed=seed)
    border = integers_for(tokenizer, length)
    rows, scored = [np.zeros((0, length), np.int64)], [np.zeros((0, length), np.bool_)]
    for k in range(number):
        chosen = pool.choose(places.start(k) + border, places.random(k, _USE_STRETCHES))
        if chosen is None:
            continue
        before, true, after = np.split(places.words(k), [border, border + STRETCH_WORDS])
        stretches = [{"true": true, **chosen}[kind] for kind in KINDS]
        ids, which = spliced(tokenizer, before, stretches, after, length)
        rows.append(ids)
        scored.append(which)
    ids, which = np.concatenate(rows), np.concatenate(scored)
    with progress("impossible words", len(ids), "sequences") as advance:
        logs = score(model, torch.from_numpy(ids), advance).logs
    nats = -np.where(which[:, 1:], logs, 0.0).sum(1).reshape(-1, len(KINDS))
    return Stretches(number, dict(zip(KINDS, nats.T, strict=True)))


class Pool:
    """Random stretches, drawn from the word frequencies, and at which residues they fit."""

    def __init__(self, words: Words, shares: Values, seed: int) -> None:
        self.words, self.logs = words, np.log(shares)
        free = shares * are_square_free(words)
        self.free = free / free.sum()
        by_36 = np.array([fitting(word) for word in words.tolist()], np.bool_)
        by_4: Bools = np.any(by_36.reshape(-1, 9, 4), axis=1)
        self.fits = by_36, by_4
        random = np.random.default_rng([seed, _USE_STRETCHES])
        self.stretches = random.choice(len(words), (_POOL, STRETCH_WORDS), p=shares)
        self.weights = self.logs[self.stretches].sum(1)
        self.misfits = [self._misfits(self.stretches, n) for n in range(MODULUS)]
        self.possible = np.any([~misfits[0].any(1) for misfits in self.misfits], axis=0)

    def choose(self, n: int, random: np.random.Generator) -> dict[str, Words] | None:
        """An impossible stretch that begins at n, and matching stretches; None if none match."""
        drawn = random.choice(len(self.words), STRETCH_WORDS, p=self.free)
        near = np.flatnonzero(np.abs(self.weights - self.logs[drawn].sum()) <= MATCH_TOLERANCE)
        misfits = self.misfits[n % MODULUS][:, near]
        alike = (misfits == self._misfits(drawn[None], n)).all((0, 2))
        chosen = {"impossible": drawn}
        kinds = (("here", ~misfits[0].any(1)), ("elsewhere", alike & self.possible[near]))
        for kind, which in kinds:
            if not which.any():
                return None
            chosen[kind] = self.stretches[random.choice(near[which])]
        return {kind: self.words[stretch] for kind, stretch in chosen.items()}

    def _misfits(self, stretches: Indices, n: int) -> Bools:
        """Which words do not fit from n on, modulo 36 and modulo 4, [2, stretches, words]."""
        places = n + np.arange(STRETCH_WORDS)
        return np.array([~fits[stretches, places % fits.shape[1]] for fits in self.fits])


def fitting(word: int) -> list[bool]:
    """For each residue modulo 36, whether an integer with this residue can have the word.

    The children of the primes 2 and 3 come first; they are leaves unless 4 or 9 divides the
    integer. At least one more child must follow: integers without a prime above 3 are so rare that
    they are ignored.
    """
    leaves = [not child.children for child in tree_of_word(unpack(word)).children]

    def fits(residue: int) -> bool:
        needed = [residue % (p * p) != 0 for p in (2, 3) if residue % p == 0]
        return leaves[: len(needed)] == needed and len(leaves) > len(needed)

    return [fits(residue) for residue in range(MODULUS)]


def spliced(
    tokenizer: Tokenizer, before: Words, stretches: Sequence[Words], after: Words, length: int
) -> tuple[LongIds, Bools]:
    """The text with each stretch in place, and which tokens to score, [stretches, length] each.

    The `length` tokens end with the longest stretch.
    """
    rows = [
        tokenizer.encode(np.concatenate([before, stretch, after]), threads=1).astype(np.int64)
        for stretch in stretches
    ]
    widths = np.array([len(token) for token in tokenizer.vocabulary])
    ends = [np.cumsum(widths[row]) for row in rows]
    border = len(spell(before))
    shortest = min(map(len, rows))
    differ = np.ptp([row[:shortest] for row in rows], axis=0) > 0
    first = min(
        int(np.argmax(differ)), *(int(np.searchsorted(end, border, side="right")) for end in ends)
    )
    past = np.array(
        [
            1 + np.searchsorted(end, border + len(spell(stretch)))
            for end, stretch in zip(ends, stretches, strict=True)
        ]
    )
    begin = int(past.max()) - length
    if begin >= first:
        raise InputError(f"{length} tokens leave no context before a stretch: use more tokens")
    ids = np.stack([row[begin : begin + length] for row in rows])
    tokens = np.arange(begin, begin + length)
    return ids, (first <= tokens) & (tokens < past[:, None])
