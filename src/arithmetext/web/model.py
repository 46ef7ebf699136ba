"""/model?at=1e13: how a model continues the text from n on, beside the true words."""

from collections.abc import Generator
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from ..errors import InputError
from ..integers import format_integer
from ..models.config import PACKAGED
from ..models.names import baseline
from ..text.ranges import MAX
from ..text.sieve import words
from ..training.config import Config
from ..trees import unpack
from .pages import answer_json, render
from .parameters import choice, integer, number
from .report import RUNS, folders
from .streams import Line, LineStream, slot

if TYPE_CHECKING:
    from ..models.oracle import Oracle

BASELINES = ("oracle-13", "ngram-8", "locator")
BOUNDS = ("13", "31", "7", "61")  # of primes modulo whose powers the oracle knows n
LIKELIEST = 5  # words of the oracle that are listed

MOST_WORDS = 200
MOST_AT = MAX - (1 << 12)  # the locator looks a little ahead
MOST_SEED = (1 << 63) - 1
MOST_LAYERS = 1000  # more than any model has

# The oracle is estimated from 5 million integers after n, which must be of the size of n.
LEAST_ORACLE, MOST_ORACLE = 5 * 10**7, 10**17
_SHARED = 1 << 19  # integers that one oracle answers for: half of those that it could


def offered(request: Request) -> dict[str, str]:
    """The models that may be asked for: what `evaluation.subjects` calls each, by its name here."""
    folder, given = request.app.state.folder, request.app.state.models
    runs = sorted(folders(folder, RUNS, "model/config.json"))
    return (
        {name: name for name in given}
        | {name: name for name, folder in PACKAGED.items() if folder.is_dir()}
        | {f"{RUNS}/{run.name}": str(run) for run in runs if _predicts_next_tokens(run)}
        | {name: name for name in BASELINES}
    )


def _predicts_next_tokens(run: Any) -> bool:
    try:
        return Config.load(run / "config.json").task == "ntp"
    except InputError:
        return False


def unfinished(request: Request) -> list[str]:
    """The runs of next-token models that have no model yet."""
    return [
        f"{RUNS}/{run.name}"
        for run in sorted(folders(request.app.state.folder, RUNS, "config.json"))
        if _predicts_next_tokens(run) and not (run / "model" / "config.json").exists()
    ]


def _where(request: Request) -> tuple[int, int]:
    at = integer(request, "at", "1e13", least=2, most=MOST_AT)
    return at, integer(request, "words", "40", least=1, most=MOST_WORDS)


def _source(request: Request) -> tuple[str, str]:
    """The model that is asked for: its name here, and what `evaluation.subjects` calls it."""
    models = offered(request)
    name = choice(request, "model", list(models))
    return name, models[name]


def _check_source(source: str, at: int) -> None:
    """Refuse an n for which no oracle can be estimated, if the model is an oracle."""
    if (baseline(source) or ("",))[0] == "oracle":
        _check_oracle(at)


def _check_oracle(at: int) -> None:
    if not LEAST_ORACLE <= at <= MOST_ORACLE:
        raise InputError(
            "The oracle is estimated from millions of integers of the size of n, so n must be from"
            f" {format_integer(LEAST_ORACLE)} to {format_integer(MOST_ORACLE)} for it."
        )


def _chance(request: Request) -> tuple[float, int]:
    beta = number(request, "beta", "inf", least=0, most=inf)
    if beta == 0:
        raise InputError("beta must be above 0, or inf for the likeliest token.")
    return beta, integer(request, "seed", "0", least=0, most=MOST_SEED)


def _head(request: Request) -> tuple[int | None, int]:
    layer = None
    if request.query_params.get("layer"):
        layer = integer(request, "layer", least=1, most=MOST_LAYERS)
    return layer, integer(request, "head", "1", least=1, most=MOST_LAYERS)


def page(request: Request) -> Response:
    _, count = _where(request)
    name, _ = _source(request)
    beta, seed = _chance(request)
    layer, head = _head(request)
    return render(
        request,
        "model",
        at=request.query_params.get("at", "1e13"),
        count=count,
        most_words=MOST_WORDS,
        models=list(offered(request)),
        unfinished=unfinished(request),
        model=name,
        beta=f"{beta:g}",
        seed=seed,
        bounds=sorted(BOUNDS, key=int),
        # An oracle is not compared with itself, unless the address says so.
        bound=choice(request, "bound", sorted(BOUNDS, key=lambda each: name == f"oracle-{each}")),
        layer=layer,
        head=head,
        fold=integer(request, "fold", "6", least=2, most=61),
    )


def continued(request: Request) -> Response:
    at, count = _where(request)
    _, source = _source(request)
    beta, seed = _chance(request)
    _check_source(source, at)

    def lines() -> Generator[Line, None, None]:
        from .continuation import continuation

        yield from continuation(source, at, count, beta=beta, seed=seed)

    return LineStream(lines())


def attention(request: Request) -> Response:
    at = integer(request, "at", "1e13", least=2, most=MOST_AT)
    _, source = _source(request)
    layer, head = _head(request)
    _check_source(source, at)
    with slot():
        from . import continuation

        return answer_json(continuation.attention(source, at, layer, head))


def oracle(request: Request) -> Response:
    at, count = _where(request)
    bound = int(choice(request, "bound", BOUNDS))
    _check_oracle(at)
    with slot():
        estimated = _oracle(bound, at - at % _SHARED)
    true = words(at, at + count, threads=1).tolist()
    rows = [_guess(estimated, n, truth) for n, truth in enumerate(true, at)]
    right = sum(row["truth"] == row["likeliest"][0]["word"] for row in rows)
    return answer_json({"bound": bound, "right": right, "words": rows})


@lru_cache(8)
def _oracle(bound: int, at: int) -> "Oracle":
    from ..models.oracle import Oracle
    from ..tokens import WordTokens

    # It predicts words here, and no tokens, so any tokens will do.
    return Oracle.estimate(bound, at, tokens=WordTokens.commonest(8, x=100))


def _guess(estimated: "Oracle", n: int, truth: int) -> dict[str, Any]:
    """The likeliest words of n, and the probability of the true one."""
    possible, probabilities = estimated.word_distribution(n)
    order = np.argsort(-probabilities, kind="stable")[:LIKELIEST]
    return {
        "n": str(n),
        "truth": unpack(truth),
        "truth_probability": float(probabilities[possible == truth].sum()),
        "likeliest": [
            {"word": unpack(int(possible[i])), "probability": float(probabilities[i])}
            for i in order
        ],
    }


routes = [
    Route("/model", page),
    Route("/api/model", continued),
    Route("/api/oracle", oracle),
    Route("/api/attention", attention),
]
