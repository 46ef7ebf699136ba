"""Write the text as a dataset for Hugging Face: a folder of Parquet files with a dataset card."""

from itertools import groupby
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np

from ..files import whole_folder
from ..trees import unpack
from ..version import __version__
from .sieve import Words, check_range, segments

# Integers in a file, about 24 MB. Segments are cut at multiples of smaller powers of two, so no
# segment lies in two files.
SHARD = 1 << 24

_CARD = """\
---
pretty_name: The arithmetic text of {first:,} to {last:,}
license: mit
task_categories:
- text-generation
tags:
- mathematics
- number-theory
size_categories:
- {size}
configs:
- config_name: default
  data_files:
  - split: train
    path: data/train-*.parquet
dataset_info:
  features:
  - name: n
    dtype: int64
  - name: word
    dtype: string
  - name: packed
    dtype: uint64
---

# The arithmetic text of {first:,} to {last:,}

Factor an integer, then factor its exponents, and so on: every n > 1 becomes a rooted tree, and a
walk around the tree writes it as a Dyck word. The word of a prime is `10`. The word of n has, for
each prime of n in increasing order, a `1`, the word of the exponent (nothing if it is 1) and a `0`.
So 360 = 2^3 · 3^2 · 5 has the word `1100110010`. This dataset has the word of every integer from
{first:,} to {last:,}, in order: {count:,} rows.

## Columns

| column | type | meaning |
|---|---|---|
| `n` | int64 | the integer |
| `word` | string | its Dyck word |
| `packed` | uint64 | the word read as a number in base 2 |

A packed word begins with 1 and has as many ones as zeros, so its length is twice its number of
ones.

## How it was made

With arithmetext {version}, by this command:

```
nt export {first} {count} --parquet {name}
```

A sieve factors all integers, so the words are exact. Nothing is random: the same command gives the
same rows.

## Limits

- There is one split, `train`, in the order of the integers. The text changes slowly with n, so a
  random split would not test a model far from its training text.
- The words do not determine n by themselves: all primes have the same word.
- The text has no end; this is a part of it. `nt export` makes any other part below 2^63.

## Citation

The text was introduced in *Testing Transformer Learnability on the Arithmetic Sequence of Rooted
Trees* by Alessandro Breccia, Federica Gerace, Marco Lippi, Gabriele Sicuro and Pierluigi Contucci.
Please cite this paper, and arithmetext {version} as the software.
"""


def export(folder: Path, lo: int, hi: int) -> None:
    """Write the words of lo ≤ n < hi to a new folder, in constant memory.

    The folder appears only when it is complete.
    """
    lo, hi = check_range(lo, hi)
    import pyarrow as arrow
    from pyarrow.parquet import ParquetWriter

    spelled = arrow.dictionary(arrow.int32(), arrow.string())
    schema = arrow.schema([("n", arrow.int64()), ("word", spelled), ("packed", arrow.uint64())])
    with whole_folder(folder) as draft:
        (draft / "data").mkdir()
        pieces = segments(lo, hi, title=f"writing {folder.name}")
        files = (hi - 1) // SHARD - lo // SHARD + 1
        for number, (_, shard) in enumerate(groupby(pieces, lambda piece: piece[0] // SHARD)):
            path = draft / "data" / f"train-{number:05}-of-{files:05}.parquet"
            # Consecutive integers take no space as differences. Without a stored schema, readers
            # see plain strings, not the dictionaries of `_table`.
            with ParquetWriter(
                path,
                schema,
                compression="zstd",
                use_dictionary=["word", "packed"],
                column_encoding={"n": "DELTA_BINARY_PACKED"},
                store_schema=False,
            ) as writer:
                for first, words in shard:
                    writer.write_table(_table(arrow, first, words))
        (draft / "README.md").write_text(card(folder.name, lo, hi), encoding="utf-8")


def _table(arrow: Any, first: int, words: Words) -> Any:
    """The rows of consecutive integers; each word is spelled once."""
    packed = arrow.array(words)
    encoded = packed.dictionary_encode()
    spelled = arrow.array([unpack(word) for word in encoded.dictionary.to_pylist()])
    word = arrow.DictionaryArray.from_arrays(encoded.indices, spelled)
    n = np.arange(len(words)) + first  # in this order: first + len(words) may be 2^63
    return arrow.table({"n": n, "word": word, "packed": packed})


def card(name: str, lo: int, hi: int) -> str:
    """The dataset card, in the form that Hugging Face reads."""
    return _CARD.format(
        first=lo,
        last=hi - 1,
        count=hi - lo,
        size=_size_category(hi - lo),
        name=quote(name),
        version=__version__,
    )


def _size_category(rows: int) -> str:
    """The name that Hugging Face has for a number of rows.

    >>> _size_category(999), _size_category(10**6), _size_category(10**13)
    ('n<1K', '1M<n<10M', 'n>1T')
    """
    bounds = ["1K", "10K", "100K", "1M", "10M", "100M", "1B", "10B", "100B", "1T"]
    thousands = len(str(rows)) - 3  # 0 below 1K, 1 below 10K
    if thousands <= 0:
        return f"n<{bounds[0]}"
    if thousands >= len(bounds):
        return f"n>{bounds[-1]}"
    return f"{bounds[thousands - 1]}<n<{bounds[thousands]}"
