"""The names of models that `nt` commands take, checked without loading any library."""

import re
from difflib import get_close_matches
from pathlib import Path

from ..errors import InputError
from .config import PACKAGED

LARGEST_ORDER = 8  # of n-grams

_BASELINE = re.compile(r"(locator)|(ngram|oracle)-(\d{1,6})")


def baseline(name: str) -> tuple[str, int] | None:
    """The kind and number of a baseline, such as ("oracle", 13); None for other names.

    A folder named like a baseline takes precedence.

    >>> baseline("oracle-13"), baseline("locator"), baseline("pretrained")
    (('oracle', 13), ('locator', 0), None)
    """
    found = _BASELINE.fullmatch(name)
    if found is None or Path(name).is_dir():
        return None
    return found[1] or found[2], int(found[3] or 0)


def check_name(name: str, *, baselines: bool = True) -> None:
    """Refuse a name that is neither a folder, nor a model in the package, nor a baseline."""
    if name in PACKAGED or (name and Path(name).is_dir()):  # Path("") is the current folder
        return
    if baselines and (numbered := re.fullmatch(r"(ngram|oracle)-(\d+)", name)):
        largest = LARGEST_ORDER if numbered[1] == "ngram" else 999_999
        if not (len(numbered[2]) <= 6 and 1 <= int(numbered[2]) <= largest):
            raise InputError(f"the number in {name} must be from 1 to {largest}")
        return
    if baselines and name == "locator":
        return
    missing = f"there is no folder {name or repr(name)}"
    similar = get_close_matches(name, [*PACKAGED, "locator"] if baselines else PACKAGED, 1)
    if similar:
        raise InputError(f"{missing}: did you mean {similar[0]}?")
    others = ", locator, ngram-K and oracle-B, such as ngram-8 and oracle-13" if baselines else ""
    raise InputError(f"{missing}; models without a folder are: {', '.join(PACKAGED)}{others}")
