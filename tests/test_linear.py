"""Probes in closed form against the same formulas in numpy."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from arithmetext.evaluation import linear
from arithmetext.evaluation.linear import (
    Moments,
    classifier,
    leace,
    oblique,
    random_projection,
    regression,
)

Floats = NDArray[np.float64]


@pytest.fixture
def exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Almost no regularisation, as in the formulas."""
    monkeypatch.setattr(linear, "RIDGE", 1e-12)


def moments(x: Tensor, y: Tensor, batches: int = 3) -> Moments:
    found = Moments(x.shape[1], y.shape[1], torch.device("cpu"))
    for features, targets in zip(x.chunk(batches), y.chunk(batches), strict=True):
        found.add(features, targets)
    return found


def labelled(
    seed: int, groups: tuple[int, ...], *, samples: int = 600, width: int = 6
) -> tuple[Tensor, Tensor]:
    """Correlated features that say something of each label, and one-hot labels, [samples, …]."""
    random = torch.Generator().manual_seed(seed)
    labels = [torch.randint(m, (samples,), generator=random) for m in groups]
    y = torch.cat(
        [torch.nn.functional.one_hot(r, m) for r, m in zip(labels, groups, strict=True)], 1
    )
    mixing, centres = (torch.randn(n, width, generator=random) for n in (width, y.shape[1]))
    return torch.randn(samples, width, generator=random) @ mixing + y.float() @ centres, y


def columns(groups: tuple[int, ...]) -> list[slice]:
    return [slice(a, b) for a, b in pairwise(np.cumsum([0, *groups]).tolist())]


