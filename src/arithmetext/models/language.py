"""What every model of the text offers, so that generation and metrics are shared.

A model reads prompts; the `Reading` it returns says what may come next and reads on, token by
token. What is remembered in between (a window, a filtered state, a place in the text) is the
model's own affair. GPT and HMM are made of torch; n-grams, the oracle and the locator are not, but
answer with tensors too.
"""

from typing import Protocol

from torch import Tensor


class Reading(Protocol):
    """Prompts that have been read up to some token."""

    def log_probabilities(self) -> Tensor:
        """Of every token to come next, [prompts, vocabulary], in nats; on the CPU or a card."""

    def append(self, tokens: Tensor) -> None:
        """Read one more token of each prompt, [prompts]."""


class LanguageModel(Protocol):
    """Anything that reads prompts of equal length, [prompts, tokens]."""

    def read(self, prompts: Tensor) -> Reading: ...
