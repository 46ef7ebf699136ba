"""What the kept results say, drawn and put into words by their studies."""

import csv
import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...evaluation.codec import to_json
from ..study import SCALES, Study, Verdict, all_studies, load
from .picture import svg


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One study, ready to be shown."""

    name: str
    title: str
    scales: list[str]
    settings: dict[str, Any]
    seconds: float
    svg: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    verdicts: list[Verdict]


def load_findings(folder: Path) -> list[Finding]:
    """What is found in `folder`/data, in the paper's order; a result that does not fit is named."""
    found = []
    for name, study in all_studies().items():
        path = folder / "data" / f"{name}.json"
        if not path.exists():
            continue
        try:
            found.append(_finding(name, study, path.parent))
        except Exception as error:  # whatever it is, the other studies are shown
            about = f"{type(error).__name__}: {error}"
            print(
                f"left out: {path} does not fit this version of the study ({about})",
                file=sys.stderr,
            )
    if not found:
        raise InputError(f"no results in {folder}/data: nt reproduce makes them")
    return found


def _finding(name: str, study: Study, folder: Path) -> Finding:
    result = load(study, folder)
    header, rows = study.table(result.data)
    return Finding(
        name=name,
        title=study.TITLE,
        scales=[s for s in SCALES if to_json(study.settings(s)) == result.settings],
        settings=result.settings,
        seconds=result.seconds,
        svg=svg(study.plot(result.data), name),
        caption=study.caption(result.data),
        header=header,
        rows=rows,
        verdicts=study.verdicts(result.data),
    )


def counted(verdicts: Sequence[Verdict]) -> str:
    """How many claims there are and how many have each outcome.

    >>> counted([Verdict(claim="", paper="", ours="", agrees=True)])
    '1 claim: 1 agrees, 0 differ'
    >>> made = Verdict(claim="", paper="", ours="", agrees=True, by_construction=True)
    >>> open = Verdict(claim="", paper="", ours="", agrees=None, why="Too few words.")
    >>> counted([made, made, open])
    '3 claims: 2 agree (2 by construction), 0 differ, 1 not tested here'
    """
    agree = sum(verdict.agrees is True for verdict in verdicts)
    made = sum(verdict.agrees is True and verdict.by_construction for verdict in verdicts)
    differ = sum(verdict.agrees is False for verdict in verdicts)
    untested = len(verdicts) - agree - differ
    return (
        f"{len(verdicts)} claim{'s' * (len(verdicts) != 1)}:"
        f" {agree} agree{'s' * (agree == 1)}{f' ({made} by construction)' if made else ''},"
        f" {differ} differ{'s' * (differ == 1)}"
        + (f", {untested} not tested here" if untested else "")
    )


def csv_text(finding: Finding) -> str:
    """All the numbers behind a figure."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([finding.header, *finding.rows])
    return text.getvalue()
