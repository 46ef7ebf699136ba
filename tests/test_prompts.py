"""Prompts, the text that follows them, and nats per word."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from arithmetext.errors import InputError
from arithmetext.evaluation.generation import MOST_TOKENS_PER_WORD, continue_prompts, next_words
from arithmetext.evaluation.prompts import BATCH, TextPrompts, before, draw, draw_from_blocks
from arithmetext.evaluation.scoring import nats_and_words
from arithmetext.evaluation.words import accuracies
from arithmetext.models.gpt import GPT, GPTConfig
from arithmetext.models.hmm import HMM, HMMConfig
from arithmetext.models.language import Prompts
from arithmetext.models.locator import Locator
from arithmetext.models.oracle import Oracle
from arithmetext.text.sieve import words
from arithmetext.tokens import BPE, Tokenizer, WordTokens
from conftest import tolerance
from stand_in import StandIn

WINDOW = (10**9, 10**9 + 10**5)


@pytest.fixture(scope="module", params=["bpe", "words"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return BPE.train(128, lines=256) if request.param == "bpe" else WordTokens.commonest(64)


class Recited(StandIn):
    """A model that predicts given tokens with a given probability."""

    def __init__(self, tokens: Tensor, size: int, sure: float = 1.0) -> None:
        self.tokens, self.size, self.sure, self.place = tokens, size, sure, 0

    def read(self, prompts: Prompts, *, stride: int = 1) -> "Recited":
        return self

    def log_probabilities(self) -> Tensor:
        rest = (1 - self.sure) / (self.size - 1)
        chances = torch.full((len(self.tokens), self.size), rest, dtype=torch.float64)
        chances.scatter_(1, self.tokens[:, self.place, None], self.sure)
        return chances.log()

    def append(self, tokens: Tensor) -> None:
        self.place += 1


def drawn(tokenizer: Tokenizer, number: int = 8) -> TextPrompts:
    return draw(tokenizer, WINDOW, number=number, length=40, following=60)


def with_following(prompts: TextPrompts) -> Tensor:
    """The prompts with the tokens that follow them, [prompts, tokens]."""
    return torch.cat([prompts.ids, prompts.following], 1)


def test_prompts_and_following_tokens_are_consecutive(tokenizer: Tokenizer) -> None:
    prompts = drawn(tokenizer)
    text = tokenizer.text(tokenizer.encode(words(*WINDOW)))
    for ids in with_following(prompts).numpy():
        assert tokenizer.text(ids) in text
    after = prompts.words_after(prompts.following)
    for prompt, following, found in zip(prompts.ids, prompts.following, after, strict=True):
        whole = tokenizer.text(torch.cat([prompt, following]).numpy())
        # Of the whole stretch, the words that end in its second part.
        ended = tokenizer.text(following.numpy()).count(" ")
        assert [f"{w:b}" for w in found.tolist()] == whole.split(" ")[:-1][-ended:]
    # And they are the words of the integers that are said to stand there.
    there = prompts.true_words([len(row) for row in after])
    assert all(np.array_equal(a, b) for a, b in zip(after, there, strict=True))
    [wider] = prompts.followed_by(0).true_words([3] * 8, margin=2)[:1]
    assert np.array_equal(wider, words(int(prompts.integers[0]) - 2, int(prompts.integers[0]) + 5))


def test_a_prompt_right_before_an_integer(tokenizer: Tokenizer) -> None:
    for n in range(10**9, 10**9 + 40):
        prompt = before(tokenizer, n, length=50)
        first = int(prompt.integers[0])
        begun = prompt.begun()[0]
        text = tokenizer.text(prompt.ids[0].numpy())
        spelled = " ".join(f"{word:b}" for word in words(n - 300, n + 1).tolist())
        # The text goes on from the prompt with the rest of the word of `first`.
        assert first <= n and n - first <= 8
        assert f"{words(first, first + 1)[0]:b}".startswith(begun)
        assert text.strip() in spelled
        assert text.endswith(f"{words(first - 1, first)[0]:b} {begun}")


def test_a_prompt_that_does_not_fit_raises(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="does not fit before 100"):
        before(tokenizer, 100, length=50)


def test_more_prompts_than_a_batch() -> None:
    tokenizer = WordTokens.commonest(64)
    prompts = drawn(tokenizer, number=BATCH + 3)
    torch.manual_seed(0)
    model = HMM(HMMConfig(states=8, conditioned="sequence"), vocabulary=64).double()
    made = continue_prompts(model, prompts, 12, beta=1.0, seed=7)
    few = replace(
        prompts,
        ids=prompts.ids[:5],
        following=prompts.following[:5],
        integers=prompts.integers[:5],
    )
    assert torch.equal(made.tokens[:5], continue_prompts(model, few, 12, beta=1.0, seed=7).tokens)
    [(first, rest)] = list(prompts.batches())[1:]
    assert first == BATCH and torch.equal(with_following(rest), with_following(prompts)[BATCH:])
    nats, ended = nats_and_words(model, prompts)
    assert nats[:5] == pytest.approx(nats_and_words(model, few)[0])
    assert np.array_equal(ended, [len(row) for row in prompts.words_after(prompts.following)])


def test_the_oracle_gets_the_integers() -> None:
    """Also inside a word: an oracle that knows all primes makes no mistake."""
    tokenizer = WordTokens.commonest(16)  # many words are spelled
    prompts = draw(tokenizer, (10**7, 10**7 + 5000), number=30, length=24, following=20)
    assert any(prompts.begun())
    oracle = Oracle.estimate(3191, 10**7, tokens=tokenizer, count=1 << 14)
    made = continue_prompts(oracle, prompts, 20)
    assert accuracies(made.predicted, made.true).mean() > 0.97


def test_perfect_predictions_have_accuracy_1_and_no_loss(tokenizer: Tokenizer) -> None:
    prompts = drawn(tokenizer)
    made = continue_prompts(Recited(prompts.following, tokenizer.size), prompts, 60)
    assert torch.equal(made.tokens, prompts.following)
    assert (accuracies(made.predicted, made.true) == 1).all()
    nats, _ = nats_and_words(Recited(prompts.following, tokenizer.size), prompts)
    assert (nats == 0).all()


def test_shifted_predictions_score_like_noise(tokenizer: Tokenizer) -> None:
    prompts = drawn(tokenizer, number=40)
    shifted = torch.roll(prompts.following, 1, 1)
    made = continue_prompts(Recited(shifted, tokenizer.size), prompts, 60)
    assert accuracies(made.predicted, made.true).mean() < 0.35


def test_nats_and_words_of_the_following_tokens(tokenizer: Tokenizer) -> None:
    prompts = drawn(tokenizer)
    model = Recited(prompts.following, tokenizer.size, sure=0.25)
    nats, words = nats_and_words(model, prompts)
    assert nats.shape == prompts.following.shape
    assert nats == pytest.approx(math.log(4))
    for ended, following in zip(words, prompts.following, strict=True):
        assert ended == tokenizer.text(following.numpy()).count(" ")


def test_prompts_in_which_no_word_ends_raise() -> None:
    letters = WordTokens.commonest(3 + 1)
    with pytest.raises(InputError, match="no word ends"):
        draw(letters, WINDOW, number=40, length=9, following=1)
    with pytest.raises(InputError, match="inside one word"):
        draw(letters, WINDOW, number=40, length=3, following=40)


def test_other_windows_have_other_prompts(tokenizer: Tokenizer) -> None:
    """Otherwise prompts at different scales would have equal offsets and residues."""
    offsets = [
        draw(tokenizer, (lo, lo + 10**5), number=20, length=40, following=30).integers - lo
        for lo in (10**9, 10**10)
    ]
    assert np.mean(offsets[0] == offsets[1]) < 0.2


@pytest.mark.parametrize("kind", ["gpt", "hmm"])
def test_nats_equal_the_log_probabilities_of_the_model(kind: str) -> None:
    tokenizer = WordTokens.commonest(64)
    torch.manual_seed(0)
    model: GPT | HMM
    if kind == "gpt":
        config = GPTConfig(layers=1, heads=1, context=128)
        model = GPT(config, vocabulary=64, causal=True).double()
    else:
        model = HMM(HMMConfig(states=8, conditioned="sequence"), vocabulary=64).double()
    prompts = draw(tokenizer, WINDOW, number=3, length=30, following=20)
    with torch.no_grad():
        logs = model(with_following(prompts)[:, :-1]).log_softmax(-1)
    each = -logs.gather(2, with_following(prompts)[:, 1:, None])[:, -20:, 0]
    assert nats_and_words(model, prompts)[0] == pytest.approx(each.numpy(), rel=tolerance(64))


def test_as_many_words_as_requested() -> None:
    """A token may hold several words, and the first may begin in the prompt."""
    tokenizer = BPE.train(256)
    for count in range(1, 9):
        prompt = before(tokenizer, 10**9 + count, length=300)
        said = next_words(Locator(tokenizer), prompt, count, beta=math.inf, seed=0)
        assert np.array_equal(said, prompt.true_words([count])[0])


def test_generation_stops_if_words_never_end() -> None:
    tokenizer = WordTokens.commonest(64)
    prompt = before(tokenizer, 10**9, length=30)
    ones = Recited(torch.full((1, 300), 2), 64)
    assert len(next_words(ones, prompt, 3, beta=math.inf, seed=0)) == 0
    assert ones.place == 3 * MOST_TOKENS_PER_WORD


def test_prompts_from_blocks_do_not_overlap(tokenizer: Tokenizer) -> None:
    blocks = [(10**9 * k, 10**9 * k + 10**5) for k in (3, 1, 2)]
    prompts = draw_from_blocks(tokenizer, blocks, number=20, length=40, following=60, seed=5)
    assert len(prompts) == 20 and prompts.blocks == 3
    last = prompts.integers + tokenizer.words_ended[prompts.following.numpy()].sum(1)
    first = prompts.integers - tokenizer.words_ended[prompts.ids.numpy()].sum(1)
    for k in range(20):
        lo, hi = blocks[k % 3]
        assert lo <= first[k] < last[k] <= hi
    spans = sorted(zip(first.tolist(), last.tolist(), strict=True))
    assert all(one[1] < other[0] for one, other in itertools.pairwise(spans))
    # Their words are those of the text.
    counts = tokenizer.words_ended[prompts.following.numpy()].sum(1).tolist()
    found, true = prompts.words_after(prompts.following), prompts.true_words(counts)
    assert all(one.tolist() == other.tolist() for one, other in zip(found, true, strict=True))
    fewer = draw_from_blocks(tokenizer, blocks, number=2, length=40, following=60, seed=6)
    assert not fewer.ids[0].equal(prompts.ids[0])


def test_prompts_that_do_not_fit_into_their_blocks_are_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="a window needs"):
        draw_from_blocks(tokenizer, [WINDOW], number=1000, length=40, following=60)
