"""`nt stats`: statistics of the text."""

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from .. import cost
from ..errors import InputError
from ..integers import parse_integer
from .options import MOST_SEED, AsJson, Cluster, Command, Count, Group, Start, at_least, parse_range

app = typer.Typer(
    cls=Group,
    name="stats",
    help="Compute statistics of the text: entropy, divergence, ranks.",
    no_args_is_help=True,
)


@app.command(cls=Command)
def divergence(
    n: Annotated[
        str, typer.Argument(metavar="N", help="Last integer; a multiple of the number of chunks.")
    ],
    chunks: Annotated[
        int,
        typer.Option(parser=at_least(2), metavar="K", help="Number of chunks, of equal length."),
    ] = 10,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Compute Jensen–Shannon divergences between chunks.

    Prints the divergence of each chunk from the last chunk in bits; with --json the whole matrix.
    """
    import numpy as np

    from ..counting.divergence import js_matrix
    from ..counting.histograms import chunk_histograms

    bound = parse_integer(n)
    if bound > chunks and bound % chunks:
        nearest = max(bound - bound % chunks, 2 * chunks)
        raise InputError(f"N must be a multiple of --chunks, {chunks}: try {nearest}, not {bound}")
    if cluster is None:
        cost.check(cost.divergence(bound, chunks))
    _, counts = chunk_histograms(bound, chunks, cluster=cluster)
    matrix = js_matrix(counts)
    first, second = sorted(int(k) for k in np.unravel_index(np.argmax(matrix), matrix.shape))
    if as_json:
        print(json.dumps({"n": bound, "chunks": chunks, "matrix": matrix.tolist()}))
        return
    print("chunk   divergence from the last chunk, bits")
    for k, value in enumerate(matrix[-1, :-1], start=1):
        print(f"{k:5}   {value:.7f}")
    print(f"\nlargest of all pairs: {matrix.max():.7f} bits, chunks {first + 1} and {second + 1}")


@app.command(cls=Command)
def ranks(
    x: Annotated[str, typer.Argument(metavar="X", help="Last integer.")],
    as_json: AsJson = False,
) -> None:
    """Fit frequency against rank: does Zipf's law hold?"""
    from ..counting.census import census
    from ..counting.divergence import fit_ranks, rank_frequency

    bound = parse_integer(x)
    cost.check(cost.census(bound))
    fits = fit_ranks(rank_frequency(census(bound)))
    if as_json:
        print(json.dumps(asdict(fits)))
        return
    print(f"{fits.ranks} words; ln f = a − b ln r − c (ln r)², rank r has weight 1/r\n")
    print(f"{'':10} {'b':>8} {'c':>8} {'R²':>8} {'rms':>8}")
    for name, fit in (("power law", fits.zipf), ("parabola", fits.parabola)):
        print(f"{name:10} {fit.b:8.4f} {fit.c:8.4f} {fit.r_squared:8.5f} {fit.rms:8.4f}")
    print(
        f"\nAIC favours the parabola by {fits.aic_difference:.0f} (above 10: the power law fails)"
    )


@app.command(cls=Command)
def entropy(
    start: Start,
    count: Count,
    longest: Annotated[
        int, typer.Option(parser=at_least(1), metavar="K", help="Largest block, in words.")
    ] = 4,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Compute the entropy of blocks of 1, 2, … words, in bits."""
    from ..counting.order import block_entropies

    lo, hi = parse_range(start, count)
    if cluster is None:
        cost.check(cost.blocks(lo, hi, longest))
    rows = block_entropies(lo, hi, longest, cluster=cluster)
    if as_json:
        print(json.dumps([asdict(row) for row in rows]))
        return
    print(f"{'k':>2} {'blocks':>14} {'distinct':>12} {'H(k)':>10} {'H(k)−H(k−1)':>12} {'bias':>9}")
    for row in rows:
        print(
            f"{row.k:2} {row.blocks:14,} {row.distinct:12,} {row.entropy:10.5f}"
            f" {row.conditional:12.5f} {row.correction:9.5f}"
        )
    print("\nAll in bits. The bias is the Miller–Madow correction: if it is large, count further.")


@app.command(cls=Command)
def compression(start: Start, count: Count, as_json: AsJson = False) -> None:
    """Compress the text with gzip and xz: bits per word.

    The text is compressed twice: as characters, and as the ranks of its words.
    """
    from ..counting.order import compression as compress

    lo, hi = parse_range(start, count)
    cost.check(cost.compression(lo, hi))
    _print_fields(compress(lo, hi - lo), as_json)


@app.command(cls=Command)
def reversal(
    start: Start,
    count: Count,
    words: Annotated[
        int, typer.Option(parser=at_least(2), metavar="K", help="Number of words in a block.")
    ] = 2,
    seed: Annotated[
        int,
        typer.Option(
            parser=at_least(0, MOST_SEED), metavar="K", help="Random seed for the noise floor."
        ),
    ] = 0,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Compare blocks of words with the same blocks reversed.

    A divergence above the noise floor shows that the text has a direction. The floor is the
    divergence that remains when every occurrence of a block is reversed with probability 1/2.
    """
    from ..counting.order import orientation

    lo, hi = parse_range(start, count)
    if cluster is None:
        cost.check(cost.blocks(lo, hi, words))
    found = orientation(lo, hi, words, seed=seed, cluster=cluster)
    if as_json:
        print(json.dumps(asdict(found)))
        return
    print(
        f"{found.blocks:,} blocks of {found.k} words, {found.text.distinct:,} distinct;"
        f" the reversal of {found.text.one_way:.2%} of these never occurs\n"
        f"divergence {found.text.divergence:.4g} bits, noise floor {found.floor:.4g} ±"
        f" {found.spread:.1g} bits (seed {seed})\n"
        "A divergence above the floor shows a direction. A divergence below it shows nothing,"
        "\nbecause the floor is somewhat too high: count more integers."
    )


@app.command(cls=Command)
def walk(
    word: Annotated[str, typer.Argument(metavar="WORD", help="A Dyck word, such as 10.")],
    start: Start,
    count: Count,
    cluster: Cluster = None,
    as_json: AsJson = False,
) -> None:
    """Measure how unevenly a word is spread over the text.

    For windows of each length (lag) it prints the variance of the number of occurrences, and the
    slope of the variance on log–log axes (exponent).
    """
    from ..counting.walks import walk as measure

    lo, hi = parse_range(start, count)
    if cluster is None:
        cost.check(cost.visit(lo, hi))
    found = measure(word, lo, hi, cluster=cluster)
    if as_json:
        print(json.dumps(asdict(found)))
        return
    print(f"{'lag':>10} {'variance':>14} {'exponent':>9}")
    rows = zip(found.lags, found.fluctuations, found.exponents, strict=True)
    for lag, square, exponent in rows:
        print(f"{lag:10,} {square:14.5g} {exponent:9.3f}")
    bend = found.crossover
    print(
        f"\n{found.occurrences:,} occurrences; exponent {bend.before:.3f} up to a lag of"
        f" {bend.lag:,.0f}, {bend.after:.3f} after it"
        "\nAn exponent of 1 means no memory; 2 means ballistic, as where the density drifts."
    )


def _print_fields(result: Any, as_json: bool) -> None:
    fields = asdict(result)
    if as_json:
        print(json.dumps(fields))
        return
    width = max(map(len, fields))
    for name, value in fields.items():
        shown = f"{value:.5f}" if isinstance(value, float) else f"{value:,}"
        print(f"{name.replace('_', ' '):{width}}  {shown}")
