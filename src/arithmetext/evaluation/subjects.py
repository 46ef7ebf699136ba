"""What can be measured: a trained model, by its folder, or a model that needs no training."""

import re
from dataclasses import dataclass
from pathlib import Path

import torch

from ..errors import InputError
from ..models import files
from ..models.language import LanguageModel
from ..models.locator import Locator
from ..models.ngram import NGram
from ..models.oracle import Oracle
from ..text.splits import TRAINED_TO, Range, splits
from ..tokens import BPE, Tokenizer, WordTokens
from ..training.config import Config

CONTEXT = 1024  # the paper's L, for models that have no own


@dataclass(frozen=True)
class Subject:
    """A model, and what has to be known of it to measure it."""

    name: str
    model: LanguageModel
    tokenizer: Tokenizer
    context: int  # L: the tokens of a prompt
    trained: tuple[Range, ...]  # what it has seen, not to be measured on


def subject(name: str, at: int) -> Subject:
    """A run's folder, or locator, ngram-K or oracle-B; `at` is the scale the oracle knows."""
    folder = Path(name)
    if folder.is_dir():
        return _trained(folder)
    known = re.fullmatch(r"(locator|ngram|oracle)(?:-(\d{1,6}))?", name)
    if known is None or (known[1] == "locator") != (known[2] is None):
        raise InputError(
            f"there is no folder {name}; without training there are: locator, ngram-K, oracle-B,"
            " such as ngram-8 and oracle-13"
        )
    if known[1] == "locator":
        bpe = BPE.train(256)
        return Subject(name, Locator(bpe), bpe, CONTEXT, ())
    words, number = WordTokens.commonest(256), int(known[2])
    if known[1] == "ngram":
        train = splits(TRAINED_TO).train
        return Subject(name, NGram.count(number, tokens=words), words, CONTEXT, train)
    return Subject(name, Oracle.estimate(number, at, tokens=words), words, CONTEXT, ())


def _trained(folder: Path) -> Subject:
    """A run's folder, the model in it, or a model by itself, taken to know the paper's text."""
    begun, way_out = (folder / "checkpoints").exists(), f"nt train --resume --out {folder}"
    if begun and not (folder / "model").exists():
        raise InputError(
            f"{folder} has no model: its run is not finished, or the model was removed;"
            f" {way_out} goes on or writes it again"
        )
    inside = folder / "model" if (folder / "model").exists() else folder
    try:
        model, tokenizer = files.load(inside)
    except InputError as error:
        raise InputError(f"{error}; {way_out} writes it again" if begun else str(error)) from None
    run = inside.absolute().parent / "config.json"
    named = inside.absolute().name == "model" and run.exists()
    trained = Config.load(run).text if named else splits(TRAINED_TO)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ready = model.for_inference(device)
    return Subject(str(folder), ready, tokenizer, model.config.context, trained.train)
