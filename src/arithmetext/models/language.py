"""The interface of every model of the text: generation and metrics use nothing else.

`read(prompts)` returns a `Reading`, which gives the probabilities of the next token and reads on,
token by token. Each model keeps its own state (a KV cache, a filtered state, a position in the
text). Callers read capabilities from attributes and never test the class.
"""

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import InputError
from .config import GPTConfig, HMMConfig, LongConvConfig, PhasesConfig

if TYPE_CHECKING:
    from .patching import PatchedWindow


@dataclass(frozen=True)
class Prompts:
    """Prompts of equal length, and their positions in the text.

    Only the oracle uses the integers; every other model ignores them.
    """

    ids: Tensor  # [prompts, tokens]
    # [prompts]: the integer whose word is the first to end after the prompt
    integers: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.ids)


class Reading(Protocol):
    """Prompts that have been read up to some token."""

    def log_probabilities(self) -> Tensor:
        """Natural logarithms for the next token, [prompts, vocabulary]; on any device."""

    def append(self, tokens: Tensor) -> None:
        """Read one more token of each prompt, [prompts]."""


class LanguageModel(ABC):
    """A model of the text, trained or not."""

    vocabulary: int  # number of token ids that the model predicts
    causal = True  # predicts the next token; otherwise it predicts masked tokens
    windowed = False  # sees only the last tokens of what it reads, so that `stride` matters
    deterministic = False  # is certain of the next token, so that a temperature changes nothing
    can_score = True  # gives likelihoods of any sequence, whether or not it is in the text
    heads: tuple[int, int] | None = None  # layers and heads per layer, if it has attention
    at: int | None = None  # the model is valid just after this integer; None: everywhere

    @property
    @abstractmethod
    def description(self) -> str:
        """The kind of model and its size, in words."""

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def parameter_count(self) -> int:
        """Number of trained parameters."""
        return 0

    @abstractmethod
    def read(self, prompts: Prompts, *, stride: int = 1) -> Reading:
        """Read prompts of any length.

        A windowed model drops the oldest `stride` tokens whenever its window is full.
        """

    def predict_next(self, ids: Tensor) -> Tensor:
        """Logits of the token after each token.

        ids: [sequences, tokens]; result: [sequences, tokens, vocabulary].
        """
        reading = self.read(Prompts(ids[:, :1]))
        logs = [reading.log_probabilities()]
        for tokens in ids.T[1:]:
            reading.append(tokens)
            logs.append(reading.log_probabilities())
        return torch.stack(logs, 1)

    def predict_masked(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Logits of the tokens at masked positions.

        ids: [windows, tokens]; positions: [windows, masked]; result: [windows, masked, vocabulary].
        """
        raise InputError("a model of next tokens does not predict masked ones")

    def attention(self, ids: Tensor, layer: int | None = None) -> Tensor:
        """Attention weights while the model reads one window, in all layers or in one.

        ids: [tokens]; result: [layers, heads, tokens, tokens].
        """
        raise InputError(f"{self.description}: this model has no attention")

    def head_outputs(self, ids: Tensor) -> Tensor:
        """What each attention head writes, before the layer's output matrix.

        ids: [windows, tokens]; result: [layers, windows, tokens, heads, width of a head].
        """
        raise InputError(f"{self.description}: this model has no attention")

    def without_head(self, layer: int, head: int, instead: Tensor) -> AbstractContextManager[None]:
        """While the `with` block runs, a head writes the same at every position.

        instead: [width of a head].
        """
        raise InputError(f"{self.description}: this model has no attention")

    def residual_stream(self, ids: Tensor) -> Tensor:
        """The residual stream while the model reads windows: its input and after each block.

        ids: [windows, tokens]; result: [layers + 1, windows, tokens, width].
        """
        raise InputError(f"{self.description}: this model has no residual stream")

    def patched(self, ids: Tensor) -> "PatchedWindow":
        """A window, [tokens], whose residual stream can be changed at single positions."""
        raise InputError(f"{self.description}: this model has no residual stream")

    def finish(self, x: Tensor, layer: int) -> Tensor:
        """Logits if the residual stream of whole windows is x after `layer` blocks.

        x: [windows, tokens, width]; result: [windows, tokens, vocabulary].
        """
        raise InputError(f"{self.description}: this model has no residual stream")

    def with_initial_weights(self, seed: int) -> "LanguageModel":
        """A model of the same shape that was not trained."""
        raise InputError(f"{self.description}: this model has no residual stream")


class TrainableModel(nn.Module, LanguageModel):
    """A model that `training` can train. Its forward pass computes logits."""

    config: GPTConfig | HMMConfig | LongConvConfig | PhasesConfig
    compiles = True  # `torch.compile` makes training on a GPU faster
    precision: Literal["bfloat16", "float32"] = "bfloat16"  # the lowest that the model can use

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    @property
    def parameter_count(self) -> int:
        return sum(p.numel() for p in self.parameters())

    def predict_next(self, ids: Tensor) -> Tensor:
        logits: Tensor = self(ids.to(self.device))
        return logits

    @abstractmethod
    def loss(self, inputs: Tensor, targets: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Mean loss in nats per target token.

        inputs: [windows, tokens]; targets: [windows, targets]; chosen: [windows, targets], the
        positions of the targets, or None if each input has one.
        """

    @abstractmethod
    def training_logits(self, inputs: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Logits computed the way the training loss computes them, [windows, targets, vocabulary].

        Validation uses them, so that the lowest validation loss marks the best training.
        """

    def flops_per_token(self, length: int) -> int | None:
        """Floating-point operations to train on one token of a window; None if not counted."""
        return None

    def for_inference(self, device: torch.device) -> Self:
        """The model on a device, ready for use: in bfloat16 if both device and model allow it."""
        half = device.type == "cuda" and torch.cuda.is_bf16_supported(False)
        half &= self.precision == "bfloat16"
        return self.to(device, torch.bfloat16 if half else torch.float32).eval()
