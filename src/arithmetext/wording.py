"""Pieces of sentences that the command line, the explorer and the report share."""


def plural(count: int, one: str, many: str = "") -> str:
    """
    >>> plural(1, "leaf", "leaves"), plural(2048, "token")
    ('1 leaf', '2,048 tokens')
    """
    return f"{count:,} {one if count == 1 else many or one + 's'}"
