"""Verdicts on tokens, and attention that is kept as arrays."""

from functools import cache

import numpy as np
import pytest

from arithmetext import sources
from arithmetext.evaluation.attention import ORIGINS
from arithmetext.evaluation.codec import from_json, to_json
from arithmetext.evaluation.estimates import UNKNOWN
from arithmetext.evaluation.heads import Peaks
from arithmetext.evaluation.subjects import EvaluatedModel
from arithmetext.models.gpt import GPT, GPTConfig
from arithmetext.paper.outputs import Arrays
from arithmetext.paper.studies import tokenization as study
from arithmetext.paper.study import all_studies
from arithmetext.text.splits import splits
from arithmetext.tokens import BPE

from .cases import Case, draw, edited, outcomes

HOW = study.AttentionSettings((5, 14), 10**9, windows=4, farthest=12, seed=0)
KEYS = ["eight-tokens", "kinds-of-tokens", "one-token-per-merge"]


@cache
def tokenizer() -> BPE:
    return BPE.train(256, ranges=[(2, 10**6)], lines=256)


@cache
def measured() -> Arrays:
    text = splits(10**8)
    model = GPT(GPTConfig(layers=2, heads=2, context=64), vocabulary=256, causal=True)
    subject = EvaluatedModel("it", model.eval(), tokenizer(), 64, text.train, text.seen)
    return study.attention_weights(subject, HOW)


def result(seeds: int = 1) -> study.Result:
    arrays, texts = measured(), ((2, 12), {256: 1.5})
    return study.summarise(arrays, [arrays] * seeds, HOW, tokenizer(), "", 64, *texts)


@cache
def as_in_the_paper() -> study.Result:
    """Whatever the tokenizer of this test does."""
    counts = {"one word": 3, "several words": 1, "part of a word": 3, "a space": 1}
    edits = {"cut.tokens": study.PAPER_TOKENS, "cut.counts": counts, "cut.split": [12]}
    return edited(result(), edits)


CASES: list[Case] = [
    ({"cut.tokens.3": " 1010 ", "cut.tokens.4": ""}, {"eight-tokens": False}),
    ({"cut.counts.one word": 0}, {"kinds-of-tokens": False}),
    ({"cut.counts.several words": 0}, {"kinds-of-tokens": False}),
    ({"cut.counts.part of a word": 0}, {"kinds-of-tokens": False}),
    ({"cut.split": [6]}, {"kinds-of-tokens": False}),
    ({"cut.counts.a space": 0}, {}),
    ({"merged": 252}, {"one-token-per-merge": False}),
    ({"vocabulary.0": "0", "vocabulary.1": " "}, {"one-token-per-merge": False}),
    ({"attention.most": 7}, {}),  # the paper's arrows are an example
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    edits, expected = case
    found = outcomes(all_studies()["tokenization"], edited(as_in_the_paper(), edits))
    assert found == dict.fromkeys(KEYS, True) | expected


def test_attention_is_kept_for_all_heads() -> None:
    arrays, tokens = measured(), len(result().cut.tokens)
    assert arrays["last"].shape == (2, 2, tokens)
    np.testing.assert_allclose(arrays["last"].sum(-1), 1, rtol=1e-5)
    for origin in ORIGINS:
        assert arrays[f"{origin} sums"].shape == (4, 2, 2, 13)
        assert arrays[f"{origin} counts"].shape == (4, 13)
    assert result().attention.mean == pytest.approx(arrays["last"].mean((0, 1)))


def test_statistics_leave_kept_attention_valid() -> None:
    files = sources.of_function("paper.studies.tokenization", "attention_weights")
    assert "evaluation/attention.py" in files
    assert not {"evaluation/heads.py", "evaluation/estimates.py"} & files.keys()


def test_the_caption_speaks_of_other_seeds_if_there_are_any() -> None:
    peaks = {"heads.1.1.peaks": Peaks(higher=1, multiples=3)}
    assert "other seeds do in 1 of 3 cases" in study.caption(edited(result(2), peaks))
    assert "other seeds" not in study.caption(result())


def test_the_caption_says_if_distances_are_of_another_model() -> None:
    assert "Bottom: attention by the distance" in study.caption(result())
    other = edited(result(), {"other_token": "a word"})
    assert "attention of another model (each token is a word) by" in study.caption(other)


def test_the_result_is_drawn_and_restored() -> None:
    made = result(3)
    assert from_json(study.Result, to_json(made)) == made
    unknown = {f"heads.0.1.{curve}.2": UNKNOWN for curve in ("all_heads", "periodic")}
    draw("tokenization", edited(made, unknown))
