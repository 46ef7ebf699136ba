"""The shapes of the trained models. Nothing imports torch, so `nt recipes` starts fast."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..errors import InputError

if TYPE_CHECKING:
    from .gpt import GPT
    from .hmm import HMM
    from .longconv import LongConv
    from .phases import Phases

HEAD_DIM = 64  # the width of an attention head

# These are for models that track n modulo prime powers.
KNOTS = 12  # points at which the smooth weights of primes are given
AVERAGES = 8  # numbers that are averaged over the text, in each layer

# The trained models that come with the package, by name; their README.md says how they were made.
PACKAGED = {
    "pretrained": Path(__file__).parent / "pretrained",
    "longconv": Path(__file__).parent / "pretrained_longconv",
    "record": Path(__file__).parent / "pretrained_record",
}


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """The shape of a GPT; a model of size ρ in the paper has 12ρ layers of 12ρ heads."""

    layers: int = 12
    heads: int = 12
    context: int = 1024  # L, the most tokens that the model sees at once
    positions: Literal["learned", "rotary"] = "learned"
    attention: Literal["on", "off"] = "on"  # off: attention adds nothing (a control)

    # A class attribute without a type is no setting.
    kind = "GPT"
    sizes = ("layers", "heads")  # the settings that must be 1 or more
    tasks = ("ntp", "mlm")
    tokenizers = ("bpe", "words")
    optimizers = ("adamw", "muon")

    @property
    def width(self) -> int:
        return self.heads * HEAD_DIM

    @property
    def description(self) -> str:
        without = "" if self.attention == "on" else ", without attention"
        layers = "1 layer" if self.layers == 1 else f"{self.layers} layers"
        return f"{layers}, width {self.width}, {self.positions} positions{without}"

    def matrix_weights(self, tokens: int) -> int:
        """Number of weights in the matrices, with a tokenizer of this size."""
        return self.width * (12 * self.layers * self.width + tokens)

    def build(self, tokens: int, task: Literal["ntp", "mlm"]) -> "GPT":
        """A new model with random weights; for masked modelling [MASK] is one more token."""
        from .gpt import GPT

        causal = task == "ntp"
        return GPT(self, vocabulary=tokens if causal else tokens + 1, causal=causal)


@dataclass(frozen=True, kw_only=True)
class HMMConfig:
    """The shape of an HMM. The paper's has two states per token and predicts from one token."""

    states: int = 512  # H
    context: int = 1024  # tokens of a training window; the model can read any number of tokens
    conditioned: Literal["token", "sequence"] = "token"  # what the loss predicts a token from
    # Standard deviation of the initial log-odds of transitions. With 5, each state leads to few
    # others: best if trained on sequences. With 1, a model trained on pairs reads prompts better.
    spread: float = 1.0

    kind = "HMM"
    sizes = ("states",)
    tasks = ("ntp",)
    tokenizers = ("bpe", "words")
    optimizers = ("adamw",)

    @property
    def description(self) -> str:
        source = "one token" if self.conditioned == "token" else "all earlier tokens"
        return f"HMM of {self.states} states, trained to predict from {source}"

    def matrix_weights(self, tokens: int) -> int:
        """Number of weights in the matrices, with a tokenizer of this size."""
        return self.states * (self.states + tokens)

    def build(self, tokens: int, task: Literal["ntp", "mlm"]) -> "HMM":
        """A new model with random weights."""
        from .hmm import HMM

        return HMM(self, vocabulary=tokens)


@dataclass(frozen=True, kw_only=True)
class LongConvConfig:
    """The shape of a model that filters its channels instead of attending."""

    layers: int = 3
    width: int = 192
    # Distances that a filter sees, and the tokens of a training window; the model can read any
    # number of tokens.
    context: int = 4096

    kind = "long convolutions"
    sizes = ("layers", "width")
    tasks = ("ntp",)
    tokenizers = ("bpe", "words")
    optimizers = ("adamw", "muon")

    @property
    def description(self) -> str:
        layers = "1 layer" if self.layers == 1 else f"{self.layers} layers"
        return f"{layers}, width {self.width}, filters over {self.context} tokens"

    def matrix_weights(self, tokens: int) -> int:
        """Number of weights in the matrices and filters, with a tokenizer of this size."""
        return self.width * (self.layers * (10 * self.width + self.context) + tokens)

    def build(self, tokens: int, task: Literal["ntp", "mlm"]) -> "LongConv":
        """A new model with random weights."""
        from .longconv import LongConv

        return LongConv(self, vocabulary=tokens)


@dataclass(frozen=True, kw_only=True)
class PhasesConfig:
    """The shape of a model that tracks n modulo prime powers."""

    layers: int = 3
    width: int = 128
    bound: int = 512  # the largest prime power that the model keeps track of
    context: int = 8192  # tokens of a training window; the model can read any number of tokens

    kind = "phases"
    sizes = ("layers", "width")
    tasks = ("ntp",)
    tokenizers = ("words",)  # it counts words
    optimizers = ("adamw", "muon")

    @property
    def periods(self) -> tuple[int, ...]:
        """The prime powers up to `bound`, in increasing order."""
        sieve = bytearray([1]) * (self.bound + 1)
        periods = []
        for p in range(2, self.bound + 1):
            if sieve[p]:
                sieve[p * p :: p] = bytes(len(sieve[p * p :: p]))
                periods += [p**k for k in range(1, self.bound.bit_length()) if p**k <= self.bound]
        return tuple(sorted(periods))

    @property
    def description(self) -> str:
        layers = "1 layer" if self.layers == 1 else f"{self.layers} layers"
        return f"{layers}, width {self.width}, prime powers up to {self.bound}"

    def matrix_weights(self, tokens: int) -> int:
        """Number of weights in the matrices, with a tokenizer of this size."""
        of_periods = 6 * (len(self.periods) + 3 * KNOTS)
        return self.width * (
            self.layers * (12 * self.width + of_periods + 5 * AVERAGES) + 2 * tokens
        )

    def build(self, tokens: int, task: Literal["ntp", "mlm"]) -> "Phases":
        """A new model with random weights."""
        from .phases import Phases

        if self.bound < 2:
            raise InputError(f"bound must be 2 or more, not {self.bound}")
        return Phases(self, vocabulary=tokens)
