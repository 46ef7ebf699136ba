"""matplotlib figures as SVG elements of one HTML page."""

import io
import re
import xml.etree.ElementTree as ElementTree

from matplotlib.figure import Figure

_SVG = "http://www.w3.org/2000/svg"
_LINK = "http://www.w3.org/1999/xlink"
ElementTree.register_namespace("", _SVG)
ElementTree.register_namespace("xlink", _LINK)

_REFERENCE = re.compile(r'((?:url\(|href=")#)([^")]+)')
_TRANSLATION = re.compile(r"(?<=translate\()[^)]*")
_NO_METADATA = dict.fromkeys(("Creator", "Date", "Format", "Type"))


def svg(figure: Figure, name: str) -> str:
    """A figure as a small <svg> element without prologue or metadata, whose ids begin with `name`.

    matplotlib derives ids from the content of shapes, so two figures may share ids, and from a
    random salt, so they change from run to run. Here the ids are numbers instead.
    """
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata=_NO_METADATA)
    used = dict.fromkeys(match[2] for match in _REFERENCE.finditer(drawn.getvalue()))
    names = {old: f"{name}-{number}" for number, old in enumerate(used, start=1)}
    root = ElementTree.fromstring(drawn.getvalue())
    _remove_style(root)
    # The style sheet scales the figure by the width for which its font size was chosen.
    root.set("style", f"--width:{root.get('width')};stroke-linejoin:round")
    for element in root.iter():
        element.text = element.tail = None
        _shorten(element)
        old = element.attrib.pop("id", "")
        if old in names:
            element.set("id", names[old])
    plain = ElementTree.tostring(root, encoding="unicode")
    return _REFERENCE.sub(lambda match: match[1] + names[match[2]], plain)


def _remove_style(root: ElementTree.Element) -> None:
    """Remove the style element: inside a page its rule for "*" would apply to the whole page."""
    for part in root.findall(f"{{{_SVG}}}defs"):
        if part.find(f"{{{_SVG}}}style") is not None:
            root.remove(part)


def _shorten(element: ElementTree.Element) -> None:
    """Round coordinates to a hundredth of a point and drop spaces that SVG does not need."""
    for key, value in element.items():
        if key in ("d", "x", "y"):
            element.set(key, re.sub(r"\s*([A-Za-z])\s*", r"\1", _rounded(value)).strip())
        elif key == "transform":
            element.set(key, _TRANSLATION.sub(lambda match: _rounded(match[0]), value))
        elif key == "style":
            element.set(key, re.sub(r"([:;]) ", r"\1", value))


def _rounded(numbers: str) -> str:
    return re.sub(
        r"\d+\.\d+", lambda match: f"{float(match[0]):.2f}".rstrip("0").rstrip("."), numbers
    )
