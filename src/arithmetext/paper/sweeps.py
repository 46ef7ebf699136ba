"""The models of the paper's scaling figure, and how several processes share their training.

What processes share is the user's cache (`XDG_CACHE_HOME`). Each goes through the same list and
takes the next model that no other process has. The lock is held by the operating system
(`files.sole_writer`), so a process that is killed holds nothing, and another one goes on from its
last checkpoint. Machines that share a folder need a file system whose locks hold for all of them:
NFS has them unless it is mounted with `nolock` or `local_lock`. If a whole machine fails, NFSv4
frees its locks when its lease ends, by default after 90 seconds.
"""

import hashlib
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from ..errors import InputError
from ..files import cache_folder, sole_writer
from ..training import run_cache
from ..training.loop import Diverged
from ..training.recipes import WORDS_PER_TOKEN, recipe
from . import outputs
from .runs import TrainedModel, training_changes

T = TypeVar("T")

WORDS = 3 * 2**26  # that every model reads at gpu scale; ρ = 2 then takes less than half an hour

# Words per token for D = 256, by n: the smaller the text, the shorter its words.
WORDS_PER_TOKEN_OF = {"1e8": 1.84, "1e9": 1.78, "1e10": 1.72}

# Small models that read so many times as many words come nearer to the reference in time.
SAME_TIME = 4

# Learning rates that are tried for each ρ, in runs on a share of the words. Runs on a quarter of
# them hardly leave the plateau, and find rates that are too low (docs/log.md). For ρ = 2 longer
# runs would take an hour.
SEARCHED_SHARE = {"1/4": 1.0, "1/2": 1.0, "1": 1.0, "2": 1 / 4}
RATES = {
    "1/4": (4e-3, 8e-3, 1.6e-2),
    "1/2": (2e-3, 4e-3, 8e-3),
    "1": (5e-4, 1e-3, 2e-3, 4e-3),
    "2": (3e-4, 6e-4, 1.2e-3),
}

# Two seeds everywhere else. Those of ρ = 1/4 were far apart; ρ = 2 takes twenty minutes.
SEEDS = {"1/4": 3, "2": 1}


@dataclass(frozen=True)
class SweepPoint:
    """A model of a sweep, without its learning rate."""

    models: tuple[TrainedModel, ...]  # one for each seed
    rho: str  # names the search for its learning rate


@dataclass(frozen=True)
class Sweep:
    """Models that differ in one parameter at a time from a reference."""

    axes: dict[str, dict[str, SweepPoint]]  # by the parameter that changes, and its value
    reference: dict[str, str]  # the value of each parameter in the point that all axes share
    searches: dict[str, tuple[TrainedModel, ...]]  # a short run for each learning rate, by ρ

    @property
    def shared(self) -> SweepPoint:
        """The reference."""
        return self.axes["ρ"][self.reference["ρ"]]

    @property
    def points(self) -> list[SweepPoint]:
        """Every point once."""
        every = [point for points in self.axes.values() for point in points.values()]
        return list(dict.fromkeys(every))

    @property
    def short_runs(self) -> list[TrainedModel]:
        return [model for models in self.searches.values() for model in models]


def sweep(scale: str) -> Sweep:
    """The paper's values of L, n, D and ρ; on a laptop two small models for each.

    No run stops early, so that all read the same number of words.
    """
    if scale == "laptop":
        return _small_sweep()

    def model(
        *changes: str, size: int = 256, n: str = "", rho: float = 1, share: float = 1
    ) -> TrainedModel:
        name = "ntp-paper" + f"-d{size}" * (size != 256) + f"-rho{rho:g}" * (rho != 1)
        words_per_token = WORDS_PER_TOKEN_OF[n] if n else WORDS_PER_TOKEN[size]
        training = [f"steps={round(share * recipe(name).training.steps)}", "patience=1e6"]
        if scale == "gpu":
            training[0] = f"steps={round(share * WORDS / words_per_token / 2**16)}"
            training += ["batch=2^16", "warmup=300", "interval=150", "validation=2^19"]
        changes += (f"n={n}",) if n else ()
        return TrainedModel(name, (*training_changes(*training), *changes))

    def point(model: TrainedModel, rho: str = "1", seeds: int | None = None) -> SweepPoint:
        return SweepPoint(model.with_seeds(seeds or SEEDS.get(rho, 2)), rho)

    sizes = {"1/4": 0.25, "1/2": 0.5, "1": 1.0, "2": 2.0}
    longer = {
        f"{rho}, {SAME_TIME} × words": model(rho=sizes[rho], share=SAME_TIME)
        for rho in ("1/4", "1/2")
    }
    reference = point(model())
    return Sweep(
        {
            "L": {
                **{str(length): point(model(f"model.context={length}")) for length in (256, 512)},
                "1024": reference,
                "2048": point(model("model.context=2048")),
            },
            "n": {
                **{n: point(model(n=n)) for n in WORDS_PER_TOKEN_OF},
                "1e11": reference,
            },
            "D": {str(size): point(model(size=size)) for size in WORDS_PER_TOKEN},
            "ρ": {
                **{rho: point(model(rho=size), rho) for rho, size in sizes.items()},
                **{name: point(each, name.partition(",")[0], 1) for name, each in longer.items()},
            },
        },
        {"L": "1024", "n": "1e11", "D": "256", "ρ": "1"},
        {
            rho: _search(model(rho=size, share=SEARCHED_SHARE[rho]), RATES[rho])
            for rho, size in sizes.items()
        },
    )


