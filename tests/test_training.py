"""Runs: they learn, killed or not they end with the same weights, and two processes do as one."""

import io
import json
import math
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, redirect_stderr
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch._dynamo.testing import CompileCounter
from torch.nn.attention import SDPBackend
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from arithmetext.cli.train import train as train_command
from arithmetext.errors import InputError
from arithmetext.evaluation.generation import generate
from arithmetext.evaluation.subjects import subject
from arithmetext.files import sole_writer
from arithmetext.models.hugging_face import load_pretrained
from arithmetext.models.language import Prompts
from arithmetext.tokens import load
from arithmetext.training import checkpoints
from arithmetext.training.checkpoints import State
from arithmetext.training.config import Config, changed
from arithmetext.training.config import settings as settings_of
from arithmetext.training.devices import World
from arithmetext.training.loop import train
from arithmetext.training.monitor import read
from arithmetext.training.recipes import recipe
from arithmetext.training.run import ATTENTION, make_model
from arithmetext.training.run import Run as TrainingRun
from arithmetext.training.search import search
from arithmetext.training.stream import Batch, Share
from conftest import Run, tolerance
from test_files import assert_synced, recorded

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


def contents(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def parts_of(config: Config) -> Iterator[Batch]:
    return Share(config, config.tokens.tokenizer(config.text, config.n), 0, 1).parts(0)


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
            "training.steps=60",
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
    run = TrainingRun(config, World(0, 1, torch.device("cpu")))
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
    monkeypatch.setattr(TrainingRun, "compiles", True)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=counter))
    config = tiny(task)
    run = TrainingRun(config, World(0, 1, torch.device("cpu")))
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


@each_optimizer
def test_gradients_are_clipped(optimizer: str) -> None:
    """Their norm is `clip` at the most, their direction stays; smaller ones are left alone."""
    seen: dict[float, Tensor] = {}
    for clip in (1e-3, 1e3):
        config = tiny("ntp", f"training.optimizer={optimizer}", f"training.clip={clip}")
        run = TrainingRun(config, World(0, 1, torch.device("cpu")))

        def look(*_: Any, run: TrainingRun = run, clip: float = clip) -> None:
            gradients = [p.grad.flatten() for p in run.model.parameters() if p.grad is not None]
            seen.setdefault(clip, torch.cat(gradients))

        run.optimizers[0].register_step_pre_hook(look)
        norm = run.step(0, parts_of(config)).values[2]  # before it is clipped
        assert 1e-3 < norm < 1e3
    whole, clipped = seen[1e3].double(), seen[1e-3].double()
    torch.testing.assert_close(whole.norm().float(), norm, rtol=1e-4, atol=0)
    torch.testing.assert_close(clipped, whole * (1e-3 / whole.norm()), rtol=1e-3, atol=1e-9)


