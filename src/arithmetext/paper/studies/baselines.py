"""Accuracy and loss of several models beside oracles that know residues (not in the paper)."""

from collections.abc import Iterator
from dataclasses import dataclass

from matplotlib.figure import Figure

from ...evaluation import horizon
from ...evaluation.horizon import ModelScore, PromptScores, horizon_by_accuracy, score_prompts
from ...evaluation.prompts import TextPrompts
from ...integers import format_integer
from ...models.language import LanguageModel
from ...models.locator import Locator
from ...models.ngram import NGram
from ...search.residues import OracleScore, curve, primes_up_to
from ...text.splits import TRAINED_TO, splits
from ...tokens import WordTokens
from ..constants import PAPER_ACCURACY
from ..runs import (
    SCORED_TOKENS,
    TEST_NEAR,
    TESTS_FAR,
    PromptSettings,
    TrainedModel,
    draw_prompts,
    hmm,
    ntp,
    scoring_settings,
    several_seeds,
)
from ..study import Table, Verdict
from ..wording import format_estimate, format_number, join, sentences

TITLE = "How much of arithmetic models know"
ORDER = 200
COST = {"laptop": 40, "gpu": 600}

FURTHER_BOUNDS = (89, 127, 179, 251, 359, 509, 719, 1021, 2039, 4099)

ONE_TOKEN = "HMM, one token"  # trained as in the paper
FILTER = "the same HMM as a filter"  # reads the whole prompt
SEQUENCES = "HMM, sequences"
UNIGRAM = "commonest word"

SCALE_COLOURS = ("#1b9e77", "#d95f02", "#4a46a8")
SCALE_LINES = ("-", "--", ":")
MODEL_MARKERS = "s*DX^vP<"


@dataclass(frozen=True)
class Settings:
    scales: tuple[int, ...]
    integers: int  # scored by the oracle at each scale
    bounds: tuple[int, ...]  # of the oracle: the values of B
    prompts: PromptSettings
    following_tokens: int
    ngram_words: int
    trained: dict[str, tuple[TrainedModel, ...]]  # by name; one model per seed


@dataclass(frozen=True)
class Result:
    curves: dict[int, list[OracleScore]]  # of the oracle, by scale
    scores: list[ModelScore]
    paper_horizons: dict[int, float | None]  # of the accuracy of the paper's GPT-2, by scale
    oracle_errors: tuple[float, float]  # the largest standard errors of accuracy and nats
    prompts: PromptSettings
    following_tokens: int

    def models(self) -> tuple[list[str], list[str]]:
        """Models that reach the oracle of B = 2 at some scale, and models that do not."""
        reached = {
            score.model
            for score in self.scores
            if any(b is None or b >= 2 for b in (score.horizon_by_accuracy, score.horizon_by_nats))
        }
        names = dict.fromkeys(score.model for score in self.scores)
        return [n for n in names if n in reached], [n for n in names if n not in reached]


def settings(scale: str) -> Settings:
    small = scale == "laptop"
    trained = {
        ONE_TOKEN: several_seeds(hmm(scale), scale, 5),
        "GPT-2": several_seeds(ntp(scale), scale),
    }
    if small:
        trained[SEQUENCES] = (TrainedModel("hmm-laptop", ("training.steps=250",)),)
    return Settings(
        scales=(TEST_NEAR, 10**13, 10**15),
        integers=2**21 if small else 2**24,
        bounds=(1, *primes_up_to(61).tolist(), *FURTHER_BOUNDS),
        prompts=scoring_settings(scale),
        following_tokens=SCORED_TOKENS,
        ngram_words=10**7 if small else 10**8,
        trained=trained,
    )


def run(settings: Settings) -> Result:
    curves = {
        scale: curve(scale, settings.bounds, count=settings.integers) for scale in settings.scales
    }
    scores = [
        horizon.summarise(name, at, seeds, prompts, curves[at])
        for name, at, seeds, prompts in _scores(settings)
    ]
    return summarise(curves, scores, settings.prompts, settings.following_tokens)


def _scores(settings: Settings) -> Iterator[tuple[str, int, list[PromptScores], TextPrompts]]:
    """The name of each model, the scale, the scores of each seed, and the prompts."""
    words, how, count = WordTokens.commonest(256), settings.prompts, settings.following_tokens
    untrained: dict[str, LanguageModel] = {"locator": Locator(words)}
    for order in (1, 8):
        ngram = NGram.count(order, tokens=words, words=settings.ngram_words)
        untrained[UNIGRAM if order == 1 else f"{order}-grams"] = ngram
    for name, model in untrained.items():
        for at in settings.scales:
            prompts = draw_prompts(words, splits(TRAINED_TO).seen, at, how).followed_by(count)
            yield name, at, [score_prompts(model, prompts)], prompts
    for name, models in settings.trained.items():
        for reading in (name, FILTER) if name == ONE_TOKEN else (name,):
            found = {
                (seed, at): model.scores(at, how, count, filtered=reading == FILTER)
                for seed, model in enumerate(models)  # outside: each is loaded once
                for at in settings.scales
            }
            for at in settings.scales:
                of_seeds = [found[seed, at] for seed in range(len(models))]
                yield reading, at, [scores for _, scores in of_seeds], of_seeds[0][0]


