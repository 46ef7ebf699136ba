"""The models that can be evaluated: trained models, by folder, and models without training."""

import re
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..errors import InputError
from ..models import files
from ..models.language import LanguageModel
from ..models.locator import Locator
from ..models.ngram import NGram
from ..models.oracle import Oracle
from ..text.splits import TRAINED_TO, Range, splits, unseen
from ..tokens import BPE, Tokenizer, WordTokens
from ..training.config import Config
from .prompts import draw

DEFAULT_CONTEXT = 1024  # the paper's L, for models without a context length of their own


@dataclass(frozen=True)
class EvaluatedModel:
    """A model to evaluate, with its tokenizer and its training ranges."""

    name: str
    model: LanguageModel
    tokenizer: Tokenizer
    context: int  # L, the tokens of a prompt
    trained: tuple[Range, ...]  # ranges that the model was trained on
    seen: tuple[Range, ...]  # training and validation ranges, which evaluation must avoid

    def windows(self, at: int, *, number: int, seed: int) -> Tensor:
        """Random windows of the text near `at`, as long as the context: [number, context]."""
        window, length = unseen(at, self.seen), self.context
        return draw(
            self.tokenizer, window, number=number, length=length, following=0, seed=seed
        ).ids


def subject(name: str, at: int) -> EvaluatedModel:
    """The model with this name: a run's folder, or one that `nt evaluate --help` lists.

    A folder with the name of another model comes first. An oracle answers only for the 2^20
    integers from `at` on.
    """
    folder = Path(name)
    if folder.is_dir():
        return _trained(folder, name)
    if name in files.PACKAGED:
        return _trained(files.PACKAGED[name], name)
    match = re.fullmatch(r"(locator|ngram|oracle)(?:-(\d{1,6}))?", name)
    if match is None or (match[1] == "locator") != (match[2] is None):
        raise InputError(
            f"there is no folder {name}; models without a folder are: {', '.join(files.PACKAGED)},"
            " locator, ngram-K and oracle-B, such as ngram-8 and oracle-13"
        )
    if match[1] == "locator":
        bpe = BPE.train(256)
        return EvaluatedModel(name, Locator(bpe), bpe, DEFAULT_CONTEXT, (), ())
    words, number = WordTokens.commonest(256), int(match[2])
    if match[1] == "ngram":
        train = splits(TRAINED_TO).train
        ngram = NGram.count(number, tokens=words)
        return EvaluatedModel(name, ngram, words, DEFAULT_CONTEXT, train, train)
    oracle = Oracle.estimate(number, at, tokens=words)
    return EvaluatedModel(name, oracle, words, DEFAULT_CONTEXT, (), ())


def _trained(folder: Path, name: str) -> EvaluatedModel:
    """The model in a run's folder, or in a model folder.

    A model folder outside a run does not record its training ranges, so the paper's are assumed.
    """
    begun, way_out = (folder / "checkpoints").exists(), f"nt train --resume --out {folder}"
    if begun and not (folder / "model").exists():
        raise InputError(
            f"{folder} has no model: its run is not finished, or the model was removed;"
            f" {way_out} continues the run or writes the model again"
        )
    inside = folder / "model" if (folder / "model").exists() else folder
    try:
        model, tokenizer = files.load(inside)
    except InputError as error:
        raise InputError(f"{error}; {way_out} writes it again" if begun else str(error)) from None
    run = inside.absolute().parent / "config.json"
    named = inside.absolute().name == "model" and run.exists()
    text = Config.load(run).text if named else splits(TRAINED_TO)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ready = model.for_inference(device)
    context = model.config.context
    return EvaluatedModel(name, ready, tokenizer, context, text.train, text.seen)
