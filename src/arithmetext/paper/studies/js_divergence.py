"""How far the frequencies of words drift along the text (the paper's Jensen–Shannon figure)."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from ...counting.divergence import js_matrix
from ...counting.histograms import chunk_histograms
from ...integers import format_integer
from ..study import Verdict

TITLE = "Divergence between chunks of the text"
PLACE = 20
COST = {"laptop": 2, "gpu": 400}

PAPER_N, PAPER_CHUNKS, PAPER_MAXIMUM = 10**11, 1000, 0.0238


def settings(scale: str) -> dict[str, Any]:
    if scale == "laptop":
        return {"n": 10**9, "chunks": 100, "shown": 50}
    return {"n": PAPER_N, "chunks": PAPER_CHUNKS, "shown": 100}


def run(settings: dict[str, Any]) -> dict[str, Any]:
    n, chunks = settings["n"], settings["chunks"]
    words, counts = chunk_histograms(n, chunks)
    matrix = js_matrix(counts)
    first, second = np.unravel_index(np.argmax(matrix), matrix.shape)
    shown = np.linspace(0, chunks - 1, settings["shown"]).round().astype(int)
    return {
        "n": n,
        "chunks": chunks,
        "words": len(words),
        "maximum": float(matrix[first, second]),
        "maximum_between": [int(first) + 1, int(second) + 1],
        "last_against_all": [float(f"{value:.6g}") for value in matrix[-1, :-1]],
        "shown": (shown + 1).tolist(),
        "matrix": [
            [float(f"{value:.4g}") for value in row] for row in matrix[np.ix_(shown, shown)]
        ],
    }


def plot(data: dict[str, Any]) -> Figure:
    figure = Figure(figsize=(9.6, 4.2), layout=ConstrainedLayoutEngine(wspace=0.08))
    left, right = figure.subplots(1, 2)
    matrix = np.array(data["matrix"])
    image = left.imshow(
        # On a logarithmic scale, or all but the first chunks would look alike; the zeros of the
        # diagonal take the colour of the least value.
        np.maximum(matrix, matrix[matrix > 0].min()),
        norm="log",
        origin="lower",
        cmap="viridis",
        extent=(0.5, data["chunks"] + 0.5, 0.5, data["chunks"] + 0.5),
    )
    figure.colorbar(image, ax=left, label="divergence in bits")
    left.set_xlabel("chunk")
    left.set_ylabel("chunk")
    curve = data["last_against_all"]
    right.loglog(range(1, len(curve) + 1), curve, color="black")
    right.set_xlabel("chunk")
    right.set_ylabel("divergence from the last chunk in bits")
    right.grid(alpha=0.3)
    return figure


def caption(data: dict[str, Any]) -> str:
    first, last = data["maximum_between"]
    return (
        f"Jensen–Shannon divergence (base 2) between the word frequencies of {data['chunks']}"
        f" chunks of {data['n'] // data['chunks']:,} consecutive integers up to"
        f" {format_integer(data['n'])}."
        f" Left, {len(data['shown'])} of the chunks against each other; right, the last one against"
        f" all others. The largest value of all pairs, {data['maximum']:.4f}, is that between chunk"
        f" {first} and chunk {last}. Every word of every integer was counted."
    )


def table(data: dict[str, Any]) -> tuple[Sequence[str], Sequence[Sequence[Any]]]:
    rows = list(enumerate(data["last_against_all"], start=1))
    return ["chunk", "divergence from the last chunk (bits)"], rows


def verdicts(data: dict[str, Any]) -> list[Verdict]:
    between = sorted(data["maximum_between"])
    where = (
        f"chunks {between[0]} and {between[1]} of {data['chunks']}, n = {format_integer(data['n'])}"
    )
    same_text = (data["n"], data["chunks"]) == (PAPER_N, PAPER_CHUNKS)
    return [
        Verdict(
            claim="The divergence is largest between the first chunk and the last.",
            paper=f"first and last of {PAPER_CHUNKS}",
            ours=where,
            agrees=between == [1, data["chunks"]],
        ),
        Verdict(
            claim="The largest divergence between chunks of 1e8 words is about 0.0238.",
            paper=str(PAPER_MAXIMUM),
            ours=f"{data['maximum']:.7f} between chunks of"
            f" {format_integer(data['n'] // data['chunks'])} words (exact counts;"
            " agrees if within 0.00005)",
            agrees=abs(data["maximum"] - PAPER_MAXIMUM) < 5e-5 if same_text else None,
            why=""
            if same_text
            else f"The paper counts {PAPER_CHUNKS} chunks up to {format_integer(PAPER_N)}, this"
            f" study {data['chunks']} up to {format_integer(data['n'])}.",
        ),
    ]
