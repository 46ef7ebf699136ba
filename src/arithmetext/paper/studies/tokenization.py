"""How words are cut into tokens, and where a trained model looks (the paper's attention figure)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, PathPatch
from matplotlib.path import Path

from ...drawing import lay_out
from ...evaluation.attention import Values, by_distance
from ...evaluation.codec import to_json
from ...evaluation.prompts import draw
from ...integers import format_integer
from ...text.sieve import words
from ...text.splits import unseen
from ...tokens import BPE
from ...tokens.spelling import ALPHABET, spell
from ...trees import tree_of_word
from ..figures import COLOURS, LINES
from ..runs import FAR, learning, model
from ..study import Verdict

TITLE = "Tokens, and where attention goes"
PLACE = 60
COST = {"laptop": 45, "gpu": 700}

PERIOD = 4

# The paper's figure: how it cuts 5..14.
PAPER_TOKENS = ("10 1010 ", "10 1100", " 1100", " 1010", " ", "10 1100", "10 ", "10 1010")

_GAP = 0.9  # between the boxes of tokens, in characters
_BOX = 1.9  # the height of a box


def settings(scale: str) -> dict[str, Any]:
    return {
        "model": learning("ntp", scale, 256),
        "integers": [5, 14],
        "at": FAR[0],
        "windows": 32,
        "farthest": 72,
        "sizes": [64, 256, 1024],
        "counted": [10**10, 10**10 + 10**5],
        "seed": 0,
    }


def run(settings: dict[str, Any]) -> dict[str, Any]:
    it = model(settings["model"])
    first, last = settings["integers"]
    # Without the space after the last word, as the paper shows it.
    ids = it.tokenizer.encode_text(spell(words(first, last + 1)).rstrip()).astype(np.int64)
    drawn = draw(
        it.tokenizer,
        unseen(settings["at"], it.trained),
        number=settings["windows"],
        length=it.context,
        following=0,
        seed=settings["seed"],
    )
    looked = by_distance(it.model, it.tokenizer, drawn.ids, settings["farthest"])
    return {
        "integers": settings["integers"],
        "tokens": [it.tokenizer.vocabulary[token] for token in ids],
        "attention": it.model.attention(torch.from_numpy(ids))[:, :, -1].mean(1).tolist(),
        "vocabulary": it.tokenizer.vocabulary,
        "at": settings["at"],
        "windows": settings["windows"],
        "context": it.context,
        "seed": settings["seed"],
        "distances": {origin: to_json(found.figures(PERIOD)) for origin, found in looked.items()},
        "counted": settings["counted"],
        "words_per_token": {
            str(size): _words_per_token(size, *settings["counted"]) for size in settings["sizes"]
        },
    }


def _words_per_token(size: int, lo: int, hi: int) -> float:
    return (hi - lo) / len(BPE.train(size).encode(words(lo, hi)))


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(9.6, 6.6), layout="constrained")
    above, below = figure.subplots(2, height_ratios=(1.15, 1))
    _strip(above, data)
    _reach(below, data)
    return figure


def _strip(axes: Axes, data: dict[str, Any]) -> None:
    """Tokens in boxes, trees above and arcs below."""
    middles, places, x = [], [], 0.0  # of boxes, and of their characters
    for token in data["tokens"]:
        box = FancyBboxPatch(
            (x, 0), len(token), _BOX, boxstyle="round,pad=0.15", fc="#eef0f8", ec="black", lw=1
        )
        axes.add_patch(box)
        for k, letter in enumerate(token):
            places.append(x + k + 0.5)
            shown = letter.replace(" ", "·")
            axes.text(
                places[-1], _BOX / 2, shown, family="monospace", size=12, ha="center", va="center"
            )
        middles.append(x + len(token) / 2)
        x += len(token) + _GAP
    lines, nodes = [], []
    for n, (start, stop) in enumerate(_words(data), start=data["integers"][0]):
        middle = (places[start] + places[stop - 1]) / 2
        axes.text(middle, _BOX + 0.6, str(n), ha="center", size=10, color="0.3")
        layout = lay_out(tree_of_word("".join(data["tokens"])[start:stop]), gap=1)
        root = layout.nodes[0].x

        def place(x: float, depth: int, middle: float = middle, root: float = root) -> Any:
            return middle + 0.85 * (x - root), _BOX + 2.9 + 1.9 * depth

        for node in layout.nodes:
            nodes.append(place(node.x, node.depth))
            lines += [
                [place(node.x, node.depth), place(child.x, child.depth)] for child in node.children
            ]
    axes.add_collection(LineCollection(lines, colors="black", lw=1))
    across, up = np.array(nodes).T
    axes.scatter(across, up, 16, "white", edgecolors="black", lw=0.9, zorder=3)
    _arcs(axes, middles, np.mean(data["attention"], axis=0))
    axes.set_xlim(-0.6, x - _GAP + 0.6)
    axes.set_ylim(-11.8, _BOX + 7.4)
    axes.axis("off")


def _arcs(axes: Axes, middles: list[float], attention: Values) -> None:
    """From the last token to every other one, as wide as it looks at it."""
    last = middles[-1]
    for middle, weight in zip(middles[:-1], attention, strict=False):
        depth = -3.6 - 0.26 * (last - middle)
        curve = Path(
            [(last, -1.9), (last, depth), (middle, depth), (middle, -2.3)],
            [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4],
        )
        axes.add_patch(PathPatch(curve, fc="none", ec=COLOURS[0], lw=0.3 + 18 * weight, alpha=0.75))
    axes.scatter(middles[:-1], [-2.1] * (len(middles) - 1), 30, COLOURS[0], marker="^")
    for middle, weight in zip(middles, attention, strict=True):
        axes.text(middle, -0.45, f"{100 * weight:.0f} %", ha="center", va="top", size=9, zorder=4)


def _reach(axes: Axes, data: dict[str, Any]) -> None:
    """How much is looked at what stands some integers before."""
    origin, found = _clearest(data)
    distances = np.arange(1, len(found["all"]))
    series = (
        ("all", "mean of all heads", COLOURS[0], LINES[0]),
        ("periodic", f"{_head(found)}", COLOURS[1], LINES[1]),
    )
    for key, label, colour, line in series:
        value, low, high = (
            np.array([each[end] for each in found[key][1:]], float)
            for end in ("value", "low", "high")
        )
        axes.fill_between(distances, low, high, color=colour, alpha=0.2, lw=0)
        axes.plot(distances, value, color=colour, ls=line, marker=".", ms=4, lw=1.2, label=label)
    axes.axhline(1, color="black", lw=0.8)
    axes.set_yscale("log")
    axes.set_xticks(range(PERIOD, len(distances) + 1, PERIOD))
    axes.set_xlim(0, len(distances) + 1)
    axes.set_xlabel(f"integers back from {_from(origin)}")
    axes.set_ylabel("attention to a token\n(1: the same to all)")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=2, frameon=False, fontsize=9)


def caption(data: dict[str, Any]) -> str:
    first, last = data["integers"]
    origin, found = _clearest(data)
    attention = np.mean(data["attention"], axis=0)
    looked = int(np.argmax(attention[:-1]))
    return (
        f"Above: the words of {first} to {last} with their trees, cut into {len(data['tokens'])}"
        f" tokens by byte-pair encoding of {len(data['vocabulary'])} tokens; a dot is a space. The"
        " arcs and percentages say how much the last token looks at each, the mean over all"
        f" {len(data['attention'])} layers and their heads of the trained model: apart from itself,"
        f" most at token {looked + 1} ({100 * attention[looked]:.0f} %). Below: attention against"
        f" the distance in integers, counted from {_from(origin)}, in {data['windows']} windows of"
        f" {data['context']} tokens at {format_integer(data['at'])}, seed {data['seed']}, from the"
        " second"
        " half of each window (shaded: 95 %, over windows). The head that varies most with the"
        f" distance modulo {PERIOD} was chosen in one half of the windows and is shown in the"
        f" other; its residues lie {found['swing']:.2f} apart. {_favourite(found)}"
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    attention = np.mean(data["attention"], axis=0)
    _, found = _clearest(data)
    lo, hi = data["counted"]
    rows: list[Sequence[Any]] = [
        [
            f"to token {k}, {_bars([token])} ({kind})",
            f"{100 * weight:.1f} % of the last token's",
            "",
        ]
        for k, (token, kind, weight) in enumerate(
            zip(data["tokens"], _kinds(data), attention, strict=True), start=1
        )
    ]
    rows += [
        [f"{d} integers back", _shown(every), _shown(periodic)]
        for d, (every, periodic) in enumerate(zip(found["all"], found["periodic"], strict=True))
        if d
    ]
    rows += [
        [
            f"words a token, D = {size} ({format_integer(hi - lo)} words from"
            f" {format_integer(lo)})",
            round(value, 4),
            "",
        ]
        for size, value in data["words_per_token"].items()
    ]
    return ["attention", "all heads", _head(found)], rows


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    kinds = _kinds(data)
    counts = {kind: kinds.count(kind) for kind in ("one word", "several words", "part of a word")}
    vocabulary = data["vocabulary"]
    merged = _merged(vocabulary)
    layers = np.array(data["attention"])
    attention = layers.mean(0)
    looked = int(np.argmax(attention[:-1])) + 1
    wanted = len(data["tokens"]) - 1
    nearest = int((layers[:, :-1].argmax(1) + 1 == wanted).sum())
    shares = data["words_per_token"]
    return [
        Verdict(
            claim="The words of 5 to 14 are cut into eight tokens.",
            paper=_bars(PAPER_TOKENS),
            ours=_bars(data["tokens"]),
            agrees=list(PAPER_TOKENS) == data["tokens"],
            why="Ours was trained on its own sample of the training text; the paper does not say"
            " which D its figure has.",
        ),
        Verdict(
            claim="A token can be one word, several words, or a part of one.",
            paper="one, several, and 12 cut in two",
            ours=", ".join(f"{kind}: {count}" for kind, count in counts.items())
            + f", a space alone: {kinds.count('a space')}; 12 is"
            + f" {'' if _cut(data, 12) else 'not '}cut",
            agrees=all(counts.values()) and _cut(data, 12),
            why="A token with all of one word and a part of another counts as a part.",
        ),
        Verdict(
            claim="A dictionary of D tokens is the three characters and what merges add.",
            paper="every merge adds one",
            ours=f"D = {len(vocabulary)}: {len(ALPHABET)} characters and {merged} different tokens"
            " that are two earlier ones joined",
            agrees=vocabulary[: len(ALPHABET)] == list(ALPHABET)
            and len(ALPHABET) + merged == len(vocabulary),
            by_construction=True,
            why="Words a token: "
            + ", ".join(f"{value:.2f} for D = {size}" for size, value in shares.items())
            + f" ({format_integer(data['counted'][1] - data['counted'][0])} words from"
            + f" {format_integer(data['counted'][0])}).",
        ),
        Verdict(
            claim="The last token looks most at the one before it.",
            paper="token 7 of 8 (the widest arrow)",
            ours=f"token {looked} ({100 * attention[looked - 1]:.0f} % in the mean of all heads);"
            f" token {wanted} in {nearest} of {len(layers)} layers",
            agrees=looked == wanted,
            why="The paper does not say which layer or head its arrows show, nor whether they were"
            " measured.",
        ),
    ]


def _clearest(data: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The way to count distances in which some head has the clearest period."""
    found: dict[str, dict[str, Any]] = data["distances"]
    return max(found.items(), key=lambda each: float(each[1]["swing"]))


