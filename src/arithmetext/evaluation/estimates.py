"""Numbers with their 95 % confidence intervals: the bootstrap over prompts, and Wilson's."""

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from math import exp, hypot, inf, pi, sqrt, tan
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

RESAMPLES = 1000
LEVEL = 0.95
Z = NormalDist().inv_cdf((1 + LEVEL) / 2)
FEW = 10  # with fewer prompts that have a hit, or a miss, a bootstrap of a rate is too narrow


class Estimate(NamedTuple):
    """A number and its confidence interval; all None if unknown."""

    value: float | None
    low: float | None
    high: float | None


UNKNOWN = Estimate(None, None, None)


def ratio(numerators: Any, denominators: Any = None) -> Estimate:
    """The sum of the numerators over the sum of the denominators, or the mean if there are none.

    The interval is a bootstrap over prompts: 1000 resamples, the same ones for equal numbers of
    prompts.
    """
    numerator = np.asarray(numerators, np.float64)
    denominator = (
        np.ones_like(numerator) if denominators is None else np.asarray(denominators, np.float64)
    )
    if not denominator.sum() or not np.isfinite(numerator).all():
        return UNKNOWN
    weights = resamples(len(numerator))
    divisors = weights @ denominator
    positive = divisors > 0  # a resample may have nothing to divide by
    ratios = (weights @ numerator)[positive] / divisors[positive]
    low, high = np.quantile(ratios, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(float(numerator.sum() / denominator.sum()), float(low), float(high))


def rate(hits: NDArray[Any], among: NDArray[Any]) -> Estimate:
    """The share of hits over all seeds and prompts, [seeds, prompts] each.

    The interval is a bootstrap over prompts, which have the same text for every seed, widened by
    the spread over seeds. Where fewer than `FEW` prompts have a hit, or a miss, it is too narrow.
    Then the interval also covers Wilson's, for the places of one seed.
    """
    by_seed = [h / a for h, a in zip(hits.sum(1), among.sum(1), strict=True) if a]
    value, low, high = with_seed_spread(ratio(hits.sum(0), among.sum(0)), by_seed)
    _, least, greatest = wilson(float(hits.sum()) / len(hits), float(among.sum()) / len(hits))
    if low is None or high is None or least is None or greatest is None:
        return UNKNOWN
    right, wrong = hits.sum(0), (among - hits).sum(0)
    if min(np.count_nonzero(right), np.count_nonzero(wrong)) < FEW:
        low, high = min(low, least), max(high, greatest)
    return Estimate(value, max(0.0, low), min(1.0, high))


def over_prompts(statistic: Callable[..., NDArray[np.float64]], *models: NDArray[Any]) -> Estimate:
    """A statistic of counts, [seeds, prompts, ...] for each model, summed over the prompts.

    `statistic` takes an array [samples, ...] for each model and returns [samples]; NaN is unknown.
    The bootstrap draws the same prompts for all models (a paired bootstrap). Its resamples are
    moved to have the value as their mean, because those of a maximum are too high. The spread over
    the seeds of each model widens the interval.
    """
    prompts = models[0].shape[1]
    weights = np.vstack([np.ones(prompts), resamples(prompts)])
    sums = [np.tensordot(weights, counts.mean(0), 1) for counts in models]
    value, *drawn = statistic(*sums).tolist()
    known = np.array(drawn)[np.isfinite(drawn)]
    if not np.isfinite(value):
        return UNKNOWN
    found = around(value, known)
    for i, counts in enumerate(models):
        others = [np.repeat(each[:1], len(counts), 0) for each in sums]
        by_seed = statistic(*others[:i], counts.sum(1), *others[i + 1 :])
        found = with_seed_spread(found, by_seed[np.isfinite(by_seed)].tolist())
    return found


def share_of(hits: NDArray[np.float64], among: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shares for `over_prompts`; NaN where there is nothing to divide by."""
    shares: NDArray[np.float64] = np.divide(
        hits, among, out=np.full(np.shape(hits), np.nan), where=among > 0
    )
    return shares


def mean_and_error(values: NDArray[np.float64]) -> tuple[float, float]:
    """The mean and its standard error."""
    return float(values.mean()), float(np.std(values, ddof=1) / sqrt(len(values)))


def over_seeds_and_blocks(values: Any, blocks: int) -> Estimate:
    """The mean of a quantity of prompts, [seeds, prompts], measured with each trained model.

    Prompt k is from block k % blocks of the text; NaN marks prompts without a value. The interval
    adds, in quadrature, Student's t intervals for the mean over blocks and for the mean over seeds.
    So it holds for other text of this scale and for other seeds. It is unknown if a block or a seed
    has no value.

    >>> print(format_estimate(over_seeds_and_blocks([[0.3, 0.5, 0.4, 0.4]], 4)))
    0.400 [0.270, 0.530]
    """
    table = np.asarray(values, np.float64)
    columns = [table[:, block::blocks] for block in range(blocks)]
    if any(np.isnan(part).all() for part in (*columns, *table)):
        return UNKNOWN
    by_block = [float(np.nanmean(column)) for column in columns]
    mean, half = float(np.mean(by_block)), _t_half_width(by_block)
    return with_seed_spread(Estimate(mean, mean - half, mean + half), np.nanmean(table, 1).tolist())


def statistic_over_blocks(
    statistic: Callable[..., Any], columns: Sequence[Any], blocks: int
) -> Estimate:
    """Any smooth statistic of quantities of prompts, [seeds, prompts] each.

    As in `over_seeds_and_blocks`, prompt k is from block k % blocks, and the interval holds for
    other text and for other seeds. Its part for the text is the jackknife: the statistic without
    each block in turn. It is infinite for one block. The estimate is unknown if the statistic has
    no value for all prompts, or without a block.
    """
    tables = [np.asarray(column, np.float64) for column in columns]
    prompts = tables[0].shape[1]
    assert prompts % blocks == 0, "every block has the same number of prompts"
    others = [np.arange(prompts) % blocks != block for block in range(blocks) if blocks > 1]
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(statistic(*tables))
        without = [float(statistic(*(table[:, chosen] for table in tables))) for chosen in others]
        by_seed = [
            float(statistic(*(table[[i]] for table in tables))) for i in range(len(tables[0]))
        ]
    if not np.isfinite([value, *without]).all():
        return UNKNOWN
    half = _t_half_width([blocks * value - (blocks - 1) * each for each in without])
    known = [each for each in by_seed if np.isfinite(each)]
    return with_seed_spread(Estimate(value, value - half, value + half), known)


def ratio_over_blocks(numerators: Any, denominators: Any, blocks: int) -> Estimate:
    """The sum of the numerators over the sum of the denominators, [seeds, prompts] each.

    The interval is that of `statistic_over_blocks`.

    >>> print(format_estimate(ratio_over_blocks([[1, 3, 2, 2]], [[4, 4, 4, 4]], 4)))
    0.500 [0.175, 0.825]
    """
    return statistic_over_blocks(lambda a, b: a.sum() / b.sum(), [numerators, denominators], blocks)


def with_seed_spread(estimate: Estimate, by_seed: Sequence[float]) -> Estimate:
    """The same estimate with an interval that also holds for models trained with other seeds.

    `by_seed` has the quantity for each seed. Student's t interval for their mean is added in
    quadrature; with one seed nothing is known about others, and nothing is added.
    """
    value, low, high = estimate
    if value is None or low is None or high is None or len(by_seed) < 2:
        return estimate
    spread = _t_half_width(by_seed)
    return Estimate(value, value - hypot(value - low, spread), value + hypot(high - value, spread))


def _t_half_width(values: Sequence[float]) -> float:
    """Half of Student's t interval for the mean of independent values; infinite for one value."""
    if len(values) < 2:
        return inf
    _, error = mean_and_error(np.array(values))
    return t_quantile(len(values) - 1) * error


@lru_cache(None)
def t_quantile(freedom: int) -> float:
    """The 97.5 % quantile of Student's t distribution with `freedom` degrees of freedom.

    >>> round(t_quantile(2), 3), round(t_quantile(9), 3)
    (4.303, 2.262)
    """
    # With x = tan(angle) √freedom, the density is proportional to cos(angle)^(freedom - 1).
    angles = np.linspace(0, pi / 2, 200_001)
    density = np.cos(angles) ** (freedom - 1)
    below = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    angle = float(np.interp(LEVEL, below / below[-1], angles))
    return tan(angle) * sqrt(freedom)


def ratio_of_geometric_means(
    values: Sequence[float], others: Sequence[float], *alike: Sequence[float]
) -> Estimate:
    """How many times larger some positive numbers are than others, such as those of several seeds.

    The interval is Student's t for the difference of the mean logarithms of two independent
    samples with equal variance. Further samples, `alike`, add to what is known of this variance. A
    sample may be a single number; of single numbers only, nothing is known, and the interval is
    infinite.

    >>> print(format_estimate(ratio_of_geometric_means([200, 220], [100, 110])))
    2.000 [1.497, 2.673]
    """
    samples = [np.log(sample) for sample in (values, others, *alike)]
    a, b, *_ = samples
    ratio, freedom = float(np.exp(a.mean() - b.mean())), sum(len(each) - 1 for each in samples)
    if not freedom:
        return Estimate(ratio, 0.0, inf)
    variance = sum(float(((each - each.mean()) ** 2).sum()) for each in samples) / freedom
    factor = exp(t_quantile(freedom) * sqrt(variance * (1 / len(a) + 1 / len(b))))
    return Estimate(ratio, ratio / factor, ratio * factor)


def share(hits: Any, among: Any = None) -> Estimate:
    """The share of prompts with a hit, among all prompts or the prompts where `among` is true.

    The interval is Wilson's: where none or all are hits, the bootstrap would have no width. A hit
    may count one half.
    """
    chosen = np.asarray(hits, np.float64)
    if among is not None:
        chosen = chosen[np.asarray(among, bool)]
    return wilson(float(chosen.sum()), len(chosen))


def wilson(hits: float, n: float) -> Estimate:
    """The share `hits / n` with Wilson's score interval.

    >>> print(format_estimate(wilson(0, 10)))
    0.000 [0.000, 0.278]
    """
    if not n:
        return UNKNOWN
    p = hits / n
    centre, width = p + Z**2 / (2 * n), Z * sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
    scale = 1 + Z**2 / n
    # Rounding must not push a bound past the share itself, or beyond 0 and 1.
    low, high = max(0.0, (centre - width) / scale), min(1.0, (centre + width) / scale)
    return Estimate(p, min(p, low), max(p, high))


def bootstrap(statistic: Callable[..., Any], *samples: NDArray[np.float64]) -> Estimate:
    """Any statistic of samples; each sample is resampled on its own.

    The mean of the resamples is off the value by some bias, and the value is about as far off the
    truth. So the interval is moved by twice this bias, as far as it still contains the value.
    """
    if not all(len(sample) for sample in samples):
        return UNKNOWN
    random = np.random.default_rng(0)
    drawn = [
        statistic(*(random.choice(sample, len(sample)) for sample in samples))
        for _ in range(RESAMPLES)
    ]
    value = float(statistic(*samples))
    return around(value, np.array(drawn), centre=2 * value - float(np.mean(drawn)))


def around(value: float, drawn: NDArray[np.float64], *, centre: float | None = None) -> Estimate:
    """A value with the interval of its resamples, moved to have the value as their mean.

    Or to have `centre` as their mean, as far as the interval still contains the value.
    """
    low, high = np.quantile(drawn, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) - drawn.mean()
    centre = value if centre is None else centre
    return Estimate(value, min(value, centre + float(low)), max(value, centre + float(high)))


def overlaps(estimate: Estimate, least: float | None, greatest: float | None) -> bool:
    """Whether the interval overlaps a range; False if the estimate is unknown."""
    _, low, high = estimate
    if low is None or high is None or least is None or greatest is None:
        return False
    return low <= greatest and high >= least


def within(estimate: Estimate, least: float, greatest: float) -> bool:
    """Whether the whole interval lies in a range; False if the estimate is unknown."""
    _, low, high = estimate
    return low is not None and high is not None and least <= low and high <= greatest


def above(estimate: Estimate, level: float) -> bool:
    """Whether the whole interval is above a level; False if the estimate is unknown."""
    return estimate.low is not None and estimate.low > level


def decided_above(estimate: Estimate, level: float) -> bool | None:
    """Whether the whole interval is above a level; None if the level is inside, or unknown.

    >>> [decided_above(Estimate(0.4, 0.3, 0.5), level) for level in (0.2, 0.6, 0.31)]
    [True, False, None]
    """
    if above(estimate, level):
        return True
    return False if estimate.high is not None and estimate.high <= level else None


def all_decided_above(estimates: Iterable[Estimate], level: float) -> bool | None:
    """True if all intervals are above a level, False if one is below, None if that is not decided.

    >>> low, high, wide = Estimate(1, 0, 2), Estimate(6, 5, 7), Estimate(4, 2, 6)
    >>> [all_decided_above(each, 3) for each in ([high, high], [high, low, wide], [high, wide])]
    [True, False, None]
    """
    return all_of(decided_above(each, level) for each in estimates)


def all_of(outcomes: Iterable[bool | None]) -> bool | None:
    """True if all are, False if one is False, otherwise None."""
    found = list(outcomes)
    return False if False in found else None if None in found else True


def decided_within(estimate: Estimate, least: float, greatest: float) -> bool | None:
    """Whether the whole interval lies in a range; None if it lies there partly, or is unknown.

    >>> [decided_within(Estimate(0.4, 0.3, 0.5), low, 0.6) for low in (0.2, 0.55, 0.31)]
    [True, False, None]
    """
    if within(estimate, least, greatest):
        return True
    return None if estimate.value is None or overlaps(estimate, least, greatest) else False


def format_estimate(estimate: Estimate, digits: int = 3) -> str:
    """
    >>> format_estimate(Estimate(0.426, 0.424, 0.429))
    '0.426 [0.424, 0.429]'
    """
    if estimate.value is None:
        return "not known"
    value, low, high = (f"{number:.{digits}f}" for number in estimate)
    return f"{value} [{low}, {high}]"


def format_beta(beta: float) -> str:
    """An inverse temperature.

    >>> format_beta(3.3), format_beta(inf)
    ('3.3', '∞')
    """
    return "∞" if beta == inf else f"{beta:g}"


@lru_cache(4)
def resamples(prompts: int) -> NDArray[np.float64]:
    """How often each resample draws each prompt, [resamples, prompts]; the same at every call."""
    random = np.random.default_rng(0)
    return random.multinomial(prompts, np.full(prompts, 1 / prompts), RESAMPLES).astype(np.float64)
