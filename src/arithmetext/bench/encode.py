"""`nt bench encode`: the speed of turning words into tokens.

The peers are Hugging Face tokenizers and tiktoken. They encode the spelled text; we encode packed
words.
"""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..text.sieve import words
from ..tokens import BPE
from ..tokens.spelling import spell
from .comparison import Timers, compare


def measure() -> dict[str, Any]:
    tokenizer = BPE.train(256)
    short, long = words(10**10, 10**10 + 112_000), words(10**10, 10**10 + 10**7)
    text = spell(short)
    ids = tokenizer.encode(short)
    timers: Timers = {
        "ours": {
            "1 MB": partial(_timed, lambda: tokenizer.encode(short, threads=1)),
            "1e7 words": partial(_timed, lambda: tokenizer.encode(long, threads=1)),
            "1e7 words, 2 threads": partial(_timed, lambda: tokenizer.encode(long, threads=2)),
        }
    }
    characters = len(spell(long))
    counts = {"1 MB": len(text), "1e7 words": characters, "1e7 words, 2 threads": characters}
    if find_spec("tokenizers"):
        from tokenizers import Tokenizer

        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            tokenizer.save(Path(file.name))
            theirs = Tokenizer.from_file(file.name)
        assert np.array_equal(theirs.encode(text).ids, ids)
        timers["Hugging Face tokenizers"] = {"1 MB": partial(_timed, lambda: theirs.encode(text))}
    if find_spec("tiktoken"):
        from tiktoken import Encoding

        ranks = {token.encode(): rank for rank, token in enumerate(tokenizer.vocabulary)}
        tiktoken = Encoding(
            "arithmetext", pat_str=r"[\s\S]+", mergeable_ranks=ranks, special_tokens={}
        )
        assert np.array_equal(tiktoken.encode_ordinary(text), ids)
        timers["tiktoken"] = {"1 MB": partial(_timed, lambda: tiktoken.encode_ordinary(text))}
    return compare(
        timers,
        counts,
        unit="MB of text a second",
        conditions={
            "text": "D = 256; integers from 1e10, 1 MB and 1e7 words, one thread if not named",
            "same ids": "checked for every peer",
            "not in the figures": "compiling, making the tables, spelling the text for the peers",
        },
    )


def _timed(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
