"""How a GPT reads on after a prompt: the KV cache, and the context that slides when it is full."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import InputError
from .gpt import GPT, HEAD_DIM


class LayerCache(NamedTuple):
    """The keys and values of one layer."""

    keys_values: Tensor  # [2, prompts, heads, positions, HEAD_DIM]
    position: Tensor  # [1], where a single token is written
    visible: Tensor  # [1, positions], those that this token sees

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Store new keys and values; return all of them, and the mask that a single token needs.

        k, v: [prompts, heads, tokens, HEAD_DIM]. Several tokens are stored from position 0 on; they
        need no mask but the causal one.
        """
        if k.shape[2] > 1:
            self.keys_values[0, :, :, : k.shape[2]] = k
            self.keys_values[1, :, :, : k.shape[2]] = v
            return k, v, None
        self.keys_values[0].index_copy_(2, self.position, k)
        self.keys_values[1].index_copy_(2, self.position, v)
        return self.keys_values[0], self.keys_values[1], self.visible


class KVCache:
    """The keys and values of all layers.

    On a GPU a token reads all positions, filled or not, and a mask hides the empty ones: nothing
    changes its size, so that the reading of one token can be recorded as a CUDA graph. On a CPU,
    where most of the time goes into reading keys and values, a token reads the filled ones alone.
    """

    def __init__(self, model: GPT, prompts: int) -> None:
        config, like = model.config, model.norm.weight
        shape = (config.layers, 2, prompts, config.heads, config.context, HEAD_DIM)
        self.keys_values = like.new_zeros(shape)
        self.position = torch.zeros(1, dtype=torch.int64, device=like.device)
        self._positions = torch.arange(config.context, device=like.device)

    def layers(self) -> Sequence[LayerCache]:
        end = None if self.position.is_cuda else int(self.position) + 1
        visible = (self._positions[:end] <= self.position)[None]
        return [
            LayerCache(layer[..., :end, :], self.position, visible) for layer in self.keys_values
        ]


class SlidingContext:
    """Prompts that have been read; the model sees their last `context` tokens.

    While the context is not full, the KV cache makes one more token cheap. When it is full, the
    oldest `stride` tokens are dropped. The other tokens then move to other positions, so the cache
    is void and the context is read again. A stride of 1 is exact: each prediction sees a full
    context and reads all of it again. With a larger stride only one token in `stride` costs that
    much, but predictions see fewer tokens.
    """

    def __init__(self, model: GPT, prompts: Tensor, stride: int) -> None:
        """prompts: [prompts, tokens]."""
        if not model.causal:
            raise InputError("a model of masked tokens does not predict the next one")
        if prompts.shape[1] < 1:
            raise InputError("a prompt needs at least one token")
        if not 1 <= stride <= model.config.context:
            raise InputError(f"the stride must be from 1 to {model.config.context}, not {stride}")
        self.model, self.stride = model, stride
        self.ids = prompts[:, -model.config.context :]
        self._cache: KVCache | None = None
        self._read_one: Callable[[Tensor], Tensor] | None = None
        self._cached = 0  # number of tokens of the context that the cache holds
        self._logs: Tensor | None = None

    @torch.no_grad()
    def log_probabilities(self) -> Tensor:
        if self._logs is None:
            length = self.ids.shape[1]
            if self._cache is not None and self._read_one and self._cached == length - 1:
                self._cache.position.fill_(length - 1)
                logits, self._cached = self._read_one(self.ids[:, -1:]), length
            else:
                logits = self._read_all()
            self._logs = logits[:, 0].float().log_softmax(-1)
        return self._logs

    def _read_all(self) -> Tensor:
        """Read the whole context; logits after its last token, [prompts, 1, vocabulary]."""
        length = self.ids.shape[1]
        # With a stride of 1, the next token makes the cache of a full context void at once.
        useful = length < self.model.config.context or self.stride > 1
        if useful and self._cache is None:
            self._cache = KVCache(self.model, len(self.ids))
            # Not a method: a reference cycle would delay freeing the CUDA graph, and no new graph
            # can be recorded while old ones are freed.
            one = partial(self.model, cache=self._cache)
            self._read_one = _recorded(one) if self.ids.is_cuda else one
        if self._cache is not None:
            self._cache.position.fill_(length - 1)
        self._cached = length if useful else 0
        last = torch.full_like(self.ids[:, :1], length - 1)
        logits: Tensor = self.model(self.ids, last, self._cache if useful else None)
        return logits

    def append(self, tokens: Tensor) -> None:
        if self.ids.shape[1] == self.model.config.context:
            self.ids, self._cached = self.ids[:, self.stride :], 0
        self.ids = torch.cat([self.ids, tokens.to(self.ids.device)[:, None]], 1)
        self._logs = None


def _recorded(work: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The same work as a CUDA graph, recorded at the first call: later calls start at once.

    Hooks run only while the graph is recorded.
    """
    graph = torch.cuda.CUDAGraph()
    tensors: list[Tensor] = []  # the input and the output of the graph

    def replay(given: Tensor) -> Tensor:
        if not tensors:
            warm_up = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            warm_up.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(warm_up):
                work(given)  # libraries set themselves up at first use, which cannot be recorded
            torch.cuda.current_stream().wait_stream(warm_up)
            tensors.append(given.clone())
            with torch.cuda.graph(graph):
                tensors.append(work(tensors[0]))
        tensors[0].copy_(given)
        graph.replay()
        return tensors[1]

    return replay
