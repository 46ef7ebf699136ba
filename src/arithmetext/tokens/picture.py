"""Pictures of how consecutive integers are cut into tokens, as text and as SVG."""

from bisect import bisect_right
from collections.abc import Sequence
from html import escape

from .. import drawing, trees

_SPACE = "·"  # shown for a space


def text_picture(tokens: Sequence[str], first: int, width: int = 100) -> str:
    """Integers above their words, with bars between tokens; `first` is the first integer.

    Large integers are written as their distance from the first.
    """
    columns: list[int] = []  # the column of every character of the text
    cells: list[str] = []  # the character in every column
    breaks = [0]  # columns where a token begins and a line may be broken
    for token in tokens:
        cells.append("│")
        for character in token:
            columns.append(len(cells))
            cells.append(_SPACE if character == " " else character)
        breaks.append(len(cells))
    cells.append("│")
    labels = [" "] * (len(cells) + 24)
    for n, (start, stop) in enumerate(word_spans("".join(tokens)), start=first):
        label = _label(n, first)
        middle = (columns[start] + columns[stop - 1] - len(label) + 1) // 2
        labels[max(0, middle) : max(0, middle) + len(label)] = label
    lines = []
    begin = 0
    while begin < len(cells) - 1:
        # Take the last break within the width; a wider token gets a line of its own.
        place = bisect_right(breaks, begin + width) - 1
        end = breaks[place] if breaks[place] > begin else breaks[place + 1]
        lines += ["".join(labels[begin:end]).rstrip(), "".join(cells[begin : end + 1]), ""]
        begin = end
    return "\n".join(lines[:-1])


def svg_picture(tokens: Sequence[str], first: int) -> str:
    """Tokens as boxes in a stand-alone SVG, with the integers and their trees above their words."""
    character, box, gap, margin = 9.0, 26.0, 7.0, 14.0
    shapes = [trees.tree_of_word("".join(tokens)[a:b]) for a, b in word_spans("".join(tokens))]
    highest = max((shape.height for shape in shapes), default=0)
    top = margin + 18.0 * highest + 34
    parts: list[str] = []
    places: list[float] = []  # x of the middle of every character
    x = margin
    for token in tokens:
        width = len(token) * character + 8
        parts.append(f'<rect x="{x:g}" y="{top:g}" width="{width:g}" height="{box:g}" rx="3"/>')
        for i, letter in enumerate(token):
            places.append(x + 4 + (i + 0.5) * character)
            shown = _SPACE if letter == " " else letter
            parts.append(f'<text x="{places[-1]:g}" y="{top + 18:g}">{shown}</text>')
        x += width + gap
    for n, (shape, (a, b)) in enumerate(
        zip(shapes, word_spans("".join(tokens)), strict=True), start=first
    ):
        middle = (places[a] + places[b - 1]) / 2
        parts.append(f'<text class="n" x="{middle:g}" y="{top - 8:g}">{_label(n, first)}</text>')
        layout = drawing.lay_out(shape, gap=1)
        parts += drawing.dots(layout, middle - 7 * layout.nodes[0].x, top - 26)
    height, wide = top + box + margin, x - gap + margin
    title = f"The text from {first}, cut into {len(tokens)} tokens"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:.0f}" height="{height:.0f}"'
            f' viewBox="0 0 {wide:.0f} {height:.0f}" role="img" aria-label="{escape(title)}">',
            f"<title>{escape(title)}</title>",
            "<style>rect{fill:#eee;stroke:#222;stroke-width:1.4}line{stroke:#222}"
            "circle{fill:#fff;stroke:#222}.root{fill:#bbb}"
            "text{font:14px ui-monospace,monospace;text-anchor:middle;fill:#111}"
            ".n{font-size:11px;fill:#666}</style>",
            f'<rect width="{wide:.0f}" height="{height:.0f}" style="fill:#fff;stroke:none"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _label(n: int, first: int) -> str:
    """The integer, or its distance from the first if it would be longer than most words."""
    return str(n) if first < 10**4 else f"+{n - first}"


def word_spans(text: str) -> list[tuple[int, int]]:
    """(begin, end) of every complete word of a text, that is, every word followed by a space."""
    spans, start = [], 0
    for place, character in enumerate(text):
        if character == " ":
            if place > start:
                spans.append((start, place))
            start = place + 1
    return spans
