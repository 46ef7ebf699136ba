"""`nt evaluate` and `nt generate`."""

import json
import sys
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .cli_options import AsJson, at_least
from .integers import parse_integer, short
from .trees import unpack

if TYPE_CHECKING:
    from rich.text import Text

Model = Annotated[
    str,
    typer.Argument(
        metavar="RUN", help="The folder of a run; or locator, ngram-8, oracle-13 and the like."
    ),
]
Seed = Annotated[int, typer.Option(parser=at_least(0), metavar="K", help="Of all chance.")]


def evaluate(
    run: Model,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="N", help="Where to measure; may be repeated [1e13]."),
    ] = None,
    prompts: Annotated[
        int, typer.Option(parser=at_least(2), metavar="K", help="How many to continue.")
    ] = 128,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Measure a model on text it was not trained on.

    Continuations word by word, likelihoods of the text and of what is made up, square-free runs; or
    for a model of masked text the tokens it finds. Intervals are of 95 %.
    """
    from .evaluation import subjects
    from .evaluation.evaluate import SCORED
    from .evaluation.evaluate import evaluate as measure

    places = [parse_integer(n) for n in at or ["1e13"]]
    report: dict[str, Any] = {"run": run}
    windows = report["windows"] = []
    for n in places:
        subject = subjects.subject(run, n)
        if not windows:
            report |= {
                "model": subject.kind,
                "context": subject.context,
                "prompts": prompts,
                "sequences": SCORED * prompts,
                "seed": seed,
            }
            if not as_json:
                print(f"{run}: {subject.kind}")
        windows.append(measure(subject, n, prompts=prompts, seed=seed))
        if not as_json:
            _show(report, windows[-1])
    if as_json:
        print(json.dumps(report))


def generate(
    run: Model,
    at: Annotated[str, typer.Option(metavar="N", help="The integer to begin with.")] = "1e13",
    words: Annotated[
        int, typer.Option(parser=at_least(1), metavar="K", help="How many words.")
    ] = 60,
    beta: Annotated[
        float, typer.Option(metavar="B", help="Inverse temperature, 0.1 to inf.")
    ] = inf,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Have a model go on with the text, and show the truth beside it."""
    from rich.console import Console

    from .evaluation.generation import next_words
    from .evaluation.prompts import before
    from .evaluation.subjects import subject
    from .evaluation.words import hits

    n = parse_integer(at)
    asked = subject(run, n)
    prompt = before(asked.tokenizer, n, length=asked.context)
    first = int(prompt.places[0])  # its word may have begun inside the prompt
    count = n - first + words
    said = next_words(asked.model, prompt, count, beta=beta, seed=seed)
    [there] = prompt.true_words([count])
    right = hits(said, there)
    rows = [(first + i, unpack(int(there[i])), _word(said, i)) for i in range(count)]
    if as_json:
        about = {"run": run, "beta": _beta(beta), "seed": seed, "right": right}
        keys = ("n", "truth", "prediction")
        print(json.dumps(about | {"words": [dict(zip(keys, row, strict=True)) for row in rows]}))
        return
    console = Console(file=sys.stdout, highlight=False, soft_wrap=True)
    known = any(lo <= n < hi for lo, hi in asked.trained)
    trained = "; it was trained on this text" if known else ""
    console.print(f"{run}: {asked.kind}")
    [begun] = prompt.begun()
    inside = f", the last of which begin its word, {begun}…" if begun else ""
    console.print(
        f"given {asked.context} tokens before {first}{inside}; β = {_beta(beta)}{trained}\n"
    )
    digits, width = len(str(first + count)), max(len("truth"), *(len(row[1]) for row in rows))
    console.print(f"{'n':>{digits}}    {'truth':{width}}  prediction", style="bold")
    for row in rows:
        console.print(_row(*row, digits, width))
    console.print(f"\n{right} of {count} words are right: {right / count:.3f}")


def _word(said: Any, i: int) -> str:
    """A predicted word; what is malformed or missing is shown as such."""
    if i >= len(said):
        return "(none)"
    return unpack(int(said[i])) or "(malformed)"


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


# What `nt evaluate` prints


