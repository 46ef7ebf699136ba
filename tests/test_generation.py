"""Continuations: the likeliest token, and chance that depends on nothing but its seed."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from arithmetext.errors import InputError
from arithmetext.evaluation.generation import generate, sample
from arithmetext.models.gpt import GPT, GPTConfig, watching
from arithmetext.models.hmm import HMM, HMMConfig
from arithmetext.models.language import Prompts

SHARES = torch.tensor([0.5, 0.25, 0.0, 0.2, 0.05])


class Always:
    """Every prompt has the same distribution, whatever it has read."""

    def __init__(self, prompts: int, shares: Tensor = SHARES) -> None:
        self.logs = shares.log().expand(prompts, -1)
        self.read: list[Tensor] = []

    def log_probabilities(self) -> Tensor:
        return self.logs

    def append(self, tokens: Tensor) -> None:
        self.read.append(tokens)


def hmm() -> HMM:
    torch.manual_seed(0)
    return HMM(HMMConfig(states=6, conditioned="sequence"), vocabulary=9).double()


def gpt(positions: str = "rotary", layers: int = 2) -> GPT:
    torch.manual_seed(0)
    config = GPTConfig(layers=layers, heads=1, context=8, positions=positions)  # type: ignore[arg-type]
    model = GPT(config, vocabulary=9, causal=True)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= 5  # so that predictions differ
    return model.double()


def prompts(count: int, length: int = 5) -> Tensor:
    return torch.randint(9, (count, length), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("beta", [1.0, 2.0, 0.3])
def test_tokens_come_as_often_as_they_should(beta: float) -> None:
    """Each count within five deviations of the binomial distribution."""
    weights = SHARES.double() ** beta
    shares = (weights / weights.sum()).numpy()
    tokens = generate(Always(200), 100, beta=beta, seed=3)
    assert tokens.shape == (200, 100)
    counts = np.bincount(tokens.flatten().numpy(), minlength=5)
    deviations = np.sqrt(20_000 * shares * (1 - shares))
    assert (np.abs(counts - 20_000 * shares) <= 5 * deviations).all()
    assert counts[2] == 0  # it cannot come
    # Neither the tokens of a prompt nor those of a step repeat each other.
    assert len({tuple(row) for row in tokens.tolist()}) == 200
    assert len({tuple(column) for column in tokens.T.tolist()}) == 100


def test_a_large_beta_takes_the_likeliest_token() -> None:
    for model in hmm(), gpt():
        likeliest = generate(model.read(Prompts(prompts(7))), 20)
        assert torch.equal(
            likeliest, generate(model.read(Prompts(prompts(7))), 20, beta=1e6, seed=5)
        )
        assert not torch.equal(likeliest, generate(model.read(Prompts(prompts(7))), 20, beta=1.0))
    assert (generate(Always(3), 4) == 0).all()


@pytest.mark.parametrize("beta", [0.5, 1.0, math.inf])
def test_prompts_are_strangers_to_each_other(beta: float) -> None:
    for model in hmm(), gpt():
        ids = prompts(6)
        together = generate(model.read(Prompts(ids)), 12, beta=beta, seed=2, first=10)
        for row in range(6):
            alone = generate(
                model.read(Prompts(ids[row, None])), 12, beta=beta, seed=2, first=10 + row
            )
            assert torch.equal(alone[0], together[row])


def test_chance_is_decided_by_seed_prompt_and_token() -> None:
    tokens = generate(Always(8), 30, beta=1.0, seed=4)
    assert torch.equal(tokens, generate(Always(8), 30, beta=1.0, seed=4))
    assert torch.equal(tokens[:, :10], generate(Always(8), 10, beta=1.0, seed=4))
    assert torch.equal(tokens[3:], generate(Always(5), 30, beta=1.0, seed=4, first=3))
    assert not torch.equal(tokens, generate(Always(8), 30, beta=1.0, seed=5))
    assert not torch.equal(tokens, generate(Always(8), 30, beta=1.0, seed=4, first=1))


def test_what_is_generated_has_been_read() -> None:
    reading = Always(4)
    tokens = generate(reading, 6, beta=1.0)
    assert torch.equal(torch.stack(reading.read, 1), tokens)
    model = hmm()
    reading_on = model.read(Prompts(prompts(4)))
    tokens = generate(reading_on, 6, beta=1.0)
    whole = model.read(Prompts(torch.cat([prompts(4), tokens], 1)))
    torch.testing.assert_close(reading_on.log_probabilities(), whole.log_probabilities())


@pytest.mark.parametrize("chance", [0.0, 0.5, 1 - 2**-53])
def test_a_token_that_cannot_come_does_not(chance: float) -> None:
    """Also where chance falls on the edge of its empty share."""
    for shares in ([0.0, 0.5, 0.0, 0.5, 0.0], [0.0, 1 / 3, 0.0, 2 / 3, 0.0], [0, 0.1, 0.2, 0.7, 0]):
        logs = torch.tensor([shares], dtype=torch.float64).log()
        [token] = sample(logs, 1.0, torch.tensor([chance], dtype=torch.float64)).tolist()
        assert shares[token] > 0


@pytest.mark.parametrize("beta", [0.0, -1.0, math.nan, -math.inf])
def test_a_beta_that_is_not_positive_is_refused(beta: float) -> None:
    with pytest.raises(InputError, match=r"^beta must be positive"):
        generate(Always(1), 1, beta=beta)


def test_counts_and_seeds_that_are_refused() -> None:
    with pytest.raises(InputError, match="must be 1 or more, not 0"):
        generate(Always(1), 0)
    for seed in (-1, 1 << 63):
        with pytest.raises(InputError, match="seed must be 0 or more"):
            generate(Always(1), 1, seed=seed)


# The window of a GPT


@pytest.mark.parametrize("positions", ["learned", "rotary"])
def test_a_gpt_sees_the_last_tokens_of_what_it_read(positions: str) -> None:
    model = gpt(positions)
    ids = prompts(3, 20)
    reading = model.read(Prompts(ids[:, :4]))
    for t in range(4, 20):
        expected = model(ids[:, max(0, t - 8) : t])[:, -1].log_softmax(-1).detach().float()
        torch.testing.assert_close(reading.log_probabilities(), expected)
        at_once = model.read(Prompts(ids[:, :t])).log_probabilities()
        torch.testing.assert_close(at_once, expected)
        reading.append(ids[:, t])
    assert not reading.log_probabilities().requires_grad


def test_what_a_gpt_does_not_read() -> None:
    masked = GPT(GPTConfig(layers=1, heads=1, context=8), vocabulary=9, causal=False)
    with pytest.raises(InputError, match="masked"):
        masked.read(Prompts(prompts(2)))
    with pytest.raises(InputError, match="a prompt needs at least one token"):
        gpt().read(Prompts(prompts(2, 0)))


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("stride", [1, 2, 5, 8])
def test_what_is_kept_changes_nothing(positions: str, stride: int) -> None:
    """Against a plain loop that reads all it may see for every token."""
    model, ids = gpt(positions), prompts(4, 6)
    reading = model.read(Prompts(ids), stride=stride)
    window = ids
    for token in prompts(30, 4):
        expected = model(window)[:, -1].log_softmax(-1).detach().float()
        torch.testing.assert_close(reading.log_probabilities(), expected)
        reading.append(token)
        if window.shape[1] == 8:
            window = window[:, stride:]
        window = torch.cat([window, token[:, None]], 1)


@pytest.mark.parametrize("stride", [1, 3])
def test_it_need_not_be_asked_after_every_token(stride: int) -> None:
    model, ids = gpt(), prompts(4, 5)
    asked, seldom = model.read(Prompts(ids), stride=stride), model.read(Prompts(ids), stride=stride)
    for i, token in enumerate(prompts(40, 4)):
        asked.log_probabilities()
        asked.append(token)
        seldom.append(token)
        if i % 7 in (2, 3):
            expected = asked.log_probabilities()
            torch.testing.assert_close(seldom.log_probabilities(), expected)
            assert seldom.log_probabilities() is seldom.log_probabilities()  # read once


def test_a_prompt_of_one_token_and_one_that_is_forgotten_whole() -> None:
    model = gpt("learned")
    reading = model.read(Prompts(prompts(3, 1)), stride=8)
    ids = prompts(3, 1)
    for token in prompts(20, 3):
        expected = model(ids)[:, -1].log_softmax(-1).detach().float()
        torch.testing.assert_close(reading.log_probabilities(), expected)
        reading.append(token)
        ids = torch.cat([ids if ids.shape[1] < 8 else ids[:, :0], token[:, None]], 1)


@pytest.mark.parametrize("stride", [0, 9, -1])
def test_a_stride_is_from_1_to_the_context(stride: int) -> None:
    with pytest.raises(InputError, match=f"the stride must be from 1 to 8, not {stride}"):
        gpt().read(Prompts(prompts(2)), stride=stride)


def test_half_precision_keeps_apart_what_is_nearly_equal() -> None:
    """Logits are not rounded: many pairs of tokens would be equal.

    No layers: processors differ in how they multiply matrices of bfloat16, and some cannot.
    """
    model = gpt("learned", layers=0).to(torch.bfloat16)
    logits = model(torch.arange(9)[:, None].expand(9, 8))  # each token at each place
    assert logits.dtype == torch.float32
    assert len(logits.bfloat16().unique()) < 0.9 * logits.numel()
    assert len(logits.unique()) > 0.99 * logits.numel()


def test_looking_inside_while_reading_on() -> None:
    """The pattern that is watched is that of the token read last."""
    model, ids = gpt(), prompts(2, 6)
    with watching(model, "blocks.1.attention.pattern") as seen:
        model(ids)
        whole = seen["blocks.1.attention.pattern"][:, :, -1:]
    reading = model.read(Prompts(ids[:, :5]))
    reading.log_probabilities()
    reading.append(ids[:, 5])
    with watching(model, "blocks.1.attention.pattern") as seen:
        reading.log_probabilities()
        pattern = seen["blocks.1.attention.pattern"]
    torch.testing.assert_close(pattern[..., :6], whole)
    assert not pattern[..., 6:].any()
