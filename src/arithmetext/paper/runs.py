"""The trained models behind the paper's figures, at each scale.

Several studies share a model. Each is trained once, on first use, and kept in the user's cache.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from ..evaluation.codec import from_json
from ..evaluation.generation import Continuations, continue_prompts
from ..evaluation.prompts import TextPrompts, draw
from ..evaluation.subjects import EvaluatedModel, subject
from ..text.splits import unseen
from ..training import run_cache
from ..training.config import Config, with_changes
from ..training.recipes import recipe
from ..training.run import make_model

TEST_NEAR = 98 * 10**9  # in the paper's test range, within the text that it trains on
TESTS_FAR = (10**13, 10**14, 10**15)  # the paper's tests far beyond that text


@dataclass(frozen=True)
class PromptSettings:
    """How prompts are drawn and continued."""

    prompts: int
    tokens: int  # of a prompt, and of its continuation
    stride: int  # tokens by which a full context slides (models.kv_cache)
    seed: int


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


@dataclass(frozen=True)
class TrainedModel:
    """A model by its recipe and the changes to it; training starts when it is first needed."""

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
        token = {"bpe": "a piece of text", "words": "a word"}[self.config.tokens.kind]
        return TrainingFacts(record.tokens, record.seconds, record.environment["device"], token)

    def load(self) -> EvaluatedModel:
        """The model, ready to be measured."""
        return _load(self)

    def parameters(self) -> int:
        """The number of trainable parameters."""
        with torch.device("meta"):
            return make_model(self.config).parameter_count

    def prompts(self, at: int, how: PromptSettings) -> TextPrompts:
        """Prompts from text near `at` that the model was not trained on."""
        model = self.load()
        return draw(
            model.tokenizer,
            unseen(at, model.trained),
            number=how.prompts,
            length=how.tokens,
            following=how.tokens,
            seed=how.seed,
        )

    def continuations(self, at: int, how: PromptSettings) -> tuple[TextPrompts, Continuations]:
        """Prompts near `at` and their likeliest continuations (β = ∞)."""
        return _continuations(self, at, how)


# The next study often asks for the same model, and for the same continuations.
@lru_cache(2)
def _load(model: TrainedModel) -> EvaluatedModel:
    return subject(str(run_cache.trained_run(model.config)), TESTS_FAR[0])


@lru_cache(None)
def _continuations(
    model: TrainedModel, at: int, how: PromptSettings
) -> tuple[TextPrompts, Continuations]:
    prompts = model.prompts(at, how)
    return prompts, continue_prompts(model.load().model, prompts, how.tokens, stride=how.stride)


def ntp(scale: str) -> TrainedModel:
    """Next-token prediction with a vocabulary of 256: the model of most figures.

    On a laptop its tokens are whole words: from pieces of words it learns little in two minutes.
    """
    if scale == "laptop":
        return TrainedModel("ntp-laptop", ("training.steps=500",))
    return with_vocabulary("ntp", scale, 256)


def mlm(scale: str) -> TrainedModel:
    """Masked language modelling with a vocabulary of 256; whole words on a laptop."""
    if scale == "laptop":
        return TrainedModel("mlm-laptop", ("training.steps=300",))
    return with_vocabulary("mlm", scale, 256)


def with_vocabulary(task: str, scale: str, size: int) -> TrainedModel:
    """A model whose tokens are pieces of words, with a vocabulary of this size.

    At gpu scale it is the paper's model and optimizer, trained for minutes. Short training needs
    many small steps: after 400 steps of 2^19 tokens the loss is still high. Masked modelling also
    needs rotary positions: with learned positions, 2,000 small steps do not leave the plateau.
    """
    if scale == "laptop":
        return _on_laptop(task, size, 250 if task == "ntp" else 200)
    longer = {"ntp": 6500, "mlm": 5000}[task]
    model = _on_gpu(task, size, scale, longer if size == 256 else 2000)
    if (task, scale) == ("mlm", "gpu"):
        return TrainedModel(model.recipe, (*model.changes, "model.positions=rotary"))
    return model


def mlm_with_learned_positions(scale: str, size: int) -> TrainedModel:
    """Masked modelling with the learned positions of next-token prediction."""
    return (
        _on_gpu("mlm", size, scale, 2000) if scale == "gpu" else with_vocabulary("mlm", scale, size)
    )


def hmm(scale: str) -> TrainedModel:
    """The paper's baseline, which predicts from one token."""
    if scale == "laptop":
        small = ("batch=2^14", "device_batch=2^14", "validation=2^16", "steps=300")
        return TrainedModel("hmm-paper", ("tokens.kind=words", *_training(*small)))
    return TrainedModel("hmm-paper")


def prompt_settings(scale: str) -> PromptSettings:
    """The paper's 128 prompts, continued by as many tokens as they have.

    On a laptop the context slides by a quarter of its length, which costs no measurable accuracy.
    """
    if scale == "laptop":
        return PromptSettings(prompts=128, tokens=256, stride=64, seed=0)
    return PromptSettings(prompts=128, tokens=1024, stride=1, seed=0)


@dataclass(frozen=True)
class Comparison:
    """The settings of studies that compare the GPT-2 and the HMM word by word."""

    models: dict[str, TrainedModel]
    at: int
    generation: PromptSettings


def comparison(scale: str) -> Comparison:
    return Comparison(
        {"GPT-2": ntp(scale), "HMM": hmm(scale)}, TESTS_FAR[0], prompt_settings(scale)
    )


def _on_laptop(task: str, size: int, steps: int) -> TrainedModel:
    tokens = ("tokens.kind=bpe", f"tokens.size={size}")
    training = _training(f"steps={steps}", "interval=50", "validation=2^14")
    return TrainedModel(f"{task}-laptop", (*tokens, *training))


def _on_gpu(task: str, size: int, scale: str, steps: int) -> TrainedModel:
    name = f"{task}-paper" + (f"-d{size}" if size != 256 else "")
    if scale == "paper":
        return TrainedModel(name)
    small = (f"steps={steps}", "batch=2^16", "warmup=300", "interval=500", "validation=2^19")
    return TrainedModel(name, _training(*small))


def _training(*changes: str) -> tuple[str, ...]:
    return tuple(f"training.{change}" for change in changes)
