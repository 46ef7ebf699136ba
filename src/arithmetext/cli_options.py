"""Options that several commands share."""

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Cluster = Annotated[
    str | None,
    typer.Option(metavar="ADDRESS", help="A Dask scheduler to work on, such as tcp://host:8786."),
]
Timeout = Annotated[float, typer.Option(help="Seconds to try to factor a hard number.")]
