"""Accuracy and loss of several models beside oracles that know residues (not in the paper)."""

from collections.abc import Iterator
from dataclasses import dataclass

from matplotlib.figure import Figure

from ...evaluation.horizon import ModelScore, horizon_by_accuracy, measure
from ...evaluation.prompts import draw
from ...integers import format_integer
from ...models.language import LanguageModel
from ...models.locator import Locator
from ...models.ngram import NGram
from ...search.residues import OracleScore, curve, primes_up_to
from ...text.splits import TRAINED_TO, splits, unseen
from ...tokens import Tokenizer, WordTokens
from ..runs import TEST_NEAR, TESTS_FAR, TrainedModel, hmm, ntp
from ..study import Table, Verdict

TITLE = "How much of arithmetic models know"
ORDER = 200
COST = {"laptop": 70, "gpu": 600}

PAPER_ACCURACY = 0.40  # of its GPT-2, at every scale from 1e13 to 1e15
PAPER_CHANCE = 0.1  # the paper's chance level is just below

FURTHER_BOUNDS = (89, 127, 179, 251, 359, 509, 719, 1021, 2039, 4099)

ONE_TOKEN = "HMM, one token"  # trained as in the paper
SEQUENCES = "HMM, sequences"
UNIGRAM = "commonest word"

SCALE_COLOURS = ("#1b9e77", "#d95f02", "#4a46a8")
SCALE_LINES = ("-", "--", ":")
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
        trained["GPT-2, ρ = 1/2, a token a word"] = TrainedModel("ntp-paper-rho0.5", words + short)
    return Settings(
        scales=(TEST_NEAR, 10**13, 10**15),
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
    scores = []
    for name, model, tokenizer in _models(settings):
        for scale, oracle in curves.items():
            prompts = draw(
                tokenizer,
                unseen(scale, splits(TRAINED_TO).seen),
                number=settings.prompts,
                length=settings.prompt_tokens,
                following=settings.following_tokens,
                seed=settings.seed,
            )
            scores.append(measure(name, scale, model, prompts, oracle))
    return summarise(curves, scores, settings.prompts)


def _models(settings: Settings) -> Iterator[tuple[str, LanguageModel, Tokenizer]]:
    """The models one after the other, so that they need not be in memory together."""
    words = WordTokens.commonest(256)
    for order in (1, 8):
        ngram = NGram.count(order, tokens=words, words=settings.ngram_words)
        yield UNIGRAM if order == 1 else f"{order}-grams", ngram, words
    for name, trained in settings.trained.items():
        subject = trained.load()
        yield name, subject.model, subject.tokenizer
    yield "locator", Locator(words), words


def summarise(
    curves: dict[int, list[OracleScore]], scores: list[ModelScore], prompts: int
) -> Result:
    paper = {
        scale: horizon_by_accuracy(oracle, PAPER_ACCURACY)
        for scale, oracle in curves.items()
        if scale >= TESTS_FAR[0]
    }
    oracles = [score for oracle in curves.values() for score in oracle]
    errors = max(s.accuracy_error for s in oracles), max(s.nats_error for s in oracles)
    return Result(curves, scores, paper, errors, prompts)


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 4.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    colours = dict(zip(result.curves, SCALE_COLOURS, strict=True))
    for (scale, oracle), line in zip(result.curves.items(), SCALE_LINES, strict=True):
        bounds, colour = [score.bound for score in oracle], colours[scale]
        accuracy, nats = [score.accuracy for score in oracle], [score.nats for score in oracle]
        label = f"oracle at {format_integer(scale)}"
        left.plot(bounds, accuracy, color=colour, ls=line, label=label)
        right.plot(bounds, nats, color=colour, ls=line)
    circle = {"marker": "o", "linestyle": "", "mfc": "white", "ms": 9}
    for scale, bound in result.paper_horizons.items():
        left.plot(bound, PAPER_ACCURACY, mec=colours[scale], mew=1.5, **circle)
    names = list(dict.fromkeys(score.model for score in result.scores))
    markers = dict(zip(names, MODEL_MARKERS, strict=False))
    for score in result.scores:
        style = {"color": colours[score.scale], "mec": "black", "ms": 8}
        marker = markers[score.model]
        beyond = 2 * result.curves[score.scale][-1].bound  # to the right of the lines
        left.plot(score.horizon_by_accuracy or beyond, score.accuracy, marker, **style)
        right.plot(score.horizon_by_nats or beyond, score.nats, marker, **style)
    for name, marker in markers.items():
        right.plot([], [], marker, color="0.7", mec="black", ms=7, label=name)
    right.plot([], [], mec="0.3", label="the paper's GPT-2 (accuracy)", **circle)
    for axes, title in ((left, "word accuracy"), (right, "nats per word")):
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_xlabel("B: n modulo all powers of the primes up to B is known")
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
        " are better than every oracle are drawn to the right of the lines. Accuracy is measured on"
        f" greedy continuations of {result.prompts} prompts. Nats per word are measured on the same"
        " words, given the true words before them. The locator finds the place of a prompt in the"
        " text and makes no mistakes: the text is fully predictable from a few dozen words."
    )


def table(result: Result) -> Table:
    header = ["model", "at", "accuracy", "±", "nats per word", "±", "horizon", "horizon by nats"]
    rows: list[list[str | float]] = []
    for score in result.scores:
        horizons = (score.horizon_by_accuracy, score.horizon_by_nats)
        bounds = ["beyond" if bound is None else round(bound, 1) for bound in horizons]
        rows.append([score.model, format_integer(score.scale), *_rounded(score), *bounds])
    for scale, oracle in result.curves.items():
        for each in oracle:
            name, bounds = f"oracle, B = {each.bound}", [each.bound, each.bound]
            rows.append([name, format_integer(scale), *_rounded(each), *bounds])
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
