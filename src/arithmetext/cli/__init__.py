"""The command line `nt`: the program itself, and how it answers errors.

Each other file of this folder has a group of commands. A command parses its arguments, calls the
library and prints. To start quickly, commands import slow libraries (numpy, numba, torch, rich)
inside the function that uses them.
"""

import atexit
import gc
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from difflib import get_close_matches
from typing import Annotated, Any, NoReturn

import typer

from ..errors import InputError
from ..extras import what_to_install
from ..version import __version__
from . import arithmetic, bench, evaluate, reproduce, search, stats, text, tokenizer, train, trees
from .options import Command

app = typer.Typer(
    help="The arithmetic text: integers as trees and Dyck words, and what models learn from them."
    " Integers may be written 360, 1_000, 1e13, 10^13, 10**13 or 2**64*3.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help in boxes would take twice as long to load
    context_settings={"help_option_names": ["-h", "--help"]},
)

# In the order of `nt --help` and docs/commands.md, which has a section for each key.
COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Integers": (trees.tree, trees.word),
    "Text": (
        text.words,
        text.export,
        arithmetic.arrays,
        arithmetic.sequence,
        text.census,
        text.dictionary,
    ),
    "Search": (search.find, search.locate, search.horizon),
    "Models": (train.recipes, train.train, evaluate.generate, evaluate.evaluate),
    "The paper": (reproduce.reproduce, reproduce.rescore, reproduce.report),
    "Speed": (bench.bench,),
}
for _group in COMMANDS.values():
    for _command in _group:
        app.command(cls=Command)(_command)
app.add_typer(stats.app, name="stats")
app.add_typer(tokenizer.app, name="tokenizer")


def main() -> NoReturn:
    """Run the command line; bad input becomes one line on standard error and exit code 2."""
    if sys.stdout is None:
        _refuse("standard output is closed")
    # A terminal that cannot show a character gets a question mark, not a traceback.
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    # Loading numba makes hundreds of thousands of objects, none of them garbage. By default the
    # garbage collector would scan them several times, which takes a quarter of the time of a short
    # command.
    gc.set_threshold(500_000)
    atexit.register(_skip_garbage_collection_at_exit)
    try:
        # typer's own main would handle interrupts and broken pipes in its own way.
        command = typer.main.get_command(app)
        with command.make_context("nt", sys.argv[1:]) as context:
            command.invoke(context)
        sys.stdout.flush()
        sys.exit(0)
    except InputError as error:
        _refuse(str(error))
    except KeyboardInterrupt:
        _leave("interrupted", 130)
    except BrokenPipeError:
        _leave("", 141)  # the reader of the pipe has closed it
    except OSError as error:
        _refuse(": ".join(filter(None, [error.filename, error.strerror or str(error)])))
    except MemoryError:
        _refuse("this needs more memory than there is")
    except ModuleNotFoundError as error:
        if (extra := what_to_install(error)) is None:
            raise
        _refuse(extra)
    except Exception as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # `nt` or `nt stats`, and nothing more
            print(error.format_message())  # type: ignore[attr-defined]
            sys.exit(2)
        if hasattr(error, "format_message"):  # a missing or unknown option or command
            _refuse(_usage_error(error))
        if hasattr(error, "exit_code"):  # typer.Exit, also after --help
            sys.exit(error.exit_code)
        raise


def _skip_garbage_collection_at_exit() -> None:
    """Exit faster. Not with torch: after training, processes must close connections in order."""
    if "torch" not in sys.modules:
        gc.freeze()


def _usage_error(error: Any) -> str:
    """typer's message; for an unknown command or option, a hint with the most similar name."""
    message: str = error.format_message()
    unknown = re.match(r"No such (command|option):? '?(-*)([^\s']*)", message)
    if unknown is None:
        return message
    kind, dashes, name = unknown.groups()
    if dashes == "-" and name[:1].isdigit():
        return f"-{name} is negative: integers here begin at 1"
    context = error.ctx
    options = [each for p in context.command.get_params(context) for each in p.opts]
    names = {each[2:]: each for each in options if each.startswith("--")}
    if kind == "command":  # options stay in the list: `nt help` probably means `nt --help`
        names |= {each: each for each in context.command.list_commands(context)}
    similar = get_close_matches(name, names, n=1, cutoff=0.65)
    hint = f"did you mean {names[similar[0]]}?" if similar else f"see {context.command_path} --help"
    return f"no {kind} {dashes + name!r}: {hint}"


def _refuse(message: str) -> NoReturn:
    """Print one line on standard error and exit with code 2.

    The message may quote input with control characters, so unprintable ones are replaced.
    """
    line = " ".join(message.split())
    _leave("".join(each if each.isprintable() else "?" for each in line), 2)


def _leave(message: str, code: int) -> NoReturn:
    """Write out what was printed, then exit at once, without waiting for running threads."""
    for stream, line in (sys.stdout, ""), (sys.stderr, f"nt: {message}\n" if message else ""):
        # The stream may be closed, the disk full, or the reader of a pipe gone.
        with suppress(AttributeError, OSError, ValueError, KeyboardInterrupt):
            stream.write(line)
            stream.flush()
    os._exit(code)


def _version(asked: bool) -> None:
    if asked:
        print(__version__)
        raise typer.Exit()


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    pass
