"""Is the model an oracle that knows the residues of n modulo small primes? (not in the paper)"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from math import nan
from typing import Any, TypeVar

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.divisors import (
    Agreement,
    Divisibility,
    PlacedWords,
    accuracy,
    agreement,
    divisibility,
    place_words,
    pool,
)
from ...evaluation.estimates import Estimate, with_seed_spread
from ...evaluation.horizon import PromptScores, nats_per_word
from ...integers import format_integer
from ...search.residues import (
    RestCounts,
    TransferScores,
    closest_bound,
    estimate,
    primes_up_to,
    transfer,
)
from ..figures import plot_estimates, styles
from ..runs import (
    SCORED_TOKENS,
    TEST_NEAR,
    TESTS_FAR,
    PromptSettings,
    TrainedModel,
    TrainingFacts,
    ntp,
    prompt_settings,
    scoring_settings,
    several_seeds,
)
from ..study import Table, Verdict
from ..wording import cell, format_estimate, format_number, interval_header, sentences

TITLE = "Is the model an oracle of residues?"
ORDER = 210
COST = {"laptop": 12, "gpu": 180}

ESTIMATED_AT = 97 * 10**9  # in the last of the paper's training ranges

FROZEN = {"re_estimated": "estimated again", "frozen": "frozen", "size_unknown": "size unknown"}
WHAT = ("accuracy", "nats")


@dataclass(frozen=True)
class Settings:
    models: tuple[TrainedModel, ...]  # one for each seed
    places: tuple[int, ...]
    generation: PromptSettings
    scored: PromptSettings  # the prompts whose next tokens are scored in nats
    scored_tokens: int
    bounds: tuple[int, ...]  # of the oracles: 1 and the first primes
    estimated_at: int  # where the frozen oracles are estimated
    integers: int  # that oracles are estimated on, and scored on


@dataclass(frozen=True)
class BoundScores:
    """The model beside the oracle that knows the primes up to a bound."""

    bound: int
    agreement: Agreement
    best_match: Agreement  # of the oracle that matches the model best, with this oracle


@dataclass(frozen=True)
class PrimeScores:
    """The words of integers that a prime divides."""

    prime: int
    model: Divisibility
    truth: Divisibility  # of the true words
    best_match: Divisibility  # of the oracle that matches the model best
    knowing: Divisibility  # of the oracle that knows the primes up to this one
    not_knowing: Divisibility  # of the oracle that knows the primes before this one


@dataclass(frozen=True)
class Recall:
    """The share of right words where one or more of these primes divide n, at all places."""

    primes: list[int]
    model: Estimate
    best_match: Estimate  # of the oracle that matches the model best


@dataclass(frozen=True)
class Place:
    """Continuations of prompts near one integer."""

    at: int
    words: int
    accuracy: Estimate
    nats: Estimate  # of the model, per word, given the true words before it
    bounds: list[BoundScores]
    primes: list[PrimeScores]

    @property
    def name(self) -> str:
        return format_integer(self.at)


@dataclass(frozen=True)
class Result:
    transfers: dict[int, list[TransferScores]]  # by place, an entry for each bound
    places: list[Place]
    oracle_bound: int  # of the oracle whose accuracy is closest to the model's
    recall: list[Recall]  # for the primes up to this bound, and for those above it
    seeds: int
    training: TrainingFacts
    generation: PromptSettings
    scored: PromptSettings
    scored_tokens: int
    estimated_at: int
    integers: int

    def transfers_of_best_match(self) -> list[TransferScores]:
        """The oracle that matches the model best, at each place."""
        return [
            score
            for scores in self.transfers.values()
            for score in scores
            if score.frozen.bound == self.oracle_bound
        ]


def settings(scale: str) -> Settings:
    return Settings(
        several_seeds(ntp(scale), scale),
        (TEST_NEAR, *TESTS_FAR),
        prompt_settings(scale),
        scoring_settings(scale),
        SCORED_TOKENS,
        (1, *primes_up_to(61).tolist()),
        ESTIMATED_AT,
        2**22 if scale == "laptop" else 2**24,
    )


def run(settings: Settings) -> Result:
    at, places, bounds = settings.estimated_at, settings.places, settings.bounds
    words: dict[int, list[PlacedWords]] = {place: [] for place in places}
    scores: dict[int, list[PromptScores]] = {place: [] for place in places}
    for model in settings.models:  # one after the other, so that they need not be loaded again
        for place in places:
            prompts, made = model.continuations(place, settings.generation)
            words[place].append(
                place_words(prompts.integers, made.predicted, made.true, prompts.blocks)
            )
            scores[place].append(model.scores(place, settings.scored, settings.scored_tokens)[1])
    # Prompts near the last place lie within 2 % of it.
    oracles = estimate(at, at + settings.integers, bounds, below=max(places) * 51 // 50)
    nats = {place: nats_per_word(scores[place], settings.scored.blocks) for place in places}
    by_place, bound, recall = summarise(words, nats, oracles)
    return Result(
        transfer(at, places, bounds, count=settings.integers),
        by_place,
        bound,
        recall,
        len(settings.models),
        settings.models[0].training(),
        settings.generation,
        settings.scored,
        settings.scored_tokens,
        at,
        settings.integers,
    )


def summarise(
    words: dict[int, list[PlacedWords]],
    nats: dict[int, Estimate],
    oracles: Sequence[RestCounts],
) -> tuple[list[Place], int, list[Recall]]:
    """Compare the words of several seeds at each place with the answers of these oracles.

    Returns the places, the bound of the oracle whose accuracy is closest to the model's, and the
    recall for the primes up to this bound and above it.
    """
    accuracies = [
        (
            {each.bound: _mean_accuracy(_answered(each, pooled)) for each in oracles},
            _mean_accuracy(pooled),
        )
        for pooled in map(pool, words.values())
    ]
    bound = closest_bound(accuracies)
    [best] = [oracle for oracle in oracles if oracle.bound == bound]
    places = [
        Place(
            at,
            sum(len(model.true) for model in models),
            _estimate_over_seeds(accuracy, models),
            nats[at],
            [_at_bound(models, oracle, best) for oracle in oracles],
            [
                _at_prime(models, best, knowing, not_knowing)
                for not_knowing, knowing in pairwise(oracles)
            ],
        )
        for at, models in words.items()
    ]
    primes = [oracle.bound for oracle in oracles if oracle.bound > 1]
    below, above = [p for p in primes if p <= bound], [p for p in primes if p > bound]
    seeds = [pool(of_seed) for of_seed in zip(*words.values(), strict=True)]
    return places, bound, [_recall(seeds, best, chosen) for chosen in (below, above)]


def _recall(models: list[PlacedWords], best: RestCounts, primes: list[int]) -> Recall:
    def measure(words: PlacedWords) -> Estimate:
        return accuracy(words, primes)

    oracle = measure(_answered(best, models[0]))
    return Recall(primes, _estimate_over_seeds(measure, models), oracle)


def _at_bound(models: list[PlacedWords], oracle: RestCounts, best: RestCounts) -> BoundScores:
    def compare(words: PlacedWords) -> Agreement:
        return agreement(words, oracle.answers(words.integers))

    return BoundScores(
        oracle.bound,
        _over_seeds(compare, models),
        compare(_answered(best, models[0])),
    )


def _at_prime(
    models: list[PlacedWords], best: RestCounts, knowing: RestCounts, not_knowing: RestCounts
) -> PrimeScores:
    prime, first = knowing.bound, models[0]
    oracles = [divisibility(_answered(o, first), prime) for o in (best, knowing, not_knowing)]
    return PrimeScores(
        prime,
        _over_seeds(lambda words: divisibility(words, prime), models),
        divisibility(replace(first, predicted=first.true), prime),
        *oracles,
    )


def _answered(oracle: RestCounts, words: PlacedWords) -> PlacedWords:
    """The same integers, with the oracle's answers as predictions."""
    return replace(words, predicted=oracle.answers(words.integers))


