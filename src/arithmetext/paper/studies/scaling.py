"""Accuracy against context window L, training size n, vocabulary D and model size ρ."""

from functools import partial
from math import inf
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import (
    Estimate,
    above,
    all_of,
    decided_above,
    decided_within,
    overlaps,
    within,
)
from ...evaluation.sweeps import by_block
from ...evaluation.words import accuracies
from ...integers import format_integer
from ...search.residues import primes_up_to
from ...training.loop import Diverged
from ..constants import PAPER_ACCURACY, TOLERANCE
from ..figures import MARKERS, plot_estimates, swarm
from ..runs import SCORED_TOKENS, TEST_NEAR, PromptSettings, TrainedModel
from ..study import Table, Verdict, if_papers_model, papers_tokens, unless_trained_less
from ..sweeps import (
    SAME_TIME,
    SweepPoint,
    measure_all,
    sweep,
    with_rate,
)
from ..wording import (
    cell,
    format_estimate,
    format_number,
    format_percent,
    interval_header,
    join,
    plural,
    sentences,
    undecided,
)
from ._scaling import Point, Result, SeedRun, Settings, best_rate, summarise, value_of

TITLE = "Accuracy against context, text, vocabulary and model size"
ORDER = 150
COST = {"laptop": 25, "gpu": 6_500}

PLACES = (TEST_NEAR, 10**12, 10**13, 10**14, 10**15)
PLACE_COLOURS = ("#1f2a6b", "#2a78a8", "#2a9d8f", "#e0a030", "#b0413e")
AXES = {"L": "context window L", "n": "text of 2..n", "D": "vocabulary D", "ρ": "model size ρ"}

PAPERS = PAPER_ACCURACY - TOLERANCE  # a model above this is as good as the paper's, to one digit


def settings(scale: str) -> Settings:
    small = scale == "laptop"
    prompts, blocks, largest, integers = (16, 4, 7, 2**20) if small else (128, 8, 61, 2**24)
    bounds = (1, *primes_up_to(largest).tolist())
    return Settings(sweep(scale), PLACES, prompts, blocks, bounds, integers)


def run(settings: Settings) -> Result:
    """For each ρ the search for a learning rate, then the points; the largest ρ first.

    So the longest run is not left for the end. Models that differ from the reference in L, n or D
    take its learning rate.
    """
    searches: dict[str, dict[str, float]] = {}
    runs: dict[SweepPoint, list[SeedRun]] = {}
    for rho, short_runs in reversed(settings.sweep.searches.items()):
        losses = measure_all(short_runs, _lowest_loss)
        searches[rho] = {f"{m.config.training.lr:g}": losses[m] for m in short_runs}
        rate = best_rate(searches[rho])
        trained = {
            point: [with_rate(model, rate) for model in point.models]
            for point in settings.sweep.points
            if point.rho == rho
        }
        models = [model for each in trained.values() for model in each]
        measured = measure_all(models, partial(_measure, settings=settings))
        runs |= {point: [measured[model] for model in each] for point, each in trained.items()}
    return summarise(settings, runs, {rho: searches[rho] for rho in settings.sweep.searches})


def _lowest_loss(model: TrainedModel) -> float:
    """The lowest validation loss of a run, in nats per token; infinite if the run diverges."""
    try:
        return min(float(row["validation_loss"]) for row in model.record().validation)
    except Diverged:
        return inf


