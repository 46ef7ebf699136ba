"""The arithmetic text: every integer as a rooted tree and a Dyck word.

>>> import arithmetext as nt
>>> nt.word(360)
'1100110010'
"""

from .errors import InputError
from .trees import Tree, factor, least, pack, packed, tree, tree_of_word, unpack, word

__version__ = "0.1.0"

__all__ = [
    "InputError",
    "Tree",
    "factor",
    "least",
    "pack",
    "packed",
    "tree",
    "tree_of_word",
    "unpack",
    "word",
]
