"""Models between the frequencies of words and the residues that decide them (not in the paper)."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ...evaluation.generation import continued
from ...evaluation.prompts import draw
from ...evaluation.scoring import nats_and_words
from ...evaluation.words import accuracies
from ...integers import format_integer
from ...models.language import LanguageModel
from ...models.locator import Locator
from ...models.ngram import NGram
from ...search.residues import curve, kept_primes
from ...text.splits import TRAINED_TO, splits, unseen
from ...tokens import Tokenizer, WordTokens
from ..runs import TrainedModel, hmm, model, ntp
from ..study import Verdict

TITLE = "How much of arithmetic models know"
PLACE = 200
COST = {"laptop": 70, "gpu": 600}

PAPER_ACCURACY = 0.40  # of its GPT-2, at every scale from 1e13 to 1e15
PAPER_GUESS = 0.1  # just below: a random guess, as the paper has it

FURTHER_BOUNDS = (89, 127, 179, 251, 359, 509, 719, 1021, 2039, 4099)

ONE_TOKEN = "HMM, one token"  # trained as the paper trains it
SEQUENCES = "HMM, sequences"

_MARKS = "sD^vP*X"


def settings(scale: str) -> dict[str, Any]:
    shared = {
        "scales": [10**10, 10**13, 10**15],
        "integers": 1 << 24,
        "bounds": [1, *kept_primes(61).tolist(), *FURTHER_BOUNDS],
        "seed": 0,
    }
    learned = {ONE_TOKEN: hmm(scale), "GPT-2": ntp(scale)}
    if scale == "laptop":
        return shared | {
            "prompts": 64,
            "prompt_tokens": 192,
            "following_tokens": 32,
            "ngram_words": 10**7,
            "trained": learned | {SEQUENCES: TrainedModel("hmm-laptop", ("training.steps=250",))},
        }
    words = ["tokens.kind=words", "model.positions=rotary", "training.optimizer=muon"]
    short = ["training.lr=4e-3", "training.steps=500", "training.warmup=50"]
    return shared | {
        "prompts": 128,
        "prompt_tokens": 992,
        "following_tokens": 32,
        "ngram_words": 10**8,
        "trained": learned
        | {
            SEQUENCES: TrainedModel("hmm-sequence", ("training.steps=600",)),
            "GPT-2, ρ = 1/2, a token a word": TrainedModel("ntp-paper-rho0.5", (*words, *short)),
        },
    }


def run(settings: dict[str, Any]) -> dict[str, Any]:
    curves = {
        str(scale): [
            [score.bound, score.accuracy, score.accuracy_error, score.nats, score.nats_error]
            for score in curve(scale, settings["bounds"], count=settings["integers"])
        ]
        for scale in settings["scales"]
    }
    marks = []
    for name, it, tokenizer in _models(settings):
        for scale in settings["scales"]:
            prompts = draw(
                tokenizer,
                unseen(scale, splits(TRAINED_TO).train),
                number=settings["prompts"],
                length=settings["prompt_tokens"],
                following=settings["following_tokens"],
                seed=settings["seed"],
            )
            made = continued(it, prompts, settings["following_tokens"])
            right = accuracies(made.predicted, made.true)
            cost, words = nats_and_words(it, prompts)
            nats = cost / words
            marks.append(
                {
                    "model": name,
                    "scale": scale,
                    "accuracy": float(right.mean()),
                    "accuracy_error": _error(right),
                    "nats": float(nats.mean()),
                    "nats_error": _error(nats),
                }
            )
    return {"curves": curves, "marks": marks, "prompts": settings["prompts"]}


def _models(settings: dict[str, Any]) -> Iterator[tuple[str, LanguageModel, Tokenizer]]:
    """One after the other: they need not be in memory together."""
    words = WordTokens.commonest(256)
    for order in (1, 8):
        count = NGram.count(order, tokens=words, words=settings["ngram_words"])
        yield "commonest word" if order == 1 else f"{order}-grams", count, words
    for name, recipe in settings["trained"].items():
        learned = model(recipe)
        yield name, learned.model, learned.tokenizer
    yield "locator", Locator(words), words


def _error(values: NDArray[np.float64]) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def horizon(curve: Sequence[Sequence[float]], value: float, column: int) -> float | None:
    """Where on a curve a value lies, between its bounds on a logarithmic scale; None beyond it."""
    bounds, values = np.log([row[0] for row in curve]), np.array([row[column] for row in curve])
    if column == 3:  # nats fall
        value, values = -value, -values
    if value > values[-1]:
        return None
    return float(np.exp(np.interp(value, np.maximum.accumulate(values), bounds)))


def _rows(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The marks with their horizons."""
    for mark in data["marks"]:
        curve = data["curves"][str(mark["scale"])]
        yield mark | {
            "by_accuracy": horizon(curve, mark["accuracy"], 1),
            "by_nats": horizon(curve, mark["nats"], 3),
        }


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(9.6, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    styles = dict(zip(data["curves"], ("-", "--", ":"), strict=True))
    colours = dict(zip(data["curves"], ("#1b9e77", "#d95f02", "#4a46a8"), strict=True))
    names = list(dict.fromkeys(mark["model"] for mark in data["marks"]))
    markers = dict(zip(names, _MARKS, strict=False))
    for scale, rows in data["curves"].items():
        bounds, accuracy, _, nats, _ = zip(*rows, strict=True)
        line = {"color": colours[scale], "linestyle": styles[scale]}
        left.plot(bounds, accuracy, label=f"oracle at {format_integer(int(scale))}", **line)
        right.plot(bounds, nats, **line)
        if int(scale) >= 10**13:
            place = horizon(rows, PAPER_ACCURACY, 1)
            left.plot(place, PAPER_ACCURACY, "o", mfc="white", mec=colours[scale], ms=9, mew=1.5)
    for row in _rows(data):
        last = data["curves"][str(row["scale"])][-1]
        style = {"color": colours[str(row["scale"])], "marker": markers[row["model"]], "ms": 8}
        left.plot(row["by_accuracy"] or 2 * last[0], row["accuracy"], mec="black", **style)
        right.plot(row["by_nats"] or 2 * last[0], row["nats"], mec="black", **style)
    for name, marker in markers.items():
        right.plot([], [], marker, color="0.7", mec="black", ms=7, label=name)
    right.plot([], [], "o", mfc="white", mec="0.3", ms=9, label="the paper's GPT-2 (accuracy)")
    for axes, title in ((left, "word accuracy"), (right, "nats a word")):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("B: residues modulo the primes up to B are known")
        axes.set_ylabel(title)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    left.set_ylim(0.05, 1.03)
    return figure


def caption(data: dict[str, Any]) -> str:
    errors = (
        max(row[column] for rows in data["curves"].values() for row in rows) for column in (2, 4)
    )
    return (
        "Lines: an oracle that knows n modulo every power of every prime up to B, and the scale of"
        " n, and nothing else; each integer is scored by an oracle that has not seen it (standard"
        f" errors of at most {' and '.join(f'{error:.1g}' for error in errors)}). Marks: models, at"
        " the B whose oracle is as good, their arithmetic horizon; to the right of the lines what"
        " no such B reaches. Accuracy is that of greedy continuations of"
        f" {data['prompts']} prompts, nats a word are those of the same"
        " words with the true ones before them given. The locator finds out where a prompt stands"
        " and makes no mistakes: the text is fully predictable from a few dozen words."
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    header = ["model", "at", "accuracy", "±", "nats a word", "±", "horizon", "horizon by nats"]
    rows: list[list[Any]] = [
        [
            row["model"],
            format_integer(row["scale"]),
            *(round(row[key], 4) for key in ("accuracy", "accuracy_error", "nats", "nats_error")),
            *("beyond" if row[key] is None else round(row[key], 1) for key in _HORIZONS),
        ]
        for row in _rows(data)
    ]
    for scale, scores in data["curves"].items():
        for bound, *figures in scores:
            figures = [round(figure, 4) for figure in figures]
            rows.append(
                [f"oracle, B = {bound}", format_integer(int(scale)), *figures, bound, bound]
            )
    return header, rows


_HORIZONS = ("by_accuracy", "by_nats")


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    far = [row for row in _rows(data) if row["scale"] >= 10**13]

    def measured(name: str) -> str:
        return ", ".join(
            f"{row['accuracy']:.3f} ± {row['accuracy_error']:.3f} at {format_integer(row['scale'])}"
            for row in far
            if row["model"] == name
        )

    return [
        Verdict(
            claim="A hidden Markov model predicts no better than a random guess.",
            paper=f"a random guess is just below {PAPER_GUESS}",
            ours=measured(ONE_TOKEN),
            agrees=all(
                row["accuracy"] - 2 * row["accuracy_error"] < PAPER_GUESS
                for row in far
                if row["model"] == ONE_TOKEN
            ),
            why="So it is if it learns to predict from one token, as in the paper. Trained on whole"
            f" windows it has {measured(SEQUENCES)}; the commonest word alone has"
            f" {measured('commonest word')}.",
        )
    ]