def _small_sweep() -> Sweep:
    """One token per word, and a training of seconds."""

    def model(*changes: str, steps: int = 64) -> TrainedModel:
        training = (f"steps={steps}", "batch=2^11", "warmup=10", "interval=16", "validation=2^13")
        return TrainedModel(
            "ntp-laptop", (*training_changes(*training), "model.context=128", *changes)
        )

    def point(model: TrainedModel, rho: str = "1") -> SweepPoint:
        return SweepPoint((model,), rho)

    half, reference = ("model.layers=1", "model.heads=1"), point(model())
    return Sweep(
        {
            "L": {"64": point(model("model.context=64")), "128": reference},
            "n": {"1e8": point(model("n=1e8")), "1e11": reference},
            # With D = 64 a token has 0.9 words, so more steps are needed.
            "D": {"64": point(model("tokens.size=64", steps=71)), "256": reference},
            "ρ": {"1/2": point(model(*half), "1/2"), "1": reference},
        },
        {"L": "128", "n": "1e11", "D": "256", "ρ": "1"},
        {
            "1/2": _search(model(*half, steps=16), (1e-2, 2e-2)),
            "1": _search(model(steps=16), (1e-2, 2e-2)),
        },
    )


def _search(model: TrainedModel, rates: Sequence[float]) -> tuple[TrainedModel, ...]:
    return tuple(with_rate(model, rate) for rate in rates)


def with_rate(model: TrainedModel, rate: float) -> TrainedModel:
    """The model, trained with this learning rate."""
    return TrainedModel(model.recipe, (*model.changes, f"training.lr={rate:g}"))


def measure_all(
    models: Sequence[TrainedModel], measure: Callable[[TrainedModel], T]
) -> dict[TrainedModel, T]:
    """Train and measure each model before the next one begins, the longest training first.

    `measure` asks for the record and the outputs of a model, which are kept at once; so an
    interruption loses one run at most. A model that another process has is left for the end. By
    then its outputs are there, or the other process has died and this one trains the model. A run
    that diverges does not stop the others; its error comes at the end.

    With `nt reproduce --older`, models that older code measured are taken as they are.
    """
    found = outputs.from_older_code(models, measure)
    if found:
        kept = f"{len(found)} of {len(models)} runs are kept from before, whatever code made them"
        print(f"nt: {kept}", file=sys.stderr, flush=True)
    diverged: dict[TrainedModel, Diverged] = {}
    # Processes that share the work end at about the same time if the longest runs come first.
    ordered = sorted(models, key=lambda model: -model.trained_on * model.parameters())
    common = set.intersection(*(set(model.changes) for model in models))
    for wait in (False, True):
        for model in [model for model in ordered if model not in found | diverged]:
            with ExitStack() as stack:
                try:
                    stack.enter_context(sole_writer(_claim(model), wait=wait))
                except InputError:
                    if wait:
                        raise
                    continue
                if run_cache.would_train(model.config):
                    own = [change for change in model.changes if change not in common]
                    number = f"run {ordered.index(model) + 1} of {len(models)}"
                    name = " ".join([model.recipe, *own])
                    print(f"nt: {number}: {name}", file=sys.stderr, flush=True)
                try:
                    found[model] = measure(model)
                except Diverged as error:
                    diverged[model] = error
                run_cache.drop_checkpoints(model.config)
    for first in diverged.values():
        raise first
    return found


def _claim(model: TrainedModel) -> Path:
    """The folder whose lock a process holds while it works on a model."""
    text = json.dumps(asdict(model.config), sort_keys=True)
    return cache_folder() / "claims" / hashlib.sha256(text.encode()).hexdigest()[:16]
