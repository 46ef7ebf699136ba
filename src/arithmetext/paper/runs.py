"""The trained models behind the paper's figures, at each scale.

Several studies share a model. Each is trained once, on first use, and kept in the user's cache. The
model that comes with the package is not trained again.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass, replace
from functools import lru_cache
from math import inf
from typing import Any, TypeVar, cast

import numpy as np
import torch

from ..evaluation.codec import from_json
from ..evaluation.generation import Continuations, continue_prompts, with_true_words
from ..evaluation.horizon import PromptScores, score_prompts
from ..evaluation.prompts import TextPrompts, draw_from_blocks
from ..evaluation.subjects import EvaluatedModel, subject
from ..models.hmm import HMM
from ..text.sieve import Words
from ..text.splits import Range, blocks_near, splits
from ..tokens import Tokenizer
from ..training import run_cache
from ..training.config import Config, TokensConfig, with_changes
from ..training.recipes import recipe
from ..training.run import make_model
from . import outputs
from .outputs import Arrays

T = TypeVar("T")

TEST_NEAR = 98 * 10**9  # in the paper's test range, within the text that it trains on
TESTS_FAR = (10**13, 10**14, 10**15)  # the paper's tests far beyond that text


BETAS_COMPARED = {"GPT-2": inf, "HMM": 1.0}  # where the two are compared word by word


@dataclass(frozen=True)
class PromptSettings:
    """How prompts are drawn and continued."""

    prompts: int
    tokens: int  # of a prompt, and of its continuation
    stride: int  # tokens by which a full context slides (models.kv_cache)
    seed: int
    blocks: int  # of a million integers each, that the prompts are drawn from


@dataclass(frozen=True)
class Generation:
    """Which continuations of which prompts."""

    at: int
    how: PromptSettings
    beta: float
    tokens: int


@dataclass(frozen=True)
class Following:
    """The first `tokens` after each prompt."""

    at: int
    how: PromptSettings
    tokens: int


@dataclass(frozen=True)
class Record:
    """A finished run without its weights: configuration, environment, speed and losses."""

    config: dict[str, Any]
    environment: dict[str, Any]
    seconds: float
    tokens: int
    tokens_per_second: float
    training: list[tuple[float, float]]  # steps, and mean losses around them
    validation: list[dict[str, Any]]  # rows of metrics.jsonl


@dataclass(frozen=True)
class TrainingFacts:
    """How long a model was trained, where, and on what."""

    tokens: int
    seconds: float
    device: str
    token: str  # what a token is, in words
    stand_in: str  # why this is not the paper's model; empty if it is


@dataclass(frozen=True)
class TrainedModel:
    """A model by its recipe and the changes to it; training starts when it is first needed.

    `TrainedModel("pretrained")`, without changes, is the model that comes with the package.
    """

    recipe: str
    changes: tuple[str, ...] = ()

    @property
    def config(self) -> Config:
        return with_changes(recipe(self.recipe), self.changes)

    def record(self) -> Record:
        restored: Record = from_json(Record, run_cache.record(self.config))
        return restored

    def training(self) -> TrainingFacts:
        record = self.record()
        token = _TOKEN[self.config.tokens.kind]
        device = record.environment["device"]
        return TrainingFacts(record.tokens, record.seconds, device, token, self.stand_in)

    @property
    def stand_in(self) -> str:
        """Why this is not the paper's model; empty if it is."""
        return why_not_the_papers(self.config)

    @property
    def trained_on(self) -> int:
        """The number of tokens in its training."""
        training = self.config.training
        return training.steps * training.batch

    def with_seeds(self, count: int) -> tuple["TrainedModel", ...]:
        """This model, trained with the random seeds 0, 1, …"""
        seeds = [(f"seed={seed}",) if seed else () for seed in range(count)]
        return tuple(TrainedModel(self.recipe, self.changes + seed) for seed in seeds)

    def load(self) -> EvaluatedModel:
        """The model, ready to be measured."""
        return _load(self)

    def parameters(self) -> int:
        """The number of trainable parameters."""
        with torch.device("meta"):
            return make_model(self.config).parameter_count

    def prompts(self, at: int, how: PromptSettings) -> TextPrompts:
        """Prompts from the text near `at`; the model has not seen them."""
        text = self.config.text
        return draw_prompts(_tokenizer(self.config.tokens, self.config.n), text.seen, at, how)

    def continuations(
        self,
        at: int,
        how: PromptSettings,
        *,
        beta: float = inf,
        tokens: int | None = None,
        filtered: bool = False,
    ) -> tuple[TextPrompts, Continuations]:
        """Prompts near `at` and their continuations, as long as the prompts unless `tokens` says.

        The generated tokens are kept (paper/outputs.py), so nothing is generated twice. `filtered`
        is for an HMM that filters whole prompts, though it was trained to predict from one token.
        """
        which = Generation(at, how, beta, tokens or how.tokens)
        made = self.outputs(filtered_tokens if filtered else generated_tokens, which)["tokens"]
        prompts = self.prompts(at, how)
        return prompts, with_true_words(prompts, torch.from_numpy(made.astype(np.int64)))

    def scores(
        self, at: int, how: PromptSettings, tokens: int, *, filtered: bool = False
    ) -> tuple[TextPrompts, PromptScores]:
        """Prompts near `at`, and scores of what the model makes of the tokens after them."""
        made = self.outputs(
            filtered_scores if filtered else prompt_scores, Following(at, how, tokens)
        )
        return self.prompts(at, how).followed_by(tokens), PromptScores(**made)

    def outputs(self, compute: Callable[[EvaluatedModel, T], Arrays], settings: T) -> Arrays:
        """The arrays that a function computes with this model, kept (paper/outputs.py).

        The function is defined at the top level of a module; the arrays depend only on its code,
        the settings and the model.
        """
        return outputs.keep(self.config, compute, settings, lambda: compute(self.load(), settings))


