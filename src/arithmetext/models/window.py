"""A GPT that reads on: what it keeps of prompts, and what it forgets when it can see no more."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import InputError
from .gpt import GPT, HEAD


class Kept(NamedTuple):
    """The keys and values of one layer."""

    room: Tensor  # [2, prompts, heads, context, HEAD]
    place: Tensor  # [1], of a single token
    seen: Tensor  # [1, context], by it

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Keep more of them; all there are then, and which of them are seen if not all before."""
        if k.shape[2] > 1:  # from the beginning
            self.room[0, :, :, : k.shape[2]] = k
            self.room[1, :, :, : k.shape[2]] = v
            return k, v, None
        self.room[0].index_copy_(2, self.place, k)
        self.room[1].index_copy_(2, self.place, v)
        return self.room[0], self.room[1], self.seen


class Past:
    """What is kept of prompts to read on from: the keys and values of all layers.

    Nothing here has a size that changes, so that a card can record how to read one token.
    """

    def __init__(self, model: GPT, prompts: int) -> None:
        config, like = model.config, model.norm.weight
        shape = (config.layers, 2, prompts, config.heads, config.context, HEAD)
        self.rooms = like.new_zeros(shape)
        self.place = torch.zeros(1, dtype=torch.int64, device=like.device)
        self._places = torch.arange(config.context, device=like.device)

    def layers(self) -> Sequence[Kept]:
        seen = (self._places <= self.place)[None]
        return [Kept(room, self.place, seen) for room in self.rooms]


class Window:
    """Prompts that have been read: the last tokens, as many as the model can see.

    While there is room for more, keys and values are kept, and one more token costs little. When
    the window is full, the oldest `stride` tokens are dropped. All others then move to other
    positions, so the window is read anew. A stride of 1 is exact: each prediction sees the whole
    context, and costs a reading of the window. With a larger stride only every `stride`-th token
    costs that much, and predictions see less.
    """

    def __init__(self, model: GPT, prompts: Tensor, stride: int) -> None:
        if not model.causal:
            raise InputError("a model of masked text does not say what comes next")
        if prompts.shape[1] < 1:
            raise InputError("a prompt needs a token at least")
        if not 1 <= stride <= model.config.context:
            raise InputError(f"the stride must be from 1 to {model.config.context}, not {stride}")
        self.model, self.stride = model, stride
        self.ids = prompts[:, -model.config.context :]
        self._past: Past | None = None
        self._read_one: Callable[[Tensor], Tensor] | None = None
        self._known = 0  # tokens of the window that the past holds
        self._logs: Tensor | None = None

    @torch.no_grad()
    def log_probabilities(self) -> Tensor:
        if self._logs is None:
            length = self.ids.shape[1]
            if self._past is not None:
                self._past.place.fill_(length - 1)
            if self._read_one is not None and self._known == length - 1:
                logits, self._known = self._read_one(self.ids[:, -1:]), length
            else:
                logits = self._read_all()
            self._logs = logits[:, 0].float().log_softmax(-1)
        return self._logs

    def _read_all(self) -> Tensor:
        length = self.ids.shape[1]
        # Of a full window that the next token makes be read anew, nothing need be kept.
        keep = length < self.model.config.context or self.stride > 1
        if keep and self._past is None:
            self._past = Past(self.model, len(self.ids))
            # Not a method of this: a window that refers to itself would keep its room, and a card
            # cannot record while the records of windows that are no more are thrown away.
            one = partial(self.model, past=self._past)
            self._read_one = _recorded(one) if self.ids.is_cuda else one
        self._known = length if keep else 0
        last = torch.full_like(self.ids[:, :1], length - 1)
        logits: Tensor = self.model(self.ids, last, self._past if keep else None)
        return logits

    def append(self, tokens: Tensor) -> None:
        if self.ids.shape[1] == self.model.config.context:
            self.ids, self._known = self.ids[:, self.stride :], 0
        self.ids = torch.cat([self.ids, tokens.to(self.ids.device)[:, None]], 1)
        self._logs = None


def _recorded(work: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The same work on a card, recorded when it is first done: then it starts without delay.

    Hooks run while it is recorded, and not again.
    """
    graph = torch.cuda.CUDAGraph()
    tensors: list[Tensor] = []

    def replay(given: Tensor) -> Tensor:
        if not tensors:
            aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            aside.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(aside):
                work(given)  # what libraries set up at first use cannot be recorded
            torch.cuda.current_stream().wait_stream(aside)
            tensors.append(given.clone())
            with torch.cuda.graph(graph):
                tensors.append(work(tensors[0]))
        tensors[0].copy_(given)
        graph.replay()
        return tensors[1]

    return replay