@settings(max_examples=25)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=6),
    st.sampled_from([0.0, 1e3]),
    st.integers(0, 2**32),
)
def test_moments_do_not_depend_on_the_batches(sizes: list[int], mean: float, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    x = (mean + torch.randn(sum(sizes), 5, generator=random, dtype=torch.float64)).float()
    y = torch.randn(sum(sizes), 3, generator=random)
    found = Moments(5, 3, torch.device("cpu"))
    for features, targets in zip(x.split(sizes), y.split(sizes), strict=True):
        found.add(features, targets)
    a, b = x.double().numpy(), y.double().numpy()
    both = np.cov(a, b, rowvar=False, bias=True) if len(a) > 1 else np.zeros((8, 8))
    assert found.count == len(a)
    np.testing.assert_allclose(found.mean, a.mean(0), atol=1e-4, rtol=1e-6)
    np.testing.assert_allclose(found.target_mean, b.mean(0), atol=1e-6)
    np.testing.assert_allclose(found.covariance(), both[:5, :5], atol=1e-5)
    np.testing.assert_allclose(found.cross_covariance(), both[:5, 5:], atol=1e-5)


@pytest.mark.usefixtures("exact")
def test_regression_is_least_squares() -> None:
    random = torch.Generator().manual_seed(0)
    x = 7 + torch.randn(200, 6, generator=random)
    y = torch.randn(200, 4, generator=random) + x[:, :4] ** 2
    found = regression(moments(x, y))
    a = np.column_stack([x, np.ones(200)]).astype(np.float64)
    solution, *_ = np.linalg.lstsq(a, y.double().numpy(), rcond=None)
    other = torch.randn(50, 6, generator=random)
    expected = np.column_stack([other, np.ones(50)]) @ solution
    np.testing.assert_allclose(found(other), expected, atol=1e-3, rtol=1e-4)


def discriminants(x: Floats, labels: NDArray[np.int64], classes: int, test: Floats) -> Floats:
    """Logarithms of shares times normal densities of equal covariance, up to a constant."""
    means = np.stack([x[labels == k].mean(0) for k in range(classes)])
    pooled = (x - means[labels]).T @ (x - means[labels]) / len(x)
    inverse, shares = np.linalg.inv(pooled), np.bincount(labels) / len(x)
    off = test[:, None] - means
    return np.log(shares) - np.einsum("nkw,wv,nkv->nk", off, inverse, off) / 2


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("groups", [(2,), (5,), (3, 4), (2, 3, 4)])
def test_classifier_is_linear_discriminant_analysis(groups: tuple[int, ...]) -> None:
    x, y = labelled(1, groups)
    test, _ = labelled(2, groups, samples=100)
    logits = classifier(moments(x, y), groups)(test)
    for part, classes in zip(columns(groups), groups, strict=True):
        labels = y[:, part].argmax(1).numpy()
        expected = discriminants(x.double().numpy(), labels, classes, test.double().numpy())
        ours = torch.log_softmax(logits[:, part].double(), 1)
        theirs = torch.log_softmax(torch.from_numpy(expected), 1)
        torch.testing.assert_close(ours, theirs, atol=2e-3, rtol=2e-3)


def test_a_class_without_samples_is_hardly_ever_the_answer() -> None:
    x, y = labelled(3, (3,))
    wider = torch.cat([y, torch.zeros_like(y[:, :1])], 1)
    logits, without = classifier(moments(x, wider), [4])(x), classifier(moments(x, y), [3])(x)
    assert logits.isfinite().all()
    torch.testing.assert_close(logits[:, :3], without, atol=1e-3, rtol=1e-3)
    assert (logits.argmax(1) == 3).float().mean() < 0.02


def published(x: Floats, y: Floats) -> Floats:
    """Belrose et al. (2023), Theorem 4.2: W⁺ P W, with W = Σ^(−1/2), P onto the span of W Σ_xz."""
    x, y = x - x.mean(0), y - y.mean(0)
    values, vectors = np.linalg.eigh(x.T @ x / len(x))
    whitening = vectors / np.sqrt(values) @ vectors.T
    seen = whitening @ (x.T @ y / len(x))
    result: Floats = np.linalg.pinv(whitening) @ (seen @ np.linalg.pinv(seen, 1e-4)) @ whitening
    return result


@pytest.mark.usefixtures("exact")
@pytest.mark.parametrize("part", [0, 1])
def test_leace_is_the_published_projection(part: int) -> None:
    groups = 4, 3
    x, y = labelled(4, groups)
    chosen = columns(groups)[part]
    expected = published(x.double().numpy(), y[:, chosen].double().numpy())
    np.testing.assert_allclose(leace(moments(x, y), chosen), expected, atol=2e-4)


@settings(max_examples=25)
@given(st.integers(2, 5), st.integers(0, 2**32))
def test_leace_removes_every_linear_trace(classes: int, seed: int) -> None:
    """Whatever the regularisation; the indicators of classes add up to 1, so one is no news."""
    x, y = labelled(seed, (classes,))
    projection = leace(moments(x, y), slice(0, classes)).double()
    torch.testing.assert_close(projection @ projection, projection, atol=1e-4, rtol=1e-4)
    assert projection.trace().item() == pytest.approx(classes - 1, abs=1e-3)
    x = x.double()
    rest = x - (x - x.mean(0)) @ projection.mT
    found = (rest - rest.mean(0)).mT @ (y.double() - y.double().mean(0)) / len(x)
    assert found.abs().max() < 1e-5 * x.std()


def test_rounding_adds_no_direction() -> None:
    """With float32 activations the indicators of classes add up to 1 only nearly."""
    x, y = labelled(5, (61,), samples=20_000, width=128)
    x[:, :64] *= 100
    assert leace(moments(x, y, 100), slice(0, 61)).trace().item() == pytest.approx(60, abs=0.01)


def test_oblique_keeps_the_directions_and_drops_what_has_no_covariance_with_them() -> None:
    random = torch.Generator().manual_seed(0)
    root = torch.randn(8, 8, generator=random, dtype=torch.float64)
    covariance = root @ root.mT
    directions = torch.randn(8, 3, generator=random, dtype=torch.float64)
    dependent = torch.cat([directions, directions[:, :1] - directions[:, 1:2]], 1)
    projection = oblique(covariance, dependent).double()
    torch.testing.assert_close(projection @ directions, directions, atol=1e-4, rtol=1e-4)
    others = torch.linalg.qr(torch.linalg.solve(covariance, directions), "complete").Q[:, 3:]
    assert (projection @ others).abs().max() < 0.02
    assert projection.trace().item() == pytest.approx(3, abs=1e-4)


def test_random_projections_also_of_features_that_depend_on_each_other() -> None:
    x, _ = labelled(6, (2,))
    covariance = torch.cov(torch.cat([x, x[:, :3]], 1).mT.double())  # of 9 features, rank 6
    random = torch.Generator().manual_seed(0)
    first, second = (random_projection(covariance, 4, random) for _ in range(2))
    for each in (first, second):
        assert each.trace().item() == pytest.approx(4, abs=1e-3)
        torch.testing.assert_close(each @ each, each, atol=1e-2, rtol=1e-2)
    assert (first - second).abs().max() > 0.1
