"""One self-contained HTML page from the kept results of the studies."""

import csv
import io
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from urllib.parse import quote

import matplotlib

from . import __version__, studies
from .errors import InputError
from .files import make_folder, write_whole

# The same data gives the same bytes.
matplotlib.rcParams["svg.hashsalt"] = "arithmetext"


def build(folder: Path) -> Path:
    """Write `folder`/index.html, figures and tables from the results in `folder`/data."""
    make_folder(folder / "figures")
    parts, verdicts = [], []
    for name, study in studies.all_studies().items():
        result = studies.load(folder / "data" / f"{name}.json")
        if result is None:
            continue
        try:
            part, found = _part(name, study, result, folder)
        except (KeyError, IndexError, TypeError, ValueError):
            print(
                f"left out: {folder}/data/{name}.json does not fit this version of the study",
                file=sys.stderr,
            )
            continue
        parts.append(part)
        verdicts += [(name, verdict) for verdict in found]
    if not parts:
        raise InputError(f"no results in {folder}/data: nt reproduce makes them")
    page = _PAGE.format(
        style=_STYLE, version=__version__, verdicts=_verdicts(verdicts), parts="\n".join(parts)
    )
    index = folder / "index.html"
    write_whole(index, page)
    return index


def _part(
    name: str, study: studies.Study, result: studies.Result, folder: Path
) -> tuple[str, list[studies.Verdict]]:
    """The section of one study, and its verdicts."""
    svg = _svg(study, result.data, folder / "figures" / f"{name}.svg")
    header, rows = study.table(result.data)
    table_csv = _csv([header, *rows])
    write_whole(folder / "data" / f"{name}.csv", table_csv)
    settings = ", ".join(f"{key} = {value}" for key, value in result.settings.items())
    section = (
        f'<section id="{name}"><h2>{escape(study.TITLE)}</h2>'
        f'<figure><div class="picture" role="img" aria-label="{escape(study.TITLE)}">'
        f"{svg}</div>"
        f"<figcaption>{escape(study.caption(result.data))}</figcaption></figure>"
        f'<p class="how">Took {result.seconds:.1f} s. Settings: {escape(settings)}.'
        f' <a download="{name}.csv" href="data:text/csv,{quote(table_csv)}">CSV</a></p>'
        f"<details><summary>The numbers</summary>{_table(header, rows)}</details></section>"
    )
    return section, study.verdicts(result.data)


def _svg(study: studies.Study, data: dict[str, object], path: Path) -> str:
    drawn = io.StringIO()
    study.plot(data).savefig(drawn, format="svg", metadata={"Date": None})
    write_whole(path, drawn.getvalue())
    # Inside a page the picture needs no XML prologue.
    return drawn.getvalue()[drawn.getvalue().index("<svg") :]


def _csv(rows: list[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _table(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    cells = ("".join(f"<td>{escape(_shown(cell))}</td>" for cell in row) for row in rows)
    return _table_of(header, "".join(f"<tr>{row}</tr>" for row in cells))


def _table_of(header: Sequence[str], body: str, kind: str = "numbers") -> str:
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in header)
    return (
        f'<div class="wide"><table class="{kind}"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _shown(cell: object) -> str:
    if isinstance(cell, float):
        return f"{cell:.6g}"
    if isinstance(cell, int):
        return f"{cell:,}"
    return str(cell)


def _verdicts(verdicts: list[tuple[str, studies.Verdict]]) -> str:
    rows = "".join(
        f'<tr><td><a href="#{name}">{escape(v.claim)}</a></td>'
        f'<td data-name="Paper">{escape(v.paper)}</td>'
        f'<td data-name="Here">{escape(v.ours)}</td>'
        f'<td class="{"agrees" if v.agrees else "differs"}">'
        f"{'agrees' if v.agrees else 'differs'}</td><td>{escape(v.why)}</td></tr>"
        for name, v in verdicts
    )
    return _table_of(["Claim", "Paper", "Here", "Verdict", "Why"], rows, kind="verdicts")


_STYLE = """
:root { color-scheme: light; }
body { font: 17px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
       max-width: 60rem; margin: 0 auto; padding: 1rem; }
h1, h2 { line-height: 1.2; }
figure { margin: 1rem 0; }
.picture svg { width: 100%; height: auto; }
figcaption { color: #333; }
.how { color: #555; font-size: .85rem; overflow-wrap: anywhere; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { text-align: left; vertical-align: top; padding: .25rem .8rem .25rem 0;
         border-bottom: 1px solid #ddd; }
.agrees { color: #06662e; font-weight: 600; } .differs { color: #a01818; font-weight: 600; }
@media (max-width: 600px) {
  .picture { overflow-x: auto; } .picture svg { min-width: 640px; }
  .verdicts thead { display: none; }
  .verdicts tr { display: block; padding: .5rem 0; border-bottom: 1px solid #ddd; }
  .verdicts td { display: block; border: 0; padding: 0; }
  .verdicts td[data-name]:not(:empty)::before { content: attr(data-name) ": "; color: #555; }
}
@media print { details { display: none; } section { break-inside: avoid; } }
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>arithmetext: the paper, reproduced</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>The arithmetic text, reproduced</h1>
<p>Each figure of <em>Testing Transformer Learnability on the Arithmetic Sequence of Rooted
Trees</em> that arithmetext {version} can make, with the numbers behind it and, first, what became
of the paper's claims.</p>
<h2>Verdicts</h2>
{verdicts}
{parts}
</main>
</body>
</html>
"""
