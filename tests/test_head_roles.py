"""The roles of heads: groups of integers, losses without a head, attention by offset."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from arithmetext.errors import InputError
from arithmetext.evaluation.activations import LabelledWindows, labelled_windows
from arithmetext.evaluation.estimates import UNKNOWN
from arithmetext.evaluation.head_roles import (
    PRIMES,
    Head,
    HeadSettings,
    _add_attention,
    _groups,
    attention_at,
    head_scores,
    summarise,
    telling_offset,
)
from arithmetext.evaluation.subjects import EvaluatedModel
from arithmetext.models.gpt import HEAD_DIM
from arithmetext.text.splits import blocks_near
from arithmetext.tokens import BPE
from test_interventions import AT, CONTEXT, LAYERS, subject

HEADS = 2
HOW = HeadSettings(at=AT, windows=4, blocks=2, seed=0)


@cache
def scores() -> dict[str, Any]:
    return head_scores(subject(), HOW)


def drawn() -> tuple[LabelledWindows, LabelledWindows]:
    """The windows that losses are measured on, and those that mean outputs are taken over."""
    model: EvaluatedModel = subject()
    blocks = [[block] for block in blocks_near(AT, model.seen, HOW.blocks)]
    return (
        labelled_windows(model.tokenizer, blocks, number=4, length=CONTEXT, seed=0),
        labelled_windows(model.tokenizer, [model.trained], number=8, length=CONTEXT, seed=0),
    )


def group_of(n: int) -> int | None:
    divisors = [k for k, p in enumerate(PRIMES) if n % p == 0]
    return len(PRIMES) if not divisors else divisors[0] if len(divisors) == 1 else None


def test_groups() -> None:
    integers = torch.arange(1, 2001).view(4, 500)
    found = _groups(integers)
    assert found.shape == (9, 4, 500)
    for n, column in zip(integers.flatten().tolist(), found.flatten(1).T.tolist(), strict=True):
        expected = group_of(n)
        assert column == [k == expected for k in range(9)]


def queries(windows: LabelledWindows, k: int) -> list[tuple[int, int]]:
    """The positions in the second half that end a word, and the next integer at each."""
    vocabulary = subject().tokenizer.vocabulary
    return [
        (t, int(windows.integers[k, t]) + 1)
        for t in range(CONTEXT // 2, CONTEXT - 1)
        if vocabulary[windows.ids[k, t]].endswith(" ")
    ]


def losses(windows: LabelledWindows) -> tuple[Any, Any]:
    """Sums of nats and numbers of words, [groups, windows], from runs of whole windows."""
    nats, number = np.zeros((2, 9, HOW.windows))
    for k, ids in enumerate(windows.ids):
        logs = subject().model.predict_next(ids[None])[0].double().log_softmax(1)
        for t, n in queries(windows, k):
            group = group_of(n)
            if group is not None:
                nats[group, k] -= logs[t, ids[t + 1]].item()
                number[group, k] += 1
    return nats, number


def test_losses_of_the_whole_model() -> None:
    nats, number = losses(drawn()[0])
    np.testing.assert_array_equal(scores()["words"], number)
    np.testing.assert_allclose(scores()["loss"], nats, rtol=1e-3, atol=1e-3)
    assert number.sum(1)[[0, 1, 8]].min() > 5


@pytest.mark.parametrize(("layer", "head"), [(0, 1), (1, 0)])
def test_losses_without_a_head(layer: int, head: int) -> None:
    """Its output is replaced by hand, by its mean over windows of the training text."""
    windows, training = drawn()
    module = subject().model.get_submodule(f"blocks.{layer}.attention.mixed")
    seen: list[Tensor] = []
    handle = module.register_forward_hook(lambda _, __, mixed: seen.append(mixed))
    subject().model.predict_next(training.ids)
    handle.remove()
    part = slice(head * HEAD_DIM, (head + 1) * HEAD_DIM)
    mean = seen[0][..., part].mean((0, 1))

    def replace_head(_: Any, __: Any, mixed: Tensor) -> Tensor:
        return torch.cat(
            [mixed[..., : part.start], mean.expand(*mixed.shape[:2], -1), mixed[..., part.stop :]],
            -1,
        )

    handle = module.register_forward_hook(replace_head)
    nats, _ = losses(windows)
    handle.remove()
    np.testing.assert_allclose(scores()["ablated"][layer, head], nats, rtol=1e-3, atol=1e-3)
    assert np.abs(scores()["ablated"][layer, head] - scores()["loss"]).max() > 0.1


def test_attention_adds_up() -> None:
    windows, _ = drawn()
    for prime in PRIMES:
        attention, number = scores()[f"attention {prime}"], scores()[f"queries {prime}"]
        assert attention.shape == (2, LAYERS, HEADS, HOW.windows, prime)
        shares = np.broadcast_to(number[:, None, None], attention.shape[:-1])
        np.testing.assert_allclose(attention.sum(-1), shares, rtol=1e-4)
        for k in range(HOW.windows):
            integers = np.array([n for _, n in queries(windows, k)])
            divisible = (integers % prime == 0).sum()
            assert number[:, k].tolist() == [len(integers) - divisible, divisible]


def test_attention_is_added_up_by_offset() -> None:
    random = np.random.default_rng(0)
    weights = torch.from_numpy(random.random((2, 3, 6, 10)))
    keys, integers = random.integers(90, 100, 10), random.integers(100, 120, 6)
    arrays = {
        f"{name} {prime}": np.zeros(shape)
        for prime in PRIMES
        for name, shape in {"attention": (2, 2, 3, 1, prime), "queries": (2, 1)}.items()
    }
    offsets = torch.from_numpy(integers[:, None] - keys)
    for _ in range(2):  # sums go on
        _add_attention(arrays, 0, weights, offsets, torch.from_numpy(integers))
    for prime in PRIMES:
        expected = np.zeros((2, 2, 3, prime))
        for q, n in enumerate(integers):
            for key, m in enumerate(keys):
                expected[int(n % prime == 0), :, :, (n - m) % prime] += (
                    2 * weights[:, :, q, key].numpy()
                )
        np.testing.assert_allclose(arrays[f"attention {prime}"][:, :, :, 0], expected)


def made_up_attention() -> dict[str, Any]:
    """A head that looks at offset 3 modulo 5 if 5 divides n, and most at offset 1 in any case."""
    attention = np.zeros((2, 1, 1, 4, 5))
    attention[0, ..., :] = np.array([1, 60, 10, 9, 20])  # of 100 queries in each window
    attention[1, ..., :] = np.array([1, 11, 1, 6, 1])  # of 20
    queries = np.array([[100] * 4, [20] * 4])
    return {"attention 5": attention, "queries 5": queries}


def test_the_telling_offset() -> None:
    head = Head(0, 0, [])
    arrays = made_up_attention()
    assert telling_offset(arrays, head, 5) == 3
    divides, otherwise = attention_at(arrays, HOW, head, 5, 3)
    assert divides == pytest.approx((0.3, 0.3, 0.3))
    assert otherwise == pytest.approx((0.09, 0.09, 0.09))


def test_summary() -> None:
    words = np.array([[2, 3, 2, 3], [0, 0, 0, 0], *[[1, 1, 1, 1]] * 7], float)
    loss = words * 1.5
    ablated = np.stack([loss + words, loss, loss - 0.5 * words, loss])[None]
    roles = summarise({"words": words, "loss": loss, "ablated": ablated}, HOW)
    assert [(each.layer, each.head) for each in roles.heads] == [(0, k) for k in range(4)]
    assert roles.words == [10, 0, *[4] * 7]
    assert roles.nats[0] == pytest.approx((1.5, 1.5, 1.5))
    assert roles.nats[1] == UNKNOWN
    for each, value in zip(roles.heads, (1, 0, -0.5, 0), strict=True):
        assert each.damage[0] == pytest.approx((value,) * 3)
        assert each.damage[1] == UNKNOWN


def test_tokens_across_words_are_refused() -> None:
    bpe = replace(subject(), tokenizer=BPE.train(12, ranges=[(2, 10**6)], lines=256))
    with pytest.raises(
        InputError, match=r"^the roles of heads need a model whose tokens are words$"
    ):
        head_scores(bpe, HOW)
