"""Scorings of the same continuations side by side, and the clusters in them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from arithmetext.evaluation.clusters import (
    ContinuationScores,
    count_clusters,
    score_continuations,
    summarise_scores,
)
from arithmetext.evaluation.estimates import UNKNOWN, Estimate, over_seeds_and_blocks
from arithmetext.evaluation.generation import with_true_words
from arithmetext.evaluation.prompts import draw_from_blocks
from arithmetext.evaluation.splitting import split_scores
from arithmetext.evaluation.words import accuracies
from arithmetext.tokens import BPE

RANGES = {"majority": (0.3, 0.5), "low": 0.12}


def test_continuations_are_counted_by_accuracy() -> None:
    accuracy = np.array([[0.3, 0.5, 0.51, 0.29, 0.12, 0.119], [0.4, 0.4, 0.4, 0.4, 0.05, 0.05]])
    found = count_clusters(accuracy, 2, **RANGES)
    assert (found.continuations, found.majority, found.low) == (12, 6, 3)
    assert (found.between, found.above) == (2, 1)
    assert found.low_mean.value == pytest.approx((0.119 + 0.05 + 0.05) / 3)
    assert found.other_mean.value == pytest.approx((accuracy.sum() - 0.219) / 9)
    shares = over_seeds_and_blocks(accuracy < 0.12, 2)
    assert found.low_share.value == shares.value == pytest.approx(3 / 12)
    assert found.low_share.low == 0 and shares.low is not None and shares.low < 0


def test_no_low_continuations() -> None:
    found = count_clusters(np.full((3, 40), 0.4), 10, **RANGES)
    assert (found.low, found.low_mean) == (0, UNKNOWN)
    assert found.other_mean == pytest.approx(Estimate(0.4, 0.4, 0.4))
    # 40 prompts, not 120: the seeds have the same prompts.
    assert found.low_share.value == 0
    assert found.low_share.high == pytest.approx(1.96**2 / (40 + 1.96**2), abs=1e-3)


def scores(differs: list[list[bool]], low: list[list[bool]]) -> ContinuationScores:
    accuracy = np.where(low, 0.08, 0.4)
    known = np.full_like(accuracy, 0.4)
    ones = np.ones_like(accuracy)
    columns = (known, accuracy, known, np.array(differs), known, 0.09 * ones, 0.1 * ones, ones)
    return ContinuationScores(*(column.tolist() for column in columns))


def test_the_low_cluster_is_compared_prompt_by_prompt() -> None:
    """As many low continuations as first characters that differ need not be the same ones."""
    one, other = [[True, False, True, False]], [[True, True, False, False]]
    assert summarise_scores([scores(one, one)], 2, **RANGES).exceptions == 0
    crossed = summarise_scores([scores(one, other)], 2, **RANGES)
    assert crossed.exceptions == 2
    assert crossed.first_differs.value == crossed.split.low_share.value == 0.5
    assert summarise_scores([scores(one, one), scores(one, other)], 2, **RANGES).exceptions == 2


def test_prompts_of_the_low_cluster_are_compared_with_the_others() -> None:
    differs = [[True, True, False, False]]
    known = [[0.35, 0.37, 0.4, 0.42]]
    harder = summarise_scores([replace(scores(differs, differs), known=known)], 2, **RANGES)
    assert harder.easier.value == pytest.approx(0.36 - 0.41)
    never = [[False] * 4]
    assert summarise_scores([scores(never, never)], 2, **RANGES).easier == UNKNOWN


def test_seeds_with_the_same_prompts_are_no_more_evidence() -> None:
    random = np.random.default_rng(0)
    differs, known = random.random((1, 40)) < 0.3, random.normal(0.4, 0.05, (1, 40))
    one, three = (
        replace(
            scores(*2 * [np.repeat(differs, seeds, 0).tolist()]),
            known=np.repeat(known, seeds, 0).tolist(),
        )
        for seeds in (1, 3)
    )
    alone, together = (summarise_scores([each], 10, **RANGES) for each in (one, three))
    assert together.easier == pytest.approx(alone.easier)
    assert together.split.low_mean == pytest.approx(alone.split.low_mean)
    with pytest.raises(AssertionError):  # 2 · 40 prompts fill 16 blocks, but not at each place
        summarise_scores([one, one], 16, **RANGES)


def test_every_scoring_of_real_tokens() -> None:
    """The true continuation, and one that leaves out three tokens in the middle."""
    bpe = BPE.train(128, lines=256)
    blocks = [(10**9, 10**9 + 10**5), (10**10, 10**10 + 10**5)]
    prompts = draw_from_blocks(bpe, blocks, number=6, length=40, following=300)
    wrong = torch.cat([prompts.following[:, :150], prompts.following[:, 153:]], 1)
    by_seed = [with_true_words(prompts, tokens) for tokens in (prompts.following, wrong)]
    found = score_continuations(prompts, by_seed)
    assert found.known[0] == found.realigned[0] == [1.0] * 6
    assert found.split_at_spaces[0] == pytest.approx([1.0] * 6, abs=0.005)  # the last word is cut
    assert not np.any(found.slips[0]) and not np.any(found.first_differs)
    pairs = [row[:, None] == row for row in by_seed[0].true]
    chance = [(np.sum(equal) - len(equal)) / (equal.size - len(equal)) for equal in pairs]
    assert found.text_chance[0] == pytest.approx(chance)
    second = by_seed[1]
    assert found.known[1] == accuracies(second.predicted, second.true).tolist()
    assert found.split[1] == split_scores(prompts, second.tokens).split.tolist()
    assert np.mean(found.slips[1]) > 0.5
    assert np.mean(found.realigned[1]) > np.mean(found.known[1]) + 0.2
