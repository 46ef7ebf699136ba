"""`nt bench encode`: the speed of turning words into tokens.

The peers load our vocabulary and encode the spelled text; we encode packed words. tokie uses the
algorithm of GitHub's `bpe`, whose own Python bindings have fixed vocabularies (docs/tokens.md).
"""

import os
import tempfile
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from ..text.sieve import words
from ..tokens import BPE
from ..tokens.spelling import spell
from .comparison import Timers, compare, timed


def measure() -> dict[str, Any]:
    tokenizer = BPE.train(256)
    short, long = words(10**10, 10**10 + 112_000), words(10**10, 10**10 + 10**7)
    text = spell(short)
    ids = tokenizer.encode(short)
    timers: Timers = {
        "ours": {
            "1 MB": partial(timed, lambda: tokenizer.encode(short, threads=1)),
            "1e7 words": partial(timed, lambda: tokenizer.encode(long, threads=1)),
            "1e7 words, 2 threads": partial(timed, lambda: tokenizer.encode(long, threads=2)),
        }
    }
    characters = len(spell(long))
    counts = {"1 MB": len(text), "1e7 words": characters, "1e7 words, 2 threads": characters}
    peers: dict[str, tuple[str, Callable[[Any, BPE, str], Callable[[str], Any]]]] = {
        "Hugging Face tokenizers": (
            "tokenizers",
            lambda m, _, file: m.Tokenizer.from_file(file).encode,
        ),
        "tiktoken": ("tiktoken", _tiktoken),
        "kitoken": ("kitoken", lambda m, _, file: m.Kitoken.from_tokenizers_file(file).encode),
        "fastokens": ("fastokens", lambda m, _, file: m.Tokenizer.from_file(file).encode),
    }
    if hasattr(os, "sched_setaffinity"):  # on Linux
        peers["tokie"] = "tokie", _tokie
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tokenizer.json"
        tokenizer.save(file)
        for peer, (module, prepare) in peers.items():
            if find_spec(module):
                encode = prepare(import_module(module), tokenizer, str(file))
                encoded = encode(text)
                assert np.array_equal(getattr(encoded, "ids", encoded), ids), peer
                timers[peer] = {"1 MB": partial(timed, partial(encode, text))}
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


def _tiktoken(tiktoken: Any, tokenizer: BPE, file: str) -> Callable[[str], Any]:
    ranks = {token.encode(): rank for rank, token in enumerate(tokenizer.vocabulary)}
    encoding: Any = tiktoken.Encoding(
        "arithmetext", pat_str=r"[\s\S]+", mergeable_ranks=ranks, special_tokens={}
    )
    encode: Callable[[str], Any] = encoding.encode_ordinary
    return encode


def _tokie(tokie: Any, tokenizer: BPE, file: str) -> Callable[[str], Any]:
    """On one CPU; with more it cuts a text of 10,000 bytes or more, and ids at the cuts differ."""
    theirs = tokie.Tokenizer.from_json(file)

    def encode(text: str) -> Any:
        cpus = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {min(cpus)})
        try:
            return theirs.encode(text)
        finally:
            os.sched_setaffinity(0, cpus)

    return encode
