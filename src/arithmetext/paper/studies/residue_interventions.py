"""Does the model use the residues that probes read? (not in the paper)"""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import Estimate
from ...evaluation.interventions import (
    CONDITIONS,
    DOSES,
    EVERYTHING,
    HELD,
    NEXT_WORD,
    NEXT_WORDS,
    RANDOM,
    RESIDUES,
    Intervention,
    InterventionSettings,
    intervention_responses,
    moduli,
    summarise,
)
from ...evaluation.seeds import averaged
from ...integers import format_integer
from ..figures import plot_estimates, styles
from ..runs import TEST_NEAR, TrainedModel, TrainingFacts, several_seeds, word_model
from ..study import Table, Verdict
from ..wording import cell, format_estimate, format_percent, join, models_in_words, sentences

TITLE = "Does the model use the residues that probes read?"
ORDER = 221
COST = {"laptop": 30, "gpu": 1800}


@dataclass(frozen=True)
class Settings:
    models: tuple[TrainedModel, ...]
    interventions: InterventionSettings


@dataclass(frozen=True)
class Result:
    primes: list[Intervention]
    interventions: InterventionSettings
    training: TrainingFacts
    seeds: int  # models that were trained with different seeds


def settings(scale: str) -> Settings:
    small = scale == "laptop"
    return Settings(
        several_seeds(word_model(scale), scale),
        InterventionSettings(
            primes=(2, 3, 5, 7, 11, 13),
            at=TEST_NEAR,
            layers=(2, 3, 4, 5) if small else (2, 4, 6, 8, 10),
            detailed=4 if small else 8,
            windows=20 if small else 256,
            tested=10 if small else 100,
            blocks=10,
            positions=16 if small else 32,
            seeds=3,
        ),
    )


def run(settings: Settings) -> Result:
    how, models = settings.interventions, settings.models
    found = [summarise(model.outputs(intervention_responses, how), how) for model in models]
    return Result(averaged(found), how, models[0].training(), len(models))


def _at_detailed(result: Result, prime: Intervention, condition: str) -> Estimate:
    how = result.interventions
    return prime.conditions[condition][how.layers.index(how.detailed)]


def used(result: Result, condition: str) -> list[int]:
    """The primes where a condition moves predictions over twice as far as random directions."""
    return [
        each.prime
        for each in result.primes
        if (_at_detailed(result, each, condition).low or 0.0)
        > 2 * max(0.0, _at_detailed(result, each, RANDOM[condition]).high or 0.0)
    ]


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(12, 8.4), layout="constrained")
    axes = figure.subplot_mosaic([["conditions", "others"], ["layers", "doses"]])
    _plot_conditions(axes["conditions"], result)
    _plot_others(axes["others"], result)
    _plot_layers(axes["layers"], result)
    _plot_doses(axes["doses"], result)
    return figure


_SHOWN = (*RESIDUES, NEXT_WORD, EVERYTHING, HELD["with 4"])


def _plot_conditions(axes: Axes, result: Result) -> None:
    x, width = np.arange(len(result.primes)), 0.8 / len(_SHOWN)
    for k, (name, style) in enumerate(zip(_SHOWN, _prime_styles(), strict=False)):
        at = x + width * (k - (len(_SHOWN) - 1) / 2)
        style |= {"ls": "", "ms": 4}
        shares = [_at_detailed(result, each, name) for each in result.primes]
        plot_estimates(axes, at, shares, label=name, **style)
        if name in RANDOM:
            random = [_at_detailed(result, each, RANDOM[name]) for each in result.primes]
            label = "random directions, as many" if name == NEXT_WORD else None
            axes.plot(at, [each.value or 0.0 for each in random], "x", color="0.5", label=label)
    axes.set_xticks(x, [str(each.prime) for each in result.primes])
    axes.axhline(0, color="black", lw=0.6)
    axes.set_xlabel("prime")
    axes.set_ylabel(f"share of the response, layer {result.interventions.detailed}")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=7, title="replaced")


def _plot_others(axes: Axes, result: Result) -> None:
    shares = np.array(
        [[np.nan if e.value is None else e.value for e in each.others] for each in result.primes]
    )
    axes.imshow(shares, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    for row, column in np.argwhere(np.isfinite(shares)):
        value = shares[row, column]
        colour = "white" if value > 0.5 else "black"
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=9, color=colour)
    names = [str(each.prime) for each in result.primes]
    axes.set_xticks(range(len(names)), names)
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="response to this prime", ylabel="“with 4” replaced for this prime")


def _plot_layers(axes: Axes, result: Result) -> None:
    layers = result.interventions.layers
    for each, style in zip(result.primes, _prime_styles(), strict=False):
        style |= {"ms": 4, "label": f"p = {each.prime}"}
        plot_estimates(axes, layers, each.conditions["with 4"], **style)
        axes.plot(
            layers,
            [estimate.value or 0.0 for estimate in each.conditions[EVERYTHING]],
            color=style["color"],
            lw=0.6,
            alpha=0.6,
        )
    axes.set_xticks(layers)
    axes.set(xlabel="replaced after this layer", ylim=(-0.05, 1.05))
    axes.set_ylabel("share of the response: “with 4” (thin: “everything”)")
    axes.grid(alpha=0.3)


