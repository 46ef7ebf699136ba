"""Linear probes in closed form, fitted from sums over samples.

`Moments` adds up samples of features x and targets y batch by batch, so that memory does not grow
with the number of samples. From the sums follow

- the regression of least squares, ŷ = E[y] + (x − E[x]) B,
- for targets that mark classes (one-hot), the classifier of linear discriminant analysis: all
  classes are taken to be normal with the same covariance. It needs no learning rate and no
  stopping rule, and what it reads is what least squares reads.
- the projection of LEACE (Belrose et al., 2023) onto what the probe reads. It is oblique: of all
  projections that remove every linear trace of y from x, it changes x least.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

RIDGE = 1e-4  # added to the covariance, as a share of each feature's variance
# Singular values below this share of the largest count as zero. Indicators of classes add up to 1,
# so that one singular value is 0: up to 1e-5 by rounding. All others are 1e-3 or more by sampling.
_RANK = 1e-4


class Moments:
    """Counts and sums of features and targets, in float64."""

    def __init__(self, width: int, targets: int, device: torch.device) -> None:
        def zeros(*shape: int) -> Tensor:
            return torch.zeros(shape, dtype=torch.float64, device=device)

        self.count = 0
        self.x, self.y = zeros(width), zeros(targets)
        self.xx, self.xy = zeros(width, width), zeros(width, targets)
        self._origin: Tensor | None = None  # subtracted from the features against rounding

    def add(self, x: Tensor, y: Tensor) -> None:
        """x: [samples, width]; y: [samples, targets]; both are rounded to float32."""
        x, y = x.float(), y.float()
        if self._origin is None:
            self._origin = x.mean(0)
        x = x - self._origin
        self.count += len(x)
        self.x += x.sum(0)
        self.y += y.sum(0)
        self.xx += x.mT @ x
        self.xy += x.mT @ y

    @property
    def mean(self) -> Tensor:
        """Of the features, [width]."""
        assert self._origin is not None, "no samples were added"
        return self.x / self.count + self._origin

    @property
    def target_mean(self) -> Tensor:
        return self.y / self.count

    def covariance(self) -> Tensor:
        """Of the features, [width, width]."""
        mean = self.x / self.count
        return self.xx / self.count - torch.outer(mean, mean)

    def cross_covariance(self) -> Tensor:
        """Of features and targets, [width, targets]."""
        return self.xy / self.count - torch.outer(self.x / self.count, self.target_mean)


@dataclass(frozen=True)
class Affine:
    """(x − origin) weights + bias."""

    origin: Tensor  # [width]
    weights: Tensor  # [width, outputs]
    bias: Tensor  # [outputs]

    def __call__(self, x: Tensor) -> Tensor:
        """x: [..., width]; result: [..., outputs]."""
        return (x.float() - self.origin) @ self.weights + self.bias


def regression(moments: Moments) -> Affine:
    """Least squares for all targets."""
    weights = torch.linalg.solve(_ridge(moments.covariance()), moments.cross_covariance())
    return Affine(moments.mean.float(), weights.float(), moments.target_mean.float())


def classifier(moments: Moments, groups: Sequence[int]) -> Affine:
    """Logits of the classes of each group of targets, by linear discriminant analysis.

    `groups` has the number of classes of each group; the targets of a group are one-hot.
    """
    shares = moments.target_mean.clamp_min(1 / moments.count)  # a class may have no samples
    centres = moments.cross_covariance() / shares  # class means, relative to the mean of all
    # The covariance within the classes of a group is T − M D Mᵀ, with T the covariance of all
    # samples, M the class means and D the shares. By Woodbury's identity, its inverse times M
    # follows from the inverse of T, which all groups share.
    solved = torch.linalg.solve(_ridge(moments.covariance()), centres)
    weights, bias = [], []
    for m, t, d in zip(
        *(torch.split(each, list(groups), -1) for each in (centres, solved, shares)), strict=True
    ):
        overlap = torch.eye(len(d), dtype=d.dtype, device=d.device) - d[:, None] * (m.mT @ t)
        weight = torch.linalg.solve(overlap, t, left=False)
        weights.append(weight)
        bias.append(d.log() - (m * weight).sum(0) / 2)
    return Affine(moments.mean.float(), torch.cat(weights, 1).float(), torch.cat(bias).float())


def leace(moments: Moments, targets: slice) -> Tensor:
    """The projection onto what a linear probe of these targets reads, [width, width].

    For a column vector x, x − P (x − E[x]) has no covariance with the targets.
    """
    return oblique(moments.covariance(), moments.cross_covariance()[:, targets])


def oblique(covariance: Tensor, directions: Tensor) -> Tensor:
    """The projection onto the span of the directions that is orthogonal in the inverse covariance.

    directions: [width, directions]; they may be linearly dependent.
    """
    factor = torch.linalg.cholesky(_ridge(covariance))
    white = torch.linalg.solve_triangular(factor, directions, upper=False)
    basis, sizes, _ = torch.linalg.svd(white, full_matrices=False)
    basis = basis[:, sizes > _RANK * sizes[0]]
    reads = torch.linalg.solve_triangular(factor.mT, basis, upper=True)
    projection: Tensor = factor @ basis @ reads.mT
    return projection.float()


def random_projection(covariance: Tensor, directions: int, random: torch.Generator) -> Tensor:
    """`oblique` for so many random directions, drawn with this covariance."""
    factor = torch.linalg.cholesky(_ridge(covariance))
    drawn = torch.randn(len(covariance), directions, generator=random)
    return oblique(covariance, factor @ drawn.to(covariance))


def _ridge(covariance: Tensor) -> Tensor:
    return covariance + torch.diag(RIDGE * covariance.diagonal() + 1e-12)
