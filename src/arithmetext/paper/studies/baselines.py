"""Models between the frequencies of words and the residues that decide them (not in the paper)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
from ...search.residues import OracleScore, curve, primes_up_to
from ...text.splits import TRAINED_TO, splits, unseen
from ...tokens import Tokenizer, WordTokens
from ..runs import TESTS_FAR, TrainedModel, hmm, ntp
from ..study import Table, Verdict

TITLE = "How much of arithmetic models know"
PLACE = 200
COST = {"laptop": 70, "gpu": 600}

PAPER_ACCURACY = 0.40  # of its GPT-2, at every scale from 1e13 to 1e15
PAPER_CHANCE = 0.1  # the paper's chance level is just below

FURTHER_BOUNDS = (89, 127, 179, 251, 359, 509, 719, 1021, 2039, 4099)

ONE_TOKEN = "HMM, one token"  # trained as in the paper
SEQUENCES = "HMM, sequences"
UNIGRAM = "commonest word"

SCALE_STYLES = (("#1b9e77", "-"), ("#d95f02", "--"), ("#4a46a8", ":"))
MODEL_MARKERS = "sD^vP*X"


@dataclass(frozen=True)
class Settings:
    scales: tuple[int, ...]
    integers: int  # scored by the oracle at each scale
    bounds: tuple[int, ...]  # of the oracle: the values of B
    seed: int
    prompts: int
    prompt_tokens: int
    following_tokens: int
    ngram_words: int
    trained: dict[str, TrainedModel]


@dataclass(frozen=True)
class ModelScore:
    """A model at one scale: means over prompts with their standard errors.

    Its horizon is the B whose oracle is as good, interpolated between bounds; None if it is better
    than every oracle.
    """

    model: str
    scale: int
    accuracy: float
    accuracy_error: float
    nats: float  # per word
    nats_error: float
    horizon_by_accuracy: float | None
    horizon_by_nats: float | None


@dataclass(frozen=True)
class Result:
    curves: dict[int, list[OracleScore]]  # of the oracle, by scale
    scores: list[ModelScore]
    paper_horizons: dict[int, float | None]  # of the accuracy of the paper's GPT-2, by scale
    oracle_errors: tuple[float, float]  # the largest standard errors of accuracy and nats
    prompts: int

    def far_from_training(self, model: str) -> list[ModelScore]:
        return [s for s in self.scores if s.model == model and s.scale >= TESTS_FAR[0]]


def settings(scale: str) -> Settings:
    small = scale == "laptop"
    trained = {ONE_TOKEN: hmm(scale), "GPT-2": ntp(scale)}
    if small:
        trained[SEQUENCES] = TrainedModel("hmm-laptop", ("training.steps=250",))
    else:
        words = ("tokens.kind=words", "model.positions=rotary", "training.optimizer=muon")
        short = ("training.lr=4e-3", "training.steps=500", "training.warmup=50")
        trained[SEQUENCES] = TrainedModel("hmm-sequence", ("training.steps=600",))
        trained["GPT-2, ρ = 1/2, a token a word"] = TrainedModel(
            "ntp-paper-rho0.5", (*words, *short)
        )
    return Settings(
        scales=(10**10, 10**13, 10**15),
        integers=1 << 24,
        bounds=(1, *primes_up_to(61).tolist(), *FURTHER_BOUNDS),
        seed=0,
        prompts=64 if small else 128,
        prompt_tokens=192 if small else 992,
        following_tokens=32,
        ngram_words=10**7 if small else 10**8,
        trained=trained,
    )


def run(settings: Settings) -> Result:
    curves = {
        scale: curve(scale, settings.bounds, count=settings.integers) for scale in settings.scales
    }
    scores = [
        _measure(name, model, tokenizer, scale, curves[scale], settings)
        for name, model, tokenizer in _models(settings)
        for scale in settings.scales
    ]
    return summarize(curves, scores, settings.prompts)


def _models(settings: Settings) -> Iterator[tuple[str, LanguageModel, Tokenizer]]:
    """One after the other: they need not be in memory together."""
    words = WordTokens.commonest(256)
    for order in (1, 8):
        ngram = NGram.count(order, tokens=words, words=settings.ngram_words)
        yield UNIGRAM if order == 1 else f"{order}-grams", ngram, words
    for name, trained in settings.trained.items():
        subject = trained.load()
        yield name, subject.model, subject.tokenizer
    yield "locator", Locator(words), words


def _measure(
    name: str,
    model: LanguageModel,
    tokenizer: Tokenizer,
    scale: int,
    oracle: Sequence[OracleScore],
    settings: Settings,
) -> ModelScore:
    prompts = draw(
        tokenizer,
        unseen(scale, splits(TRAINED_TO).train),
        number=settings.prompts,
        length=settings.prompt_tokens,
        following=settings.following_tokens,
        seed=settings.seed,
    )
    made = continued(model, prompts, settings.following_tokens)
    accuracy, accuracy_error = _mean(accuracies(made.predicted, made.true))
    cost, words = nats_and_words(model, prompts)
    nats, nats_error = _mean(cost / words)
    return ModelScore(
        name,
        scale,
        accuracy,
        accuracy_error,
        nats,
        nats_error,
        horizon_by_accuracy(oracle, accuracy),
        horizon_by_nats(oracle, nats),
    )


def _mean(values: NDArray[np.float64]) -> tuple[float, float]:
    """The mean and its standard error."""
    return float(values.mean()), float(np.std(values, ddof=1) / np.sqrt(len(values)))


def horizon_by_accuracy(oracle: Sequence[OracleScore], accuracy: float) -> float | None:
    return _horizon(oracle, [score.accuracy for score in oracle], accuracy)


def horizon_by_nats(oracle: Sequence[OracleScore], nats: float) -> float | None:
    return _horizon(oracle, [-score.nats for score in oracle], -nats)


def _horizon(oracle: Sequence[OracleScore], values: Sequence[float], value: float) -> float | None:
    """Where the oracle's values reach a value, interpolated on a logarithmic scale of bounds."""
    if value > values[-1]:
        return None
    bounds = np.log([score.bound for score in oracle])
    return float(np.exp(np.interp(value, np.maximum.accumulate(values), bounds)))


