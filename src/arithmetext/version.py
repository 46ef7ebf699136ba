"""The version, in its own file: runs record it, and a new public name must not discard them."""

__version__ = "0.1.0"
