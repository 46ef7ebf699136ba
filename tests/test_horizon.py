"""The residue oracle that is as good as a model."""

from dataclasses import replace

import numpy as np
import pytest

from arithmetext.evaluation.horizon import (
    PromptScores,
    horizon_by_accuracy,
    horizon_by_nats,
    score_prompts,
    summarise,
)
from arithmetext.evaluation.prompts import draw
from arithmetext.models.locator import Locator
from arithmetext.search.residues import OracleScore
from arithmetext.tokens import WordTokens

ORACLE = [
    OracleScore(1, 0.2, 0.001, 3.0, 0.004),
    OracleScore(4, 0.4, 0.002, 2.0, 0.003),
    OracleScore(16, 0.3, 0.001, 2.5, 0.001),  # by chance
    OracleScore(64, 0.6, 0.001, 1.0, 0.001),
]


def test_a_horizon_lies_between_bounds() -> None:
    assert horizon_by_accuracy(ORACLE, 0.3) == pytest.approx(2)
    assert horizon_by_nats(ORACLE, 2.5) == pytest.approx(2)
    assert horizon_by_accuracy(ORACLE, 0.1) == horizon_by_nats(ORACLE, 4.0) == 1
    assert horizon_by_accuracy(ORACLE, 0.6) == pytest.approx(64)
    assert horizon_by_accuracy(ORACLE, 0.5) == pytest.approx(32)
    assert horizon_by_accuracy(ORACLE, 0.61) is None
    assert horizon_by_nats(ORACLE, 0.9) is None


def test_a_model_without_mistakes_is_better_than_every_oracle() -> None:
    tokens = WordTokens.commonest(256)
    window = (10**9, 10**9 + 10**6)
    prompts = replace(draw(tokens, window, number=3, length=96, following=8), blocks=3)
    scores = score_prompts(Locator(tokens), prompts)
    assert np.array_equal(scores.tokens, prompts.following)
    found = summarise("locator", 10**9, [scores], prompts, ORACLE)
    assert (found.model, found.scale, found.seeds) == ("locator", 10**9, 1)
    assert found.accuracy == (1, 1, 1)
    assert found.nats == pytest.approx((0, 0, 0), abs=1e-6)
    assert found.horizon_by_accuracy is found.horizon_by_nats is None


def test_nats_per_word_are_all_nats_over_all_words() -> None:
    tokens = WordTokens.commonest(256)
    prompts = draw(tokens, (10**9, 10**9 + 10**6), number=4, length=96, following=8)
    prompts = replace(prompts, blocks=2)
    nats = np.zeros((4, 8), np.float32)
    nats[:, 0], nats[:, 5] = [1, 2, 3, 4], 0.5
    scores = PromptScores(prompts.following.numpy(), nats, np.array([1, 1, 1, 2]))
    assert summarise("", 1, [scores], prompts, ORACLE).nats.value == pytest.approx(12 / 5)
