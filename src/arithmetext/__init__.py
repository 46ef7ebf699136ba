"""The arithmetic text: every integer as a rooted tree and a Dyck word.

>>> import arithmetext as nt
>>> nt.word(360)
'1100110010'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import InputError
from .trees import Tree, factor, least, pack, packed, tree, tree_of_word, unpack, word

if TYPE_CHECKING:
    from .counting.census import census
    from .counting.dictionary import dictionary_size
    from .counting.histograms import count_words
    from .text.arithmetic import (
        arrays,
        big_omega,
        edges,
        heights,
        is_prime,
        is_squarefree,
        leaves,
        mobius,
        omega,
    )
    from .text.sieve import segments, words

__version__ = "0.1.0"

__all__ = [
    "InputError",
    "Tree",
    "arrays",
    "big_omega",
    "census",
    "count_words",
    "dictionary_size",
    "edges",
    "factor",
    "heights",
    "is_prime",
    "is_squarefree",
    "least",
    "leaves",
    "mobius",
    "omega",
    "pack",
    "packed",
    "segments",
    "tree",
    "tree_of_word",
    "unpack",
    "word",
    "words",
]

# Imported on first use, because these modules need numpy and numba.
_LAZY = {
    "arrays": "text.arithmetic",
    "big_omega": "text.arithmetic",
    "census": "counting.census",
    "count_words": "counting.histograms",
    "dictionary_size": "counting.dictionary",
    "edges": "text.arithmetic",
    "heights": "text.arithmetic",
    "is_prime": "text.arithmetic",
    "is_squarefree": "text.arithmetic",
    "leaves": "text.arithmetic",
    "mobius": "text.arithmetic",
    "omega": "text.arithmetic",
    "segments": "text.sieve",
    "words": "text.sieve",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
