"""/find: all places where a sentence occurs."""

import os
import time
from collections.abc import Generator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import InputError
from ..search.sentences import Pattern, find, law, parse_sentence, possible_starts
from ..text.ranges import spans
from ..text.sieve import piece_size
from ..trees import unpack
from . import parameters
from .number import censuses
from .pages import render
from .streams import Line, LineStream

MOST_WORDS = 64
MOST_CHARACTERS = 4 << 10  # 64 words of up to 62 digits
MOST_INTEGERS = 10**11  # in one search: about four minutes on one core below 10^12
LAST = 10**17  # up to here the sieve's primes take half a second and 70 MB, and each piece 0.1 s
MOST_PLACES = 10_000  # sent; more are only counted
LINE_SECONDS = 0.1  # between two lines
PALETTE = 16  # words to build sentences from

# One core stays free, so that other pages are fast.
THREADS = max(1, (os.cpu_count() or 1) - 1)


def search(sentence: Pattern, lo: int, hi: int) -> Generator[Line, None, None]:
    """The places of a sentence in lo ≤ n < hi, with progress; closing the generator ends it.

    If arithmetic allows certain starts only, these are tested and nothing else is searched.
    """
    allowed = possible_starts(sentence)
    yield {
        "words": ["*" if not word else unpack(word) for word in sentence],
        "from": str(lo),
        "to": str(hi - 1),
        "law": law(sentence),
        "starts": None if allowed is None else [str(n) for n in allowed],
    }
    began = told = time.monotonic()
    if allowed is not None:
        ends = [(n, n + len(sentence)) for n in allowed]
        inside = [(a, b) for a, b in ends if lo <= a and b <= hi]
        tested = [str(n) for a, b in inside for piece in find(sentence, a, b) for n in piece]
        yield {"places": tested, "total": len(tested), "done": 1}
        yield {"total": len(tested), "sent": len(tested), "seconds": _seconds_since(began)}
        return
    total, sent, places = 0, 0, list[str]()
    starts = max(0, hi - lo - len(sentence) + 1)  # integers at which the sentence may begin
    pieces = spans(lo, lo + starts, piece_size(hi))
    # Nothing else refers to this iterator, so it is closed with the generator.
    found = find(sentence, lo, hi, threads=THREADS)
    for piece, (_, end) in zip(found, pieces, strict=True):
        total += len(piece)
        places += [str(n) for n in piece[: MOST_PLACES - sent - len(places)].tolist()]
        now = time.monotonic()
        if now > told + LINE_SECONDS or end == lo + starts:
            rate = (end - lo) / max(now - began, 1e-6)
            yield {
                "places": places,
                "total": total,
                "done": (end - lo) / starts,
                "searched": str(end - 1),
                "rate": round(rate),
                "seconds_left": round((lo + starts - end) / rate, 1),
            }
            sent, places, told = sent + len(places), [], now
    yield {"total": total, "sent": sent, "seconds": _seconds_since(began)}


def _seconds_since(began: float) -> float:
    return round(time.monotonic() - began, 2)


def stream(request: Request) -> Response:
    written = parameters.text(request, "sentence", most=MOST_CHARACTERS)
    sentence = parse_sentence(written)
    if len(sentence) > MOST_WORDS:
        raise InputError(f"this sentence has {len(sentence)} words: at most {MOST_WORDS} are found")
    lo = parameters.integer(request, "from", "2", least=2, most=LAST)
    last = parameters.integer(request, "to", "1e9", least=2, most=LAST)
    if last < lo:
        both = f"“to” ({parameters.short(last)}) is below “from” ({parameters.short(lo)})"
        raise InputError(f"there is nothing to search: {both}")
    if last - lo >= MOST_INTEGERS:
        raise InputError(
            f"these are {parameters.short(last - lo + 1)} integers: at most"
            f" {parameters.short(MOST_INTEGERS)} are searched at once; for more there is nt find"
        )
    return LineStream(search(sentence, lo, last + 1))


def page(request: Request) -> Response:
    return render(
        request,
        "find",
        sentence=parameters.text(request, "sentence", "111000 10", most=MOST_CHARACTERS),
        lo=parameters.text(request, "from", "2", most=parameters.MOST_CHARACTERS),
        to=parameters.text(request, "to", "1e9", most=parameters.MOST_CHARACTERS),
        palette=[unpack(word) for word in list(censuses()[-1])[:PALETTE]],
        most_characters=MOST_CHARACTERS,
        most_words=MOST_WORDS,
    )


routes = [
    Route("/find", page),
    Route("/api/find", stream),
]