def _mean_accuracy(words: PlacedWords) -> float:
    return float(np.mean(words.predicted == words.true))


def _estimate_over_seeds(
    measure: Callable[[PlacedWords], Estimate], models: list[PlacedWords]
) -> Estimate:
    """An estimate for all seeds together, with the spread between seeds in its interval."""
    return with_seed_spread(
        measure(pool(models)), [e.value for e in map(measure, models) if e.value is not None]
    )


Scores = TypeVar("Scores", Agreement, Divisibility)


def _over_seeds(measure: Callable[[PlacedWords], Scores], models: list[PlacedWords]) -> Scores:
    """Scores of all seeds together, with the spread between seeds in their intervals."""
    pooled, each = measure(pool(models)), [measure(model) for model in models]
    wider: dict[str, Any] = {
        field.name: with_seed_spread(
            getattr(pooled, field.name), [getattr(one, field.name).value for one in each]
        )
        for field in fields(pooled)
        if isinstance(getattr(pooled, field.name), Estimate)
    }
    return replace(pooled, **wider)


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    axes = figure.subplot_mosaic(
        [["accuracy", "agreement", "noticed"], ["nats", "agreement", "noticed"]],
        width_ratios=(1, 1.3, 1.3),
    )
    _plot_transfer(axes["accuracy"], axes["nats"], result)
    axes["accuracy"].margins(y=0.25)
    agreements, noticed, first = axes["agreement"], axes["noticed"], result.places[0]
    bounds = [scores.bound for scores in first.bounds]
    primes = [scores.prime for scores in first.primes]
    grey: dict[str, Any] = {"color": "0.6", "lw": 5, "alpha": 0.6}
    grey["label"] = f"oracle, B = {result.oracle_bound}"
    agreements.plot(bounds, _values(s.best_match.excess for s in first.bounds), **grey)
    noticed.plot(primes, _values(s.best_match.noticed for s in first.primes), **grey)
    truth = _values(s.truth.noticed for s in first.primes)
    noticed.plot(primes, truth, color="black", lw=1, ls="--", label="true words")
    for place, style in zip(result.places, styles(), strict=True):
        style |= {"ms": 4, "lw": 1, "label": f"model near {place.name}"}
        plot_estimates(agreements, bounds, [s.agreement.excess for s in place.bounds], **style)
        plot_estimates(noticed, primes, [s.model.noticed for s in place.primes], **style)
    agreements.set(xlabel="B of an oracle", ylabel="agreement beyond chance")
    noticed.set(xlabel="prime p that divides n", ylabel="extra children written where p divides n")
    for each in (agreements, noticed):
        each.set_xscale("log")
        ticks = [1, 2, 3, 5, 7, 11, 19, 31, 61]
        each.set_xticks(ticks, list(map(str, ticks)))
        each.minorticks_off()
        each.axhline(0, color="black", lw=0.6)
        each.grid(alpha=0.3)
        each.legend(fontsize=8)
    agreements.set_xlim(0.85, 75)
    noticed.set_xlim(1.7, 75)
    return figure


