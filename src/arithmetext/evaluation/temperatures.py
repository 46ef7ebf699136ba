"""The quality of continuations at several inverse temperatures β, and the best β."""

from collections.abc import Sequence
from dataclasses import dataclass

from ..models.language import LanguageModel
from .estimates import Estimate, intervals_overlap
from .evaluate import Quality, quality
from .generation import continue_prompts
from .prompts import TextPrompts


@dataclass(frozen=True)
class BetaQuality(Quality):
    """The continuations at one inverse temperature."""

    beta: float

    def estimate(self, measure: str) -> Estimate:
        """The estimate of a measure by its name."""
        estimate: Estimate = getattr(self, measure)
        return estimate

    def merit(self, measure: str) -> float:
        """Higher is better. The best divergence is 0; a sum that leaves out words may be below."""
        value = self.estimate(measure).value or 0
        return value if measure == "accuracy" else -abs(value)


def quality_by_beta(
    model: LanguageModel,
    prompts: TextPrompts,
    count: int,
    betas: Sequence[float],
    *,
    seed: int,
    stride: int,
) -> list[BetaQuality]:
    """Continue the prompts by `count` tokens at each β."""
    rows = []
    for beta in betas:
        continuations = continue_prompts(model, prompts, count, beta=beta, seed=seed, stride=stride)
        rows.append(BetaQuality(**vars(quality(continuations)), beta=beta))
    return rows


@dataclass(frozen=True)
class BestBeta:
    """The β with the best value of a measure, and all β whose intervals overlap its interval."""

    beta: float
    as_good: list[float]


def best_beta(rows: Sequence[BetaQuality], measure: str) -> BestBeta:
    best = max(rows, key=lambda row: row.merit(measure))
    interval = best.estimate(measure)
    as_good = [row.beta for row in rows if intervals_overlap(row.estimate(measure), interval)]
    return BestBeta(best.beta, as_good)
