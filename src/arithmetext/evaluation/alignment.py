"""Continuations that slip: right but for words that they leave out or put in.

From such a word on, every word is compared with a neighbour of the one it was meant for, and the
continuation scores like noise. Here each word has a shift s: it is compared with the true word s
places further on. A positive shift says that s words were left out, a negative one that as many
were put in.

The text nearly repeats itself: integers that differ by a multiple of 36 have the same word one time
in five, by one of 44100 one time in four. So a shift that is found says that the continuation is
in step modulo small squares, as one that has learnt no more than these would be; sentences from
anywhere else in the text are, at some shift. How much more it has right, `realigned` tells.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..errors import InputError
from ..text.sieve import Words
from .words import accuracies

ACCURACY = 0.4  # of a model that is in step

# The price of coming into step, in nats. A stretch of unrelated words earns this much with a
# probability of e⁻¹⁶ at most, wherever it begins and at whatever shift: once in 40 prompts of 1700
# words with 129 shifts. In permuted text it was about once in 300.
JUMP = 16.0

# What a shift by d words costs on top, by √d. Of a prediction that has a period of d, such as one
# that knows n modulo 36 only, a shift by d is as good as none; but the path could leave out d words
# where it does badly. What these earn varies by 1.2 √d nats, and there are many stretches to choose
# from: so much is four and a half deviations.
WIDE = 5.5

_LOST = -1


def align(predicted: Words, around: Words, margin: int) -> NDArray[np.int64]:
    """The shift of each word, from -margin to margin.

    `around` is the true text, with so many words more before it and after it. Each word is either
    in step at some shift, or unrelated. In step it earns the logarithm of how much likelier that
    makes what is seen: ln(A / f) if it is the word that stands there, ln((1 - A) / (1 - f)) if not,
    where A is the accuracy of a model in step and f the frequency of the word; unrelated, it earns
    nothing. A continuation begins in step at shift 0, or unrelated; to come into step otherwise
    costs `JUMP` and `WIDE` times the root of the shift, and to fall out of it is free. The best
    such path is taken, and an unrelated word is given the shift of the one before it. If a word had
    to be in step somewhere, noise would wander to the shifts that fit it best; so it stays at 0.
    """
    if margin < 0 or len(around) != len(predicted) + 2 * margin:
        raise InputError(
            f"{len(predicted)} words and a margin of {margin} on both sides are not {len(around)}"
        )
    # Half a word more, of one more in all, keeps frequencies from 0 and 1.
    f = (_occurrences(predicted, around) + 0.5) / (len(around) + 1)
    jump = JUMP + WIDE * np.sqrt(np.abs(np.arange(-margin, margin + 1)))
    states = _path(predicted, around, np.log(ACCURACY / f), np.log((1 - ACCURACY) / (1 - f)), jump)
    latest = np.maximum.accumulate(np.where(states == _LOST, -1, np.arange(len(states))))
    shifts: NDArray[np.int64] = np.where(latest < 0, 0, states[latest] - margin)
    return shifts


@kernel
def _path(
    predicted: Words,
    around: Words,
    equal: NDArray[np.float64],
    unequal: NDArray[np.float64],
    jump: NDArray[np.float64],
) -> NDArray[np.int64]:
    """The best path: the place of each word in `around` less its own, or _LOST if unrelated."""
    count = len(predicted)
    size = len(around) - count + 1
    score = -jump
    score[size // 2] = 0.0
    jumped = np.zeros((count, size), np.bool_)
    leader = np.empty(count, np.int64)  # the state of word i on the best path that ends with it
    best = 0.0
    for i in range(count):
        # To be unrelated costs nothing: the best score never falls.
        before = best
        leader[i] = _LOST
        for s in range(size):
            if score[s] < before - jump[s]:
                score[s] = before - jump[s]
                jumped[i, s] = True
            score[s] += equal[i] if predicted[i] == around[i + s] else unequal[i]
            if score[s] > best:
                best = score[s]
                leader[i] = s
    states = np.empty(count, np.int64)
    state = _LOST
    for i in range(count - 1, -1, -1):
        if i == count - 1 or state == _LOST or jumped[i + 1, state]:
            state = leader[i]
        states[i] = state
    return states


@dataclass(frozen=True)
class Alignments:
    """What shifts explain; one value a prompt."""

    accuracy: NDArray[np.float64]  # the share of words that are right where they stand
    realigned: NDArray[np.float64]  # the share that are right at their own shift
    chance: NDArray[np.float64]  # what unrelated sentences of these frequencies would share
    slips: NDArray[np.int64]  # how often the shift changes; to begin with another than 0 is one
    last_shift: NDArray[np.int64]  # that of the last word
    collapsed: NDArray[np.bool_]  # the accuracy is no more than two deviations above chance
    explained: NDArray[np.bool_]  # collapsed, but four above it at its own shifts: not all are 0


def alignments(predicted: Sequence[Words], around: Sequence[Words], margin: int) -> Alignments:
    """Align each prompt; one without a word is collapsed, and nothing explains it."""
    shifts = [align(said, text, margin) for said, text in zip(predicted, around, strict=True)]
    true = [text[margin : len(text) - margin] for text in around]
    own = [text[margin + s + np.arange(len(s))] for s, text in zip(shifts, around, strict=True)]
    accuracy, realigned = accuracies(predicted, true), accuracies(predicted, own)
    chance = np.array([_chance(said, there) for said, there in zip(predicted, true, strict=True)])
    lengths = np.array([max(1, len(said)) for said in predicted])
    deviation = np.sqrt(chance * (1 - chance) / lengths)
    collapsed = accuracy <= chance + 2 * deviation
    return Alignments(
        accuracy=accuracy,
        realigned=realigned,
        chance=chance,
        slips=np.array([np.count_nonzero(np.diff(s, prepend=0)) for s in shifts], np.int64),
        last_shift=np.array([s[-1] if len(s) else 0 for s in shifts], np.int64),
        collapsed=collapsed,
        explained=collapsed & (realigned > chance + 4 * deviation),
    )


def _chance(predicted: Words, true: Words) -> float:
    """Σ f̂ f over all words: how often a random word of each are the same."""
    return float(_occurrences(predicted, true).sum()) / max(1, len(predicted) * len(true))


def _occurrences(words: Words, text: Words) -> NDArray[np.int64]:
    """How often each of the words occurs in a text."""
    ordered = np.sort(text)
    return np.searchsorted(ordered, words, "right") - np.searchsorted(ordered, words)
