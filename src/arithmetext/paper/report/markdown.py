"""Verdicts as a Markdown table, for a README."""

import re
from collections.abc import Sequence

from ..study import Verdict


def verdict_table(verdicts: Sequence[Verdict]) -> str:
    """One row per verdict: claim, paper, here, verdict."""
    rows = [["claim", "paper", "here", "verdict"], ["---"] * 4]
    for verdict in verdicts:
        cells = map(_escape, (verdict.claim, verdict.paper, verdict.evidence))
        reason = f": {_escape(verdict.why)}" if verdict.agrees is None else ""
        rows.append([*cells, f"{verdict.symbol} {verdict.outcome}{reason}"])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _escape(text: str) -> str:
    """Text on one line, with the characters escaped that Markdown would interpret."""
    return re.sub(r"([\\`*_|<~$])", r"\\\1", " ".join(text.split()))
