"""Figures as SVG that can stand beside others in one page."""

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
    """A figure without prologue or address, small, whose ids all begin with `name`.

    matplotlib names shapes by their content, so that two figures share names, and by chance where
    it has no salt: here they are numbered.
    """
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg", metadata=_NO_METADATA)
    used = dict.fromkeys(found[2] for found in _REFERENCE.finditer(drawn.getvalue()))
    names = {old: f"{name}-{number}" for number, old in enumerate(used, start=1)}
    root = ElementTree.fromstring(drawn.getvalue())
    _take_out_style(root)
    # The page needs the width that the letters were made for.
    root.set("style", f"--width:{root.get('width')};stroke-linejoin:round")
    for element in root.iter():
        element.text = element.tail = None
        _shorten(element)
        old = element.attrib.pop("id", "")
        if old in names:
            element.set("id", names[old])
    plain = ElementTree.tostring(root, encoding="unicode")
    return _REFERENCE.sub(lambda found: found[1] + names[found[2]], plain)


def _take_out_style(root: ElementTree.Element) -> None:
    """Inside a page the rule for every element would be one for the whole page."""
    for part in root.findall(f"{{{_SVG}}}defs"):
        if part.find(f"{{{_SVG}}}style") is not None:
            root.remove(part)


def _shorten(element: ElementTree.Element) -> None:
    """A hundredth of a point is finer than any eye, and blanks say nothing."""
    for key, value in element.items():
        if key in ("d", "x", "y"):
            element.set(key, re.sub(r"\s*([A-Za-z])\s*", r"\1", _rounded(value)).strip())
        elif key == "transform":
            element.set(key, _TRANSLATION.sub(lambda found: _rounded(found[0]), value))
        elif key == "style":
            element.set(key, re.sub(r"([:;]) ", r"\1", value))


def _rounded(numbers: str) -> str:
    return re.sub(
        r"\d+\.\d+", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), numbers
    )
