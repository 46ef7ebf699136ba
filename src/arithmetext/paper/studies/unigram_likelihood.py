"""Likelihoods of the text, of random tokens and of altered text, by length.

The text read backwards needs a positive control: is it as likely as the text because the text has
no visible direction, or because the test cannot see any? So two small models are trained on the
text of 2..n for a small n, one of them on the reversed text. A model that has memorised part of the
text must tell its direction. So the control shows that the test sees a memorised direction; it does
not show that the test would see a weaker one.
"""

from dataclasses import dataclass
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import (
    Estimate,
    above,
    all_decided_above,
    bootstrap,
    decided_above,
    overlaps,
)
from ...evaluation.evaluate import doubling
from ...evaluation.likelihood import (
    CONTROLS,
    ControlComparison,
    Sequences,
    compare_with_controls,
    per_token,
)
from ...evaluation.seeds import over_seeds
from ...evaluation.separation import (
    ControlSummary,
    Distributions,
    auc,
    controls_over_seeds,
    distributions,
    mean,
    overlap,
)
from ...evaluation.subjects import EvaluatedModel
from ...text.splits import Range, blocks_near
from ..figures import MARKERS, legend_above, plot_estimates, ridges, styles, token_axis
from ..outputs import Arrays
from ..runs import TEST_NEAR, TrainedModel, TrainingFacts, ntp, several_seeds
from ..study import Table, Verdict, if_papers_model
from ..wording import (
    format_estimate,
    format_integer,
    format_number,
    format_range,
    plural,
    sentences,
    undecided,
)

TITLE = "True text against random tokens"
ORDER = 140
COST = {"laptop": 45, "gpu": 240}

PAPER_DISJOINT = 32  # tokens beyond which the paper's histograms do not overlap
SMALL_N = 10**5  # the models of the positive control memorise part of this text
READERS = ("forward", "backward")  # the directions in which they read the text in training
BOTH = "forward minus backward"
# What they are tested on: 2..n, of which they read a part, and n..2n
TEXTS = {
    "training range": "text of 2..n (training range)",
    "next range": "text of n..2n (next range)",
}

_NAMES = {"unigram": "random tokens", "deleted": "word deleted"}


@dataclass(frozen=True)
class SequenceSettings:
    at: int
    lengths: tuple[int, ...]  # tokens
    sequences: int
    blocks: int
    seed: int


@dataclass(frozen=True)
class ReversalSettings:
    """Sequences of 2..n, from which the models of the positive control read, and of n..2n."""

    n: int
    length: int
    sequences: int
    seed: int


@dataclass(frozen=True)
class Settings:
    models: tuple[TrainedModel, ...]  # one for each seed
    sequences: SequenceSettings
    reversal: ReversalSettings
    readers: dict[str, TrainedModel]  # by direction


@dataclass(frozen=True)
class Separation:
    """True text and random tokens of one length, for each seed (see `Distributions`)."""

    length: int
    distances: list[float]
    disjoint: list[bool]


@dataclass(frozen=True)
class Reversal:
    """Text of 2..n or of n..2n against the same text reversed, for a model or for two.

    For two models, the log-likelihood is that of the model that read forward minus that of the
    other.
    """

    text: str  # a key of `TEXTS`
    reader: str  # one of `READERS`, or `BOTH`
    auc: Estimate
    nats: Estimate  # by which the text is likelier, per sequence


@dataclass(frozen=True)
class Result:
    sequences: SequenceSettings
    seeds: int
    training: TrainingFacts  # of the first seed
    separations: list[ControlSummary]  # for every length, one for each control
    random: list[Separation]  # by length
    short_overlap: Estimate  # of true text and random tokens, at the least length
    values: list[Distributions]  # with random tokens, by length; the first seed
    backwards: Estimate  # nats by which the text is likelier than backwards, at the greatest length
    reversal: list[Reversal]  # the positive control
    reversal_settings: ReversalSettings

    def areas(self, control: str) -> list[Estimate]:
        """Areas under the ROC curve, by length."""
        return [each.auc for each in self.separations if each.control == control]

    def tells_direction(self, text: str) -> bool:
        """Whether both models of the positive control together find the text likelier."""
        [row] = [each for each in self.reversal if (each.text, each.reader) == (text, BOTH)]
        return above(row.nats, 0)


def settings(scale: str) -> Settings:
    longest, number = (512, 20) if scale == "laptop" else (1024, 1000)
    sequences = SequenceSettings(TEST_NEAR, tuple(doubling(2, longest)), number, blocks=10, seed=0)
    reversal = ReversalSettings(SMALL_N, length=128, sequences=512, seed=0)
    readers = {direction: reader(SMALL_N, direction) for direction in READERS}
    return Settings(several_seeds(ntp(scale), scale), sequences, reversal, readers)


