"""Optimizers: what Muon makes of a matrix, side by side with PyTorch's, and the learning rate."""

import math
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from arithmetext.models.gpt import GPT, GPTConfig
from arithmetext.training.config import TrainingConfig
from arithmetext.training.optimizers import Muon, learning_rate, make_optimizers, orthogonal

LR, DECAY = 0.02, 0.1
SHAPES = ((64, 64), (32, 128), (128, 32), (192, 64))
each_shape = pytest.mark.parametrize("shape", SHAPES, ids=str)
any_shape = pytest.mark.parametrize("shape", [*SHAPES, (7, 5), (1, 9)], ids=str)
each_optimizer = pytest.mark.parametrize("optimizer", ["adamw", "muon"])
each_kind_of_positions = pytest.mark.parametrize("positions", ["learned", "rotary"])


def training(optimizer: Any = "adamw", **others: Any) -> TrainingConfig:
    options: dict[str, Any] = {"steps": 10, "batch": 64, "lr": LR, "weight_decay": DECAY}
    return TrainingConfig(optimizer=optimizer, **(options | others))


def model_of(positions: Any = "learned", layers: int = 2, heads: int = 1) -> GPT:
    torch.manual_seed(0)
    config = GPTConfig(layers=layers, heads=heads, context=8, positions=positions)
    return GPT(config, vocabulary=11, causal=True).double()


def random(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def conditioned(rows: int, columns: int, seed: int) -> Tensor:
    """A matrix whose singular values go from 1 to 1/20."""
    u, _, v = torch.linalg.svd(random(rows, columns, seed=seed), full_matrices=False)
    return u * torch.logspace(0, math.log10(1 / 20), min(rows, columns)).double() @ v


def cosine(one: Tensor, other: Tensor) -> float:
    return ((one * other).sum() / (one.norm() * other.norm())).item()


def rms(x: Tensor) -> float:
    return x.square().mean().sqrt().item()


def relative(one: Tensor, other: Tensor) -> float:
    return ((one - other).norm() / other.norm()).item()


# Orthogonal matrices


@any_shape
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e6])
def test_singular_values_become_one(shape: tuple[int, int], scale: float) -> None:
    matrices = torch.stack([conditioned(*shape, seed) for seed in range(4)]) * scale
    results = orthogonal(matrices)
    assert results.shape == matrices.shape
    values = torch.linalg.svdvals(results)
    assert 0.6 < values.min() < values.max() < 1.3


@any_shape
def test_the_result_is_near_the_polar_factor(shape: tuple[int, int]) -> None:
    for seed in range(4):
        for matrix in (conditioned(*shape, seed), random(*shape, seed=seed)):
            u, _, v = torch.linalg.svd(matrix, full_matrices=False)
            [result] = orthogonal(matrix[None])
            assert cosine(result, u @ v) > 0.9
            # The singular vectors stay; nothing but their values changes.
            turned = u.mT @ result @ v.mT
            assert relative(turned.diag().diag(), turned) < 1e-9


@any_shape
def test_matrices_of_a_batch_are_strangers(shape: tuple[int, int]) -> None:
    matrices = torch.stack([random(*shape, seed=seed) * 10**seed for seed in range(3)])
    together = orthogonal(matrices)
    for matrix, result in zip(matrices, together, strict=True):
        torch.testing.assert_close(orthogonal(matrix[None])[0], result)


def test_a_transposed_matrix_has_a_transposed_result() -> None:
    matrix = random(1, 48, 16)
    torch.testing.assert_close(orthogonal(matrix.mT), orthogonal(matrix).mT)


def test_nothing_stays_nothing() -> None:
    assert not orthogonal(torch.zeros(2, 4, 6)).any()


def test_the_argument_is_left_alone() -> None:
    matrix = random(1, 8, 8)
    kept = matrix.clone()
    orthogonal(matrix)
    assert torch.equal(matrix, kept)


# Steps of Muon


def parameter(shape: tuple[int, int], seed: int = 100) -> nn.Parameter:
    return nn.Parameter(random(*shape, seed=seed))


@each_shape
def test_updates_have_the_size_of_those_of_adamw(shape: tuple[int, int]) -> None:
    """0.2 times the rate; less by what the iteration leaves below one."""
    p = parameter(shape)
    muon = Muon([(p, 1)], lr=LR, weight_decay=0.0)
    for step in range(5):
        before = p.detach().clone()
        p.grad = random(*shape, seed=step) * 10**step
        muon.step()
        assert rms(p.detach() - before) == pytest.approx(0.2 * LR, rel=0.25)


