"""How words are cut into tokens, and where a model attends (the paper's attention figure)."""

from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.attention import HeadsByDistance, LastToken, by_distance, last_token
from ...text.sieve import words
from ...tokens import BPE
from ...tokens.contents import ONE, PART, SEVERAL, SPACE, Contents, contents, count_merged
from ...tokens.spelling import ALPHABET, spell
from ..figures import COLOURS, LINES, legend_above, token_strip
from ..runs import TESTS_FAR, TrainedModel, with_vocabulary
from ..study import Table, Verdict
from ..wording import format_estimate, format_integer, format_percent

TITLE = "Tokens, and where attention goes"
ORDER = 60
COST = {"laptop": 45, "gpu": 700}

PERIOD = 4  # one of four consecutive integers is divisible by 4
PAPER_TOKENS = ["10 1010 ", "10 1100", " 1100", " 1010", " ", "10 1100", "10 ", "10 1010"]

_ORIGINS = {"own": "the token that attends", "next": "the token to be predicted"}


@dataclass(frozen=True)
class Settings:
    model: TrainedModel
    integers: tuple[int, int]  # the first and last integer whose tokens are shown
    at: int
    windows: int
    farthest: int  # distance, in integers
    sizes: tuple[int, ...]  # of the vocabularies whose words per token are counted
    counted: tuple[int, int]  # the range of integers whose words and tokens are counted
    seed: int


@dataclass(frozen=True)
class Result:
    integers: tuple[int, int]
    cut: Contents
    vocabulary: list[str]
    merged: int  # tokens of the vocabulary that are two earlier ones joined
    attention: LastToken
    at: int
    windows: int
    context: int
    seed: int
    distances: dict[str, HeadsByDistance]  # counted from the attending token, or from the next
    clearest: str  # the way of counting for which some head has the clearest period
    counted: tuple[int, int]
    words_per_token: dict[int, float]  # by the size of the vocabulary

    @property
    def heads(self) -> HeadsByDistance:
        return self.distances[self.clearest]


def settings(scale: str) -> Settings:
    return Settings(
        model=with_vocabulary("ntp", scale, 256),
        integers=(5, 14),
        at=TESTS_FAR[0],
        windows=32,
        farthest=72,
        sizes=(64, 256, 1024),
        counted=(10**10, 10**10 + 10**5),
        seed=0,
    )


def run(settings: Settings) -> Result:
    subject, (first, last) = settings.model.load(), settings.integers
    model, tokenizer, vocabulary = subject.model, subject.tokenizer, subject.tokenizer.vocabulary
    # Like the paper's figure, without the space after the last word.
    ids = tokenizer.encode_text(spell(words(first, last + 1)).rstrip()).astype(np.int64)
    windows = subject.windows(settings.at, number=settings.windows, seed=settings.seed)
    by_origin = by_distance(model, tokenizer, windows, settings.farthest)
    distances = {origin: attention.summary(PERIOD) for origin, attention in by_origin.items()}
    counted = words(*settings.counted)
    return Result(
        integers=settings.integers,
        cut=contents([vocabulary[token] for token in ids], first),
        vocabulary=vocabulary,
        merged=count_merged(vocabulary),
        attention=last_token(model.attention(torch.from_numpy(ids))),
        at=settings.at,
        windows=settings.windows,
        context=subject.context,
        seed=settings.seed,
        distances=distances,
        clearest=max(distances, key=lambda origin: distances[origin].swing),
        counted=settings.counted,
        words_per_token={
            size: len(counted) / len(BPE.train(size).encode(counted)) for size in settings.sizes
        },
    )


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 6.6), layout="constrained")
    above, below = figure.subplots(2, height_ratios=(1.15, 1))
    token_strip(above, result.cut.tokens, result.integers[0], result.attention.mean)
    _draw_distances(below, result)
    return figure


def _draw_distances(axes: Axes, result: Result) -> None:
    """Attention by the distance in integers."""
    heads = result.heads
    distances = np.arange(1, len(heads.all_heads))
    curves = {"mean of all heads": heads.all_heads, _head_name(heads): heads.periodic}
    for (label, estimates), colour, line in zip(curves.items(), COLOURS, LINES, strict=False):
        value, low, high = np.array(estimates[1:], np.float64).T
        axes.fill_between(distances, low, high, color=colour, alpha=0.2, lw=0)
        axes.plot(distances, value, color=colour, ls=line, marker=".", ms=4, lw=1.2, label=label)
    axes.axhline(1, color="black", lw=0.8)
    axes.set_yscale("log")
    axes.set_xticks(range(PERIOD, len(distances) + 1, PERIOD))
    axes.set_xlim(0, len(distances) + 1)
    axes.set_xlabel(f"integers back from {_ORIGINS[result.clearest]}")
    axes.set_ylabel("attention to a token\n(1: uniform attention)")
    axes.grid(alpha=0.3)
    legend_above(axes, 2)


