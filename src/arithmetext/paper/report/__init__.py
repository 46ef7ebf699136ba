"""The report: one self-contained HTML page, and a Markdown table of verdicts."""

from pathlib import Path

from ...files import make_folder, write_whole
from .findings import count_outcomes, csv_text, load_findings, without_claims
from .markdown import verdict_table
from .page import page


def build(folder: Path) -> Path:
    """Write `folder`/index.html, figures and tables from the results in `folder`/data."""
    findings = load_findings(folder)
    make_folder(folder / "figures")
    for finding in findings:
        write_whole(folder / "figures" / f"{finding.name}.svg", finding.svg)
        write_whole(folder / "data" / f"{finding.name}.csv", csv_text(finding))
    index = folder / "index.html"
    write_whole(index, page(findings))
    return index


def summary(folder: Path) -> str:
    """The verdicts on the results in `folder`/data, as a Markdown table below their counts."""
    findings = load_findings(folder)
    verdicts = [verdict for finding in findings for verdict in finding.verdicts]
    if not verdicts:
        return f"{without_claims(len(findings))} of the paper.\n"
    return f"{count_outcomes(verdicts)}.\n\n{verdict_table(verdicts)}"
