"""Models without values, to be filled from a file."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


@contextmanager
def unfilled() -> Iterator[None]:
    """Models made in this `with` block have shapes but take no memory.

    So a file can be compared with the expected shapes before anything is allocated.
    """
    with torch.device("meta"), _NoValues():
        yield


class _NoValues(TorchFunctionMode):
    """Skip the initialisation: torch would spend two seconds to prepare for it."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)
