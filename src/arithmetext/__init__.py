"""The arithmetic text: every integer as a rooted tree and a Dyck word.

>>> import arithmetext as nt
>>> nt.word(360)
'1100110010'
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import InputError
from .trees import Tree, factor, least, pack, packed, tree, tree_of_word, unpack, word
from .version import __version__ as __version__

if TYPE_CHECKING:
    from .counting.census import Census, census
    from .counting.dictionary import dictionary_size
    from .counting.histograms import count_words
    from .evaluation.report import Evaluation, evaluate
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
    from .text.sentence import Sentence, sentence
    from .text.sieve import segments, words
    from .text.surrogate import Surrogate
    from .training.run_folder import RunFolder, run_folder

__all__ = [
    "Census",
    "Evaluation",
    "InputError",
    "RunFolder",
    "Sentence",
    "Surrogate",
    "Tree",
    "arrays",
    "big_omega",
    "census",
    "count_words",
    "dictionary_size",
    "edges",
    "evaluate",
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
    "run_folder",
    "segments",
    "sentence",
    "tree",
    "tree_of_word",
    "unpack",
    "word",
    "words",
]

# Imported on first use, because these modules need numpy, and some of them numba or torch.
_LAZY = {
    "Census": "counting.census",
    "Evaluation": "evaluation.report",
    "RunFolder": "training.run_folder",
    "Sentence": "text.sentence",
    "Surrogate": "text.surrogate",
    "arrays": "text.arithmetic",
    "big_omega": "text.arithmetic",
    "census": "counting.census",
    "count_words": "counting.histograms",
    "dictionary_size": "counting.dictionary",
    "edges": "text.arithmetic",
    "evaluate": "evaluation.report",
    "heights": "text.arithmetic",
    "is_prime": "text.arithmetic",
    "is_squarefree": "text.arithmetic",
    "leaves": "text.arithmetic",
    "mobius": "text.arithmetic",
    "omega": "text.arithmetic",
    "run_folder": "training.run_folder",
    "segments": "text.sieve",
    "sentence": "text.sentence",
    "words": "text.sieve",
}


def __dir__() -> list[str]:
    return __all__  # notebooks complete from it; names that were not used yet are missing otherwise


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