_TOKEN = {"bpe": "a piece of text", "words": "a whole word, or a character of a rare word"}
# What a model has, in words, by the settings of its shape.
_SHAPE = {
    "layers": "a depth of {}",
    "width": "a width of {}",
    "context": "a context of {} tokens",
    "positions": "{} positions",
    "attention": "attention {}",
    "states": "{} states",
    "conditioned": "predictions from a {}",
    "spread": "an initial spread of {}",
}


def why_not_the_papers(ours: Config) -> str:
    """Why a model of this configuration is not the paper's; empty if it is."""
    hmm = ours.model.kind == "HMM"
    paper = recipe("hmm-paper" if hmm else "ntp-paper")
    differences = [
        f"{phrase.format(getattr(ours.model, name))} (paper: {getattr(paper.model, name)})"
        for name, phrase in _SHAPE.items()
        if getattr(ours.model, name, None) not in (None, getattr(paper.model, name, None))
    ]
    if ours.model.kind not in (paper.model.kind, "HMM"):
        differences.append(f"{ours.model.kind} instead of attention")
    if ours.tokens.kind != paper.tokens.kind:
        differences.append("whole words as tokens")
    if not differences:
        return ""
    name = "HMM" if hmm else "model"
    return f"This {name} is not the paper's: it has {', '.join(differences)}."


# The next study often asks for the same model.
@lru_cache(2)
def _load(model: TrainedModel) -> EvaluatedModel:
    return subject(str(run_cache.trained_run(model.config)), TESTS_FAR[0])


def generated_tokens(model: EvaluatedModel, which: Generation) -> Arrays:
    """The tokens that a model generates, [prompts, tokens]."""
    how = which.how
    prompts = draw_prompts(model.tokenizer, model.seen, which.at, how)
    tokens = continue_prompts(
        model.model, prompts, which.tokens, beta=which.beta, seed=how.seed, stride=how.stride
    ).tokens.numpy()
    return {"tokens": tokens.astype(np.min_scalar_type(model.tokenizer.size - 1))}


