"""Models that have their shapes and no values yet, to be read from a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


@contextmanager
def unfilled() -> Iterator[None]:
    """What is made here takes no memory: nothing is allocated before all is known to fit."""
    with torch.device("meta"), _NoValues():
        yield


class _NoValues(TorchFunctionMode):
    """Skip what would fill tensors; to draw numbers for none takes torch two seconds to prepare."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)
