"""Verdicts for a README."""

import re
from collections.abc import Sequence

from ..study import Verdict


def verdict_table(verdicts: Sequence[Verdict]) -> str:
    """A table in Markdown: claim, paper, here, verdict."""
    rows = [["claim", "paper", "here", "verdict"], ["---"] * 4]
    for verdict in verdicts:
        cells = map(_plain, (verdict.claim, verdict.paper, verdict.evidence))
        reason = f": {_plain(verdict.why)}" if verdict.agrees is None else ""
        rows.append([*cells, f"{verdict.symbol} {verdict.outcome}{reason}"])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return re.sub(r"([\\`*_|<~$])", r"\\\1", " ".join(text.split()))