@each_shape
def test_steps_are_those_of_pytorch(
    shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch computes in bfloat16, which some processors cannot multiply: not so here."""
    monkeypatch.setattr(Tensor, "bfloat16", Tensor.clone)
    ours, theirs = parameter(shape), parameter(shape)
    start = ours.detach().clone()
    muon = Muon([(ours, 1)], lr=LR, weight_decay=DECAY)
    reference = torch.optim.Muon(
        [theirs],
        lr=LR,
        weight_decay=DECAY,
        momentum=0.95,
        nesterov=True,
        ns_steps=5,
        adjust_lr_fn="match_rms_adamw",
    )
    for step in range(8):
        ours.grad = random(*shape, seed=step)
        theirs.grad = ours.grad.clone()
        for optimizer in (muon, reference):
            optimizer.param_groups[0]["lr"] = LR * (1 - step / 10)
            optimizer.step()
        # They divide by a norm in slightly other ways.
        assert relative(ours.detach() - start, theirs.detach() - start) < 1e-6
    torch.testing.assert_close(
        muon.state[ours]["momentum"], reference.state[theirs]["momentum_buffer"]
    )


def test_queries_keys_and_values_are_three_matrices() -> None:
    whole = parameter((3 * 16, 16))
    thirds = [nn.Parameter(third.clone()) for third in whole.detach().chunk(3)]
    as_one = nn.Parameter(whole.detach().clone())
    optimizers = [
        Muon([(whole, 3)], lr=LR, weight_decay=DECAY),
        Muon([(third, 1) for third in thirds], lr=LR, weight_decay=DECAY),
        Muon([(as_one, 1)], lr=LR, weight_decay=DECAY),
    ]
    for step in range(3):
        # Their gradients differ in size.
        gradient = random(3, 16, 16, seed=step) * torch.tensor([1.0, 9.0, 100.0])[:, None, None]
        gradient = gradient.flatten(0, 1)
        whole.grad, as_one.grad = gradient.clone(), gradient.clone()
        for third, part in zip(thirds, gradient.chunk(3), strict=True):
            third.grad = part.clone()
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(whole.detach(), torch.cat([t.detach() for t in thirds]))
    change, other = (p.detach() - random(3 * 16, 16, seed=100) for p in (whole, as_one))
    assert relative(change, other) > 0.1
    for part in change.chunk(3):
        assert rms(part) == pytest.approx(rms(change), rel=0.1)


def test_matrices_of_all_shapes_go_together() -> None:
    """The result for each is as if it were alone, also where one has no gradient."""
    shapes = [(16, 16), (16, 64), (16, 16), (64, 16), (48, 16), (16, 16)]
    together = [parameter(shape, seed) for seed, shape in enumerate(shapes)]
    alone = [parameter(shape, seed) for seed, shape in enumerate(shapes)]
    optimizers = [Muon([(p, 1) for p in together], lr=LR, weight_decay=DECAY)]
    optimizers += [Muon([(p, 1)], lr=LR, weight_decay=DECAY) for p in alone]
    for step in range(3):
        for place, (p, q) in enumerate(zip(together, alone, strict=True)):
            idle = place == 2 and step != 1
            p.grad = None if idle else random(*p.shape, seed=10 * step + place)
            q.grad = None if idle else random(*p.shape, seed=10 * step + place)
        for optimizer in optimizers:
            if optimizer.param_groups[0]["params"][0].grad is not None:
                optimizer.step()
    for p, q in zip(together, alone, strict=True):
        torch.testing.assert_close(p.detach(), q.detach())


# Which parameter goes where


@each_optimizer
@each_kind_of_positions
def test_every_parameter_is_in_one_group(optimizer: str, positions: str) -> None:
    model = model_of(positions)
    optimizers = make_optimizers(model, training(optimizer))
    kinds = [type(each) for each in optimizers]
    assert kinds == ([torch.optim.AdamW] if optimizer == "adamw" else [Muon, torch.optim.AdamW])
    places: dict[nn.Parameter, list[tuple[type, float]]] = {p: [] for p in model.parameters()}
    for each in optimizers:
        for group in each.param_groups:
            assert group["lr"] == LR
            for p in group["params"]:
                places[p].append((type(each), group["weight_decay"]))
    for name, p in model.named_parameters():
        inside = name.startswith("blocks.") and p.ndim == 2
        kind = Muon if inside and optimizer == "muon" else torch.optim.AdamW
        assert places[p] == [(kind, DECAY if p.ndim == 2 else 0.0)], name
    assert ("positions.weight" in dict(model.named_parameters())) == (positions == "learned")


@pytest.mark.parametrize("heads", [1, 3])
def test_only_queries_keys_and_values_are_divided(heads: int) -> None:
    model = model_of(heads=heads)
    muon, _ = make_optimizers(model, training("muon"))
    assert isinstance(muon, Muon)
    names = {p: name for name, p in model.named_parameters()}
    divided = {names[p]: parts for p, parts in muon.parts.items()}
    assert divided == {
        f"blocks.{layer}.{name}.weight": 3 if name == "attention.qkv" else 1
        for layer in range(2)
        for name in ("attention.qkv", "attention.out", "mlp_up", "mlp_down")
    }


@each_optimizer
@each_kind_of_positions
def test_matrices_decay_and_vectors_do_not(optimizer: str, positions: str) -> None:
    model = model_of(positions)
    before = {name: p.detach().clone() + 1 for name, p in model.named_parameters()}
    for name, p in model.named_parameters():
        p.data = before[name].clone()
        p.grad = torch.zeros_like(p)
    for each in make_optimizers(model, training(optimizer)):
        each.step()
    for name, p in model.named_parameters():
        expected = before[name] * (1 - LR * DECAY) if p.ndim == 2 else before[name]
        torch.testing.assert_close(p.detach(), expected, atol=1e-6, rtol=1e-6)


@each_optimizer
def test_every_parameter_moves_about_as_far(optimizer: str) -> None:
    model = model_of()
    optimizers = make_optimizers(model, training(optimizer, weight_decay=0.0))
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    for step in range(20):
        for place, p in enumerate(model.parameters()):
            p.grad = random(*p.shape, seed=1000 * step + place)
        for each in optimizers:
            each.step()
    # Steps in all directions: √20 of them together, and those of momentum are longer.
    for name, p in model.named_parameters():
        assert 0.2 < rms(p.detach() - before[name]) / (LR * 0.2 * math.sqrt(20)) < 10, name


def test_adamw_is_that_of_pytorch() -> None:
    model = model_of()
    [adamw] = make_optimizers(model, training())
    assert isinstance(adamw, torch.optim.AdamW)
    for group in adamw.param_groups:
        assert group["betas"] == (0.9, 0.95)
        assert group["eps"] == 1e-8
        assert not group["amsgrad"]


@each_optimizer
def test_a_model_learns(optimizer: str) -> None:
    model = model_of(layers=1)
    ids = torch.randint(11, (8, 9), generator=torch.Generator().manual_seed(0))
    optimizers = make_optimizers(model, training(optimizer, lr=0.01, weight_decay=0.0))
    losses = []
    for _ in range(40):
        logits = model(ids[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        model.zero_grad()
        loss.backward()
        for each in optimizers:
            each.step()
        losses.append(loss.item())
    assert losses[0] > 2.2
    assert losses[-1] < 0.7


# The learning rate


@given(st.integers(1, 400), st.integers(0, 500), st.floats(1e-8, 1e3))
def test_the_rate_rises_and_falls(steps: int, warmup: int, lr: float) -> None:
    config = training(steps=steps, warmup=warmup, lr=lr)
    rates = [learning_rate(step, config) for step in range(steps)]
    rising = min(warmup, steps)
    assert rates[:rising] == pytest.approx([lr * (step + 1) / rising for step in range(rising)])
    assert min(rates) > 0
    assert max(rates) == pytest.approx(lr)
    if rising:
        assert rates[rising - 1] == pytest.approx(lr)
    falling = rates[rising:]
    if falling:
        assert falling[0] == lr
        assert all(a > b for a, b in pairwise(falling))
        # A half-period of the cosine: symmetric about its middle, and zero one step later.
        for step, rate in enumerate(falling):
            angle = math.pi * step / len(falling)
            assert rate == pytest.approx(lr * (0.5 + math.cos(angle) / 2))
        assert falling[-1] <= lr * (math.pi / len(falling)) ** 2 / 4 or len(falling) == 1
        assert learning_rate(steps, config) == pytest.approx(0, abs=1e-12 * lr)


def test_the_rate_by_hand() -> None:
    config = training(steps=8, warmup=4, lr=1.0)
    half = math.sqrt(0.5) / 2
    expected = [0.25, 0.5, 0.75, 1, 1, 0.5 + half, 0.5, 0.5 - half]
    assert [learning_rate(step, config) for step in range(8)] == pytest.approx(expected)


@pytest.mark.parametrize("warmup", [10, 11, 1000])
def test_a_warm_up_as_long_as_the_run(warmup: int) -> None:
    config = training(steps=10, warmup=warmup, lr=1.0)
    rates = [learning_rate(step, config) for step in range(10)]
    assert rates == pytest.approx([(step + 1) / 10 for step in range(10)])
