"""The report as one HTML page."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from ...integers import format_integer, parse_integer
from ...version import __version__
from ..study import SCALES, Verdict
from .findings import Finding, count_outcomes, csv_text

MAX_ROWS = 200  # of a table in the page; the CSV has all rows

# Names of studies have no hyphen. The page's own ids have one, so the two never clash.


def page(findings: Sequence[Finding]) -> str:
    """The whole page as one text: a browser fetches nothing else."""
    verdicts = [verdict for finding in findings for verdict in finding.verdicts]
    return _PAGE.format(
        style=files(__package__).joinpath("style.css").read_text(encoding="utf-8"),
        version=__version__,
        outcomes=count_outcomes(verdicts),
        scale=_describe_scale(findings),
        duration=_duration(sum(finding.seconds for finding in findings)),
        verdicts=_verdict_table(findings) if verdicts else "",
        contents="\n".join(f"<li>{_link(finding)}</li>" for finding in findings),
        sections="\n".join(_section(k, finding) for k, finding in enumerate(findings, start=1)),
    )


def _describe_scale(findings: Sequence[Finding]) -> str:
    """The scale of most studies, and the studies that ran with other settings."""
    number = {scale: sum(scale in finding.scales for finding in findings) for scale in SCALES}
    most = max(number.values())
    if not most:
        return "with custom settings"
    scales = [scale for scale in SCALES if number[scale] == most]
    others = [_link(f) for f in findings if not set(scales) & set(f.scales)]
    return f"at {' or '.join(scales)} scale" + (
        f" (with custom settings: {', '.join(others)})" if others else ""
    )


def _duration(seconds: float) -> str:
    """
    >>> _duration(7.26), _duration(769), _duration(7500)
    ('7.3 s', '12 min 49 s', '2 h 5 min')
    """
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _link(finding: Finding) -> str:
    return f'<a href="#{finding.name}">{escape(finding.title)}</a>'


def _verdict_table(findings: Sequence[Finding]) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in ("Claim", "Paper", "Here", "Verdict"))
    groups = "\n".join(
        f'<tbody id="{finding.name}-verdicts">'
        f'<tr><th colspan="4" scope="rowgroup">{_link(finding)}</th></tr>'
        f"{''.join(map(_verdict_row, finding.verdicts))}</tbody>"
        for finding in findings
        if finding.verdicts
    )
    return _VERDICTS.format(head=head, groups=groups)


def _verdict_row(verdict: Verdict) -> str:
    row_class = {True: "agrees", False: "differs", None: "untested"}[verdict.agrees]
    why = f'<p class="why">{escape(verdict.why)}</p>' if verdict.why else ""
    symbol = f'<span aria-hidden="true">{verdict.symbol}</span>'
    return (
        f'<tr class="{row_class}"><th scope="row">{escape(verdict.claim)}</th>'
        f'<td data-name="Paper">{escape(verdict.paper)}</td>'
        f'<td data-name="Here">{escape(verdict.evidence)}{why}</td>'
        f'<td class="verdict">{symbol} {verdict.outcome}</td></tr>'
    )


def _section(number: int, finding: Finding) -> str:
    name = finding.name
    facts = [f"took {_duration(finding.seconds)}"]
    if finding.verdicts:
        facts.insert(0, f'<a href="#{name}-verdicts">{count_outcomes(finding.verdicts)}</a>')
    numbers = ""
    if finding.rows:
        address = f"data:text/csv;charset=utf-8,{quote(csv_text(finding), safe=',:;/()=')}"
        facts.append(f'<a download="{name}.csv" href="{address}">numbers as CSV</a>')
        numbers = f"<details><summary>The numbers</summary>{_table(finding)}</details>"
    return _SECTION.format(
        name=name,
        number=number,
        title=escape(finding.title),
        svg=finding.svg,
        caption=escape(finding.caption),
        facts=" ".join(f"<span>{fact}</span>" for fact in facts),
        settings=_settings(finding.settings),
        numbers=numbers,
    )


def _settings(value: Any) -> str:
    """Settings as lists of definitions, nested like the JSON."""
    if isinstance(value, dict):
        pairs = (
            f"<dt>{escape(key.replace('_', ' '))}</dt><dd>{_settings(inner)}</dd>"
            for key, inner in value.items()
        )
        return f"<dl>{''.join(pairs)}</dl>"
    if isinstance(value, list):
        return ", ".join(map(_settings, value)) or "–"
    if isinstance(value, int) and value >= 10**4 and parse_integer(format_integer(value)) == value:
        return format_integer(value)
    return escape(_format_cell(value))


def _table(finding: Finding) -> str:
    """The numbers behind the figure."""
    rows, number = finding.rows[:MAX_ROWS], len(finding.rows)
    columns = zip(*rows, strict=True)
    numeric = [all(isinstance(cell, int | float | None) for cell in column) for column in columns]
    classes = [' class="number"' if is_numeric else "" for is_numeric in numeric]
    head = "".join(
        f'<th scope="col"{column_class}>{escape(name)}</th>'
        for column_class, name in zip(classes, finding.header, strict=True)
    )
    body = "\n".join(f"<tr>{_row_cells(row, classes)}</tr>" for row in rows)
    truncated = f": the first {MAX_ROWS} of {number:,} rows; the CSV has all {number:,}"
    title = escape(finding.title)
    return (
        f'<div class="wide" tabindex="0" role="region" aria-label="Numbers: {title}">'
        f'<table class="numbers"><caption>{title}'
        f"{truncated if number > MAX_ROWS else ''}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row_cells(row: Sequence[Any], classes: Sequence[str]) -> str:
    """The cells of a row; the first is its header."""
    first, *others = (escape(_format_cell(cell)) for cell in row)
    pairs = zip(classes[1:], others, strict=True)
    cells = [f"<td{column_class}>{cell}</td>" for column_class, cell in pairs]
    return "".join([f'<th scope="row"{classes[0]}>{first}</th>', *cells])


def _format_cell(cell: Any) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, float):
        return f"{cell:.6g}"
    if isinstance(cell, int):
        return f"{cell:,}" if cell < 10**15 else format_integer(cell)
    return str(cell)


_VERDICTS = """<h2 id="the-verdicts">Verdicts</h2>
<p class="choice"><label><input type="checkbox" id="only-differing" autocomplete="off"> Show only
what differs</label></p>
<table class="verdicts">
<thead><tr>{head}</tr></thead>
{groups}
</table>"""

_SECTION = """<section id="{name}">
<h2 id="{name}-title">{title}</h2>
<figure>
<div class="picture" role="img" aria-labelledby="{name}-title" aria-describedby="{name}-caption">
{svg}
</div>
<figcaption id="{name}-caption"><b>Figure {number}.</b> {caption}</figcaption>
</figure>
<p class="facts">{facts}</p>
<details><summary>Settings</summary>{settings}</details>
{numbers}
</section>"""

# The policy makes a browser refuse every request, because the page needs none.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>The arithmetic text, reproduced</title>
<link rel="icon" href="data:,">
<style>
{style}</style>
</head>
<body>
<main>
<h1>The arithmetic text, reproduced</h1>
<p>The figures of <cite>Testing Transformer Learnability on the Arithmetic Sequence of Rooted
Trees</cite>, reproduced by arithmetext {version}, with the numbers behind them and a verdict on
each of the paper’s claims. <b>{outcomes}</b>. The studies ran {scale} and took {duration} together.
<a class="skip" href="#the-figures">To the figures</a></p>
{verdicts}
<nav aria-label="Figures">
<h2 id="the-figures">Figures</h2>
<ol>
{contents}
</ol>
</nav>
{sections}
</main>
</body>
</html>
"""
