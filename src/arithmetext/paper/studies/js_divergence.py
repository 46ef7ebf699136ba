"""How far the word frequencies drift along the text (the paper's Jensen–Shannon figure)."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from ...counting.divergence import js_matrix
from ...counting.histograms import chunk_histograms
from ...integers import format_integer
from ..study import Table, Verdict

TITLE = "Divergence between chunks of the text"
ORDER = 20
COST = {"laptop": 2, "gpu": 400}

PAPER_N, PAPER_CHUNKS, PAPER_MAXIMUM = 10**11, 1000, 0.0238


@dataclass(frozen=True)
class Settings:
    n: int
    chunks: int
    shown: int  # chunks in the picture of the matrix


@dataclass(frozen=True)
class Result:
    n: int
    chunks: int
    words: int  # different words in the text
    maximum: float  # in bits, over all pairs of chunks
    maximum_between: tuple[int, int]  # chunks count from 1
    last_against_all: list[float]
    shown: list[int]  # the chunks of `matrix`
    matrix: list[list[float]]

    @property
    def chunk_size(self) -> int:
        return self.n // self.chunks


def settings(scale: str) -> Settings:
    if scale == "laptop":
        return Settings(n=10**9, chunks=100, shown=50)
    return Settings(n=PAPER_N, chunks=PAPER_CHUNKS, shown=100)


def run(settings: Settings) -> Result:
    n, chunks = settings.n, settings.chunks
    words, counts = chunk_histograms(n, chunks)
    matrix = js_matrix(counts)
    first, second = np.unravel_index(np.argmax(matrix), matrix.shape)
    shown = np.linspace(0, chunks - 1, settings.shown).round().astype(int)
    return Result(
        n,
        chunks,
        words=len(words),
        maximum=float(matrix[first, second]),
        maximum_between=(int(first) + 1, int(second) + 1),
        last_against_all=[float(f"{value:.6g}") for value in matrix[-1, :-1]],
        shown=(shown + 1).tolist(),
        matrix=[[float(f"{value:.4g}") for value in row] for row in matrix[np.ix_(shown, shown)]],
    )


def plot(result: Result) -> Figure:
    figure = Figure(figsize=(9.6, 4.2), layout=ConstrainedLayoutEngine(wspace=0.08))
    left, right = figure.subplots(1, 2)
    matrix = np.array(result.matrix)
    image = left.imshow(
        # On a linear scale all but the first chunks would look alike. The zeros of the diagonal
        # take the colour of the least value.
        np.maximum(matrix, matrix[matrix > 0].min()),
        norm="log",
        origin="lower",
        cmap="viridis",
        extent=(0.5, result.chunks + 0.5, 0.5, result.chunks + 0.5),
    )
    figure.colorbar(image, ax=left, label="divergence in bits")
    left.set_xlabel("chunk")
    left.set_ylabel("chunk")
    curve = result.last_against_all
    right.loglog(range(1, len(curve) + 1), curve, color="black")
    right.set_xlabel("chunk")
    right.set_ylabel("divergence from the last chunk in bits")
    right.grid(alpha=0.3)
    return figure


def in_short(result: Result) -> str:
    first, second = sorted(result.maximum_between)
    return (
        f"Of {result.chunks} chunks of {format_integer(result.chunk_size)} words, chunks {first}"
        f" and {second} differ most, by {result.maximum:.4f} bits. The last two chunks differ by"
        f" {result.last_against_all[-1]:.1g} bits."
    )


def caption(result: Result) -> str:
    first, second = result.maximum_between
    return (
        f"Jensen–Shannon divergence (base 2) between the word frequencies of {result.chunks} chunks"
        f" of {result.chunk_size:,} consecutive integers up to {format_integer(result.n)}. Left:"
        f" {len(result.shown)} of the chunks against each other. Right: the last chunk against all"
        f" others. The largest divergence of all pairs is {result.maximum:.4f}, between chunk"
        f" {first} and chunk {second}. The word of every integer was counted."
    )


def table(result: Result) -> Table:
    rows = list(enumerate(result.last_against_all, start=1))
    return ["chunk", "divergence from the last chunk (bits)"], rows


def verdicts(result: Result) -> list[Verdict]:
    first, second = sorted(result.maximum_between)
    same_text = (result.n, result.chunks) == (PAPER_N, PAPER_CHUNKS)
    return [
        Verdict(
            key="largest-first-last",
            claim="The divergence is largest between the first chunk and the last.",
            paper=f"first and last of {PAPER_CHUNKS}",
            ours=f"chunks {first} and {second} of {result.chunks}, n = {format_integer(result.n)}",
            criterion="the two chunks that diverge most are the first and the last",
            agrees=(first, second) == (1, result.chunks),
        ),
        Verdict(
            key="maximum",
            claim="The largest divergence between chunks of 1e8 words is about 0.0238.",
            paper=str(PAPER_MAXIMUM),
            ours=f"{result.maximum:.7f} between chunks of {format_integer(result.chunk_size)} words"
            " (exact counts)",
            criterion="the largest divergence differs from the paper's by less than 0.00005",
            agrees=abs(result.maximum - PAPER_MAXIMUM) < 5e-5 if same_text else None,
            why=""
            if same_text
            else f"The paper counts {PAPER_CHUNKS} chunks up to {format_integer(PAPER_N)}, this"
            f" study {result.chunks} up to {format_integer(result.n)}.",
        ),
    ]
