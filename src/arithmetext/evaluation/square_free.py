"""Four square-free words in a row: does a model know that they never occur?

One of any four consecutive integers is divisible by 4. `runs` is the paper's test: prompts made of
runs of square-free words of some length, each followed by a word that is not, against true prompts.
It does not tell the impossible from the merely rare, nor from the misplaced, since these prompts
have no place in the text at all. `impossible` does. In the middle of the text four words are
replaced by four others, with the same log-probability as unigrams within 0.1 nats:

    impossible   square-free words, drawn from the frequencies
    elsewhere    words that can stand in a row, but not here: those do not fit, modulo 4 and modulo
                 36, that take the place of words of the impossible ones that do not
    here         words that fit here, modulo 36
    true         those that were there; they alone are not matched

What fits is known by n modulo 36, which says how the words of multiples of 2 and 3 begin. The words
before a place tell n modulo 4, unless six odd integers, four apart, all begin like multiples of 4.
A model that has learned the period of 4 only pays as much for `elsewhere` as for `impossible`.

Text before, stretch, and text after are encoded together. A token may hold letters of both text and
stretch, and which tokens come before it may depend on the stretch. So all kinds are scored from the
same token on, the first that differs between them or has a letter of any stretch; each up to the
token with the space that ends its stretch. All read the same tokens before.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ..errors import InputError
from ..models.language import LanguageModel
from ..progress import progress
from ..text.sieve import Words, passing_words
from ..text.splits import Range
from ..text.windows import random_windows
from ..tokens import Tokenizer
from ..tokens.spelling import spell
from ..tokens.windows import LongIds, cut, integers_for
from ..trees import tree_of_word, unpack
from .likelihood import Places, Values, auc, check, mean, paired, per_token
from .scoring import score

RUNS = (2, 3, 4, 5, 6)
KINDS = ("true", "here", "elsewhere", "impossible")
STRETCH = 4  # words
NEAR = 0.1  # nats between unigram log-probabilities that count as equal

Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]

_COUNTED = 256, 1024  # windows, and words of each, in which frequencies are counted
_POOL = 1 << 16  # stretches to choose from
_RUNS, _DRAWN = 16, 32  # uses of chance: for runs of k, 16 + k; to draw stretches
_ROOM = STRETCH * 65  # tokens that spell a stretch, at the most: a word has no more letters than 64


def square_free(words: Words) -> Bools:
    """Which words are 1010…10: half of the digits are ones, and none has an even place."""
    free: Bools = words & np.uint64(0x5555555555555555) == 0
    return free


def word_frequencies(ranges: Sequence[Range], seed: int) -> tuple[Words, Values]:
    """The words in random windows of the ranges, 2^18 in all, and the share of each."""
    windows = random_windows(ranges, *_COUNTED, seed)
    seen = np.concatenate([passing_words(lo, hi).copy() for lo, hi in windows])
    words, counts = np.unique(seen, return_counts=True)
    return words, counts / counts.sum()


# Runs of square-free words


@dataclass(frozen=True)
class Runs:
    """Log-likelihoods per token of true prompts, and of those with runs of each length."""

    true: Values
    runs: dict[int, Values]

    def figures(self) -> dict[str, Any]:
        """What there is to report; `auc`: are true prompts likelier?"""
        return {
            "true": mean(self.true),
            "runs": [
                {"run": run, "mean": mean(values), "auc": auc(self.true, values)}
                for run, values in self.runs.items()
            ],
        }


def runs(
    model: LanguageModel,
    tokenizer: Tokenizer,
    window: Range,
    train: Sequence[Range],
    *,
    number: int,
    length: int,
    seed: int,
) -> Runs:
    """The paper's test, with so many prompts of each kind.

    Prompt k of a kind is a pure function of (seed, window, kind, length, k).
    """
    check(number, length)
    frequencies = word_frequencies(train, seed)
    places = Places(tokenizer, window, length=length, seed=seed)
    with progress("square-free runs", number * (1 + len(RUNS)), "sequences") as advance:
        return Runs(
            per_token(model, [places.true(k) for k in range(number)], advance),
            {
                run: per_token(
                    model, [prompt(places, run, k, *frequencies) for k in range(number)], advance
                )
                for run in RUNS
            },
        )


def prompt(places: Places, run: int, k: int, words: Words, shares: Values) -> LongIds:
    """Prompt k of runs of so many square-free words."""
    text = words_in_runs(run, places.windows.length, words, shares, places.random(k, _RUNS + run))
    return cut(places.tokenizer, text, places.length)


def words_in_runs(
    run: int, count: int, words: Words, shares: Values, random: np.random.Generator
) -> Words:
    """Words drawn from their frequencies: `run` square-free ones, one that is not, and so on.

    Where in a run it begins is left to chance.
    """
    free = square_free(words)

    def drawn(which: Bools) -> Words:
        return random.choice(words[which], count, p=shares[which] / shares[which].sum())

    inside = (np.arange(count) + random.integers(run + 1)) % (run + 1) < run
    return np.where(inside, drawn(free), drawn(~free))


# Stretches put into the text


@dataclass(frozen=True)
class Stretches:
    """Nats of the stretches of each kind, those of one place in the same order."""

    asked: int  # places looked at; those where nothing matches are left out
    nats: dict[str, Values]

    def figures(self) -> dict[str, Any]:
        """What there is to report; `auc` and `paired`: is the impossible one less likely?"""
        impossible = -self.nats["impossible"]
        others = {kind: -self.nats[kind] for kind in ("here", "elsewhere")}
        return {
            "asked": self.asked,
            "left": len(impossible),
            "nats": {kind: mean(values) for kind, values in self.nats.items()},
            "auc": {kind: auc(values, impossible) for kind, values in others.items()},
            "paired": {kind: paired(values, impossible) for kind, values in others.items()},
        }


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
    """What stretches cost at so many places, after and with a context, `length` tokens in all.

    The stretches of place k depend on (seed, window, length, k) only.
    """
    check(number, length)
    pool = Pool(*word_frequencies(train, seed), seed)
    places = Places(tokenizer, window, length=length + _ROOM, seed=seed)
    border = integers_for(tokenizer, length)
    rows, scored = [np.zeros((0, length), np.int64)], [np.zeros((0, length), np.bool_)]
    for k in range(number):
        chosen = pool.choose(places.start(k) + border, places.random(k, _DRAWN))
        if chosen is None:
            continue
        before, true, after = np.split(places.words(k), [border, border + STRETCH])
        stretches = [{"true": true, **chosen}[kind] for kind in KINDS]
        ids, which = in_place(tokenizer, before, stretches, after, length)
        rows.append(ids)
        scored.append(which)
    ids, which = np.concatenate(rows), np.concatenate(scored)
    with progress("impossible words", len(ids), "sequences") as advance:
        logs = score(model, torch.from_numpy(ids), advance).logs
    nats = -np.where(which[:, 1:], logs, 0.0).sum(1).reshape(-1, len(KINDS))
    return Stretches(number, dict(zip(KINDS, nats.T, strict=True)))


class Pool:
    """Stretches drawn from the frequencies of words, and where arithmetic lets them stand."""

    def __init__(self, words: Words, shares: Values, seed: int) -> None:
        self.words, self.logs = words, np.log(shares)
        free = shares * square_free(words)
        self.free = free / free.sum()
        by_36 = np.array([fitting(word) for word in words.tolist()], np.bool_)
        by_4: Bools = np.any(by_36.reshape(-1, 9, 4), axis=1)
        self.fits = by_36, by_4
        random = np.random.default_rng([seed, _DRAWN])
        self.stretches = random.choice(len(words), (_POOL, STRETCH), p=shares)
        self.weights = self.logs[self.stretches].sum(1)
        self.misfits = [self._misfits(self.stretches, n) for n in range(36)]
        self.possible = np.any([~misfits[0].any(1) for misfits in self.misfits], axis=0)

    def choose(self, n: int, random: np.random.Generator) -> dict[str, Words] | None:
        """An impossible stretch to begin at n, and those that match it; None if there are none."""
        drawn = random.choice(len(self.words), STRETCH, p=self.free)
        near = np.flatnonzero(np.abs(self.weights - self.logs[drawn].sum()) <= NEAR)
        misfits = self.misfits[n % 36][:, near]
        alike = (misfits == self._misfits(drawn[None], n)).all((0, 2))
        found = {"impossible": drawn}
        kinds = (("here", ~misfits[0].any(1)), ("elsewhere", alike & self.possible[near]))
        for kind, which in kinds:
            if not which.any():
                return None
            found[kind] = self.stretches[random.choice(near[which])]
        return {kind: self.words[stretch] for kind, stretch in found.items()}

    def _misfits(self, stretches: Indices, n: int) -> Bools:
        """Which words do not fit from n on, modulo 36 and modulo 4: [2, stretches, words]."""
        places = n + np.arange(STRETCH)
        return np.array([~fits[stretches, places % fits.shape[1]] for fits in self.fits])


def fitting(word: int) -> list[bool]:
    """For each residue modulo 36, whether an integer that has it may have the word.

    The children of 2 and 3 stand first, and are leaves unless 4 or 9 divides the integer. There is
    one more: integers without a prime above 3 are too rare to be thought of.
    """
    leaves = [not child.children for child in tree_of_word(unpack(word)).children]

    def fits(residue: int) -> bool:
        needed = [residue % (p * p) != 0 for p in (2, 3) if residue % p == 0]
        return leaves[: len(needed)] == needed and len(leaves) > len(needed)

    return [fits(residue) for residue in range(36)]


def in_place(
    tokenizer: Tokenizer, before: Words, stretches: Sequence[Words], after: Words, length: int
) -> tuple[LongIds, Bools]:
    """The last `length` tokens up to the end of the longest stretch, and which are to be scored."""
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
        raise InputError(f"{length} tokens leave no context before a stretch: read more of them")
    ids = np.stack([row[begin : begin + length] for row in rows])
    tokens = np.arange(begin, begin + length)
    return ids, (first <= tokens) & (tokens < past[:, None])
