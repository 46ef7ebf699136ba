"""The loss of a model on the real text beside its loss on surrogates."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from arithmetext.errors import InputError
from arithmetext.evaluation.codec import to_json
from arithmetext.evaluation.scoring import score
from arithmetext.evaluation.subjects import EvaluatedModel, subject
from arithmetext.evaluation.surrogate import (
    KINDS,
    TextScore,
    TextSettings,
    compare,
    entropy,
    kinds,
    text_sums,
)
from arithmetext.models.gpt import GPT, GPTConfig
from arithmetext.models.language import LanguageModel, Prompts
from arithmetext.text.sieve import words
from arithmetext.text.splits import blocks_near
from arithmetext.text.surrogate import Surrogate
from arithmetext.text.windows import TEST, generator
from arithmetext.tokens import BPE, WordTokens
from arithmetext.tokens.windows import ENCODER_WARMUP, TokenWindows
from stand_in import StandIn

AT = 10**9
CONTEXT = 96
WORDS = WordTokens.commonest(24)  # so few that many words are spelled out


class Constant(StandIn):
    """A model that gives the same probabilities everywhere."""

    def __init__(self, probabilities: list[float]) -> None:
        self.logs = torch.tensor(probabilities, dtype=torch.float64).log()

    def read(self, prompts: Prompts, *, stride: int = 1) -> "Constant":
        self.prompts = len(prompts)
        return self

    def append(self, tokens: Tensor) -> None:
        pass

    def log_probabilities(self) -> Tensor:
        return self.logs.repeat(self.prompts, 1)


def evaluated(model: LanguageModel, tokenizer: WordTokens | BPE = WORDS) -> EvaluatedModel:
    return EvaluatedModel("made up", model, tokenizer, CONTEXT, (), ())


def value(estimate: tuple[float | None, ...]) -> float:
    assert estimate[0] is not None
    return estimate[0]


def test_a_constant_model() -> None:
    """Its loss of a word is the sum over its letters, and the commonest word is always right."""
    probabilities = [0.1, 0.1, 0.1, 0.3, *[0.4 / 20] * 20]
    for found in compare(evaluated(Constant(probabilities)), AT, surrogates=[5], number=40):
        text = Surrogate(found.surrogate).words(AT, AT + 10**6)
        rank = {word: 3 + i for i, word in enumerate(WORDS.words.tolist())}
        by_word, counts = np.unique(text, return_counts=True)
        nats = [
            -math.log(probabilities[rank[word]])
            if word in rank
            else (word.bit_length() + 1) * -math.log(0.1)
            for word in by_word.tolist()
        ]
        assert value(found.nats) == pytest.approx(np.average(nats, weights=counts), rel=0.05)
        commonest = counts[by_word == WORDS.words[0]] / counts.sum()
        assert value(found.accuracy) == pytest.approx(float(commonest[0]), abs=0.03)


def test_words_that_end_in_the_second_half() -> None:
    """Counted word by word, for a model whose predictions depend on all words before."""
    torch.manual_seed(0)
    model = GPT(GPTConfig(layers=1, heads=1, context=CONTEXT), vocabulary=24, causal=True).double()
    ours = evaluated(model.eval())
    found = compare(ours, AT, surrogates=[], number=6)[0]
    ids = ours.windows(AT, number=6, seed=0)
    scores = score(model, ids)
    nats, right = [], []
    for row, logs, hits in zip(ids.numpy(), scores.logs, scores.right, strict=True):
        begin = 1  # of a word; nothing is predicted before the second token
        for token, ended in enumerate(WORDS.words_ended[row].tolist()):
            if ended and token >= CONTEXT // 2:
                nats.append(-logs[begin - 1 : token].sum())
                right.append(hits[begin - 1 : token].all())
            begin = token + 1 if ended else begin
    assert len(nats) > 100
    assert value(found.nats) == pytest.approx(np.mean(nats))
    assert value(found.accuracy) == pytest.approx(np.mean(right))
    assert found.surrogate is None and found.excess == (0, 0, 0)


def weighted(found: TextScore, what: str) -> float:
    """The mean over the kinds that occur, by their shares."""
    parts = [each for each in found.kinds.values() if each.nats.value is not None]
    return sum(value(getattr(each, what)) * value(each.share) for each in parts)


def test_kinds_make_up_the_whole() -> None:
    torch.manual_seed(1)
    model = GPT(GPTConfig(layers=1, heads=1, context=CONTEXT), vocabulary=24, causal=True).double()
    real, first, second = compare(evaluated(model.eval()), AT, surrogates=[1, 2], number=8)
    assert [each.surrogate for each in (real, first, second)] == [None, 1, 2]
    for found in (real, first, second):
        assert list(found.kinds) == list(KINDS)
        assert sum(value(each.share) for each in found.kinds.values()) == pytest.approx(1)
        assert weighted(found, "nats") == pytest.approx(value(found.nats))
        assert weighted(found, "accuracy") == pytest.approx(value(found.accuracy))
        assert "last prime" in to_json(found)["kinds"]
    assert value(real.kinds["too large"].share) == 0
    assert 0.04 < value(first.kinds["too large"].share) < 0.13
    assert first.nats != second.nats
    assert value(first.excess) == pytest.approx(value(first.nats) - value(real.nats))


def test_windows_of_every_text_begin_at_the_same_integers_of_all_blocks() -> None:
    """Each word of a constant model costs the same, so the sums show which words were scored."""
    how = TextSettings((AT, 10**12), (5,), windows=6, blocks=3)
    probabilities = [0.1, 0.1, 0.1, 0.3, *[0.4 / 20] * 20]
    ours = evaluated(Constant(probabilities))
    arrays = text_sums(ours, how)
    assert {values.shape for values in arrays.values()} == {(2, 2, 6, 3)}
    length = TokenWindows(WORDS, [(AT, AT + 10**6)], CONTEXT).length
    rank = {word: 3 + i for i, word in enumerate(WORDS.words.tolist())}
    for i, at in enumerate(how.places):
        for k in range(how.windows):
            block = blocks_near(at, (), 3)[k % 3]
            start = TokenWindows(WORDS, [block], CONTEXT).random_start(generator(0, TEST, at, k))
            for j, text in enumerate((Surrogate(None), Surrogate(5))):
                read = text.words(start, start + length)
                ids = WORDS.encode(read)[ENCODER_WARMUP : ENCODER_WARMUP + CONTEXT]
                ended = WORDS.words_ended[ids]
                before = int(WORDS.words_ended[WORDS.encode(read)[:ENCODER_WARMUP]].sum())
                first, last = before + int(ended[: CONTEXT // 2].sum()), before + int(ended.sum())
                scored = read[first:last].tolist()
                assert arrays["words"][i, j, k].sum() == len(scored)
                nats = -sum(
                    math.log(probabilities[rank[word]])
                    if word in rank
                    else (word.bit_length() + 1) * math.log(0.1)
                    for word in scored
                )
                assert arrays["nats"][i, j, k].sum() == pytest.approx(nats)


def test_the_loss_without_context() -> None:
    """All words of a long range, by a model that knows their frequencies and nothing else."""
    read = Surrogate(3).words(AT, AT + 5000).tolist()
    counts = [read.count(word) for word in read]
    nats = -sum(math.log(count / 5000) for count in counts) / 5000
    assert entropy(3, AT, AT + 5000) == pytest.approx(nats)


def test_kinds_of_the_real_text() -> None:
    """The last prime exceeds √n; without one, the number is complete."""
    lo, hi = 10**6, 10**6 + 2000
    found = kinds(lo, Surrogate(None).words_and_products(lo, hi).products)
    primes = words(lo, hi) == 2
    assert (found[primes] == 0).all()
    squares = [n - lo for n in range(lo, hi) if math.isqrt(n) ** 2 == n]
    assert found[squares].tolist() == [1] * len(squares)
    assert set(found.tolist()) == {0, 1}


def test_the_model_in_the_package_loses_on_surrogates() -> None:
    """It was trained on the real text, and most of what it knows holds for a surrogate too."""
    short = replace(subject("pretrained", 10**13), context=256)
    real, shifted = compare(short, 10**13, surrogates=[1], number=12)
    assert value(real.nats) < value(shifted.nats) < 2.4  # 2.85 nats without any context
    assert value(shifted.kinds["too large"].nats) > 2 * value(shifted.nats)


@pytest.mark.parametrize(
    ("ours", "number", "complaint"),
    [
        (evaluated(Constant([1 / 24] * 24)), 0, "number of windows must be 1 or more, not 0"),
        (evaluated(Constant([1 / 64] * 64), BPE.train(64, lines=64)), 2, "pieces of several words"),
        (subject("locator", AT), 2, "does not give the probability"),
    ],
)
def test_refusals(ours: EvaluatedModel, number: int, complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        compare(ours, AT, surrogates=[1], number=number)