def summarise(
    curves: dict[int, list[OracleScore]],
    scores: list[ModelScore],
    prompts: PromptSettings,
    following_tokens: int,
) -> Result:
    paper = {
        scale: horizon_by_accuracy(oracle, PAPER_ACCURACY)
        for scale, oracle in curves.items()
        if scale >= TESTS_FAR[0]
    }
    oracles = [score for oracle in curves.values() for score in oracle]
    errors = max(s.accuracy_error for s in oracles), max(s.nats_error for s in oracles)
    return Result(curves, scores, paper, errors, prompts, following_tokens)


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
    circle = {"marker": "o", "linestyle": "", "mfc": "white", "ms": 7}
    for scale, bound in result.paper_horizons.items():
        left.plot(bound, PAPER_ACCURACY, mec=colours[scale], mew=1.5, **circle)
    markers = dict(zip(result.models()[0], MODEL_MARKERS, strict=False))
    # To the right of the lines, side by side.
    beyond_lines = {
        scale: 2 ** (i + 1) * oracle[-1].bound
        for i, (scale, oracle) in enumerate(result.curves.items())
    }
    for score in result.scores:
        if score.model not in markers:
            continue
        style = {"color": colours[score.scale], "mec": "black", "mew": 0.6, "ms": 6}
        marker, beyond = markers[score.model], beyond_lines[score.scale]
        left.plot(score.horizon_by_accuracy or beyond, score.accuracy.value, marker, **style)
        right.plot(score.horizon_by_nats or beyond, score.nats.value, marker, **style)
    for name, marker in markers.items():
        right.plot([], [], marker, color="0.7", mec="black", mew=0.6, ms=6, label=name)
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


HOW = {
    ONE_TOKEN: "trained as in the paper, to predict from one token",
    FILTER: "reads the whole prompt",
    SEQUENCES: "trained on whole windows",
}


def in_short(result: Result) -> str:
    at = result.scores[0].scale
    near = {score.model: score for score in result.scores if score.scale == at}
    accuracies = join(
        f"{format_number(score.accuracy.value)} ({name})" for name, score in near.items()
    )
    horizon = near["GPT-2"].horizon_by_accuracy
    level = f"as good as an oracle of B = {horizon:.1f}" if horizon else "better than every oracle"
    return (
        f"Shares of words that are right near {format_integer(at)}: {accuracies}. The GPT-2 is"
        f" {level}."
    )


def caption(result: Result) -> str:
    accuracy_error, nats_error = result.oracle_errors
    drawn, others = result.models()
    how = result.prompts
    return sentences(
        "Lines: an oracle that knows n modulo every power of every prime up to B, and the size of"
        " n, and nothing else.",
        "Each integer is scored by an oracle that was estimated on other integers near it (standard"
        f" errors at most {accuracy_error:.1g} in accuracy and {nats_error:.1g} nats).",
        "Marks: each model at the B whose oracle scores the same, its arithmetic horizon; models"
        " that are better than every oracle are to the right of the lines.",
        f"Hollow circles: the accuracy that the paper gives for its GPT-2, {PAPER_ACCURACY}.",
        f"Models: {_explained(drawn)}." if drawn else "",
        f"Not drawn, since they never reach the oracle of B = 2: {_explained(others)}."
        if others
        else "",
        f"Accuracy: greedy continuations of {how.prompts} prompts of {how.tokens} tokens, from"
        f" {how.blocks} blocks of the text, by {result.following_tokens} tokens; a model trained"
        " with several seeds has its mean.",
        "Nats per word: the loss on the true next tokens, summed and divided by the number of"
        " completed words.",
        "The locator finds the prompt's place in the text and then makes no mistakes: the text"
        " after a prompt is fully determined.",
    )


def _explained(models: list[str]) -> str:
    return "; ".join(f"{name} ({HOW[name]})" if name in HOW else name for name in models)


def table(result: Result) -> Table:
    header = ["model", "seeds", "at", "accuracy", "nats per word", "horizon", "horizon by nats"]
    rows: list[list[str | float]] = []
    for score in result.scores:
        horizons = (score.horizon_by_accuracy, score.horizon_by_nats)
        bounds = ["beyond" if bound is None else round(bound, 1) for bound in horizons]
        means = map(format_estimate, (score.accuracy, score.nats))
        rows.append([score.model, score.seeds, format_integer(score.scale), *means, *bounds])
    for scale, oracle in result.curves.items():
        for each in oracle:
            numbers = f"{each.accuracy:.4f}", f"{each.nats:.4f}", each.bound, each.bound
            rows.append([f"oracle, B = {each.bound}", "", format_integer(scale), *numbers])
    return header, rows


def verdicts(result: Result) -> list[Verdict]:
    """None: the study `accuracy_beta` tests what the paper says about the HMM."""
    return []
