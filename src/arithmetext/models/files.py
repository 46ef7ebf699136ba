"""Save and load a trained model and its tokenizer.

A GPT is written in the Hugging Face format, which has no HMM, no long convolutions and no phases:
their config has the "model_type" hmm, longconv or phases, and their tensors have the names of our
parameters. `arithmetext.transformers` teaches transformers to load the latter two.
"""

import json
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import torch as safetensors

from ..errors import InputError
from ..files import make_folder, whole_file, write_whole
from ..tokens import Tokenizer
from ..tokens import load as load_tokenizer
from .config import PACKAGED as PACKAGED
from .config import HMMConfig, LongConvConfig, PhasesConfig
from .gpt import GPT
from .hugging_face import ARCHITECTURES, load_pretrained, read_config, read_tensors, save_pretrained
from .language import TrainableModel
from .unfilled import unfilled

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"

# The models that Hugging Face does not have, by "model_type".
OURS: dict[str, type[HMMConfig] | type[LongConvConfig] | type[PhasesConfig]] = {
    "hmm": HMMConfig,
    "longconv": LongConvConfig,
    "phases": PhasesConfig,
}

PRETRAINED, LONGCONV, RECORD = PACKAGED.values()


def save(
    model: TrainableModel, tokenizer: Tokenizer, folder: Path, *, dtype: torch.dtype = torch.float32
) -> None:
    """Write the files that `load` reads; the config comes last."""
    if isinstance(model, GPT):
        save_pretrained(model, tokenizer, folder, dtype=dtype)
        return
    _check_sizes(model, tokenizer, folder)
    make_folder(folder)
    tokenizer.save_pretrained(folder, context=model.config.context)
    parameters = model.named_parameters()
    tensors = {name: p.detach().to("cpu", dtype).contiguous() for name, p in parameters}
    with whole_file(folder / WEIGHTS) as draft:
        draft.write_bytes(safetensors.save(tensors, {"format": "pt"}))
    [kind] = (name for name, config in OURS.items() if type(model.config) is config)
    content = {"model_type": kind, "vocab_size": model.vocabulary} | asdict(model.config)
    write_whole(folder / CONFIG, json.dumps(content, indent=1) + "\n")


def load(folder: Path) -> tuple[TrainableModel, Tokenizer]:
    """Read what `save` has written."""
    path, kinds = folder / CONFIG, [*OURS, *ARCHITECTURES]
    if not path.exists():
        raise InputError(f"{folder} holds no model: it has no {CONFIG}")
    kind = read_config(path).get("model_type")
    if kind not in kinds:
        raise InputError(
            f'{folder} holds no model: its {CONFIG} must have the "model_type" {" or ".join(kinds)}'
        )
    model = _load(folder, str(kind)) if kind in OURS else load_pretrained(folder)
    tokenizer = load_tokenizer(folder / TOKENIZER)
    _check_sizes(model, tokenizer, folder)
    return model, tokenizer


def _check_sizes(model: TrainableModel, tokenizer: Tokenizer, folder: Path) -> None:
    if model.vocabulary != tokenizer.size + (not model.causal):  # [MASK] is one more
        raise InputError(
            f"{folder}: a model of {model.vocabulary} tokens does not go with a tokenizer of"
            f" {tokenizer.size}"
        )


def _load(folder: Path, kind: str) -> TrainableModel:
    settings = read_config(folder / CONFIG)
    tensors = read_tensors(folder / WEIGHTS)
    del settings["model_type"]
    try:
        vocabulary = settings.pop("vocab_size")
        with unfilled():
            model = OURS[kind](**settings).build(vocabulary, "ntp")
        model.load_state_dict(tensors, assign=True)
    except (KeyError, IndexError, TypeError, RuntimeError):
        raise InputError(
            f"{folder}: {CONFIG} and {WEIGHTS} do not make a model of kind {kind} together"
        ) from None
    return model.float()
