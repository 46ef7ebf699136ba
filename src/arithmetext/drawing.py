"""Draw trees as text or as SVG, with the root at the bottom as in the paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from .trees import Tree


def text_drawing(tree: Tree) -> str:
    """Draw a tree with box characters."""
    layout = lay_out(tree, gap=3)
    rows = [[" "] * (int(layout.width) + 1) for _ in range(2 * tree.height + 1)]

    def put(depth_twice: int, x: float, text: str) -> None:
        row = rows[2 * tree.height - depth_twice]
        row[int(x) : int(x) + len(text)] = text

    for node in layout.nodes:
        text = _label(node.tree, root=node.depth == 0)
        put(2 * node.depth, node.x - (len(text) - 1) / 2, text)
        if not node.children:
            continue
        places = [int(child.x) for child in node.children]
        line = dict.fromkeys(range(places[0], places[-1] + 1), "─")
        line |= dict.fromkeys(places, "┴") | {places[0]: "└", places[-1]: "┘"}
        under = int(node.x)
        line[under] = "│" if len(places) == 1 else "┼" if under in places else "┬"
        for x, character in line.items():
            put(2 * node.depth + 1, x, character)
    return "\n".join("".join(row).rstrip() for row in rows)


def svg_drawing(trees: Sequence[Tree]) -> str:
    """Draw trees side by side on one ground line, as a stand-alone SVG picture."""
    unit, radius, margin = 8.0, 13.0, 14.0

    def half_width(node: "Node") -> float:
        """Of the box around the label."""
        return max(radius, len(_label(node.tree, root=False)) * unit / 2 + 4)

    layouts = [lay_out(tree, gap=3.2) for tree in trees]
    level = 46.0
    for node in (each for layout in layouts for each in layout.nodes if len(each.children) > 1):
        # The edge to an outermost child must pass below the box of the child beside it.
        for outer, beside in (node.children[:2], node.children[:-3:-1]):
            room = abs(outer.x - beside.x) * unit - half_width(beside)
            level = max(level, (radius + 2) * abs(outer.x - node.x) * unit / max(room, 1.0))
    level = min(level, 150.0)
    height = 2 * (margin + radius) + level * max(tree.height for tree in trees)
    ground = height - margin - radius
    edges, nodes, labels, left = [], [], [], margin + radius

    for layout in layouts:

        def place(node: "Node", left: float = left) -> tuple[float, float]:
            return left + node.x * unit, ground - node.depth * level

        for node in layout.nodes:
            x, y = place(node)
            for child in node.children:
                cx, cy = place(child)
                edges.append(f'<line x1="{x:g}" y1="{y:g}" x2="{cx:g}" y2="{cy:g}"/>')
            style = 'fill="#fff"' if node.depth else 'class="root" fill="#bbb"'
            if node.tree.label is None:
                nodes.append(f'<circle {style} cx="{x:g}" cy="{y:g}" r="{radius / 2:g}"/>')
                continue
            text, half = _label(node.tree, root=False), half_width(node)
            nodes.append(
                f'<rect {style} x="{x - half:g}" y="{y - radius:g}" width="{2 * half:g}"'
                f' height="{2 * radius:g}" rx="{radius:g}"/>'
            )
            labels.append(f'<text x="{x:g}" y="{y + 4.5:g}">{escape(text)}</text>')
        left += layout.width * unit + 2.2 * radius
    width = left - 1.2 * radius + margin

    names = ", ".join(str(t.label) if t.label is not None else t.word for t in trees)
    title = f"Tree of {names}" if len(trees) == 1 else f"Trees of {names}"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}"'
            f' viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(title)}">',
            f"<title>{escape(title)}</title>",
            # A white background, so that the picture can be read on a dark page.
            f'<rect width="{width:.0f}" height="{height:.0f}" rx="6" fill="#fff"/>',
            # No style sheet: inside a page it would apply to the whole page.
            '<g stroke="#222" stroke-width="1.6">',
            *edges,
            *nodes,
            '</g><g font-family="ui-monospace,monospace" font-size="13" text-anchor="middle"'
            ' fill="#111">',
            *labels,
            "</g></svg>\n",
        ]
    )


def small_svg(tree: Tree) -> str:
    """Draw a tree as dots, in the colour of the text around it, for use inside a page."""
    layout, margin, scale = lay_out(tree, gap=1), 5.0, 0.7
    width = 2 * margin + 7 * max(node.x for node in layout.nodes)
    height = 2 * margin + 18 * tree.height
    return (
        f'<svg width="{scale * width:g}" height="{scale * height:g}"'
        f' viewBox="0 0 {width:g} {height:g}" role="img" aria-label="Tree of {tree.word}">'
        '<g stroke="currentColor" stroke-width="1.4" fill="currentColor">'
        f"{''.join(dots(layout, margin, height - margin))}</g></svg>"
    )


def dots(layout: "Layout", left: float, ground: float) -> list[str]:
    """The edges and nodes of a small tree, as SVG; the root has the class `root`."""

    def place(node: "Node") -> tuple[float, float]:
        return left + 7 * node.x, ground - 18 * node.depth

    edges, nodes = [], []
    for node in layout.nodes:
        x, y = place(node)
        for child in node.children:
            cx, cy = place(child)
            edges.append(f'<line x1="{x:g}" y1="{y:g}" x2="{cx:g}" y2="{cy:g}"/>')
        kind = "" if node.depth else ' class="root"'
        nodes.append(f'<circle{kind} cx="{x:g}" cy="{y:g}" r="3.5"/>')
    return edges + nodes


@dataclass
class Node:
    """A node of a tree with its position."""

    tree: Tree
    x: float
    depth: int
    children: list["Node"]


@dataclass
class Layout:
    """Positions of all nodes, in units of one character; the first node is the root."""

    width: float
    nodes: list[Node]

    def shift(self, dx: float) -> None:
        for node in self.nodes:
            node.x += dx


def lay_out(tree: Tree, *, gap: float, depth: int = 0) -> Layout:
    """Place children side by side, and the parent under the middle of its outermost children."""
    own = len(_label(tree, root=depth == 0))
    parts = [lay_out(child, gap=gap, depth=depth + 1) for child in tree.children]
    width = 0.0
    for part in parts:
        part.shift(width)
        width += part.width + gap
    width -= gap if parts else 0
    roots = [part.nodes[0] for part in parts]
    x = (roots[0].x + roots[-1].x) / 2 if roots else (own - 1) / 2
    # A label may be wider than the children above it: make room on both sides.
    left = max(0.0, (own - 1) / 2 - x)
    for part in parts:
        part.shift(left)
    root = Node(tree, x + left, depth, roots)
    width = max(width + left, root.x + (own + 1) / 2)
    return Layout(width, [root, *(node for part in parts for node in part.nodes)])


def _label(tree: Tree, *, root: bool) -> str:
    if tree.label is None:
        return "●" if root else "○"
    digits = str(tree.label)
    return digits if len(digits) <= 20 else f"{digits[:8]}…{digits[-6:]}"