def filtered_tokens(model: EvaluatedModel, which: Generation) -> Arrays:
    """The tokens that an HMM generates as a filter, [prompts, tokens]."""
    view = cast(HMM, model.model).conditioned_on("sequence")
    return generated_tokens(replace(model, model=view), which)


def prompt_scores(model: EvaluatedModel, which: Following) -> Arrays:
    """The scores of a model on the tokens after each prompt."""
    prompts = draw_prompts(model.tokenizer, model.seen, which.at, which.how)
    return score_prompts(model.model, prompts.followed_by(which.tokens))._asdict()


def filtered_scores(model: EvaluatedModel, which: Following) -> Arrays:
    """The scores of an HMM as a filter."""
    view = cast(HMM, model.model).conditioned_on("sequence")
    return prompt_scores(replace(model, model=view), which)


def draw_prompts(
    tokenizer: Tokenizer, seen: Sequence[Range], at: int, how: PromptSettings
) -> TextPrompts:
    """Prompts from blocks of the text near `at`, outside the ranges that a model has seen."""
    return draw_from_blocks(
        tokenizer,
        blocks_near(at, seen, how.blocks),
        number=how.prompts,
        length=how.tokens,
        following=how.tokens,
        seed=how.seed,
    )


@lru_cache(None)
def _tokenizer(tokens: TokensConfig, n: int) -> Tokenizer:
    return tokens.tokenizer(splits(n), n)


def trained_models(settings: Any) -> list[TrainedModel]:
    """The models in the settings of a study."""
    if isinstance(settings, TrainedModel):
        return [settings]
    if is_dataclass(settings):
        settings = vars(settings)
    if isinstance(settings, dict):
        settings = tuple(settings.values())
    items = settings if isinstance(settings, tuple) else ()
    return [model for item in items for model in trained_models(item)]


def several_seeds(model: TrainedModel, scale: str, count: int = 3) -> tuple[TrainedModel, ...]:
    """The model trained with several seeds; only one on a laptop, where it tests no claim."""
    return model.with_seeds(1 if scale == "laptop" else count)


def ntp(scale: str) -> TrainedModel:
    """Next-token prediction with a vocabulary of 256: the model of most figures.

    On a laptop it is the model in the package, whose tokens are whole words.
    """
    if scale == "laptop":
        return TrainedModel("pretrained")
    return with_vocabulary("ntp", scale, 256)


def word_model(scale: str) -> TrainedModel:
    """Next-token prediction with whole words as tokens, for studies of what a model knows of n.

    It learns faster than from pieces of words, and the next token is the word of n + 1. At paper
    scale it is trained as long as at gpu scale.
    """
    if scale == "laptop":
        return TrainedModel("pretrained")
    better = ("tokens.kind=words", "model.positions=rotary", "training.optimizer=muon")
    return TrainedModel("ntp-paper", (*ntp("gpu").changes, *better))


def mlm(scale: str) -> TrainedModel:
    """Masked language modelling with a vocabulary of 256; whole words on a laptop."""
    if scale == "laptop":
        return TrainedModel("mlm-laptop", ("training.steps=200",))
    return with_vocabulary("mlm", scale, 256)


def with_vocabulary(task: str, scale: str, size: int) -> TrainedModel:
    """A model whose tokens are pieces of words, with a vocabulary of this size.

    At gpu scale it is the paper's model and optimizer, trained for minutes. Short training needs
    many small steps: after 400 steps of 2^19 tokens the loss is still high. Masked modelling also
    needs rotary positions: with learned ones, 2,000 steps of 2^16 tokens do not leave the plateau.
    """
    if scale == "laptop":
        return _on_laptop(task, size, 200 if task == "ntp" else 150)
    longer = {"ntp": 4000, "mlm": 5000}[task]
    model = _on_gpu(task, size, scale, longer if size == 256 else 2000)
    if (task, scale) == ("mlm", "gpu"):
        return TrainedModel(model.recipe, (*model.changes, "model.positions=rotary"))
    return model


def mlm_with_learned_positions(size: int) -> TrainedModel:
    """Masked modelling at gpu scale with the learned positions of the paper's model."""
    return _on_gpu("mlm", size, "gpu", 2000)


