"""Four words of the text replaced by impossible ones: a control that the paper lacks.

Runs of square-free words (study `square_free_runs`) cannot tell impossible words from misplaced
ones. Here four words in the middle of the text are replaced by equally frequent ones. A model of
words that knows only the period of 4 finds misplaced words as unlikely as impossible ones. But
tokens are not words: the HMM, which sees one token, may find one kind costlier too. So the GPT-2 is
compared with the HMM and not with one half.
"""

from dataclasses import dataclass

from matplotlib.figure import Figure

from ...evaluation.separation import StretchesSummary, stretches_over_seeds
from ...evaluation.square_free import KINDS, Stretches, impossible
from ...evaluation.subjects import EvaluatedModel
from ...text.splits import blocks_near
from ..figures import legend_above, plot_estimates, styles
from ..outputs import Arrays
from ..runs import TESTS_FAR, TrainedModel, hmm, ntp, several_seeds
from ..study import Table, Verdict
from ..wording import format_estimate, format_integer, format_number, join, seeds_in_words

TITLE = "Impossible words against misplaced words"
ORDER = 147
COST = {"laptop": 10, "gpu": 30}

_LABELS = {
    "true": "as in the text",
    "here": "allowed here",
    "elsewhere": "allowed elsewhere\n(misplaced)",
    "impossible": "impossible",
}


@dataclass(frozen=True)
class Places:
    """Where words are replaced."""

    at: int
    length: int  # tokens of context and replaced words
    number: int
    blocks: int
    seed: int


@dataclass(frozen=True)
class Settings:
    models: dict[str, tuple[TrainedModel, ...]]  # one for each seed
    places: Places


@dataclass(frozen=True)
class Result:
    places: Places
    seeds: dict[str, int]  # number of trained models
    models: dict[str, StretchesSummary]


def settings(scale: str) -> Settings:
    length, number = (512, 80) if scale == "laptop" else (1024, 512)
    models = {"GPT-2": several_seeds(ntp(scale), scale), "HMM": several_seeds(hmm(scale), scale, 5)}
    return Settings(models, Places(TESTS_FAR[0], length, number, blocks=10, seed=0))


def run(settings: Settings) -> Result:
    places = settings.places
    outputs = {
        name: [model.outputs(stretch_nats, places) for model in seeds]
        for name, seeds in settings.models.items()
    }
    return summarise(outputs, places)


def stretch_nats(model: EvaluatedModel, places: Places) -> Arrays:
    """The nats of four replaced words, [places] for each kind."""
    found = impossible(
        model.model,
        model.tokenizer,
        blocks_near(places.at, model.seen, places.blocks),
        model.trained,
        number=places.number,
        length=places.length,
        seed=places.seed,
    )
    return dict(found.nats)


def summarise(outputs: dict[str, list[Arrays]], places: Places) -> Result:
    """Statistics over seeds; `outputs` has the arrays of each seed of each model."""
    return Result(
        places,
        {name: len(seeds) for name, seeds in outputs.items()},
        {
            name: stretches_over_seeds([Stretches(places.number, each) for each in seeds])
            for name, seeds in outputs.items()
        },
    )


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(6.4, 4.8), layout="constrained")
    axes = figure.subplots()
    for k, (name, summary) in enumerate(result.models.items()):
        x = [i + 0.1 * (2 * k - 1) for i in range(len(KINDS))]
        nats = [summary.nats[kind] for kind in KINDS]
        plot_estimates(axes, x, nats, label=name, **styles()[k] | {"ls": "none"})
    axes.set_xticks(range(len(KINDS)), [_LABELS[kind] for kind in KINDS])
    axes.set_xlim(-0.4, len(KINDS) - 0.6)
    axes.set_ylim(bottom=0)
    axes.set_ylabel("cost of four words in nats")
    axes.grid(axis="y", alpha=0.3)
    legend_above(axes, 2)
    return figure


def in_short(result: Result) -> str:
    pairs = " and ".join(
        f"{format_number(summary.paired['elsewhere'].value)} of the pairs for the {name}"
        for name, summary in result.models.items()
    )
    return (
        f"Impossible words are less likely than misplaced ones in {pairs}. The HMM sees one token"
        " only, so an effect that it shows too needs no longer context."
    )


def caption(result: Result) -> str:
    places, gpt = result.places, result.models["GPT-2"]
    spread = ", widened by the spread over seeds" if max(result.seeds.values()) > 1 else ""
    pairs = join(
        f"{format_estimate(summary.paired['elsewhere'])} ({name})"
        for name, summary in result.models.items()
    )
    return (
        "Four words of the text are replaced by other words. Impossible: four square-free words,"
        " which occur nowhere in a row. Allowed elsewhere (misplaced): words that occur in a row,"
        " but not at this place. Allowed here: words that fit this place modulo 36. The"
        " replacements are equally frequent among themselves; the true words are not matched and"
        " can be rarer. The cost is the negative log-likelihood after the text before them,"
        f" averaged over {gpt.left} of {places.number} places near {format_integer(places.at)}"
        f" (seed {places.seed}; the others have no matching words), with intervals of 95 %{spread}."
        f" Trained models, one per seed: {seeds_in_words(result.seeds)}."
        f" Impossible words are less likely than those allowed elsewhere in {pairs} of the pairs."
        " The HMM sees one token only, so an effect that it shows too needs no longer context."
    )


def table(result: Result) -> Table:
    header = ["model", "four words", "cost in nats", "impossible words cost more, area"]
    header += ["impossible words cost more, share of pairs"]
    rows: list[list[str | float]] = []
    for name, summary in result.models.items():
        for kind, nats in summary.nats.items():
            against = (
                [format_estimate(of[kind]) for of in (summary.auc, summary.paired)]
                if kind in summary.auc
                else ["", ""]
            )
            label = _LABELS[kind].replace("\n", " ")
            rows.append([name, label, format_estimate(nats), *against])
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    """None: the paper makes no claim about these words."""
    return []
