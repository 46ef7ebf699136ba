"""Does a model know which small primes divide n? Word by word, beside the residue oracles.

A word predicted for n is compared with the answer of an oracle (`search.residues`), and with the
primes that divide n. Everything is computed from continuations, so no model is needed.

**Agreement.** A model and an oracle can give the same word because both know the same residues, or
because some words are easy for anyone. The second is what remains if the model's words are shuffled
among the integers with the same true word: errors are then independent given the true word.

**Noticing p.** If a prime p divides n, the root of its tree has on average about one more child (a
little less, since the cofactor n/p is smaller). Whether p divides n is independent of n modulo the
powers of all other primes. So a model that knows nothing about n modulo p writes as many children
on average where p divides n as where it does not. A model that knows it writes about one more.

All intervals are over blocks of the text (`estimates.ratio_over_blocks`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..text.sieve import Words
from ..trees import tree_of_word, unpack
from .estimates import Estimate, ratio_over_blocks
from .words import MALFORMED, Floats, Integers


@dataclass(frozen=True)
class PlacedWords:
    """The words of continuations with the integers that they stand for, [words] each."""

    prompt: Integers  # the number of the prompt, from 0
    integers: NDArray[np.uint64]
    predicted: Words
    true: Words
    blocks: int  # of the text: prompt k is from block k % blocks


def place_words(
    first: NDArray[np.int64], predicted: Sequence[Words], true: Sequence[Words], blocks: int
) -> PlacedWords:
    """The words of all prompts, one after the other; `first` has the first integer of each."""
    lengths = [len(words) for words in predicted]
    prompt = np.repeat(np.arange(len(lengths)), lengths)
    steps = np.concatenate([np.arange(length) for length in lengths])
    return PlacedWords(
        prompt,
        (first[prompt] + steps).astype(np.uint64),
        np.concatenate(predicted),
        np.concatenate([words[:length] for words, length in zip(true, lengths, strict=True)]),
        blocks,
    )


def pool(models: Sequence[PlacedWords]) -> PlacedWords:
    """The words of several models that continue the same prompts, such as several seeds."""
    return PlacedWords(
        np.concatenate([model.prompt for model in models]),
        np.concatenate([model.integers for model in models]),
        np.concatenate([model.predicted for model in models]),
        np.concatenate([model.true for model in models]),
        models[0].blocks,
    )


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How often a model gives the word of an oracle: shares of all words.

    Expected are the shares if the model's words are shuffled among the integers with the same true
    word.
    """

    same: Estimate
    expected: Estimate
    same_wrong: Estimate  # the same wrong word
    expected_wrong: Estimate
    excess: Estimate  # (same − expected) / (1 − expected): 1 if all words are the same


def agreement(words: PlacedWords, answers: Words) -> Agreement:
    """Compare the predicted words with an oracle's answers for the same integers."""
    wrong = words.predicted != words.true
    same, expected = words.predicted == answers, expected_agreement(words, answers)
    shares = [same, expected, same & wrong, expected * wrong, np.ones(len(wrong))]
    both, expected_both, wrong_both, expected_wrong, number = (
        _by_block(words, _by_prompt(words, share)) for share in shares
    )
    return Agreement(
        same=_ratio(both, number),
        expected=_ratio(expected_both, number),
        same_wrong=_ratio(wrong_both, number),
        expected_wrong=_ratio(expected_wrong, number),
        excess=_ratio(both - expected_both, number - expected_both),
    )


def expected_agreement(words: PlacedWords, answers: Words) -> Floats:
    """For each word, the share of the integers with the same true word that have it as answer."""
    kinds, codes = np.unique(np.stack([words.true, words.predicted, answers]), return_inverse=True)
    true, predicted, answer = codes.reshape(3, -1)
    counts = np.bincount(true * len(kinds) + answer, minlength=len(kinds) ** 2)
    shares: Floats = counts[true * len(kinds) + predicted] / np.bincount(true)[true]
    return shares


def accuracy(words: PlacedWords, divisors: Sequence[int] = (1,)) -> Estimate:
    """The share of right words where one or more of these integers divide n."""
    chosen = np.zeros(len(words.integers), bool)
    for divisor in divisors:
        chosen |= words.integers % np.uint64(divisor) == 0
    right = chosen & (words.predicted == words.true)
    return _ratio(*(_by_block(words, _by_prompt(words, column)) for column in (right, chosen)))


@dataclass(frozen=True, kw_only=True)
class Divisibility:
    """Words of integers that a prime divides, beside those that it does not divide."""

    words: int  # whose integers the prime divides
    noticed: Estimate  # how many more children are predicted there than elsewhere in the prompt
    recall: Estimate  # the share of right words where the prime divides n
    recall_elsewhere: Estimate  # where it does not


def divisibility(words: PlacedWords, prime: int) -> Divisibility:
    """Whether the predicted words show that the prime divides n.

    An oracle that knows n modulo the prime notices it by about 1, an oracle that does not by 0.
    """
    divides = words.integers % np.uint64(prime) == 0
    columns = [np.ones(len(divides)), children(words.predicted), words.predicted == words.true]
    (number, written, right), (others, written_elsewhere, right_elsewhere) = (
        [_by_prompt(words, column * chosen) for column in columns] for chosen in (divides, ~divides)
    )
    more = written - number * written_elsewhere / np.maximum(others, 1)
    there, elsewhere = _by_block(words, number), _by_block(words, others)
    return Divisibility(
        words=int(number.sum()),
        noticed=_ratio(_by_block(words, more), there),
        recall=_ratio(_by_block(words, right), there),
        recall_elsewhere=_ratio(_by_block(words, right_elsewhere), elsewhere),
    )


def children(words: Words) -> Integers:
    """The number of children at the root of each word, which is the number of primes of n.

    A malformed word has none.

    >>> children(np.array([0b10, 0b1100, 0b110010], np.uint64)).tolist()
    [1, 1, 2]
    """
    kinds, codes = np.unique(words, return_inverse=True)
    trees = [
        () if kind == MALFORMED else tree_of_word(unpack(kind)).children for kind in kinds.tolist()
    ]
    counts: Integers = np.array([len(tree) for tree in trees], np.int64)[codes]
    return counts


def _by_prompt(words: PlacedWords, values: NDArray[Any]) -> Floats:
    """The sum of the values of each prompt."""
    return np.bincount(words.prompt, values).astype(np.float64)


def _by_block(words: PlacedWords, values: Floats) -> Floats:
    """The sum over the prompts of each block."""
    block = np.arange(len(values)) % words.blocks
    return np.bincount(block, values, minlength=words.blocks).astype(np.float64)


def _ratio(numerators: Floats, denominators: Floats) -> Estimate:
    return ratio_over_blocks([numerators], [denominators], len(numerators))
