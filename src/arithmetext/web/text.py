"""/text?from=1e13: the text itself, which the reader scrolls through in both directions."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from threading import Lock
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import InputError
from ..text.ranges import MAX
from ..tokens import BPE, Tokenizer, WordTokens
from ..tokens.windows import ENCODER_MARGIN
from ..trees import pack, tree_of_word, word
from . import parameters
from .pages import answer_json, render
from .streams import slot

MOST_WORDS = 512  # of one answer
LONGEST_WORD = 64  # letters of a highlighted word; the words of the text are shorter
MOST_MODULUS = 10**6

VIEWS = ("trees", "words")
MARKS = ("primes", "square-free")
TOKENIZERS: dict[str, Callable[[], Tokenizer]] = {
    "bpe-64": partial(BPE.train, 64),
    "bpe-256": partial(BPE.train, 256),
    "bpe-1024": partial(BPE.train, 1024),
    "words-256": partial(WordTokens.commonest, 256),
}
NO_TOKENS = "none"

_tokenizers: dict[str, Tokenizer] = {}
_lock = Lock()


def tokenizer(name: str) -> Tokenizer:
    """A tokenizer by name, trained on first use: two seconds, or fifteen if nothing is cached."""
    if name not in _tokenizers:
        with slot(), _lock:
            if name not in _tokenizers:
                trained = TOKENIZERS[name]()
                trained.encode(np.array([0b10], np.uint64))  # makes its tables, loads its kernels
                _tokenizers[name] = trained
    return _tokenizers[name]


def words(first: int, count: int) -> list[str]:
    """The words from `first` on, fewer at the end of the text.

    FLINT factors them: a sieve would need all primes up to √n, 620 MB of them close to 2^63.
    """
    return [word(n) for n in range(first, min(first + count, MAX))]


def borders(tokens: Tokenizer, first: int, shown: Sequence[str]) -> list[list[int]]:
    """For the words from `first` on: the places in each word where a token of the text begins.

    The space after a word counts as its last place. Some words before and after are encoded too,
    because they can change the tokens of these.
    """
    before = words(start := max(2, first - ENCODER_MARGIN), first - start)
    texts = [*before, *shown, *words(first + len(shown), ENCODER_MARGIN)]
    ids = tokens.encode(np.array([pack(text) for text in texts], np.uint64), threads=1)
    begins = np.cumsum([0, *(len(tokens.vocabulary[number]) for number in ids.tolist())])
    places = list(accumulate((len(text) + 1 for text in texts), initial=0))
    cuts = np.searchsorted(begins, places).tolist()
    return [
        (begins[cuts[k] : cuts[k + 1]] - places[k]).tolist()
        for k in range(len(before), len(before) + len(shown))
    ]


def json(request: Request) -> Response:
    first = _first(request)
    count = parameters.integer(request, "count", "100", least=1, most=MOST_WORDS)
    name = parameters.choice(request, "tokens", (NO_TOKENS, *TOKENIZERS))
    answer: dict[str, Any] = {"from": str(first), "words": words(first, count)}
    if name != NO_TOKENS:
        answer["borders"] = borders(tokenizer(name), first, answer["words"])
    return answer_json(answer)


def page(request: Request) -> Response:
    """The page; its fields are the parameters of its address."""
    marks = request.query_params.getlist("mark")
    for mark in marks:
        if mark not in MARKS:
            raise InputError(f"mark must be one of {', '.join(MARKS)}, not {mark!r}.")
    chosen = parameters.text(request, "word", "", most=LONGEST_WORD)
    tree_of_word(chosen)
    residue, modulus = _residue_class(request)
    return render(
        request,
        "text",
        first=str(_first(request)),
        views=VIEWS,
        view=parameters.choice(request, "view", VIEWS),
        marks=marks,
        word=chosen,
        residue=residue,
        modulus=modulus,
        tokens=parameters.choice(request, "tokens", (NO_TOKENS, *TOKENIZERS)),
        tokenizers=list(TOKENIZERS),
        most_modulus=MOST_MODULUS,
        longest_word=LONGEST_WORD,
    )


def _first(request: Request) -> int:
    return parameters.integer(request, "from", "2", least=2, most=MAX - 1)


def _residue_class(request: Request) -> tuple[str, str]:
    """r and m of the highlighted integers n ≡ r mod m; both empty if there are none."""
    if not request.query_params.get("r") and not request.query_params.get("m"):
        return "", ""
    modulus = parameters.integer(request, "m", least=1, most=MOST_MODULUS)
    return str(parameters.integer(request, "r", least=0, most=modulus - 1)), str(modulus)


routes = [
    Route("/text", page),
    Route("/api/text", json),
]
