"""How probable given text is to a model, every token after the true ones before it."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..models.language import LanguageModel
from ..progress import Advance, no_progress
from .prompts import TextPrompts

TOKENS = 1 << 15  # that are scored together


class Scores(NamedTuple):
    """Of the second token of each sequence and those after it, [sequences, tokens - 1]."""

    logs: NDArray[np.float64]  # log-probabilities, in nats
    right: NDArray[np.bool_]  # is it the likeliest?


@torch.no_grad()
def score(model: LanguageModel, ids: Tensor, advance: Advance = no_progress) -> Scores:
    """Score sequences of equal length, [sequences, tokens]; a GPT reads no more than its context.

    The first token of a sequence has nothing before it, and models differ in what they make of
    that: it is not scored.
    """
    nothing = np.zeros((0, ids.shape[1] - 1))
    parts = [Scores(nothing, nothing > 0)]
    batch = max(1, TOKENS // ids.shape[1])
    for first in range(0, len(ids), batch):
        some = ids[first : first + batch]
        parts.append(_score(model, some))
        advance(len(some))
    logs, right = map(np.concatenate, zip(*parts, strict=True))
    return Scores(logs, right)


def nats_and_words(
    model: LanguageModel, prompts: TextPrompts
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """What follows each prompt in nats, every token given the true ones, and in words."""
    parts = []
    for _, batch in prompts.batches():
        nats = torch.zeros(len(batch), dtype=torch.float64)
        reading = model.read(batch)
        for tokens in batch.following.T:
            logs = reading.log_probabilities().cpu().double()
            nats -= logs.gather(1, tokens[:, None])[:, 0]
            reading.append(tokens)
        parts.append(nats.numpy())
    words = prompts.tokenizer.words_ended[prompts.following.numpy()].sum(1)
    return np.concatenate(parts), words


def _score(model: LanguageModel, ids: Tensor) -> Scores:
    logits = model.predict_next(ids[:, :-1]).float()
    tokens = ids[:, 1:].to(logits.device)
    chosen = logits.gather(-1, tokens[..., None])[..., 0]
    logs = (chosen - logits.logsumexp(-1)).double()
    right = logits.argmax(-1) == tokens
    return Scores(logs.cpu().numpy(), right.cpu().numpy())
