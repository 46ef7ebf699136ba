"""Can n modulo m be read off the residual stream by a linear probe? (not in the paper)"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import Estimate, above
from ...evaluation.probes import (
    CONTROLS,
    MODEL,
    ORDERED,
    POWERS,
    PRIMES,
    SHORTEST,
    TOKENS,
    UNTRAINED,
    Decoded,
    ProbeSettings,
    position_ranges,
    probe_scores,
    summarise,
)
from ...integers import format_integer
from ..figures import plot_estimates, styles
from ..runs import (
    TEST_NEAR,
    TESTS_FAR,
    TrainedModel,
    TrainingFacts,
    ntp,
    several_seeds,
    word_model,
)
from ..study import Table, Verdict
from ..wording import cell, format_percent, join, models_in_words, sentences

TITLE = "Does the model know n modulo small primes?"
ORDER = 220
COST = {"laptop": 40, "gpu": 1600}  # on a GPU most of it is training

_SHOWN = (3, 5, 7, 11, 13, 19)  # primes in the panels of positions and classes


@dataclass(frozen=True)
class Settings:
    models: dict[str, tuple[TrainedModel, ...]]  # each trained with several seeds
    probes: ProbeSettings


@dataclass(frozen=True)
class ModelProbes:
    name: str
    training: TrainingFacts
    seeds: int  # models that were trained with different seeds
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
    models = {"whole words as tokens": several_seeds(word_model(scale), scale)}
    if scale != "laptop":
        models["pieces of words as tokens"] = several_seeds(ntp(scale), scale)
    small = scale == "laptop"
    return Settings(
        models,
        ProbeSettings(
            moduli=PRIMES + POWERS,
            places=(TEST_NEAR, TESTS_FAR[0], TESTS_FAR[-1]),
            windows=20 if small else 512,
            token_windows=80 if small else 1024,
            tested=10 if small else 200,
            blocks=10,
            seeds=3,
        ),
    )


def run(settings: Settings) -> Result:
    how, models = settings.probes, []
    for name, seeds in settings.models.items():
        context = seeds[0].config.model.context
        arrays = [model.outputs(probe_scores, how) for model in seeds]
        places = {at: summarise(arrays, how, context, at) for at in how.places}
        facts, ranges = seeds[0].training(), position_ranges(context)
        models.append(ModelProbes(name, facts, len(seeds), ranges, places))
    return Result(models, how)


def read_primes(decoded: Sequence[Decoded], controls: Sequence[str] = CONTROLS) -> list[int]:
    """The primes p for which n mod p is read better than by chance and by these controls."""
    return [
        each.modulus
        for each in decoded
        if above(each.layers[-1][each.best_layer], each.chance)
        and all(above(each.margins[name], 0) for name in controls)
    ]


# All but linear maps of more than 16 tokens, or of counts of tokens.
_WITHOUT_TEXT = [name for name in CONTROLS if name not in TOKENS or name == SHORTEST]


def best_map(decoded: Decoded) -> Estimate:
    """R² of whether p divides n + 1, of the best control."""
    controls = (each for name, each in decoded.ahead.items() if name != MODEL)
    return max(controls, key=lambda estimate: estimate.value or 0.0)


def ahead_of_text(decoded: Sequence[Decoded]) -> list[Decoded]:
    """Where the last layer tells better than every control whether p divides n + 1."""
    return [each for each in decoded if above(each.ahead[MODEL], best_map(each).high or 1.0)]


def other_classes(decoded: Decoded) -> float:
    """The mean R², in the last layer, of whether n has one of the other residues.

    n + 1 is a multiple of m if n is −1 modulo m.
    """
    *others, _ = decoded.explained["class"][-1]
    return float(np.mean(others))


def largest_used(decoded: Sequence[Decoded]) -> int:
    """The largest prime up to which the last layer tells whether p divides n + 1: R² above 1/2."""
    used = 1
    for each in decoded:
        if each.modulus in POWERS or (each.ahead[MODEL].value or 0.0) <= 0.5:
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


_LABELS = {name: f"last {name}" for name in ORDERED}


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
    for name, line in zip((*ORDERED, UNTRAINED), ("-", "--", (0, (1, 1)), "-."), strict=True):
        values = [each.controls[name].value or 0.0 for each in model.primes]
        axes.plot(primes, values, color="0.5", lw=1, ls=line, label=_LABELS.get(name, name))
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
        chosen = [each for each in decoded if each.modulus in PRIMES]
        style |= {"ms": 4, "lw": 1}
        label = f"p divides n + 1, near {format_integer(at)}"
        plot_estimates(axes, primes, [each.ahead[MODEL] for each in chosen], label=label, **style)
    best = [best_map(each).value or 0.0 for each in model.primes]
    axes.plot(primes, best, color="0.5", lw=1, label="the same, best linear map of the text")
    others = [other_classes(each) for each in model.primes]
    axes.plot(primes, others, color="0.5", lw=1, ls=":", label="other residues of n (mean)")
    axes.set(xscale="log", xlabel="prime p", ylabel="R², last layer", ylim=(-0.05, 1.5))
    axes.set_yticks([0, 0.25, 0.5, 0.75, 1])
    axes.set_xticks(ticks := [2, 3, 5, 7, 11, 19, 31, 61], list(map(str, ticks)))
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def in_short(result: Result) -> str:
    model = result.models[0]
    read, beyond = read_primes(model.primes, _WITHOUT_TEXT), read_primes(model.primes)
    ahead = ahead_of_text(model.primes)
    places = join(
        f"{largest_used(decoded)} near {format_integer(at)}" for at, decoded in model.places.items()
    )
    longest = list(ORDERED)[-1]
    return sentences(
        f"For p = {join(map(str, read))}, a linear probe reads n mod p off the residual stream"
        f" better than off an untrained model and than a linear map of the last {SHORTEST}; for"
        f" {f'p = {join(map(str, beyond))}' if beyond else 'none of them'} better than every linear"
        f" map of up to {longest}."
        if read
        else "No linear probe reads n mod p off the residual stream better than an untrained model"
        f" and a linear map of the last {SHORTEST}.",
        f"Whether p divides n + 1, the last layer tells better than these maps for p ="
        f" {join(str(each.modulus) for each in ahead)}: regressions explain"
        f" {_shares(each.ahead[MODEL] for each in ahead)} of the variance, the best map"
        f" {_shares(best_map(each) for each in ahead)}."
        if ahead
        else "Whether p divides n + 1, the last layer tells for no prime better than these maps.",
        f"More than half of it is explained up to p = {places}.",
    )


def _shares(estimates: Iterable[Estimate]) -> str:
    return join(format_percent(estimate.value or 0.0) for estimate in estimates)


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
        f" {format_integer(model.training.tokens)} tokens. {models_in_words(model.seeds)}{others}",
        "All but the top right panel are of the second half of the window, and all but the top"
        f" middle and the bottom right one of text near {first}.",
        "Top left: 0 is chance level. Top middle: the best layer. Grey: a model without training"
        " (its best layer), and the same probes on the last 16, 64 and 256 tokens in order, fitted"
        f" on {how.token_windows} windows; of these tokens the commonest 32, 12 and 4 are told"
        " apart. The table has more controls.",
        "Top right: the best layer, by position in the window.",
        "Bottom: R² of regressions. Left: of Fourier modes of n mod p (curves) and of characters"
        " modulo p (crosses) in the best layer; the mean over a basis is the same for each"
        " orthogonal basis. Middle: in the last layer, of whether n has one residue; distance"
        " 1 means that p divides n + 1, whose word comes next. Right: of distance 1 at each place,"
        " with the best linear map of the text; dotted: the mean of the other distances.",
    )


def table(result: Result) -> Table:
    bases = {"class": "classes", "frequency": "Fourier modes", "character": "characters"}
    header = [
        "tokens", "near", "modulus", "chance", "accuracy, best layer", "low", "high", "layer",
        *CONTROLS, "least margin", "low ", "R²: m divides n + 1", "low  ", "high ",
        "R²: best control", "R²: other classes, last layer",
        *(f"R², best layer: {name}" for name in bases.values()),
    ]  # fmt: skip
    rows = []
    for model in result.models:
        for at, decoded in model.places.items():
            for each in decoded:
                best, ahead = each.layers[-1][each.best_layer], each.ahead[MODEL]
                margin = min(each.margins.values(), key=lambda estimate: estimate.value or 0.0)
                rows.append(
                    [
                        model.name, format_integer(at), each.modulus, round(each.chance, 4),
                        cell(best.value), cell(best.low), cell(best.high), each.best_layer,
                        *(cell(each.controls[name].value) for name in CONTROLS),
                        cell(margin.value), cell(margin.low),
                        cell(ahead.value), cell(ahead.low), cell(ahead.high),
                        cell(best_map(each).value), round(other_classes(each), 3),
                        *(_spread(each, basis) for basis in bases),
                    ]
                )  # fmt: skip
    return header, rows


def _spread(decoded: Decoded, basis: str) -> str:
    """The least and the largest R² of the functions of a basis; no characters if m is no prime."""
    if basis not in decoded.explained:
        return ""
    found = decoded.explained[basis][decoded.best_layer]
    return f"{min(found):.2f} to {max(found):.2f}"


def verdicts(result: Result) -> list[Verdict]:
    """None: the paper does not look inside the model."""
    return []
