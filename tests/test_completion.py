"""What `nt` completes when Tab is pressed, by itself and in real shells."""

import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import typer

from arithmetext import bench
from arithmetext.cli import COMMANDS, app, command_names, completion
from arithmetext.paper import studies, study
from arithmetext.text import arithmetic
from arithmetext.text.arithmetic import FIELDS
from arithmetext.training.recipes import RECIPES
from conftest import NT, Run


@pytest.fixture
def candidates(nt: Run, monkeypatch: pytest.MonkeyPatch):
    """The candidates for the last of the words, as a shell gets them."""

    def ask(*words: str, shell: str = "bash") -> list[str]:
        monkeypatch.setenv(completion.ASKING, shell)
        answer = nt(*words)
        assert (answer.returncode, answer.stderr) == (0, "")
        return answer.stdout.splitlines()

    return ask


def test_every_command_is_in_one_group_of_the_help(
    nt: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")  # help that wraps would have more lines
    root = typer.main.get_command(app)
    grouped = [name for group in COMMANDS for name in command_names(group)]
    assert sorted(grouped) == sorted(root.commands)
    lines = nt("--help").stdout.splitlines()
    listed = lines[lines.index("One integer:") :]
    assert [line for line in listed if line.endswith(":")] == [f"{group}:" for group in COMMANDS]
    assert [line.split()[0] for line in listed if line.startswith("  ")] == grouped


def test_commands_and_options(candidates) -> None:
    assert candidates("") == [name for group in COMMANDS for name in command_names(group)]
    assert candidates("re") == ["recipes", "reproduce", "rescore", "report"]
    assert candidates("stats", "re") == ["reversal"]
    assert candidates("census", "--") == ["--top", "--json", "--help"]
    assert candidates("tokenizer", "train", "--s") == ["--size", "--seed"]


def test_values(candidates, tmp_path: Path) -> None:
    assert candidates("train", "") == list(RECIPES)
    assert candidates("train", "--wait", "mlm-l") == ["mlm-laptop"]
    assert candidates("sequence", "") == list(arithmetic.FIELDS)
    assert candidates("bench", "") == list(bench.SUBJECTS)
    assert candidates("reproduce", "--scale", "") == list(study.SCALES)
    files = Path(studies.__file__).parent.glob("[!_]*.py")
    assert candidates("rescore", "--only", "") == sorted(path.stem for path in files)
    assert candidates("completion", "") == list(completion.SCRIPTS)
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "config.json").touch()
    (tmp_path / "runs" / "notes.txt").touch()
    assert candidates("evaluate", "runs/") == ["runs/mine"]
    assert candidates("generate", "o") == ["oracle-13"]
    assert candidates("explore", "runs/mine", "n") == ["ngram-8"]
    assert candidates("evaluate", "p") == ["pretrained"]
    assert candidates("sequence", "") == list(FIELDS)
    assert candidates("arrays", "2", "9", "--fields", "mobius,h") == ["mobius,height"]


def test_where_nothing_fits_the_shell_completes_files(candidates) -> None:
    assert candidates("tree", "3") == candidates("words", "2", "9", "--out", "") == []


def test_help_beside_the_candidates(candidates) -> None:
    about = "Compute statistics of the text: entropy, divergence, ranks."  # not cut short
    assert candidates("st", shell="zsh") == [f"stats:{about}"]
    assert candidates("st", shell="fish") == [f"stats\t{about}"]
    assert candidates("train", "hmm-l", shell="zsh") == ["hmm-laptop"]


def test_a_request_of_an_unknown_shell_runs_the_command(nt: Run, monkeypatch) -> None:
    monkeypatch.setenv(completion.ASKING, "csh")
    assert nt("word", "12").stdout == "110010\n"


def test_an_unknown_shell_is_refused(refused) -> None:
    assert "no completion for 'csh'; there are: bash, zsh, fish" in refused("completion", "csh")


def test_completion_imports_no_large_library() -> None:
    code = (
        "import os, sys; from arithmetext.cli import main; os.environ['_NT_COMPLETE'] = 'zsh'\n"
        "for words in ['train', ''], ['rescore', '--only', ''], ['evaluate', ''], ['bench', '']:\n"
        "    sys.argv[1:] = words\n"
        "    try: main()\n"
        "    except SystemExit: print(*sys.modules, file=sys.stderr)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "ntp-laptop\n" in answer.stdout and "walks\n" in answer.stdout
    loaded = answer.stderr.splitlines()[-1].split()
    assert not {"numpy", "numba", "torch", "matplotlib", "rich.console"} & set(loaded)


def shell(name: str) -> str:
    return shutil.which(name) or pytest.skip(f"{name} is not installed")


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A shell's environment: `nt` is on the path, and there are no settings of the user."""
    path = f"{NT.parent}{os.pathsep}{os.environ['PATH']}"
    return os.environ | {"PATH": path, "HOME": str(tmp_path), "TERM": "dumb", "PS1": ""}


def test_in_bash(environment, tmp_path: Path) -> None:
    script = (
        'eval "$(nt completion bash)"; COMP_WORDS=(nt "$@"); COMP_CWORD=$#; _nt_completion nt;'
        ' printf "%s\\n" "${COMPREPLY[@]}"; complete -p nt'
    )
    command = [shell("bash"), "--norc", "-c", script, "bash", "train", "ntp-laptop"]
    answer = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=True
    )
    registered = "complete -o default -F _nt_completion nt"
    assert answer.stdout.splitlines() == ["ntp-laptop", registered]


def test_in_fish(environment, tmp_path: Path) -> None:
    (tmp_path / "words.txt").touch()
    script = "nt completion fish | source; complete -C 'nt cen'; complete -C 'nt locate wor'"
    answer = subprocess.run(
        [shell("fish"), "--no-config", "-c", script],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
        check=True,
    )
    census, file = answer.stdout.splitlines()
    assert census == "census\tCount exactly how often each word occurs among 2..X."
    assert file.startswith("words.txt")


def test_in_zsh(environment, tmp_path: Path) -> None:
    """zsh completes only what is typed at a terminal."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [shell("zsh"), "-f", "-i"]
    running = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment,
        cwd=tmp_path,
        start_new_session=True,
    )
    os.close(theirs)
    shown, deadline = b"", time.monotonic() + 60

    def wait_for(text: bytes) -> None:
        nonlocal shown
        while text not in shown:
            assert select.select([ours], [], [], deadline - time.monotonic())[0], shown
            shown += os.read(ours, 4096)

    try:
        os.write(ours, b"autoload -Uz compinit; compinit -D -u; echo rea''dy\n")
        wait_for(b"ready")
        os.write(ours, b'eval "$(nt completion zsh)"; echo lis""tening\n')
        wait_for(b"listening")
        os.write(ours, b"nt cen\t")
        wait_for(b"nt census ")
    finally:
        running.kill()
        running.wait()
        os.close(ours)
