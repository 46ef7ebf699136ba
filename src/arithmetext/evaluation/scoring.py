"""The probability of given text, each token predicted from the true tokens before it."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..models.language import LanguageModel
from ..progress import Advance, no_progress, progress
from .prompts import TextPrompts

BATCH_TOKENS = 1 << 15  # tokens scored together


class TokenScores(NamedTuple):
    """Scores of all tokens but the first of each sequence, [sequences, tokens - 1]."""

    logs: NDArray[np.float64]  # log-probabilities, in nats
    right: NDArray[np.bool_]  # whether the token is the likeliest


@torch.no_grad()
def score(model: LanguageModel, ids: Tensor, advance: Advance = no_progress) -> TokenScores:
    """Score sequences of equal length, [sequences, tokens], no longer than a GPT's context.

    The first token is not scored: it has no token before it, and models treat that differently.
    """
    none = np.zeros((0, ids.shape[1] - 1))
    parts = [TokenScores(none, none > 0)]
    batch = max(1, BATCH_TOKENS // ids.shape[1])
    for first in range(0, len(ids), batch):
        part = ids[first : first + batch]
        parts.append(_score(model, part))
        advance(len(part))
    logs, right = map(np.concatenate, zip(*parts, strict=True))
    return TokenScores(logs, right)


def nats_and_words(
    model: LanguageModel, prompts: TextPrompts
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The nats of each token that follows a prompt, [prompts, tokens], and the words that end.

    Each token is predicted from all true tokens before it. The words are counted, [prompts].
    """
    nats = np.zeros(prompts.following.shape, np.float32)
    with progress("scoring", nats.size, "tokens") as advance:
        for first, batch in prompts.batches():
            reading = model.read(batch)
            for i, tokens in enumerate(batch.following.T):
                logs = reading.log_probabilities().cpu().gather(1, tokens[:, None])[:, 0]
                nats[first : first + len(batch), i] = -logs.numpy()
                reading.append(tokens)
                advance(len(batch))
    words = prompts.tokenizer.words_ended[prompts.following.numpy()].sum(1)
    return nats, words


def _score(model: LanguageModel, ids: Tensor) -> TokenScores:
    logits = model.predict_next(ids[:, :-1]).float()
    tokens = ids[:, 1:].to(logits.device)
    chosen = logits.gather(-1, tokens[..., None])[..., 0]
    logs = (chosen - logits.logsumexp(-1)).double()
    right = logits.argmax(-1) == tokens
    return TokenScores(logs.cpu().numpy(), right.cpu().numpy())
