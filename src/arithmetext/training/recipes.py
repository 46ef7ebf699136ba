"""Recipes: named functions that return a configuration."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from functools import partial
from itertools import product
from typing import Literal

from ..errors import InputError
from ..models.config import GPTConfig, HMMConfig, LongConvConfig, PhasesConfig
from .config import Config, TokensConfig, TrainingConfig

Task = Literal["ntp", "mlm"]
Conditioned = Literal["token", "sequence"]

SIZES = (64, 256, 1024)  # D in the paper
RHOS = (0.25, 0.5, 1.0, 2.0)  # ρ in the paper

# Words per token at 1e10, for one pass over the 7.5e10 words of the training ranges.
WORDS_PER_TOKEN = {64: 1.22, 256: 1.71, 1024: 2.18}


def paper(task: Task, size: int, rho: float) -> Config:
    """The paper's model and tokens, trained on as many tokens as its training text has.

    The paper trains for at most 15,000 epochs and does not say how long an epoch is; in this
    project an epoch is a validation interval.
    """
    batch = 1 << 19
    return Config(
        task=task,
        tokens=TokensConfig(kind="bpe", size=size),
        model=GPTConfig(layers=round(12 * rho), heads=round(12 * rho), context=1024),
        training=TrainingConfig(
            steps=round(7.5e7 / WORDS_PER_TOKEN[size] / batch) * 1000,
            batch=batch,
            device_batch=batch // 8 if rho <= 1 else batch // 16,
            lr=1e-3 if rho <= 1 else 6e-4,
            warmup=1000,
            interval=100,
            validation=1 << 20,
        ),
    )


def laptop(task: Task) -> Config:
    """Two minutes on two CPU cores: one token per word, rotary positions, Muon."""
    return Config(
        task=task,
        tokens=TokensConfig(kind="words", size=256),
        model=GPTConfig(layers=2, heads=2, context=256, positions="rotary"),
        training=TrainingConfig(
            steps=600,
            batch=1 << 12,
            optimizer="muon",
            lr=1e-2,
            warmup=20,
            weight_decay=0.0,
            interval=100,
            validation=1 << 15,
        ),
    )


def pretrained() -> Config:
    """The model that comes with the package: 91 minutes on two busy CPU cores, in bfloat16."""
    return Config(
        task="ntp",
        tokens=TokensConfig(kind="words", size=256),
        model=GPTConfig(layers=6, heads=4, context=1024, positions="rotary"),
        training=TrainingConfig(
            steps=2800,
            batch=1 << 13,
            optimizer="muon",
            lr=4e-3,
            warmup=60,
            weight_decay=0.0,
            interval=200,
            validation=1 << 17,
        ),
    )


def longconv_laptop() -> Config:
    """A minute and a half on two CPU cores: filters instead of attention."""
    return Config(
        task="ntp",
        tokens=TokensConfig(kind="words", size=1024),
        model=LongConvConfig(layers=2, width=128, context=1024),
        training=TrainingConfig(
            steps=300,
            batch=1 << 13,
            optimizer="muon",
            lr=1e-2,
            warmup=60,
            weight_decay=0.0,
            interval=100,
            validation=1 << 16,
        ),
    )


def sprint() -> Config:
    """The paper's accuracy in 45 seconds on two CPU cores, nothing compiled before."""
    config = longconv_laptop()
    short = replace(config.training, steps=160, warmup=20, interval=160)
    return replace(config, training=short)


def longconv() -> Config:
    """The best model in the package: half an hour on two CPU cores, in bfloat16."""
    return Config(
        task="ntp",
        tokens=TokensConfig(kind="words", size=1024),
        model=LongConvConfig(layers=3, width=192, context=4096),
        training=TrainingConfig(
            steps=3600,
            batch=1 << 13,
            optimizer="muon",
            lr=1e-2,
            warmup=60,
            weight_decay=0.0,
            interval=200,
            validation=1 << 17,
        ),
    )


def record() -> Config:
    """The most accurate model near 10^13, which tracks n modulo prime powers.

    Of three seeds, this one has the lowest validation loss.
    """
    return Config(
        task="ntp",
        seed=1,
        tokens=TokensConfig(kind="words", size=2048),
        model=PhasesConfig(layers=3, width=128, bound=512, context=8192),
        training=TrainingConfig(
            steps=1000,
            batch=1 << 13,
            optimizer="muon",
            lr=1e-2,
            warmup=20,
            weight_decay=0.1,
            interval=200,
            validation=1 << 17,
            log_share=0.5,
        ),
    )


def hmm(conditioned: Conditioned, size: int) -> Config:
    """The paper's baseline, with two states per token."""
    batch = 1 << 18
    sequence = conditioned == "sequence"
    return Config(
        task="ntp",
        tokens=TokensConfig(kind="bpe", size=size),
        model=HMMConfig(
            states=2 * size,
            context=1024 if sequence else 256,
            conditioned=conditioned,
            spread=5.0 if sequence else 1.0,
        ),
        training=TrainingConfig(
            steps=1000 if sequence else 500,
            batch=batch,
            device_batch=batch,
            lr=0.3,
            weight_decay=0.0,
            validation=1 << 20,
        ),
    )


def hmm_laptop() -> Config:
    """Less than a minute on two CPU cores."""
    return Config(
        task="ntp",
        tokens=TokensConfig(kind="words", size=256),
        model=HMMConfig(states=256, context=256, conditioned="sequence", spread=5.0),
        training=TrainingConfig(
            steps=400,
            batch=1 << 13,
            lr=0.3,
            warmup=20,
            weight_decay=0.0,
            validation=1 << 15,
        ),
    )


def _recipes() -> Iterator[tuple[str, Callable[[], Config]]]:
    tasks: tuple[Task, ...] = ("ntp", "mlm")
    for task in tasks:
        yield f"{task}-laptop", partial(laptop, task)
    yield "hmm-laptop", hmm_laptop
    yield "pretrained", pretrained
    yield "longconv", longconv
    yield "longconv-laptop", longconv_laptop
    yield "sprint", sprint
    yield "record", record
    for task in tasks:
        for size, rho in product(SIZES, RHOS):
            name = f"{task}-paper"
            name += f"-d{size}" if size != 256 else ""
            name += f"-rho{rho:g}" if rho != 1 else ""
            yield name, partial(paper, task, size, rho)
    kinds: dict[str, Conditioned] = {"hmm-paper": "token", "hmm-sequence": "sequence"}
    for (name, conditioned), size in product(kinds.items(), SIZES):
        yield name + (f"-d{size}" if size != 256 else ""), partial(hmm, conditioned, size)


RECIPES = dict(_recipes())


def recipe(name: str) -> Config:
    """The configuration of a recipe."""
    if name not in RECIPES:
        close = get_close_matches(name, RECIPES, 1)
        hint = f"did you mean {close[0]}?" if close else "`nt recipes` lists them"
        raise InputError(f"no recipe {name!r}; {hint}")
    return RECIPES[name]().checked()
