"""Made-up sequences, and how well likelihoods separate them from the text."""

import json
import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm
from torch import Tensor

from arithmetext.errors import InputError
from arithmetext.evaluation import likelihood
from arithmetext.evaluation.codec import to_json
from arithmetext.evaluation.estimates import Estimate, share
from arithmetext.evaluation.likelihood import (
    CONTROLS,
    ControlComparison,
    Sequences,
    compare_with_controls,
    shuffled_in_blocks,
    token_frequencies,
)
from arithmetext.evaluation.scoring import score
from arithmetext.evaluation.separation import (
    auc,
    distributions,
    mean,
    overlap,
    paired,
    standardised_difference,
    summarise_control,
)
from arithmetext.models.gpt import GPT, GPTConfig
from arithmetext.models.hmm import HMM, HMMConfig
from arithmetext.models.language import Prompts
from arithmetext.text.sieve import words
from arithmetext.text.splits import splits
from arithmetext.text.windows import TEST, TRAIN
from arithmetext.tokens import BPE, Tokenizer, WordTokens
from arithmetext.tokens.windows import ENCODER_WARMUP, TokenWindows, cut
from conftest import tolerance
from stand_in import StandIn

TEXT = splits(10**8)


@pytest.fixture(scope="module", params=["bpe", "words"])
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    return BPE.train(128, lines=256) if request.param == "bpe" else WordTokens.commonest(64)


class Table(StandIn):
    """A model that predicts a token from the token before it alone."""

    def __init__(self, logs: Tensor) -> None:
        self.logs = logs

    def read(self, prompts: Prompts, *, stride: int = 1) -> "Table":
        reading = Table(self.logs)
        reading.append(prompts.ids[:, -1])
        return reading

    def append(self, tokens: Tensor) -> None:
        self.last = tokens

    def log_probabilities(self) -> Tensor:
        return self.logs[self.last]


def uniform(tokenizer: Tokenizer) -> Table:
    size = tokenizer.size
    return Table(torch.full((size, size), -math.log(size), dtype=torch.float64))


def bigrams(tokenizer: Tokenizer) -> Table:
    """A bigram model, counted in a million training words."""
    lo, _ = TEXT.train[-1]
    ids = tokenizer.encode(words(lo, lo + 10**6, threads=1), threads=1).astype(np.int64)
    pairs = np.bincount(ids[:-1] * tokenizer.size + ids[1:], minlength=tokenizer.size**2)
    counts = torch.from_numpy(pairs.reshape(tokenizer.size, -1)) + 0.1
    return Table((counts / counts.sum(1, keepdim=True)).log())


def sequences(tokenizer: Tokenizer, length: int = 40, seed: int = 0) -> Sequences:
    return Sequences(tokenizer, [TEXT.test], length=length, seed=seed)


# Figures

values = st.lists(st.sampled_from([-math.inf, -2.5, -1.0, -0.5, 0.0]), min_size=1, max_size=12)


@given(values, values)
def test_the_auc_equals_the_share_of_all_pairs(true: list[float], other: list[float]) -> None:
    pairs = [(x > y) + (x == y) / 2 for x in true for y in other]
    value, low, high = auc(np.array(true), np.array(other))
    assert value == pytest.approx(np.mean(pairs))
    assert 0 <= low <= value <= high <= 1
    assert high > low
    turned = auc(np.array(other), np.array(true))
    np.testing.assert_allclose(turned, (1 - value, 1 - high, 1 - low), atol=1e-12)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (10, 10), (7, 40), (1000, 1000)])
@pytest.mark.parametrize("above", [0.5, 0.8, 1.0])
def test_the_auc_interval_solves_its_formula(m: int, n: int, above: float) -> None:
    """m values, a share of which lies above all n others."""
    true = np.where(np.arange(m) < round(above * m), 1.0, -1.0)
    area, low, high = auc(true, np.zeros(n))
    assert area == pytest.approx(round(above * m) / m)
    z = norm.ppf(0.975)

    def deviation(t: float) -> float:
        spread = (1 - t) / (2 - t) + t / (1 + t)
        return z * math.sqrt(t * (1 - t) * (1 + ((m + n) / 2 - 1) * spread) / m / n)

    if area > 0:
        assert low == pytest.approx(brentq(lambda t: area - t - deviation(t), 0, area - 1e-9))
    if area == 1:
        assert high == 1
        assert low < 1
    else:
        assert high == pytest.approx(brentq(lambda t: t - area - deviation(t), area + 1e-9, 1))


