"""Likelihoods of the text, of random tokens and of altered text, by length."""

from dataclasses import dataclass
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.estimates import Estimate, above, overlaps
from ...evaluation.evaluate import doubling
from ...evaluation.likelihood import (
    CONTROLS,
    ControlSummary,
    Distributions,
    compare_with_controls,
    disjoint_from,
)
from ...text.splits import unseen
from ..figures import legend_above, plot_estimates, ridges, styles, token_axis
from ..runs import TEST_NEAR, TrainedModel, TrainingFacts, ntp
from ..study import Table, Verdict
from ..wording import format_estimate, format_integer

TITLE = "True text against random tokens"
ORDER = 140
COST = {"laptop": 8, "gpu": 30}

PAPER_DISJOINT = 32  # tokens beyond which the paper's histograms do not overlap


@dataclass(frozen=True)
class Settings:
    model: TrainedModel
    at: int
    longest: int
    sequences: int
    seed: int


@dataclass(frozen=True)
class Result:
    at: int
    sequences: int
    seed: int
    training: TrainingFacts
    separations: list[ControlSummary]  # for every length, one for each control
    values: list[Distributions]  # with random tokens, by length

    def areas(self, control: str) -> list[Estimate]:
        """Areas under the ROC curve, by length."""
        return [each.auc for each in self.separations if each.control == control]


def settings(scale: str) -> Settings:
    longest, sequences = (256, 128) if scale == "laptop" else (1024, 1000)
    return Settings(ntp(scale), TEST_NEAR, longest, sequences, seed=0)


def run(settings: Settings) -> Result:
    subject = settings.model.load()
    test = unseen(settings.at, subject.seen)
    inputs = subject.model, subject.tokenizer, [test], subject.trained
    number, seed = settings.sequences, settings.seed
    compared = compare_with_controls(
        *inputs, number=number, lengths=doubling(2, settings.longest), seed=seed
    )
    return Result(
        settings.at,
        number,
        seed,
        settings.model.training(),
        [each.summary() for each in compared],
        [each.distributions() for each in compared if each.control == "unigram"],
    )


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    rows = result.values
    values = {"random tokens": [r.other for r in rows], "true text": [r.true for r in rows]}
    ridges(left, values, [str(r.length) for r in rows], bins=60, styles=styles()[1::-1])
    left.set_ylabel("tokens of a sequence")
    left.set_xlabel("log-likelihood in nats per token")
    legend_above(left, 2)
    _plot_areas(right, result)
    return figure


def _plot_areas(axes: Axes, result: Result) -> None:
    lengths = [row.length for row in result.values]
    names = {"unigram": "random tokens", "deleted": "word deleted"}
    fifth = {"color": "0.45", "ls": (0, (5, 1, 1, 1, 1, 1)), "marker": "x"}
    for k, (control, style) in enumerate(zip(CONTROLS, [*styles(), fifth], strict=True)):
        # Next to each other, since several areas are 1 from some length on.
        x = [length * 2 ** (0.12 * (k - 2)) for length in lengths]
        label = names.get(control, control)
        plot_estimates(axes, x, result.areas(control), ms=4, lw=1.2, label=label, **style)
    axes.axhline(0.5, color="black", lw=1)
    token_axis(axes, lengths, "tokens of a sequence")
    axes.set_ylabel("area under the ROC curve")
    axes.grid(alpha=0.3)
    legend_above(axes, 3)


def caption(result: Result) -> str:
    shortest, longest = result.values[0].length, result.values[-1].length

    def change(control: str) -> str:
        areas = result.areas(control)
        return f"{areas[0].value:.2f} to {areas[-1].value:.2f}"

    return (
        f"Left: log-likelihoods of {result.sequences} sequences of the text near"
        f" {format_integer(result.at)} (seed {result.seed}), and of as many sequences of random"
        " tokens, by length. Each random token is drawn with its frequency in the training text."
        " All histograms have the same height. Right: the area under the ROC curve, which is the"
        " probability that a true sequence is likelier than one of a control, with intervals of"
        " 95 %. The controls are random tokens, shuffled words, words shuffled within blocks of"
        " eight, the text backwards, and the text with one word deleted. Chance level is 0.5."
        f" From {shortest} to {longest} tokens the area goes from {change('unigram')} for random"
        f" tokens, from {change('shuffled in eights')} for words shuffled in eights and from"
        f" {change('backwards')} for the text backwards. A deleted word counts less in longer"
        f" sequences ({change('deleted')})."
    )


def table(result: Result) -> Table:
    header = ["tokens", "control", "true, nats per token", "control, nats per token"]
    header += ["area under the ROC curve", "pairs with the true one likelier"]
    rows = [
        [row.length, row.control]
        + [format_estimate(each) for each in (row.true, row.other, row.auc, row.paired)]
        for row in result.separations
    ]
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    first, last = result.values[0], result.values[-1]
    grows = [b.distance > a.distance for a, b in pairwise(result.values)]
    longer = [row for row in result.values if row.length > PAPER_DISJOINT]
    since = disjoint_from(result.values)
    shuffled, eights = (result.areas(name)[-1] for name in ("shuffled", "shuffled in eights"))
    backwards = result.areas("backwards")[-1]
    tells = "does not tell" if overlaps(backwards, 0.5, 0.5) else "tells"
    return [
        Verdict(
            key="short-overlap",
            claim=f"At {first.length} tokens the likelihoods of true and of random sequences"
            " largely overlap.",
            paper="they do",
            ours=f"overlap {first.overlap:.2f} (1 minus the largest difference of the distribution"
            f" functions), area under the ROC curve {format_estimate(result.areas('unigram')[0])}",
            criterion="the overlap is above one half",
            agrees=first.overlap > 0.5,
        ),
        Verdict(
            key="grows",
            claim="The separation grows monotonically with the length.",
            paper="it does",
            ours=f"the means differ by {first.distance:.1f} standard deviations at {first.length}"
            f" tokens and by {last.distance:.1f} at {last.length}; the difference grows at"
            f" {sum(grows)} of {len(grows)} doublings",
            criterion="the difference of the means grows at every doubling",
            agrees=all(grows),
            why="The area cannot grow any more where nothing overlaps.",
        ),
        Verdict(
            key="long-disjoint",
            claim=f"Beyond {PAPER_DISJOINT} tokens no random sequence is as likely as a true"
            " sequence.",
            paper=f"disjoint above {PAPER_DISJOINT} (1000 of each)",
            ours=(f"disjoint from {since} tokens on" if since else "never disjoint")
            + f" ({len(first.true)} of each)",
            criterion="at every length beyond the paper's, the likeliest random sequence is less"
            " likely than"
            " the least likely true sequence",
            agrees=bool(longer) and all(row.disjoint for row in longer),
            why="With more sequences the extremes lie farther out.",
        ),
        Verdict(
            key="word-order",
            claim="The likelihood depends on the order of the words, not only on which they are.",
            paper="concluded from random tokens",
            ours=f"area under the ROC curve at {last.length} tokens {format_estimate(shuffled)}"
            f" against shuffled words, {format_estimate(eights)} against words shuffled in eights",
            criterion="the intervals of both areas are above one half",
            agrees=above(shuffled, 0.5) and above(eights, 0.5),
            why=f"A token is {result.training.token}; shuffling words keeps what is inside them."
            f" The likelihood {tells} the direction: area {format_estimate(backwards)} against the"
            " text backwards. Divisibility by small primes is the same from n down as from n up.",
        ),
    ]