def hmm(scale: str) -> TrainedModel:
    """The paper's baseline, which predicts from one token."""
    if scale == "laptop":
        small = ("batch=2^14", "device_batch=2^14", "validation=2^16", "steps=300")
        return TrainedModel("hmm-paper", ("tokens.kind=words", *training_changes(*small)))
    return TrainedModel("hmm-paper")


def prompt_settings(scale: str) -> PromptSettings:
    """Prompts from ten blocks, continued by as many tokens as they have.

    On a laptop prompt and continuation fill the context together, which is cheap with a KV cache.
    Otherwise the context slides by 64 tokens at a time, which costs no measurable accuracy.
    """
    if scale == "laptop":
        return PromptSettings(prompts=30, tokens=512, stride=64, seed=0, blocks=10)
    return PromptSettings(prompts=160, tokens=1024, stride=64, seed=0, blocks=10)


SCORED_TOKENS = 32  # after each prompt; together they fill the context


def scoring_settings(scale: str) -> PromptSettings:
    """Prompts whose next tokens are scored."""
    prompts = 20 if scale == "laptop" else 160
    return PromptSettings(prompts, tokens=1024 - SCORED_TOKENS, stride=64, seed=0, blocks=10)


@dataclass(frozen=True)
class Comparison:
    """The settings of studies that compare the GPT-2 and the HMM word by word.

    The HMM predicts from the last token, as it was trained: true text costs it fewer nats than if
    it filters whole prompts (docs/training.md). It samples at β = 1, and the GPT-2 takes the
    likeliest tokens (β = ∞).
    """

    models: dict[str, tuple[TrainedModel, ...]]  # one for each seed
    at: int
    generation: PromptSettings

    def words(
        self, name: str, *, beta: float | None = None, filtered: bool = False
    ) -> tuple[list[Words], list[Words], int]:
        """The words that a model generates, the true words, and the number of seeds.

        One array for each prompt; the prompts of one seed follow those of another.
        """
        beta = BETAS_COMPARED[name] if beta is None else beta
        made = [
            model.continuations(self.at, self.generation, beta=beta, filtered=filtered)[1]
            for model in self.models[name]
        ]
        predicted = [words for each in made for words in each.predicted]
        true = [words for each in made for words in each.true]
        return predicted, true, len(made)

    @property
    def seeds(self) -> dict[str, int]:
        """How many, by model."""
        return {name: len(models) for name, models in self.models.items()}

    @property
    def stand_ins(self) -> dict[str, str]:
        """Why each model is not the paper's, by model; empty if it is."""
        return {name: models[0].stand_in for name, models in self.models.items()}

    @property
    def trained_on(self) -> int:
        """The number of tokens in the training of the GPT-2."""
        return self.models["GPT-2"][0].trained_on


def comparison(scale: str) -> Comparison:
    models = {
        "GPT-2": several_seeds(ntp(scale), scale, 3),
        "HMM": several_seeds(hmm(scale), scale, 5),
    }
    return Comparison(models, TESTS_FAR[0], prompt_settings(scale))


def _on_laptop(task: str, size: int, steps: int) -> TrainedModel:
    tokens = ("tokens.kind=bpe", f"tokens.size={size}")
    training = training_changes(f"steps={steps}", "interval=50", "validation=2^14")
    return TrainedModel(f"{task}-laptop", (*tokens, *training))


def _on_gpu(task: str, size: int, scale: str, steps: int) -> TrainedModel:
    name = f"{task}-paper" + (f"-d{size}" if size != 256 else "")
    if scale == "paper":
        return TrainedModel(name)
    small = (f"steps={steps}", "batch=2^16", "warmup=300", "interval=500", "validation=2^19")
    return TrainedModel(name, training_changes(*small))


def training_changes(*changes: str) -> tuple[str, ...]:
    """Changes of a configuration, such as "training.steps=100", from "steps=100"."""
    return tuple(f"training.{change}" for change in changes)
