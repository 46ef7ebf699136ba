"""How much memory this machine has; refuse work that needs more."""

import os
from math import inf
from pathlib import Path

from .errors import InputError

_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")  # Linux; "max" if there is no limit


def machine_memory() -> float:
    """Bytes of memory that this process may use; infinite if the system does not tell."""
    try:
        pages, size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows has no sysconf
        return inf
    try:
        limit = float(_CONTAINER_LIMIT.read_text())
    except (OSError, ValueError):
        limit = inf
    return min(limit, pages * size) if pages > 0 and size > 0 else limit


def check_memory(size: float) -> None:
    """Refuse work that needs more bytes of memory than this machine has."""
    if size > (has := machine_memory()):
        raise InputError(
            f"this needs about {format_size(size)} of memory,"
            f" and this machine has {format_size(has)}"
        )


def format_size(size: float) -> str:
    """Bytes in GB, with two significant digits.

    >>> format_size(9.2e9), format_size(8e18)
    ('9.2 GB', '8e9 GB')
    """
    return f"{two_digits(size / 1e9)} GB"


def two_digits(number: float) -> str:
    """A number with two significant digits."""
    return f"{float(f'{number:.2g}'):g}".replace("e+", "e").replace("e0", "e")
