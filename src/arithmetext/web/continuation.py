"""What a model writes after n, word by word, and where its attention goes; the work of `model`.

Importing this file imports torch, so `model` imports it only when a model is asked for.
"""

import math
import os
from collections import OrderedDict
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..evaluation.attention import begins
from ..evaluation.generation import MOST_TOKENS_PER_WORD, sample_tokens
from ..evaluation.prompts import TextPrompts, before
from ..evaluation.subjects import EvaluatedModel, subject
from ..models.language import Reading
from ..text.sieve import words
from ..tokens.spelling import read
from ..tokens.windows import integers_for
from ..trees import unpack
from .streams import Line

WORDS_BEFORE = 20  # true words before n that are shown
ALTERNATIVES = 4  # other tokens that are shown for each token
MOST_MODELS = 2  # kept in memory


@dataclass
class _Entry:
    """A model in memory. The lock is held while it is loaded and while it reads a token."""

    lock: Lock = field(default_factory=Lock)
    loaded: EvaluatedModel | None = None


_entries: OrderedDict[tuple[str, int], _Entry] = OrderedDict()
_entries_lock = Lock()


def load(source: str, at: int) -> tuple[EvaluatedModel, Lock]:
    """The model that `evaluation.subjects` knows by this name; the last few stay in memory."""
    key = source, _changed(source)
    with _entries_lock:
        entry = _entries.setdefault(key, _Entry())
        _entries.move_to_end(key)
        while len(_entries) > MOST_MODELS:
            _entries.popitem(last=False)
    with entry.lock:
        _leave_a_core()
        if entry.loaded is None or entry.loaded.model.at not in (None, at):
            entry.loaded = subject(source, at)
        return entry.loaded, entry.lock


def _changed(source: str) -> int:
    """When the folder of a run or of a model was last written to; 0 for other models."""
    for config in Path(source, "model", "config.json"), Path(source, "config.json"):
        if config.exists():
            return config.stat().st_mtime_ns
    return 0


@cache
def _leave_a_core() -> None:
    """Let torch leave a core for other readers."""
    torch.set_num_threads(max(1, min(torch.get_num_threads(), (os.cpu_count() or 1) - 1)))


def continuation(
    source: str, at: int, count: int, *, beta: float, seed: int
) -> Generator[Line, None, None]:
    """A line about the model, a line for each word, and a last line with the number of right ones.

    After a token that does not end a word there is a line with the letters of this word so far.
    """
    model, lock = load(source, at)
    prompt = _prompt(model, at)
    true = words(at, at + count, threads=1).tolist()
    yield _about(model, prompt, at, count)
    with lock:
        reading = _Recorded(model.model.read(prompt))
    sampled = sample_tokens(reading, beta=beta, seed=seed)
    vocabulary = model.tokenizer.vocabulary
    [text] = prompt.begun()  # the letters of the word that is not finished
    pieces: list[Line] = []  # the tokens that hold a piece of it
    n = int(prompt.integers[0])  # its integer; words before `at` are written, but not shown
    written = right = 0
    for _ in range(MOST_TOKENS_PER_WORD * (at + count - n)):
        with lock:
            token = int(next(sampled))
        pieces.append(_choice(vocabulary, reading.logs[0], token))
        text += vocabulary[token]
        *ended, text = text.split(" ")
        for letters in ended:
            if n >= at:
                line = _word(n, true[n - at], letters, pieces)
                written, right = written + 1, right + line["right"]
                yield line
            n, pieces = n + 1, pieces[-1:]
            if written == count:
                break
        if written == count:
            break
        if text:
            yield {"begun": text}
        else:
            pieces = []
    yield {"words": written, "right": right}


def _prompt(model: EvaluatedModel, at: int) -> TextPrompts:
    """The tokens before the word of `at`."""
    least = 2 + integers_for(model.tokenizer, model.context)
    if at < least:
        raise InputError(
            f"this model reads {model.context} tokens before n, so n must be at least {least}"
        )
    return before(model.tokenizer, at, length=model.context)


class _Recorded:
    """A reading that keeps the probabilities of its last token."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.logs = torch.empty(0)

    def log_probabilities(self) -> Tensor:
        self.logs = self.reading.log_probabilities()
        return self.logs

    def append(self, tokens: Tensor) -> None:
        self.reading.append(tokens)


def _about(model: EvaluatedModel, prompt: TextPrompts, at: int, count: int) -> Line:
    first = max(2, at - WORDS_BEFORE)
    heads = model.model.heads
    return {
        "model": model.description,
        # A model that is valid only near n knows n itself, and does not read the tokens before it.
        "context": model.context if model.model.at is None else None,
        "at": str(at),
        "trained": model.trained_on(at, at + count),
        "before": [
            {"n": str(n), "word": unpack(word)}
            for n, word in enumerate(words(first, at, threads=1).tolist(), first)
        ],
        "dropped": at - int(prompt.integers[0]),
        "attention": heads and dict(zip(("layers", "heads"), heads, strict=True)),
    }


def _choice(vocabulary: Sequence[str], logs: Tensor, token: int) -> Line:
    """A token, its probability, and the likeliest other tokens. logs: [vocabulary]."""
    logs = logs[: len(vocabulary)].double().cpu()
    likeliest = logs.topk(min(ALTERNATIVES + 1, len(logs))).indices.tolist()
    others = [other for other in likeliest if other != token][:ALTERNATIVES]
    return _token(vocabulary, logs, token) | {
        "others": [_token(vocabulary, logs, other) for other in others]
    }


def _token(vocabulary: Sequence[str], logs: Tensor, token: int) -> dict[str, Any]:
    return {"token": vocabulary[token], "probability": math.exp(logs[token])}


def _word(n: int, truth: int, letters: str, pieces: Sequence[Line]) -> dict[str, Any]:
    predicted = int(read(f"{letters} ", inside=False).words[0])
    return {
        "n": str(n),
        "truth": unpack(truth),
        "prediction": unpack(predicted) if predicted else None,
        "written": letters,
        "right": predicted == truth,
        "probability": math.prod(piece["probability"] for piece in pieces),
        "tokens": list(pieces),
    }


def attention(source: str, at: int, layer: int | None, head: int) -> Line:
    """How the last token of the prompt before `at` attends to the tokens of the prompt.

    Layers and heads are numbered from 1; the last layer is the default. Distances are counted from
    the integer whose word comes next.
    """
    loaded, lock = load(source, at)
    model = loaded.model
    if model.heads is None:
        raise InputError(f"this model has no attention: {model.description}")
    layer = layer or model.heads[0]
    sizes = ("layer", layer, model.heads[0]), ("head", head, model.heads[1])
    for name, value, most in sizes:
        if value > most:
            raise InputError(f"{name} must be from 1 to {most} for this model, not {value}")
    prompt = _prompt(loaded, at)
    with lock:
        pattern = model.attention(prompt.ids[0], layer - 1)[0, head - 1, -1]
    weights = pattern.double().cpu().numpy()
    ids, n = prompt.ids[0].numpy(), int(prompt.integers[0])
    ended = int(loaded.tokenizer.words_ended[ids].sum())
    return {
        "layer": layer,
        "head": head,
        "n": str(n),
        "distances": (ended - begins(loaded.tokenizer, ids)).tolist(),
        "tokens": [loaded.tokenizer.vocabulary[token] for token in ids],
        "weights": np.round(weights, 8).tolist(),
    }
