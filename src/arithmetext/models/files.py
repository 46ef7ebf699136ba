"""Save and load a trained model and its tokenizer.

A GPT is written in the Hugging Face format. Hugging Face has no HMM: the config of an HMM has the
"model_type" hmm, and its tensors have the names of our parameters.
"""

import json
from dataclasses import asdict
from pathlib import Path

from safetensors import torch as safetensors

from ..errors import InputError
from ..files import make_folder, whole_file, write_whole
from ..tokens import Tokenizer
from ..tokens import load as load_tokenizer
from .gpt import GPT
from .hmm import HMM, HMMConfig
from .hugging_face import ARCHITECTURES, load_pretrained, read_config, read_tensors, save_pretrained
from .language import TrainableModel
from .unfilled import unfilled

CONFIG, WEIGHTS, TOKENIZER = "config.json", "model.safetensors", "tokenizer.json"

# A trained model that comes with the package; its README.md says how it was made.
PRETRAINED = Path(__file__).parent / "pretrained"


def save(model: TrainableModel, tokenizer: Tokenizer, folder: Path) -> None:
    """Write the files that `load` reads; the config comes last."""
    if isinstance(model, GPT):
        save_pretrained(model, tokenizer, folder)
        return
    _check_sizes(model, tokenizer, folder)
    make_folder(folder)
    tokenizer.save(folder / TOKENIZER)
    tensors = {name: p.detach().cpu().contiguous() for name, p in model.named_parameters()}
    with whole_file(folder / WEIGHTS) as draft:
        draft.write_bytes(safetensors.save(tensors))
    config = {"model_type": "hmm"} | asdict(model.config)
    write_whole(folder / CONFIG, json.dumps(config, indent=1) + "\n")


def load(folder: Path) -> tuple[TrainableModel, Tokenizer]:
    """Read what `save` has written."""
    path, kinds = folder / CONFIG, ["hmm", *ARCHITECTURES]
    if not path.exists():
        raise InputError(f"{folder} holds no model: it has no {CONFIG}")
    kind = read_config(path).get("model_type")
    if kind not in kinds:
        raise InputError(
            f'{folder} holds no model: its {CONFIG} must have the "model_type" {" or ".join(kinds)}'
        )
    model: TrainableModel = _load_hmm(folder) if kind == "hmm" else load_pretrained(folder)
    tokenizer = load_tokenizer(folder / TOKENIZER)
    _check_sizes(model, tokenizer, folder)
    return model, tokenizer


def _check_sizes(model: TrainableModel, tokenizer: Tokenizer, folder: Path) -> None:
    if model.vocabulary != tokenizer.size + (not model.causal):  # [MASK] is one more
        raise InputError(
            f"{folder}: a model of {model.vocabulary} tokens does not go with a tokenizer of"
            f" {tokenizer.size}"
        )


def _load_hmm(folder: Path) -> HMM:
    settings = read_config(folder / CONFIG)
    tensors = read_tensors(folder / WEIGHTS)
    del settings["model_type"]
    try:
        with unfilled():
            model = HMM(HMMConfig(**settings), vocabulary=tensors["emission"].shape[1])
        model.load_state_dict(tensors, assign=True)
    except (KeyError, IndexError, TypeError, RuntimeError):
        raise InputError(f"{folder}: {CONFIG} and {WEIGHTS} do not make an HMM together") from None
    return model.float()
