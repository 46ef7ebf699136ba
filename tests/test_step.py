"""One training step: compilation, clipping, precision and attention kernels."""

from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounter
from torch.nn.attention import SDPBackend
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from arithmetext.evaluation.generation import generate
from arithmetext.models.language import Prompts
from arithmetext.training.devices import World
from arithmetext.training.run import ATTENTION
from arithmetext.training.run import Run as TrainingRun
from arithmetext.training.stream import ProcessBatches
from tiny_runs import each_optimizer, each_task, parts_of, tiny


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
    parts = ProcessBatches(config, tokenizer, 0, 1).parts(0)
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
