"""The exact posterior against counts of integers, and probes that must find planted beliefs."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from arithmetext.errors import InputError
from arithmetext.evaluation.beliefs import (
    BeliefSettings,
    SetSummary,
    belief_scores,
    summarise,
)
from arithmetext.evaluation.posterior import Reader
from arithmetext.evaluation.subjects import EvaluatedModel
from arithmetext.models.config import GPTConfig
from arithmetext.models.files import PRETRAINED
from arithmetext.models.language import LanguageModel, Prompts, Reading
from arithmetext.text.sieve import words, words_of_windows
from arithmetext.tokens import BPE, Tokenizer
from arithmetext.tokens import load as load_tokenizer
from arithmetext.trees import pack

LO, HI = 5 * 10**5, 10**6  # all integers of this range are counted
TRAINED, PLACE = (4 * 10**8, 45 * 10**7), 5 * 10**8

HOW = BeliefSettings(
    places=(PLACE,),
    ends=(4, 12, 24),
    training_windows=96,
    seeds=2,
    blocks=4,
    windows=32,
    modulus=60,
    sets=((2,), (3,), (5,), (2, 3), (3, 5)),
)


@cache
def reader(modulus: int) -> Reader:
    return Reader.estimate(modulus, (LO + HI) // 2, (HI, HI + (HI - LO)))


def test_words_of_each_class_are_counted() -> None:
    """The probability of a word given gcd(n, 12), against counts of other integers."""
    n, text = np.arange(LO, HI), words(LO, HI)
    kinds, counts = np.unique(text, return_counts=True)
    common = kinds[counts > 5000]
    found = reader(12).probabilities(common)
    for row, divisor in zip(found.T, (1, 2, 3, 4, 6, 12), strict=True):
        of_class = text[np.gcd(n, 12) == divisor]
        shares = (of_class[:, None] == common).mean(0)
        np.testing.assert_allclose(row, shares, atol=0.012)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_posterior_is_that_of_all_integers_with_the_same_words(length: int) -> None:
    """Equal to the share of integers, but for chance and the dependence of consecutive words."""
    text = words(LO, HI)
    last = np.arange(LO + length - 1, HI) % 12  # of the integer of the last word
    _, codes = np.unique(text, return_inverse=True)
    spelled = sum(codes[k : len(codes) - length + 1 + k] * 1000**k for k in range(length))
    _, first, runs, counts = np.unique(
        spelled, return_index=True, return_inverse=True, return_counts=True
    )
    common = np.flatnonzero(counts > 2000)
    assert len(common) > 10
    rows = text[first[common][:, None] + np.arange(length)]
    found = reader(12).marginals(rows, [12])[12][:, -1].numpy()
    table = np.zeros((len(counts), 12))
    np.add.at(table, (runs, last), 1)
    shares, number = table[common] / counts[common][:, None], counts[common]
    by_chance = np.sqrt(shares * (1 - shares) / number[:, None])
    assert (np.abs(found - shares) - 4 * by_chance).max() < 0.02
    distance = np.abs(found - shares).sum(1) / 2  # total variation
    assert np.average(distance, weights=number) < 0.03


def test_posterior_is_calibrated() -> None:
    starts = np.random.default_rng(0).integers(LO, HI, 4000)
    text = words_of_windows(starts.tolist(), 8).copy()
    for m, belief in reader(12).marginals(text, [2, 4, 3, 12]).items():
        torch.testing.assert_close(belief.sum(2), torch.ones(belief.shape[:2]))
        residues = (torch.from_numpy(starts)[:, None] + torch.arange(8)) % m
        true = torch.nn.functional.one_hot(residues, m).bool()
        for low in np.arange(0, 1, 0.1):
            chosen = (belief >= low) & (belief < low + 0.1)
            if chosen.sum() > 1000:
                assert true[chosen].float().mean() == pytest.approx(
                    belief[chosen].mean().item(), abs=0.04
                )


def test_marginals_agree() -> None:
    text = words_of_windows([LO, LO + 777], 20).copy()
    beliefs = reader(12).marginals(text, [12, 3])
    torch.testing.assert_close(beliefs[12].unflatten(2, (4, 3)).sum(2), beliefs[3])


def test_modulus_without_a_small_prime_is_refused() -> None:
    with pytest.raises(InputError, match="10 must contain every prime"):
        Reader.estimate(10, HI, (LO, HI))


@cache
def tokenizer() -> Tokenizer:
    return load_tokenizer(PRETRAINED / "tokenizer.json")


class Planted(LanguageModel):
    """Its layers hold: the factors; the joint beliefs; the likeliest residues. With a little noise.

    Each layer is a random linear map of what it holds.
    """

    vocabulary = 256
    width = 40

    def __init__(self) -> None:
        at = PLACE
        self.reader = Reader.estimate(60, at, (at, at + 2**20))
        self.random = torch.Generator().manual_seed(0)
        self.maps = torch.randn(3, 40, self.width, generator=self.random)

    @property
    def description(self) -> str:
        return "planted beliefs"

    def read(self, prompts: Prompts, *, stride: int = 1) -> Reading:
        raise NotImplementedError

    def residual_stream(self, ids: Tensor) -> Tensor:
        ended = np.cumsum(tokenizer().words_ended[ids.numpy()], 1)
        texts = [tokenizer().text(row).split() for row in ids.numpy()]
        length = min(map(len, texts))
        rows = np.array([[pack(word) for word in text[:length]] for text in texts], np.uint64)
        beliefs = self.reader.marginals(rows, [2, 3, 5, 6, 15])
        alone = [beliefs[m] for m in (2, 3, 5)]
        likeliest = [(b == b.amax(2, keepdim=True)).float() for b in alone]
        held = [alone, [beliefs[6], beliefs[15]], likeliest]
        at = torch.from_numpy(np.clip(ended - 1, 0, length - 1))[..., None]
        layers = []
        for parts, to_stream in zip(held, self.maps, strict=True):
            x = torch.cat(parts, 2)
            x = x @ to_stream[: x.shape[2]]
            layers.append(x.gather(1, at.expand(-1, -1, self.width)))
        stream = torch.stack(layers)
        return stream + 0.05 * torch.randn(stream.shape, generator=self.random)


FACTORED, JOINT, LIKELIEST = range(3)


@cache
def planted() -> dict[tuple[int, ...], SetSummary]:
    model = EvaluatedModel("planted", Planted(), tokenizer(), 1024, (TRAINED,), (TRAINED,))
    return {each.moduli: each for each in summarise(belief_scores(model, HOW), HOW)}


def values(estimates: Sequence[Any]) -> list[float]:
    return [estimate.value for estimate in estimates]


def test_planted_beliefs_are_found() -> None:
    for m in 2, 3, 5:
        found = planted()[m,]
        for r2 in (found.r2, found.r2_apart):
            assert min(values(r2["all"])[:LIKELIEST]) > 0.97
            assert min(values(r2["uncertain"])[:LIKELIEST]) > 0.9
        assert values(found.r2["uncertain"])[LIKELIEST] < 0.9
        assert found.controls is not None
        assert max(values(found.controls.shuffled)) < 0.05
        assert values(found.controls.truth)[FACTORED] < values(found.r2["all"])[FACTORED]


def test_beliefs_are_told_from_hard_guesses() -> None:
    for m in 3, 5:
        controls = planted()[m,].controls
        assert controls is not None
        difference = controls.difference
        assert difference[FACTORED].low > 0.1
        assert difference[LIKELIEST].high < 0


def test_factored_is_told_from_joint() -> None:
    for moduli in (2, 3), (3, 5):
        found = planted()[moduli]
        assert sum(part.share for part in found.parts.values()) == pytest.approx(1, abs=0.1)
        additive, product = (values(found.parts[name].r2) for name in ("additive", "product"))
        assert min(additive[FACTORED], additive[JOINT], product[JOINT]) > 0.95
        assert product[FACTORED] < 0.2
        factored, joint = found.dimensions
        assert found.needed(FACTORED) <= factored < found.needed(JOINT) <= joint
        assert found.kept[JOINT][factored - 1] < found.kept[JOINT][joint - 1] - 0.2
        assert found.kept_exact[-1] == pytest.approx(1)


def test_untrained_model_carries_what_the_word_shows() -> None:
    config = GPTConfig(layers=2, heads=2, context=64, positions="rotary")
    trained = EvaluatedModel(
        "gpt", config.build(tokenizer().size, "ntp").eval(), tokenizer(), 64, (TRAINED,), (TRAINED,)
    )
    model = replace(trained, model=trained.model.with_initial_weights(0))
    how = replace(HOW, sets=((2,), (3,)), seeds=1)
    for each in summarise(belief_scores(model, how), how):
        r2 = values(each.r2["all"])
        assert 0.02 < r2[0] < 0.4
        assert r2[-1] == pytest.approx(r2[0], abs=0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"windows": 30}, "the number of test windows must be a multiple of 4"),
        ({"sets": ((2, 4),)}, "must be coprime"),
        ({"sets": ((7,),)}, "must divide 60"),
    ],
)
def test_wrong_settings_are_refused(changes: dict[str, Any], message: str) -> None:
    model = EvaluatedModel("planted", Planted(), tokenizer(), 1024, (TRAINED,), (TRAINED,))
    with pytest.raises(InputError, match=message):
        belief_scores(model, replace(HOW, **changes))


def test_tokens_across_words_are_refused() -> None:
    model = EvaluatedModel("planted", Planted(), BPE.train(64), 1024, (TRAINED,), (TRAINED,))
    with pytest.raises(InputError, match="word tokens"):
        belief_scores(model, HOW)
