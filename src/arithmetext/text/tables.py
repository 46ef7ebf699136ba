"""Write arithmetic functions of consecutive integers to files: .csv, .npy, .npz or .parquet."""

from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from ..files import whole_file
from .arithmetic import FIELDS, Array, arrays, check_fields, check_range
from .export import Pieces, check_suffix, write_array, write_npz
from .ranges import spans

SUFFIXES = (".csv", ".npy", ".npz", ".parquet")
_ROWS = 1 << 16  # rows that are written as text at once


def write_table(path: Path, lo: int, hi: int, fields: Sequence[str]) -> None:
    """Write arithmetic functions of lo ≤ n < hi to a file, in constant memory.

    A .csv or .parquet file has the columns n and the fields. A .npy file has the array of one
    field, or a structured array of several. A .npz file has an array for each field, and `start`,
    which is lo. The file appears only when it is complete.
    """
    check_suffix(path, *SUFFIXES)
    check_range(lo, hi)
    check_fields(fields)
    title = f"writing {path.name}"
    with whole_file(path) as draft:
        if path.suffix == ".npz":
            # An archive holds one file after another, so each field is computed on its own.
            entries = {name: _column(lo, hi, name, title) for name in fields}
            start = np.array(lo, np.int64)
            write_npz(draft, entries | {"start": (start.dtype, (), [start])})
        elif path.suffix == ".parquet":
            _write_parquet(draft, lo, hi, fields, title)
        else:
            with draft.open("wb") as file:
                if path.suffix == ".csv":
                    write_csv(file, lo, hi, fields, title=title)
                elif len(fields) == 1:
                    write_array(file, *_column(lo, hi, fields[0], title))
                else:
                    write_array(file, *_records(lo, hi, fields, title))


def write_csv(file: IO[bytes], lo: int, hi: int, fields: Sequence[str], *, title: str = "") -> None:
    """Write a table with the columns n and the fields; truth values are 0 and 1."""
    file.write(",".join(["n", *fields]).encode() + b"\n")
    row = ",".join(["%d"] * (1 + len(fields))) + "\n"
    for first, piece in arrays(lo, hi, fields, title=title):
        # By parts: lists of integers take much more memory than arrays.
        for a, b in spans(0, len(piece[fields[0]]), _ROWS):
            columns = (piece[name][a:b].tolist() for name in fields)
            rows = zip(range(first + a, first + b), *columns, strict=True)
            file.write("".join(map(row.__mod__, rows)).encode())


def _column(lo: int, hi: int, field: str, title: str) -> Pieces:
    """The array of one field."""
    pieces = (piece[field] for _, piece in arrays(lo, hi, [field], title=title))
    return np.dtype(FIELDS[field].dtype), (hi - lo,), pieces


def _records(lo: int, hi: int, fields: Sequence[str], title: str) -> Pieces:
    """The structured array of several fields."""
    dtype = np.dtype([(name, FIELDS[name].dtype) for name in fields])

    def record(piece: dict[str, Array]) -> Array:
        records = np.empty(len(piece[fields[0]]), dtype)
        for name, values in piece.items():
            records[name] = values
        return records

    pieces = arrays(lo, hi, fields, title=title)
    return dtype, (hi - lo,), (record(piece) for _, piece in pieces)


def _write_parquet(path: Path, lo: int, hi: int, fields: Sequence[str], title: str) -> None:
    import pyarrow as arrow
    from pyarrow.parquet import ParquetWriter

    schema = arrow.schema(
        [("n", arrow.int64())]
        + [(name, arrow.from_numpy_dtype(FIELDS[name].dtype)) for name in fields]
    )
    # Consecutive integers take almost no space as differences.
    encoding = {"n": "DELTA_BINARY_PACKED"}
    with ParquetWriter(
        path, schema, use_dictionary=list(fields), column_encoding=encoding
    ) as writer:
        for first, piece in arrays(lo, hi, fields, title=title):
            n = np.arange(len(piece[fields[0]])) + first
            writer.write_batch(arrow.record_batch([n, *piece.values()], schema=schema))
