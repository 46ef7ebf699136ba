"""`nt train` and `nt recipes`."""

import json
import os
import sys
from importlib import import_module
from math import isfinite
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from ..integers import format_integer
from .options import AsJson, Wait, one_of


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="Name of a recipe; see `nt recipes`.",
            autocompletion=one_of(lambda: import_module("arithmetext.training.recipes").RECIPES),
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Change a setting, such as training.lr=1e-3; may be repeated.",
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the run.  [default: runs/RECIPE]")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the run in the folder.")
    ] = False,
    wait: Wait = False,
    search_lr: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…", help="Try these learning rates in short runs and use the best."
        ),
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="Also write logs for TensorBoard.")
    ] = False,
) -> None:
    """Train a model.

    A run that is interrupted and resumed ends with the same weights as an uninterrupted run. To
    train on several devices: `torchrun --nproc-per-node=K -m arithmetext train RECIPE`.
    """
    from ..training import checkpoints, config, loop, recipes, search

    if tensorboard:
        import_module("tensorboard")  # if it is missing, stop before making the folder
    rates = _rates(search_lr)
    wanted = None
    if recipe is not None:
        wanted = config.with_changes(recipes.recipe(recipe), settings or [])
        folder = out or Path("runs") / recipe
        _check_folder(folder, resume=resume)
    else:
        if not resume or out is None:
            raise InputError(
                "which recipe? `nt recipes` lists them; to resume a run, give --resume --out DIR"
            )
        if settings or rates:
            given = " and ".join(["--set"] * bool(settings) + ["--search-lr"] * bool(rates))
            raise InputError(f"a run that is resumed keeps its settings: leave out {given}")
        folder = out
    try:
        if rates and wanted is not None:
            wanted, losses = search.search_learning_rate(
                wanted, folder, rates, resume=resume, wait=wait
            )
            for lr, loss in losses.items():
                mark = " (chosen)" if lr == wanted.training.lr else ""
                _say(f"learning rate {lr:g}: validation loss {loss:.4f}{mark}")
        outcome = loop.train(wanted, folder, resume=resume, wait=wait, tensorboard=tensorboard)
    except KeyboardInterrupt:
        if saved := checkpoints.steps(folder / "checkpoints"):
            note = f"saved at step {max(saved)}; nt train --resume --out {folder} continues"
        elif rates and not (folder / "config.json").exists():
            note = "the search for a learning rate continues with the same command and --resume"
        else:
            note = f"no checkpoint was saved yet in {folder}"
        _say(f"nt: {note}", note=True)
        raise
    early = ", stopped early" if outcome.stopped_early else ""
    words = f" ({outcome.nats_per_word:.4f} per word)" if outcome.nats_per_word else ""
    _say(
        f"{folder}: {outcome.steps} steps in {outcome.seconds:.0f} s{early};"
        f" validation loss {outcome.validation_loss:.4f} nats per token{words},"
        f" {outcome.accuracy:.1%} of tokens predicted correctly"
    )


def _check_folder(folder: Path, *, resume: bool) -> None:
    """Refuse a folder with files that are not of a run, and say so if there is no run to resume."""
    from ..training import checkpoints

    if not folder.name and not resume:
        raise InputError("--out needs a folder other than the current one, such as runs/first")
    # A run that was killed while it began has no config.json yet.
    begun = any((folder / name).exists() for name in ("config.json", "environment.json"))
    if begun or checkpoints.steps(folder / "checkpoints"):
        return
    for name in "tokenizer.json", "metrics.jsonl", "model":
        if (folder / name).exists():
            raise InputError(
                f"{folder / name} is not of a run and would be replaced: choose another --out"
            )
    if resume and not (folder / "search").exists():
        _say(f"nt: there is no run in {folder} yet, so this begins one", note=True)


def recipes(as_json: AsJson = False) -> None:
    """List the recipes that `nt train` takes."""
    from dataclasses import asdict

    from ..training.recipes import RECIPES

    configs = {name: make() for name, make in RECIPES.items()}
    if as_json:
        print(json.dumps({name: asdict(config) for name, config in configs.items()}, indent=1))
        return
    print(
        f"{'recipe':24} {'tokenizer':9} {'vocabulary':>10} {'context':>7} {'steps':>6}"
        f" {'tokens/step':>11}  model, optimizer, learning rate"
    )
    for name, c in configs.items():
        print(
            f"{name:24} {c.tokens.kind:9} {c.tokens.size:10} {c.model.context:7}"
            f" {c.training.steps:6} {format_integer(c.training.batch):>11}"
            f"  {c.model.description}, {c.training.optimizer}, {c.training.lr:g}"
        )


def _rates(written: str | None) -> list[float]:
    try:
        rates = [float(rate) for rate in written.split(",")] if written is not None else []
    except ValueError:
        rates = [0.0]
    if not all(isfinite(rate) and rate > 0 for rate in rates):
        raise InputError(f"--search-lr takes rates, such as 3e-4,1e-3,3e-3, not {written!r}")
    return list(dict.fromkeys(rates))


def _say(line: str, *, note: bool = False) -> None:
    """Print a line from the first of the processes that train together; notes to stderr."""
    if os.environ.get("RANK", "0") == "0":
        print(line, file=sys.stderr if note else sys.stdout)
