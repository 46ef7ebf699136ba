"""`nt bench train`: the speed of training.

The peer is Hugging Face's GPT-2 in a plain loop, with the same shape and batch. On a GPU the model
is the paper's, with half a million tokens per step; on a CPU it is that of `ntp-laptop`.

Small models are limited by the launching of kernels and by the threads that make the text. For them
the rate is that of many steps in a row, not of the best round.
"""

import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch

from ..training.config import Config, with_changes
from ..training.devices import World, world
from ..training.recipes import recipe
from ..training.run import Run
from ..training.stream import ProcessBatches
from .comparison import ROUNDS, Timers, compare
from .hugging_face import gpt2_like

SUSTAINED_STEPS = 300


def measure() -> dict[str, Any]:
    waited, worked = 0.0, 0.0  # seconds spent waiting for text, and in all

    def ours(run: Run, parts: Iterator[Any]) -> float:
        nonlocal waited, worked
        start = time.perf_counter()
        rows = [run.step(i, parts) for i in range(steps)]
        rows[-1].seconds()  # wait for the last step to end
        seconds = time.perf_counter() - start
        waited, worked = waited + sum(row.waited for row in rows), worked + seconds
        return seconds

    with world() as here:
        gpu = here.device.type == "cuda"
        steps = 4 if gpu else 8
        settings = ["model.positions=learned", "training.steps=1e6"]
        config = with_changes(recipe("ntp-paper" if gpu else "ntp-laptop"), settings)
        shape = config.model
        tokenizer = config.tokens.tokenizer(config.text, config.n)
        parts = ProcessBatches(config, tokenizer, here.rank, here.size).parts(0)
        timers: Timers = {"ours": {}}
        for optimizer, name in {"adamw": "AdamW", "muon": "Muon"}.items():
            run = Run(with_changes(config, [f"training.optimizer={optimizer}"]), here)
            ours(run, parts)  # compile
            timers["ours"][name] = partial(ours, run, parts)
        if find_spec("transformers"):
            kinds = {"Hugging Face GPT-2": False} | (
                {"Hugging Face GPT-2, compiled": True} if gpu else {}
            )
            for peer, compiled in kinds.items():
                timers[peer] = {
                    "AdamW": _hugging_face_loop(run, next(parts), steps, compiled=compiled)
                }
        waited = worked = 0.0
        report = compare(
            timers,
            dict.fromkeys(timers["ours"], steps * config.training.batch),
            per=1e3,
            rounds=3 if gpu else ROUNDS,
            unit="thousand tokens a second",
            conditions={
                "device": here.name,
                "model": f"{shape.description}, L = {shape.context}, D = {config.tokens.size},"
                f" {'bfloat16' if here.bf16 else 'float32'}",
                "batch": f"{config.training.batch} tokens, {run.micro} windows at once",
                "not in the figures": "compiling",
            },
        )
        report["conditions"]["time spent waiting for text"] = f"{waited / worked:.2%}"
        small, small_steps = _small_models(gpu=gpu), SUSTAINED_STEPS if gpu else 20
        for name, small_config in small.items():
            rate = sustained_rate(small_config, here, small_steps)
            report["ours"][f"{name}, one token per word, Muon"] = round(rate / 1e3, 3)
        report["conditions"]["one token per word"] = (
            f"{small_steps} steps of {small_config.training.batch} tokens in a row,"
            f" L = {small_config.model.context}, with the making of the text, measured once"
        )
        mfu = run.mfu(report["ours"]["AdamW"] * 1e3)
        if mfu is not None:
            report["conditions"]["MFU"] = f"{mfu:.1%} (AdamW)"
        return report


def _small_models(*, gpu: bool) -> dict[str, Config]:
    laptop = recipe("ntp-laptop")  # one token per word, Muon
    if not gpu:
        return {"one layer": with_changes(laptop, ["model.layers=1", "model.heads=1"])}
    settings = ["model.context=1024", f"training.batch={1 << 16}", "training.steps=1e6"]
    return {
        f"ρ = 1/{part}": with_changes(
            laptop, [f"model.layers={12 // part}", f"model.heads={12 // part}", *settings]
        )
        for part in (2, 4)
    }


def sustained_rate(config: Config, here: World, steps: int) -> float:
    """Tokens a second over so many steps in a row, with the making of the text."""
    tokenizer = config.tokens.tokenizer(config.text, config.n)
    parts = ProcessBatches(config, tokenizer, here.rank, here.size).parts(0)
    run = Run(config, here)
    before = run.step(0, parts)  # compile
    before.seconds()
    start = time.perf_counter()
    for i in range(1, steps + 1):
        result = run.step(i, parts)
        before.seconds()  # as in training: results are read one step late
        before = result
    before.seconds()
    seconds = time.perf_counter() - start
    parts.close()
    return steps * config.training.batch / seconds


def _hugging_face_loop(run: Any, part: Any, steps: int, *, compiled: bool) -> Callable[[], float]:
    """A plain training loop: fused AdamW and clipping, with the precision and batch of `run`.

    Every step trains on the same windows, so that the loop never waits for text.
    """
    here = run.world
    model = gpt2_like(run.model).to(here.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    forward = torch.compile(model, dynamic=False) if compiled else model
    inputs = part.inputs.to(here.device)

    def work() -> float:
        start = time.perf_counter()
        for _ in range(steps):
            for _ in range(run.accumulation):
                with here.precision():
                    loss = forward(input_ids=inputs, labels=inputs).loss / run.accumulation
                loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        loss.item()
        return time.perf_counter() - start

    work()  # compile
    return work