class NoHalves(TorchDispatchMode):
    """Notes operations with bfloat16 on a CPU: some CPUs that claim to have it crash."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.halves = 0, set[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        tensors = [x for x in tree_leaves((args, kwargs, result)) if isinstance(x, Tensor)]
        self.count += 1
        if any(x.dtype in (torch.bfloat16, torch.float16) for x in tensors):
            self.halves.add(str(func))
        return result


@each_optimizer
def test_nothing_is_computed_in_half_precision_on_a_cpu(optimizer: str) -> None:
    config = tiny("ntp", f"training.optimizer={optimizer}")
    here = World(0, 1, torch.device("cpu"))
    with NoHalves() as mode:
        run = TrainingRun(config, here)
        run.step(0, parts_of(config))
        run.validate([next(parts_of(config))])
        half = run.model.bfloat16()  # as transformers may have written it
        half_seen = set(mode.halves)
        mode.halves.clear()
        prompts = Prompts(torch.zeros(1, 4, dtype=torch.int64))
        generate(half.for_inference(here.device).read(prompts), 3)
    assert mode.count > 100
    assert half_seen == {"aten._to_copy.default"}  # the conversion above, and nothing before it
    assert mode.halves <= {"aten._to_copy.default"}  # the conversion back


def test_plain_matrices_are_the_last_resort_of_attention() -> None:
    """Every fused kernel that this version of torch has is tried before."""
    others = {"ERROR", "OVERRIDEABLE", "MATH"}
    fused = {kernel for name, kernel in SDPBackend.__members__.items() if name not in others}
    assert len(fused) >= 3
    *first, last = ATTENTION
    assert set(first) == fused and len(first) == len(fused)
    assert last == SDPBackend.MATH


# One writer, a folder in order


@cache
def finished_run(parent: Path) -> Path:
    train(tiny("ntp", "training.steps=10"), parent / "run")
    return parent / "run"


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("finished")


@pytest.fixture
def finished(shared_folder: Path, tmp_path: Path) -> Path:
    """A copy of a finished run of ten steps, with checkpoints at steps 5 and 10."""
    return shutil.copytree(finished_run(shared_folder), tmp_path / "run")


def test_a_second_run_in_the_folder_is_refused_or_waits(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def write() -> None:
        with sole_writer(finished):
            holds.set()
            enough.wait(60)

    holds, enough = threading.Event(), threading.Event()
    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    holds.wait()
    before = contents(finished)
    for begin in (
        partial(train, None, finished, resume=True),
        partial(train_command, None, out=finished, resume=True),
        partial(search, tiny(), finished, [1e-3], resume=True),
    ):
        with pytest.raises(InputError, match="is in use by process"):
            begin()
    assert contents(finished) == before
    threading.Timer(0.3, enough.set).start()
    train_command(None, out=finished, resume=True, wait=True)
    said = capsys.readouterr()
    assert said.err.startswith("nt: waiting for process") and said.err.count("\n") == 1
    assert "10 steps" in said.out
    thread.join()


def test_a_run_that_is_refused_leaves_no_folder(tmp_path: Path) -> None:
    config = tiny("ntp", "n=1e4")
    for begin in (
        partial(train, replace(config, model=replace(config.model, context=256))),
        partial(train, None),
    ):
        with pytest.raises(InputError):
            begin(tmp_path / "run", resume=True)
        assert list(tmp_path.iterdir()) == []


def test_all_that_a_run_writes_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recorded(monkeypatch) as log:
        train(tiny("ntp", "training.steps=5"), tmp_path / "run")
    assert {"config.json", "tokenizer.json", "00000005", "model.safetensors"} <= {
        *assert_synced(log)
    }


@pytest.mark.parametrize("lost", ["model", "config.json", "model.safetensors", "tokenizer.json"])
def test_the_model_of_a_finished_run_is_written_again(finished: Path, lost: str) -> None:
    """Without training: the model that was there comes back, and nothing else changes."""
    before = contents(finished)
    path = finished / "model" / lost
    shutil.rmtree(finished / "model") if lost == "model" else path.unlink()
    with pytest.raises(InputError, match=f"nt train --resume --out {finished}"):
        subject(str(finished), 10**13)
    train(None, finished, resume=True)
    assert contents(finished) == before
    if lost == "model.safetensors":
        path.write_bytes(path.read_bytes()[:-4])  # it is there, but not whole
        train(None, finished, resume=True)
        assert contents(finished) == before


def test_the_best_model_of_a_finished_run_is_written_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is not the last one; if its checkpoint is lost, the last one takes its place."""
    out = tmp_path / "run"
    config = tiny("ntp", "training.lr=1e-30", "training.patience=2")
    train(config, out)
    state = json.loads((out / "checkpoints" / "00000015" / "state.json").read_text())["state"]
    assert state["best_step"] == 5
    before = contents(out)
    shutil.rmtree(out / "model")
    train(config, out, resume=True)
    assert contents(out) == before
    shutil.rmtree(out / "model")
    shutil.rmtree(out / "checkpoints" / "00000005")
    train(config, out, resume=True)
    said = capsys.readouterr().err
    assert "00000005 is damaged" in said and "model/ gets the last weights instead" in said
    ours = make_model(config)
    checkpoints.load_weights(out / "checkpoints", 15, ours)
    written = load_pretrained(out / "model").state_dict()
    assert all(torch.equal(written[name], t) for name, t in ours.state_dict().items())


