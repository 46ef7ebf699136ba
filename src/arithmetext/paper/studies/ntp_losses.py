"""Loss curves of next-token prediction for three vocabularies (the paper's NTP losses)."""

from collections.abc import Sequence
from math import log
from typing import Any

from matplotlib.figure import Figure

from ...counting.census import census, unigram_entropy
from ...integers import format_integer
from ...training.recipes import SIZES
from ..runs import learning, parameters, record, without_attention
from ..study import Verdict
from ._losses import (
    about_least,
    draw,
    draw_without_attention,
    extends,
    how_trained,
    legend,
    of_uniform,
    seen,
    what_a_plateau_is,
)
from ._losses import table as curves_table

TITLE = "Learning to predict the next token"
PLACE = 100
COST = {"laptop": 90, "gpu": 450}
PAPER_PARAMETERS = 8.7e7
PAPER_SHAPE = (12, 12, 1024)  # layers, heads, L


def settings(scale: str) -> dict[str, Any]:
    return {"trained": {str(size): learning("ntp", scale, size) for size in SIZES}}


def run(settings: dict[str, Any]) -> dict[str, Any]:
    records = {size: record(recipe) for size, recipe in settings["trained"].items()}
    [n] = {each["config"]["n"] for each in records.values()}
    return {
        "records": records,
        "parameters": {s: parameters(recipe) for s, recipe in settings["trained"].items()},
        "without_attention": without_attention(settings["trained"]),
        "n": n,
        "single_words": unigram_entropy(census(n)) * log(2),
    }


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(9.6, 4.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    records = data["records"]
    draw(left, records, of_uniform)
    left.set_xlabel("training step")
    left.set_ylabel("loss, as a share of ln D")
    legend(left, records, draw_without_attention(left, data["without_attention"]))
    draw(right, _validated(records), _of_words)
    right.set_xlabel("words read")
    right.set_ylabel("nats a word")
    right.axhline(data["single_words"], color="0.3", lw=1, ls=(0, (1, 2)))
    right.annotate(
        "single words",
        (0.02, data["single_words"]),
        xycoords=right.get_yaxis_transform(),
        xytext=(0, -4),
        textcoords="offset points",
        va="top",
        fontsize=8,
    )
    return figure


def _validated(data: dict[str, Any]) -> dict[str, Any]:
    """The runs whose words a token are known."""
    return {size: record for size, record in data.items() if record["validation"]}


def _of_words(size: int, record: dict[str, Any]) -> tuple[float, float]:
    """Words for steps, and nats a word for nats a token."""
    tokens = _tokens_a_word(record)
    return record["config"]["training"]["batch"] / tokens, tokens


def _tokens_a_word(record: dict[str, Any]) -> float:
    last = record["validation"][-1]
    return float(last["validation_nats_per_word"] / last["validation_loss"])


def caption(data: dict[str, Any]) -> str:
    return (
        "Loss of next-token prediction while it is learned: training as lines (means over steps"
        " that are near each other on the axis), validation as marks, plateaus as pale bands. Left,"
        " divided by ln D, the loss of a guess, with thin lines for the least that a model can have"
        " without attention, which sees the token before and no other; right, in nats a word"
        " against words read, where vocabularies can be compared. The dotted line is what words"
        f" cost that are drawn by their frequencies among 2..{format_integer(data['n'])} alone,"
        f" {data['single_words']:.3f} nats (exact)."
        f" {how_trained(data['records'])} {what_a_plateau_is()}"
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    return curves_table(data["records"], data["without_attention"])


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    return [
        seen(
            data["records"],
            claim="After a rapid decrease the loss rests on a brief plateau before a second"
            " descent, for every D.",
            paper="all three curves do",
            why=about_least(data["without_attention"], seen="the token before"),
        ),
        extends(data["records"], claim="The plateau extends further in training as D increases."),
        _parameters(data),
    ]


def _parameters(data: dict[str, Any]) -> Verdict:
    """How large the models are, if they have the paper's shape."""
    models = [record["config"]["model"] for record in data["records"].values()]
    shapes = {(model["layers"], model["heads"], model["context"]) for model in models}
    counts = data["parameters"]
    said = ", ".join(f"{count:,} for D = {size}" for size, count in counts.items())
    tested = shapes == {PAPER_SHAPE}
    near = all(abs(count / PAPER_PARAMETERS - 1) < 0.02 for count in counts.values())
    return Verdict(
        claim="The model has 8.7e7 trainable parameters.",
        paper="8.7e7",
        ours=f"{said} (exact; agrees if all are within 2 % of the paper's)",
        agrees=near if tested else None,
        why=f"To two digits {', '.join(f'{count:.1e}' for count in counts.values())}. One"
        " matrix of tokens serves for input and output."
        if tested
        else "These models do not have the paper's shape, {} layers of {} heads and L = {}.".format(
            *PAPER_SHAPE
        ),
    )