def reader(n: int, direction: str) -> TrainedModel:
    """A small model of the text of 2..n, trained in seconds and at every scale the same."""
    training = ("steps=250", "interval=25", "batch=2^11", "device_batch=2^11", "validation=2^14")
    small = ("model.context=128", "tokens.size=96", *(f"training.{each}" for each in training))
    return TrainedModel("ntp-laptop", (f"n={n}", f"direction={direction}", *small))


def run(settings: Settings) -> Result:
    outputs = [model.outputs(likelihoods, settings.sequences) for model in settings.models]
    scored = {
        name: model.outputs(reversed_text, settings.reversal)
        for name, model in settings.readers.items()
    }
    return summarise(
        outputs,
        settings.sequences,
        settings.models[0].training(),
        compare_readers(scored),
        settings.reversal,
    )


def likelihoods(model: EvaluatedModel, how: SequenceSettings) -> Arrays:
    """Log-likelihoods per token of text and controls, [sequences] for each length."""
    compared = compare_with_controls(
        model.model,
        model.tokenizer,
        blocks_near(how.at, model.seen, how.blocks),
        model.trained,
        number=how.sequences,
        lengths=how.lengths,
        seed=how.seed,
    )
    arrays: Arrays = {f"{each.length} true": each.true for each in compared}
    return arrays | {f"{each.length} {each.control}": each.other for each in compared}


def reversed_text(model: EvaluatedModel, how: ReversalSettings) -> Arrays:
    """Log-likelihoods of sequences of the text, and of the same words reversed, [sequences]."""
    texts: dict[str, tuple[Range, ...]] = {
        "training range": model.trained,
        "next range": ((how.n + 1, 2 * how.n),),
    }
    arrays: Arrays = {}
    for name, ranges in texts.items():
        there = Sequences(model.tokenizer, ranges, length=how.length, seed=how.seed)
        numbers = range(how.sequences)
        pieces = {
            "text": [there.true(k) for k in numbers],
            "reversed": [there.made_up("backwards", k) for k in numbers],
        }
        for kind, ids in pieces.items():
            arrays[f"{name} {kind}"] = (how.length - 1) * per_token(model.model, ids)
    return arrays


def compare_readers(scored: dict[str, Arrays]) -> list[Reversal]:
    """The positive control, from the likelihoods of both models."""
    forward, backward = (scored[name] for name in READERS)
    both = {name: forward[name] - backward[name] for name in forward}
    return [
        Reversal(text, name, auc(true, other), mean(true - other))
        for text in TEXTS
        for name, arrays in (*scored.items(), (BOTH, both))
        for true, other in [(arrays[f"{text} text"], arrays[f"{text} reversed"])]
    ]


def summarise(
    outputs: list[Arrays],
    how: SequenceSettings,
    training: TrainingFacts,
    reversal: list[Reversal],
    reversal_settings: ReversalSettings,
) -> Result:
    """Statistics over seeds; `outputs` has the arrays of each seed."""

    def compared(length: int, control: str) -> list[ControlComparison]:
        return [
            ControlComparison(length, control, each[f"{length} true"], each[f"{length} {control}"])
            for each in outputs
        ]

    random = [[distributions(each) for each in compared(n, "unigram")] for n in how.lengths]
    shortest = compared(how.lengths[0], "unigram")
    turned = compared(how.lengths[-1], "backwards")
    return Result(
        how,
        len(outputs),
        training,
        [controls_over_seeds(compared(n, control)) for n in how.lengths for control in CONTROLS],
        [
            Separation(
                seeds[0].length,
                [each.distance for each in seeds],
                [each.disjoint for each in seeds],
            )
            for seeds in random
        ],
        over_seeds([bootstrap(overlap, each.true, each.other) for each in shortest], 0, 1),
        [seeds[0] for seeds in random],
        over_seeds([mean((each.true - each.other) * (each.length - 1)) for each in turned]),
        reversal,
        reversal_settings,
    )


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 8.4), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(3, 2))
    left, right = (figure.add_subplot(grid[0, k]) for k in (0, 1))
    rows = result.values
    values = {"random tokens": [r.other for r in rows], "true text": [r.true for r in rows]}
    ridges(left, values, [str(r.length) for r in rows], bins=60, styles=styles()[1::-1])
    left.set_ylabel("tokens of a sequence")
    left.set_xlabel("log-likelihood in nats per token")
    left.locator_params(axis="x", nbins=5)
    legend_above(left, 2)
    _plot_areas(right, result)
    _plot_readers(figure.add_subplot(grid[1, :]), result)
    return figure


