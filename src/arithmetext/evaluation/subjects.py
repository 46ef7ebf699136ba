"""The models that can be evaluated: trained models, by folder, and models without training."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..errors import InputError
from ..models import files
from ..models.hugging_face import read_config
from ..models.language import LanguageModel
from ..models.locator import Locator
from ..models.names import baseline, check_name
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
    surrogate: int | None = None  # the seed of the surrogate text that it was trained on

    @property
    def description(self) -> str:
        """The kind of model and its size, and for a model of surrogate text, which text."""
        if self.surrogate is None:
            return self.model.description
        return (
            f"{self.model.description}, trained on surrogate text {self.surrogate} and tested on"
            " the real text"
        )

    def trained_on(self, lo: int, hi: int) -> bool:
        """Whether the model was trained on some of the real text of lo ≤ n < hi."""
        return self.surrogate is None and any(lo < b and a < hi for a, b in self.trained)

    def windows(self, at: int, *, number: int, seed: int) -> Tensor:
        """Random windows of the text near `at`, as long as the context: [number, context]."""
        window, length = unseen(at, self.seen), self.context
        return draw(
            self.tokenizer, window, number=number, length=length, following=0, seed=seed
        ).ids


def subject(name: str, at: int) -> EvaluatedModel:
    """The model with this name: a run's folder, or one that `nt evaluate --help` lists.

    A folder named like a model without a folder takes precedence. An oracle answers only for the
    2^20 integers from `at` on.
    """
    check_name(name)
    found = baseline(name)
    if found is None:
        folder = Path(name)
        return _trained(folder if folder.is_dir() else files.PACKAGED[name], name)
    kind, number = found
    if kind == "locator":
        bpe = BPE.train(256)
        return EvaluatedModel(name, Locator(bpe), bpe, DEFAULT_CONTEXT, (), ())
    words = WordTokens.commonest(256)
    if kind == "ngram":
        train = splits(TRAINED_TO).train
        ngram = NGram.count(number, tokens=words)
        return EvaluatedModel(name, ngram, words, DEFAULT_CONTEXT, train, train)
    oracle = Oracle.estimate(number, at, tokens=words)
    return EvaluatedModel(name, oracle, words, DEFAULT_CONTEXT, (), ())


def _trained(folder: Path, name: str) -> EvaluatedModel:
    """The model in a run's folder, or in a model folder.

    A model folder outside a run does not record its training ranges, so the paper's are assumed.
    """
    begun, way_out = _is_run(folder), f"nt train --resume --out {folder}"
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
    config = Config.load(run) if named else None
    text = config.text if config else splits(TRAINED_TO)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ready = model.for_inference(device)
    context, surrogate = model.config.context, config.surrogate if config else None
    return EvaluatedModel(name, ready, tokenizer, context, text.train, text.seen, surrogate)


def _is_run(folder: Path) -> bool:
    """Whether `nt train` has begun a run in this folder."""
    if (folder / "checkpoints").exists():
        return True
    config = folder / "config.json"  # a model's folder has one too
    return config.exists() and "training" in read_config(config)
