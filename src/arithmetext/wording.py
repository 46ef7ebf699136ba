"""Pieces of sentences that the command line and the explorer share."""


def plural(count: int, one: str, many: str = "") -> str:
    """A count with its noun: "1 leaf", "2 leaves"."""
    return f"{count} {one if count == 1 else many or one + 's'}"