def _values(estimates: Iterable[Estimate]) -> list[float]:
    return [nan if estimate.value is None else estimate.value for estimate in estimates]


def _plot_transfer(accuracy: Axes, nats: Axes, result: Result) -> None:
    """The oracle that matches the model best, frozen and estimated again, at each place."""
    scores, x = result.transfers_of_best_match(), list(range(len(result.places)))
    for (name, label), style in zip(FROZEN.items(), styles(), strict=False):
        style |= {"ms": 4, "lw": 1, "label": f"oracle, {label}"}
        each = [getattr(score, name) for score in scores]
        accuracy.plot(x, [score.accuracy for score in each], **style)
        nats.plot(x, [score.nats for score in each], **style)
    model: dict[str, Any] = {"color": "black", "linestyle": "", "marker": "_", "ms": 14}
    measured = [place.accuracy for place in result.places]
    plot_estimates(accuracy, x, measured, label="model", **model)
    plot_estimates(nats, x, [place.nats for place in result.places], **model)
    for axes, label in ((accuracy, "word accuracy"), (nats, "nats per word")):
        axes.set_xticks(x, [place.name for place in result.places])
        axes.set_xlim(-0.4, len(x) - 0.6)
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
    accuracy.legend(fontsize=7)
    accuracy.set_title(f"oracles of B = {result.oracle_bound}", fontsize=9)
    nats.set_xlabel("integers near")


def in_short(result: Result) -> str:
    recall = [each for each in result.recall if each.primes][-1]
    return (
        "Of the oracles that know n modulo the powers of the primes up to B, that of B ="
        f" {result.oracle_bound} has the accuracy closest to the model's. Where a prime from"
        f" {recall.primes[0]} to {recall.primes[-1]} divides n,"
        f" {format_number(recall.model.value)} of the model's words are right, and"
        f" {format_number(recall.best_match.value)} of this oracle's."
    )


