"""Measure a model near one integer: the report that `nt evaluate` prints and notebooks show."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from typing import Any

from .. import cost
from ..display import drawn
from ..errors import InputError
from ..integers import format_integer
from ..text.splits import unseen
from . import subjects
from .codec import from_json
from .estimates import Estimate, format_beta, format_estimate
from .evaluate import SEQUENCES_PER_PROMPT, measure

WORDS_SHOWN = 12  # in the tables of words
QUARTER = "a quarter of the context"


@dataclass(frozen=True)
class Evaluation:
    """What was measured of a model near one integer; `str` makes the text of `nt evaluate`."""

    run: str  # folder of a run, or name of another model
    model: str  # description
    context: int
    prompts: int
    sequences: int  # scored for each likelihood
    seed: int
    metrics: dict[str, Any] = field(repr=False)  # plain data, as `measure` returns it

    def __str__(self) -> str:
        return "\n".join([f"{self.model} ({self.run})", *_lines(self)])

    def _repr_html_(self) -> str:
        return drawn("html.evaluation", self)


def evaluate(
    run: str | PathLike[str], at: int = 10**13, *, prompts: int = 128, seed: int = 0
) -> Evaluation:
    """Measure a model near `at`, on text that it was not trained on.

    The model is the folder of a run, "pretrained", "longconv", "record", or a baseline: locator,
    ngram-K or oracle-B.
    """
    [evaluation] = evaluations(run, [at], prompts=prompts, seed=seed)
    return evaluation


def evaluations(
    run: str | PathLike[str], places: Sequence[int], *, prompts: int, seed: int
) -> Iterator[Evaluation]:
    """Measure a model near each of these integers; if one is refused, nothing is measured."""
    if prompts < 1:
        raise InputError(f"a model needs at least one prompt, not {prompts}")
    name = fspath(run)
    subject = subjects.subject(name, places[0])
    # An oracle answers for one place only.
    measured = [
        subject if subject.model.at in (None, n) else subjects.subject(name, n) for n in places
    ]
    for n in places:
        unseen(n, subject.seen)
    needed = cost.evaluation(
        prompts,
        subject.context,
        subject.model.parameter_count,
        generates=subject.model.causal,
        windowed=subject.model.windowed,
        gpu=subject.model.device.type == "cuda",
    )
    cost.check(replace(needed, seconds=needed.seconds * len(places)))
    for n, subject in zip(places, measured, strict=True):
        yield Evaluation(
            run=name,
            model=subject.description,
            context=subject.context,
            prompts=prompts,
            sequences=SEQUENCES_PER_PROMPT * prompts,
            seed=seed,
            metrics=measure(subject, n, prompts=prompts, seed=seed),
        )


def _lines(report: Evaluation) -> Iterator[str]:
    window = report.metrics
    lo, hi = window["window"]
    yield (
        f"\nat {format_integer(window['at'])}: integers from {lo} to {hi - 1}, random seed"
        f" {report.seed}"
    )
    if "masked" in window:
        yield from _lines_on_masked(report)
        return
    made = window["generation"]
    yield (
        f"{report.prompts} prompts of {report.context} tokens, each continued by"
        f" {made['tokens']} tokens"
    )
    strides = {"exact": "stride of one token", "block": f"stride of {QUARTER}"}
    yield "\nword accuracy of the continuations, β = ∞"
    for name, quality in made["slides"].items():
        yield _line(strides[name] if len(made["slides"]) > 1 else "all tokens", quality["accuracy"])
    for row in made["by_tokens"]:
        if row["tokens"] in (16, 128) and row["tokens"] < made["tokens"]:
            yield _line(f"first {row['tokens']} generated tokens", row["accuracy"])
    yield "\nloss on the true text after the prompts"
    yield _line("nats per word, given the true words before it", window["nats_per_word"])
    exact = made["slides"]["exact"]
    yield "\nword frequencies of the continuations compared with the true text, β = ∞"
    yield _line("the paper's KL, over generated words only, nats", exact["kl_paper"])
    yield _line("share of true words that the paper's KL ignores", exact["kl_left_out"])
    yield _line("Kullback–Leibler divergence where it is finite, nats", exact["kl_where_finite"])
    yield _line("share of prompts with infinite divergence", exact["kl_infinite"])
    yield _line("Jensen–Shannon divergence, nats", exact["jensen_shannon"])
    yield _line("share of malformed words", exact["malformed"])
    if len(made["betas"]) > 1:
        strided = f", with a stride of {QUARTER}" if "block" in made["slides"] else ""
        yield f"\nby inverse temperature β{strided}"
        yield f"  {'β':>5}  {'accuracy':24}{'KL of the paper':24}{'Jensen–Shannon':24}malformed"
        for row in made["betas"]:
            columns = ("accuracy", "kl_paper", "jensen_shannon", "malformed")
            yield f"  {format_beta(float(row['beta'])):>5}  {_estimates(row, columns)}"
    yield "\nthe commonest words: times in the true text, times generated, and scores"
    yield f"  {'word':14} {'true':>6} {'generated':>9}  {'precision':24}{'recall':24}F1"
    for row in made["words"][:WORDS_SHOWN]:
        scores = _estimates(row, ("precision", "recall", "f1"))
        yield f"  {row['word']:14} {row['true']:6} {row['predicted']:9}  {scores}"
    yield f"  words generated at primes: {_shares(made['primes']['generated'])}"
    yield f"  true words where primes are generated: {_shares(made['primes']['standing'])}"
    aligned = made["alignment"]
    yield "\ncollapse, and slips: a word skipped or added, which shifts all later words"
    yield _line("chance level: accuracy of unrelated words", aligned["chance"])
    yield _line("share of continuations that collapse (chance level)", aligned["collapsed"])
    yield _line("share of collapses that a shift explains", aligned["explained_by_shift"])
    yield _line("share of continuations that slip", aligned["slipped"])
    yield _line("accuracy of continuations that slip", aligned["accuracy_of_slipped"])
    yield _line("accuracy of continuations that do not slip", aligned["accuracy_of_others"])
    yield _line("accuracy of all continuations after alignment", aligned["realigned_accuracy"])
    shifts = sorted(aligned["last_shifts"].items(), key=lambda item: (-item[1], abs(int(item[0]))))
    listed = ", ".join(f"{_signed(int(shift))} in {count}" for shift, count in shifts[:8])
    yield f"  last shift, in words (+: ahead of the true text): {listed}"
    if "context" in window:
        yield from _lines_on_likelihoods(report)
    else:
        yield "\nLikelihoods skipped: this model cannot score made-up text."


def _lines_on_likelihoods(report: Evaluation) -> Iterator[str]:
    window = report.metrics
    yield "\nprediction of the true text, by the number of true tokens before"
    yield f"  {'from':>5} {'to':>5}  {'token accuracy':24}{'nats per word':24}next-word accuracy"
    for row in window["context"]:
        columns = ("token_accuracy", "nats_per_word", "word_accuracy")
        yield f"  {row['first']:5} {row['last']:5}  {_estimates(row, columns)}"
    rows = window["likelihood"]
    controls = list(dict.fromkeys(row["control"] for row in rows))
    yield "\nis true text likelier than made-up text? area under the ROC curve (AUC)"
    yield f"  {report.sequences} sequences of each length and each kind of made-up text"
    yield f"  {'tokens':>6}  " + " ".join(f"{control:18}" for control in controls).rstrip()
    for length in dict.fromkeys(row["length"] for row in rows):
        areas = [format_interval(row["auc"], places=2) for row in rows if row["length"] == length]
        yield f"  {length:6}  " + " ".join(f"{area:18}" for area in areas).rstrip()
    runs = window["square_free_runs"]
    yield "\nprompts of runs of square-free words: log-likelihood per token"
    yield f"  {'':54} {'mean':24} AUC against true prompts"
    yield _line("true prompts", runs["true"])
    for row in runs["runs"]:
        name = f"runs of {row['run']}" + (", which never occur" if row["run"] > 3 else "")
        yield _line(name, row["mean"], format_interval(row["auc"]))
    control = window.get("impossible")
    if control is None:
        return
    yield "\nfour words of the text replaced by equally common words: loss on the four words"
    yield f"  {control['left']} of {control['asked']} places have such words"
    kinds = {
        "true": "true words",
        "here": "words possible here",
        "elsewhere": "words possible elsewhere, but not here",
        "impossible": "impossible words: four square-free in a row",
    }
    for kind, name in kinds.items():
        yield _line(f"{name}, nats", control["nats"][kind])
    for kind in ("here", "elsewhere"):
        yield _line(f"impossible less likely than possible {kind}, share", control["paired"][kind])


def _lines_on_masked(report: Evaluation) -> Iterator[str]:
    rows = report.metrics["masked"]
    yield (
        f"{report.prompts} windows of {report.context} tokens; share of masked tokens"
        " predicted right, by the share that is masked and by inverse temperature β"
    )
    betas = list(dict.fromkeys(row["beta"] for row in rows))
    yield f"\n  {'masked':>6}  " + " ".join(f"{f'β = {format_beta(float(b))}':>8}" for b in betas)
    for share in dict.fromkeys(row["masked"] for row in rows):
        found = [row["accuracy"] for row in rows if row["masked"] == share]
        yield f"  {share:6.0%}  " + " ".join(f"{value['value']:8.3f}" for value in found)
    widest = max((row["accuracy"]["high"] - row["accuracy"]["low"]) / 2 for row in rows)
    yield f"\n  95 % intervals are at most ± {widest:.3f}"


def _line(name: str, estimate: dict[str, Any], more: str = "") -> str:
    return f"  {name:54} {format_interval(estimate):24} {more}".rstrip()


def format_interval(estimate: dict[str, Any], places: int = 3) -> str:
    """A value with its interval: "0.426 [0.424, 0.429]"."""
    restored: Estimate = from_json(Estimate, estimate)
    return "–" if restored.value is None else format_estimate(restored, places)


def _estimates(row: dict[str, Any], columns: Sequence[str]) -> str:
    return "".join(f"{format_interval(row[column]):24}" for column in columns).rstrip()


def _signed(shift: int) -> str:
    return f"{shift:+d}" if shift else "none"


def _shares(counts: dict[str, int]) -> str:
    """The five commonest words with their shares."""
    total = sum(counts.values())
    shown = [f"{word} {count / total:.0%}" for word, count in list(counts.items())[:5]]
    return ", ".join(shown) or "none"
