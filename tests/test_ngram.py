"""N-grams: their probabilities against counting by hand, and as a language model."""

from collections import Counter

import numpy as np
import pytest
import torch

from arithmetext.errors import InputError
from arithmetext.models import ngram
from arithmetext.models.language import Prompts
from arithmetext.models.ngram import NGram
from arithmetext.text.sieve import words
from arithmetext.text.splits import splits
from arithmetext.text.windows import random_windows
from arithmetext.tokens import WordTokens

FEW = WordTokens([0b10, 0b1010, 0b101010, 0b1100, 0b110010, 0b11001010, 0b10101010])
COUNTED = [(10**6, 10**6 + 4000), (2 * 10**6, 2 * 10**6 + 3000)]
HELD_OUT = [(3 * 10**6, 3 * 10**6 + 2000)]


def small(order):
    return NGram(order, COUNTED, HELD_OUT, tokens=FEW)


def classes(text):
    """0 for words without a token, the others by rank, by way of the tokenizer's own words."""
    known = FEW.words.tolist()
    return [known.index(word) + 1 if word in known else 0 for word in text.tolist()]


@pytest.fixture(scope="module")
def tokens():
    return WordTokens.commonest(256)


@pytest.fixture(scope="module")
def trained(tokens):
    return {k: NGram.count(k, tokens=tokens, words=1 << 21) for k in (1, 2, 3, 4, 6)}


@pytest.fixture(scope="module")
def validation():
    places = random_windows(splits(10**11).validation, 4, 1 << 13, seed=1)
    return [words(lo, hi) for lo, hi in places]


@pytest.mark.parametrize("order", range(1, 9))
def test_probabilities_sum_to_one_after_any_context(order):
    model = small(order)
    random = np.random.default_rng(order)
    text = words(5 * 10**6, 5 * 10**6 + 200)
    seen = ngram._contexts(model.ranks[text])
    never = random.integers(1 << 56, size=200).astype(np.uint64) << np.uint64(8)
    p = model.class_probabilities(np.concatenate([seen, never]))
    assert p.shape == (400, 8)
    assert p.min() > 0
    assert p.sum(1) == pytest.approx(np.ones(400))
    assert model.other_probabilities.min() > 0
    assert model.other_probabilities.sum() == pytest.approx(1)


def test_order_one_gives_frequencies():
    model = small(1)
    counts = Counter(c for lo, hi in COUNTED for c in classes(words(lo, hi)))
    expected = [counts[c] / 7000 for c in range(8)]
    p = model.class_probabilities(np.array([ngram._EMPTY]))[0]
    assert p == pytest.approx(expected, abs=1 / 7000)  # one word is left to chance
    assert min(counts.values()) > 20


@pytest.mark.parametrize("order", [2, 3])
def test_higher_orders_against_a_count_by_hand(order):
    model = small(order)
    grams = {k: Counter() for k in range(1, order + 1)}
    for lo, hi in COUNTED:
        text = classes(words(lo, hi))
        for i in range(order - 1, len(text)):
            for k in grams:
                grams[k][tuple(text[i - k + 1 : i + 1])] += 1

    def probability(context, word):
        if not context:
            return (grams[1][(word,)] + 1 / 8) / (sum(grams[1].values()) + 1)
        lower = probability(context[1:], word)
        k = len(context) + 1
        after = [grams[k][(*context, w)] for w in range(8)]
        if not sum(after):
            return lower
        d, s = model._discounts[k], model._strengths[k]
        c = after[word]
        kinds = sum(1 for other in after if other)
        return (c - d * (c > 0) + (s + d * kinds) * lower) / (sum(after) + s)

    text = classes(words(5 * 10**6, 5 * 10**6 + 300))
    found = model.class_probabilities(ngram._contexts(np.array(text)))
    for i in range(order, 300):
        context = tuple(text[i - order + 1 : i])
        expected = [probability(context, word) for word in range(8)]
        assert found[i] == pytest.approx(expected, rel=1e-9)


def test_words_without_a_token_keep_their_frequencies():
    model = small(1)
    text = np.concatenate([words(lo, hi) for lo, hi in COUNTED])
    counts = Counter(text[[c == 0 for c in classes(text)]].tolist())
    p = dict(zip(model.other_words.tolist(), model.other_probabilities, strict=True))
    assert not set(p) & set(FEW.words.tolist())
    (common, first), (less, second) = counts.most_common(2)
    assert p[common] / p[less] == pytest.approx(first / second, rel=0.02)
    once = sum(1 for count in counts.values() if count == 1)
    unseen = sum(q for word, q in p.items() if word not in counts)
    assert 0 < unseen < once / sum(counts.values())


def test_score_is_what_the_words_cost(trained, validation):
    model, text = trained[3], validation[0][:500]
    score = model.score(text)
    ranks = model.ranks[text]
    p = model.class_probabilities(ngram._contexts(ranks))
    others = dict(zip(model.other_words.tolist(), model.other_probabilities, strict=True))
    nats, right = 0.0, 0
    for row, rank, word in zip(p, ranks, text.tolist(), strict=True):
        nats -= np.log(row[rank] * (1 if rank else others[word]))
        right += 1 + row[1:].argmax() == rank
    assert score.nats == pytest.approx(nats / 500)
    assert score.accuracy == right / 500


