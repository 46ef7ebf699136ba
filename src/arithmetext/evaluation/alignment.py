"""Alignment of continuations that slip: they are right except for omitted or inserted words.

After a slip, each word is compared with the wrong true word, and the continuation scores like
noise. Alignment gives each predicted word a shift s: it is compared with the true word s positions
later. A positive shift means that s words were omitted, a negative one that words were inserted.

The text nearly repeats itself: integers that differ by a multiple of 36 have the same word one time
in five; for multiples of 44100 it is one time in four. So a shift that fits only shows that the
continuation is in step modulo small squares. Even a model that knows only n modulo small squares
fits at some shift, and so does text from any other place. The accuracy after alignment,
`realigned`, shows how much more a model knows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..errors import InputError
from ..text.sieve import Words
from .words import accuracies

IN_STEP_ACCURACY = 0.4  # assumed word accuracy of a model that is in step

# The cost of coming into step, in nats. A run of unrelated words, with a given beginning and shift,
# earns this much with a probability of at most e⁻¹⁶: once in 40 prompts of 1700 words with 129
# shifts. In permuted text it was about once in 300.
JUMP_COST = 16.0

# The additional cost of a shift by d words is SHIFT_COST · √d. For a prediction with period d, such
# as one that knows only n modulo 36, a shift by d is as good as none, so the path could skip d
# words that score badly. The score of d words has a standard deviation of 1.2 √d nats, and the path
# can choose among many places. So the cost is four and a half standard deviations.
SHIFT_COST = 5.5

_UNRELATED = -1


def align(predicted: Words, around: Words, margin: int) -> NDArray[np.int64]:
    """The shift of each word, [words], from -margin to margin.

    `around` is the true text with `margin` more words on both sides. Each predicted word is either
    in step at some shift, or unrelated to the text. In step it earns its log-likelihood ratio:
    ln(A / f) if it equals the true word at this shift, ln((1 - A) / (1 - f)) if not, where A is
    IN_STEP_ACCURACY and f the frequency of the word. Unrelated, it earns 0.

    A continuation begins in step at shift 0, or unrelated. Coming into step at shift s later costs
    JUMP_COST + SHIFT_COST · √|s|; falling out of step is free. The path with the highest score is
    taken (Viterbi). An unrelated word gets the shift of the word before it, so noise stays at shift
    0; without the unrelated state it would wander to the shifts that fit best.
    """
    if margin < 0 or len(around) != len(predicted) + 2 * margin:
        raise InputError(
            f"{len(predicted)} words and a margin of {margin} on both sides are not {len(around)}"
        )
    # Add half a word to the count and one to the total, so that no frequency is 0 or 1.
    f = (_occurrences(predicted, around) + 0.5) / (len(around) + 1)
    jump = JUMP_COST + SHIFT_COST * np.sqrt(np.abs(np.arange(-margin, margin + 1)))
    states = _path(
        predicted,
        around,
        np.log(IN_STEP_ACCURACY / f),
        np.log((1 - IN_STEP_ACCURACY) / (1 - f)),
        jump,
    )
    latest = np.maximum.accumulate(np.where(states == _UNRELATED, -1, np.arange(len(states))))
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
    """The best path, [words]: the shift of each word plus margin, or _UNRELATED."""
    count = len(predicted)
    size = len(around) - count + 1
    score = -jump
    score[size // 2] = 0.0
    jumped = np.zeros((count, size), np.bool_)
    leader = np.empty(count, np.int64)  # the state of word i on the best path that ends with it
    best = 0.0
    for i in range(count):
        # Being unrelated costs nothing, so the best score never falls.
        before = best
        leader[i] = _UNRELATED
        for s in range(size):
            if score[s] < before - jump[s]:
                score[s] = before - jump[s]
                jumped[i, s] = True
            score[s] += equal[i] if predicted[i] == around[i + s] else unequal[i]
            if score[s] > best:
                best = score[s]
                leader[i] = s
    states = np.empty(count, np.int64)
    state = _UNRELATED
    for i in range(count - 1, -1, -1):
        if i == count - 1 or state == _UNRELATED or jumped[i + 1, state]:
            state = leader[i]
        states[i] = state
    return states


@dataclass(frozen=True)
class PromptAlignments:
    """Accuracy before and after alignment, one value per prompt, [prompts]."""

    accuracy: NDArray[np.float64]  # the share of words that are right at shift 0
    realigned: NDArray[np.float64]  # the share of words that are right at their own shift
    chance: NDArray[np.float64]  # the expected accuracy of unrelated words of equal frequencies
    slips: NDArray[np.int64]  # how often the shift changes, counting from shift 0
    last_shift: NDArray[np.int64]  # the shift of the last word
    collapsed: NDArray[np.bool_]  # accuracy ≤ chance + 2 standard deviations
    explained: NDArray[np.bool_]  # collapsed, but realigned > chance + 4 standard deviations


def align_prompts(
    predicted: Sequence[Words], around: Sequence[Words], margin: int
) -> PromptAlignments:
    """Align each prompt. A prompt without words counts as collapsed and not explained."""
    shifts = [align(words, text, margin) for words, text in zip(predicted, around, strict=True)]
    true = [text[margin : len(text) - margin] for text in around]
    shifted = [text[margin + s + np.arange(len(s))] for s, text in zip(shifts, around, strict=True)]
    accuracy, realigned = accuracies(predicted, true), accuracies(predicted, shifted)
    chance = np.array([_chance(words, truth) for words, truth in zip(predicted, true, strict=True)])
    lengths = np.array([max(1, len(words)) for words in predicted])
    deviation = np.sqrt(chance * (1 - chance) / lengths)
    collapsed = accuracy <= chance + 2 * deviation
    return PromptAlignments(
        accuracy=accuracy,
        realigned=realigned,
        chance=chance,
        slips=np.array([np.count_nonzero(np.diff(s, prepend=0)) for s in shifts], np.int64),
        last_shift=np.array([s[-1] if len(s) else 0 for s in shifts], np.int64),
        collapsed=collapsed,
        explained=collapsed & (realigned > chance + 4 * deviation),
    )


def _chance(predicted: Words, true: Words) -> float:
    """Σ f̂ f over all words: how often a random predicted word equals a random true word."""
    return float(_occurrences(predicted, true).sum()) / max(1, len(predicted) * len(true))


def _occurrences(words: Words, text: Words) -> NDArray[np.int64]:
    """How often each of the words occurs in a text, [words]."""
    ordered = np.sort(text)
    return np.searchsorted(ordered, words, "right") - np.searchsorted(ordered, words)
