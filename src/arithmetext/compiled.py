"""How every kernel of the project is compiled."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

_Function = TypeVar("_Function", bound=Callable[..., Any])


def kernel(function: _Function) -> _Function:
    """Compile with numba: once, kept on disk, free of the GIL so that threads run side by side.

    Division is that of the machine: Python's checks for zero would keep loops from being
    vectorised.
    """
    return cast(_Function, njit(cache=True, nogil=True, error_model="numpy")(function))
