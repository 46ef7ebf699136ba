"""Write pages and JSON."""

import json
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ..drawing import small_svg, svg_drawing
from ..trees import Tree, tree_of_word
from ..version import __version__

# The pages in the order of the navigation: (name of the template, address, title).
NAVIGATION = [
    ("number", "/n/360", "Number"),
    ("text", "/text", "Text"),
    ("find", "/find", "Find"),
    ("locate", "/locate", "Locate"),
    ("model", "/model", "Model"),
    ("report", "/report", "Reports"),
]

FAILED = "The explorer failed here; the terminal shows why."


def render(request: Request, name: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """The page that a template makes of these values."""
    page = (
        _templates()
        .get_template(f"{name}.html")
        .render(page=name, navigation=NAVIGATION, version=__version__, **values)
    )
    return HTMLResponse(page, status)


def answer_json(value: Any, *, status: int = 200) -> Response:
    """A value as JSON, for our pages, other programs and notebooks."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(text, status, media_type="application/json")


def large_tree(tree: Tree) -> Markup:
    """A labelled tree; the style sheet gives it the colours of the page."""
    return Markup(svg_drawing([tree]))


def sentence(message: str) -> str:
    """A message of the library as a sentence: on one line, with a capital and a full stop."""
    line = " ".join(message.split())
    return line[:1].upper() + line[1:] + ("" if line.endswith((".", "?", "!")) else ".")


@cache
def small_tree(word: str) -> Markup:
    """The tree of a word as dots."""
    return Markup(small_svg(tree_of_word(word)))


@cache
def _templates() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"large_tree": large_tree, "small_tree": small_tree}
    return environment
