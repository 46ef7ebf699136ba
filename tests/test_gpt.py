"""The GPT: what it may see, how large it is, what its hooks show, and that it learns."""

import copy
import math
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

from arithmetext.models.gpt import (
    GPT,
    HEAD_DIM,
    GPTConfig,
    Hook,
    apply_rope,
    gelu,
    rope_table,
    watching,
)
from arithmetext.text.sieve import words
from arithmetext.tokens import BPE, Tokenizer, WordTokens
from conftest import FLOAT32

VOCABULARY, CONTEXT = 64, 32

each_kind_of_positions = pytest.mark.parametrize("positions", ["learned", "rotary"])
each_task = pytest.mark.parametrize("causal", [True, False], ids=["causal", "masked"])


@cache
def make(positions: Any = "learned", *, causal: bool = True, layers: int = 2) -> GPT:
    """A model whose every parameter is away from where it began, so that each matters."""
    torch.manual_seed(0)
    config = GPTConfig(layers=layers, heads=2, context=CONTEXT, positions=positions)
    model = GPT(config, vocabulary=VOCABULARY, causal=causal).requires_grad_(False).double()
    for parameter in model.parameters():
        parameter += 0.1 * torch.randn_like(parameter)
    return model


def some(batch: int = 3, length: int = CONTEXT) -> Tensor:
    generator = torch.Generator().manual_seed(length)
    return torch.randint(VOCABULARY, (batch, length), generator=generator)


def assert_close(one: Tensor, other: Tensor, tolerance: float = 1e-9) -> None:
    torch.testing.assert_close(one, other, atol=tolerance, rtol=tolerance)


@each_task
def test_without_attention_a_position_sees_only_itself(causal: bool) -> None:
    config = GPTConfig(layers=2, heads=2, context=CONTEXT, attention="off")
    model = GPT(config, vocabulary=VOCABULARY, causal=causal)
    ids = some()
    others = ids.flip(0)
    others[:, 7] = ids[:, 7]
    assert_close(model(ids)[:, 7], model(others)[:, 7], 1e-6)
    assert not torch.equal(model(ids)[:, 6], model(others)[:, 6])
    model.loss(ids, ids).backward()  # type: ignore[no-untyped-call]
    frozen = [name for name, p in model.named_parameters() if not p.requires_grad]
    assert frozen == [
        f"blocks.{k}.attention.out.{part}" for k in (0, 1) for part in ("weight", "bias")
    ]
    assert all(p.grad is not None for p in model.parameters() if p.requires_grad)


# What a position sees


@each_kind_of_positions
@settings(max_examples=25)
@given(st.data())
def test_a_later_token_changes_no_earlier_logit(positions: str, data: st.DataObject) -> None:
    length = data.draw(st.integers(2, CONTEXT))
    place = data.draw(st.integers(1, length - 1))
    ids = some(2, length)
    other = ids.clone()
    other[:, place] = (ids[:, place] + data.draw(st.integers(1, VOCABULARY - 1))) % VOCABULARY
    causal, masked = make(positions), make(positions, causal=False)
    assert_close(causal(ids)[:, :place], causal(other)[:, :place])
    for model in (causal, masked):
        changes = (model(ids) - model(other)).abs().amax(-1)
        # Every position that sees the token notices.
        assert changes[:, place if model is causal else 0 :].min() > 1e-3


@each_task
@each_kind_of_positions
def test_order_matters(positions: str, causal: bool) -> None:
    model = make(positions, causal=causal)
    ids = some(1, 8)
    ids[0, 2], ids[0, 5] = 7, 8
    swapped = ids.clone()
    swapped[0, 2], swapped[0, 5] = 8, 7
    assert (model(ids)[0, -1] - model(swapped)[0, -1]).abs().max() > 1e-2


@each_kind_of_positions
def test_rows_of_a_batch_are_strangers(positions: str) -> None:
    model, ids = make(positions), some(3)
    for row in range(3):
        assert_close(model(ids)[row], model(ids[row : row + 1])[0])


