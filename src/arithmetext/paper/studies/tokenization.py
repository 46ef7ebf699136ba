"""How words are cut into tokens, and where a model attends (the paper's attention figure)."""

from dataclasses import dataclass

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...evaluation.attention import ORIGINS, AttentionByDistance, by_distance
from ...evaluation.heads import HeadsByDistance, LastToken, clearest_head, last_token
from ...evaluation.subjects import EvaluatedModel
from ...text.sieve import words
from ...tokens import BPE, Tokenizer
from ...tokens.contents import ONE, PART, SEVERAL, SPACE, Contents, contents, count_merged
from ...tokens.spelling import ALPHABET, spell
from ...tokens.windows import LongIds
from ..figures import COLOURS, LINES, legend_above, token_strip
from ..outputs import Arrays
from ..runs import TESTS_FAR, TrainedModel, ntp, several_seeds, with_vocabulary
from ..study import Table, Verdict
from ..wording import format_estimate, format_integer, format_percent, join, plural

TITLE = "Tokens, and where attention goes"
ORDER = 60
COST = {"laptop": 35, "gpu": 700}

PERIOD = 4  # one of four consecutive integers is divisible by 4
PAPER_TOKENS = ["10 1010 ", "10 1100", " 1100", " 1010", " ", "10 1100", "10 ", "10 1010"]

_ORIGINS = {"own": "the token that attends", "next": "the token to be predicted"}


@dataclass(frozen=True)
class AttentionSettings:
    """Whose attention is measured: that of tokens of some words, and of windows of the text."""

    integers: tuple[int, int]  # the first and last integer whose tokens are shown
    at: int
    windows: int
    farthest: int  # distance, in integers
    seed: int


@dataclass(frozen=True)
class Settings:
    models: tuple[TrainedModel, ...]  # that read pieces of words, one for each seed
    by_distance: tuple[TrainedModel, ...]  # whose attention is shown by distance
    attention: AttentionSettings
    sizes: tuple[int, ...]  # of the vocabularies whose words per token are counted
    counted: tuple[int, int]  # the range of integers whose words and tokens are counted


@dataclass(frozen=True)
class Result:
    settings: AttentionSettings
    cut: Contents
    vocabulary: list[str]
    merged: int  # tokens of the vocabulary that are two earlier ones joined
    attention: LastToken  # of the first seed
    other_token: str  # of the models shown by distance, in words; empty if they are the same models
    context: int  # of the models shown by distance
    # For each seed: where distances are counted from, one of `ORIGINS`, and the attention. Of the
    # two ways of counting, the one for which some head has the clearer period.
    heads: list[tuple[str, HeadsByDistance]]
    counted: tuple[int, int]
    words_per_token: dict[int, float]  # by the size of the vocabulary


def settings(scale: str) -> Settings:
    models = several_seeds(with_vocabulary("ntp", scale, 256), scale)
    windows = 8 if scale == "laptop" else 32
    return Settings(
        models,
        several_seeds(ntp(scale), scale) if scale == "laptop" else models,
        AttentionSettings((5, 14), TESTS_FAR[0], windows, farthest=72, seed=0),
        sizes=(64, 256, 1024),
        counted=(10**10, 10**10 + 10**5),
    )


def run(settings: Settings) -> Result:
    config = settings.models[0].config
    counted = words(*settings.counted)
    words_per_token = {
        size: len(counted) / len(BPE.train(size).encode(counted)) for size in settings.sizes
    }
    same = settings.by_distance == settings.models
    return summarise(
        settings.models[0].outputs(attention_weights, settings.attention),
        [model.outputs(attention_weights, settings.attention) for model in settings.by_distance],
        settings.attention,
        config.tokens.tokenizer(config.text, config.n),
        "" if same else settings.by_distance[0].training().token,
        settings.by_distance[0].config.model.context,
        settings.counted,
        words_per_token,
    )


def attention_weights(model: EvaluatedModel, how: AttentionSettings) -> Arrays:
    """The attention of the last token of the words that are shown, and attention by distance.

    "last": [layers, heads, tokens]; sums and counts are those of `AttentionByDistance`.
    """
    shown = torch.from_numpy(_shown_tokens(model.tokenizer, how))
    arrays: Arrays = {"last": model.model.attention(shown)[:, :, -1].cpu().numpy()}
    windows = model.windows(how.at, number=how.windows, seed=how.seed)
    measured = by_distance(model.model, model.tokenizer, windows, how.farthest)
    for origin, each in measured.items():
        arrays[f"{origin} sums"] = each.sums.astype(np.float32)
        arrays[f"{origin} counts"] = each.counts
    return arrays


def _shown_tokens(tokenizer: Tokenizer, how: AttentionSettings) -> LongIds:
    """Like the paper's figure, without the space after the last word."""
    first, last = how.integers
    return tokenizer.encode_text(spell(words(first, last + 1)).rstrip()).astype(np.int64)


