"""The model that keeps track of the phases of prime powers."""

import copy
import math
from itertools import islice

import flint
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from arithmetext.errors import InputError
from arithmetext.models.config import KNOTS, PhasesConfig
from arithmetext.models.gpt import watching
from arithmetext.models.language import Prompts
from arithmetext.models.phases import (
    PeriodSums,
    Phases,
    ended_words,
    posterior,
    posteriors,
    prime_of,
    smooth_basis,
)
from arithmetext.text.splits import splits
from arithmetext.text.windows import TRAIN
from arithmetext.tokens import WordTokens
from arithmetext.training.config import TrainingConfig, with_changes
from arithmetext.training.optimizers import make_optimizers
from arithmetext.training.recipes import recipe
from arithmetext.training.stream import ProcessBatches, Stream

D = 12
SHAPE = PhasesConfig(layers=2, width=16, bound=30, context=40)


@pytest.fixture(scope="module")
def model() -> Phases:
    """Its weights are large, so that far words count."""
    torch.manual_seed(1)
    model = Phases(SHAPE, vocabulary=D).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model


def random(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    numbers = torch.randn(shape, generator=torch.Generator().manual_seed(seed))
    return numbers.double() * scale


# Bayes' rule


def by_definition(evidence: Tensor, period: int) -> Tensor:
    """The evidence on each of the `period` places, summed; then the share of the place of n."""
    logs = []
    for n in range(evidence.shape[1] + 1):
        places = [evidence[:, (n - place) % period : n : period].sum(1) for place in range(period)]
        logs.append(places[0] - torch.stack(places).logsumexp(0))
    return torch.stack(logs, 1)


@given(st.integers(2, 40), st.integers(1, 90), st.sampled_from([0.1, 1.0, 30.0]), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_posteriors_follow_bayes_rule(period: int, words: int, scale: float, seed: int) -> None:
    evidence = random(2, words, seed=seed, scale=scale)
    expected = by_definition(evidence, period)
    torch.testing.assert_close(posterior(evidence, period), expected, atol=1e-9, rtol=1e-9)


def test_each_period_has_its_own_evidence() -> None:
    evidence = random(3, 50, 4)
    logs = posteriors(evidence, (2, 7, 9, 31))
    for i, period in enumerate((2, 7, 9, 31)):
        assert torch.equal(logs[..., i], posterior(evidence[..., i].contiguous(), period))


@given(st.integers(0, 60), st.sampled_from([1.0, 60.0]), st.integers(0, 9))
@settings(max_examples=30, deadline=None)
def test_sums_over_trees_are_sums_over_all_places(read: int, scale: float, seed: int) -> None:
    """Also where one place is certain up to 10^-100 and more, and then loses."""
    periods = (2, 3, 4, 5, 8, 13, 16, 29)
    evidence = random(2, 120, len(periods), seed=seed, scale=scale)
    expected = posteriors(evidence, periods)
    sums = PeriodSums.of(evidence[:, :read], periods)
    for n in range(read, 120):
        now = torch.full((2,), n)
        torch.testing.assert_close(
            sums.log_probabilities(now), expected[:, n], atol=1e-9, rtol=1e-9
        )
        sums.add(now, evidence[:, n])


# Periods


@given(st.integers(2, 3000))
@settings(max_examples=20, deadline=None)
def test_periods_are_the_prime_powers(bound: int) -> None:
    expected = tuple(q for q in range(2, bound + 1) if len(flint.fmpz(q).factor()) == 1)
    periods = PhasesConfig(bound=bound).periods
    assert periods == expected
    assert all(int(flint.fmpz(q).factor()[0][0]) == prime_of(q) for q in periods[:50])


def test_the_weights_of_primes_are_smooth() -> None:
    """Each period has weights that sum to 1, on at most two knots of its kind, near log p."""
    periods = PhasesConfig(bound=512).periods
    basis = smooth_basis(periods, torch.device("cpu")).reshape(len(periods), 3, KNOTS)
    for period, kinds in zip(periods, basis, strict=True):
        p = prime_of(period)
        exponent = round(math.log(period, p))
        assert kinds.count_nonzero() <= 2
        assert kinds[min(exponent, 3) - 1].sum().item() == pytest.approx(1)
        place = (kinds.sum(0) * torch.arange(KNOTS)).sum().item()
        assert place == pytest.approx(math.log(p / 2, 256) * 11, abs=1e-5)


# The model


@given(st.lists(st.lists(st.integers(0, D - 1), min_size=9, max_size=9), min_size=1, max_size=3))
def test_words_that_have_ended(rows: list[list[int]]) -> None:
    last, place = ended_words(torch.tensor(rows))
    for row, tokens, places in zip(rows, last.tolist(), place.tolist(), strict=True):
        ends = [
            token for token in row if token == 0 or token > 2
        ]  # any token but the letters 0 and 1
        assert tokens == ends + [0] * (9 - len(ends))
        assert places == [sum(t == 0 or t > 2 for t in row[: i + 1]) for i in range(9)]


@pytest.mark.parametrize("letters", [[], [2], [2, 1, 2, 1]])
def test_a_spelled_word_counts_as_one(model: Phases, letters: list[int]) -> None:
    """However many letters it has, the words after it have the same distances from those before."""
    before, after = [5, 7, 4, 9, 3, 5] * 4, [6, 3, 8, 5] * 5

    def logits(spelled: list[int]) -> Tensor:
        with torch.no_grad():
            return model(torch.tensor([[*before, *spelled, 0, *after]]))[0, -len(after) - 1 :]

    torch.testing.assert_close(logits(letters), logits([2, 2, 1, 1, 2, 1]), atol=1e-5, rtol=1e-5)
    reading = model.read(Prompts(torch.tensor([before])))
    for token in (*letters, 0, *after):
        reading.append(torch.tensor([token]))
    torch.testing.assert_close(
        reading.log_probabilities()[0], logits(letters)[-1].log_softmax(-1), atol=1e-5, rtol=1e-5
    )


def test_prompts_with_different_numbers_of_words_are_read_together(model: Phases) -> None:
    ids = torch.tensor(
        [[5, 7, 2, 1, 0, 4, 3, 2], [5, 7, 4, 4, 6, 4, 3, 5], [2, 1, 2, 1, 2, 1, 1, 1]]
    )
    following = torch.tensor([[1, 0, 4], [9, 9, 9], [1, 0, 0]])
    together = model.read(Prompts(ids))
    alone = [model.read(Prompts(row[None])) for row in ids]
    for tokens in following.T:
        one_by_one = torch.cat([reading.log_probabilities() for reading in alone])
        torch.testing.assert_close(together.log_probabilities(), one_by_one, atol=1e-5, rtol=1e-5)
        together.append(tokens)
        for reading, token in zip(alone, tokens, strict=True):
            reading.append(token[None])


def test_bfloat16_weights_are_read_like_float32(model: Phases) -> None:
    """As on a GPU: the probabilities that the blocks get are those of whole windows."""
    half = copy.deepcopy(model).bfloat16()
    ids = torch.randint(3, D, (2, 60), generator=torch.Generator().manual_seed(4))
    with torch.no_grad(), watching(half, "blocks.*.posteriors") as whole:
        expected = half(ids).log_softmax(-1)
    assert expected.dtype == torch.float32
    reading = half.read(Prompts(ids[:, :20]))
    for tokens in ids.T[20:]:
        reading.append(tokens)
    with torch.no_grad(), watching(half, "blocks.*.posteriors") as one:
        reading._predict(ids[:, -1])
    for name, logs in whole.items():
        assert logs.dtype == one[name].dtype == torch.float32
        torch.testing.assert_close(one[name].exp(), logs[:, -1].exp(), atol=0.02, rtol=0.02)
    torch.testing.assert_close(reading.log_probabilities(), expected[:, -1], atol=0.1, rtol=0.1)


def test_training_after_inference_mode() -> None:
    shape = PhasesConfig(layers=1, width=8, bound=11, context=16)
    with torch.inference_mode():
        Phases(shape, vocabulary=D)(torch.tensor([[3, 4, 5]]))
    model = Phases(shape, vocabulary=D)
    model.loss(torch.tensor([[3, 4]]), torch.tensor([[4, 5]])).backward()
    assert model.blocks[0].evidence.periods.common.grad is not None


def test_only_distances_count(model: Phases) -> None:
    """A text that repeats tells its period: 7 words with one that stands out."""
    ids = torch.tensor([[4, 5, 5, 5, 5, 5, 5] * 30])
    with torch.no_grad():
        words = model.tokens(ids)
        evidence, _ = model.blocks[0].evidence(words)
        logs = posteriors(evidence, SHAPE.periods)[0, :, SHAPE.periods.index(7)]
    rows = logs.exp()[-7 * 7 :].reshape(7, 7)
    assert rows.std(0).max() < 0.05  # the same in each period
    assert rows.mean(0).std() > 0.05  # and not the same within it


def test_the_residual_stream_ends_in_the_logits(model: Phases) -> None:
    ids = torch.randint(D, (2, 30), generator=torch.Generator().manual_seed(3))
    stream = model.residual_stream(ids)
    assert stream.shape == (3, 2, 30, 16)
    assert torch.equal(model.logits(stream[-1]), model.predict_next(ids))


def test_parameters_are_counted() -> None:
    model = Phases(SHAPE, vocabulary=D)
    matrices = sum(p.numel() for p in model.parameters() if p.ndim > 1)
    assert SHAPE.matrix_weights(D) == matrices
    assert model.description.startswith(
        "Phases of prime powers, 2 layers, width 16, prime powers up to 30"
    )


# Training


def test_muon_trains_the_matrices_of_blocks() -> None:
    model = Phases(SHAPE, vocabulary=D)
    muon, adamw = make_optimizers(model, TrainingConfig(steps=1, batch=80, optimizer="muon"))
    ours = {id(p) for group in muon.param_groups for p in group["params"]}
    names = {name for name, p in model.named_parameters() if id(p) in ours}
    assert names == {
        name for name, p in model.named_parameters() if p.ndim == 2 and name.startswith("blocks.")
    }
    assert len(adamw.param_groups[0]["params"]) == 2  # the embedding and the output


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("tokens.kind=bpe", r"phases models take only tokens\.kind=words"),
        ("task=mlm", "phases models take only task=ntp"),
        ("model.bound=1", r"model\.bound must be from 2 to model\.context = 8192, not 1"),
        ("model.bound=8193", r"model\.bound must be from 2 to model\.context = 8192, not 8193"),
        ("training.log_share=1.5", r"training\.log_share must be a share from 0 to 1"),
    ],
)
def test_what_cannot_be_trained_is_refused(setting: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        with_changes(recipe("record"), [setting])


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_windows_are_spread_in_log_n(share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A quarter of the windows that are even in log n in each of the last four decades."""
    stream = Stream(
        WordTokens.commonest(D, x=1000),
        splits(10**9).train,
        task="ntp",
        context=16,
        seed=5,
        purpose=TRAIN,
        log_share=share,
    )
    starts: list[int] = []

    def start(index: int) -> int:
        starts.append(type(stream.windows).start(stream.windows, index))
        return starts[-1]

    monkeypatch.setattr(stream.windows, "start", start)
    stream.batch(3, range(4000))
    decades = np.floor(np.log10(np.array(starts) / 10**9)).clip(-5)
    shares = [(decades == decade).mean() for decade in (-1, -2, -3, -4, -5)]
    even = np.array([0.9, 0.09, 0.009, 0.0009, 0.0001])
    expected = (1 - share) * even + share * np.array([0.25, 0.25, 0.25, 0.25, 0])
    # A quarter of the text is not for training, so windows come to lie up to 1/8 of a decade lower.
    np.testing.assert_allclose(shares, expected, atol=0.03 + 0.03 * share)


def test_validation_windows_are_even_in_n() -> None:
    changes = ["model.context=64", "model.bound=16", "training.batch=64", "training.validation=256"]
    config = with_changes(recipe("record"), [*changes, "tokens.size=64", "n=10^6"])
    even = with_changes(config, ["training.log_share=0"])
    tokenizer = config.tokens.tokenizer(config.text, config.n)
    spread, plain = (ProcessBatches(each, tokenizer, 0, 1) for each in (config, even))
    for ours, theirs in zip(spread.validation, plain.validation, strict=True):
        assert torch.equal(ours.inputs, theirs.inputs)
    firsts = [[part.inputs for part in islice(each.parts(0), 9)] for each in (spread, plain)]
    assert any(not torch.equal(one, other) for one, other in zip(*firsts, strict=True))
