"""The shapes of the trained models. No torch here: recipes are listed without loading it."""

from dataclasses import dataclass
from typing import Literal

HEAD = 64  # the width of a head


@dataclass(frozen=True, kw_only=True)
class GPTConfig:
    """The shape of a GPT; ρ in the paper stands for 12ρ layers of 12ρ heads."""

    layers: int = 12
    heads: int = 12
    context: int = 1024  # L, the most tokens it reads
    positions: Literal["learned", "rotary"] = "learned"

    @property
    def width(self) -> int:
        return self.heads * HEAD


@dataclass(frozen=True, kw_only=True)
class HMMConfig:
    """The paper has two states a token, and learns to predict a token from the one before."""

    states: int = 512  # H
    context: int = 1024  # tokens of a window in training; it reads any number
    conditioned: Literal["token", "sequence"] = "token"  # what the loss predicts a token from