def test_higher_orders_are_better_on_text_not_counted(trained, validation):
    nats = {k: np.mean([m.score(text).nats for text in validation]) for k, m in trained.items()}
    right = {
        k: np.mean([m.score(text).accuracy for text in validation]) for k, m in trained.items()
    }
    assert nats[1] == pytest.approx(2.788, abs=0.03)  # 4.02 bits: the entropy of single words
    assert nats[2] < nats[1] - 0.04
    assert nats[3] < nats[2] - 0.15
    assert nats[4] < nats[3] - 0.05
    assert nats[6] < nats[4] + 0.005
    assert right[4] > right[1] + 0.03


def test_only_training_text_is_counted(tokens, monkeypatch):
    sieve = ngram.words_in_buffer
    asked = []
    monkeypatch.setattr(ngram, "words_in_buffer", lambda a, b: asked.append((a, b)) or sieve(a, b))
    n = 10**9
    NGram.count(2, tokens=tokens, words=10**6, n=n, seed=3)
    assert len(asked) == 31 + 4
    assert len(set(asked)) == len(asked)
    for lo, hi in asked:
        assert any(a <= lo < hi <= b for a, b in splits(n).train)


def test_tokens_have_the_probabilities_of_the_words_they_spell():
    model = small(4)
    texts = [words(n, n + 60) for n in (7 * 10**6, 8 * 10**6, 10**13)]
    ids = [FEW.encode(text).astype(np.int64) for text in texts]
    begin, end = 20, min(map(len, ids))
    reading = model.read(Prompts(torch.from_numpy(np.stack([row[:begin] for row in ids]))))
    gathered = np.zeros((3, end))
    for t in range(begin, end):
        logs = reading.log_probabilities()
        assert logs.shape == (3, FEW.size)
        assert logs.exp().sum(1).tolist() == pytest.approx([1, 1, 1])
        token = torch.tensor([row[t] for row in ids])
        gathered[:, t] = logs[torch.arange(3), token]
        reading.append(token)
    others = dict(zip(model.other_words.tolist(), model.other_probabilities, strict=True))
    spelled = 0
    for text, logs in zip(texts, gathered, strict=True):
        ranks = model.ranks[text]
        p = model.class_probabilities(ngram._contexts(ranks))
        place = 0
        for row, rank, word in zip(p, ranks, text.tolist(), strict=True):
            length = len(FEW.encode(np.array([word], np.uint64)))
            if begin <= place and place + length <= end:
                expected = np.log(row[rank] * (1 if rank else others[word]))
                assert logs[place : place + length].sum() == pytest.approx(expected)
                spelled += length > 1
            place += length
    assert spelled > 5


def test_a_prompt_may_end_inside_a_word():
    model = small(3)
    ids = FEW.encode(words(8 * 10**6, 8 * 10**6 + 60)).astype(np.int64)
    inside = next(i for i in range(10, len(ids)) if ids[i - 1] in (1, 2) and ids[i - 2] in (1, 2))
    whole, cut = (
        model.read(Prompts(torch.from_numpy(ids[None, :5]))),
        model.read(Prompts(torch.from_numpy(ids[None, :inside]))),
    )
    for token in ids[5:inside].tolist():
        whole.append(torch.tensor([token]))
    assert torch.equal(whole.log_probabilities(), cut.log_probabilities())
    assert cut.log_probabilities().exp()[0, :3].sum().item() == pytest.approx(1)


def test_what_it_draws_are_words(trained, tokens):
    model = trained[4]
    prompts = np.stack([tokens.encode(words(n, n + 40))[:30] for n in range(10**9, 10**9 + 64)])
    reading = model.read(Prompts(torch.from_numpy(prompts.astype(np.int64))))
    random = torch.Generator().manual_seed(0)
    drawn = []
    for _ in range(100):
        token = torch.multinomial(reading.log_probabilities().exp(), 1, generator=random)[:, 0]
        reading.append(token)
        drawn.append(token)
    ids = np.concatenate([prompts, torch.stack(drawn, 1).numpy()], 1)
    decoded = [tokens.decode(row) for row in ids]
    assert not any(len(text.malformed) for text in decoded)
    kinds = Counter(word for text in decoded for word in text.words[40:].tolist())
    assert kinds[0b101010] / kinds.total() == pytest.approx(0.195, abs=0.03)


def test_what_cannot_be_done_is_refused(tokens):
    for order in (0, 9):
        with pytest.raises(InputError, match="order 1 to 8"):
            small(order)
    with pytest.raises(InputError, match="at most 254 words"):
        NGram.count(2, tokens=WordTokens.commonest(300), words=1000)
    with pytest.raises(InputError, match="must be 1 or more"):
        NGram.count(2, tokens=tokens, words=0)
    with pytest.raises(InputError, match="a window needs 32768 integers"):
        NGram.count(2, tokens=tokens, words=1000, n=10**4)
