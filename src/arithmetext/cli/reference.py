"""Generate docs/commands.md from the help of every command.

Run `python -m arithmetext.cli.reference > docs/commands.md` after changing a help text.
"""

import re
from pathlib import Path
from textwrap import fill
from typing import Any

import typer

from . import COMMANDS, app, command_names

INTRODUCTION = """\
# Commands

This page is for users of the command line. It lists every command of `nt` with its arguments and
options. It is generated from the help texts, so `nt COMMAND --help` says the same.

Integers may be written `360`, `1_000`, `1e13`, `10^13`, `2**64*3` or `2^63-1`. Bad input gets one
line that says what is wrong and what would be right, and exit code 2. `nt --version` prints the
version.
"""


def markdown() -> str:
    """The whole page; it does not depend on the machine or the terminal."""
    root: Any = typer.main.get_command(app)
    overview, parts = [], []
    for group in COMMANDS:
        parts.append(f"## {group}\n")
        for name in command_names(group):
            command = root.commands[name]
            inside = getattr(command, "commands", None)  # of `nt stats` and `nt tokenizer`
            if inside is None:
                listed, level = {f"nt {name}": command}, "###"
            else:
                listed, level = {f"nt {name} {sub}": each for sub, each in inside.items()}, "####"
                parts += [f"### nt {name}\n", *_paragraphs(command.help)]
            for path, each in listed.items():
                summary = _escape(each.get_short_help_str())
                overview.append(f"| [{path}](#{path.replace(' ', '-')}) | {summary} |")
                parts.append(_command(path, each, level))
    return "\n".join([INTRODUCTION, _table("command", "what it does", overview), *parts])


def _command(name: str, command: Any, level: str) -> str:
    """The section of one command: usage, description, arguments and options."""
    required = [_signature(each) for each in command.params if _is_option(each) and each.required]
    optional = any(_is_option(each) and not each.required for each in command.params)
    arguments = [
        _signature(each) if each.required else f"[{_signature(each)}]"
        for each in command.params
        if not _is_option(each)
    ]
    usage = " ".join([name, *required, *(["[OPTIONS]"] if optional else []), *arguments])
    parts = [f"{level} {name}\n", f"```\n{usage}\n```\n", *_paragraphs(command.help)]
    if command.params:
        rows = [f"| `{_signature(each)}` | {_meaning(each)} |" for each in command.params]
        parts.append(_table("argument or option", "meaning", rows))
    return "\n".join(parts)


def _table(left: str, right: str, rows: list[str]) -> str:
    return "\n".join([f"| {left} | {right} |", "|---|---|", *rows]) + "\n"


def _is_option(parameter: Any) -> bool:
    return bool(parameter.param_type_name == "option")


def _signature(parameter: Any) -> str:
    """`N...` for an argument, `--top K` for an option, `--json` for a flag, `--a/--no-a`."""
    metavar: str = parameter.metavar or parameter.name.upper()
    if not _is_option(parameter):
        return metavar
    names = "/".join([parameter.opts[0], *parameter.secondary_opts[:1]])
    return f"{names} {'' if parameter.is_flag else metavar}".rstrip()


def _meaning(parameter: Any) -> str:
    """The help with the default, which a few help texts name themselves."""
    text, default = parameter.help, parameter.default
    if isinstance(default, Path):
        default = default.as_posix()
    if isinstance(default, int | float | str) and not isinstance(default, bool):
        text += f"  [default: {default}]"
    return _escape(re.sub(r"\.?  \[default: (.*)\]$", r". Default: `\1`.", text))


def _paragraphs(text: str) -> list[str]:
    parts = [_escape(each) for each in text.split("\n\n") if each]
    return [fill(each, 100, break_on_hyphens=False) + "\n" for each in parts]


def _escape(text: str) -> str:
    """Help text as Markdown; code in backticks stays as it is."""
    words = " ".join(text.split())
    return re.sub(r"(`[^`]*`)|([*_|<])", lambda found: found[1] or "\\" + found[2], words)


if __name__ == "__main__":
    print(markdown(), end="")
