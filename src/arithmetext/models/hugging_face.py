"""Write a GPT in the Hugging Face format, and read it back.

A model with learned positions becomes a `GPT2LMHeadModel`, one with rotary positions a
`GPTNeoXForCausalLM`. A table for each class maps our parameters to its names and layouts.
`transformers` reads these files and gives the same logits and ids. Files that `transformers` wrote
can be read here if our GPT computes the same function: the config is compared with the one that we
would write, so no setting that changes the logits goes unnoticed.

Both classes are causal. A model of masked text is written as the same class; `transformers` then
needs a four-dimensional attention mask that is true everywhere. The config records which of the two
it is under the key `arithmetext`, which `transformers` ignores.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from ..errors import InputError
from ..files import make_folder, whole_file, write_whole
from ..tokens.tokenizer import Tokenizer
from .gpt import GPT, HEAD_DIM, ROPE_BASE, GPTConfig, rope_table
from .unfilled import unfilled

GELU = "gelu_pytorch_tanh"

_CONFIG, _WEIGHTS, _RECORD = "config.json", "model.safetensors", "arithmetext"
_MAX_SIZE = 1 << 20  # a larger size is a mistake, and trying it could fill the memory

# Newer names of the settings of rotary positions in transformers: the names in transformers 4.
_RENAMED = {
    "partial_rotary_factor": "rotary_pct",
    "rope_theta": "rotary_emb_base",
    "type": "rope_type",
}

Layout = Callable[[Tensor, int], Tensor]


def same(parameter: Tensor, heads: int) -> Tensor:
    return parameter


def transposed(parameter: Tensor, heads: int) -> Tensor:
    """GPT-2 stores the matrices of linear layers transposed."""
    return parameter.mT if parameter.dim() == 2 else parameter


def by_heads(parameter: Tensor, heads: int) -> Tensor:
    """We store all queries, all keys, all values; NeoX stores the three of each head together."""
    return parameter.view(3, heads, HEAD_DIM, *parameter.shape[1:]).transpose(0, 1)


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """A class of `transformers` that computes the same function as our GPT."""

    name: str
    positions: Literal["learned", "rotary"]
    sizes: dict[str, str]  # our name: the name in transformers
    inner: str  # the name in transformers of the width inside the MLP
    settings: dict[str, Any]  # the values that give our logits
    absent: dict[str, Any]  # defaults in transformers for missing settings, if not our values
    dropouts: list[str]
    modules: dict[str, tuple[str, Layout]]  # our name: its name and layout in transformers

    def content(self, config: GPTConfig, vocabulary: int) -> dict[str, Any]:
        """All settings of a config that change the logits."""
        sizes = {
            theirs: vocabulary if ours == "vocabulary" else getattr(config, ours)
            for ours, theirs in self.sizes.items()
        }
        return {**sizes, self.inner: 4 * config.width, **self.settings}

    def views(self, model: GPT) -> Iterator[tuple[str, Tensor, torch.Size]]:
        """Each parameter with its name, layout (as a view) and shape in transformers.

        A view can be read to save the model and written to load it, so one table serves both ways.
        """
        for name, parameter in model.named_parameters():
            module, _, leaf = name.rpartition(".")
            theirs, layout = self.modules[re.sub(r"\d+", "{}", module)]
            view = layout(parameter.detach(), model.config.heads)
            shape = view.flatten(0, view.dim() - parameter.dim()).shape
            yield theirs.format(*re.findall(r"\d+", module)) + f".{leaf}", view, shape


ARCHITECTURES = {
    "gpt2": Architecture(
        name="GPT2LMHeadModel",
        positions="learned",
        sizes={
            "vocabulary": "vocab_size",
            "context": "n_positions",
            "layers": "n_layer",
            "heads": "n_head",
            "width": "n_embd",
        },
        inner="n_inner",
        settings={
            "activation_function": GELU,
            "layer_norm_epsilon": 1e-5,
            "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False,
            "tie_word_embeddings": True,
        },
        absent={},
        dropouts=["embd_pdrop", "attn_pdrop", "resid_pdrop"],
        modules={
            "tokens": ("transformer.wte", same),
            "positions": ("transformer.wpe", same),
            "blocks.{}.attention_norm": ("transformer.h.{}.ln_1", same),
            "blocks.{}.attention.qkv": ("transformer.h.{}.attn.c_attn", transposed),
            "blocks.{}.attention.out": ("transformer.h.{}.attn.c_proj", transposed),
            "blocks.{}.mlp_norm": ("transformer.h.{}.ln_2", same),
            "blocks.{}.mlp_up": ("transformer.h.{}.mlp.c_fc", transposed),
            "blocks.{}.mlp_down": ("transformer.h.{}.mlp.c_proj", transposed),
            "norm": ("transformer.ln_f", same),
        },
    ),
    "gpt_neox": Architecture(
        name="GPTNeoXForCausalLM",
        positions="rotary",
        sizes={
            "vocabulary": "vocab_size",
            "context": "max_position_embeddings",
            "layers": "num_hidden_layers",
            "heads": "num_attention_heads",
            "width": "hidden_size",
        },
        inner="intermediate_size",
        settings={
            "hidden_act": GELU,
            "layer_norm_eps": 1e-5,
            "use_parallel_residual": False,
            "attention_bias": True,
            "tie_word_embeddings": True,
            # transformers 4 reads the first two, 5.0 only the first, later versions the third.
            "rotary_pct": 1.0,
            "rotary_emb_base": ROPE_BASE,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": ROPE_BASE,
                "partial_rotary_factor": 1.0,
            },
        },
        absent={
            "hidden_act": "gelu",
            "use_parallel_residual": True,
            "tie_word_embeddings": False,
            "rotary_pct": 0.25,
        },
        dropouts=["attention_dropout", "hidden_dropout"],
        modules={
            "tokens": ("gpt_neox.embed_in", same),
            "blocks.{}.attention_norm": ("gpt_neox.layers.{}.input_layernorm", same),
            "blocks.{}.attention.qkv": ("gpt_neox.layers.{}.attention.query_key_value", by_heads),
            "blocks.{}.attention.out": ("gpt_neox.layers.{}.attention.dense", same),
            "blocks.{}.mlp_norm": ("gpt_neox.layers.{}.post_attention_layernorm", same),
            "blocks.{}.mlp_up": ("gpt_neox.layers.{}.mlp.dense_h_to_4h", same),
            "blocks.{}.mlp_down": ("gpt_neox.layers.{}.mlp.dense_4h_to_h", same),
            "norm": ("gpt_neox.final_layer_norm", same),
        },
    ),
}


def save_pretrained(
    model: GPT, tokenizer: Tokenizer, folder: Path, *, dtype: torch.dtype = torch.float32
) -> None:
    """Write files that `AutoModelForCausalLM` and `AutoTokenizer` read; the config comes last.

    The weights are rounded to `dtype`.
    """
    if model.vocabulary not in (tokenizer.size, tokenizer.size + 1):
        raise InputError(
            f"a model of {model.vocabulary} tokens does not go with a tokenizer of"
            f" {tokenizer.size}: it needs {tokenizer.size}, or one more for the mask token"
        )
    positions = {architecture.positions: kind for kind, architecture in ARCHITECTURES.items()}
    kind = positions[model.config.positions]
    architecture = ARCHITECTURES[kind]
    config = {
        "architectures": [architecture.name],
        "model_type": kind,
        **architecture.content(model.config, model.vocabulary),
        **dict.fromkeys(architecture.dropouts, 0.0),
        "bos_token_id": None,  # the text has no end, and generation would stop at such a token
        "eos_token_id": None,
        "dtype": str(dtype).removeprefix("torch."),
        _RECORD: {"causal": model.causal},
    }
    tensors = {
        name: view.to("cpu", dtype).reshape(shape).contiguous()
        for name, view, shape in architecture.views(model)
    }
    make_folder(folder)
    tokenizer.save_pretrained(folder, context=model.config.context)
    with whole_file(folder / _WEIGHTS) as draft:
        draft.write_bytes(save(tensors, {"format": "pt"}))
    write_whole(folder / _CONFIG, json.dumps(config, indent=1) + "\n")


def load_pretrained(folder: Path) -> GPT:
    """Read a model that `save_pretrained`, or `transformers`, has written."""
    path = folder / _CONFIG
    read = read_config(path)
    architecture = ARCHITECTURES.get(str(read.get("model_type")))
    if architecture is None:
        raise InputError(
            f'{path}: "model_type" is {_shown(read.get("model_type"))};'
            f" only {' and '.join(ARCHITECTURES)} can be read"
        )
    config, vocabulary = _compare(path, read, architecture)
    record = read.get(_RECORD, {})
    causal = record.get("causal", True) if isinstance(record, dict) else None
    if not isinstance(causal, bool):
        raise InputError(
            f'{path}: "{_RECORD}" is {_shown(record)}, not {{"causal": true or false}}'
        )

    path = folder / _WEIGHTS
    tensors = read_tensors(path)
    if len(tensors) < config.layers:
        raise InputError(f"{path} has {len(tensors)} tensors, too few for {config.layers} layers")
    with unfilled():
        model = GPT(config, vocabulary=vocabulary, causal=causal)
    shapes = {name: shape for name, _, shape in architecture.views(model)}
    for name in [*shapes, *sorted(tensors)]:
        if name not in tensors:
            raise InputError(f"{path} lacks {name}; {architecture.name} has it")
        if name not in shapes:
            raise InputError(
                f"{path} has {_shown(name)}, which our {architecture.name} does not have"
            )
        tensor, right = tensors[name], list(shapes[name])
        if list(tensor.shape) != right or not tensor.is_floating_point():
            raise InputError(
                f"{path}: {name} is {list(tensor.shape)} of {tensor.dtype}, not {right} of floats"
            )
    model.to_empty(device="cpu")
    for name, view, _ in architecture.views(model):
        view.copy_(tensors[name].reshape(view.shape))
    if model.rope is not None:
        model.rope = rope_table(config.context)  # not a parameter, so not in the file
    return model


def read_config(path: Path) -> dict[str, Any]:
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not the config of a model: it is not JSON") from None
    if not isinstance(read, dict):
        raise InputError(f"{path} is not the config of a model: it needs to be a JSON object")
    return read


def read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (SafetensorError, KeyError, ValueError, RuntimeError):
        raise InputError(f"{path} is truncated, or not of the safetensors format") from None


def _compare(path: Path, read: dict[str, Any], architecture: Architecture) -> tuple[GPTConfig, int]:
    """The shape and vocabulary that a config describes; refused if its settings are not ours."""
    sizes: dict[str, int] = {}
    for ours, theirs in architecture.sizes.items():
        size = read.get(theirs)
        if type(size) is not int or not 1 <= size <= _MAX_SIZE:
            raise InputError(
                f'{path}: "{theirs}" is {_shown(size)}, not a number from 1 to {_MAX_SIZE}'
            )
        sizes[ours] = size
    vocabulary, width = sizes.pop("vocabulary"), sizes.pop("width")
    config = GPTConfig(
        layers=sizes["layers"],
        heads=sizes["heads"],
        context=sizes["context"],
        positions=architecture.positions,
    )
    if width != config.width:
        raise InputError(
            f'{path}: "{architecture.sizes["width"]}" is {width}, not {config.width}:'
            f" a head is {HEAD_DIM} wide, and there are {config.heads}"
        )
    right = dict(_settings(architecture.content(config, vocabulary)))
    given = list(_settings(read))
    absent = {**architecture.absent}
    for field, _ in given:
        absent.pop(field, None)
    for field, value in [*given, *absent.items()]:
        if (value, right.get(field, value)) == ("gelu_new", GELU):
            continue  # the same function, computed step by step
        if value != right.get(field, value):
            raise InputError(f'{path}: "{field}" is {_shown(value)}, not {_shown(right[field])}')
    return config, vocabulary


def _settings(config: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """The settings of a config under the names of transformers 4; 5 groups the rotary ones."""
    for field, value in config.items():
        together = field in ("rope_parameters", "rope_scaling") and isinstance(value, dict)
        for name, setting in value.items() if together else [(field, value)]:
            if setting is not None:  # null means absent
                yield _RENAMED.get(name, name), setting


def _shown(value: Any) -> str:
    return json.dumps(value)[:80]
