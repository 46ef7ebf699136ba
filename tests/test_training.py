"""Training: models learn, the best one is exported, and learning rates are searched."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from arithmetext.errors import InputError
from arithmetext.models.hugging_face import load_pretrained
from arithmetext.tokens import load
from arithmetext.training.config import with_changes
from arithmetext.training.devices import World
from arithmetext.training.loop import train
from arithmetext.training.monitor import read
from arithmetext.training.recipes import recipe
from arithmetext.training.run import Run as TrainingRun
from arithmetext.training.search import search_learning_rate
from arithmetext.training.stream import ProcessBatches
from conftest import tolerance
from tiny_runs import each_task, tiny, training_rows


def test_loss_falls_below_the_entropy_of_the_tokens(tmp_path: Path) -> None:
    """Only a model that looks at what came before can get there."""
    config = with_changes(
        recipe("ntp-laptop"),
        [
            "model.layers=2",
            "model.heads=1",
            "model.context=64",
            "tokens.size=64",
            "training.batch=2048",
            "training.steps=60",
            "training.validation=16384",
        ],
    )
    outcome = train(config, tmp_path / "run")
    batches = ProcessBatches(config, load(tmp_path / "run" / "tokenizer.json"), 0, 1)
    ids = torch.cat([batch.targets for batch in batches.validation]).flatten()
    shares = torch.bincount(ids).double() / len(ids)
    entropy = -float(torch.xlogy(shares, shares).sum())
    assert outcome.validation_loss < entropy - 0.2


@each_task
def test_the_exported_model_has_the_recorded_loss(task: str, tmp_path: Path) -> None:
    """Read by transformers, on the validation windows made anew."""
    transformers = pytest.importorskip("transformers")
    config = tiny(task)
    outcome = train(config, tmp_path / "run")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "run" / "model").double()
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "run" / "model")
    ours = load(tmp_path / "run" / "tokenizer.json")
    text = ours.text(np.arange(ours.size))
    assert tokenizer(text)["input_ids"] == ours.encode_text(text).tolist()
    nats = tokens = 0.0
    for inputs, targets, chosen, _ in ProcessBatches(config, ours, 0, 1).validation:
        everything = torch.ones(len(inputs), 1, 32, 32, dtype=torch.bool)
        options = {} if chosen is None else {"attention_mask": everything}
        with torch.no_grad():
            logits = model(inputs, **options).logits
        if chosen is not None:
            logits = logits.gather(1, chosen[..., None].expand(-1, -1, logits.shape[-1]))
        nats += float(F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum"))
        tokens += targets.numel()
    assert nats / tokens == pytest.approx(
        outcome.validation_loss, abs=tolerance(model.config.hidden_size)
    )


def test_the_model_of_the_lowest_validation_loss_is_exported(tmp_path: Path) -> None:
    """A rate far too high at the end of a warm-up: the model gets worse, and the run stops."""
    config = tiny("ntp", "training.steps=400", "training.warmup=200", "training.lr=1")
    config = replace(config, training=replace(config.training, patience=3))
    outcome = train(config, tmp_path / "run")
    assert outcome.stopped_early
    losses = {
        row["step"]: row["validation_loss"]
        for row in read(tmp_path / "run" / "metrics.jsonl")
        if "validation_loss" in row
    }
    best = min(losses, key=lambda step: losses[step])
    assert outcome.steps == best + 3 * config.training.interval == max(losses)
    assert outcome.validation_loss == losses[best]
    run = TrainingRun(config, World(0, 1, torch.device("cpu")))
    run.model = load_pretrained(tmp_path / "run" / "model")
    batches = ProcessBatches(config, load(tmp_path / "run" / "tokenizer.json"), 0, 1)
    assert run.validate(batches.validation)["validation_loss"] == pytest.approx(losses[best])


def test_patience_is_counted_in_intervals(tmp_path: Path) -> None:
    outcome = train(tiny("ntp", "training.lr=1e-30", "training.patience=2"), tmp_path / "run")
    assert (outcome.steps, outcome.stopped_early) == (15, True)


def test_the_learning_rate_with_the_lowest_validation_loss_is_taken(tmp_path: Path) -> None:
    config = tiny("ntp", "training.steps=400")
    rates = [1e-6, 1e-2, 1e30]
    best, losses = search_learning_rate(config, tmp_path / "run", rates, resume=False)
    assert list(losses) == rates
    assert losses[1e-2] < losses[1e-6] < losses[1e30] == math.inf  # it diverges
    assert best.training.lr == 1e-2
    assert {len(training_rows(tmp_path / "run" / "search" / str(lr))) for lr in rates[:2]} == {20}
    assert replace(best, training=replace(best.training, lr=config.training.lr)) == config
    # A search that was killed goes on: what is finished is not done again.
    steps = (tmp_path / "run" / "search").glob("*/metrics.jsonl")
    stamps = {path: path.stat().st_mtime_ns for path in steps if path.parent.name != "1e+30"}
    assert search_learning_rate(config, tmp_path / "run", rates, resume=True) == (best, losses)
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    with pytest.raises(InputError, match="holds a run already"):
        search_learning_rate(config, tmp_path / "run", rates, resume=False)
    with pytest.raises(InputError, match="diverges with each of these learning rates"):
        search_learning_rate(config, tmp_path / "other", [1e30], resume=False)


def test_a_rate_that_diverges_in_its_last_step_is_not_taken(tmp_path: Path) -> None:
    """Then no training loss is infinite, but the validation loss is not a number."""
    config = tiny("ntp", "training.steps=20")
    best, losses = search_learning_rate(config, tmp_path / "run", [1e30, 1e-2], resume=False)
    assert best.training.lr == 1e-2 and losses[1e30] == math.inf


def test_a_loss_that_is_not_a_number_ends_the_run(tmp_path: Path) -> None:
    config = tiny("ntp", "training.lr=1e30", "training.optimizer=adamw", "training.warmup=0")
    with pytest.raises(InputError, match=r"^the loss is \w+ at step \d+: lower training.lr"):
        train(config, tmp_path / "run")
