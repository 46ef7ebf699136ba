"""`nt bench generate`: the speed of generating tokens after a full context.

The peer is Hugging Face's GPT-2 of the same shape. On a GPU the model is the paper's and there are
128 prompts; on a CPU it is that of `ntp-laptop` and there are 16.
"""

import time
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch

from ..evaluation.generation import generate
from ..models.gpt import GPT, GPTConfig
from ..models.language import Prompts
from ..training.devices import world
from .comparison import Timers, compare
from .hugging_face import gpt2_like


def measure() -> dict[str, Any]:
    with world() as here:
        gpu = here.device.type == "cuda"
        shape = GPTConfig() if gpu else GPTConfig(layers=2, heads=2, context=256)
        prompts, few = (128, 32) if gpu else (16, 16)
        torch.manual_seed(0)
        model = GPT(shape, vocabulary=256, causal=True).for_inference(here.device)
        ids = torch.randint(256, (prompts, shape.context), device=here.device)
        block = shape.context // 4

        def ours(count: int, stride: int) -> float:
            start = time.perf_counter()
            generate(model.read(Prompts(ids), stride=stride), count).cpu()
            return time.perf_counter() - start

        exact, blocks = "stride of one token", "stride of a quarter of the context"
        counts = {exact: few, blocks: shape.context}
        strides = {exact: 1, blocks: block}
        timers: Timers = {
            "ours": {case: partial(ours, counts[case], strides[case]) for case in counts}
        }
        if find_spec("transformers"):
            theirs = gpt2_like(model).to(here.device, next(model.parameters()).dtype).eval()
            timers["Hugging Face GPT-2, no cache"] = {
                exact: partial(_without_cache, theirs, ids, counts[exact])
            }
            timers["Hugging Face GPT-2, its cache"] = {
                blocks: partial(_with_cache, theirs, ids, block, counts[blocks])
            }
        for cases in timers.values():
            for timer in cases.values():
                timer()  # warm up
        figures = compare(
            timers,
            {case: prompts * count for case, count in counts.items()},
            per=1e3,
            rounds=3,
            unit="thousand tokens a second",
            conditions={
                "device": here.name,
                "model": f"{shape.layers} layers of {shape.heads} heads, L = {shape.context},"
                f" D = 256, {'bfloat16' if here.bf16 else 'float32'}",
                "prompts": f"{prompts} of {shape.context} tokens, all at once; {few} tokens"
                f" generated with a stride of one token, {shape.context} with the other stride",
            },
        )
        rates = figures["ours"]
        figures["conditions"] |= {
            "stride of a quarter against one token": f"{rates[blocks] / rates[exact]:.1f}×",
            f"{shape.context} tokens of each prompt, with a stride of one token": (
                f"{prompts * shape.context / rates[exact] / 1e3:.1f} s"
            ),
        }
        return figures


def _without_cache(model: Any, ids: Any, count: int) -> float:
    """Read the whole context for each token, because every position changes when it slides."""
    start = time.perf_counter()
    with torch.no_grad():
        for _ in range(count):
            token = model(input_ids=ids, use_cache=False).logits[:, -1:].argmax(-1)
            ids = torch.cat([ids[:, 1:], token], 1)
    ids.cpu()
    return time.perf_counter() - start


def _with_cache(model: Any, ids: Any, block: int, count: int) -> float:
    """When the context is full, drop the oldest block and read the rest; else use the KV cache."""
    start = time.perf_counter()
    with torch.no_grad():
        for _ in range(count // block):
            ids = new = ids[:, block:]
            past = None
            for _ in range(block):
                answer = model(input_ids=new, past_key_values=past, use_cache=True)
                past, new = answer.past_key_values, answer.logits[:, -1:].argmax(-1)
                ids = torch.cat([ids, new], 1)
    ids.cpu()
    return time.perf_counter() - start
