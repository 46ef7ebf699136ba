"""Four impossible words: a control of our own, without verdicts."""

from typing import Any

import numpy as np
import pytest

from arithmetext.evaluation.codec import from_json, to_json
from arithmetext.evaluation.square_free import KINDS
from arithmetext.evaluation.subjects import EvaluatedModel
from arithmetext.models.hmm import HMM, HMMConfig
from arithmetext.paper.studies import impossible_words as study
from arithmetext.text.splits import splits
from arithmetext.tokens import WordTokens

from .cases import draw

PLACES = study.Places(10**9, 64, number=20, blocks=2, seed=0)
CASES: list[Any] = []  # the paper makes no claim about these words


def nats(seed: int, places: int = 15) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {kind: random.normal(20 + 5 * k, size=places) for k, kind in enumerate(KINDS)}


def test_statistics_are_means_over_seeds() -> None:
    seeds = [nats(0), nats(1)]
    result = study.summarise({"GPT-2": seeds, "HMM": seeds[:1]}, PLACES)
    assert result.seeds == {"GPT-2": 2, "HMM": 1}
    for kind in KINDS:
        expected = np.mean([each[kind].mean() for each in seeds])
        assert result.models["GPT-2"].nats[kind].value == pytest.approx(expected)
    assert (result.models["HMM"].asked, result.models["HMM"].left) == (20, 15)
    assert study.verdicts(result) == []
    assert "widened by the spread over seeds" in study.caption(result)


@pytest.mark.parametrize("places", [15, 0])
def test_the_result_is_drawn_and_restored(places: int) -> None:
    seeds = [nats(0, places)]
    result = study.summarise({"GPT-2": seeds, "HMM": seeds}, PLACES)
    assert from_json(study.Result, to_json(result)) == result
    draw("impossible_words", result)
    assert "spread over seeds" not in study.caption(result)


def test_a_model_without_preference_pays_for_tokens_only() -> None:
    text = splits(10**8)
    tokenizer = WordTokens.commonest(64)
    model = HMM(HMMConfig(states=4, spread=0.0), vocabulary=64)
    for parameter in model.parameters():
        parameter.data.zero_()
    subject = EvaluatedModel("it", model, tokenizer, 128, text.train, text.seen)
    found = study.stretch_nats(subject, PLACES)
    assert list(found) == list(KINDS)
    for values in found.values():
        tokens = values / np.log(64)
        np.testing.assert_allclose(tokens, tokens.round(), rtol=1e-5)
        assert tokens.min() >= 4
