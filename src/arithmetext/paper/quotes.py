"""Numbers in README.md and docs/ that are read from results/h200, so that they cannot drift.

A page quotes a number between two comments, which Markdown does not show:

    <!-- quote claims -->78 claims: 65 agree, …<!-- end -->
    <!-- quote accuracy_length places.1.by_tokens.-1.accuracy -->0.426 [0.424, 0.429]<!-- end -->
    <!-- quote ntp_losses parameters.256 ,d -->86,039,040<!-- end -->

A quote names a study and the path to a number in its result: fields, keys and positions joined by
dots. The last part, if there is one, is a Python format. `claims` counts all verdicts.
`python -m arithmetext.paper.quotes`, run in the project's folder, writes all quotes again.
"""

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ..evaluation.codec import from_json, to_json
from ..evaluation.estimates import Estimate, format_estimate
from ..files import write_whole
from .report.findings import count_outcomes
from .study import Verdict, all_studies, load

_QUOTE = re.compile(r"(<!-- quote ([^>]*?) -->).*?(<!-- end -->)", re.DOTALL)


def pages(project: Path) -> list[Path]:
    """The pages that may quote results."""
    return [project / "README.md", *sorted((project / "docs").glob("*.md"))]


def quoter(data: Path) -> Callable[[str], str]:
    """A function that fills in all quotes of a page from the results in the folder `data`."""
    results = {
        name: load(study, data).data
        for name, study in all_studies().items()
        if (data / f"{name}.json").exists()
    }
    plain = cache(lambda name: to_json(results[name]))

    def verdicts(name: str) -> list[Verdict]:
        return all_studies()[name].verdicts(results[name])

    def quote(reference: str) -> str:
        if reference == "claims":
            return count_outcomes([verdict for name in results for verdict in verdicts(name)])
        study, path, *format_spec = reference.split()
        return _format(_look_up(plain(study), path), *format_spec)

    return lambda page: _QUOTE.sub(lambda found: found[1] + quote(found[2]) + found[3], page)


def _look_up(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value[int(part) if isinstance(value, list) else part]
    return value


def _format(value: Any, format_spec: str = "") -> str:
    if isinstance(value, dict):
        text = format_estimate(from_json(Estimate, value), int(format_spec or 3))
    else:
        text = format(value, format_spec)
    return text.replace("-", "−")


def main(project: Path) -> None:
    fill_in = quoter(project / "results" / "h200" / "data")
    for page in pages(project):
        text = page.read_text(encoding="utf-8")
        if fill_in(text) != text:
            write_whole(page, fill_in(text))
            print(f"updated {page}")


if __name__ == "__main__":
    main(Path())