def _head_name(heads: HeadsByDistance) -> str:
    return f"layer {heads.layer + 1}, head {heads.head + 1}"


def caption(result: Result) -> str:
    (first, last), attention, heads = result.integers, result.attention, result.heads
    return (
        f"Top: the words of {first} to {last} with their trees, cut into {len(result.cut.tokens)}"
        f" tokens by byte-pair encoding with a vocabulary of {len(result.vocabulary)}; a dot is a"
        " space. Arcs and percentages show how much attention the last token pays to each token,"
        f" averaged over all {len(attention.layers)} layers of the trained model and their heads."
        f" Apart from itself, the last token attends most to token {attention.most}"
        f" ({format_percent(attention.largest)}); in {attention.layers_at_previous} of"
        f" {len(attention.layers)} layers it attends most to token {len(result.cut.tokens) - 1},"
        " the one before it. The arrows in the paper's figure are an example: their widths are set"
        " by hand, and no layer or head is named. So they are not compared with this measurement."
        " Bottom: attention by the distance in integers, counted from"
        f" {_ORIGINS[result.clearest]}, in {result.windows} windows of {result.context} tokens at"
        f" {format_integer(result.at)}, seed {result.seed},"
        " for the tokens in the second half of each window (shaded: 95 % bootstrap intervals over"
        f" windows). The head that varies most with the distance modulo {PERIOD} was chosen in one"
        " half of the windows and is shown in the other. There its residue classes lie"
        f" {heads.swing:.2f} apart, and it attends more to multiples of {PERIOD} than to their"
        f" neighbours in {heads.peaks.higher} of {heads.peaks.multiples} cases."
    )


def table(result: Result) -> Table:
    heads = result.heads
    rows: list[list[str | float]] = []
    tokens = zip(result.cut.tokens, result.cut.kinds, result.attention.mean, strict=True)
    for k, (token, kind, weight) in enumerate(tokens, start=1):
        share = f"{format_percent(weight, 1)} of the last token's"
        rows.append([f"to token {k}, {_with_bars([token])} ({kind})", share, ""])
    for d, (mean, periodic) in enumerate(zip(heads.all_heads, heads.periodic, strict=True)):
        if d:
            rows.append([f"{d} integers back", format_estimate(mean), format_estimate(periodic)])
    rows += [
        [f"words per token, D = {size} ({_counted(result)})", round(value, 4), ""]
        for size, value in result.words_per_token.items()
    ]
    return ["attention", "all heads", _head_name(heads)], rows


def verdicts(result: Result) -> list[Verdict]:
    cut, vocabulary = result.cut, result.vocabulary
    return [
        Verdict(
            key="eight-tokens",
            claim="The words of 5 to 14 are cut into eight tokens.",
            paper=_with_bars(PAPER_TOKENS),
            ours=_with_bars(cut.tokens),
            criterion="the tokens are the paper's eight",
            agrees=cut.tokens == PAPER_TOKENS,
            why="Our tokenizer was trained on its own sample of the training text. The paper does"
            " not say which D its figure has.",
        ),
        Verdict(
            key="kinds-of-tokens",
            claim="A token can be one word, several words, or a part of one.",
            paper="one, several, and 12 cut in two",
            ours=", ".join(f"{kind}: {cut.counts[kind]}" for kind in (ONE, SEVERAL, PART))
            + f", a space alone: {cut.counts[SPACE]}; the word of 12 is"
            + f" {'' if 12 in cut.split else 'not '}cut",
            criterion="each of the three kinds of token occurs and the word of 12 is cut",
            agrees=all(cut.counts[kind] for kind in (ONE, SEVERAL, PART)) and 12 in cut.split,
            why="A token that holds a whole word and a part of another counts as a part.",
        ),
        Verdict(
            key="one-token-per-merge",
            claim="A dictionary of D tokens consists of the three characters and what merges add.",
            paper="every merge adds one",
            ours=f"D = {len(vocabulary)}: {len(ALPHABET)} characters and {result.merged} different"
            " tokens, each of two earlier tokens joined",
            criterion="the vocabulary holds the characters, then joined tokens, and nothing else",
            agrees=vocabulary[: len(ALPHABET)] == list(ALPHABET)
            and len(ALPHABET) + result.merged == len(vocabulary),
            by_construction=True,
            why="Words per token: "
            + ", ".join(
                f"{value:.2f} for D = {size}" for size, value in result.words_per_token.items()
            )
            + f" ({_counted(result)}).",
        ),
    ]


def _with_bars(tokens: list[str]) -> str:
    """Tokens separated by bars, with visible spaces."""
    return "|".join(token.replace(" ", "·") for token in tokens)


def _counted(result: Result) -> str:
    lo, hi = result.counted
    return f"{format_integer(hi - lo)} words from {format_integer(lo)}"