def test_the_auc_interval_covers_the_truth_95_times_in_100() -> None:
    random = np.random.default_rng(0)
    for shift in (0.0, 1.0, 2.0):
        truth = norm.cdf(shift / math.sqrt(2))
        held = 0
        for _ in range(300):
            _, low, high = auc(random.normal(shift, size=25), random.normal(size=35))
            held += low <= truth <= high
        assert 0.91 <= held / 300 <= 0.995


def test_pairs_and_means() -> None:
    nothing = Estimate(None, None, None)
    true, other = np.array([1.0, 2.0, 3.0, -math.inf]), np.array([0.0, 2.0, 4.0, -math.inf])
    assert paired(true, other).value == 0.5
    assert paired(true[:1], other[:1]) == share([1])
    assert mean(true) == nothing
    value, low, high = mean(true[:3])
    assert (value, 1 <= low < high <= 3) == (2, True)
    none = np.zeros(0)
    assert auc(none, none) == auc(none, true) == paired(none, none) == mean(none) == nothing


TRUE = np.arange(-40, -30) / 10


@pytest.mark.parametrize(("gap", "expected"), [(0.0, 1.0), (0.35, 0.6), (0.55, 0.4), (2.0, 0.0)])
def test_overlap(gap: float, expected: float) -> None:
    assert overlap(TRUE, TRUE - gap) == pytest.approx(expected)


def test_distance_is_in_standard_deviations() -> None:
    distance = standardised_difference(TRUE, TRUE - 2)
    assert distance == pytest.approx(2 / np.std(TRUE, ddof=1))


def test_one_random_sequence_as_likely_as_a_true_one_is_an_overlap() -> None:
    other = TRUE - 2
    assert distributions(ControlComparison(64, "unigram", TRUE, other)).disjoint
    other[5] = TRUE.min()
    assert not distributions(ControlComparison(64, "unigram", TRUE, other)).disjoint


# Sequences


def test_true_sequences_are_windows_of_the_text(tokenizer: Tokenizer) -> None:
    for length in (2, 33):
        windows = TokenWindows(tokenizer, [TEXT.test], length + 1 + ENCODER_WARMUP)
        for k in range(3):
            here = sequences(tokenizer, length, seed=5)
            expected = windows.draw(here.random(k))[:length]
            assert np.array_equal(here.true(k), expected)


def test_a_sequence_is_decided_by_seed_control_length_and_place(tokenizer: Tokenizer) -> None:
    frequencies = token_frequencies(tokenizer, TEXT.train, 0)

    def made(control: str, k: int, length: int = 40, seed: int = 0) -> bytes:
        ids = sequences(tokenizer, length, seed).made_up(control, k, frequencies)
        assert (ids.dtype, ids.shape) == (np.int64, (length,))
        return ids[:30].tobytes()

    seen = set()
    for control in CONTROLS:
        one = made(control, 3)
        assert one == made(control, 3)
        seen |= {one, made(control, 4), made(control, 3, length=41), made(control, 3, seed=1)}
    assert len(seen) == 4 * len(CONTROLS)
    chances = {sequences(tokenizer).random(0, use).random() for use in range(1 + len(CONTROLS))}
    assert len(chances) == 1 + len(CONTROLS)
    # Other windows and other lengths have other random numbers.
    lo = 99 * 10**6
    for first in (lo, lo + 1):
        chances.add(
            Sequences(tokenizer, [(first, lo + 10**5)], length=40, seed=0).random(0).random()
        )
    chances.add(sequences(tokenizer, 39).random(0).random())
    assert len(chances) == 4 + len(CONTROLS)


