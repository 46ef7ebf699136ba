"""Our speed, compared with other libraries that do the same and are installed.

Each subject has its own file. Its `measure()` runs our code and the peers in turn, in one process,
and returns the object that `nt bench SUBJECT --json` prints.
"""

from importlib import import_module
from typing import Any

SUBJECTS = ("sieve", "encode", "train", "hmm", "generate", "start", "explore")


def measure(subject: str) -> dict[str, Any]:
    """Measure one of the SUBJECTS; only its own file is imported."""
    figures: dict[str, Any] = import_module(f"{__name__}.{subject}").measure()
    return figures