def _from(origin: str) -> str:
    return {"own": "the token that looks", "next": "the token to be predicted"}[origin]


def _head(found: dict[str, Any]) -> str:
    return f"layer {found['layer'] + 1}, head {found['head'] + 1}"


def _favourite(found: dict[str, Any]) -> str:
    """How the distances that are multiples of the period compare with those next to them."""
    curve = np.array([each["value"] for each in found["periodic"]], float)
    multiples = np.arange(PERIOD, len(curve) - 1, PERIOD)
    higher = int((curve[multiples] > (curve[multiples - 1] + curve[multiples + 1]) / 2).sum())
    return (
        f"It looks more at distances that are multiples of {PERIOD} than at their neighbours in"
        f" {higher} of {len(multiples)} cases."
    )


def _words(data: dict[str, Any]) -> list[tuple[int, int]]:
    """Where the words begin and end in the text of the tokens."""
    spans, start = [], 0
    for word in "".join(data["tokens"]).split():
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return spans


def _kinds(data: dict[str, Any]) -> list[str]:
    """What each token holds."""
    kinds, begin = [], 0
    for token in data["tokens"]:
        end = begin + len(token)
        met = [(a, b) for a, b in _words(data) if a < end and b > begin]
        if any(a < begin or b > end for a, b in met):
            kinds.append("part of a word")
        else:
            kinds.append(("a space", "one word")[len(met)] if len(met) < 2 else "several words")
        begin = end
    return kinds


def _cut(data: dict[str, Any], n: int) -> bool:
    """Whether the word of n lies in more than one token."""
    start, stop = _words(data)[n - data["integers"][0]]
    borders = np.cumsum([len(token) for token in data["tokens"]])
    return bool(((borders > start) & (borders < stop)).any())


def _merged(vocabulary: list[str]) -> int:
    """How many tokens are two earlier ones joined."""
    known, count = set(ALPHABET), 0
    for token in vocabulary[len(ALPHABET) :]:
        joined = any(token[:k] in known and token[k:] in known for k in range(1, len(token)))
        count += joined and token not in known
        known.add(token)
    return count


def _bars(tokens: Sequence[str]) -> str:
    return "|".join(token.replace(" ", "·") for token in tokens)


def _shown(estimate: dict[str, Any]) -> str:
    if estimate["value"] is None:
        return "none"
    return "{value:.3f} [{low:.3f}, {high:.3f}]".format(**estimate)