@each_task
@each_kind_of_positions
def test_chosen_positions(positions: str, causal: bool) -> None:
    model, ids = make(positions, causal=causal), some(3)
    chosen = torch.tensor([[0, 5, 31, 5], [1, 2, 3, 4], [31, 30, 29, 28]])
    logits = model(ids)
    assert_close(model(ids, chosen), logits[torch.arange(3)[:, None], chosen])
    assert logits.shape == (3, CONTEXT, VOCABULARY)


# The same by other means


def test_the_compiled_gelu_is_the_same_function(monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.linspace(-20, 20, 4001, dtype=torch.float64)
    plain = gelu(x)
    assert torch.equal(plain, F.gelu(x, approximate="tanh"))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    torch.testing.assert_close(gelu(x), plain, atol=1e-12, rtol=0)


class Rounded(TorchDispatchMode):
    """Multiply matrices of bfloat16 in float32 and round the product, as cards do.

    Processors differ in how they multiply them, and some cannot.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        products = (torch.ops.aten.mm, torch.ops.aten.addmm, torch.ops.aten.bmm)
        if func.overloadpacket not in products or args[-1].dtype != torch.bfloat16:
            return func(*args, **(kwargs or {}))
        return func(*(matrix.float() for matrix in args), **(kwargs or {})).bfloat16()


@each_kind_of_positions
def test_half_precision(positions: str) -> None:
    model, ids = copy.deepcopy(make(positions)).float(), some()
    with (
        Rounded(),
        sdpa_kernel(SDPBackend.MATH),
        torch.autocast("cpu", torch.bfloat16),
        watching(model, "*residual*") as seen,
    ):
        logits = model(ids)
    assert {passed.dtype for passed in seen.values()} == {torch.bfloat16}
    exact = model(ids)
    assert (logits - exact).square().mean() < 1e-3 * exact.square().mean()


def test_on_a_processor_nothing_is_bfloat16() -> None:
    """Some fail to multiply matrices of it."""
    model = copy.deepcopy(make()).bfloat16()
    assert model.for_inference(torch.device("cpu")).norm.weight.dtype == torch.float32


# How large it is


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("rho", [0.25, 0.5, 1, 2])
def test_parameters(rho: float, positions: Any) -> None:
    layers = round(12 * rho)
    config = GPTConfig(layers=layers, heads=layers, positions=positions)
    with torch.device("meta"):
        model = GPT(config, vocabulary=256, causal=True)
    d, size = round(768 * rho), sum(parameter.numel() for parameter in model.parameters())
    attention, mlp = 4 * d * d + 4 * d, 8 * d * d + 5 * d
    assert config.width == d
    expected = 256 * d + 1024 * d + layers * (attention + mlp + 4 * d) + 2 * d
    assert size == expected - (1024 * d if positions == "rotary" else 0)
    assert model.flops_per_token(512) == 6 * size + 12 * layers * d * 512
    if (rho, positions) == (1, "learned"):
        assert size == 86_039_040


def test_the_paper_s_model_is_the_default() -> None:
    assert GPTConfig() == GPTConfig(layers=12, heads=12, context=1024, positions="learned")


def test_initial_values() -> None:
    torch.manual_seed(0)
    model = GPT(GPTConfig(layers=8, heads=2, context=CONTEXT), vocabulary=64, causal=True)
    for name, parameter in model.named_parameters():
        if "norm" in name or name.endswith("bias"):
            assert torch.equal(parameter, torch.full_like(parameter, name.endswith("norm.weight")))
        else:
            last = name.endswith(("out.weight", "mlp_down.weight"))
            assert parameter.std().item() == pytest.approx(0.005 if last else 0.02, rel=0.05)
            assert abs(parameter.mean().item()) < 0.001


# Rotary positions


@given(st.integers(0, 900), st.integers(0, 900), st.integers(0, 100), st.integers(0, 2**32))
def test_scores_depend_on_distance(first: int, second: int, shift: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    q, k = torch.randn(2, HEAD_DIM, generator=generator, dtype=torch.float64)
    rope = rope_table(1024).double()

    def score(m: int, n: int) -> Tensor:
        return apply_rope(q[None], rope[m : m + 1])[0] @ apply_rope(k[None], rope[n : n + 1])[0]

    # The angles have 24 bits and reach 1000.
    size = (q.norm() * k.norm()).item()
    assert_close(score(first, second), score(first + shift, second + shift), 1000 * FLOAT32 * size)
    assert_close(score(first, first), q @ k, 4 * FLOAT32 * size)


def test_turns() -> None:
    x = torch.randn(7, HEAD_DIM, generator=torch.Generator().manual_seed(0))
    result = apply_rope(x, rope_table(7))
    assert torch.equal(result[0], x[0])
    for place in (1, 6):
        for pair in (0, 1, 31):
            angle = place * 10_000 ** (-2 * pair / HEAD_DIM)
            number = complex(x[place, pair], x[place, pair + 32])
            number *= complex(math.cos(angle), math.sin(angle))
            assert result[place, pair].item() == pytest.approx(number.real, abs=1e-5)
            assert result[place, pair + 32].item() == pytest.approx(number.imag, abs=1e-5)


def test_a_rotary_score_depends_on_distance_alone() -> None:
    """Of the second half of a text, one layer's pattern depends on the distances alone."""
    model, ids = make("rotary", layers=1), some(2, 16)
    name = "blocks.0.attention.pattern"
    attention = model.blocks[0].attention
    with watching(model, "blocks.0.attention.queries", "blocks.0.attention.keys") as seen:
        model(torch.cat([ids, ids], 1))
    q, k = seen["blocks.0.attention.queries"], seen["blocks.0.attention.keys"]
    assert not torch.allclose(q[..., :16, :], q[..., 16:, :], atol=0.1)
    later = attention.weights(q[..., 16:, :], k[..., 16:, :], None)
    with watching(model, name) as seen:
        model(ids)
    # The angles have 24 bits and reach 32.
    size = (q.norm(dim=-1).max() * k.norm(dim=-1).max() / math.sqrt(HEAD_DIM)).item()
    assert_close(later, seen[name], 32 * FLOAT32 * size)


# Hooks

PLACES = [f"residual_{place}" for place in ("before", "between", "after")]
PLACES += [f"attention.{place}" for place in ("queries", "keys", "values", "pattern", "mixed")]


@each_task
@each_kind_of_positions
def test_what_passes(positions: str, causal: bool) -> None:
    model, length = make(positions, causal=causal), 20
    ids = some(3, length)
    with watching(model, "*") as seen:
        watched = model(ids)
    assert_close(watched, model(ids))
    assert set(seen) == {f"blocks.{layer}.{place}" for layer in (0, 1) for place in PLACES}

    embedded = model.tokens(ids)
    if positions == "learned":
        embedded = embedded + model.positions.weight[:length]
    assert torch.equal(seen["blocks.0.residual_before"], embedded)
    assert torch.equal(seen["blocks.0.residual_after"], seen["blocks.1.residual_before"])
    last = seen["blocks.1.residual_after"]
    assert_close(model.norm(last) @ model.tokens.weight.mT, watched)

    for layer, block in enumerate(model.blocks):
        q, k, v, pattern, mixed = (seen[f"blocks.{layer}.{place}"] for place in PLACES[3:])
        assert q.shape == k.shape == v.shape == (3, 2, length, HEAD_DIM)
        assert_close(pattern.sum(-1), torch.ones(3, 2, length).double())
        above = pattern[..., torch.ones(length, length).triu(1).bool()]
        assert (above == 0).all() if causal else (above > 0).all()
        assert_close(mixed, (pattern @ v).transpose(1, 2).flatten(2))
        before, between, after = (seen[f"blocks.{layer}.{place}"] for place in PLACES[:3])
        assert_close(between, before + block.attention.out(mixed))
        wide = block.mlp_up(block.mlp_norm(between))
        assert_close(after, between + block.mlp_down(F.gelu(wide, approximate="tanh")))


def test_only_what_was_asked_for_is_collected() -> None:
    model = make()
    with watching(model, "blocks.*.attention.pattern", "blocks.1.residual_after") as seen:
        model(some())
    assert sorted(seen) == [
        "blocks.0.attention.pattern",
        "blocks.1.attention.pattern",
        "blocks.1.residual_after",
    ]


def test_what_is_collected_holds_no_graph() -> None:
    model = GPT(make().config, vocabulary=VOCABULARY, causal=True)
    with watching(model, "*") as seen:
        assert model(some()).requires_grad
    assert not any(passed.requires_grad for passed in seen.values())


def test_a_hook_replaces_what_passes() -> None:
    model, ids = make(), some()
    last = model.blocks[-1].residual_after
    handle = last.register_forward_hook(lambda *passed: torch.zeros_like(passed[-1]))
    try:
        zeroed = model(ids)
    finally:
        handle.remove()
    expected = model.norm(torch.zeros(model.config.width).double()) @ model.tokens.weight.mT
    assert_close(zeroed, expected.expand_as(zeroed))

    # With nothing but itself to look at, each position takes its own value.
    attention = model.blocks[0].attention
    handle = attention.pattern.register_forward_hook(
        lambda *passed: torch.eye(CONTEXT).to(passed[-1]).expand_as(passed[-1])
    )
    try:
        with watching(model, "blocks.0.attention.values", "blocks.0.attention.mixed") as seen:
            model(ids)
    finally:
        handle.remove()
    values = seen["blocks.0.attention.values"].transpose(1, 2).flatten(2)
    assert_close(seen["blocks.0.attention.mixed"], values)


def test_nobody_watches_any_more() -> None:
    model = make()
    places = [module for module in model.modules() if isinstance(module, Hook)]
    with watching(model, "*"):
        assert all(place._forward_hooks for place in places)
    assert not any(place._forward_hooks for place in places)
    with pytest.raises(ZeroDivisionError), watching(model, "*"):
        raise ZeroDivisionError
    assert not any(place._forward_hooks for place in places)


# Learning


@cache
def tokenizer(kind: str) -> Tokenizer:
    if kind == "words":
        return WordTokens.commonest(VOCABULARY)
    return BPE.train(VOCABULARY, ranges=[(2, 10**6)], lines=64)


def text(kind: str, rows: int) -> Tensor:
    ids = tokenizer(kind).encode(words(10**6, 10**6 + 4 * rows * CONTEXT))
    return torch.from_numpy(ids[: rows * CONTEXT].astype(np.int64)).view(rows, CONTEXT)


@each_task
@each_kind_of_positions
def test_a_new_model_knows_nothing(positions: Any, causal: bool) -> None:
    torch.manual_seed(0)
    config = GPTConfig(layers=3, heads=3, context=CONTEXT, positions=positions)
    model = GPT(config, vocabulary=VOCABULARY, causal=causal)
    ids = text("words", 16)
    loss = F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    assert loss.item() == pytest.approx(math.log(VOCABULARY), abs=0.1)


@pytest.mark.parametrize(
    ("kind", "positions", "causal"),
    [("words", "learned", True), ("bpe", "rotary", True), ("words", "rotary", False)],
)
def test_a_batch_is_learnt_by_heart(kind: str, positions: Any, causal: bool) -> None:
    torch.manual_seed(0)
    ids = text(kind, 6)
    read, asked, answers = ids[:, :-1], None, ids[:, 1:]
    if not causal:
        asked = torch.rand(ids.shape).argsort(1)[:, :5]
        read, answers = ids.scatter(1, asked, VOCABULARY), ids.gather(1, asked)
    config = GPTConfig(layers=2, heads=2, context=CONTEXT, positions=positions)
    model = GPT(config, vocabulary=VOCABULARY + (not causal), causal=causal)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses = []
    while not losses or losses[-1] > 0.1:
        assert len(losses) < 300, losses[::50]
        loss = F.cross_entropy(model(read, asked).flatten(0, 1), answers.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > 3
    # Every parameter takes part.
    assert all(parameter.grad.any() for parameter in model.parameters())