def _show(report: dict[str, Any], window: dict[str, Any]) -> None:
    lo, hi = window["window"]
    print(f"\nat {short(window['at'])}: integers from {lo} to {hi - 1}, seed {report['seed']}")
    if "masked" in window:
        _show_masked(report, window["masked"])
        return
    made = window["generation"]
    print(
        f"{report['prompts']} prompts of {report['context']} tokens, continued by {made['tokens']}"
    )
    slides = {"exact": "window read for each token", "block": "a quarter forgotten at once"}
    _heading("word accuracy")
    for name, quality in made["slides"].items():
        about = slides[name] if len(made["slides"]) > 1 else "greedy"
        _line(about, quality["accuracy"])
    for row in made["by_tokens"]:
        if row["tokens"] in (16, 128) and row["tokens"] < made["tokens"]:
            _line(f"of the first {row['tokens']} tokens", row["accuracy"])
    _line("nats a word, given true ones", window["nats_per_word"])
    best = made["slides"]["exact"]
    _heading("frequencies of words against the true ones, by prompt")
    _line("the paper's KL", best["kl_paper"], "over words that are generated")
    _line("which leaves out", best["kl_left_out"], "of the true words")
    _line("Kullback–Leibler divergence", best["kl_where_finite"], "where it is finite")
    _line("infinite for", best["kl_infinite"], "of the prompts")
    _line("Jensen–Shannon divergence", best["jensen_shannon"])
    _line("malformed words", best["malformed"])
    if len(made["betas"]) > 1:
        _heading("inverse temperature")
        print(f"  {'β':>5}  {'accuracy':22} {'paper KL':22} {'Jensen–Shannon':22} malformed")
        for row in made["betas"]:
            columns = ("accuracy", "kl_paper", "jensen_shannon", "malformed")
            print(f"  {_beta(row['beta']):>5}  {_estimates(row, columns)}")
    _heading("words")
    print(f"  {'word':16} {'true':>7} {'generated':>9}  {'precision':22} {'recall':22} F1")
    for row in made["words"][:SHOWN]:
        scores = _estimates(row, ("precision", "recall", "f1"))
        print(f"  {unpack(row['word']):16} {row['true']:7} {row['predicted']:9}  {scores}")
    primes = made["primes"]
    print(f"  generated where primes stand: {_shares(primes['generated'])}")
    print(f"  stands where primes are generated: {_shares(primes['standing'])}")
    aligned = made["alignment"]
    _heading("collapse: an accuracy that is no more than chance")
    _line("chance", aligned["chance"])
    _line("collapsed continuations", aligned["collapsed"])
    _line("explained by a shift", aligned["explained_by_shift"], "of these")
    _line("continuations that slip", aligned["slipped"])
    _line("accuracy at their own shifts", aligned["realigned_accuracy"])
    shifts = sorted(aligned["last_shifts"].items(), key=lambda item: -item[1])[:8]
    print(f"  words left out (−: put in) at the end: {', '.join(f'{s}: {k}' for s, k in shifts)}")
    if "context" in window:
        _show_likelihoods(report, window)


def _show_likelihoods(report: dict[str, Any], window: dict[str, Any]) -> None:
    _heading("with so many tokens before, all true")
    print(f"  {'from':>5} {'to':>5}  {'token accuracy':22} {'nats a word':22} next word right")
    for row in window["context"]:
        columns = ("token_accuracy", "nats_per_word", "word_accuracy")
        print(f"  {row['first']:5} {row['last']:5}  {_estimates(row, columns)}")
    rows = window["likelihood"]
    controls = list(dict.fromkeys(row["control"] for row in rows))
    _heading("is the text likelier than what is made up? area under the ROC curve")
    print(f"  {report['sequences']} sequences of each kind and length")
    print(f"  {'tokens':>6}  " + " ".join(f"{control:18}" for control in controls).rstrip())
    for length in dict.fromkeys(row["length"] for row in rows):
        areas = [_estimate(row["auc"], places=2) for row in rows if row["length"] == length]
        print(f"  {length:6}  " + " ".join(f"{area:18}" for area in areas).rstrip())
    runs = window["square_free_runs"]
    _heading("prompts of runs of square-free words, log-likelihood a token")
    print(f"  {'':30} {'':26} area against true ones")
    _line("true prompts", runs["true"])
    for row in runs["runs"]:
        name = f"runs of {row['run']}" + (", which never occur" if row["run"] > 3 else "")
        print(f"  {name:30} {_estimate(row['mean']):26} {_estimate(row['auc'])}")
    control = window["impossible"]
    _heading("four words put into the text, equally common ones; nats for all four")
    names = {
        "true": "the true ones",
        "here": "arithmetic allows them here",
        "elsewhere": "allows them, but not here",
        "impossible": "impossible: all square-free",
    }
    for kind, name in names.items():
        _line(name, control["nats"][kind])
    for kind in ("here", "elsewhere"):
        _line("likelier than impossible", control["paired"][kind], f"of those it allows {kind}")


def _show_masked(report: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    print(
        f"{report['prompts']} windows of {report['context']} tokens; share of hidden tokens found"
    )
    betas = list(dict.fromkeys(row["beta"] for row in rows))
    print(f"\n  {'masked':>6}  " + " ".join(f"{f'β = {_beta(b)}':>8}" for b in betas))
    for share in dict.fromkeys(row["masked"] for row in rows):
        found = [row["accuracy"] for row in rows if row["masked"] == share]
        print(f"  {share:6.0%}  " + " ".join(f"{value['value']:8.3f}" for value in found))
    widest = max((row["accuracy"]["high"] - row["accuracy"]["low"]) / 2 for row in rows)
    print(f"\n  intervals are ± {widest:.3f} at the most (--json has each)")


SHOWN = 12  # words


def _heading(title: str) -> None:
    print(f"\n{title}")


def _line(name: str, estimate: dict[str, Any], about: str = "") -> None:
    print(f"  {name:30} {_estimate(estimate):22} {about}".rstrip())


def _estimate(estimate: dict[str, Any], places: int = 3) -> str:
    """A figure and its interval."""
    if estimate["value"] is None:
        return "–"
    value, low, high = (f"{estimate[key]:.{places}f}" for key in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


def _estimates(row: dict[str, Any], columns: Sequence[str]) -> str:
    return " ".join(f"{_estimate(row[column]):22}" for column in columns).rstrip()


def _beta(beta: Any) -> str:
    return "∞" if beta in ("inf", inf) else f"{beta:g}"


def _shares(counts: list[list[int]]) -> str:
    """The commonest of some words, with their shares."""
    total = sum(count for _, count in counts)
    shown = [f"{unpack(word) or 'malformed'} {count / total:.0%}" for word, count in counts[:5]]
    return ", ".join(shown) or "there are none"
