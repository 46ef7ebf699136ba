"""Runs of a few seconds, for the tests of training."""

import multiprocessing
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from arithmetext.training.config import Config, with_changes
from arithmetext.training.loop import train
from arithmetext.training.monitor import read
from arithmetext.training.recipes import recipe
from arithmetext.training.stream import Batch, ProcessBatches

SHORT_RUN = (
    "model.context=32",
    "tokens.size=32",
    "training.batch=256",
    "training.device_batch=128",
    "training.steps=40",
    "training.interval=5",
    "training.warmup=4",
    "training.validation=512",
)
TINY = ("model.layers=1", "model.heads=1", *SHORT_RUN)

# Processes that have imported torch already, where the system can make them.
METHODS = multiprocessing.get_all_start_methods()
PROCESSES = multiprocessing.get_context("forkserver" if "forkserver" in METHODS else "spawn")
PROCESSES.set_forkserver_preload(["arithmetext.training.loop", "torch._dynamo"])

each_task = pytest.mark.parametrize("task", ["ntp", "mlm"])
each_optimizer = pytest.mark.parametrize("optimizer", ["adamw", "muon"])


def tiny(task: str = "ntp", *settings: str) -> Config:
    return with_changes(recipe(f"{task}-laptop"), [*TINY, *settings])


def command(task: str, out: Path, *settings: str) -> list[str]:
    changes = [word for setting in (*TINY, *settings) for word in ("--set", setting)]
    return ["train", f"{task}-laptop", *changes, "--out", str(out)]


def weights(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


def contents(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def parts_of(config: Config) -> Iterator[Batch]:
    return ProcessBatches(config, config.tokens.tokenizer(config.text, config.n), 0, 1).parts(0)


def training_rows(folder: Path) -> list[dict[str, Any]]:
    return [row for row in read(folder / "metrics.jsonl") if "loss" in row]


@cache
def finished_run(parent: Path) -> Path:
    train(tiny("ntp", "training.steps=10"), parent / "run")
    return parent / "run"
