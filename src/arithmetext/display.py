"""Let objects be drawn in notebooks by code that they do not import.

A cached model or result is used for as long as the code that it depends on is the same, and
`sources` finds that code by its import statements. A picture changes no result, so the code that
draws an object is imported by name, which `sources` does not follow.
"""

from importlib import import_module


def drawn(function: str, value: object) -> str:
    """What a function of this package, such as "html.census", makes of an object."""
    module, name = function.split(".")
    picture: str = getattr(import_module(f".{module}", __package__), name)(value)
    return picture