def caption(result: Result) -> str:
    how, bound, several = result.generation, result.oracle_bound, result.seeds > 1
    models = (
        f"{result.seeds} models with different seeds continue" if several else "One model continues"
    )
    recalls = [_recall_in_words(recall) for recall in result.recall if recall.primes]
    return sentences(
        f"{models} {how.prompts} prompts of {how.tokens} tokens near each place by as many tokens"
        f" (β = ∞; 95 % intervals over {how.blocks} blocks of the text"
        f"{' and over seeds' * several}).",
        f"Left: the oracle of B = {bound}, which knows n modulo every power of every prime up to"
        f" {bound}, and the size of n. Of the frozen oracles it has the accuracy closest to the"
        " model's.",
        "Blue: estimated again near each place. Red: frozen, that is, estimated once in the"
        f" training text near {format_integer(result.estimated_at)}. Green: frozen and not told the"
        f" size of n. Black: the model; its nats are those of the {result.scored_tokens} true"
        f" tokens after {result.scored.prompts} prompts of {result.scored.tokens}.",
        "Middle: how often the model writes the same word as the frozen oracle of B, corrected for"
        " chance: (same − expected) / (1 − expected). Expected: the model's words are shuffled"
        " among integers with the same true word.",
        "Right: how many more children the model's trees have at the root where p divides n than"
        " elsewhere: 0 if it ignores n modulo p, about 1 if it knows it. Dashed: the true words."
        f" Grey, here and in the middle: the oracle of B = {bound} in place of the model. Dashed"
        f" and grey are near {result.places[0].name}.",
        f"Words that are right, at all places together: {'; '.join(recalls)}.",
    )


def _recall_in_words(recall: Recall) -> str:
    return (
        f"where a prime from {recall.primes[0]} to {recall.primes[-1]} divides n,"
        f" {format_estimate(recall.model)} of the model's and {format_estimate(recall.best_match)}"
        " of this oracle's"
    )


def table(result: Result) -> Table:
    header = ["integers near", *interval_header("model's accuracy")]
    header += interval_header("model's nats per word")
    header += ["B = p"]
    header += [f"oracle {label}: {what}" for label in FROZEN.values() for what in WHAT]
    header += [
        *interval_header("same word"),
        "expected same",
        "same wrong word",
        "expected same wrong",
    ]
    header += [
        *interval_header("agreement beyond chance"),
        "agreement beyond chance of the best match",
    ]
    header += ["words where p divides n", *interval_header("extra children where p divides n")]
    header += [f"extra children where p divides n, {who}" for who in ("true words", "best match")]
    header += [*interval_header("accuracy where p divides n"), "accuracy elsewhere"]
    header += [
        f"accuracy where p divides n, oracle that {knows} p" for knows in ("knows", "does not know")
    ]
    rows = []
    for place in result.places:
        primes = [None, *place.primes]  # the bound 1 is no prime
        together = zip(result.transfers[place.at], place.bounds, primes, strict=True)
        for transferred, scores, prime in together:
            found = scores.agreement
            oracles = [
                getattr(getattr(transferred, name), what) for name in FROZEN for what in WHAT
            ]
            numbers = [*oracles, *found.same, found.expected.value, found.same_wrong.value]
            numbers += [found.expected_wrong.value, *found.excess, scores.best_match.excess.value]
            own = [*map(cell, [*place.accuracy, *place.nats]), scores.bound, *map(cell, numbers)]
            more = _prime_cells(prime) if prime else [""] * (len(header) - len(own) - 1)
            rows.append([place.name, *own, *more])
    return header, rows


def _prime_cells(scores: PrimeScores) -> list[float | str]:
    model = scores.model
    numbers = [*model.noticed, scores.truth.noticed.value, scores.best_match.noticed.value]
    numbers += [*model.recall]
    numbers += [model.recall_elsewhere.value]
    numbers += [scores.knowing.recall.value, scores.not_knowing.recall.value]
    return [model.words, *map(cell, numbers)]


def verdicts(result: Result) -> list[Verdict]:
    """None: the paper has no oracles."""
    return []
