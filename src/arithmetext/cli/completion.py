"""`nt completion`: scripts for bash, zsh and fish, and what they ask `nt` when you press Tab.

A script sets `_NT_COMPLETE` to the name of its shell and runs `nt` with the words typed so far; the
last of them is the one to complete. The answer has one candidate per line. If there is none, the
shell completes the names of files.
"""

from collections.abc import Callable
from typing import Annotated, Any

import typer

from ..errors import InputError
from .options import one_of

ASKING = "_NT_COMPLETE"  # the variable that a script sets

BASH = """\
_nt_completion() {
    local IFS=$'\\n'
    COMPREPLY=($(_NT_COMPLETE=bash "$1" "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _nt_completion nt
"""

# A file of a folder in $fpath is the body of the function _nt; `eval` defines the function instead.
ZSH = """\
#compdef nt
_nt() {
    local -a candidates
    candidates=("${(@f)$(_NT_COMPLETE=zsh $words[1] "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ -n $candidates ]]; then
        _describe -V nt candidates
    else
        _files
    fi
}
if [[ $funcstack[1] == _nt ]]; then
    _nt "$@"
else
    compdef _nt nt
fi
"""

FISH = """\
function __nt_complete
    set -l typed (commandline -opc)
    set -l word (commandline -ct)
    set -l candidates (_NT_COMPLETE=fish $typed[1] $typed[2..] "$word" 2>/dev/null)
    if set -q candidates[1]
        printf '%s\\n' $candidates
    else
        __fish_complete_path "$word"
    end
end
complete --command nt --no-files --keep-order --arguments '(__nt_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}

# One candidate and its help, as each shell reads them.
FORMATS: dict[str, Callable[[str, str], str]] = {
    "bash": lambda value, about: value,
    "zsh": lambda value, about: ":".join([value.replace(":", r"\:"), *([about] if about else [])]),
    "fish": lambda value, about: "\t".join([value, *([about] if about else [])]),
}


def completion(
    shell: Annotated[
        str,
        typer.Argument(
            metavar="SHELL",
            help="One of bash, zsh and fish.",
            autocompletion=one_of(lambda: SCRIPTS),
        ),
    ],
) -> None:
    """Print a script that completes `nt` when you press Tab.

    It completes commands, options, and values such as recipes and studies. To use it, add a line to
    the file that your shell reads when it starts.

    bash, ~/.bashrc: `eval "$(nt completion bash)"`

    zsh, ~/.zshrc, after compinit: `eval "$(nt completion zsh)"`

    fish, ~/.config/fish/config.fish: `nt completion fish | source`

    Or save the script as a file, which the shell loads when it is needed:
    `~/.local/share/bash-completion/completions/nt`, `_nt` in a folder of zsh's `$fpath`, or
    `~/.config/fish/completions/nt.fish`.
    """
    if shell not in SCRIPTS:
        raise InputError(f"no completion for {shell!r}; there are: {', '.join(SCRIPTS)}")
    print(SCRIPTS[shell], end="")


def answer(shell: str, command: Any, words: list[str]) -> None:
    """Print the candidates for the last of the words, one per line."""
    from typer._completion_classes import BashComplete  # any of them can find candidates

    *before, last = words or [""]
    for found in BashComplete(command, {}, "nt", ASKING).get_completions(before, last):
        print(FORMATS[shell](found.value, " ".join((found.help or "").split())))
