"""Does the residual stream carry the exact posterior over n mod m? (not in the paper)"""

from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.beliefs import BeliefSettings, SetSummary, belief_scores, summarise
from ...evaluation.estimates import Estimate, decided_above
from ...evaluation.seeds import averaged
from ...integers import format_integer
from ..figures import COLOURS, plot_estimates, styles
from ..runs import TrainedModel, TrainingFacts, several_seeds, word_model
from ..study import Table, Verdict
from ..wording import cell, format_number, join, models_in_words, sentences

TITLE = "Does the model hold the exact posterior?"
ORDER = 223
COST = {"laptop": 10, "gpu": 360}

_CLEAR = 0.2  # R² of the product part from which a belief counts as joint


@dataclass(frozen=True)
class Settings:
    models: tuple[TrainedModel, ...]
    beliefs: BeliefSettings


@dataclass(frozen=True)
class Result:
    sets: list[SetSummary]
    beliefs: BeliefSettings
    training: TrainingFacts
    seeds: int  # models that were trained with different seeds

    def at(self, place: int) -> list[SetSummary]:
        return [each for each in self.sets if each.place == place]

    @property
    def first(self) -> list[SetSummary]:
        """At the first place."""
        return self.at(self.sets[0].place)


def settings(scale: str) -> Settings:
    small = scale == "laptop"
    training, tested = (256, 80) if small else (4096, 1000)
    beliefs = BeliefSettings(training_windows=training, windows=tested)
    return Settings(several_seeds(word_model(scale), scale), beliefs)


def run(settings: Settings) -> Result:
    how, models = settings.beliefs, settings.models
    found = [summarise(model.outputs(belief_scores, how), how) for model in models]
    return Result(averaged(found), how, models[0].training(), len(models))


def singles(sets: list[SetSummary]) -> list[SetSummary]:
    return [each for each in sets if len(each.moduli) == 1]


def several(sets: list[SetSummary]) -> list[SetSummary]:
    return [each for each in sets if len(each.moduli) > 1]


def best_layer(each: SetSummary) -> int:
    """The layer from which the belief is read best."""
    values = [estimate.value or 0.0 for estimate in each.r2["all"]]
    return values.index(max(values))


def joint(each: SetSummary) -> bool | None:
    """Whether the product part is read: R² above `_CLEAR`; None if the interval contains it."""
    return decided_above(each.parts["product"].r2[best_layer(each)], _CLEAR)


def name(each: SetSummary) -> str:
    return "·".join(map(str, each.moduli))


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(13, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3)
    _plot_layers(left, result)
    _plot_graded(middle, result)
    _plot_parts(right, result)
    return figure


def _plot_layers(axes: Axes, result: Result) -> None:
    shown = [*styles(), *({**style, "mfc": "white", "lw": 0.7} for style in styles())]
    for each, style in zip(singles(result.first), shown, strict=False):
        layers = range(len(each.r2["all"]))
        style |= {"ms": 4, "label": f"n mod {name(each)}"}
        plot_estimates(axes, layers, each.r2["all"], **style)
    axes.set_xticks(layers, ["tokens", *map(str, layers[1:])])
    axes.set(xlabel="layer", ylabel="R² of the posterior", ylim=(0, 1.02))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)


def _plot_graded(axes: Axes, result: Result) -> None:
    """What the outputs of a probe of true residues are more like."""
    sets = singles(result.first)
    x = np.arange(len(sets))
    both: dict[str, list[Estimate]] = {"the posterior": [], "the likeliest residue": []}
    for each in sets:
        assert each.controls is not None
        layer = best_layer(each)
        both["the posterior"].append(each.controls.like_belief[layer])
        both["the likeliest residue"].append(each.controls.like_guess[layer])
    for (label, estimates), side, colour in zip(both.items(), (-0.08, 0.08), COLOURS, strict=False):
        plot_estimates(axes, x + side, estimates, label=label, color=colour, marker="o", ls="")
    axes.set_xticks(x, [name(each) for each in sets])
    axes.set(xlabel="modulus", ylabel="squared correlation, where uncertain", ylim=(0, 1.02))
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8, title="output of a probe and")


