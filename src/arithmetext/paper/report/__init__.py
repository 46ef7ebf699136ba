"""One self-contained HTML page from the kept results of the studies."""

from pathlib import Path

from ...files import make_folder, write_whole
from .findings import counted, csv_text, load_findings
from .markdown import verdict_table
from .page import page


def build(folder: Path) -> Path:
    """Write `folder`/index.html, figures and tables from the results in `folder`/data."""
    found = load_findings(folder)
    make_folder(folder / "figures")
    for finding in found:
        write_whole(folder / "figures" / f"{finding.name}.svg", finding.svg)
        write_whole(folder / "data" / f"{finding.name}.csv", csv_text(finding))
    index = folder / "index.html"
    write_whole(index, page(found))
    return index


def summary(folder: Path) -> str:
    """The verdicts of the results in `folder`/data, as a table in Markdown."""
    verdicts = [verdict for finding in load_findings(folder) for verdict in finding.verdicts]
    return f"{counted(verdicts)}.\n\n{verdict_table(verdicts)}"