# A folder that was tampered with


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": "mlm"}, "tokens.weight is .32, 64. in the checkpoint and .33, 64. in"),
        ({"model": {"layers": 2}}, "is missing in the checkpoint"),
        ({"model": {"heads": 2}}, "in the checkpoint and .* in the configured run"),
        ({"model": {"positions": "learned"}}, "positions.weight is missing in the checkpoint"),
        ({"training": {"optimizer": "adamw"}}, "exp_avg is missing in the checkpoint"),
        ({"training": {"steps": 9}}, r"at step 10 does not fit config.json \(training.steps = 9,"),
        (
            {"training": {"steps": 20}},
            r"at step 10 does not fit config.json \(training.steps = 20,",
        ),
        ({"tokens": {"size": 33}}, "tokens.size is 33 .* tokenizer.json has 32 tokens"),
        ({"model": {"layers": 10**12}}, "too little memory: the .* GB of this device"),
        ({"training": {"batch": 2**62}}, r"training.batch must be below 2\^32"),
        ({"model": {"layers": 10**400}}, r"model.layers must be below 2\^63"),
        ({"model": {"heads": 2**60}}, "too little memory: the .* GB of this device"),
        ({"training": {"lr": 10**400}}, "training.lr cannot be 1000.*…$"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_config_that_does_not_fit(finished: Path, change: dict[str, Any], message: str) -> None:
    path = finished / "config.json"
    values = json.loads(path.read_text())
    for name, value in change.items():
        values[name] = values[name] | value if isinstance(value, dict) else value
    path.write_text(json.dumps(values))
    before = contents(finished)
    with pytest.raises(InputError, match=message) as refused:
        train(None, finished, resume=True)
    assert "\n" not in str(refused.value)
    assert contents(finished) == before


def test_a_run_that_ends_before_its_checkpoint(finished: Path) -> None:
    shutil.rmtree(finished / "checkpoints" / "00000010")
    path = finished / "config.json"
    values = json.loads(path.read_text())
    for steps in (4, 5):
        values["training"]["steps"] = steps
        path.write_text(json.dumps(values))
        with pytest.raises(InputError, match="the checkpoint at step 5 does not fit"):
            train(None, finished, resume=True)


def test_checkpoints_without_a_config(finished: Path) -> None:
    (finished / "config.json").unlink()
    with pytest.raises(InputError, match=r"has checkpoints but no config\.json"):
        train(tiny(), finished)
    assert not (finished / "config.json").exists()


numbers = st.sampled_from([-1, 0, 1, 2, 5, 10, 32, 64, 128, 10**400]) | st.floats()
anything = st.recursive(
    st.none() | st.booleans() | st.text(max_size=3) | numbers,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=3,
)
fields = [name for name in settings_of() if name != "n"]


@given(
    st.sampled_from([None] * 8 + ["[", '{"model":']),
    st.dictionaries(st.sampled_from(fields), numbers | anything, max_size=2),
    st.dictionaries(st.sampled_from([*asdict(State())]), anything, max_size=2),
    st.booleans(),
)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_is_refused_or_goes_on(
    shared_folder: Path, deep: str | None, config: dict[str, Any], state: dict[str, Any], last: bool
) -> None:
    """Whatever config.json and state.json say: it ends in one line, or as a run should."""
    with tempfile.TemporaryDirectory() as parent, redirect_stderr(io.StringIO()):
        folder = shutil.copytree(finished_run(shared_folder), Path(parent) / "run")
        values = json.loads((folder / "config.json").read_text())
        for name, value in config.items():
            *group, field = name.split(".")
            (values[group[0]] if group else values)[field] = value
        text = deep * 100_000 if deep is not None else json.dumps(values)
        (folder / "config.json").write_text(text)
        if not last:
            shutil.rmtree(folder / "checkpoints" / "00000010")
        newest = max((folder / "checkpoints").iterdir())
        about = json.loads((newest / "state.json").read_text())
        about["state"] |= state
        about["digest"] = checkpoints._digest(newest, about["state"])
        (newest / "state.json").write_text(json.dumps(about))
        try:
            outcome = train(None, folder, resume=True)
        except InputError as error:
            assert "\n" not in str(error)
        else:
            assert outcome.steps <= values["training"]["steps"]
            load_pretrained(folder / "model")


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
        return {path: path.stat().st_mtime_ns for path in files}

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
                assert a[figure] == pytest.approx(b[figure], rel=1e-3)  # steps amplify rounding
    assert json.loads((tmp_path / "two" / "environment.json").read_text())["processes"] == 2


def apart(parent: Path) -> None:
    """One of two processes that see different folders; what it comes to goes to standard output."""
    first = os.environ["RANK"] == "0"
    out, said = parent / os.environ["RANK"], []
    for damage in ("lock", "config"):
        with ExitStack() as undo:
            if first and damage == "lock":
                undo.enter_context(sole_writer(out))
            elif first:
                (out / "config.json").rename(out / "other.json")
                undo.callback((out / "other.json").rename, out / "config.json")
            try:
                train(None, out, resume=True)
            except InputError as error:
                said.append(str(error))
    print(json.dumps([said, asdict(train(None, out, resume=True))]))


def test_processes_that_see_different_folders_go_on_together(
    finished: Path, tmp_path: Path
) -> None:
    """The first one's folder counts; what it refuses, or is refused, ends the others too."""
    whole = train(None, finished, resume=True)
    losses = [row["loss"] for row in training_rows(finished)]
    shutil.rmtree(finished / "checkpoints" / "00000010")
    shutil.rmtree(finished / "model")
    parent = tmp_path / "apart"
    parent.mkdir()
    finished.rename(parent / "0")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    about = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    code = "import sys, pathlib, test_training as t; t.apart(pathlib.Path(sys.argv[1]))"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, parent],
            env=os.environ | about | {"RANK": rank},
            cwd=Path(__file__).parent,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    try:
        answers = [json.loads(process.communicate(timeout=120)[0]) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for said, outcome in answers:
        assert len(said) == 2
        assert "is in use by process" in said[0]
        assert said[1].startswith(f"cannot read {parent / '0' / 'config.json'}")
        assert outcome["steps"] == whole.steps
        assert outcome["validation_loss"] == pytest.approx(whole.validation_loss, rel=2e-4)
    assert [path.name for path in parent.iterdir()] == ["0"]
    rows = training_rows(parent / "0")
    assert [row["step"] for row in rows] == list(range(1, 11))
    assert [row["loss"] for row in rows] == pytest.approx(losses, rel=2e-4)


# The folder and the command


def test_the_folder_of_a_run(tmp_path: Path, process: Run) -> None:
    answer = process(*command("ntp", tmp_path / "run"), "--tensorboard")
    assert answer.returncode == 0, answer.stderr
    assert answer.stderr == ""
    assert answer.stdout.count("\n") == 1
    out = tmp_path / "run"
    assert Config.load(out / "config.json") == tiny()
    assert {path.name for path in out.iterdir()} == {
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
    modules = (
        "arithmetext.text.sieve, arithmetext.tokens, arithmetext.cli, arithmetext.paper.report"
    )
    script = f"import {modules}, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
