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
from ..wording import cell, format_estimate, join, plural

TITLE = "Is the model an oracle of residues?"
ORDER = 210
COST = {"laptop": 60, "gpu": 180}

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
    oracle_accuracy: float
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
class Place:
    """Continuations of prompts near one integer."""

    at: int
    words: int
    accuracy: float
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

    def noticed_primes(self) -> list[int]:
        """The primes that the model notices by more than one half at every place."""
        primes = zip(*(place.primes for place in self.places), strict=True)
        return [
            at_places[0].prime
            for at_places in primes
            if all((scores.model.noticed.value or 0) > 0.5 for scores in at_places)
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
    by_place, bound = summarise(words, nats, oracles)
    return Result(
        transfer(at, places, bounds, count=settings.integers),
        by_place,
        bound,
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
) -> tuple[list[Place], int]:
    """Compare the words of several seeds at each place with the answers of these oracles.

    Returns the places, and the bound of the oracle whose accuracy is closest to the model's.
    """
    accuracies = [
        (
            {each.bound: _accuracy(_answered(each, pooled)) for each in oracles},
            _accuracy(pooled),
        )
        for pooled in map(pool, words.values())
    ]
    bound = closest_bound(accuracies)
    [best] = [oracle for oracle in oracles if oracle.bound == bound]
    places = [
        Place(
            at,
            sum(len(model.true) for model in models),
            accuracy,
            nats[at],
            [_at_bound(models, oracle, best, by_bound[oracle.bound]) for oracle in oracles],
            [
                _at_prime(models, best, knowing, not_knowing)
                for not_knowing, knowing in pairwise(oracles)
            ],
        )
        for (at, models), (by_bound, accuracy) in zip(words.items(), accuracies, strict=True)
    ]
    return places, bound


def _at_bound(
    models: list[PlacedWords], oracle: RestCounts, best: RestCounts, accuracy: float
) -> BoundScores:
    def compare(words: PlacedWords) -> Agreement:
        return agreement(words, oracle.answers(words.integers))

    return BoundScores(
        oracle.bound, accuracy, _over_seeds(compare, models), compare(_answered(best, models[0]))
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


def _accuracy(words: PlacedWords) -> float:
    return float(np.mean(words.predicted == words.true))


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
        style |= {"ms": 4, "lw": 1, "label": place.name}
        plot_estimates(agreements, bounds, [s.agreement.excess for s in place.bounds], **style)
        plot_estimates(noticed, primes, [s.model.noticed for s in place.primes], **style)
    agreements.set(xlabel="B of an oracle", ylabel="agreement beyond independent errors")
    noticed.set(xlabel="prime p that divides n", ylabel="extra children written where p divides n")
    for each in (agreements, noticed):
        each.set_xscale("log")
        ticks = [1, 2, 3, 5, 7, 11, 19, 31, 61]
        each.set_xticks(ticks, list(map(str, ticks)))
        each.minorticks_off()
        each.axhline(0, color="black", lw=0.6)
        each.grid(alpha=0.3)
        each.legend(title="integers near", fontsize=8, title_fontsize=8)
    noticed.set_xlim(1.8, 67)
    return figure


def _values(estimates: Iterable[Estimate]) -> list[float]:
    return [nan if estimate.value is None else estimate.value for estimate in estimates]


def _plot_transfer(accuracy: Axes, nats: Axes, result: Result) -> None:
    """The oracle that matches the model best, frozen and estimated again, at each place."""
    scores, x = result.transfers_of_best_match(), range(len(result.places))
    for (name, label), style in zip(FROZEN.items(), styles(), strict=False):
        style |= {"ms": 4, "lw": 1, "label": label}
        each = [getattr(score, name) for score in scores]
        accuracy.plot(x, [score.accuracy for score in each], **style)
        nats.plot(x, [score.nats for score in each], **style)
    accuracy.plot(x, [place.accuracy for place in result.places], "k_", ms=14, label="model")
    model: dict[str, Any] = {"color": "black", "linestyle": "", "marker": "_", "ms": 14}
    plot_estimates(nats, list(x), [place.nats for place in result.places], **model)
    for axes, label in ((accuracy, "word accuracy"), (nats, "nats per word")):
        axes.set_xticks(x, [place.name for place in result.places])
        axes.set_ylabel(label)
        axes.grid(alpha=0.3)
    accuracy.legend(fontsize=7)
    accuracy.set_title(f"oracles of B = {result.oracle_bound}", fontsize=9)
    nats.set_xlabel("integers near")


def caption(result: Result) -> str:
    how, bound, last = result.generation, result.oracle_bound, result.transfers_of_best_match()[-1]
    names = [place.name for place in result.places]
    known, unknown = (
        f"{frozen.accuracy - last.re_estimated.accuracy:+.4f} in accuracy and"
        f" {frozen.nats - last.re_estimated.nats:+.3f} nats a word".replace("-", "−")
        for frozen in (last.frozen, last.size_unknown)
    )
    own = join(format_estimate(place.nats) for place in result.places)
    matched = [s.agreement for place in result.places for s in place.bounds if s.bound == bound]
    same, expected = (
        join(f"{value:.3f}" for value in _values(estimates))
        for estimates in ([m.same for m in matched], [m.expected for m in matched])
    )
    noticed = [str(prime) for prime in result.noticed_primes()]
    return (
        f"Left: the oracle of B = {bound}, whose accuracy is closest to the model's. It knows n"
        f" modulo the powers of the primes up to {bound}. It is estimated again at each place, or"
        f" frozen: estimated near {format_integer(result.estimated_at)}, in the training text, on"
        f" {result.integers:,} integers. Near {names[-1]}, freezing makes a difference of"
        f" {known} if the oracle knows the size of n, and of {unknown} if it answers as if n were"
        " an integer of the training text (size unknown). The model's own nats a word are"
        f" {own} near {join(names)}: of the {result.scored_tokens} tokens after"
        f" {result.scored.prompts} prompts of {result.scored.tokens} tokens. Middle and right: the"
        " words of continuations (β = ∞) of"
        f" {how.prompts} prompts of {how.tokens} tokens near each place by as many tokens"
        f" ({plural(result.seeds, 'seed')} of the model; 95 % intervals over {how.blocks} blocks of"
        " the text, and over seeds if there are several). Middle: how often the"
        " model gives the word of the frozen oracle of B that knows the size of n, as (same −"
        " expected) / (1 − expected). Expected is the share if the model's words are shuffled among"
        f" the integers with the same true word. For B = {bound} the same words are {same} of all"
        f" words near {join(names)}; {expected} are expected. Right: if a prime p divides n, the"
        " true word has about one more child at its root on average (dashed, near"
        f" {names[0]}). The panel shows how many more children the model writes where p divides n"
        " than elsewhere in the same continuation: 0 for a model that knows nothing about n modulo"
        " p, about 1 for an oracle that does. The primes with more than"
        f" one half at every place are {join(noticed) if noticed else 'none'}. Grey: the oracle of"
        f" B = {bound} in the place of the model, near {names[0]}."
    )


def table(result: Result) -> Table:
    header = ["integers near", *_interval("model's nats per word"), "B = p"]
    header += [f"oracle {label}: {what}" for label in FROZEN.values() for what in WHAT]
    header += [*_interval("same word"), "expected same", "same wrong word", "expected same wrong"]
    header += [*_interval("excess"), "excess of the best match", "words with p | n"]
    header += [
        *_interval("noticed"),
        "noticed in true words",
        "noticed by the best match",
        *_interval("recall, p | n"),
    ]
    header += ["recall, p ∤ n", "recall, p | n, oracle that knows p"]
    header += ["recall, p | n, oracle that does not"]
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
            more = _prime_cells(prime) if prime else [""] * (len(header) - len(numbers) - 5)
            own = map(cell, place.nats)
            rows.append([place.name, *own, scores.bound, *map(cell, numbers), *more])
    return header, rows


def _interval(name: str) -> list[str]:
    return [name, f"{name}, low", f"{name}, high"]


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