def _plot_doses(axes: Axes, result: Result) -> None:
    doses = sorted([0.0, 1.0, *DOSES])
    for each, style in zip(result.primes, _prime_styles(), strict=False):
        by_dose = dict(zip(DOSES, each.doses, strict=True))
        by_dose |= {0.0: Estimate(0.0, 0.0, 0.0), 1.0: _at_detailed(result, each, "with 4")}
        style |= {"ms": 4, "label": f"p = {each.prime}"}
        plot_estimates(axes, doses, [by_dose[dose] for dose in doses], **style)
    axes.axvline(1, color="0.6", lw=0.8)
    axes.set_xlabel("dose: this much of the difference is added")
    axes.set_ylabel(f"share of the response, layer {result.interventions.detailed}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def _prime_styles() -> list[dict[str, object]]:
    return [*styles(), *({**style, "mfc": "white"} for style in styles())]


def _values(result: Result, condition: str) -> str:
    shares = [_at_detailed(result, each, condition).value or 0.0 for each in result.primes]
    return join(format_percent(share) for share in shares)


def largest_crosstalk(result: Result) -> float:
    """The largest share of the response to one prime when another is changed."""
    shares = (
        each.others[column].value or 0.0
        for row, each in enumerate(result.primes)
        for column in range(len(result.primes))
        if column != row
    )
    return max(map(abs, shares))


def in_short(result: Result) -> str:
    primes = [each.prime for each in result.primes]
    layer = result.interventions.detailed
    unused = [p for p in primes if p not in used(result, "with 4")]
    held = max(_at_detailed(result, each, HELD["with 4"]).value or 0.0 for each in result.primes)
    return sentences(
        f"For p = {join(map(str, primes))}, after layer {layer}: replacing what a probe for"
        f" n mod {join(str(each.power) for each in result.primes)} reads moves predictions towards"
        f" the other residue by {_values(result, 'residue')} of the model's own response; what a"
        f" probe for n mod {join(str(moduli(p)[2]) for p in primes)} reads, by"
        f" {_values(result, 'with 4')}; what a probe for the next word reads, by"
        f" {_values(result, NEXT_WORD)}.",
        f"For p = {join(map(str, unused))}, the second of these effects is not clearly above twice"
        " that of random directions."
        if unused
        else "",
        "If what the probe for the next word reads is held, the second of these effects is at most"
        f" {format_percent(held)}.",
        "What the second probe reads moves the response to another prime by at most"
        f" {format_percent(largest_crosstalk(result))}.",
    )


def caption(result: Result) -> str:
    how = result.interventions
    return sentences(
        f"At one position of a window near {format_integer(how.at)}, part of the residual stream"
        " is replaced by that of a second window, which is like the first modulo every prime power"
        " up to 19 except those of p. Response: how far the prediction moves towards the words that"
        " an oracle gives for the second window's residue, in log-probability; 1 is the response of"
        " the model that reads the second window.",
        f"{how.tested} windows from {how.blocks} blocks of unseen text, up to {how.positions}"
        " positions in each, where the two next integers differ in the exponent of p and of no"
        f" other prime up to 19; {how.seeds} sets of"
        f" {how.windows} windows from the training text for the probes; 95 % intervals over blocks"
        f" and, where probes are used, over sets. {models_in_words(result.seeds)}",
        "Top left: what was replaced. “residue”: the directions that a probe for n mod p reads (for"
        " 2 and 3: n mod 16 and n mod 9). “with parity”, “with 4”, “with an odd prime”: for n mod"
        f" 2p, 4p, and 3p (5p for 3). “next word”: for the word of n + 1, in {NEXT_WORDS} classes."
        " “word held”: without what the probe for the next word reads. Crosses: as many random"
        " directions, drawn anew for every set, prime and layer.",
        "Top right: the response to the prime of the column when “with 4” is replaced for the prime"
        " of the row, at positions where the latter keeps its exponent (2 never does).",
        "Bottom left: by layer. Bottom right: if more or less than the whole difference is added.",
    )


def table(result: Result) -> Table:
    how = result.interventions
    header = ["prime", "replaced", *(f"layer {layer}" for layer in how.layers)]
    rows: list[list[object]] = []
    for each in result.primes:
        for condition in CONDITIONS:
            shares = each.conditions[condition]
            rows.append([each.prime, condition, *(format_estimate(share, 2) for share in shares)])
        right = [cell(share.value) for share in each.right]
        both = f"{cell(each.right_here.value)} without, {cell(each.right_there.value)} reading it"
        rows.append([each.prime, f"likeliest word of the other residue: {both}", *right])
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    """None: the paper does not look inside the model."""
    return []
