"""Word accuracy and nats a word, against what can be counted by hand."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from arithmetext.errors import InputError
from arithmetext.evaluation.words import Prompts, draw, hits, nats_per_word, word_accuracy
from arithmetext.models.gpt import GPT, GPTConfig
from arithmetext.models.hmm import HMM, HMMConfig
from arithmetext.text.sieve import words
from arithmetext.tokens import BPE, Tokenizer, WordTokens

WINDOW = (10**9, 10**9 + 10**5)


@pytest.fixture(scope="module", params=["bpe", "words"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return BPE.train(128, lines=256) if request.param == "bpe" else WordTokens.commonest(64)


class Recited:
    """A model that says what it was told to, and is as sure of it as it was told."""

    def __init__(self, tokens: Tensor, size: int, sure: float = 1.0) -> None:
        self.tokens, self.size, self.sure, self.place = tokens, size, sure, 0

    def read(self, prompts: Tensor) -> "Recited":
        return self

    def log_probabilities(self) -> Tensor:
        rest = (1 - self.sure) / (self.size - 1)
        chances = torch.full((len(self.tokens), self.size), rest, dtype=torch.float64)
        chances.scatter_(1, self.tokens[:, self.place, None], self.sure)
        return chances.log()

    def append(self, tokens: Tensor) -> None:
        self.place += 1


def drawn(tokenizer: Tokenizer, number: int = 8) -> Prompts:
    return draw(tokenizer, WINDOW, number=number, length=40, following=60)


def test_prompts_and_what_follows_are_one_stretch_of_the_text(tokenizer: Tokenizer) -> None:
    prompts = drawn(tokenizer)
    text = tokenizer.text(tokenizer.encode(words(*WINDOW)))
    for ids in prompts.ids.numpy():
        assert tokenizer.text(ids) in text
    after = prompts.words_after(prompts.following)
    for prompt, following, found in zip(prompts.prompts, prompts.following, after, strict=True):
        whole = tokenizer.text(torch.cat([prompt, following]).numpy())
        # Of the whole stretch, the words that end in its second part.
        ended = tokenizer.text(following.numpy()).count(" ")
        assert [f"{w:b}" for w in found.tolist()] == whole.split(" ")[:-1][-ended:]


def test_the_truth_is_right_and_costs_nothing(tokenizer: Tokenizer) -> None:
    prompts = drawn(tokenizer)
    assert (word_accuracy(Recited(prompts.following, tokenizer.size), prompts) == 1).all()
    assert (nats_per_word(Recited(prompts.following, tokenizer.size), prompts) == 0).all()


def test_a_shifted_truth_scores_like_noise(tokenizer: Tokenizer) -> None:
    prompts = drawn(tokenizer, number=40)
    shifted = torch.roll(prompts.following, 1, 1)
    assert word_accuracy(Recited(shifted, tokenizer.size), prompts).mean() < 0.35


def test_nats_are_shared_among_the_words_that_end(tokenizer: Tokenizer) -> None:
    prompts = drawn(tokenizer)
    model = Recited(prompts.following, tokenizer.size, sure=0.25)
    for nats, following in zip(nats_per_word(model, prompts), prompts.following, strict=True):
        ended = tokenizer.text(following.numpy()).count(" ")
        assert nats == pytest.approx(60 * math.log(4) / ended)


def test_some_word_must_end() -> None:
    with pytest.raises(InputError, match="no word ends"):
        draw(WordTokens.commonest(3 + 1), WINDOW, number=40, length=9, following=1)


def test_a_word_that_is_cut_short_or_missing_is_wrong() -> None:
    true = np.array([2, 10, 12], np.uint64)
    assert hits(true, true) == 3
    assert hits(true[:2], true) == 2
    assert hits(np.array([2, 0, 12, 2], np.uint64), true) == 2
    assert hits(true[:0], true) == 0


@pytest.mark.parametrize("kind", ["gpt", "hmm"])
def test_nats_are_those_of_the_model(kind: str) -> None:
    tokenizer = WordTokens.commonest(64)
    torch.manual_seed(0)
    model: GPT | HMM
    if kind == "gpt":
        config = GPTConfig(layers=1, heads=1, context=128)
        model = GPT(config, vocabulary=64, causal=True)
    else:
        model = HMM(HMMConfig(states=8), vocabulary=64)
    prompts = draw(tokenizer, WINDOW, number=3, length=30, following=20)
    with torch.no_grad():
        logs = model(prompts.ids[:, :-1]).log_softmax(-1)
    each = -logs.gather(2, prompts.ids[:, 1:, None])[:, -20:, 0].sum(1)
    ended = [tokenizer.text(row.numpy()).count(" ") for row in prompts.following]
    assert nats_per_word(model, prompts) == pytest.approx(each.numpy() / ended, rel=1e-4)
