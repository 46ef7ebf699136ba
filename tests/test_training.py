"""Runs: they learn, killed or not they end with the same weights, and two processes do as one."""

import json
import math
import multiprocessing
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounter

from arithmetext.errors import InputError
from arithmetext.files import LOCK
from arithmetext.models.hugging_face import load_pretrained
from arithmetext.tokens import load
from arithmetext.training import loop
from arithmetext.training.config import Config, changed
from arithmetext.training.loop import train
from arithmetext.training.monitor import read
from arithmetext.training.recipes import recipe
from arithmetext.training.search import search
from arithmetext.training.stream import Share
from conftest import Run, tolerance

TINY = (
    "model.layers=1",
    "model.heads=1",
    "model.context=32",
    "tokens.size=32",
    "training.batch=256",
    "training.device_batch=128",
    "training.steps=40",
    "training.interval=5",
    "training.warmup=4",
    "training.validation=512",
)
each_task = pytest.mark.parametrize("task", ["ntp", "mlm"])
each_optimizer = pytest.mark.parametrize("optimizer", ["adamw", "muon"])


def tiny(task: str = "ntp", *settings: str) -> Config:
    return changed(recipe(f"{task}-laptop"), [*TINY, *settings])


def command(task: str, out: Path, *settings: str) -> list[str]:
    changes = [word for setting in (*TINY, *settings) for word in ("--set", setting)]
    return ["train", f"{task}-laptop", *changes, "--out", str(out)]


def weights(folder: Path) -> bytes:
    return (folder / "model" / "model.safetensors").read_bytes()


def training_rows(folder: Path) -> list[dict[str, Any]]:
    return [row for row in read(folder / "metrics.jsonl") if "loss" in row]


# Learning


def test_loss_falls_below_the_entropy_of_the_tokens(tmp_path: Path) -> None:
    """Only a model that looks at what came before can get there."""
    config = changed(
        recipe("ntp-laptop"),
        [
            "model.layers=2",
            "model.heads=1",
            "model.context=64",
            "tokens.size=64",
            "training.batch=2048",
            "training.steps=150",
            "training.validation=16384",
        ],
    )
    outcome = train(config, tmp_path / "run")
    share = Share(config, load(tmp_path / "run" / "tokenizer.json"), 0, 1)
    ids = torch.cat([batch.targets for batch in share.validation]).flatten()
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
    for inputs, targets, chosen, _ in Share(config, ours, 0, 1).validation:
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
    run = loop.Run(config, loop.World(0, 1, torch.device("cpu")))
    run.model = load_pretrained(tmp_path / "run" / "model")
    share = Share(config, load(tmp_path / "run" / "tokenizer.json"), 0, 1)
    assert run.validate(share.validation)["validation_loss"] == pytest.approx(losses[best])


def test_patience_is_counted_in_intervals(tmp_path: Path) -> None:
    outcome = train(tiny("ntp", "training.lr=1e-30", "training.patience=2"), tmp_path / "run")
    assert (outcome.steps, outcome.stopped_early) == (15, True)


def test_the_learning_rate_with_the_lowest_validation_loss_is_taken(tmp_path: Path) -> None:
    config = tiny("ntp", "training.steps=400")
    rates = [1e-6, 1e-2, 1e30]
    best, losses = search(config, tmp_path / "run", rates, resume=False)
    assert list(losses) == rates
    assert losses[1e-2] < losses[1e-6] < losses[1e30] == math.inf  # it diverges
    assert best.training.lr == 1e-2
    assert {len(training_rows(tmp_path / "run" / "search" / str(lr))) for lr in rates[:2]} == {20}
    assert replace(best, training=replace(best.training, lr=config.training.lr)) == config
    # A search that was killed goes on: what is finished is not done again.
    steps = (tmp_path / "run" / "search").glob("*/metrics.jsonl")
    stamps = {path: path.stat().st_mtime_ns for path in steps if path.parent.name != "1e+30"}
    assert search(config, tmp_path / "run", rates, resume=True) == (best, losses)
    assert {path: path.stat().st_mtime_ns for path in stamps} == stamps
    with pytest.raises(InputError, match="holds a run already"):
        search(config, tmp_path / "run", rates, resume=False)
    with pytest.raises(InputError, match="diverges with each of these learning rates"):
        search(config, tmp_path / "other", [1e30], resume=False)


def test_a_loss_that_is_not_a_number_ends_the_run(tmp_path: Path) -> None:
    config = tiny("ntp", "training.lr=1e30", "training.optimizer=adamw", "training.warmup=0")
    with pytest.raises(InputError, match=r"^the loss is \w+ at step \d+: lower training.lr"):
        train(config, tmp_path / "run")


