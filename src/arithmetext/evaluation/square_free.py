"""Four square-free words in a row: does a model know that they never occur?

One of any four consecutive integers is divisible by 4, so four square-free words in a row are
impossible. `runs` is the paper's test. It compares true prompts with prompts that repeat a run of
square-free words and one word that is not square-free. This test cannot tell impossible from rare
or misplaced words, since its prompts occur nowhere in the text.

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
tokens before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

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
from .estimates import Estimate
from .likelihood import Sequences, Values, auc, check_sizes, mean, paired, per_token
from .scoring import score

RUNS = (2, 3, 4, 5, 6)
KINDS = ("true", "here", "elsewhere", "impossible")
STRETCH_WORDS = 4  # words in a stretch
MATCH_TOLERANCE = 0.1  # nats by which matched unigram log-probabilities may differ

Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

_COUNTED_WORDS = 256, 1024  # word frequencies are counted in 256 windows of 1024 words
_POOL = 1 << 16  # stretches to choose from
# Values of `use` in `Sequences.random`: runs of k words use _USE_RUNS + k.
_USE_RUNS, _USE_STRETCHES = 16, 32
_STRETCH_TOKENS = STRETCH_WORDS * 65  # at most: a word has at most 64 letters, and a space


def are_square_free(words: Words) -> Bools:
    """Which words are square-free, 1010…10: all their ones are at odd bits (bit 0 is the last)."""
    free: Bools = words & np.uint64(0x5555555555555555) == 0
    return free


def word_frequencies(ranges: Sequence[Range], seed: int) -> tuple[Words, Values]:
    """The distinct words among 2^18 words of random windows, and the frequency of each."""
    windows = random_windows(ranges, *_COUNTED_WORDS, seed)
    seen = np.concatenate([words_in_buffer(lo, hi).copy() for lo, hi in windows])
    words, counts = np.unique(seen, return_counts=True)
    return words, counts / counts.sum()


# Runs of square-free words


class RunSummary(NamedTuple):
    """Prompts with runs of one length."""

    run: int
    mean: Estimate
    auc: Estimate  # are true prompts likelier?


class RunsSummary(NamedTuple):
    true: Estimate  # mean over true prompts
    runs: list[RunSummary]


@dataclass(frozen=True)
class TruePrompts:
    """Log-likelihoods per token of true prompts."""

    mean: Estimate
    middle: tuple[float, float]  # the range of the middle 95 %
    values: list[float]


@dataclass(frozen=True)
class RunPrompts:
    """Log-likelihoods per token of prompts with runs of one length."""

    run: int
    mean: Estimate
    auc: Estimate  # are true prompts likelier?
    within: float  # share inside the middle 95 % of the true prompts
    values: list[float]


@dataclass(frozen=True)
class RunLikelihoods:
    """Log-likelihoods per token of true prompts, and of prompts with runs, [prompts] each."""

    true: Values
    runs: dict[int, Values]  # by the length of the runs

    def summary(self) -> RunsSummary:
        runs = self.runs.items()
        return RunsSummary(
            mean(self.true),
            [RunSummary(run, mean(values), auc(self.true, values)) for run, values in runs],
        )

    def distributions(self) -> tuple[TruePrompts, list[RunPrompts]]:
        """All values, rounded, and the share of runs inside the middle 95 % of the true prompts."""
        summary, true = self.summary(), self.true.round(4)
        low, high = np.quantile(true, [0.025, 0.975]).tolist()
        prompts = []
        for each in summary.runs:
            values = self.runs[each.run].round(4)
            within = float(np.mean((low <= values) & (values <= high)))
            prompts.append(RunPrompts(*each, within, values.tolist()))
        return TruePrompts(summary.true, (low, high), true.tolist()), prompts


def runs(
    model: LanguageModel,
    tokenizer: Tokenizer,
    window: Range,
    train: Sequence[Range],
    *,
    number: int,
    length: int,
    seed: int,
) -> RunLikelihoods:
    """The paper's test, with `number` prompts of each kind.

    Prompt k of a kind is a pure function of (seed, window, kind, length, k).
    """
    check_sizes(number, length)
    frequencies = word_frequencies(train, seed)
    sequences = Sequences(tokenizer, window, length=length, seed=seed)
    with progress("square-free runs", number * (1 + len(RUNS)), "sequences") as advance:
        return RunLikelihoods(
            per_token(model, [sequences.true(k) for k in range(number)], advance),
            {
                run: per_token(
                    model,
                    [run_prompt(sequences, run, k, *frequencies) for k in range(number)],
                    advance,
                )
                for run in RUNS
            },
        )


def run_prompt(sequences: Sequences, run: int, k: int, words: Words, shares: Values) -> LongIds:
    """Prompt k with runs of `run` square-free words, [length]."""
    random = sequences.random(k, _USE_RUNS + run)
    text = words_in_runs(run, sequences.windows.length, words, shares, random)
    return cut(sequences.tokenizer, text, sequences.length)


def words_in_runs(
    run: int, count: int, words: Words, shares: Values, random: np.random.Generator
) -> Words:
    """`count` random words: `run` square-free words, one that is not, and so on.

    Words are drawn with their frequencies. The text begins at a random word of a run.
    """
    free = are_square_free(words)

    def drawn(which: Bools) -> Words:
        return random.choice(words[which], count, p=shares[which] / shares[which].sum())

    inside = (np.arange(count) + random.integers(run + 1)) % (run + 1) < run
    return np.where(inside, drawn(free), drawn(~free))


# Stretches put into the text


class StretchesSummary(NamedTuple):
    """Means over places; `auc` and `paired` ask whether the impossible stretch is less likely."""

    asked: int  # places that were tried
    left: int  # places that have stretches of all kinds; the means are over these
    nats: dict[str, Estimate]  # by kind
    auc: dict[str, Estimate]
    paired: dict[str, Estimate]


@dataclass(frozen=True)
class Stretches:
    """The nats of the stretches of each kind, [places] each, in the same order of places."""

    asked: int  # places that were tried; `nats` leaves out those without matching stretches
    nats: dict[str, Values]  # by kind

    def summary(self) -> StretchesSummary:
        impossible = -self.nats["impossible"]
        others = {kind: -self.nats[kind] for kind in ("here", "elsewhere")}
        return StretchesSummary(
            asked=self.asked,
            left=len(impossible),
            nats={kind: mean(values) for kind, values in self.nats.items()},
            auc={kind: auc(values, impossible) for kind, values in others.items()},
            paired={kind: paired(values, impossible) for kind, values in others.items()},
        )


def impossible(
    model: LanguageModel,
    tokenizer: Tokenizer,
    window: Range,
    train: Sequence[Range],
    *,
    number: int,
    length: int,
    seed: int,
) -> Stretches:
    """Score stretches of each kind at `number` places, with `length` tokens of context and stretch.

    The stretches of place k depend only on (seed, window, length, k).
    """
    check_sizes(number, length)
    pool = Pool(*word_frequencies(train, seed), seed)
    places = Sequences(tokenizer, window, length=length + _STRETCH_TOKENS, seed=seed)
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
        self.misfits = [self._misfits(self.stretches, n) for n in range(36)]
        self.possible = np.any([~misfits[0].any(1) for misfits in self.misfits], axis=0)

    def choose(self, n: int, random: np.random.Generator) -> dict[str, Words] | None:
        """An impossible stretch that begins at n, and matching stretches; None if none match."""
        drawn = random.choice(len(self.words), STRETCH_WORDS, p=self.free)
        near = np.flatnonzero(np.abs(self.weights - self.logs[drawn].sum()) <= MATCH_TOLERANCE)
        misfits = self.misfits[n % 36][:, near]
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

    return [fits(residue) for residue in range(36)]


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
