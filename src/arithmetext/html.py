"""What notebooks show: sentences, censuses, evaluations and run folders as HTML.

The HTML needs nothing besides itself: no scripts, no style sheets, no files. Lines and dots have
the colour of the text around them, so it can be read on light and on dark pages. A viewer that
removes pictures and styles leaves a text that still makes sense.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from html import escape
from itertools import islice
from math import ceil
from typing import TYPE_CHECKING, Any

from .drawing import small_svg
from .integers import format_integer
from .trees import least, tree_of_word, unpack

if TYPE_CHECKING:
    from .counting.census import Census
    from .evaluation.report import Evaluation
    from .text.sentence import Sentence
    from .training.run_folder import RunFolder

WORDS = 24  # words shown of a sentence
ROWS = 20  # words shown of a census
POINTS = 300  # points of a curve
ACCENT = "#d9730d"  # an orange that is as clear on white as on black


class Html(str):
    """Text that is HTML already; any other text is escaped."""


def sentence(value: "Sentence") -> str:
    """A strip of trees, each above its integer and its word."""
    shown = replace(value, hi=min(value.hi, value.lo + WORDS))
    cells = [
        f'<div style="text-align:center">{_tree(word)}<div style="opacity:0.7">{n}</div>'
        f"{word}</div>"
        for n, word in enumerate(shown, value.lo)
    ]
    if len(value) > WORDS:
        cells.append(f"<div>… {len(value):,} words in all</div>")
    return (
        '<div style="display:flex;flex-wrap:wrap;align-items:flex-end;gap:10px 16px;'
        f'font-family:monospace">{" ".join(cells)}</div>'
    )


def census(value: "Census") -> str:
    """The most frequent words: count, share and least integer."""
    rows = []
    for packed, count in islice(value.items(), ROWS):
        word = unpack(packed)
        share = f"{count / (value.x - 1):.5%}"
        rows.append([_tree(word), word, f"{count:,}", share, f"{least(word):,}"])
    table = _table(["tree", "word", "count", "share", "least n"], rows, left=2)
    left_out = f"the {ROWS} most frequent of " if len(value) > ROWS else ""
    number = f"{len(value):,} {'word' if len(value) == 1 else 'words'}"
    return (
        f"{_line(f'Words of the integers from 2 to {format_integer(value.x)}')}{table}"
        f"{_line(f'{left_out}{number}; {value.entropy:.6f} bits per word')}"
    )


def evaluation(value: "Evaluation") -> str:
    """The main figures with their intervals, and the scores of the commonest words."""
    from .evaluation.report import WORDS_SHOWN, format_interval

    metrics = value.metrics
    lo, hi = metrics["window"]
    about = (
        _line(value.model, value.run)
        + _line(f"at {format_integer(metrics['at'])}: integers from {lo} to {hi - 1}")
        + _line(f"{value.prompts} prompts of {value.context} tokens, random seed {value.seed}")
    )
    if "masked" in metrics:
        return about + _masked(metrics["masked"])
    made = metrics["generation"]
    exact, aligned = made["slides"]["exact"], made["alignment"]
    main = {
        "word accuracy of the continuations": exact["accuracy"],
        "nats per word, given the true words before it": metrics["nats_per_word"],
        "Jensen–Shannon divergence of word frequencies, nats": exact["jensen_shannon"],
        "share of malformed words": exact["malformed"],
        "share of continuations that collapse": aligned["collapsed"],
        "share of continuations that slip": aligned["slipped"],
    }
    words = [
        [_tree(row["word"]), row["word"], row["true"], row["predicted"]]
        + [format_interval(row[score]) for score in ("precision", "recall", "f1")]
        for row in made["words"][:WORDS_SHOWN]
    ]
    titles = ["tree", "word", "true", "generated", "precision", "recall", "F1"]
    figures = [[name, format_interval(estimate)] for name, estimate in main.items()]
    return (
        about
        + _table(["measured", "value, 95 % interval"], figures, left=1)
        + _table(titles, words, left=2)
    )


def _masked(rows: Sequence[dict[str, Any]]) -> str:
    """Accuracy by the share of tokens that is masked and by inverse temperature."""
    from .evaluation.estimates import format_beta

    betas = list(dict.fromkeys(row["beta"] for row in rows))
    shares = dict.fromkeys(row["masked"] for row in rows)
    table = [
        [f"{share:.0%}"]
        + [f"{row['accuracy']['value']:.3f}" for row in rows if row["masked"] == share]
        for share in shares
    ]
    titles = ["masked", *(f"β = {format_beta(float(beta))}" for beta in betas)]
    return _line("share of masked tokens predicted right") + _table(titles, table, left=0)


def run_folder(value: "RunFolder") -> str:
    """The model, how far it is, its last validation, and its loss curve."""
    config, validations = value.config, value.curve("validation_loss")
    task = {"ntp": "next-token prediction", "mlm": "masked modelling"}[config.task]
    kind = {"bpe": "byte-pair tokens", "words": "word tokens"}[config.tokens.kind]
    done = f"{value.steps} of {config.training.steps} steps"
    if validations:
        step, loss = min(validations, key=lambda point: point[1])
        done += (
            f"; validation loss {validations[-1][1]:.4f} nats per token"
            f" (lowest {loss:.4f}, at step {step})"
        )
    return (
        _line(f"{config.model.kind}, {config.model.description}", value.folder)
        + _line(f"{task}, {config.tokens.size} {kind}, context {config.model.context}")
        + _line(done)
        + _curves(value.curve("loss"), validations)
    )


def _curves(training: Sequence[tuple[int, float]], validation: Sequence[tuple[int, float]]) -> str:
    """The training loss as a line, validation losses as dots; empty without a loss."""
    if not training:
        return ""
    every = ceil(len(training) / POINTS)
    line = [*training[::every], training[-1]]
    steps, losses = zip(*line, *validation, strict=True)
    low, high, last = min(losses), max(losses), max(steps)
    width, height, left = 460, 150, 56

    def place(step: int, loss: float) -> tuple[float, float]:
        x = left + (width - left - 8) * step / last
        return x, 8 + (height - 34) * (high - loss) / ((high - low) or 1)

    points = " ".join("{:.1f},{:.1f}".format(*place(*point)) for point in line)
    dots = "".join(
        '<circle cx="{:.1f}" cy="{:.1f}" r="3"/>'.format(*place(*point)) for point in validation
    )
    (_, top), (right, bottom) = place(0, high), place(last, low)
    return (
        f'<svg width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img"'
        ' aria-label="Loss by step"><g fill="none" stroke="currentColor">'
        f'<path stroke-opacity="0.3" d="M{left} {top:g}V{bottom + 4:g}H{right:g}"/>'
        f'<polyline stroke-opacity="0.7" points="{points}"/></g><g fill="{ACCENT}">{dots}</g>'
        '<g fill="currentColor" font-family="sans-serif" font-size="11">'
        f'<g text-anchor="end"><text x="{left - 6}" y="{top + 4:g}">{high:.3f}</text>'
        f'<text x="{left - 6}" y="{bottom + 4:g}">{low:.3f}</text>'
        f'<text x="{right:g}" y="{bottom + 20:g}">step {last}</text></g>'
        f'<text x="{left}" y="{bottom + 20:g}">loss in nats per token; dots: validation</text>'
        "</g></svg>"
    )


def _tree(word: str) -> Html:
    return Html(small_svg(tree_of_word(word)))


def _line(text: str, name: object = None) -> str:
    """A line of text, after the name of what it is about."""
    before = f"<b>{escape(str(name))}</b>: " if name is not None else ""
    return f"<div>{before}{escape(text)}</div>"


def _table(titles: Sequence[str], rows: Iterable[Sequence[object]], *, left: int) -> str:
    """A table; the first `left` columns are aligned left, the others right."""

    def line(tag: str, cells: Sequence[object]) -> str:
        parts = []
        for i, cell in enumerate(cells):
            shown = cell if isinstance(cell, Html) else escape(str(cell))
            side = "left" if i < left else "right"
            style = f"text-align:{side};vertical-align:bottom;padding:0 0.5em"
            parts.append(f'<{tag} style="{style}">{shown}</{tag}>')
        return f"<tr>{''.join(parts)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', titles)}</thead><tbody>{body}</tbody></table>"
