"""Can n modulo m be read off the residual stream by a linear probe? (not in the paper)"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.probes import (
    BAG,
    CONTROLS,
    ORDERED,
    POWERS,
    PRIMES,
    UNTRAINED,
    Decoded,
    ProbeSettings,
    position_ranges,
    probe_scores,
    summarise,
)
from ...integers import format_integer
from ..figures import plot_estimates, styles
from ..runs import TEST_NEAR, TESTS_FAR, TrainedModel, TrainingFacts, ntp, word_model
from ..study import Table, Verdict
from ..wording import cell, format_percent, join, sentences

TITLE = "Does the model know n modulo small primes?"
ORDER = 220
COST = {"laptop": 35, "gpu": 120}

_SHOWN = (3, 5, 7, 11, 13, 19)  # primes in the panels of positions and classes


@dataclass(frozen=True)
class Settings:
    models: dict[str, TrainedModel]
    probes: ProbeSettings


@dataclass(frozen=True)
class ModelProbes:
    name: str
    training: TrainingFacts
    ranges: list[tuple[int, int]]  # of positions
    places: dict[int, list[Decoded]]  # for each modulus

    def of_prime(self, prime: int, at: int | None = None) -> Decoded:
        place = self.places[next(iter(self.places)) if at is None else at]
        [found] = [each for each in place if each.modulus == prime]
        return found

    @property
    def primes(self) -> list[Decoded]:
        """At the first place."""
        first = next(iter(self.places.values()))
        return [each for each in first if each.modulus in PRIMES]


@dataclass(frozen=True)
class Result:
    models: list[ModelProbes]
    probes: ProbeSettings


def settings(scale: str) -> Settings:
    models = {"whole words as tokens": word_model(scale)}
    if scale != "laptop":
        models["pieces of words as tokens"] = ntp(scale)
    small = scale == "laptop"
    return Settings(
        models,
        ProbeSettings(
            moduli=PRIMES + POWERS,
            places=(TEST_NEAR, TESTS_FAR[0], TESTS_FAR[-1]),
            windows=20 if small else 512,
            tested=10 if small else 200,
            blocks=10,
            seeds=3,
        ),
    )


def run(settings: Settings) -> Result:
    models = []
    for name, model in settings.models.items():
        arrays, context = model.outputs(probe_scores, settings.probes), model.config.model.context
        models.append(
            ModelProbes(
                name,
                model.training(),
                position_ranges(context),
                {
                    at: summarise(arrays, settings.probes, context, at)
                    for at in settings.probes.places
                },
            )
        )
    return Result(models, settings.probes)


def known_primes(decoded: Sequence[Decoded]) -> list[int]:
    """The primes p for which n mod p is read better than by chance and by every control."""
    return [
        each.modulus
        for each in decoded
        if (each.layers[-1][each.best_layer].low or 0.0)
        > max(each.chance, *(control.high or 1.0 for control in each.controls.values()))
    ]


def next_multiple(decoded: Decoded) -> tuple[float, float]:
    """R² in the last layer: whether the next integer is a multiple, and the mean of other classes.

    The next integer is a multiple of m if n is −1 modulo m.
    """
    *others, last = decoded.explained["class"][-1]
    return last, float(np.mean(others))


def largest_used(decoded: Sequence[Decoded]) -> int:
    """The largest prime up to which the last layer tells whether p divides n + 1: R² above 1/2."""
    used = 1
    for each in decoded:
        if next_multiple(each)[0] <= 0.5:
            break
        used = each.modulus
    return used


def plot(result: Result) -> Figure:
    model = result.models[0]
    figure = Figure(figsize=(13, 8), layout="constrained")
    axes = figure.subplot_mosaic([["map", "primes", "positions"], ["modes", "classes", "used"]])
    _plot_layers(axes["map"], model)
    _plot_primes(axes["primes"], model)
    _plot_positions(axes["positions"], model)
    _plot_modes(axes["modes"], model)
    _plot_classes(axes["classes"], model)
    _plot_used(axes["used"], model)
    return figure


def _skill(accuracy: float | None, chance: float) -> float:
    """0 at chance level, 1 if all is right."""
    return ((accuracy or 0.0) - chance) / (1 - chance)


def _plot_layers(axes: Axes, model: ModelProbes) -> None:
    decoded = next(iter(model.places.values()))
    skills = [[_skill(e.value, each.chance) for e in each.layers[-1]] for each in decoded]
    image = axes.imshow(skills, aspect="auto", vmin=0, vmax=1, cmap="viridis")
    axes.set_yticks(range(len(decoded)), [str(each.modulus) for each in decoded], fontsize=7)
    axes.set_xticks(range(len(skills[0])), ["tokens", *map(str, range(1, len(skills[0])))])
    axes.set(xlabel="layer", ylabel="modulus")
    assert axes.figure is not None
    axes.figure.colorbar(image, ax=axes, label="accuracy above chance (1: always right)")


def _plot_primes(axes: Axes, model: ModelProbes) -> None:
    primes = [each.modulus for each in model.primes]
    for (at, decoded), style in zip(model.places.items(), styles(), strict=False):
        chosen = [each for each in decoded if each.modulus in PRIMES]
        best = [each.layers[-1][each.best_layer] for each in chosen]
        style |= {"ms": 4, "lw": 1, "label": f"model, near {format_integer(at)}"}
        plot_estimates(axes, primes, best, **style)
    greys = {ORDERED: "-", BAG: "--", UNTRAINED: "-."}
    for name, line in greys.items():
        values = [each.controls[name].value or 0.0 for each in model.primes]
        axes.plot(primes, values, color="0.5", lw=1, ls=line, label=name)
    axes.plot(
        primes,
        [each.chance for each in model.primes],
        color="black",
        lw=0.8,
        ls=":",
        label="chance",
    )
    axes.set(
        xscale="log", yscale="log", xlabel="prime p", ylabel="accuracy for n mod p, best layer"
    )
    axes.set_xticks(ticks := [2, 3, 5, 7, 11, 19, 31, 61], list(map(str, ticks)))
    shares = [0.02, 0.05, 0.1, 0.2, 0.5, 1]
    axes.set_yticks(shares, [f"{share:g}" for share in shares])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def _shown_styles() -> list[dict[str, Any]]:
    """A style for each of the shown primes."""
    return [*styles(), *({**style, "mfc": "white", "lw": 0.7} for style in styles())]


def _plot_positions(axes: Axes, model: ModelProbes) -> None:
    names = [f"{a}–{b - 1}" for a, b in model.ranges]
    for prime, style in zip(_shown(model), _shown_styles(), strict=False):
        each = model.of_prime(prime)
        best = [max(row, key=lambda estimate: estimate.value or 0.0) for row in each.layers]
        style |= {"ms": 4, "label": f"p = {prime}"}
        plot_estimates(axes, range(len(names)), best, **style)
    axes.set_xticks(range(len(names)), names)
    axes.set(xlabel="position in the window", ylabel="accuracy for n mod p, best layer")
    axes.set_ylim(0, 1.02)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, ncols=2)


def _shown(model: ModelProbes) -> list[int]:
    return [each.modulus for each in model.primes if each.modulus in _SHOWN]


def _plot_classes(axes: Axes, model: ModelProbes) -> None:
    """R² of the indicator of each class in the last layer, by the distance to the next multiple."""
    for prime, style in zip(_shown(model), _shown_styles(), strict=False):
        classes = model.of_prime(prime).explained["class"][-1]
        distances = list(range(1, prime + 1))  # class p − d is d before a multiple
        style |= {"ms": 4, "label": f"p = {prime}"}
        axes.plot(distances, classes[::-1], **style)
    axes.set(xlabel="distance of n to the next multiple of p", ylabel="R², last layer")
    axes.set_xticks(range(1, 20, 3))
    axes.set_ylim(0, 1)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, ncols=2)


def _plot_modes(axes: Axes, model: ModelProbes) -> None:
    """R² of Fourier modes in the best layer, by frequency; crosses are characters."""
    for prime, style in zip(_shown(model), _shown_styles(), strict=False):
        each = model.of_prime(prime)
        modes = each.explained["frequency"][each.best_layer]
        characters = each.explained["character"][each.best_layer]
        style |= {"ms": 4, "label": f"p = {prime}"}
        axes.plot([k / prime for k in range(1, len(modes) + 1)], modes, **style)
        turns = [j / (prime - 1) for j in range(1, len(characters) + 1)]
        axes.plot(turns, characters, color=style["color"], ls="", marker="x", ms=4, alpha=0.6)
    axes.set(xlabel="frequency k/p (×: of a character)", ylabel="R², best layer", ylim=(0, 1))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, ncols=2)


def _plot_used(axes: Axes, model: ModelProbes) -> None:
    primes = [each.modulus for each in model.primes]
    for (at, decoded), style in zip(model.places.items(), styles(), strict=False):
        both = [next_multiple(each) for each in decoded if each.modulus in PRIMES]
        style |= {"ms": 4, "lw": 1}
        ahead, others = zip(*both, strict=True)
        axes.plot(primes, ahead, label=f"p divides n + 1, near {format_integer(at)}", **style)
        axes.plot(primes, others, alpha=0.45, **style)
    axes.plot([], [], color="0.6", label="other residues of n (mean)")
    axes.set(xscale="log", xlabel="prime p", ylabel="R², last layer", ylim=(-0.05, 1))
    axes.set_xticks(ticks := [2, 3, 5, 7, 11, 19, 31, 61], list(map(str, ticks)))
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def in_short(result: Result) -> str:
    model = result.models[0]
    known, used = known_primes(model.primes), largest_used(model.primes)
    read = (
        "For the primes"
        f" {join(map(str, known))}, a linear probe reads n mod p off the residual stream better"
        " than by chance and than every control, such as the last 16 tokens themselves."
        if known
        else "No linear probe reads n mod p off the residual stream better than all controls."
    )
    # Of two residues, whether n has one says whether it has the other.
    both = [next_multiple(each) for each in model.primes if 2 < each.modulus <= used]
    if not both:
        return read
    ahead, others = (float(np.mean(column)) for column in zip(*both, strict=True))
    return sentences(
        read,
        f"In the last layer, a regression explains {format_percent(ahead)} of the variance of"
        f" whether p divides n + 1, and {format_percent(others)} of that of whether n has another"
        f" residue (means over the primes from 3 to {used}).",
    )


def caption(result: Result) -> str:
    model, how = result.models[0], result.probes
    first = format_integer(next(iter(model.places)))
    others = (
        " The table has a second model, whose tokens are pieces of words."
        if len(result.models) > 1
        else ""
    )
    return sentences(
        "Linear probes (discriminant analysis) for n modulo primes and prime powers, where n is the"
        f" integer whose word was read last; {how.seeds} sets of {how.windows} training windows,"
        f" tested on {how.tested} windows from {how.blocks} blocks of unseen text at each place"
        " (95 % intervals over blocks and sets).",
        f"The model has {model.name} and was trained on"
        f" {format_integer(model.training.tokens)} tokens (one model).{others}",
        "All but the top right panel are of the second half of the window, and all but the top"
        f" middle and the bottom right one of text near {first}.",
        "Top left: 0 is chance level. Top middle: the best layer. Grey: the same probes on the last"
        " 16 tokens in order, on how often each token is among the last 64, and on a model that was"
        " not trained (its best layer). The table also has shuffled labels and the position alone.",
        "Top right: the best layer, by position in the window.",
        "Bottom: R² of regressions. Left: of Fourier modes of n mod p (curves) and of characters"
        " modulo p (crosses) in the best layer. Middle: in the last layer, of whether n has one"
        " residue or not; distance 1 means that p divides n + 1, whose word comes next. Right: of"
        " distance 1 beside the mean of the other distances (pale), for every prime.",
    )


def table(result: Result) -> Table:
    header = [
        "tokens", "near", "modulus", "chance", "accuracy, best layer", "low", "high", "layer",
        *CONTROLS, "R²: p divides n + 1", "R²: other classes", "R²: least Fourier mode",
        "R²: largest Fourier mode", "R²: characters (mean)",
    ]  # fmt: skip
    rows = []
    for model in result.models:
        for at, decoded in model.places.items():
            for each in decoded:
                best = each.layers[-1][each.best_layer]
                ahead, others = next_multiple(each)
                modes = each.explained["frequency"][each.best_layer]
                characters = each.explained.get("character")
                rows.append(
                    [
                        model.name, format_integer(at), each.modulus, round(each.chance, 4),
                        cell(best.value), cell(best.low), cell(best.high), each.best_layer,
                        *(cell(each.controls[name].value) for name in CONTROLS),
                        round(ahead, 3), round(others, 3),
                        round(min(modes), 3), round(max(modes), 3),
                        round(float(np.mean(characters[each.best_layer])), 3) if characters else "",
                    ]
                )  # fmt: skip
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    """None: the paper does not look inside the model."""
    return []