@pytest.fixture
def stretches(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> Sequences:
    """Sequences that return their words instead of encoding them."""
    monkeypatch.setattr(likelihood, "cut", lambda tokenizer, words, length: words)
    return sequences(tokenizer)


def test_controls_alter_the_words_as_described(stretches: Sequences) -> None:
    for k in range(5):
        start = stretches.start(k)
        true = words(start, start + stretches.windows.length).tolist()
        assert stretches.true(k).tolist() == true

        def made(control: str, k: int = k) -> list[int]:
            return stretches.made_up(control, k).tolist()

        shuffled = made("shuffled")
        assert Counter(shuffled) == Counter(true)
        # Words come from everywhere.
        assert Counter(shuffled[:64]) != Counter(true[:64])
        eights = made("shuffled in eights")
        assert eights != true
        for first in range(0, len(true), 8):
            block = slice(first, first + 8)
            assert Counter(eights[block]) == Counter(true[block])


def test_the_same_words_are_read_backwards(tokenizer: Tokenizer) -> None:
    """All words of the sequence, except some at its ends where tokens span words."""
    for length in (24, 70):
        at = sequences(tokenizer, length)
        for k in range(15):
            there, back = at.true(k), at.made_up("backwards", k)
            assert (back.dtype, back.shape) == (there.dtype, there.shape)
            true = tokenizer.decode(there, inside=True).words.tolist()
            turned = tokenizer.decode(back, inside=True).words.tolist()[::-1]
            # The longest stretch of words that both have, by brute force.
            shared = max(
                size
                for size in range(min(len(true), len(turned)) + 1)
                for i in range(len(true) - size + 1)
                for j in range(len(turned) - size + 1)
                if true[i : i + size] == turned[j : j + size]
            )
            least = len(true) - 2 if isinstance(tokenizer, WordTokens) else 0.7 * len(true)
            assert shared >= least


def test_the_word_in_the_middle_is_deleted(stretches: Sequences) -> None:
    tokenizer = stretches.tokenizer
    for k in range(20):
        start = stretches.start(k)
        true = words(start, start + stretches.windows.length)
        ids = tokenizer.encode(true)
        middle = ENCODER_WARMUP + stretches.length // 2
        gone = tokenizer.text(ids[:middle]).count(" ")
        left = stretches.made_up("deleted", k)
        assert left.tolist() == true[:gone].tolist() + true[gone + 1 :].tolist()
        # The sequence itself shows it, and shows it in its middle.
        one, other = cut(tokenizer, true, 40), cut(tokenizer, left, 40)
        same = one == other
        assert same[:8].all()
        if true[gone] != true[gone + 1]:
            assert not same.all()


def test_blocks_of_eight_by_hand() -> None:
    random = np.random.default_rng(0)
    orders = [shuffled_in_blocks(np.arange(19, dtype=np.uint64), random) for _ in range(4000)]
    counts = np.zeros((19, 19), int)
    for order in orders:
        counts[np.arange(19), order.astype(int)] += 1
    blocks = np.arange(19) // 8
    inside = blocks[:, None] == blocks
    assert (counts[~inside] == 0).all()
    for size, whose in ((8, blocks < 2), (3, blocks == 2)):
        counted = counts[whose][:, whose][inside[whose][:, whose]]
        assert (np.abs(counted - 4000 / size) < 5 * math.sqrt(4000 / size)).all()


def test_frequencies_are_those_of_training(tokenizer: Tokenizer) -> None:
    shares = token_frequencies(tokenizer, TEXT.train, 0)
    assert shares.sum() == pytest.approx(1)
    lo, _ = TEXT.train[5]
    ids = tokenizer.encode(words(lo, lo + 10**6))
    expected = np.bincount(ids, minlength=tokenizer.size) / len(ids)
    assert np.abs(shares - expected).max() < 0.003
    with pytest.raises(InputError, match="the longest range has 50"):
        token_frequencies(tokenizer, [(2, 52)], 0)


def test_unigram_tokens_are_independent(tokenizer: Tokenizer) -> None:
    shares = token_frequencies(tokenizer, TEXT.train, 0)
    at = sequences(tokenizer, 100)
    ids = np.stack([at.made_up("unigram", k, shares) for k in range(300)])
    counts = np.bincount(ids.ravel(), minlength=tokenizer.size)
    assert (np.abs(counts - 30_000 * shares) <= 5 * np.sqrt(30_000 * shares)).all()
    # Neighbours, in a sequence and from one to the next, know nothing of each other.
    common = np.argsort(-shares)[:4]
    for a, b in ((ids[:, :-1], ids[:, 1:]), (ids[:-1], ids[1:])):
        for x in common:
            for y in common:
                expected = a.size * shares[x] * shares[y]
                assert abs(((a == x) & (b == y)).sum() - expected) < 6 * math.sqrt(expected)


# Models


def test_a_uniform_model_cannot_separate(tokenizer: Tokenizer) -> None:
    found = compare_with_controls(
        uniform(tokenizer), tokenizer, [TEXT.test], TEXT.train, number=20, lengths=[2, 9], seed=1
    )
    assert [(f.length, f.control) for f in found] == [(n, c) for n in (2, 9) for c in CONTROLS]
    for each in found:
        summary = summarise_control(each)
        assert summary.auc.value == summary.paired.value == 0.5
        for level in (summary.true, summary.other):
            assert level.value == pytest.approx(-math.log(tokenizer.size))
        json.dumps(to_json(summary))


def test_a_bigram_model_separates_longer_sequences_better(tokenizer: Tokenizer) -> None:
    found = compare_with_controls(
        bigrams(tokenizer), tokenizer, [TEXT.test], TEXT.train, number=150, lengths=[4, 64], seed=0
    )
    summaries = {(f.length, f.control): summarise_control(f) for f in found}
    for control in CONTROLS[:3]:
        short, long = (summaries[length, control] for length in (4, 64))
        assert long.auc.low > 0.55
        assert long.auc.value > short.auc.value
        assert long.true.low > long.other.high
        assert long.paired.low > 0.6


class Recited(StandIn):
    """A model that has memorized texts: it knows what follows any four tokens of them."""

    def __init__(self, texts: list[list[int]], size: int) -> None:
        self.size = size
        self.after = {
            tuple(text[i - 4 : i]): text[i] for text in texts for i in range(4, len(text))
        }

    def read(self, prompts: Prompts, *, stride: int = 1) -> "Recited":
        reading = Recited([], self.size)
        reading.after, reading.rows = self.after, prompts.ids.tolist()
        return reading

    def append(self, tokens: Tensor) -> None:
        for row, token in zip(self.rows, tokens.tolist(), strict=True):
            row.append(token)

    def log_probabilities(self) -> Tensor:
        chances = torch.full((len(self.rows), self.size), 0.1 / self.size, dtype=torch.float64)
        for chance, row in zip(chances, self.rows, strict=True):
            known = self.after.get(tuple(row[-4:]))
            if known is not None:
                chance[known] += 0.9
        return chances.log()  # `scoring` makes their sum 1


def test_a_perfect_model_separates_every_control(tokenizer: Tokenizer) -> None:
    at = sequences(tokenizer)
    texts = [tokenizer.encode(at.words(k)).tolist() for k in range(12)]
    model = Recited(texts, tokenizer.size)
    found = compare_with_controls(
        model, tokenizer, [TEXT.test], TEXT.train, number=12, lengths=[at.length], seed=0
    )
    for each in found:
        summary = summarise_control(each)
        assert summary.paired.value > 0.9
        assert summary.auc.value > (0.55 if each.control == "deleted" else 0.7)
        assert summary.true.value > summary.other.value


def test_impossible_sequences_have_no_mean() -> None:
    tokenizer = WordTokens.commonest(64)
    logs = bigrams(tokenizer).logs.clone()
    logs[:, :3] = -math.inf  # it knows of no words but the commonest
    found = compare_with_controls(
        Table(logs), tokenizer, [TEXT.test], TEXT.train, number=30, lengths=[60], seed=0
    )
    for each in found:
        summary = summarise_control(each)
        assert summary.true == summary.other == (None, None, None)
        assert 0 < summary.auc.low < summary.auc.high < 1


@pytest.mark.parametrize("name", ["hmm", "gpt"])
def test_likelihoods_do_not_depend_on_the_number_of_sequences(name: str) -> None:
    tokenizer = WordTokens.commonest(64)
    torch.manual_seed(0)
    model = (
        HMM(HMMConfig(states=8, conditioned="sequence"), vocabulary=64)
        if name == "hmm"
        else GPT(GPTConfig(layers=1, heads=1, context=128), vocabulary=64, causal=True)
    ).double()
    close = {"rtol": tolerance(64)}  # a logarithm of a sum over 64 tokens

    def scored(number: int) -> list[ControlComparison]:
        return compare_with_controls(
            model, tokenizer, [TEXT.test], TEXT.train, number=number, lengths=[5, 128], seed=2
        )

    for few, many in zip(scored(3), scored(130), strict=True):  # more than are scored together
        np.testing.assert_allclose(few.true, many.true[:3], **close)
        np.testing.assert_allclose(few.other, many.other[:3], **close)
        assert many.true.shape == many.other.shape == (130,)
    ids = sequences(tokenizer, 9).true(0)[None]
    logs = score(model, torch.from_numpy(ids)).logs
    with torch.no_grad():
        expected = model(torch.from_numpy(ids))[0, :-1].log_softmax(-1)
    np.testing.assert_allclose(logs[0], expected[range(8), ids[0, 1:]], **close)


def test_bad_sizes_raise() -> None:
    tokenizer = WordTokens.commonest(64)
    for number, lengths in ((0, [4]), (3, [4, 1])):
        with pytest.raises(InputError, match=r"^give a number of 1 or more"):
            compare_with_controls(
                uniform(tokenizer),
                tokenizer,
                TEXT.test,
                TEXT.train,
                number=number,
                lengths=lengths,
                seed=0,
            )
    assert TEST != TRAIN