def summarize(
    curves: dict[int, list[OracleScore]], scores: list[ModelScore], prompts: int
) -> Result:
    far = [scale for scale in curves if scale >= TESTS_FAR[0]]
    oracle = [score for each in curves.values() for score in each]
    errors = max(s.accuracy_error for s in oracle), max(s.nats_error for s in oracle)
    paper = {scale: horizon_by_accuracy(curves[scale], PAPER_ACCURACY) for scale in far}
    return Result(curves, scores, paper, errors, prompts)


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    colours = {}
    for (scale, oracle), (colour, line) in zip(result.curves.items(), SCALE_STYLES, strict=True):
        colours[scale] = colour
        bounds = [score.bound for score in oracle]
        accuracy, nats = [score.accuracy for score in oracle], [score.nats for score in oracle]
        label = f"oracle at {format_integer(scale)}"
        left.plot(bounds, accuracy, color=colour, linestyle=line, label=label)
        right.plot(bounds, nats, color=colour, linestyle=line)
    circle = {"marker": "o", "linestyle": "", "mfc": "white", "ms": 9}
    for scale, bound in result.paper_horizons.items():
        left.plot(bound, PAPER_ACCURACY, mec=colours[scale], mew=1.5, **circle)
    names = list(dict.fromkeys(score.model for score in result.scores))
    markers = dict(zip(names, MODEL_MARKERS, strict=False))
    for score in result.scores:
        style = {"color": colours[score.scale], "marker": markers[score.model], "ms": 8}
        beyond = 2 * result.curves[score.scale][-1].bound  # to the right of the lines
        left.plot(score.horizon_by_accuracy or beyond, score.accuracy, mec="black", **style)
        right.plot(score.horizon_by_nats or beyond, score.nats, mec="black", **style)
    for name, marker in markers.items():
        right.plot([], [], marker, color="0.7", mec="black", ms=7, label=name)
    right.plot([], [], mec="0.3", label="the paper's GPT-2 (accuracy)", **circle)
    for axes, title in ((left, "word accuracy"), (right, "nats per word")):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("B: residues modulo the primes up to B are known")
        axes.set_ylabel(title)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8)
    left.set_ylim(0.05, 1.03)
    return figure


def caption(result: Result) -> str:
    accuracy_error, nats_error = result.oracle_errors
    return (
        "Lines: an oracle that knows only the scale of n, and n modulo every power of every prime"
        " up to B. Each integer is scored by an oracle that was estimated on other integers"
        f" (standard errors of at most {accuracy_error:.1g} and {nats_error:.1g}). Marks: models,"
        " at the B whose oracle is as good; this B is the model's arithmetic horizon. Models that"
        " are better than every oracle here stand to the right of the lines. Accuracy is that of"
        f" greedy continuations of {result.prompts} prompts. Nats per word are those of the same"
        " words, given the true words before them. The locator finds out where a prompt stands and"
        " makes no mistakes: the text is fully predictable from a few dozen words."
    )


def table(result: Result) -> Table:
    header = ["model", "at", "accuracy", "±", "nats per word", "±", "horizon", "horizon by nats"]
    rows = [
        [score.model, format_integer(score.scale), *_rounded(score)]
        + [
            "beyond" if bound is None else round(bound, 1)
            for bound in (score.horizon_by_accuracy, score.horizon_by_nats)
        ]
        for score in result.scores
    ]
    rows += [
        [f"oracle, B = {score.bound}", format_integer(scale), *_rounded(score)] + [score.bound] * 2
        for scale, oracle in result.curves.items()
        for score in oracle
    ]
    return header, rows


def _rounded(score: ModelScore | OracleScore) -> list[float]:
    numbers = (score.accuracy, score.accuracy_error, score.nats, score.nats_error)
    return [round(number, 4) for number in numbers]


def verdicts(result: Result) -> list[Verdict]:
    def measured(model: str) -> str:
        return ", ".join(
            f"{score.accuracy:.3f} ± {score.accuracy_error:.3f} at {format_integer(score.scale)}"
            for score in result.far_from_training(model)
        )

    return [
        Verdict(
            key="hmm-at-chance",
            claim="A hidden Markov model predicts no better than a random guess.",
            paper=f"a random guess is just below {PAPER_CHANCE}",
            ours=measured(ONE_TOKEN),
            criterion="at each scale, the accuracy minus two standard errors is below"
            f" {PAPER_CHANCE}",
            agrees=all(
                score.accuracy - 2 * score.accuracy_error < PAPER_CHANCE
                for score in result.far_from_training(ONE_TOKEN)
            ),
            why="This HMM learns to predict from one token, as in the paper. Trained on whole"
            f" windows, an HMM has {measured(SEQUENCES)}; the commonest word alone has"
            f" {measured(UNIGRAM)}.",
        )
    ]
