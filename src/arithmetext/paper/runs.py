"""The models that the paper's figures are made of, at each scale: trained once, continued once.

A recipe here is plain data, as the settings of a study hold it: the name of a recipe and changes.
"""

from functools import lru_cache
from typing import Any

import torch

from ..evaluation.generation import Continuations, continued
from ..evaluation.prompts import Prompts, draw
from ..evaluation.subjects import Subject, subject
from ..evaluation.without_attention import least_loss
from ..text.splits import unseen
from ..training import run_cache as kept
from ..training.config import Config, changed
from ..training.loop import make_model
from ..training.recipes import recipe

Recipe = list[str]

NEAR = 98 * 10**9  # in the range that the paper keeps for tests, among what it trains on
FAR = (10**13, 10**14, 10**15)  # its tests far beyond


def ntp(scale: str) -> Recipe:
    """Next-token prediction: the model of most figures, with a vocabulary of 256.

    A laptop has it learn whole words: what pieces of words teach in two minutes is little.
    """
    if scale == "laptop":
        return ["ntp-laptop", "training.steps=500"]
    return learning("ntp", scale, 256)


def mlm(scale: str) -> Recipe:
    """Masked modelling, with a vocabulary of 256; whole words on a laptop."""
    if scale == "laptop":
        return ["mlm-laptop", "training.steps=300"]
    return learning("mlm", scale, 256)


def learning(task: str, scale: str, size: int) -> Recipe:
    """A model that learns from pieces of words, with a vocabulary of this size.

    On one card it is the paper's model and optimizer in minutes. Short training needs many small
    steps: after 400 of 2^19 tokens the loss is still high. To fill gaps it needs rotary positions
    as well: with learned ones, 2,000 small steps do not leave the plateau.
    """
    if scale == "laptop":
        return _laptop(task, size, 250 if task == "ntp" else 200)
    longer = {"ntp": 6500, "mlm": 5000}[task]
    on_card = _card(task, size, scale, longer if size == 256 else 2000)
    return [*on_card, "model.positions=rotary"] if (task, scale) == ("mlm", "gpu") else on_card


def masked_like_causal(scale: str, size: int) -> Recipe:
    """Masked modelling with the positions of next-token prediction, whether it learns or not."""
    return _card("mlm", size, scale, 2000) if scale == "gpu" else learning("mlm", scale, size)


def hmm(scale: str) -> Recipe:
    """The paper's baseline, which learns to predict from one token."""
    if scale == "laptop":
        small = ("batch=2^14", "device_batch=2^14", "validation=2^16", "steps=300")
        return ["hmm-paper", "tokens.kind=words", *(f"training.{change}" for change in small)]
    return ["hmm-paper"]


def _laptop(task: str, size: int, steps: int) -> Recipe:
    training = (f"steps={steps}", "interval=50", "validation=2^14")
    return [
        f"{task}-laptop",
        "tokens.kind=bpe",
        f"tokens.size={size}",
        *(f"training.{change}" for change in training),
    ]


def _card(task: str, size: int, scale: str, steps: int) -> Recipe:
    name = f"{task}-paper" + (f"-d{size}" if size != 256 else "")
    if scale == "paper":
        return [name]
    training = (f"steps={steps}", "batch=2^16", "warmup=300", "interval=500", "validation=2^19")
    return [name, *(f"training.{change}" for change in training)]


def continuing(scale: str) -> dict[str, Any]:
    """How prompts are drawn and continued: the paper's 128, by as many tokens as they have.

    Where a CPU has to do it, the window slides by blocks, which is measured to cost no accuracy.
    """
    length = 256 if scale == "laptop" else 1024
    forget = length // 4 if scale == "laptop" else 1
    return {"prompts": 128, "tokens": length, "forget": forget, "seed": 0}


def compared(scale: str) -> dict[str, Any]:
    """The settings of studies that compare both models word by word."""
    models = {"GPT-2": ntp(scale), "HMM": hmm(scale)}
    return {"models": models, "at": FAR[0], "continuing": continuing(scale)}


def config(recipe_and_changes: Recipe) -> Config:
    """The configuration that a recipe with its changes says."""
    base, *changes = recipe_and_changes
    return changed(recipe(base), changes)


def record(recipe_and_changes: Recipe) -> dict[str, Any]:
    """What is known of the training of a model, without its weights."""
    return kept.record(config(recipe_and_changes))


def training(recipe_and_changes: Recipe) -> dict[str, Any]:
    """How long a model was trained, where, and on what."""
    known = record(recipe_and_changes)
    return {
        "tokens": known["tokens"],
        "seconds": known["seconds"],
        "device": known["environment"]["device"],
        "token": {"bpe": "a piece of text", "words": "a word"}[known["config"]["tokens"]["kind"]],
    }


def parameters(recipe_and_changes: Recipe) -> int:
    """How many a model has to learn."""
    with torch.device("meta"):
        return sum(
            weights.numel() for weights in make_model(config(recipe_and_changes)).parameters()
        )


def without_attention(recipes: dict[str, Recipe]) -> dict[str, float]:
    """The least loss that each model can have without attention, in nats a token."""
    return {name: least_loss(config(each)) for name, each in recipes.items()}


def model(recipe_and_changes: Recipe) -> Subject:
    """A trained model, ready to be measured."""
    return _model(tuple(recipe_and_changes))


# What one study after the other asks for; a model and continuations of 128 prompts need little.
@lru_cache(2)
def _model(recipe_and_changes: tuple[str, ...]) -> Subject:
    folder = kept.trained(config(list(recipe_and_changes)))
    return subject(str(folder), FAR[0])


def prompts(recipe_and_changes: Recipe, at: int, how: dict[str, Any]) -> Prompts:
    """Prompts near `at`, as long as what is generated after them."""
    it = model(recipe_and_changes)
    return draw(
        it.tokenizer,
        unseen(at, it.trained),
        number=how["prompts"],
        length=how["tokens"],
        following=how["tokens"],
        seed=how["seed"],
    )


def continuations(
    recipe_and_changes: Recipe, at: int, how: dict[str, Any]
) -> tuple[Prompts, Continuations]:
    """Prompts near `at` and what a model makes of them at β = ∞."""
    return _continuations(tuple(recipe_and_changes), at, tuple(how.items()))


@lru_cache(None)
def _continuations(
    recipe_and_changes: tuple[str, ...], at: int, how: tuple[tuple[str, int], ...]
) -> tuple[Prompts, Continuations]:
    settings = dict(how)
    drawn = prompts(list(recipe_and_changes), at, settings)
    made = continued(
        model(list(recipe_and_changes)).model,
        drawn,
        settings["tokens"],
        forget=settings["forget"],
    )
    return drawn, made