def _plot_areas(axes: Axes, result: Result) -> None:
    lengths = [row.length for row in result.values]
    fifth = {"color": "0.45", "ls": (0, (5, 1, 1, 1, 1, 1)), "marker": "x"}
    for k, (control, style) in enumerate(zip(CONTROLS, [*styles(), fifth], strict=True)):
        # Next to each other, since several areas are 1 from some length on.
        x = [length * 2 ** (0.12 * (k - 2)) for length in lengths]
        label = _NAMES.get(control, control)
        plot_estimates(axes, x, result.areas(control), ms=4, lw=1.2, label=label, **style)
    axes.axhline(0.5, color="black", lw=1)
    token_axis(axes, lengths, "tokens of a sequence")
    axes.set_ylabel("area under the ROC curve")
    axes.grid(alpha=0.3)
    legend_above(axes, 3)


def _plot_readers(axes: Axes, result: Result) -> None:
    readers = list(dict.fromkeys(each.reader for each in result.reversal))
    for k, (name, marker) in enumerate(zip(readers, MARKERS, strict=False)):
        rows = [each for each in result.reversal if each.reader == name]
        x = [i + 0.15 * (k - 1) for i in range(len(rows))]
        areas = [each.auc for each in rows]
        style = styles()[k] | {"ls": "none", "marker": marker}
        plot_estimates(axes, x, areas, label=f"trained {name}" if k < 2 else name, **style)
    axes.axhline(0.5, color="black", lw=1)
    axes.set_xticks(range(len(TEXTS)), list(TEXTS.values()))
    axes.set_xlim(-0.5, len(TEXTS) - 0.5)
    axes.set_ylim(0, 1)
    axes.set_ylabel("area, text against\nreversed text")
    axes.grid(axis="y", alpha=0.3)
    legend_above(axes, 3)


def in_short(result: Result) -> str:
    since, first = disjoint_from(result.random), result.random[0]
    disjoint = f"disjoint from {since} tokens on" if since else "never disjoint"
    last = result.random[-1].length
    return (
        "The likelihoods of true text and of random tokens overlap by"
        f" {format_number(result.short_overlap.value)} at {first.length} tokens and are"
        f" {disjoint}. At {last} tokens the area under the ROC curve against shuffled words is"
        f" {format_number(result.areas('shuffled')[-1].value)}."
    )


def caption(result: Result) -> str:
    how, control = result.sequences, result.reversal_settings
    first = "; first trained model" if result.seeds > 1 else ""
    spread = ", widened by the spread over seeds" if result.seeds > 1 else ""
    return (
        f"Above, left: log-likelihoods of {how.sequences} sequences of the text near"
        f" {format_integer(how.at)} (seed {how.seed}{first}), and of as many sequences of random"
        " tokens, by length. Each random token is drawn with its frequency in the training text."
        " All histograms have the same height. Right: the area under the ROC curve, which is the"
        " probability that a true sequence is likelier than one of a control, with intervals of"
        f" 95 %{spread}. The controls are random tokens, shuffled words, words shuffled within"
        " blocks of eight, the text backwards, and the text with one word deleted. Chance level is"
        " 0.5. Below, a positive control: two small models, one trained on the text of 2..n and"
        f" one on it reversed (n = {format_integer(control.n)}, one seed each), and the difference"
        f" of their log-likelihoods ({control.sequences} sequences of {control.length} tokens, seed"
        f" {control.seed}). {_told(result)}"
    )


def _told(result: Result) -> str:
    """Of which text the two models together tell the direction."""
    memorised, new = map(result.tells_direction, TEXTS)
    missed = "A weaker direction might still be missed."
    if memorised and not new:
        return (
            "They tell the direction of text that they memorised, not of new text (n..2n)."
            f" {missed}"
        )
    if memorised:
        return f"They tell the direction of text that they memorised, and of new text. {missed}"
    return "They do not tell the direction, not even that of text that they were trained on."