def _measure(model: TrainedModel, settings: Settings) -> SeedRun:
    """Train a model, continue prompts near every place, and score the true text after prompts."""
    length, blocks = model.config.model.context, settings.blocks
    whole, shorter = (
        PromptSettings(settings.prompts, tokens, length // 16, seed=0, blocks=blocks)
        for tokens in (length, length - SCORED_TOKENS)
    )
    accuracy, nats = [], []
    for at in settings.places:
        made = model.continuations(at, whole)[1]
        accuracy.append(accuracies(made.predicted, made.true).tolist())
        scores = model.scores(at, shorter, SCORED_TOKENS)[1]
        loss, words = (
            by_block(np.asarray(each, np.float64), blocks).sum(1)
            for each in (scores.nats.sum(1, dtype=np.float64), scores.words)
        )
        nats.append((loss / words).tolist())
    record = model.record()
    assert record.tokens == model.trained_on  # no run stops early
    last = record.validation[-1]
    words_per_token = last["validation_loss"] / last["validation_nats_per_word"]
    learning = [
        (
            row["step"] * model.config.training.batch * words_per_token,
            row["validation_nats_per_word"],
        )
        for row in record.validation
    ]
    return SeedRun(record.seconds, record.tokens, learning, accuracy, nats)


def plot(result: Result) -> Figure:
    """A column for each parameter that changes, and a row for each quantity."""
    figure = Figure(figsize=(13, 11.5), layout="constrained", dpi=150)
    widths = [max(3, len(points)) for points in result.axes.values()]
    panels = figure.subplots(4, len(widths), width_ratios=widths, sharey="row")
    labels = ("word accuracy", "nats per word", "arithmetic horizon B", "validation, nats per word")
    for column, (axis, points) in zip(panels.T, result.axes.items(), strict=True):
        accuracy, nats, horizon, learning = column
        _plot_accuracy(accuracy, points)
        for k, (at, colour) in enumerate(zip(result.places, PLACE_COLOURS, strict=True)):
            style: dict[str, Any] = {"color": colour, "marker": "o", "ms": 4, "linestyle": ""}
            x = [i + _beside(k, len(result.places)) for i in range(len(points))]
            scores = [point.places[k] for point in points.values()]
            plot_estimates(nats, x, [s.nats for s in scores], label=format_integer(at), **style)
            horizon.plot(x, [s.horizon or np.nan for s in scores], **style)
        _plot_learning(learning, points)
        for each in (accuracy, nats, horizon):
            ticks = [value.replace(", ", "\n") for value in points]
            each.set_xticks(range(len(points)), ticks, fontsize=8)
            each.set_xlim(-0.5, len(points) - 0.5)
        for each in column:
            each.grid(axis="y", alpha=0.3)
        accuracy.set_title(AXES[axis], fontsize=10)
    for panel, label in zip(panels[:, 0], labels, strict=True):
        panel.set_ylabel(label)
    panels[1, 0].legend(title="integers near", fontsize=7, title_fontsize=7, ncols=2)
    return figure


def _beside(k: int, places: int) -> float:
    """Where mark k stands beside the middle of its group."""
    return 0.8 * ((k + 0.5) / places - 0.5)


def _plot_accuracy(axes: Axes, points: dict[str, Point]) -> None:
    """A dot for every continuation, and a box for all continuations together, as in the paper."""
    dots: dict[str, Any] = {"s": 4, "linewidths": 0, "alpha": 0.6, "rasterized": True}
    parts = ("boxprops", "whiskerprops", "capprops", "medianprops")
    lines: dict[str, Any] = {part: {"color": "black", "lw": 1} for part in parts}
    for i, point in enumerate(points.values()):
        places = len(point.places)
        for k, colour in zip(range(places), PLACE_COLOURS, strict=False):
            values = np.sort(np.concatenate([run.accuracy[k] for run in point.runs]))
            middle = i + _beside(k, places)
            x = middle + swarm(values, bin_width=0.01, most=0.45) * 0.8 / places
            axes.scatter(x, values, color=colour, **dots)
        together = np.ravel([run.accuracy for run in point.runs])
        box: dict[str, Any] = {"positions": [i], "widths": 0.84, "zorder": 3}
        axes.boxplot(together, showfliers=False, manage_ticks=False, **box, **lines)


def _plot_learning(axes: Axes, points: dict[str, Point]) -> None:
    greys = np.linspace(0.8, 0, len(points))
    for i, ((value, point), grey) in enumerate(zip(points.items(), greys, strict=True)):
        style: dict[str, Any] = {"color": str(grey), "marker": MARKERS[i % len(MARKERS)]}
        for k, run in enumerate(point.runs):
            words, nats = np.array(run.learning).T
            axes.plot(words / 1e6, nats, ms=3, lw=0.8, label=None if k else value, **style)
    axes.set_xlabel("million words read")
    axes.legend(fontsize=7)


def in_short(result: Result) -> str:
    reference = join(f"{axis} = {value}" for axis, value in result.reference.items())
    largest = join(
        f"{max(abs(value_of(pair.change)) for pair in pairs):.3f} with {axis}"
        for axis, pairs in result.pairs.items()
    )
    first = next(iter(result.axes["ρ"]))
    return (
        f"The model of {reference} gets {format_number(result.middle.accuracy.value)} of its words"
        f" right; its accuracy minus that of ρ = {first} is"
        f" {format_number(result.whole_rise.value)}. Between two models the accuracy changes by at"
        f" most {largest}."
    )


def caption(result: Result) -> str:
    places = join(format_integer(at) for at in result.places)
    reference = join(f"{axis} = {value}" for axis, value in result.reference.items())
    longer = any("words" in value for value in result.axes["ρ"])
    seeds = len(result.middle.runs)
    return sentences(
        "One parameter changes in each column; the others are those of the reference,"
        f" {reference}.",
        f"Every model reads about {result.middle.words:.3g} million words"
        + f"; {SAME_TIME} × words: so many times as many, which is nearer to the reference in time"
        * longer
        + ".",
        f"Top: {plural(result.prompts, 'prompt')} near each of {places}, continued by as many"
        " tokens as the context holds (β = ∞). No prompt is from training or validation text. Each"
        f" dot is a continuation{' by a model of one of the seeds' * (seeds > 1)}, in the colour of"
        " its place; boxes have the quartiles of all places together.",
        f"Second row: nats per word of the {SCORED_TOKENS} true tokens that fill the context, with"
        f" 95 % intervals over {result.blocks} blocks of the text"
        + " and over seeds, whose spread is pooled over all models" * (seeds > 1)
        + ".",
        "Third row: the bound B of the oracle with as many nats per word, which knows n modulo the"
        " powers of the primes up to B (no mark: better than every oracle here).",
        f"Bottom: validation loss during training{', a line for each seed' * (seeds > 1)}; each n"
        " has its own validation text.",
        _rates_in_words(result),
        _seeds_in_words(result) if seeds > 1 else "",
        _power_law_in_words(result.exponent),
    )


def _rates_in_words(result: Result) -> str:
    """The learning rates, and how they were found."""
    rates = []
    for rho, losses in result.searches.items():
        tried, best, share = sorted(map(float, losses)), best_rate(losses), result.searched[rho]
        edge = {tried[0]: "the lowest tried", tried[-1]: "the highest tried"}.get(best, "")
        part = f"from runs on {format_percent(share)} of the words" if share < 0.99 else ""
        notes = "; ".join(filter(None, (edge, part)))
        rates.append(f"{best:g} for ρ = {rho}" + f" ({notes})" * bool(notes))
    return (
        f"The learning rate is the best of a few: {join(rates)}. Models that differ in L, n or D"
        " take the rate of the reference."
    )


def _seeds_in_words(result: Result) -> str:
    """How far seeds are apart, and where most."""
    gap, name = max(
        (max(point.by_seed) - min(point.by_seed), f"{axis} = {value}")
        for axis, points in result.axes.items()
        for value, point in points.items()
    )
    return (
        f"The standard deviation of the accuracy between seeds is {result.seed_deviation:.4f},"
        f" pooled over all models; the seeds of {name} are farthest apart, by {gap:.4f}."
    )


def _power_law_in_words(exponent: Estimate) -> str:
    if exponent.value is None:
        return ""
    if overlaps(exponent, 0, 0):
        return "No power law of nats per word in the number of parameters is claimed."
    return (
        "The best power law of nats per word in the number of parameters has the exponent"
        f" {format_estimate(exponent)} (a few points, and no lowest loss in the fit; other curves"
        " fit as well)."
    )


def table(result: Result) -> Table:
    header = ["parameter", "value", "parameters of the model", "seeds", "learning rate"]
    header += [
        "accuracy of each seed",
        "million words read",
        "seconds of training (other runs may share the card)",
    ]
    header += ["integers near"]
    header += [*interval_header("word accuracy"), *interval_header("nats per word"), "horizon"]
    header += [*interval_header("accuracy at all places"), *interval_header("nats at all places")]
    header += interval_header("change from the reference")
    header += interval_header("deviation between prompts")
    rows = []
    for axis, points in result.axes.items():
        for value, point in points.items():
            seconds = float(np.mean([run.seconds for run in point.runs]))
            about = [axis, value, point.parameters, len(point.runs), point.rate]
            about += [" ".join(f"{each:.4f}" for each in point.by_seed)]
            about += [round(point.words, 1), round(seconds, 1)]
            overall = [*point.accuracy, *point.nats, *point.change, *point.deviation]
            for at, scores in zip(result.places, point.places, strict=True):
                numbers = map(cell, [*scores.accuracy, *scores.nats])
                horizon = "beyond" if scores.horizon is None else round(scores.horizon, 1)
                rows.append([*about, format_integer(at), *numbers, horizon, *map(cell, overall)])
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    """Models that are not as good as the paper's neither agree nor differ."""
    accuracy = result.middle.accuracy
    found = [*(_insensitive(result, axis) for axis in ("L", "n", "D")), _rises(result)]
    found += [_saturates(result), _fluctuates(result)]
    if result.stand_in or above(accuracy, PAPERS):
        return if_papers_model(found, result.stand_in)
    little = f"The reference has an accuracy of {format_estimate(accuracy)}, not clearly above"
    return if_papers_model(
        found, f"{little} {PAPERS:g}: these models are trained for too short a time."
    )


def _words_read(result: Result) -> str:
    return f"Each model reads about {result.middle.words:.3g} million words."


def _insensitive(result: Result, axis: str) -> Verdict:
    """If the lower of two models is worse than the paper's, longer training may close the gap."""
    points, pairs = result.axes[axis], result.pairs[axis]
    inside = [decided_within(pair.change, -TOLERANCE, TOLERANCE) for pair in pairs]
    unclear = [
        f"{axis} = {pair.first} and {pair.second}"
        for pair, each in zip(pairs, inside, strict=True)
        if each is None
    ]
    lower = [pair.lower for pair, each in zip(pairs, inside, strict=True) if each is False]
    worse = [value for value in lower if not above(points[value].accuracy, PAPERS)]
    agrees = all_of(inside)
    largest = max(pairs, key=lambda pair: abs(value_of(pair.change)))
    first, *_, last = points
    found = Verdict(
        key=f"insensitive-to-{axis}",
        claim=f"Accuracy is insensitive to {axis}, from {first} to {last}.",
        paper="very mildly affected",
        ours=join(f"{format_estimate(p.accuracy)} for {axis} = {v}" for v, p in points.items())
        + f"; the largest difference is {format_estimate(largest.change)}, from {axis} ="
        f" {largest.first} to {largest.second}",
        criterion="the interval of the difference between any two models is within"
        f" ±{TOLERANCE}: the paper gives accuracies to one digit",
        agrees=agrees,
        why=sentences(
            undecided(agrees, f"intervals reach beyond ±{TOLERANCE} for {'; '.join(unclear)}"),
            _words_read(result),
            _QUALIFIED.get(axis, ""),
        ),
    )
    return unless_trained_less(
        found,
        worse=worse == lower,
        tokens=result.middle.runs[0].tokens,
        model=f"The model of {axis} = {' and '.join(dict.fromkeys(worse))}",
    )


# What else changes along an axis.
_QUALIFIED = {
    "n": "Where a model does not read its whole text, n changes which integers it reads, not how"
    " much text.",
    "D": "As many words are more steps for a small D, in which plateaus also end earlier.",
}


def _rises(result: Result) -> Verdict:
    """Longer training helps larger models more, so a rise may still come."""
    sizes = list(result.searches)
    sizes = sizes[: sizes.index(result.reference["ρ"]) + 1]
    as_long = {v: point.change for v, point in result.axes["ρ"].items() if "words" in v}
    steps = [
        *(decided_above(rise, 0) for rise in result.rises),
        decided_above(result.whole_rise, TOLERANCE),
    ]
    behind = all(within(change, -inf, 0) for change in as_long.values())
    agrees = all_of(steps) if behind else None
    points = {v: result.axes["ρ"][v] for v in (*sizes, *as_long)}
    found = Verdict(
        key="rises-to-rho-1",
        claim="Accuracy increases with ρ up to 1.",
        paper="seems to increase",
        ours=join(f"{format_estimate(p.accuracy)} for ρ = {v}" for v, p in points.items())
        + f"; differences {join(map(format_estimate, result.rises))}",
        criterion="the interval of the difference between each ρ and the next is above 0, that"
        f" between the smallest and 1 is above {TOLERANCE}, and smaller models that read more words"
        " are below the reference too",
        agrees=agrees,
        why=sentences(
            undecided(
                agrees,
                "an interval contains its limit"
                if behind
                else "a smaller model that reads more words may be as good",
            ),
            _words_read(result),
        ),
    )
    tokens = result.middle.runs[0].tokens
    return unless_trained_less(found, worse=True, tokens=tokens, model="The model of ρ = 1")


def _saturates(result: Result) -> Verdict:
    """A model of ρ = 2 that is far behind may need longer training; then nothing is decided."""
    words: dict[str, Any] = {
        "key": "saturates-at-rho-1",
        "claim": "Accuracy saturates at ρ = 1.",
        "paper": "ρ = 2 is comparable with ρ = 1, if not worse",
        "criterion": f"the interval of the difference is within ±{TOLERANCE} (after training as"
        f" long as the paper's it may be lower), and ρ = 2 gains less on ρ = 1 than ρ = 1 on"
        f" ρ = 1/2; differs if the interval is above {TOLERANCE}",
    }
    if "2" not in result.axes["ρ"]:
        why = "There is no model of ρ = 2 at this scale."
        return Verdict(ours="no model of ρ = 2", agrees=None, why=why, **words)
    change, before = result.axes["ρ"]["2"].change, result.rises[-1]
    least = -inf if result.middle.runs[0].tokens >= papers_tokens() else -TOLERANCE
    flattens = within(change, least, TOLERANCE) and value_of(change) < value_of(before)
    agrees = False if above(change, TOLERANCE) else True if flattens else None
    doubt = "the interval reaches a limit, or the gain does not become smaller"
    return Verdict(
        ours=f"ρ = 2 minus ρ = 1: {format_estimate(change)}; ρ = 1 minus ρ = 1/2:"
        f" {format_estimate(before)}",
        agrees=agrees,
        why=sentences(undecided(agrees, doubt), _words_read(result)),
        **words,
    )


def _fluctuates(result: Result) -> Verdict:
    """By chance alone, the accuracy of longer sentences varies less."""
    points = result.axes["L"]
    first, *_, last = points
    more = decided_above(result.fluctuation, 0)
    smaller = "The deviation is smaller here." if more is False else ""
    return Verdict(
        key="fluctuates-with-L",
        claim="Accuracy fluctuates more between prompts when L is large.",
        paper="larger fluctuations when L is large",
        ours="standard deviation "
        + join(f"{format_estimate(each.deviation)} for L = {v}" for v, each in points.items())
        + f"; the last minus the first: {format_estimate(result.fluctuation)}",
        criterion=f"the interval of the deviation at L = {last} minus that at L = {first} is above"
        " 0; otherwise nothing is decided, since the paper does not say how it scores a sentence,"
        " and some scorings have fluctuations of their own (see accuracy_length)",
        agrees=more or None,
        why=sentences(smaller, undecided(more or None, "the interval is not above 0"))
        if not more
        else "",
    )