@each_task
def test_the_steps_use_what_the_warm_up_compiled(
    task: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a card, where it takes half a minute that the text is made in meanwhile."""
    counter = CompileCounter()
    monkeypatch.setattr(loop.Run, "compiles", True)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=counter))
    config = tiny(task)
    run = loop.Run(config, loop.World(0, 1, torch.device("cpu")))
    before = {name: p.clone() for name, p in run.model.named_parameters()}
    run.warm_up()
    assert counter.frame_count > 0
    assert all(p.grad is None and p.equal(before[n]) for n, p in run.model.named_parameters())
    compiled = counter.frame_count
    tokenizer = config.tokens.tokenizer(config.text, config.n)
    parts = Share(config, tokenizer, 0, 1).parts(0)
    run.step(0, parts)
    run.step(1, parts)
    assert counter.frame_count == compiled


# Killed and resumed


@cache
def undisturbed(task: str, optimizer: str, parent: Path) -> bytes:
    folder = parent / f"{task}-{optimizer}"
    train(tiny(task, f"training.optimizer={optimizer}"), folder)
    return weights(folder)


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], bytes]:
    """The weights of runs that nothing disturbed."""
    parent = tmp_path_factory.mktemp("undisturbed")
    return lambda task, optimizer: undisturbed(task, optimizer, parent)


# Processes that have imported torch already, where the system can make them.
METHODS = multiprocessing.get_all_start_methods()
PROCESSES = multiprocessing.get_context("forkserver" if "forkserver" in METHODS else "spawn")
PROCESSES.set_forkserver_preload(["arithmetext.training.loop", "torch._dynamo"])


def killed(config: Config, out: Path, ripe: Callable[[], bool], delay: float = 0.0) -> None:
    """Begin a run, or go on with it, in another process; kill that some time after it is ripe."""
    run = PROCESSES.Process(target=train, args=(config, out), kwargs={"resume": True})
    run.start()
    try:
        deadline = time.monotonic() + 60
        while not ripe() and run.is_alive():
            assert time.monotonic() < deadline
            time.sleep(0.002)
        time.sleep(delay)
    finally:
        run.kill()
        run.join()


@each_task
@each_optimizer
def test_killed_and_resumed_without_a_trace(
    task: str, optimizer: str, tmp_path: Path, reference: Callable[[str, str], bytes]
) -> None:
    out = tmp_path / "run"
    config = tiny(task, f"training.optimizer={optimizer}")
    moments: list[tuple[Callable[[], bool], float]] = [
        (lambda: (out / "metrics.jsonl").exists(), 0.0),  # before there is any checkpoint
        (lambda: (out / "checkpoints").exists(), 0.0),  # while one is written
        (lambda: (out / "checkpoints" / "00000010").exists(), 0.03),
        (lambda: (out / "checkpoints" / "00000025").exists(), 0.01),
    ]
    for ripe, delay in moments:
        killed(config, out, ripe, delay)
    train(config, out, resume=True)
    assert weights(out) == reference(task, optimizer)
    assert [row["step"] for row in training_rows(out)] == list(range(1, 41))
    assert not list(out.glob("checkpoints/.*"))


def test_a_damaged_checkpoint_is_noticed_and_the_one_before_is_used(
    tmp_path: Path, nt: Run, reference: Callable[[str, str], bytes]
) -> None:
    out = tmp_path / "run"
    arguments = command("ntp", out, "training.optimizer=adamw")
    config = tiny("ntp", "training.optimizer=adamw")
    killed(config, out, lambda: (out / "checkpoints" / "00000015").exists())
    newest = max(path for path in (out / "checkpoints").iterdir() if path.name.isdigit())
    file = newest / "optimizer.safetensors"
    file.write_bytes(file.read_bytes()[:-100])
    answer = nt(*arguments, "--resume")
    assert answer.returncode == 0
    assert f"{newest} is damaged" in answer.stderr
    assert weights(out) == reference("ntp", "adamw")


def test_a_full_disk_ends_the_run_and_loses_nothing(
    tmp_path: Path, process: Run, nt: Run, reference: Callable[[str, str], bytes]
) -> None:
    """Files cannot grow beyond a limit that the second checkpoint would cross."""
    resource = pytest.importorskip("resource")
    out = tmp_path / "run"
    arguments = command("ntp", out, "training.optimizer=adamw")
    config = tiny("ntp", "training.optimizer=adamw")
    killed(config, out, lambda: (out / "checkpoints" / "00000005").exists())
    before = {path: path.stat().st_size for path in out.glob("checkpoints/*/*")}

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    answer = process(*arguments, "--resume", preexec_fn=limit)
    assert answer.returncode == 2
    assert answer.stderr.startswith("nt: cannot write the checkpoint")
    assert "--resume goes on from step" in answer.stderr
    assert answer.stderr.count("\n") == 1
    assert {path: path.stat().st_size for path in out.glob("checkpoints/*/*")} == before
    assert not list(out.glob("checkpoints/.*"))
    assert nt(*arguments, "--resume").returncode == 0
    assert weights(out) == reference("ntp", "adamw")


def test_a_finished_run_is_left_as_it_is(tmp_path: Path) -> None:
    config = tiny()
    first = train(config, tmp_path / "run")

    def stamps() -> dict[Path, int]:
        files = (tmp_path / "run").rglob("*")
        return {path: path.stat().st_mtime_ns for path in files if path.name != LOCK}

    before = stamps()
    assert train(config, tmp_path / "run", resume=True) == first
    assert stamps() == before


# Several processes


@pytest.mark.parametrize(
    ("task", "optimizer"), [("ntp", "adamw"), ("mlm", "muon")], ids=["ntp-adamw", "mlm-muon"]
)
def test_two_processes_give_the_losses_of_one(task: str, optimizer: str, tmp_path: Path) -> None:
    settings = (f"training.optimizer={optimizer}", "training.steps=20")
    train(tiny(task, *settings), tmp_path / "one")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    together = [*torchrun, "--nproc-per-node=2", "-m", "arithmetext"]
    arguments = [*command(task, tmp_path / "two", *settings), "--search-lr", "1e-2"]
    answer = subprocess.run(
        [*together, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.count("validation") == 2  # one of them speaks: of the search, of the run
    one, two = (read(tmp_path / name / "metrics.jsonl") for name in ("one", "two"))
    assert len(one) == len(two) == 24
    for a, b in zip(one, two, strict=True):
        for figure in ("step", "loss", "nats_per_word", "gradient_norm", "validation_loss"):
            if a.get(figure) is not None:
                assert a[figure] == pytest.approx(b[figure], rel=2e-4)
    assert json.loads((tmp_path / "two" / "environment.json").read_text())["processes"] == 2


# The folder and the command


def test_the_folder_of_a_run(tmp_path: Path, process: Run) -> None:
    answer = process(*command("ntp", tmp_path / "run"), "--tensorboard")
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    assert answer.stdout.count("\n") == 1
    out = tmp_path / "run"
    assert Config.load(out / "config.json") == tiny()
    assert {path.name for path in out.iterdir()} == {
        LOCK,
        "config.json",
        "environment.json",
        "tokenizer.json",
        "metrics.jsonl",
        "checkpoints",
        "model",
        "tensorboard",
    }
    about = json.loads((out / "environment.json").read_text())
    assert about["torch"] == torch.__version__
    rows = training_rows(out)
    assert [row["step"] for row in rows] == list(range(1, 41))
    assert [row["tokens"] for row in rows] == list(range(256, 41 * 256, 256))
    assert all(math.isfinite(row["loss"]) and row["tokens_per_second"] > 0 for row in rows)
    assert all(row["nats_per_word"] > row["loss"] for row in rows)  # words of several tokens
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    events = accumulator.EventAccumulator(str(out / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("loss")] == list(range(1, 41))


def test_a_folder_that_holds_a_run_is_not_written_over(tmp_path: Path) -> None:
    train(tiny(), tmp_path / "run")
    before = weights(tmp_path / "run")
    with pytest.raises(InputError, match="holds a run already: --resume"):
        train(tiny(), tmp_path / "run")
    with pytest.raises(InputError, match=r"another setting: seed = 1 and 0 there"):
        train(tiny("ntp", "seed=1"), tmp_path / "run", resume=True)
    assert weights(tmp_path / "run") == before


def test_resume_needs_no_recipe(tmp_path: Path, nt: Run) -> None:
    out = tmp_path / "run"
    train(tiny(), out)
    shutil.rmtree(out / "checkpoints" / "00000040")
    shutil.rmtree(out / "model")
    answer = nt("train", "--resume", "--out", out)
    assert answer.returncode == 0, answer.stderr
    assert (out / "model" / "model.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "which recipe?"),
        (("ntp-labtop",), "did you mean ntp-laptop?"),
        (("ntp-laptop", "--set", "lr=1"), "did you mean training.lr?"),
        (("ntp-laptop", "--set", "training.lr"), "NAME=VALUE"),
        (("ntp-laptop", "--set", "training.lr=fast"), "training.lr is a number, not 'fast'"),
        (("ntp-laptop", "--set", "training.batch=1000"), "multiple of model.context"),
        (("ntp-laptop", "--set", "n=1e4", "--set", "tokens.size=16"), "raise n or lower model"),
        (("ntp-laptop", "--search-lr", "1e-3,quick"), "--search-lr takes rates"),
        (("--resume", "--out", "nowhere"), "cannot read nowhere/config.json"),
        (("ntp-laptop", "--out", f"{sys.executable}/run"), "cannot make the folder"),
    ],
)
def test_mistakes_are_named(
    arguments: tuple[str, ...], message: str, refused: Callable[..., str]
) -> None:
    assert message in refused("train", *arguments)


def test_recipes_are_listed(nt: Run) -> None:
    listed = nt("recipes").stdout
    assert "ntp-paper" in listed
    assert "mlm-laptop" in listed
    assert json.loads(nt("recipes", "--json").stdout)["ntp-paper"]["model"]["layers"] == 12


def test_text_and_tokens_are_used_without_torch() -> None:
    modules = "arithmetext.text.sieve, arithmetext.tokens, arithmetext.cli, arithmetext.report"
    script = f"import {modules}, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
