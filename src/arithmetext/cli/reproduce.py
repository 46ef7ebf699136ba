"""`nt reproduce`, `nt rescore` and `nt report`."""

import sys
from pathlib import Path
from pkgutil import iter_modules
from typing import Annotated

import typer

from ..errors import InputError
from ..paper import studies
from .options import Wait, one_of

Only = Annotated[
    list[str] | None,
    typer.Option(
        metavar="STUDY",
        help="Only this study; may be repeated.",
        autocompletion=one_of(
            lambda: [
                module.name
                for module in iter_modules(studies.__path__)
                if not module.name.startswith("_")
            ]
        ),
    ),
]
Scale = Annotated[
    str,
    typer.Option(
        metavar="SCALE",
        help="Size of the work: laptop, gpu or paper.",
        autocompletion=one_of(lambda: ("laptop", "gpu", "paper")),
    ),
]


def reproduce(
    scale: Scale = "laptop",
    only: Only = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the reports.")] = Path(
        "reports"
    ),
    older: Annotated[
        bool,
        typer.Option(
            "--older",
            help="In scaling, keep each model that older code trained and measured, if its record"
            " and all its outputs are in DIR/SCALE.",
        ),
    ] = False,
    wait: Wait = False,
) -> None:
    """Reproduce the paper's figures and claims, and write a report.

    Results are stored in DIR/SCALE/data and the page in DIR/SCALE/index.html. A study whose
    settings and code have not changed is not run again. Outputs of models, which take most of the
    time, are also kept in the cache: $XDG_CACHE_HOME/arithmetext, or else ~/.cache/arithmetext. So
    a report in another folder is made quickly.
    """
    from ..files import sole_writer
    from ..paper import report, study

    study.check_scale(scale)
    chosen = study.choose(only or [])
    with sole_writer(out / scale, wait=wait):
        failed = study.reproduce(chosen, scale, out / scale, older=older)
        if failed:
            print(
                f"failed: {', '.join(failed)}; the page shows their earlier results, if any",
                file=sys.stderr,
            )
        if any((out / scale / "data").glob("*.json")):
            print(f"The report is {report.build(out / scale)}")
    if failed:
        raise typer.Exit(1)


def rescore(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A folder with stored results, such as reports/gpu."),
    ] = Path("reports/gpu"),
    scale: Scale = "gpu",
    only: Only = None,
    wait: Wait = False,
) -> None:
    """Compute results again from kept outputs of models.

    The outputs, such as generated tokens, are in DIR/outputs and the losses of training runs in
    DIR/runs; nt reproduce keeps them there. A study that needs a model itself is left as it is, and
    so is a study of the text, which uses no model.
    """
    from ..files import sole_writer
    from ..paper import report, study

    study.check_scale(scale)
    if not (folder / "data").is_dir():
        raise InputError(f"no results in {folder}/data: nt reproduce makes them")
    with sole_writer(folder, wait=wait):
        failed = study.rescore(study.choose(only or []), scale, folder)
        if failed:
            print(f"failed: {', '.join(failed)}; left as they are", file=sys.stderr)
        print(f"The report is {report.build(folder)}")
    if failed:
        raise typer.Exit(1)


def report(
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="A folder with stored results, such as reports/laptop."),
    ] = Path("reports/laptop"),
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the verdicts as Markdown; write no files.")
    ] = False,
    wait: Wait = False,
) -> None:
    """Write the report again, from stored results."""
    from ..files import sole_writer
    from ..paper import report

    if markdown:
        print(report.summary(folder), end="")
        return
    if not (folder / "data").is_dir():
        raise InputError(f"no results in {folder}/data: nt reproduce makes them")
    with sole_writer(folder, wait=wait):
        print(f"The report is {report.build(folder)}")
