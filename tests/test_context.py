"""Scores of given text, and how they depend on the context."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from arithmetext import trees
from arithmetext.evaluation import scoring
from arithmetext.evaluation.context import WORD_TOKENS, by_context, next_words_right
from arithmetext.evaluation.prompts import TextPrompts, draw
from arithmetext.evaluation.scoring import score
from arithmetext.models.gpt import GPT, GPTConfig
from arithmetext.models.hmm import HMM, HMMConfig
from arithmetext.models.language import LanguageModel, Prompts
from arithmetext.models.ngram import NGram
from arithmetext.tokens import BPE, Tokenizer, WordTokens
from conftest import tolerance
from stand_in import StandIn

WINDOW = (10**9, 10**9 + 10**5)
CLOSE = tolerance(64)  # a logarithm of a sum over 64 tokens


@pytest.fixture(scope="module", params=["bpe", "words"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return BPE.train(64, lines=256) if request.param == "bpe" else WordTokens.commonest(64)


def sequences(tokenizer: Tokenizer, number: int = 5, length: int = 30) -> Tensor:
    return draw(tokenizer, WINDOW, number=number, length=length, following=0).ids


def models() -> list[LanguageModel]:
    torch.manual_seed(0)
    return [
        GPT(GPTConfig(layers=2, heads=1, context=32), vocabulary=64, causal=True).double(),
        HMM(HMMConfig(states=8, conditioned="sequence"), vocabulary=64).double(),
        NGram(2, [(10**6, 10**6 + 5000)], [(10**6, 10**6 + 999)], tokens=WordTokens.commonest(64)),
    ]


def test_scores_equal_the_probabilities_of_a_reading() -> None:
    """Token by token, and however many sequences are scored together."""
    ids = sequences(WordTokens.commonest(64))
    for model in models():
        scores = score(model, ids)
        assert scores.logs.shape == scores.right.shape == (5, 29)
        for row, sequence in enumerate(ids):
            reading = model.read(Prompts(sequence[None, :1]))
            for t, token in enumerate(sequence[1:]):
                logs = reading.log_probabilities()[0]
                assert scores.logs[row, t] == pytest.approx(float(logs[token]), abs=CLOSE)
                assert scores.right[row, t] == (int(logs.argmax()) == int(token))
                reading.append(token[None])


def test_scores_do_not_depend_on_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = sequences(WordTokens.commonest(64))
    for model in models():
        together = score(model, ids)
        monkeypatch.setattr(scoring, "BATCH_TOKENS", 60)  # two sequences
        apart = score(model, ids)
        monkeypatch.undo()
        assert apart.logs == pytest.approx(together.logs, abs=CLOSE)
        assert np.array_equal(apart.right, together.right)


def test_ngrams_give_probability_0_to_impossible_beginnings() -> None:
    model = models()[2]
    logs = score(model, torch.tensor([[5, 1, 0, 5]])).logs[0]  # a word, then 0, which begins none
    assert logs[0] == -math.inf
    assert logs[1] == pytest.approx(math.log(1 / 3), abs=CLOSE) and math.isfinite(logs[2])


def test_a_sequence_may_begin_inside_a_word() -> None:
    """Then its letters tell nothing, but they are not impossible."""
    tokens = WordTokens.commonest(16)
    model = NGram(2, [(10**6, 10**6 + 5000)], [(10**6, 10**6 + 999)], tokens=tokens)
    ids = draw(tokens, WINDOW, number=60, length=40, following=0).ids
    inside = (ids[:, 0] < 3) & (ids[:, 0] > 0)
    assert inside.sum() > 10
    logs = score(model, ids).logs
    assert np.isfinite(logs).all()
    first = logs[inside.numpy(), 0]
    assert first == pytest.approx(np.full(len(first), math.log(1 / 3)), abs=CLOSE)


def test_context_ranges_double_and_add_up(tokenizer: Tokenizer) -> None:
    prompts = draw(tokenizer, WINDOW, number=12, length=32, following=WORD_TOKENS)
    ids = prompts.ids
    torch.manual_seed(1)
    model = HMM(HMMConfig(states=8, conditioned="sequence"), vocabulary=64).double()
    stretches = by_context(model, prompts)
    assert [(s.first, s.last) for s in stretches] == [(1, 1), (2, 3), (4, 7), (8, 15), (16, 31)]
    scores, ended = score(model, ids), tokenizer.words_ended[ids.numpy()]
    third = stretches[2]
    assert third.token_accuracy.value == pytest.approx(scores.right[:, 3:7].mean())
    words = ended[:, 4:8].sum()
    assert third.nats_per_word.value == pytest.approx(-scores.logs[:, 3:7].sum() / words)
    low, high = third.nats_per_word.low, third.nats_per_word.high
    assert low is not None and high is not None and low < -scores.logs[:, 3:7].sum() / words < high


def with_following(prompts: TextPrompts) -> Tensor:
    """The prompts with the tokens that follow them, [prompts, tokens]."""
    return torch.cat([prompts.ids, prompts.following], 1)


class Slow(StandIn):
    """A model that predicts perfectly once it has read eight tokens."""

    def __init__(self, ids: Tensor) -> None:
        self.ids, self.place, self.given = ids, 0, 0

    def read(self, prompts: Prompts, *, stride: int = 1) -> "Slow":
        self.place = self.given = prompts.ids.shape[1]
        return self

    def log_probabilities(self) -> Tensor:
        logs = torch.full((len(self.ids), 64), -20.0)
        known = self.ids[:, self.place] if self.place >= 8 else (self.ids[:, self.place] + 1) % 64
        return logs.scatter(1, known[:, None], 0.0)

    def append(self, tokens: Tensor) -> None:
        self.place += 1


def test_accuracy_rises_for_a_model_that_learns_from_context(tokenizer: Tokenizer) -> None:
    prompts = draw(tokenizer, WINDOW, number=6, length=16, following=WORD_TOKENS)
    stretches = by_context(Slow(with_following(prompts)), prompts)
    assert [s.token_accuracy.value for s in stretches] == [0, 0, 0, 1]
    assert stretches[-1].nats_per_word.value == pytest.approx(0, abs=CLOSE)
    *few, enough = [s.word_accuracy.value for s in stretches]
    assert enough == 1 and all(share is not None and share < 1 for share in few)


def test_the_next_word_may_begin_in_the_prompt(tokenizer: Tokenizer) -> None:
    """A model that recites the text is right; one that is a word late is wrong."""
    prompts = draw(tokenizer, WINDOW, number=40, length=24, following=WORD_TOKENS + 1)
    for length in (3, 10, 24):
        cut = prompts.cut(length)
        assert cut.length == length and torch.equal(with_following(cut), with_following(prompts))
        # Where a prompt begins in the word that ends next, it cannot tell the whole of it.
        told = [" " in tokenizer.text(row.numpy()) for row in cut.ids]
        found, there = cut.words_after(cut.following), cut.true_words([1] * 40)
        assert sum(told) > 20
        assert all(a[0] == b[0] for a, b, c in zip(found, there, told, strict=True) if c)
        assert next_words_right(Slow(with_following(prompts)), cut).all() == (length >= 8)
    late = Slow(with_following(prompts).roll(1, 1))
    assert 0 < next_words_right(late, prompts).mean() < 0.6


def test_the_longest_word_ends_in_time() -> None:
    """The least integer with 20 edges; the least with 21 is beyond 2^63 (OEIS A276230)."""
    assert len(trees.word(1791735431214128400)) + 1 == WORD_TOKENS
