"""Results from disk, with the figures, captions, tables and verdicts that their studies make."""

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
from ..wording import plural
from .picture import svg


@dataclass(frozen=True, kw_only=True)
class Finding:
    """All that the report shows of one study."""

    name: str
    title: str
    scales: list[str]  # whose settings the result was made with
    settings: dict[str, Any]
    seconds: float
    svg: str
    in_short: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    verdicts: list[Verdict]


def load_findings(folder: Path) -> list[Finding]:
    """The findings of all results in `folder`/data, in the paper's order.

    A result that does not fit its study is left out, with a message on stderr.
    """
    findings = []
    for name, study in all_studies().items():
        path = folder / "data" / f"{name}.json"
        if not path.exists():
            continue
        try:
            findings.append(_load_finding(name, study, path.parent))
        except Exception as error:  # a study that fails in any way must not hide the others
            reason = f"{type(error).__name__}: {error}"
            print(
                f"left out: {path} does not fit this version of the study ({reason})",
                file=sys.stderr,
            )
    if not findings:
        raise InputError(f"no results in {folder}/data: nt reproduce makes them")
    return findings


def _load_finding(name: str, study: Study, folder: Path) -> Finding:
    result = load(study, folder)
    header, rows = study.table(result.data)
    return Finding(
        name=name,
        title=study.TITLE,
        scales=[scale for scale in SCALES if to_json(study.settings(scale)) == result.settings],
        settings=result.settings,
        seconds=result.seconds,
        svg=svg(study.plot(result.data), name),
        in_short=study.in_short(result.data),
        caption=study.caption(result.data),
        header=header,
        rows=rows,
        verdicts=study.verdicts(result.data),
    )


def count_outcomes(verdicts: Sequence[Verdict]) -> str:
    """The number of claims and of each outcome, in words.

    For instance "78 claims: 65 agree (6 by construction), 12 differ, 1 not tested here".
    """
    agree = sum(verdict.agrees is True for verdict in verdicts)
    constructed = sum(verdict.agrees is True and verdict.by_construction for verdict in verdicts)
    differ = sum(verdict.agrees is False for verdict in verdicts)
    untested = len(verdicts) - agree - differ
    return (
        plural(len(verdicts), "claim")
        + f": {agree} agree{'s' * (agree == 1)}"
        + (f" ({constructed} by construction)" if constructed else "")
        + f", {differ} differ{'s' * (differ == 1)}"
        + (f", {untested} not tested here" if untested else "")
    )


def without_claims(number: int) -> str:
    """
    >>> without_claims(1), without_claims(2)
    ('1 study that tests no claim', '2 studies that test no claim')
    """
    return f"{plural(number, 'study', 'studies')} that test{'s' * (number == 1)} no claim"


def csv_text(finding: Finding) -> str:
    """The table of a finding as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([finding.header, *finding.rows])
    return text.getvalue()