def summarise(
    first: Arrays,
    outputs: list[Arrays],
    how: AttentionSettings,
    tokenizer: Tokenizer,
    other_token: str,
    context: int,
    counted: tuple[int, int],
    words_per_token: dict[int, float],
) -> Result:
    """Statistics; `first` is of the model that reads pieces of words, `outputs` by distance."""
    vocabulary = tokenizer.vocabulary
    shown = [vocabulary[token] for token in _shown_tokens(tokenizer, how)]
    return Result(
        how,
        contents(shown, how.integers[0]),
        vocabulary,
        count_merged(vocabulary),
        last_token(first["last"]),
        other_token,
        context,
        [_clearest(arrays) for arrays in outputs],
        counted,
        words_per_token,
    )


def _clearest(arrays: Arrays) -> tuple[str, HeadsByDistance]:
    """The origin of distances for which some head has the clearer period, and the attention."""
    measured = {
        origin: AttentionByDistance(
            arrays[f"{origin} sums"].astype(np.float64), arrays[f"{origin} counts"]
        )
        for origin in ORIGINS
    }
    return clearest_head(measured, PERIOD)


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 6.6), layout="constrained")
    above, below = figure.subplots(2, height_ratios=(1.15, 1))
    token_strip(above, result.cut.tokens, result.settings.integers[0], result.attention.mean)
    _draw_distances(below, result)
    return figure


def _draw_distances(axes: Axes, result: Result) -> None:
    """Attention by the distance in integers."""
    origin, heads = result.heads[0]
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
    axes.set_xlabel(f"integers back from {_ORIGINS[origin]}")
    axes.set_ylabel("attention to a token\n(1: uniform attention)")
    axes.grid(alpha=0.3)
    legend_above(axes, 2)


def _head_name(heads: HeadsByDistance) -> str:
    return f"layer {heads.layer + 1}, head {heads.head + 1}"


def in_short(result: Result) -> str:
    first, last = result.settings.integers
    cut, attention = result.cut.tokens, result.attention
    same = "as in the paper" if cut == PAPER_TOKENS else "not as in the paper"
    return (
        f"The words of {first} to {last} are cut into {len(cut)} tokens, {same}. Apart from itself,"
        f" the last token attends most to token {attention.most}"
        f" ({format_percent(attention.largest)})."
    )


def caption(result: Result) -> str:
    how, attention, [(origin, heads), *others] = result.settings, result.attention, result.heads
    seeds = ""
    if others:
        cases = join(_cases(each) for _, each in others)
        seeds = f" The clearest heads of models trained with other seeds do in {cases}."
    whose = f" of another model (each token is {result.other_token})" if result.other_token else ""
    return (
        f"Top: the words of {how.integers[0]} to {how.integers[1]} with their trees, cut into"
        f" {len(result.cut.tokens)} tokens by byte-pair encoding with a vocabulary of"
        f" {len(result.vocabulary)}; a dot is a"
        " space. Arcs and percentages show how much attention the last token pays to each token,"
        f" averaged over all {len(attention.layers)} layers of the trained model and their heads."
        f" Apart from itself, the last token attends most to token {attention.most}"
        f" ({format_percent(attention.largest)})."
        f" Bottom: attention{whose} by the distance in integers, counted from {_ORIGINS[origin]},"
        f" in {how.windows} windows of {result.context} tokens at {format_integer(how.at)}, seed"
        f" {how.seed}, for the tokens in the second half of each window (shaded: 95 % bootstrap"
        f" intervals over windows). The head that varies most with the distance modulo {PERIOD} was"
        " chosen in one half of the windows and is shown in the other. There its residue classes"
        f" lie {heads.swing:.2f} apart (in units of uniform attention). If this head followed the"
        f" period of {PERIOD}, multiples of {PERIOD} would get more attention than their"
        f" neighbours; they do in {_cases(heads)}.{seeds}"
    )


def _cases(heads: HeadsByDistance) -> str:
    return f"{heads.peaks.higher} of {heads.peaks.multiples} cases"


def table(result: Result) -> Table:
    _, heads = result.heads[0]
    rows: list[list[str | float]] = []
    tokens = zip(result.cut.tokens, result.cut.kinds, result.attention.mean, strict=True)
    for k, (token, kind, weight) in enumerate(tokens, start=1):
        share = f"{format_percent(weight, 1)} of the last token's attention"
        rows.append([f"to token {k}, {_with_bars([token])} ({kind})", share, "", ""])
    for d, (mean, periodic) in enumerate(zip(heads.all_heads, heads.periodic, strict=True)):
        if d:
            back = f"{plural(d, 'integer')} back"
            rows.append([back, format_estimate(mean), format_estimate(periodic), ""])
    rows += [
        [f"D = {size}, {_counted(result)}", "", "", round(value, 4)]
        for size, value in result.words_per_token.items()
    ]
    header = ["tokens or distance", "attention, all heads", f"attention, {_head_name(heads)}"]
    return [*header, "words per token"], rows


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
