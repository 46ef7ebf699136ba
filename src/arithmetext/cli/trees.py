"""`nt tree` and `nt word`: one integer."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import trees
from ..errors import InputError
from ..integers import parse_integer
from ..wording import plural
from .options import Timeout


def tree(
    numbers: Annotated[
        list[str] | None, typer.Argument(metavar="N...", help="Integers, 1 or larger.")
    ] = None,
    word: Annotated[
        list[str] | None,
        typer.Option(metavar="WORD", help="Draw the tree of this Dyck word; may be repeated."),
    ] = None,
    svg: Annotated[Path | None, typer.Option(metavar="FILE", help="Write an SVG picture.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per tree.")
    ] = False,
    timeout: Timeout = 60,
) -> None:
    """Draw the tree of an integer, or of a word.

    The root is at the bottom. The nodes above it are the primes of the integer, and above each
    prime is the tree of its exponent. Many integers have the same word; for a word the least of
    them is printed.
    """
    from ..drawing import svg_drawing, text_drawing

    forest = [trees.tree(parse_integer(n), timeout=timeout) for n in numbers or []]
    forest += [trees.tree_of_word(w) for w in word or []]
    if not forest:
        raise InputError("nothing to draw: give an integer, or a word with --word")
    if as_json:
        for t in forest:
            print(json.dumps(_tree_json(t), ensure_ascii=False))
    if svg is not None:
        from ..files import write_whole

        if svg.suffix.lower() != ".svg":
            raise InputError(f"--svg writes SVG: the name must end in .svg, not {svg.name!r}")

        write_whole(svg, svg_drawing(forest))
    if as_json or svg is not None:
        return
    for i, t in enumerate(forest):
        if i:
            print()
        print(text_drawing(t))
        print()
        if t.label is not None:
            print(f"{t.label} = {t.formula()}")
        else:
            print(f"least integer: {_least(t)}")
        print(
            f"word {t.word or '(empty)'}, height {t.height}, {plural(t.leaves, 'leaf', 'leaves')}"
        )


def word(
    numbers: Annotated[list[str], typer.Argument(metavar="N...", help="Integers, 1 or larger.")],
    timeout: Timeout = 60,
) -> None:
    """Print the Dyck word of each integer, one per line.

    The word of 1 is empty.
    """
    # Compute all words before printing any: a mistake in the last argument must print nothing.
    for w in [trees.word(parse_integer(n), timeout=timeout) for n in numbers]:
        print(w)


def _tree_json(t: trees.Tree) -> dict[str, Any]:
    def node(t: trees.Tree) -> dict[str, Any]:
        labelled = {} if t.label is None else {"prime": t.label}
        return labelled | {"children": [node(child) for child in t.children]}

    about: dict[str, Any] = {"n": t.label} if t.label is not None else {"least": _least(t)}
    return about | {
        "word": t.word,
        "packed": t.packed,
        "height": t.height,
        "edges": t.edges,
        "leaves": t.leaves,
        "formula": t.formula() if t.label is not None else trees.least_labels(t).formula(),
        "children": [node(child) for child in t.children],
    }


def _least(shape: trees.Tree) -> int | str:
    """The least integer with this tree; its factorisation if it has thousands of digits."""
    smallest = trees.least_labels(shape)
    try:
        return smallest.value
    except OverflowError:
        return smallest.formula()
