"""Write the text to files: words as lines (.txt), or packed words as numpy arrays (.npy, .npz)."""

import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import FEW_WORDS, kernel, kernels_loaded
from ..errors import InputError
from ..files import whole_file
from ..trees import unpack
from .sieve import Words, check_range, segments

# The type and the shape of an array, and its pieces.
Pieces = tuple[np.dtype[Any], tuple[int, ...], Iterable[NDArray[Any]]]


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
    check_suffix(path, ".txt", ".npy", ".npz")
    check_range(lo, hi)
    with whole_file(path) as draft:
        pieces = (words for _, words in segments(lo, hi, title=f"writing {path.name}"))
        if path.suffix == ".npz":
            write_npz(draft, {"words": (np.dtype(np.uint64), (hi - lo,), pieces)})
            return
        with draft.open("wb") as file:
            if path.suffix == ".npy":
                write_array(file, np.dtype(np.uint64), (hi - lo,), pieces)
            else:
                file.writelines(map(lines, pieces))


def check_suffix(path: Path, *suffixes: str) -> None:
    """Refuse a file whose name does not tell its format."""
    if path.suffix not in suffixes:
        *first, last = suffixes
        raise InputError(
            f"cannot tell the format of {path}: it should end in {', '.join(first)} or {last}"
        )


def write_npz(path: Path, entries: dict[str, Pieces]) -> None:
    """The format of np.savez_compressed, without holding whole arrays in memory."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, entry in entries.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                write_array(file, *entry)


def write_array(
    file: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...], pieces: Iterable[NDArray[Any]]
) -> None:
    """The format of np.save, in the byte order that most machines have."""
    stored = dtype.newbyteorder("<")
    descr = np.lib.format.dtype_to_descr(stored)
    header = {"descr": descr, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    for piece in pieces:
        file.write(piece.astype(stored, copy=False).tobytes())


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
