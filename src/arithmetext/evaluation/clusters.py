"""Several scorings of the same continuations, and how many of them score low.

`[seeds][prompts]` below: the same prompts, continued by models trained with different seeds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from ..text.sieve import Words
from .alignment import align_prompts
from .estimates import (
    Estimate,
    over_seeds_and_blocks,
    ratio_over_blocks,
    share,
    statistic_over_blocks,
)
from .evaluate import MAX_SHIFT
from .generation import Continuations
from .prompts import TextPrompts
from .splitting import split_scores
from .words import Floats


@dataclass(frozen=True)
class ContinuationScores:
    """Scores of whole continuations, [seeds][prompts] each."""

    known: list[list[float]]  # accuracy, with the integer of every word known
    split: list[list[float]]  # accuracy after text.split() (evaluation/splitting.py)
    split_at_spaces: list[list[float]]  # accuracy after text.split(" ")
    first_differs: list[list[bool]]  # only the generated or only the true text begins with a space
    realigned: list[list[float]]  # accuracy after alignment (evaluation/alignment.py)
    chance: list[list[float]]  # Σ f̂ f, the accuracy if the generated words were shuffled
    text_chance: list[list[float]]  # Σ f², the accuracy of random words of the text
    slips: list[list[int]]


def score_continuations(
    prompts: TextPrompts, by_seed: Sequence[Continuations]
) -> ContinuationScores:
    """Score the continuations of the same prompts by several models."""
    rows: dict[str, list[list[float]]] = {field.name: [] for field in fields(ContinuationScores)}
    for continuations in by_seed:
        predicted = continuations.predicted
        around = prompts.true_words([len(words) for words in predicted], margin=MAX_SHIFT)
        aligned = align_prompts(predicted, around, MAX_SHIFT)
        true = (text[MAX_SHIFT : len(text) - MAX_SHIFT] for text in around)
        text_chance = np.array([_share_of_equal_pairs(words) for words in true])
        columns = {"known": aligned.accuracy, "text_chance": text_chance, **vars(aligned)}
        columns |= split_scores(prompts, continuations.tokens)._asdict()
        for name, row in rows.items():
            row.append(columns[name].tolist())
    return ContinuationScores(**rows)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Clusters:
    """How many continuations have an accuracy in which range."""

    continuations: int
    majority: int  # in the range of the majority
    low: int  # below the low bound
    between: int  # below the majority, but not low
    above: int  # above the majority
    low_share: Estimate
    low_mean: Estimate  # mean accuracy of those that are low
    other_mean: Estimate


def count_clusters(
    accuracy: Floats, blocks: int, majority: tuple[float, float], low: float
) -> Clusters:
    """Count the accuracies, [seeds, prompts], in the range `majority` and below `low`."""
    is_low = accuracy < low
    return Clusters(
        continuations=accuracy.size,
        majority=int(((majority[0] <= accuracy) & (accuracy <= majority[1])).sum()),
        low=int(is_low.sum()),
        between=int((~is_low & (accuracy < majority[0])).sum()),
        above=int((accuracy > majority[1]).sum()),
        low_share=_share(is_low, blocks),
        low_mean=_mean(accuracy, is_low, blocks),
        other_mean=_mean(accuracy, ~is_low, blocks),
    )


@dataclass(frozen=True)
class ScoreSummary:
    """Clusters in each scoring, and what the low cluster consists of."""

    known: Clusters
    split: Clusters
    split_at_spaces: Clusters
    first_differs: Estimate  # share of continuations
    exceptions: int  # low after text.split() but the first characters agree, or the reverse
    easier: Estimate  # accuracy, integers known: where first characters differ, minus elsewhere
    accuracy: Estimate  # the integers known
    realigned: Estimate
    chance: Estimate
    text_chance: Estimate
    slipped: Estimate  # share of continuations
    slips: int  # number of continuations that slipped


def summarise_scores(
    places: Sequence[ContinuationScores], blocks: int, majority: tuple[float, float], low: float
) -> ScoreSummary:
    """Summarise all continuations at one place, or at several places together.

    Prompt k of each place is from block k % blocks of its text, and so it is in the joined columns.
    """
    assert all(len(each.known[0]) % blocks == 0 for each in places)
    columns: dict[str, NDArray[np.float64]] = {
        field.name: np.concatenate([np.array(getattr(each, field.name)) for each in places], 1)
        for field in fields(ContinuationScores)
    }
    known, split, differs = columns["known"], columns["split"], columns["first_differs"] > 0
    slipped = columns["slips"] > 0
    return ScoreSummary(
        **{
            name: count_clusters(columns[name], blocks, majority, low)
            for name in ("known", "split", "split_at_spaces")
        },
        first_differs=_share(differs, blocks),
        exceptions=int(((split < low) != differs).sum()),
        easier=_difference(known, differs, blocks),
        accuracy=over_seeds_and_blocks(known, blocks),
        realigned=over_seeds_and_blocks(columns["realigned"], blocks),
        chance=over_seeds_and_blocks(columns["chance"], blocks),
        text_chance=over_seeds_and_blocks(columns["text_chance"], blocks),
        slipped=_share(slipped, blocks),
        slips=int(slipped.sum()),
    )


def _share_of_equal_pairs(words: Words) -> float:
    """How often two different places of a text have the same word: Σ f², estimated without bias."""
    counts = np.unique(words, return_counts=True)[1]
    return float((counts * (counts - 1)).sum() / max(1, len(words) * (len(words) - 1)))


def _share(hits: NDArray[np.bool_], blocks: int) -> Estimate:
    """The share of hits, [seeds, prompts].

    If all or none are hits, Wilson's interval over prompts: the seeds have the same prompts.
    """
    if hits.all() or not hits.any():
        return share(hits[0])
    value, lowest, highest = over_seeds_and_blocks(hits.astype(float), blocks)
    return Estimate(value, max(0.0, lowest or 0.0), min(1.0, highest or 1.0))


def _mean(values: Floats, chosen: NDArray[np.bool_], blocks: int) -> Estimate:
    """The mean of the chosen values, [seeds, prompts]."""
    return ratio_over_blocks(values * chosen, chosen, blocks)


def _difference(values: Floats, chosen: NDArray[np.bool_], blocks: int) -> Estimate:
    """The mean of the chosen values minus the mean of the others, [seeds, prompts]."""

    def difference(values: Floats, chosen: Floats) -> float:
        others = 1 - chosen
        return float(
            (values * chosen).sum() / chosen.sum() - (values * others).sum() / others.sum()
        )

    return statistic_over_blocks(difference, [values, chosen], blocks)
