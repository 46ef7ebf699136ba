"""The report as one HTML page: a summary, then a card for each study."""

from collections import Counter
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any
from urllib.parse import quote

from ...integers import format_integer, parse_integer
from ...version import __version__
from ..study import SCALES, SYMBOLS, Verdict
from .findings import Finding, count_outcomes, csv_text, without_claims

HEADLINE = "accuracy_length"  # the study that opens the page, if it has a result
MAX_ROWS = 200  # of a table in the page; the CSV has all rows

# The classes of claims, of cards and of entries in the contents, which the filter chooses among.
_CLASSES = {True: "agrees", False: "differs", None: "untested"}
_NAMES = {True: "agrees", False: "differs", None: "not tested here"}

# Names of studies have no hyphen. The page's own ids have one, so the two never clash.


def page(findings: Sequence[Finding]) -> str:
    """The whole page as one text: a browser fetches nothing else."""
    verdicts = [verdict for finding in findings for verdict in finding.verdicts]
    numbers = {finding.name: number for number, finding in enumerate(findings, start=1)}
    headline = next((each for each in findings if each.name == HEADLINE), findings[0])
    first, copy = _twice(headline)
    return _PAGE.format(
        style=files(__package__).joinpath("style.css").read_text(encoding="utf-8"),
        version=__version__,
        scale=_describe_scale(findings),
        duration=_duration(sum(finding.seconds for finding in findings)),
        about="tests the claims" if verdicts else f"shows {without_claims(len(findings))}",
        studies="the studies" if len(findings) > 1 else "the study",
        together=" together" if len(findings) > 1 else "",
        outcomes=f" <b>{count_outcomes(verdicts)}.</b>" if verdicts else "",
        finding=escape(_split(headline.in_short)[0]),
        picture=_picture(first, "the-finding", "the-headline"),
        number=numbers[headline.name],
        link=_link(headline),
        filter=_filter(verdicts) if verdicts else "",
        contents="\n".join(map(_entry, findings)),
        legend=_legend(verdicts) if verdicts else "",
        cards="\n".join(
            _card(numbers[each.name], each, copy if each is headline else each.svg)
            for each in findings
        ),
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


def _split(text: str) -> tuple[str, str]:
    """The first sentence of a text, and the rest.

    >>> _split("One. Two. Three."), _split("One.")
    (('One.', 'Two. Three.'), ('One.', ''))
    """
    first, _, rest = text.partition(". ")
    return (f"{first}.", rest) if rest else (text, "")


def _twice(finding: Finding) -> tuple[str, str]:
    """The figure of a study, and a small <svg> that shows the same shapes again."""
    tag, _, shapes = finding.svg.removesuffix("</svg>").partition(">")
    shown = f"{finding.name}-figure"
    return f'{tag}><g id="{shown}">{shapes}</g></svg>', f'{tag}><use href="#{shown}" /></svg>'


def _picture(svg: str, title: str, description: str) -> str:
    # It can be focused because it may be scrolled on a small screen.
    return (
        f'<div class="picture" role="img" tabindex="0" aria-labelledby="{title}"'
        f' aria-describedby="{description}">\n{svg}\n</div>'
    )


def _link(finding: Finding) -> str:
    return f'<a href="#{finding.name}">{escape(finding.title)}</a>'


def _tally(verdicts: Sequence[Verdict]) -> Counter[bool | None]:
    return Counter(verdict.agrees for verdict in verdicts)


def _filter(verdicts: Sequence[Verdict]) -> str:
    """Radio buttons that choose the outcomes to show; the style sheet does the rest."""
    tally = _tally(verdicts)
    choices = [("all", "all", len(verdicts), " checked")]
    choices += [
        (kind, f'<b aria-hidden="true">{SYMBOLS[agrees]}</b> {_NAMES[agrees]}', tally[agrees], "")
        for agrees, kind in _CLASSES.items()
    ]
    return _FILTER.format(
        choices="\n".join(
            f'<label class="{kind}"><input type="radio" name="outcome" id="show-{kind}"'
            f' autocomplete="off"{checked}> <span>{name}</span> <i>{count}</i></label>'
            for kind, name, count, checked in choices
        )
    )


def _entry(finding: Finding) -> str:
    """A line of the contents: the title, and how the claims came out."""
    tally = _tally(finding.verdicts)
    symbols = " ".join(
        f'<span class="{_CLASSES[agrees]}">{symbol}{tally[agrees]}</span>'
        for agrees, symbol in SYMBOLS.items()
        if tally[agrees]
    )
    return (
        f'<li class="entry {_classes(finding)}"><a href="#{finding.name}">'
        f'<span>{escape(finding.title)}<span class="unseen">:'
        f" {count_outcomes(finding.verdicts) if finding.verdicts else 'no claims'}</span></span>"
        f' <span class="tally" aria-hidden="true">{symbols or "–"}</span></a></li>'
    )


def _legend(verdicts: Sequence[Verdict]) -> str:
    """What the outcomes mean; and, while the filter hides some claims, how many are shown."""
    tally = _tally(verdicts)
    return _LEGEND.format(
        shown="".join(
            f'<span class="if-{_CLASSES[agrees]}">Only claims with the outcome'
            f" “{_NAMES[agrees]}” are shown: {tally[agrees]} of {len(verdicts)}.</span>"
            for agrees in _CLASSES
        )
    )


def _classes(finding: Finding) -> str:
    """The outcomes of a study's claims, as classes."""
    tally = _tally(finding.verdicts)
    return " ".join(name for agrees, name in _CLASSES.items() if tally[agrees])


def _card(number: int, finding: Finding, svg: str) -> str:
    name = finding.name
    caption, about = map(escape, _split(finding.caption))
    described = f"{name}-caption {name}-about" if about else f"{name}-caption"
    return _CARD.format(
        name=name,
        classes=_classes(finding),
        title=escape(finding.title),
        in_short=escape(finding.in_short),
        picture=_picture(svg, f"{name}-title", described),
        number=number,
        caption=caption,
        about=_ABOUT.format(name=name, about=about) if about else "",
        claims=_claims(finding),
        numbers=_numbers(finding) if finding.rows else "",
        settings=_settings(finding.settings),
        duration=_duration(finding.seconds),
    )


def _claims(finding: Finding) -> str:
    if not finding.verdicts:
        return _NO_CLAIMS.format(name=finding.name)
    return _CLAIMS.format(
        name=finding.name,
        outcomes=count_outcomes(finding.verdicts),
        claims="\n".join(map(_claim, finding.verdicts)),
    )


def _claim(verdict: Verdict) -> str:
    why = f"<p>{escape(verdict.why)}</p>" if verdict.why else ""
    untested = verdict.agrees is None
    return _CLAIM.format(
        kind=_CLASSES[verdict.agrees],
        symbol=verdict.symbol,
        outcome=verdict.outcome,
        claim=escape(verdict.claim),
        paper=escape(verdict.paper),
        ours=escape(verdict.ours),
        reason=why if untested else "",
        summary="Criterion" if untested or not why else "Criterion and note",
        criterion=escape(verdict.criterion),
        note="" if untested else why,
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


def _numbers(finding: Finding) -> str:
    """The numbers behind the figure, in the page and as a file to download."""
    csv = quote(csv_text(finding), safe=",:;/()=")
    return _NUMBERS.format(name=finding.name, csv=csv, table=_table(finding))


def _table(finding: Finding) -> str:
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
        f"<table><caption>{title}{truncated if number > MAX_ROWS else ''}</caption>"
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


_FILTER = """<fieldset class="filter">
<legend>Show claims</legend>
{choices}
</fieldset>"""

_LEGEND = """<p class="legend">Each claim states the criterion by which it agrees or differs. It is
not tested here if the model is not the paper’s, or if the numbers do not decide; the reason stands
beside it.</p>
<p class="shown" role="status">{shown}</p>"""

_CARD = """<section id="{name}" class="card {classes}">
<h2 id="{name}-title">{title}</h2>
<p class="in-short">{in_short}</p>
<figure>
{picture}
<figcaption><p id="{name}-caption"><b>Figure {number}.</b> {caption}</p>
{about}</figcaption>
</figure>
{claims}
<div class="data">
{numbers}
<details><summary>Settings</summary>{settings}<p>The study took {duration}.</p></details>
</div>
</section>"""

_ABOUT = """<details class="unfold"><summary>About this figure</summary>
<p id="{name}-about">{about}</p></details>
"""

_CLAIMS = """<h3 id="{name}-verdicts">{outcomes}</h3>
<ul class="claims">
{claims}
</ul>"""

_NO_CLAIMS = '<p class="none" id="{name}-verdicts">This study tests no claim of the paper.</p>'

_CLAIM = """<li class="claim {kind}">
<p class="outcome"><span aria-hidden="true">{symbol}</span> {outcome}</p>
<div>
<p class="statement">{claim}</p>
<dl><dt>Paper</dt><dd>{paper}</dd><dt>Here</dt><dd>{ours}</dd></dl>
{reason}<details class="unfold"><summary>{summary}</summary>
<p>Agrees if {criterion}.</p>{note}</details>
</div>
</li>"""

_NUMBERS = """<details><summary>Numbers</summary>
<p><a download="{name}.csv" href="data:text/csv;charset=utf-8,{csv}">numbers as CSV</a></p>
{table}
</details>"""

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
<a class="skip" href="#the-studies">Skip to the studies</a>
<header>
<h1>The arithmetic text, reproduced</h1>
<p class="lead">This page {about} of <cite>Testing Transformer Learnability on the
Arithmetic Sequence of Rooted Trees</cite> with arithmetext {version}; {studies} ran {scale} and
took {duration}{together}.{outcomes} <span id="the-finding">{finding}</span></p>
<figure>
{picture}
<figcaption id="the-headline">Figure {number}: {link}</figcaption>
</figure>
</header>
<nav aria-label="Contents">
<input type="checkbox" id="show-contents" autocomplete="off">
<label for="show-contents">Contents and filter</label>
<div class="contents">
{filter}
<ol>
{contents}
</ol>
</div>
</nav>
<main id="the-studies" tabindex="-1">
{legend}
{cards}
</main>
</body>
</html>
"""
