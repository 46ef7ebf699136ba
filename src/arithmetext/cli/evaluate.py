"""`nt evaluate` and `nt generate`."""

import json
import sys
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..integers import parse_integer
from ..models.config import PACKAGED
from ..trees import unpack
from .options import AsJson, Seed, at_least, check_distinct, one_of

if TYPE_CHECKING:
    from rich.text import Text

MOST_WORDS = 10**6  # of `nt generate`; a GPT on a CPU generates these in hours
MOST_PROMPTS = 10**6  # of `nt evaluate`; more would only improve the third digit of accuracies
WITHOUT_A_FOLDER = (*PACKAGED, "locator", "ngram-8", "oracle-13")  # models, for completion


def run_folders() -> Iterator[str]:
    """The folders of runs, where `nt train` puts them."""
    return (str(path.parent) for path in Path("runs").glob("*/config.json"))


complete_model = one_of(lambda: [*sorted(run_folders()), *WITHOUT_A_FOLDER])
Model = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Folder of a run, pretrained, longconv, record, or a baseline: locator, ngram-K or"
        " oracle-B.",
        autocompletion=complete_model,
    ),
]


def evaluate(
    run: Model,
    at: Annotated[
        list[int] | None,
        typer.Option(
            parser=at_least(2),
            metavar="N",
            help="Measure near N; may be repeated.  [default: 1e13]",
        ),
    ] = None,
    prompts: Annotated[
        int,
        typer.Option(
            parser=at_least(8, MOST_PROMPTS), metavar="K", help="Number of prompts, 8 or more."
        ),
    ] = 128,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Measure a model on text it was not trained on.

    Measures the accuracy of continuations, and compares the likelihood of the text with that of
    made-up text; for a masked model, the share of masked tokens that are predicted right. Intervals
    are 95 % intervals. A GPT reads its whole context again for each token, so use a GPU for large
    models.

    Three trained models come with the package: `pretrained` is a small GPT, `longconv` has long
    convolutions instead of attention, and `record`, the most accurate near 10^13, tracks n modulo
    prime powers. The baselines are the locator, n-grams of K words (such as ngram-8), and the
    oracle, which knows n modulo all powers of the primes up to B (such as oracle-13).
    """
    from ..evaluation.report import evaluations

    places = at or [10**13]
    check_distinct("--at", places)
    found = []
    for evaluation in evaluations(run, places, prompts=prompts, seed=seed):
        found.append(evaluation)
        if not as_json:
            print(evaluation, end="\n\n", flush=True)
    if not as_json:
        print("--json prints all that was measured.")
        return
    about = {name: value for name, value in vars(found[0]).items() if name != "metrics"}
    windows = [evaluation.metrics for evaluation in found]
    print(json.dumps(about | {"windows": windows}, allow_nan=False))


def generate(
    run: Model,
    at: Annotated[str, typer.Option(metavar="N", help="First integer to generate.")] = "1e13",
    words: Annotated[
        int, typer.Option(parser=at_least(1, MOST_WORDS), metavar="K", help="Number of words.")
    ] = 60,
    beta: Annotated[
        float,
        typer.Option(
            metavar="B", help="Inverse temperature; inf always takes the likeliest token."
        ),
    ] = inf,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Continue the text with a model, beside the true words.

    Three trained models come with the package: `pretrained` is a small GPT, `longconv` has long
    convolutions instead of attention, and `record`, the most accurate near 10^13, tracks n modulo
    prime powers. The baselines are the locator, n-grams of K words (such as ngram-8), and the
    oracle, which knows n modulo all powers of the primes up to B (such as oracle-13).
    """
    from rich.console import Console

    from ..evaluation import subjects
    from ..evaluation.estimates import format_beta
    from ..evaluation.generation import next_words
    from ..evaluation.prompts import before
    from ..evaluation.words import hits
    from ..text.sieve import check_range
    from ..text.sieve import words as true_words

    n = parse_integer(at)
    check_range(n, n + words)
    subject = subjects.subject(run, n)
    prompt = before(subject.tokenizer, n, length=subject.context)
    # Words between the end of the prompt and n, including one that the prompt cuts; they are
    # generated and dropped.
    dropped = n - int(prompt.integers[0])
    predicted = next_words(subject.model, prompt, dropped + words, beta=beta, seed=seed)[dropped:]
    true = true_words(n, n + words)
    right = hits(predicted, true)
    rows = [(n + i, unpack(int(word)), _word(predicted, i)) for i, word in enumerate(true)]
    if as_json:
        about = {
            "run": run,
            "model": subject.description,
            "context": subject.context,
            "at": n,
            "seed": seed,
        }
        keys = ("n", "truth", "prediction")
        answer = {
            "beta": "inf" if beta == inf else beta,
            "right": right,
            "words": [dict(zip(keys, row, strict=True)) for row in rows],
        }
        print(json.dumps(about | answer, allow_nan=False))
        return
    console = Console(file=sys.stdout, highlight=False, markup=False, soft_wrap=True)
    console.print(f"{subject.description} ({run})")
    console.print(f"prompt: the last {subject.context} tokens before {n}; β = {format_beta(beta)}")
    if subject.trained_on(n, n + words):
        console.print("The model was trained on this text.")
    console.print()
    digits, width = len(str(n + words)), max(len("truth"), *(len(row[1]) for row in rows))
    console.print(f"{'n':>{digits}}    {'truth':{width}}  prediction", style="bold")
    for row in rows:
        console.print(_row(*row, digits, width))
    console.print(f"\n{right} of {words} words are right: {right / words:.3f}")


def _word(predicted: Any, i: int) -> str:
    """Predicted word i; (none) if there are fewer words, (malformed) if it is no Dyck word."""
    if i >= len(predicted):
        return "(none)"
    return unpack(int(predicted[i])) or "(malformed)"


def _row(n: int, truth: str, prediction: str, digits: int, width: int) -> "Text":
    from rich.text import Text

    right = truth == prediction
    colour = "green" if right else "red"
    return Text.assemble(
        f"{n:{digits}}  ",
        ("✓" if right else " ", colour),
        f" {truth:{width}}  ",
        (prediction, colour),
    )
