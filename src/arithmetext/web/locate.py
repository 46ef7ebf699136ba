"""/locate: where a run of words stands in the text, found from its residues, prime by prime."""

import math
import random
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from threading import Event
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import InputError
from ..search.answers import Answer, explain
from ..search.beam import BeamState, Watch
from ..search.locate import DEFAULT_BELOW, EXHAUSTIVE_BELOW, locate
from ..search.sentences import Pattern, parse_sentence
from ..text.ranges import MAX
from ..text.sieve import words
from ..trees import unpack
from . import parameters
from .pages import answer_json, render
from .streams import Line, LineStream

MOST_WORDS = 256  # the most that one search uses
MOST_CHARACTERS = 16 << 10  # 256 words of up to 62 digits
EXAMPLE_WORDS = 64
EXAMPLE_FROM = 10**6


class _Stopped(Exception):
    """The reader of a search left."""


def search(sentence: Pattern, below: int) -> Generator[Line, None, None]:
    """The answer of `nt locate`, and before it what is known of n after each prime.

    The search runs on a thread of its own. Whenever it is watched, it sends a line, or ends if the
    generator was closed.
    """
    lines: SimpleQueue[Line | None] = SimpleQueue()
    closed = Event()

    def watching(line: Any) -> Watch:
        def watch(state: BeamState) -> None:
            if closed.is_set():
                raise _Stopped
            lines.put(line(state))

        return watch

    def run() -> Answer:
        found = locate(sentence, below, watch=watching(_Steps().line))
        return explain(sentence, found, watch=watching(lambda state: {"near": True}))

    yield {"words": len(sentence), "below": str(below)}
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(run)
        answer.add_done_callback(lambda _: lines.put(None))
        try:
            while (line := lines.get()) is not None:
                yield line
        finally:
            closed.set()
    yield {"answer": _facts(answer.result())}


class _Steps:
    """The states of a search as lines; an empty line says that the search goes on."""

    def __init__(self) -> None:
        self.powers: dict[int, int] = {}  # by prime: the power that the search has used
        self.modulus = 1

    def line(self, state: BeamState) -> Line:
        if state.p == 1:
            self.powers, self.modulus = {}, 1
        if state.modulus == self.modulus:
            return {}
        self.powers[state.p] = state.modulus // self.modulus
        self.modulus = state.modulus
        return {
            "step": {
                "from": str(state.lo),
                "to": str(state.hi - 1),
                "p": state.p,
                "modulus": str(state.modulus),
                "residues": len(state.residues),
                "integers": state.integers,
                "known": [_known(state, p, q) for p, q in self.powers.items()],
            }
        }


def _known(state: BeamState, p: int, q: int) -> dict[str, Any]:
    """What is known of n modulo p, and the likeliest residue modulo its power q."""
    by_power = state.probabilities(q)
    likeliest = int(by_power.argmax())
    return {
        "p": p,
        "q": q,
        "shares": [round(share, 4) for share in state.probabilities(p).tolist()],
        "residue": likeliest,  # modulo q
        "share": round(float(by_power[likeliest]), 4),
    }


def _facts(answer: Answer) -> dict[str, Any]:
    """An answer as JSON; integers are strings of digits."""
    found, law, near = answer.found, answer.law, answer.near
    return {
        "places": [str(n) for n in answer.shown],
        "found": len(found.places),
        "complete": found.complete,
        "too_short": found.too_short,
        "expected_by_chance": found.expected if math.isfinite(found.expected) else None,
        "verdict": answer.verdict,
        "law": law
        and {"first_word": law[0] + 1, "last_word": law[1], "sentence": answer.law_in_words},
        "near": near
        and {
            "place": str(near.place),
            "sentence": answer.near_in_words,
            "differs": [
                {"word": i, "there": there, "here": here} for i, there, here in answer.differing
            ],
        },
    }


def _below(request: Request) -> int:
    return parameters.integer(request, "below", str(DEFAULT_BELOW), least=3, most=MAX)


def stream(request: Request) -> Response:
    written = parameters.text(request, "words", most=MOST_CHARACTERS)
    if not written.split():
        raise InputError('there are no words: write some, such as "1010 10 11011000"')
    sentence = parse_sentence(written)
    if len(sentence) > MOST_WORDS:
        raise InputError(f"these are {len(sentence)} words: at most {MOST_WORDS} are located")
    return LineStream(search(sentence, _below(request)))


def example(request: Request) -> Response:
    """Words from a random place: all sizes of integers are equally likely."""
    n = int(10 ** random.uniform(math.log10(EXAMPLE_FROM), math.log10(DEFAULT_BELOW)))
    return answer_json({"words": [unpack(int(w)) for w in words(n, n + EXAMPLE_WORDS, threads=1)]})


def page(request: Request) -> Response:
    return render(
        request,
        "locate",
        words=parameters.text(request, "words", "", most=MOST_CHARACTERS),
        below=parameters.text(request, "below", "1e15", most=parameters.MOST_CHARACTERS),
        most_words=MOST_WORDS,
        most_characters=MOST_CHARACTERS,
        example_words=EXAMPLE_WORDS,
        exhaustive_below=f"{EXHAUSTIVE_BELOW:,}",
    )


routes = [
    Route("/locate", page),
    Route("/api/locate", stream),
    Route("/api/locate/example", example),
]
