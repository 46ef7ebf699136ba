"""/n/360: one integer, its tree and its place in the text."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from math import prod
from threading import Lock
from typing import Any

import numpy as np
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from ..counting.census import Census, census
from ..errors import InputError
from ..integers import parse_integer
from ..text.ranges import MAX, spans
from ..text.sieve import words_in_buffer
from ..trees import FACTOR_AT_ONCE_BITS, Tree, is_square_free, least_labels, packed, tree, unpack
from .pages import answer_json, render
from .streams import slot

MOST_DIGITS = 400  # of n
FACTORING_SECONDS = 5.0  # for one integer
MOST_PAGES = 1 << 10  # kept in memory

NEIGHBOURS = 4  # integers shown before and after n
CENSUSES = tuple(10**k for k in range(2, 13))  # how common a word is, is counted up to these

# Equal words are searched for by factoring the nearest integers, then with a sieve.
FACTORED = 100
SIEVED = 1 << 22
SIEVE_BELOW = 10**15  # from here on the sieve's primes would take too long


def prepare() -> None:
    """Do what the first page needs, so that it does not wait."""
    with suppress(RuntimeError):  # the explorer was stopped at once: no new threads can start
        censuses()
        about(2**40)


_censuses: list[Census] = []
_lock = Lock()


def censuses() -> list[Census]:
    """The exact counts of all words up to each of `CENSUSES`; computed once, in a second."""
    with _lock:
        if not _censuses:
            _censuses.extend([census(x, threads=1) for x in CENSUSES])
    return _censuses


def about(n: int) -> dict[str, Any]:
    """All that the page of n shows, as JSON. Integers of any size are strings of digits."""
    if n.bit_length() <= FACTOR_AT_ONCE_BITS:
        return _about(n)
    with slot():
        return _about(n)


@lru_cache(MOST_PAGES)
def _tree(n: int) -> Tree:
    try:
        return tree(n, timeout=FACTORING_SECONDS)
    except InputError:
        limit = f"{FACTORING_SECONDS:g} seconds"
        raise InputError(f"{len(str(n))} digits were not factored within {limit}.") from None


@lru_cache(MOST_PAGES)
def _about(n: int) -> dict[str, Any]:
    shown = _tree(n)
    smallest = least_labels(shown)
    exponents = [child.value for child in shown.children]
    facts = {
        "n": str(n),
        "formula": shown.formula(),
        "word": shown.word,
        "packed": str(shown.packed),
        "height": shown.height,
        "edges": shown.edges,
        "leaves": shown.leaves,
        "omega": len(exponents),
        "big_omega": sum(exponents),
        "mobius": (-1) ** len(exponents) if is_square_free(shown.word) else 0,
        "divisors": str(prod(a + 1 for a in exponents)),
        "least": {"n": str(smallest.value), "formula": smallest.formula()},
        "tree": _children(shown),
        "counts": _counts(shown.packed) if n > 1 else [],
    }
    if not 2 <= n < MAX:
        return facts | {"same_word": None, "neighbours": []}
    around = range(max(1, n - NEIGHBOURS), min(MAX - 1, n + NEIGHBOURS) + 1)
    return facts | {
        "same_word": {"previous": _nearest(n, -1), "next": _nearest(n, 1)},
        "neighbours": [{"n": str(m), "word": unpack(packed(m))} for m in around],
    }


def _children(shown: Tree) -> list[dict[str, Any]]:
    return [{"prime": str(c.label), "children": _children(c)} for c in shown.children]


def _counts(word: int) -> list[dict[str, Any]]:
    """How often the word occurs among 2..x, and its rank there, for each of `CENSUSES`."""
    rows = []
    for i, counts in enumerate(censuses()):
        count = counts.get(word, 0)
        share = count / (counts.x - 1)
        rank = _ranks(i).get(count)
        rows.append({"x": str(counts.x), "count": str(count), "share": share, "rank": rank})
    return rows


@cache
def _ranks(i: int) -> dict[int, int]:
    """The rank of each count in a census: words with equal counts share the rank of the first."""
    ranks: dict[int, int] = {}
    for rank, count in enumerate(sorted(censuses()[i].values(), reverse=True), start=1):
        ranks.setdefault(count, rank)
    return ranks


def _nearest(n: int, step: int) -> dict[str, Any]:
    """The nearest integer after n (step 1) or before n (−1) with the same word.

    `n` is None if there is none among the `searched` integers.
    """
    word, searched = packed(n), 0
    for m in range(n + step, n + step * (FACTORED + 1), step):
        if not 2 <= m < MAX:
            break
        searched += 1
        if packed(m) == word:
            return {"n": str(m), "searched": searched}
    else:
        if n < SIEVE_BELOW:
            for lo, hi in _pieces(n + step * searched, step):
                places = np.flatnonzero(words_in_buffer(lo, hi) == np.uint64(word))
                if len(places):
                    return {"n": str(lo + int(places[0 if step > 0 else -1])), "searched": None}
                searched += hi - lo
    return {"n": None, "searched": searched}


def _pieces(n: int, step: int) -> Iterator[tuple[int, int]]:
    """Ranges that cover the next `SIEVED` integers after n, or before it, the nearest first."""
    size = 1 << 16
    if step > 0:
        yield from spans(n + 1, n + 1 + SIEVED, size)
    else:
        yield from reversed(list(spans(max(2, n - SIEVED), n, size)))


def parse(written: str) -> int:
    """The n of an address; refused if it is not one that the explorer shows."""
    n = parse_integer(written)
    if n < 1:
        raise InputError("0 has no tree: integers here begin at 1.")
    if n >= 10**MOST_DIGITS:
        raise InputError(f"This number is too long: at most {MOST_DIGITS} digits are factored.")
    return n


def page(request: Request) -> Response:
    written = request.path_params["n"]
    n = parse(written)
    if written != str(n):
        return RedirectResponse(f"/n/{n}")
    facts = about(n)
    around = [neighbour["n"] for neighbour in facts["neighbours"]]
    return render(
        request,
        "number",
        tree=_tree(n),
        least_tree=least_labels(_tree(n)),
        chart=_chart(facts["counts"]),
        words=len(censuses()[-1]),
        place=around.index(str(n)) if around else None,
        **{name: value for name, value in facts.items() if name != "tree"},
    )


def go(request: Request) -> Response:
    """The form at the top of every page."""
    return RedirectResponse(f"/n/{parse(request.query_params.get('n', ''))}")


def json(request: Request) -> Response:
    return answer_json(about(parse(request.path_params["n"])))


def _chart(counts: list[dict[str, Any]]) -> list[Mapping[str, Any]]:
    """The bars of the chart of shares: the largest has the full height."""
    largest = max((row["share"] for row in counts), default=0.0)
    return [
        {**row, "power": len(row["x"]) - 1, "height": row["share"] / largest if largest else 0.0}
        for row in counts
    ]


routes = [
    Route("/n", go),
    Route("/n/{n}", page),
    Route("/api/n/{n}", json),
]
