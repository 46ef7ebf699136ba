"""Does a model need integers, or do periodic patterns do? (not in the paper)"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ...evaluation.estimates import Estimate, ratio_over_blocks, statistic_over_blocks
from ...evaluation.seeds import averaged
from ...evaluation.surrogate import KINDS, TextSettings, entropy, text_sums
from ...integers import format_integer
from ..figures import plot_estimates, styles
from ..runs import (
    TEST_NEAR,
    TESTS_FAR,
    TrainedModel,
    TrainingFacts,
    several_seeds,
    word_model,
)
from ..study import Table, Verdict
from ..wording import (
    cell,
    format_estimate,
    format_number,
    format_percents,
    models_in_words,
    plural,
    sentences,
)

TITLE = "Does the model need integers, or do periodic patterns do?"
ORDER = 224
COST = {"laptop": 25, "gpu": 900}

TRAINED_ON = ("the real text", "a surrogate")
TESTED_ON = ("the real text", "this surrogate", "another surrogate")
_REAL, _OTHER = 0, 2  # of these

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Pair:
    """Two models that differ in the text that they were trained on, and in nothing else."""

    models: tuple[TrainedModel, TrainedModel]  # as in TRAINED_ON
    surrogates: tuple[int, int]  # the one that the second was trained on, and another one


@dataclass(frozen=True)
class Settings:
    models: tuple[TrainedModel, ...]
    texts: TextSettings
    counted: int  # words of each text that give the loss without context
    pairs: tuple[Pair, ...]  # one for each seed; none on a laptop
    pairs_tested: TextSettings  # at one place; `surrogates` are those of each pair


@dataclass(frozen=True)
class Text:
    """The scores of a model on one text at one place."""

    surrogate: int | None  # its seed; None: the real text
    without_context: float  # nats a word from the frequencies of words alone
    nats: Estimate  # a word
    accuracy: Estimate


@dataclass(frozen=True)
class Kind:
    """Words that the product P of their prime powers up to √n decided alike."""

    share: Estimate
    nats: Estimate


@dataclass(frozen=True)
class Place:
    at: int
    texts: list[Text]  # the real text, then surrogates
    more_nats: Estimate  # a word, on surrogates than on the real text
    more_accuracy: Estimate
    kept: Estimate  # what is gained from context on surrogates, as a share of that on the real text
    kinds: dict[str, tuple[Kind, Kind]]  # in the real text, and in surrogates


@dataclass(frozen=True)
class Transfer:
    """The pairs of models. Lists are by the text of the test, as in TESTED_ON."""

    nats: dict[str, list[Estimate]]  # a word, by the text of the training
    accuracy: dict[str, list[Estimate]]
    more_nats: list[Estimate]  # of the model trained on a surrogate than of the other one
    # Nats a word that another surrogate costs more than the real text, by the text of the training.
    # Unlike `more_nats`, they hardly depend on how far the training of each model came.
    cost: dict[str, Estimate]
    saved: Estimate  # of this cost, by training on a surrogate


@dataclass(frozen=True)
class Result:
    places: list[Place]
    transfer: Transfer | None
    texts: TextSettings
    pairs_tested: TextSettings
    seeds: int  # models of the real text that differ in their seed
    pairs: int  # of models, that differ in their seed
    training: TrainingFacts
    pair_training: TrainingFacts | None


def settings(scale: str) -> Settings:
    """On a laptop there are no pairs: models that it trains in a minute are too weak."""
    small = scale == "laptop"
    seeds = 0 if small else 3
    shorter = (*word_model(scale).changes, "training.steps=3000")
    model = TrainedModel("ntp-paper-rho0.5", shorter)
    return Settings(
        several_seeds(word_model(scale), scale),
        TextSettings((TEST_NEAR, TESTS_FAR[0], TESTS_FAR[-1]), (1, 2, 3), 20 if small else 160, 10),
        1 << 20,
        tuple(
            Pair((real, replace(real, changes=(*real.changes, f"surrogate={own}"))), (own, other))
            for own, real in enumerate(model.with_seeds(seeds), 1)
            for other in [own + seeds]
        ),
        TextSettings((TEST_NEAR,), (), 160, 10),
    )


def run(settings: Settings) -> Result:
    texts, tested = settings.texts, settings.pairs_tested
    pairs = [
        [
            each.outputs(text_sums, replace(tested, surrogates=pair.surrogates))
            for each in pair.models
        ]
        for pair in settings.pairs
    ]
    without_context = [
        [entropy(seed, at, at + settings.counted) for seed in (None, *texts.surrogates)]
        for at in texts.places
    ]
    places, transfer = summarise(
        [model.outputs(text_sums, texts) for model in settings.models],
        without_context,
        texts,
        pairs,
        tested,
    )
    return Result(
        places,
        transfer,
        texts,
        tested,
        len(settings.models),
        len(pairs),
        settings.models[0].training(),
        settings.pairs[0].models[0].training() if settings.pairs else None,
    )


def summarise(
    models: Sequence[dict[str, Values]],
    without_context: Sequence[Sequence[float]],
    texts: TextSettings,
    pairs: Sequence[Sequence[dict[str, Values]]],
    tested: TextSettings,
) -> tuple[list[Place], Transfer | None]:
    """Estimates from the sums of `text_sums`, of each model and of the models of each pair.

    Intervals are over blocks of the text and over seeds.
    """
    places = [
        averaged(
            [
                _place(at, {name: each[i] for name, each in s.items()}, without_context[i], texts)
                for s in models
            ]
        )
        for i, at in enumerate(texts.places)
    ]
    return places, _transfer(pairs, tested.blocks) if pairs else None


def _place(
    at: int, sums: dict[str, Values], without_context: Sequence[float], texts: TextSettings
) -> Place:
    """`sums` are [texts, windows, kinds] each."""
    words, nats, right = (sums[name].sum(-1) for name in ("words", "nats", "right"))
    # Surrogates of all seeds are alike: their words in one window are counted together.
    real, surrogates = (
        {name: each[chosen].sum(0, keepdims=True) for name, each in sums.items()}
        for chosen in (slice(1), slice(1, None))
    )

    def columns(what: str) -> list[Values]:
        return [each[name].sum(-1) for each in (surrogates, real) for name in (what, "words")]

    def kept(a: Values, words: Values, b: Values, words_of_b: Values) -> float:
        gain = np.mean(without_context[1:]) - a.sum() / words.sum()
        return float(gain / (without_context[0] - b.sum() / words_of_b.sum()))

    blocks = texts.blocks
    return Place(
        at,
        [
            Text(
                seed,
                without_context[j],
                ratio_over_blocks(nats[[j]], words[[j]], blocks),
                ratio_over_blocks(right[[j]], words[[j]], blocks),
            )
            for j, seed in enumerate((None, *texts.surrogates))
        ],
        statistic_over_blocks(_difference, columns("nats"), blocks),
        statistic_over_blocks(_difference, columns("right"), blocks),
        statistic_over_blocks(kept, columns("nats"), blocks),
        {
            kind: (_kind(real, k, blocks), _kind(surrogates, k, blocks))
            for k, kind in enumerate(KINDS)
        },
    )


def _transfer(pairs: Sequence[Sequence[dict[str, Values]]], blocks: int) -> Transfer:
    # By the text of the training, then of the test: [2, 3, seeds, windows].
    words, nats, right = (
        np.array([[model[name][0].sum(-1) for model in pair] for pair in pairs]).transpose(
            1, 2, 0, 3
        )
        for name in ("words", "nats", "right")
    )

    def scores(what: Values) -> dict[str, list[Estimate]]:
        return {
            name: [
                ratio_over_blocks(what[i, j], words[i, j], blocks) for j in range(len(TESTED_ON))
            ]
            for i, name in enumerate(TRAINED_ON)
        }

    def sums(trained: int, tested: int) -> list[Values]:
        return [nats[trained, tested], words[trained, tested]]

    return Transfer(
        scores(nats),
        scores(right),
        [
            statistic_over_blocks(_difference, [*sums(1, j), *sums(0, j)], blocks)
            for j in range(len(TESTED_ON))
        ],
        {
            name: statistic_over_blocks(_difference, [*sums(i, _OTHER), *sums(i, _REAL)], blocks)
            for i, name in enumerate(TRAINED_ON)
        },
        statistic_over_blocks(
            lambda *columns: _difference(*columns[:4]) - _difference(*columns[4:]),
            [each for i in (0, 1) for j in (_OTHER, _REAL) for each in sums(i, j)],
            blocks,
        ),
    )


def _difference(a: Values, words: Values, b: Values, words_of_b: Values) -> float:
    return float(a.sum() / words.sum() - b.sum() / words_of_b.sum())


def _kind(sums: dict[str, Values], k: int, blocks: int) -> Kind:
    """`sums` are [1, windows, kinds] each."""
    words = sums["words"]
    return Kind(
        ratio_over_blocks(words[..., k], words.sum(-1), blocks),
        ratio_over_blocks(sums["nats"][..., k], words[..., k], blocks),
    )


def plot(result: Result) -> Figure:
    if result.transfer is None:
        figure = Figure(figsize=(6.2, 4.6), layout="constrained")
        _plot_places(figure.subplots(), result.places)
        return figure
    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1))
    _plot_places(left, result.places)
    _plot_transfer(right, result.transfer)
    return figure


def _plot_places(axes: Axes, places: Sequence[Place]) -> None:
    x = np.arange(len(places))
    width = 0.6 / len(places[0].texts)
    for j, text in enumerate(places[0].texts):
        at = x + width * (j - (len(places[0].texts) - 1) / 2)
        texts = [place.texts[j] for place in places]
        style = styles()[0 if text.surrogate is None else 1] | {"ls": "", "ms": 6}
        label = "the real text" if text.surrogate is None else "surrogates" if j == 1 else None
        plot_estimates(axes, at, [each.nats for each in texts], label=label, **style)
        without = [each.without_context for each in texts]
        known = [each.nats.value or np.nan for each in texts]
        axes.vlines(at, known, without, color=style["color"], lw=0.8, alpha=0.5)
        label = None if j else "without context"
        axes.plot(at, without, "_", color="black", ms=9, label=label)
    axes.set_xticks(x, [format_integer(place.at) for place in places])
    axes.set(xlabel="near", ylabel="nats a word")
    axes.set_xlim(-0.5, len(places) - 0.5)
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=9, loc="lower right")


def _plot_transfer(axes: Axes, transfer: Transfer) -> None:
    for i, (name, style) in enumerate(zip(TRAINED_ON, styles(), strict=False)):
        x = np.arange(len(TESTED_ON)) + 0.2 * (i - 0.5)
        estimates = transfer.nats[name]
        style |= {"ls": "", "ms": 6}
        plot_estimates(axes, x, estimates, label=f"trained on {name}", **style)
        for place, estimate in zip(x, estimates, strict=True):
            if estimate.value is not None:
                side = ("right", -7) if i == 0 else ("left", 7)
                axes.annotate(
                    format_number(estimate.value),
                    (place, estimate.value),
                    xytext=(side[1], 0),
                    textcoords="offset points",
                    ha=side[0],
                    va="center",
                    fontsize=9,
                    color=style["color"],
                )
    axes.set_xticks(range(len(TESTED_ON)), TESTED_ON)
    axes.set_xlim(-0.6, len(TESTED_ON) - 0.4)
    axes.set(xlabel="tested on", ylabel="nats a word")
    axes.margins(y=0.25)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=9, loc="upper left")


def in_short(result: Result) -> str:
    place, transfer = result.places[0], result.transfer
    costs = f"They cost it {format_estimate(place.more_nats)} nats a word more than the real text"
    if transfer is not None:
        real, surrogate = (format_estimate(transfer.cost[name]) for name in TRAINED_ON)
        costs += (
            f"; they cost a small model {real} more if it was trained on the real text, and"
            f" {surrogate} if on another surrogate, {format_estimate(transfer.saved)} less"
        )
    return sentences(
        f"Near {format_integer(place.at)}, {format_percents(place.kept)} of what the model gains"
        " from context remains on surrogates, text with the periods of the integers and no integers"
        " behind it.",
        f"{costs}.",
    )


def caption(result: Result) -> str:
    texts, tested = result.texts, result.pairs_tested
    training, pairs = result.pair_training, plural(result.pairs, "pair")
    return sentences(
        "In a surrogate every prime keeps its period and has a random phase, so prime powers no"
        " longer multiply to n.",
        f"{'Left: nats' if training else 'Nats'} a word of a model trained on the real text, which"
        f" does not know the phases, on the real text and on {len(texts.surrogates)} surrogates;"
        " black marks are the entropy of the frequencies of words, the loss without context."
        f" {models_in_words(result.seeds)}",
        f"Right: {pairs} of small models, each trained on"
        f" {format_integer(training.tokens)} tokens, of the real text or of a surrogate, with all"
        f" else equal, near {format_integer(tested.places[0])}. Each is tested on the real text, on"
        " the surrogate of its pair and on another one."
        if training
        else "",
        f"The words that end in the second half of {texts.windows} windows"
        + f" (right: {tested.windows})" * bool(training)
        + f" from {texts.blocks} blocks of unseen integers are scored, the same integers for every"
        " text. 95 % intervals over blocks"
        + ", and on the right over seeds" * bool(training)
        + ".",
    )


def table(result: Result) -> Table:
    header = [
        "trained on", "near", "tested on", "nats a word", "low", "high", "words right",
        "without context",
    ]  # fmt: skip
    rows: list[list[object]] = []

    def add(trained: str, at: int, tested: str, nats: Estimate, *last: float | None) -> None:
        numbers = [cell(value) for value in (*nats, *last)]
        rows.append([trained, format_integer(at), tested, *numbers])

    real, _ = TRAINED_ON
    for place in result.places:
        for text in place.texts:
            name = real if text.surrogate is None else f"surrogate {text.surrogate}"
            add(real, place.at, name, text.nats, text.accuracy.value, text.without_context)
        more = place.more_accuracy.value
        add(real, place.at, "surrogates − the real text", place.more_nats, more, None)
        for kind, (integers, surrogates) in place.kinds.items():
            for name, each in ("the real text", integers), ("surrogates", surrogates):
                share = format_number(each.share.value, 2)
                add(real, place.at, f"{name}, {kind} ({share} of words)", each.nats, None, None)
    if result.transfer is None:
        return header, rows
    [at] = result.pairs_tested.places
    for trained, estimates in result.transfer.nats.items():
        accuracy = result.transfer.accuracy[trained]
        for tested, nats, right in zip(TESTED_ON, estimates, accuracy, strict=True):
            add(f"{trained} (pair)", at, tested, nats, right.value, None)
        name = f"{TESTED_ON[_OTHER]} − the real text"
        add(f"{trained} (pair)", at, name, result.transfer.cost[trained], None, None)
    both = " − ".join(reversed(TRAINED_ON))
    for tested, extra in zip(TESTED_ON, result.transfer.more_nats, strict=True):
        add(f"{both} (pair)", at, tested, extra, None, None)
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    """None: the paper has no text of this kind."""
    return []
