"""Loss curves of next-token prediction for three vocabularies (the paper's NTP losses)."""

from dataclasses import dataclass
from math import log

from matplotlib.figure import Figure

from ...counting.census import census, unigram_entropy
from ...evaluation.without_attention import lowest_loss
from ...training.recipes import SIZES
from ..runs import TrainedModel, with_vocabulary
from ..study import Table, Verdict, if_papers_model
from ..wording import format_integer
from ._losses import (
    define_plateau,
    describe_lowest_losses,
    describe_training,
    draw_losses,
    draw_losses_by_step,
    loss_table,
    plateau_end_verdict,
    plateau_verdict,
    why_not_the_papers,
)
from ._training_runs import TrainingRun, summarise

TITLE = "Learning to predict the next token"
ORDER = 100
COST = {"laptop": 90, "gpu": 450}
PAPER_PARAMETERS = 8.7e7
PAPER_SHAPE = (12, 12, 1024)  # layers, heads, L


@dataclass(frozen=True)
class Settings:
    trained: dict[int, TrainedModel]  # by the size D of the vocabulary


@dataclass(frozen=True)
class Result:
    runs: dict[int, TrainingRun]
    parameters: dict[int, int]
    without_attention: dict[int, float]  # the lowest loss, in nats per token
    n: int  # the text is that of 2..n
    single_words: float  # entropy of the words of the text, in nats


def settings(scale: str) -> Settings:
    return Settings({size: with_vocabulary("ntp", scale, size) for size in SIZES})


def run(settings: Settings) -> Result:
    models = settings.trained
    [n] = {model.config.n for model in models.values()}
    return Result(
        runs={size: summarise(model.record()) for size, model in models.items()},
        parameters={size: model.parameters() for size, model in models.items()},
        without_attention={size: lowest_loss(model.config) for size, model in models.items()},
        n=n,
        single_words=unigram_entropy(census(n)) * log(2),
    )


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    draw_losses_by_step(left, result.runs, result.without_attention)
    units = {  # from steps to words, and from nats per token to nats per word
        size: (run.batch / run.tokens_per_word, run.tokens_per_word)
        for size, run in result.runs.items()
        if run.tokens_per_word is not None
    }
    draw_losses(right, {size: result.runs[size] for size in units}, units)
    right.set_xlabel("words read")
    right.set_ylabel("nats per word")
    right.axhline(result.single_words, color="0.3", lw=1, ls=(0, (1, 2)))
    right.annotate(
        "single words",
        (0.02, result.single_words),
        xycoords=right.get_yaxis_transform(),
        xytext=(0, -4),
        textcoords="offset points",
        va="top",
        fontsize=8,
    )
    return figure


def caption(result: Result) -> str:
    return (
        "Loss of next-token prediction during training. Lines are the training loss (means over"
        " steps that are close on the axis), markers the validation loss, pale bands plateaus."
        " Left: the loss divided by ln D, the loss of a uniform guess; thin lines are the lowest"
        " loss that a model without attention can reach, which sees only the previous token. Right:"
        " nats per word against words read, where vocabularies can be compared. The dotted line is"
        " the cost of words drawn independently, by their frequencies in"
        f" 2..{format_integer(result.n)}: {result.single_words:.3f} nats (exact)."
        f" {describe_training(result.runs)} {define_plateau()}"
    )


def table(result: Result) -> Table:
    return loss_table(result.runs, result.without_attention)


def verdicts(result: Result) -> list[Verdict]:
    about_learning = [
        plateau_verdict(
            result.runs,
            claim="After a rapid decrease the loss rests on a brief plateau before a second"
            " descent, for every D.",
            paper="all three curves do",
            why=describe_lowest_losses(result.without_attention, seen="the previous token"),
        ),
        plateau_end_verdict(
            result.runs, claim="The plateau extends further in training as D increases."
        ),
    ]
    stand_in = why_not_the_papers(result.runs)
    return [*if_papers_model(about_learning, stand_in), _has_parameters(result)]


def _has_parameters(result: Result) -> Verdict:
    """The models are as large as the paper's, if they have its shape."""
    models = [run.record.config["model"] for run in result.runs.values()]
    shapes = {(model["layers"], model["heads"], model["context"]) for model in models}
    counts = result.parameters
    tested = shapes == {PAPER_SHAPE}
    near = all(abs(count / PAPER_PARAMETERS - 1) < 0.02 for count in counts.values())
    layers, heads, context = PAPER_SHAPE
    return Verdict(
        key="parameters",
        claim="The model has 8.7e7 trainable parameters.",
        paper="8.7e7",
        ours="exactly " + ", ".join(f"{count:,} for D = {size}" for size, count in counts.items()),
        criterion="all parameter counts are within 2 % of the paper's",
        agrees=near if tested else None,
        why=f"To two digits {', '.join(f'{count:.1e}' for count in counts.values())}. Input and"
        " output share one embedding matrix."
        if tested
        else "These models do not have the paper's shape:"
        f" {layers} layers of {heads} heads and L = {context}.",
    )
