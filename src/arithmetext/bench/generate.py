"""`nt bench generate`: the speed of generating tokens after a full context.

The peers are Hugging Face's GPT-2 of the same shape and, on a CPU, CTranslate2 with our weights. No
peer slides its context, so the loops here do it for them. On a GPU the model is the paper's and
there are 128 prompts; on a CPU it is that of `ntp-laptop` and there are 16.
"""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from ..evaluation.generation import generate
from ..models.files import save
from ..models.gpt import GPT, GPTConfig
from ..models.language import Prompts
from ..tokens import BPE
from ..training.devices import world
from .comparison import Timers, compare, timed
from .hugging_face import gpt2_like


def measure() -> dict[str, Any]:
    with world() as here:
        gpu = here.device.type == "cuda"
        shape = GPTConfig() if gpu else GPTConfig(layers=2, heads=2, context=256)
        prompts, few = (128, 32) if gpu else (16, 16)
        torch.manual_seed(0)
        model = GPT(shape, vocabulary=256, causal=True)
        for parameter in model.blocks.parameters():  # with its first weights it repeats one token
            parameter.data.mul_(4)
        model = model.for_inference(here.device)
        ids = torch.randint(256, (prompts, shape.context), device=here.device)
        block = shape.context // 4

        def ours(count: int, stride: int) -> torch.Tensor:
            return generate(model.read(Prompts(ids), stride=stride), count).cpu()

        exact, blocks = "stride of one token", "stride of a quarter of the context"
        counts = {exact: few, blocks: shape.context}
        strides = {exact: 1, blocks: block}
        timers: Timers = {
            "ours": {
                case: partial(timed, partial(ours, counts[case], strides[case])) for case in counts
            }
        }
        checks = {}
        if find_spec("transformers"):
            theirs = gpt2_like(model).to(here.device, next(model.parameters()).dtype).eval()
            timers["Hugging Face GPT-2, no cache"] = {
                exact: partial(_without_cache, theirs, ids, counts[exact])
            }
            timers["Hugging Face GPT-2, its cache"] = {
                blocks: partial(_with_cache, theirs, ids, block, counts[blocks])
            }
        if not gpu and find_spec("ctranslate2") and find_spec("transformers"):
            continued = _ctranslate2(model)
            timers["CTranslate2"] = {
                case: partial(timed, partial(continued, ids, strides[case], count))
                for case, count in counts.items()
            }
            same = continued(ids, block, shape.context) == ours(shape.context, block)
            checks["share of CTranslate2's tokens equal to ours"] = f"{same.float().mean():.1%}"
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
            }
            | checks,
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


def _ctranslate2(model: GPT) -> Callable[[Any, int, int], Any]:
    """CTranslate2 with the weights of `model`: continues prompts greedily, with a stride.

    It cannot drop old tokens: whenever its context is full, it starts again with the newer ones.
    """
    engine: Any = import_module("ctranslate2")
    transformers: Any = import_module("transformers")
    transformers.logging.disable_progress_bar()
    tokenizers: Any = import_module("tokenizers")
    context = model.config.context
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = Path(folder) / "ours", Path(folder) / "theirs"
        save(model, BPE.train(model.vocabulary), ours)
        # Its converter wants exactly as many tokens as the model has, without our mask token.
        plain = tokenizers.models.WordLevel({str(i): i for i in range(model.vocabulary)})
        transformers.PreTrainedTokenizerFast(
            tokenizer_object=tokenizers.Tokenizer(plain),
            **dict.fromkeys(("bos_token", "eos_token", "unk_token"), "0"),
        ).save_pretrained(ours)
        engine.converters.TransformersConverter(str(ours)).convert(str(theirs))
        generator = engine.Generator(str(theirs), intra_threads=torch.get_num_threads())

    def continued(ids: Any, stride: int, count: int) -> Any:
        made: list[list[int]] = [[] for _ in ids]
        rows = [[str(i) for i in row] for row in ids.tolist()]
        while len(made[0]) < count:
            length = min(context - len(rows[0]) + 1, count - len(made[0]))
            answers = generator.generate_batch(
                rows, max_length=length, include_prompt_in_result=False, end_token=[]
            )
            for row, all_made, answer in zip(rows, made, answers, strict=True):
                all_made += answer.sequences_ids[0]
                row += answer.sequences[0]
                del row[: -(context - stride + 1)]
        return torch.tensor(made)

    return continued