def _plot_parts(axes: Axes, result: Result) -> None:
    sets = several(result.first)
    x = np.arange(len(sets))
    for part, side, colour in zip(("additive", "product"), (-0.08, 0.08), COLOURS, strict=False):
        estimates = [each.parts[part].r2[best_layer(each)] for each in sets]
        plot_estimates(axes, x + side, estimates, label=part, color=colour, marker="o", ls="")
    axes.axhline(0, color="black", lw=0.6)
    axes.set_xticks(x, [name(each) for each in sets])
    axes.set(xlabel="moduli together", ylabel="R² of a part of the posterior", ylim=(-0.1, 1.02))
    axes.grid(axis="y", alpha=0.3)
    axes.legend(fontsize=8)


def in_short(result: Result) -> str:
    alone = singles(result.first)
    read = join(f"{format_number(each.r2['all'][best_layer(each)].value, 2)}" for each in alone)
    clear = format_number(_CLEAR, 1)
    endings = {
        True: "are held jointly: over {} of their products can be read too.",
        False: "no joint code was read: less than {} of their products.",
        None: "it is not decided whether {} of their products can be read.",
    }
    found = {
        outcome: [name(each) for each in several(result.first) if joint(each) is outcome]
        for outcome in endings
    }
    return sentences(
        "A linear map of the residual stream explains"
        f" {read} of the variance of the exact posterior over n modulo"
        f" {join(name(each) for each in alone)}, after 1 to {result.beliefs.words} words.",
        *(
            f"{'The posteriors of' if outcome else 'For those of'} {join(names)}"
            f"{'' if outcome else ','} {endings[outcome].format(clear)}"
            for outcome, names in found.items()
            if names
        ),
    )


def caption(result: Result) -> str:
    how = result.beliefs
    return sentences(
        "The exact posterior over n mod m is that of a reader who knows how words depend on n"
        f" modulo {how.modulus} and reads a window word by word; least squares reads it from the"
        f" residual stream. {how.seeds} sets of {how.training_windows} training windows,"
        f" {how.windows} test windows of {how.words} words near"
        f" {format_integer(result.sets[0].place)}; 95 % intervals over {how.blocks} blocks of the"
        f" text and over sets. {models_in_words(result.seeds)}",
        "Left: by layer; a constant guess has R² = 0.",
        "Middle: where no residue has a probability above"
        f" {how.certain:g}, outputs of a probe that was fitted to the true residues, compared with"
        " the posterior and with a hard guess of the likeliest residue (best layer).",
        "Right: the posterior over two or three moduli together is the sum of an additive part,"
        " which separate codes for each modulus carry too, and of a product part, which only a"
        " joint code carries. Everything else is below 1 % of it.",
    )


def table(result: Result) -> Table:
    header = [
        "near", "moduli", "R², best layer", "low", "high", "layer", "R², tokens",
        "R², shuffled", "like the posterior", "like a hard guess",
        "additive: share", "R²", "product: share", "R² ", "dimensions read", "factored", "joint",
    ]  # fmt: skip
    rows: list[list[object]] = []
    for each in result.sets:
        layer = best_layer(each)
        best = each.r2["all"][layer]
        row: list[object] = [
            format_integer(each.place), name(each), cell(best.value), cell(best.low),
            cell(best.high), layer, cell(each.r2["all"][0].value),
        ]  # fmt: skip
        if each.controls is None:
            row += ["", "", ""]
        else:
            controls = each.controls.shuffled, each.controls.like_belief, each.controls.like_guess
            row += [cell(column[layer].value) for column in controls]
        for part in ("additive", "product"):
            found = each.parts.get(part)
            row += (
                ["", ""] if found is None else [round(found.share, 3), cell(found.r2[layer].value)]
            )
        rows.append([*row, each.needed(layer), *each.dimensions])
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    """None: the paper does not look inside the model."""
    return []
