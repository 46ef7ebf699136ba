"""The version, apart from the public API: a run records it, and no other part of the API."""

__version__ = "0.1.0"
