"""`nt evaluate` and `nt generate`."""

import json
import sys
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import cost
from ..integers import format_integer, parse_integer
from ..trees import unpack
from .options import AsJson, Seed, at_least, one_of

if TYPE_CHECKING:
    from rich.text import Text

MOST_WORDS = 10**6  # of `nt generate`; a GPT on a CPU generates these in hours
MOST_PROMPTS = 10**6  # of `nt evaluate`; more would only improve the third digit of accuracies
WORDS_SHOWN = 12  # in the table of `nt evaluate`

Model = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Folder of a run, or a baseline: locator, ngram-K or oracle-B.",
        autocompletion=one_of(
            lambda: [*sorted(map(str, Path("runs").glob("*"))), "locator", "ngram-8", "oracle-13"]
        ),
    ),
]


def evaluate(
    run: Model,
    at: Annotated[
        list[str] | None,
        typer.Option(metavar="N", help="Measure near N; may be repeated.  [default: 1e13]"),
    ] = None,
    prompts: Annotated[
        int,
        typer.Option(parser=at_least(8, MOST_PROMPTS), metavar="K", help="Number of prompts."),
    ] = 128,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Measure a model on text it was not trained on.

    Measures the accuracy of continuations, and compares the likelihood of the text with that of
    made-up text; for a masked model, the share of masked tokens that are predicted right. Intervals
    are 95 % intervals. A GPT reads its whole context again for each token, so use a GPU for large
    models. The baselines are the locator, n-grams of K words (such as ngram-8), and the oracle,
    which knows n modulo all powers of the primes up to B (such as oracle-13).
    """
    from dataclasses import replace

    from ..evaluation import subjects
    from ..evaluation.evaluate import SEQUENCES_PER_PROMPT
    from ..evaluation.evaluate import evaluate as measure
    from ..text.splits import unseen

    places = [parse_integer(n) for n in at or ["1e13"]]
    subject = subjects.subject(run, places[0])
    for n in places:
        unseen(n, subject.seen)  # refuse bad places before measuring anything
    needed = cost.evaluation(
        prompts,
        subject.context,
        subject.model.parameter_count,
        generates=subject.model.causal,
        gpu=subject.model.device.type == "cuda",
    )
    cost.check(replace(needed, seconds=needed.seconds * len(places)))
    report: dict[str, Any] = {
        "run": run,
        "model": subject.model.description,
        "context": subject.context,
        "prompts": prompts,
        "sequences": SEQUENCES_PER_PROMPT * prompts,
        "seed": seed,
        "windows": [],
    }
    if not as_json:
        print(f"{subject.model.description} ({run})")
    for n in places:
        if subject.model.at not in (None, n):
            subject = subjects.subject(run, n)
        report["windows"].append(measure(subject, n, prompts=prompts, seed=seed))
        if not as_json:
            _show(report, report["windows"][-1])
    if as_json:
        print(json.dumps(report, allow_nan=False))


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

    The baselines are the locator, n-grams of K words (such as ngram-8), and the oracle, which knows
    n modulo all powers of the primes up to B (such as oracle-13).
    """
    from rich.console import Console

    from ..evaluation import subjects
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
            "model": subject.model.description,
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
    console.print(f"{subject.model.description} ({run})")
    console.print(f"prompt: the last {subject.context} tokens before {n}; β = {_beta(beta)}")
    if any(n < hi and lo < n + words for lo, hi in subject.trained):
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


# What `nt evaluate` prints

QUARTER = "a quarter of the context"


def _show(report: dict[str, Any], window: dict[str, Any]) -> None:
    lo, hi = window["window"]
    print(
        f"\nat {format_integer(window['at'])}: integers from {lo} to {hi - 1}, random seed"
        f" {report['seed']}"
    )
    if "masked" in window:
        _show_masked(report, window["masked"])
        return
    made = window["generation"]
    print(
        f"{report['prompts']} prompts of {report['context']} tokens, each continued by"
        f" {made['tokens']} tokens"
    )
    strides = {"exact": "stride of one token", "block": f"stride of {QUARTER}"}
    _heading("word accuracy of the continuations, β = ∞")
    for name, quality in made["slides"].items():
        _line(strides[name] if len(made["slides"]) > 1 else "all tokens", quality["accuracy"])
    for row in made["by_tokens"]:
        if row["tokens"] in (16, 128) and row["tokens"] < made["tokens"]:
            _line(f"first {row['tokens']} generated tokens", row["accuracy"])
    _heading("loss on the true text after the prompts")
    _line("nats per word, given the true words before it", window["nats_per_word"])
    exact = made["slides"]["exact"]
    _heading("word frequencies of the continuations compared with the true text, β = ∞")
    _line("the paper's KL, over generated words only, nats", exact["kl_paper"])
    _line("share of true words that the paper's KL ignores", exact["kl_left_out"])
    _line("Kullback–Leibler divergence where it is finite, nats", exact["kl_where_finite"])
    _line("share of prompts with infinite divergence", exact["kl_infinite"])
    _line("Jensen–Shannon divergence, nats", exact["jensen_shannon"])
    _line("share of malformed words", exact["malformed"])
    if len(made["betas"]) > 1:
        _heading(
            "by inverse temperature β"
            + (f", with a stride of {QUARTER}" if "block" in made["slides"] else "")
        )
        print(f"  {'β':>5}  {'accuracy':24}{'KL of the paper':24}{'Jensen–Shannon':24}malformed")
        for row in made["betas"]:
            columns = ("accuracy", "kl_paper", "jensen_shannon", "malformed")
            print(f"  {_beta(row['beta']):>5}  {_estimates(row, columns)}")
    _heading("the commonest words: times in the true text, times generated, and scores")
    print(f"  {'word':14} {'true':>6} {'generated':>9}  {'precision':24}{'recall':24}F1")
    for row in made["words"][:WORDS_SHOWN]:
        scores = _estimates(row, ("precision", "recall", "f1"))
        print(f"  {row['word']:14} {row['true']:6} {row['predicted']:9}  {scores}")
    print(f"  words generated at primes: {_shares(made['primes']['generated'])}")
    print(f"  true words where primes are generated: {_shares(made['primes']['standing'])}")
    aligned = made["alignment"]
    _heading("collapse, and slips: a word skipped or added, which shifts all later words")
    _line("chance level: accuracy of unrelated words", aligned["chance"])
    _line("share of continuations that collapse (chance level)", aligned["collapsed"])
    _line("share of collapses that a shift explains", aligned["explained_by_shift"])
    _line("share of continuations that slip", aligned["slipped"])
    _line("accuracy of continuations that slip", aligned["accuracy_of_slipped"])
    _line("accuracy of continuations that do not slip", aligned["accuracy_of_others"])
    _line("accuracy of all continuations after alignment", aligned["realigned_accuracy"])
    shifts = sorted(aligned["last_shifts"].items(), key=lambda item: (-item[1], abs(int(item[0]))))
    listed = ", ".join(f"{_signed(int(shift))} in {count}" for shift, count in shifts[:8])
    print(f"  last shift, in words (+: ahead of the true text): {listed}")
    if "context" in window:
        _show_likelihoods(report, window)
    else:
        print("\nLikelihoods skipped: this model cannot score made-up text.")
    print("\n--json also has all words, the confusion matrix, accuracy by length and each prompt.")


def _show_likelihoods(report: dict[str, Any], window: dict[str, Any]) -> None:
    _heading("prediction of the true text, by the number of true tokens before")
    print(f"  {'from':>5} {'to':>5}  {'token accuracy':24}{'nats per word':24}next-word accuracy")
    for row in window["context"]:
        columns = ("token_accuracy", "nats_per_word", "word_accuracy")
        print(f"  {row['first']:5} {row['last']:5}  {_estimates(row, columns)}")
    rows = window["likelihood"]
    controls = list(dict.fromkeys(row["control"] for row in rows))
    _heading("is true text likelier than made-up text? area under the ROC curve (AUC)")
    print(f"  {report['sequences']} sequences of each length and each kind of made-up text")
    print(f"  {'tokens':>6}  " + " ".join(f"{control:18}" for control in controls).rstrip())
    for length in dict.fromkeys(row["length"] for row in rows):
        areas = [_estimate(row["auc"], places=2) for row in rows if row["length"] == length]
        print(f"  {length:6}  " + " ".join(f"{area:18}" for area in areas).rstrip())
    runs = window["square_free_runs"]
    _heading("prompts of runs of square-free words: log-likelihood per token")
    print(f"  {'':54} {'mean':24} AUC against true prompts")
    _line("true prompts", runs["true"])
    for row in runs["runs"]:
        name = f"runs of {row['run']}" + (", which never occur" if row["run"] > 3 else "")
        _line(name, row["mean"], _estimate(row["auc"]))
    control = window.get("impossible")
    if control is None:
        return
    _heading("four words of the text replaced by equally common words: loss on the four words")
    print(f"  {control['left']} of {control['asked']} places have such words")
    kinds = {
        "true": "true words",
        "here": "words possible here",
        "elsewhere": "words possible elsewhere, but not here",
        "impossible": "impossible words: four square-free in a row",
    }
    for kind, name in kinds.items():
        _line(f"{name}, nats", control["nats"][kind])
    for kind in ("here", "elsewhere"):
        _line(f"impossible less likely than possible {kind}, share", control["paired"][kind])


def _show_masked(report: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    print(
        f"{report['prompts']} windows of {report['context']} tokens; share of masked tokens"
        " predicted right, by the share that is masked and by inverse temperature β"
    )
    betas = list(dict.fromkeys(row["beta"] for row in rows))
    print(f"\n  {'masked':>6}  " + " ".join(f"{f'β = {_beta(b)}':>8}" for b in betas))
    for share in dict.fromkeys(row["masked"] for row in rows):
        found = [row["accuracy"] for row in rows if row["masked"] == share]
        print(f"  {share:6.0%}  " + " ".join(f"{value['value']:8.3f}" for value in found))
    widest = max((row["accuracy"]["high"] - row["accuracy"]["low"]) / 2 for row in rows)
    print(f"\n  95 % intervals are at most ± {widest:.3f} (--json has each of them)")


def _heading(title: str) -> None:
    print(f"\n{title}")


def _line(name: str, estimate: dict[str, Any], more: str = "") -> None:
    print(f"  {name:54} {_estimate(estimate):24} {more}".rstrip())


def _estimate(estimate: dict[str, Any], places: int = 3) -> str:
    """A value with its interval: "0.426 [0.424, 0.429]"."""
    if estimate["value"] is None:
        return "–"
    value, low, high = (f"{estimate[key]:.{places}f}" for key in ("value", "low", "high"))
    return f"{value} [{low}, {high}]"


def _estimates(row: dict[str, Any], columns: Sequence[str]) -> str:
    return "".join(f"{_estimate(row[column]):24}" for column in columns).rstrip()


def _beta(beta: Any) -> str:
    return "∞" if beta in ("inf", inf) else f"{beta:g}"


def _signed(shift: int) -> str:
    return f"{shift:+d}" if shift else "none"


def _shares(counts: dict[str, int]) -> str:
    """The five commonest words with their shares."""
    total = sum(counts.values())
    shown = [f"{word} {count / total:.0%}" for word, count in list(counts.items())[:5]]
    return ", ".join(shown) or "none"