def table(result: Result) -> Table:
    header = ["tokens", "control", "true, nats per token", "control, nats per token"]
    header += ["area under the ROC curve", "pairs with the true one likelier"]
    header += ["text minus reversed, nats per sequence"]
    rows: list[list[str | float]] = []
    for each in result.separations:
        estimates = (each.true, each.other, each.auc, each.paired)
        control = _NAMES.get(each.control, each.control)
        rows.append([each.length, control, *map(format_estimate, estimates), ""])
    how = result.reversal_settings
    for row in result.reversal:
        about = f"reversed, {TEXTS[row.text]}, n = {format_integer(how.n)}, model {row.reader}"
        auc, nats = format_estimate(row.auc), format_estimate(row.nats)
        rows.append([how.length, about, "", "", auc, "", nats])
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    first, last = result.random[0], result.random[-1]
    steps = [
        [b > a for a, b in zip(one.distances, other.distances, strict=True)]
        for one, other in pairwise(result.random)
    ]
    longer = [row for row in result.random if row.length > PAPER_DISJOINT]
    since = disjoint_from(result.random)
    shuffled, eights = (result.areas(name)[-1] for name in ("shuffled", "shuffled in eights"))
    backwards = result.areas("backwards")[-1]
    tells = "does not tell" if overlaps(result.backwards, 0, 0) else "tells"
    overlapping = decided_above(result.short_overlap, 0.5)
    ordered = all_decided_above([shuffled, eights], 0.5)
    agreeing = [
        Verdict(
            key="short-overlap",
            claim=f"At {first.length} tokens the likelihoods of true and of random sequences"
            " largely overlap.",
            paper="they do",
            ours=f"overlap {format_estimate(result.short_overlap)} (1 minus the largest difference"
            " of the distribution functions), area under the ROC curve"
            f" {format_estimate(result.areas('unigram')[0])}",
            criterion="the interval of the overlap is above one half",
            agrees=overlapping,
            why=undecided(overlapping, "the interval contains one half"),
        ),
        Verdict(
            key="grows",
            claim="The separation grows monotonically with the length.",
            paper="it does",
            ours=f"the means differ by {format_range(first.distances, 1)} standard deviations at"
            f" {first.length} tokens and by {format_range(last.distances, 1)} at {last.length}; the"
            f" difference grows for every seed at {sum(map(all, steps))} of {len(steps)} doublings",
            criterion="the difference of the means grows at every doubling, for every seed",
            agrees=all(map(all, steps)),
            why="The area cannot grow any more where nothing overlaps.",
        ),
        Verdict(
            key="long-disjoint",
            claim=f"Beyond {PAPER_DISJOINT} tokens no random sequence is as likely as a true"
            " sequence.",
            paper=f"disjoint above {PAPER_DISJOINT} (1000 of each)",
            ours=(f"disjoint from {since} tokens on" if since else "never disjoint")
            + f" ({result.sequences.sequences} of each, {plural(result.seeds, 'seed')})",
            criterion="at every length beyond the paper's and for every seed, the likeliest random"
            " sequence is less likely than the least likely true sequence",
            agrees=bool(longer) and all(all(row.disjoint) for row in longer),
            why="With more sequences the extremes lie farther out.",
        ),
        Verdict(
            key="word-order",
            claim="The likelihood depends on the order of the words, not only on which they are.",
            paper="concluded from random tokens",
            ours=f"area under the ROC curve at {last.length} tokens {format_estimate(shuffled)}"
            f" against shuffled words, {format_estimate(eights)} against words shuffled in eights",
            criterion="the intervals of both areas are above one half",
            agrees=ordered,
            why=sentences(
                undecided(ordered, "an interval contains one half"),
                f"A token is {result.training.token}; shuffling words keeps what is inside them.",
                f"The likelihood {tells} the direction: the text is likelier than the text"
                f" backwards by {format_estimate(result.backwards, 2)} nats a sequence (area"
                f" {format_estimate(backwards)}).",
                _control(result),
            ),
        ),
    ]
    return if_papers_model(agreeing, result.training.stand_in)


def disjoint_from(rows: list[Separation]) -> int | None:
    """The least length from which on all rows are disjoint for every seed; None if there is none.

    Lengths are in increasing order.
    """
    last_overlap = max((row.length for row in rows if not all(row.disjoint)), default=0)
    return next((row.length for row in rows if row.length > last_overlap), None)


def _control(result: Result) -> str:
    """The positive control in words."""
    parts = []
    for text in TEXTS:
        rows = [row for row in result.reversal if row.text == text]
        areas = ", ".join(f"{format_estimate(row.auc, 2)} ({row.reader})" for row in rows)
        parts.append(f"{text}: {areas}")
    sees = "sees" if result.tells_direction("training range") else "does not even see"
    return (
        "Positive control, areas of small models, one seed each, n ="
        f" {format_integer(result.reversal_settings.n)}: {'; '.join(parts)}. So the test {sees} a"
        " direction that models have memorised."
    )
