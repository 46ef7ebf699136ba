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
from . import (
    arithmetic,
    bench,
    completion,
    evaluate,
    explore,
    probe,
    reproduce,
    search,
    stats,
    text,
    tokenizer,
    train,
    trees,
)
from .options import Command, Group

# The groups of `nt --help`, in its order; docs/commands.md has a section for each of them.
COMMANDS: dict[str, tuple[Callable[..., None] | typer.Typer, ...]] = {
    "One integer": (trees.tree, trees.word),
    "The text": (text.words, text.export, arithmetic.arrays, arithmetic.sequence),
    "Counting": (text.census, text.dictionary, stats.app),
    "Search": (search.find, search.locate, search.horizon),
    "Models": (
        tokenizer.app,
        train.recipes,
        train.train,
        evaluate.generate,
        evaluate.evaluate,
        probe.probe,
    ),
    "The explorer": (explore.explore,),
    "The paper": (reproduce.reproduce, reproduce.rescore, reproduce.report),
    "Tools": (bench.bench, completion.completion),
}


def command_names(group: str) -> list[str]:
    """The names of the commands in one of the groups."""
    return [
        str(each.info.name) if isinstance(each, typer.Typer) else each.__name__
        for each in COMMANDS[group]
    ]


class Program(Group):
    """The program itself, whose help lists the commands by group."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for group in COMMANDS for name in command_names(group)]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        width = max(map(len, self.commands))
        for group in COMMANDS:
            with formatter.section(group):
                formatter.write_dl(
                    (f"{name:{width}}", self.commands[name].get_short_help_str())
                    for name in command_names(group)
                )


app = typer.Typer(
    cls=Program,
    help="The arithmetic text: integers as trees and Dyck words, and what models learn from them."
    " Integers may be written 360, 1_000, 1e13, 10^13, 2**64*3 or 2^63-1.",
    no_args_is_help=True,
    add_completion=False,  # `nt completion` answers faster
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # help in boxes would take twice as long to load
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _group in COMMANDS.values():
    for _command in _group:
        if isinstance(_command, typer.Typer):
            app.add_typer(_command)
        else:
            app.command(cls=Command)(_command)


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
        if (shell := os.environ.get(completion.ASKING)) in completion.FORMATS:
            completion.answer(shell, command, sys.argv[1:])
            sys.exit(0)
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


# Messages of click, and what they mean.
_PLAINER = {
    r"('[^']*') is not a valid float(?: range)?\.": r"\1 is no number",
    r"^Option '([^']+)' requires an argument\.": r"\1 needs a value",
    r"(?:Path|File) '([^']*)' is not readable\.": r"cannot read \1: permission denied",
}


def _usage_error(error: Any) -> str:
    """typer's message, with the name of the option in front: "--seed must be at least 0, not -1".

    For an unknown command or option, a hint with the most similar name.
    """
    message = re.sub(
        r"^Invalid value for '([^']+)': (it )?",
        lambda match: match[1] + (" " if match[2] else ": "),
        error.format_message(),
    )
    if extra := re.match(r"Got unexpected extra argument(?:s|\(s\))? \((.*)\)", message, re.S):
        return _too_many(extra[1], error.ctx)
    for theirs, ours in _PLAINER.items():
        message = re.sub(theirs, ours, message)
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


def _too_many(arguments: str, context: Any) -> str:
    """The message about more arguments than a command takes; `arguments` joins them by spaces."""
    first, path = (arguments.split() or [""])[0], context.command_path
    if any(parameter.metavar == "SENTENCE" for parameter in context.command.params):
        return f"unexpected argument {first!r}: the words of a sentence stand in quotes"
    return f"unexpected argument {first!r}: see {path} --help"


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
