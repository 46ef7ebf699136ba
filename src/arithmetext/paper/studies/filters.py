"""What do long convolutions learn, and how well do they predict? (not in the paper)"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import Estimate, above, ratio
from ...evaluation.filters import (
    PERIODS,
    PRIMES,
    WindowSettings,
    damage,
    losses_by_context,
    losses_without,
    spectra,
)
from ...evaluation.words import accuracies
from ...integers import format_integer
from ..constants import PAPER_ACCURACY
from ..figures import COLOURS, MARKERS, plot_estimates, styles, token_axis
from ..runs import TEST_NEAR, TESTS_FAR, PromptSettings, TrainedModel, TrainingFacts, word_model
from ..study import Table, Verdict
from ..wording import cell, format_estimate, format_number, join

TITLE = "What do long convolutions learn?"
ORDER = 226
COST = {"laptop": 50}

SPECTRUM = range(2, 102)  # the periods whose power is shown
_WORDS = 256  # generated after each prompt
NAMES = ("long convolutions", "GPT")


@dataclass(frozen=True)
class Settings:
    model: TrainedModel
    gpt: TrainedModel
    places: tuple[int, ...]
    prompts: int
    blocks: int
    scored: WindowSettings  # for the loss by context
    ablated: WindowSettings


@dataclass(frozen=True)
class Place:
    """Continuations of prompts as long as the filters."""

    at: int
    accuracy: Estimate


@dataclass(frozen=True)
class Result:
    places: list[Place]
    nats: list[
        list[Estimate]
    ]  # a word, of the model and the GPT, after 1, 2 to 3, 4 to 7, … tokens
    spectra: list[list[float]]  # for each layer, the power at the periods of SPECTRUM
    removed: list[list[Estimate]]  # nats lost without each of PERIODS, by group of words
    random: list[list[Estimate]]  # the same without as many random frequencies
    words: list[int]  # in each group
    prompts: int
    tokens: int  # of a prompt
    scored: WindowSettings
    ablated: WindowSettings
    training: list[TrainingFacts]  # of the model and of the GPT
    sizes: list[int]  # their parameters


def settings(scale: str) -> Settings:
    small = scale == "laptop"
    return Settings(
        TrainedModel("longconv"),
        word_model(scale),
        (TEST_NEAR, *TESTS_FAR),
        prompts=20 if small else 160,
        blocks=10,
        scored=WindowSettings(TESTS_FAR[0], windows=20 if small else 160, blocks=10, seed=0),
        ablated=WindowSettings(TEST_NEAR, windows=10 if small else 60, blocks=10, seed=0),
    )


def run(settings: Settings) -> Result:
    model, gpt = settings.model, settings.gpt
    tokens = model.config.model.context
    how = PromptSettings(settings.prompts, tokens, stride=1, seed=0, blocks=settings.blocks)
    places = []
    for at in settings.places:
        _, made = model.continuations(at, how, tokens=_WORDS)
        places.append(Place(at, ratio(accuracies(made.predicted, made.true))))
    losses = model.outputs(losses_without, settings.ablated)
    return Result(
        places=places,
        nats=[
            list(map(ratio, scores["nats"], scores["words"]))
            for scores in (
                each.outputs(losses_by_context, settings.scored) for each in (model, gpt)
            )
        ],
        spectra=model.outputs(spectra, tuple(SPECTRUM))["power"].tolist(),
        removed=damage(losses, "removed"),
        random=damage(losses, "random"),
        words=losses["words"].sum(1).astype(int).tolist(),
        prompts=settings.prompts,
        tokens=tokens,
        scored=settings.scored,
        ablated=settings.ablated,
        training=[model.training(), gpt.training()],
        sizes=[model.parameters(), gpt.parameters()],
    )


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(12, 8.6), layout="constrained")
    top, bottom = figure.subplots(2, 2, height_ratios=(1, 1.3))
    _plot_nats(top[0], result)
    _plot_accuracy(top[1], result)
    _plot_spectra(bottom[0], result)
    _plot_damage(bottom[1], result)
    return figure


def _plot_nats(axes: Axes, result: Result) -> None:
    for label, nats, style in zip(NAMES, result.nats, styles(), strict=False):
        plot_estimates(axes, 2 ** np.arange(len(nats)), nats, label=label, ms=4, **style)
    token_axis(axes, [4**k for k in range(7)], "tokens before (at least; less than twice as many)")
    axes.set_ylabel(f"nats per word near {format_integer(result.scored.at)}")
    axes.grid(alpha=0.3)
    axes.legend()


def _plot_accuracy(axes: Axes, result: Result) -> None:
    places = [place.at for place in result.places]
    accuracy = [place.accuracy for place in result.places]
    plot_estimates(axes, places, accuracy, label=NAMES[0], **styles()[0])
    axes.axhline(PAPER_ACCURACY, color="0.5", ls=":", label="the paper's GPT-2, about")
    axes.set_xscale("log")
    axes.set(xlabel="n", ylabel="share of generated words that are right", ylim=(0.3, 0.6))
    axes.grid(alpha=0.3)
    axes.legend()


def _plot_spectra(axes: Axes, result: Result) -> None:
    """Periods that are powers of a prime have markers."""
    periods = np.array(SPECTRUM)
    special = np.array([_prime_power(period) for period in SPECTRUM])
    for k, power in enumerate(result.spectra):
        style: dict[str, Any] = {"color": COLOURS[k % len(COLOURS)]}
        values = np.array(power)
        axes.plot(
            periods[special], values[special], MARKERS[k % 4], ms=4, label=f"layer {k + 1}", **style
        )
        axes.plot(periods[~special], values[~special], ".", ms=3, alpha=0.6, **style)
    axes.axhline(1, color="0.5", ls=":", label="white noise")
    axes.set_xscale("log")
    ticks = (2, 3, 4, 5, 7, 9, 13, 19, 29, 43, 61, 89)
    axes.set_xticks(ticks, list(map(str, ticks)))
    axes.minorticks_off()
    axes.set_xlabel("period q (markers: powers of primes; dots: all others)")
    axes.set_ylabel("power of the filters at j/q in lowest terms")
    axes.legend(fontsize=8)


def _plot_damage(axes: Axes, result: Result) -> None:
    values = np.array([[e.value or 0.0 for e in row] for row in result.removed])
    image = axes.imshow(values, vmin=0, vmax=1, cmap="magma_r", aspect="auto")
    for row, column in np.argwhere(values >= 0.1):
        colour = "white" if values[row, column] > 0.6 else "black"
        text = f"{values[row, column]:.1f}"
        axes.text(column, row, text, ha="center", va="center", fontsize=6, color=colour)
    axes.set_xticks(range(len(PRIMES) + 1), [*map(str, PRIMES), "none"], fontsize=7)
    axes.set_yticks(range(len(PERIODS)), list(map(str, PERIODS)), fontsize=7)
    axes.set(
        xlabel=f"the only prime up to {PRIMES[-1]} that divides n",
        ylabel="period removed from all filters",
    )
    assert axes.figure is not None
    axes.figure.colorbar(image, ax=axes, label="nats lost per word", extend="max")


def _prime_power(q: int) -> bool:
    smallest = next(p for p in range(2, q + 1) if q % p == 0)
    while q % smallest == 0:
        q //= smallest
    return q == 1


def needed(result: Result) -> list[int]:
    """The primes whose period the model needs for their words above all.

    Removing it costs the words of p over 0.05 nats, more than twice what any other removed period
    costs them, and more than twice what removing random frequencies costs them; all for the low
    end of the interval.
    """
    found = []
    for i, p in enumerate(PRIMES):
        others = [row[i].value or 0.0 for k, row in enumerate(result.removed) if k != i]
        random = result.random[i][i].value or 0.0
        if above(result.removed[i][i], max(0.05, 2 * max(others), 2 * random)):
            found.append(p)
    return found


def in_short(result: Result) -> str:
    near, far = result.places[0], result.places[1]
    text = (
        f"Filters over {result.tokens} words instead of attention predict"
        f" {format_estimate(near.accuracy)} of the generated words right near"
        f" {format_integer(near.at)} and {format_estimate(far.accuracy)} near"
        f" {format_integer(far.at)}."
    )
    primes = needed(result)
    if not primes:
        return f"{text} No prime depends on its own period alone."
    own = [result.removed[PRIMES.index(p)][PRIMES.index(p)].value or 0.0 for p in primes]
    return (
        f"{text} What counts in the filters are combs: without the period of one of the primes"
        f" {join(map(str, primes))}, words that this prime divides, and no other up to"
        f" {PRIMES[-1]}, cost {format_number(min(own), 2)} to {format_number(max(own), 2)} nats"
        " more, over twice as much as without any other period."
    )


def caption(result: Result) -> str:
    model, gpt = (
        f"{size / 1e6:.1f} M parameters, {facts.tokens / 1e6:.0f} M tokens of training"
        for size, facts in zip(result.sizes, result.training, strict=True)
    )
    windows = result.scored
    return (
        "Top left: the loss by the number of tokens read, of the model with long convolutions"
        f" ({model}) and of a GPT ({gpt}"
        f"), near {format_integer(windows.at)} ({windows.windows} windows; their tokenizers"
        f" differ in size). Top right: {result.prompts} prompts of {result.tokens} tokens at each"
        f" place, continued by {_WORDS} tokens, always the likeliest. Bottom left: the power of the"
        " filters at the frequencies j/q in lowest terms, relative to all frequencies: a filter"
        " that adds up words at multiples of q has high power there. Bottom right: the nats that"
        f" words cost more near {format_integer(result.ablated.at)} if everything with one period"
        " is removed from the filters of all layers; a column has the integers n whose only prime"
        f" up to {PRIMES[-1]} is that one ({min(result.words):,} to {max(result.words):,} words)."
        " One model of each kind, with one seed; 95 % intervals over prompts and windows."
    )


def table(result: Result) -> Table:
    header = ["period removed", "nats lost where its prime alone divides n", "random frequencies",
              "most in another column", "words"]  # fmt: skip
    rows: list[list[str | int | float | None]] = []
    for i, period in enumerate(PERIODS):
        others = [e.value or 0.0 for k, e in enumerate(result.removed[i]) if k != i]
        own, random = result.removed[i][i], result.random[i][i]
        rows.append([period, cell(own.value), cell(random.value), max(others), result.words[i]])
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    """None: the paper has no such model."""
    return []
