"""Write the text to files: words as lines (.txt), or packed words as numpy arrays (.npy, .npz)."""

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import FEW_WORDS, kernel, kernels_loaded
from ..errors import InputError
from ..files import whole_file
from ..trees import unpack
from .sieve import Words, check_range, segments

SUFFIXES = (".txt", ".npy", ".npz")


def lines(words: Words) -> bytes:
    """The words as ASCII digits, one per line; a packed word 0 is an empty line."""
    if len(words) <= FEW_WORDS and not kernels_loaded():
        return "".join(f"{unpack(word)}\n" for word in words.tolist()).encode()
    text = np.empty(_length(words), np.uint8)
    _spell(words, text)
    return text.tobytes()


def export(path: Path, lo: int, hi: int) -> None:
    """Write the words of lo ≤ n < hi to a file, in constant memory.

    The file appears only when it is complete.
    """
    if path.suffix not in SUFFIXES:
        raise InputError(f"cannot tell the format of {path}: it should end in .txt, .npy or .npz")
    check_range(lo, hi)
    with whole_file(path) as draft:
        pieces = (words for _, words in segments(lo, hi, title=f"writing {path.name}"))
        if path.suffix == ".npz":
            # The format of np.savez_compressed, without holding the whole array in memory.
            with (
                zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as archive,
                archive.open("words.npy", "w", force_zip64=True) as file,
            ):
                _write_array(file, hi - lo, pieces)
            return
        with draft.open("wb") as file:
            if path.suffix == ".npy":
                _write_array(file, hi - lo, pieces)
            else:
                file.writelines(map(lines, pieces))


def _write_array(file: IO[bytes], length: int, pieces: Iterator[Words]) -> None:
    header = {"descr": "<u8", "fortran_order": False, "shape": (length,)}
    np.lib.format.write_array_header_1_0(file, header)
    for words in pieces:
        file.write(words.astype("<u8", copy=False).tobytes())


@kernel
def _digits(word: Any) -> int:
    """The number of binary digits. The word need not be a Dyck word."""
    digits = 0
    while word:
        word >>= np.uint64(1)
        digits += 1
    return digits


@kernel
def _length(words: Any) -> int:
    """The number of characters that `_spell` writes."""
    length = len(words)
    for word in words:
        length += _digits(word)
    return length


@kernel
def _spell(words: Any, text: NDArray[np.uint8]) -> None:
    """Write the digits of each word and a newline to `text`."""
    size = 0
    for word in words:
        for place in range(_digits(word) - 1, -1, -1):
            text[size] = 48 + ((word >> np.uint64(place)) & np.uint64(1))
            size += 1
        text[size] = 10
        size += 1
