"""The roles of heads: groups of integers, losses without a head, attention by offset."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from arithmetext.errors import InputError
from arithmetext.evaluation.ablation import (
    PRIMES,
    Head,
    HeadRoles,
    HeadSettings,
    _Attention,
    _groups,
    attention_at,
    costliest_head,
    head_scores,
    main_distances,
    main_offsets,
    summarise,
)
from arithmetext.evaluation.activations import LabelledWindows, labelled_windows
from arithmetext.evaluation.estimates import UNKNOWN, Estimate
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
        number = scores()[f"queries {prime}"]
        for name in "offsets", "classes":
            attention = scores()[f"{name} {prime}"]
            assert attention.shape == (2, LAYERS, HEADS, HOW.windows, prime)
            shares = np.broadcast_to(number[:, None, None], attention.shape[:-1])
            np.testing.assert_allclose(attention.sum(-1), shares, rtol=1e-4)
        distances = scores()[f"distances {prime}"]
        assert distances.shape == (2, LAYERS, HEADS, CONTEXT + 1)
        shares = np.broadcast_to(number.sum(1)[:, None, None], distances.shape[:-1])
        np.testing.assert_allclose(distances.sum(-1), shares, rtol=1e-4)
        for k in range(HOW.windows):
            integers = np.array([n for _, n in queries(windows, k)])
            divisible = (integers % prime == 0).sum()
            assert number[:, k].tolist() == [len(integers) - divisible, divisible]


def test_attention_is_added_up_by_offset_class_and_distance() -> None:
    random = np.random.default_rng(0)
    weights = torch.from_numpy(random.random((2, 3, 6, 10)))
    keys, integers = random.integers(90, 100, 10), random.integers(100, 120, 6)
    attention = _Attention((2, 3), 1, 30)
    for _ in range(2):  # sums go on
        attention.add(0, weights, torch.from_numpy(integers), torch.from_numpy(keys))
    for prime in PRIMES:
        offsets, classes = np.zeros((2, 2, 2, 3, prime))
        distances = np.zeros((2, 2, 3, 31))
        for q, n in enumerate(integers):
            for key, m in enumerate(keys):
                weight, divides = 2 * weights[:, :, q, key].numpy(), int(n % prime == 0)
                offsets[divides, :, :, (n - m) % prime] += weight
                classes[divides, :, :, m % prime] += weight
                distances[divides, :, :, n - m] += weight
        for name, expected in (
            ("offsets", offsets[:, :, :, None]),
            ("classes", classes[:, :, :, None]),
            ("distances", distances),
        ):
            np.testing.assert_allclose(attention.arrays[f"{name} {prime}"], expected)


def made_up_attention() -> dict[str, Any]:
    """A head that looks at offset 3 modulo 5 if 5 divides n, and otherwise at offset 1."""
    offsets, classes = np.zeros((2, 2, 1, 1, 4, 5))
    offsets[0, ..., :] = np.array([1, 60, 10, 9, 20])  # of 100 queries in each window
    offsets[1, ..., :] = np.array([1, 2, 1, 15, 1])  # of 20
    classes[0, ..., :] = np.array([10, 20, 30, 30, 10])
    classes[1, ..., :] = np.array([1, 1, 15, 2, 1])
    distances = np.zeros((2, 1, 1, 9))
    distances[0, ..., 6], distances[0, ..., 1] = 200, 40
    distances[1, ..., 8] = 60
    queries = np.array([[100] * 4, [20] * 4])
    return {
        "offsets 5": offsets, "classes 5": classes, "distances 5": distances, "queries 5": queries
    }  # fmt: skip


def test_where_a_head_looks() -> None:
    head = Head(0, 0, [])
    arrays = made_up_attention()
    assert main_offsets(arrays, head, 5) == (3, 1)
    divides, otherwise = attention_at(arrays, HOW, head, 5, 3)
    assert divides == pytest.approx((0.75, 0.75, 0.75))
    assert otherwise == pytest.approx((0.09, 0.09, 0.09))
    same_class = attention_at(arrays, HOW, head, 5, 2, "classes")
    assert same_class.divides.value == pytest.approx(0.75)
    assert same_class.otherwise.value == pytest.approx(0.3)
    assert main_distances(arrays, head, 5, 2) == [(6, 0, 0.5), (1, 0, 0.1)]


def test_the_costliest_head_costs_more_than_without_small_primes() -> None:
    """It may be that of two primes, unlike a head that costs all groups the same."""

    def head(k: int, **damage: float) -> Head:
        values = [damage.get(f"p{p}", damage.get("all", 0.0)) for p in (*PRIMES, "none")]
        return Head(0, k, [Estimate(value, value, value) for value in values])

    heads = [head(0, all=2.0), head(1, p17=0.8, p19=0.6), head(2, p19=0.1, p3=0.3)]
    roles = HeadRoles(heads, [], [])
    assert [costliest_head(roles, p) for p in (3, 17, 19)] == [2, 1, 1]


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


def test_wrong_numbers_of_windows_are_refused() -> None:
    with pytest.raises(InputError, match="number of test windows must be a multiple of 2"):
        head_scores(subject(), replace(HOW, windows=3))
