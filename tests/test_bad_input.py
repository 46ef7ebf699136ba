"""Bad numbers, names, files and endless input are refused with one line."""

import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from arithmetext import InputError, cli
from arithmetext.text.sieve import words
from arithmetext.tokens import BPE, load
from arithmetext.tokens.spelling import spell
from conftest import NT

NUMBERS = [
    *("", " ", "abc", "-1", "0", "2.5", "1e-3", "1/0", "nan", "inf", "0x10", "1__0", "٣", "\0"),
    *("1e4001", "9^9^9^9", "9" * 5000, "1e99999999999", "*", "2**", "é"),
]
# Commands with N in place of an integer; 0 is refused in all of them.
PLACES = [
    "word N",
    "tree N",
    "words N 10",
    "words 2 N",
    "export N 10 --parquet no",
    "export 2 N --parquet no",
    "arrays N 10",
    "arrays 2 N",
    "sequence height --to N",
    "census N",
    "census 100 --top N",
    "find 10 --to N",
    "horizon --accuracy 0.4 --at N",
    "stats divergence N",
    "stats divergence 1e4 --chunks N",
    "stats ranks N",
    "stats entropy N 100",
    "stats entropy 2 N",
    "stats entropy 2 100 --longest N",
    "stats compression N 100",
    "stats compression 2 N",
    "stats reversal 2 N",
    "stats reversal 2 100 --words N",
    "stats walk 10 2 N",
    "tokenizer train --out no.json --size N",
    "tokenizer train --out no.json --size 8 --lines N",
    "tokenizer show no.json --count N",
    "evaluate locator --prompts N",
]
ANY_SIZE = ["word N", "tree N", "census 100 --top N"]


# Made once: it takes longer than most refusals.
NT_COMMAND = typer.main.get_command(cli.app)


def refusal(*arguments: str) -> str:
    """Run a command in this process and return its error message."""
    try:
        with NT_COMMAND.make_context("nt", list(arguments)) as context:
            NT_COMMAND.invoke(context)
    except InputError as error:
        line = str(error)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        line = cli._usage_error(error)
    else:
        raise AssertionError(f"not refused: {arguments}")
    assert line.strip()
    return line


@pytest.mark.parametrize("place", PLACES)
def test_bad_numbers_are_refused(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    large = () if place in ANY_SIZE else ("1e19", "1e400", "1e3999")
    for number in (*NUMBERS, *large):
        refusal(*(number if word == "N" else word for word in place.split()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("words 2 1e18 --out words.npy", "on disk, and"),
        ("words 2 1e18 --out words.npz", "on disk, and"),
        ("export 2 1e18 --parquet words", "on disk, and"),
        ("find 10 --to 1e18", "this would take about"),
        ("stats divergence 1e18", "this would take about"),
        ("stats entropy 2 1e18", "this would take about"),
        ("stats reversal 2 1e18", "this would take about"),
        ("tokenizer show no.json --count 1e9", "at most 10000"),
        ("evaluate locator --prompts 1e9", "at most 1000000"),
    ],
)
def test_work_that_is_too_large_is_refused(
    arguments: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert complaint in refusal(*arguments.split())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        ("tre", "no command 'tre': did you mean tree?"),
        ("version", "no command 'version': did you mean --version?"),
        ("help", "no command 'help': did you mean --help?"),
        ("stats entrpy", "no command 'entrpy': did you mean entropy?"),
        ("stats help", "no command 'help': did you mean --help?"),
        ("tokenizer trian", "no command 'trian': did you mean train?"),
        ("xyzzy", "no command 'xyzzy': see nt --help"),
        ("stats xyzzy", "no command 'xyzzy': see nt stats --help"),
        ("find 10 --cuont", "no option '--cuont': did you mean --count?"),
        ("--verson", "no option '--verson': did you mean --version?"),
        ("stats ranks 10 --jsno", "no option '--jsno': did you mean --json?"),
        ("census 10 --xyzzy", "no option '--xyzzy': see nt census --help"),
        ("census 10 -x", "no option '-x': see nt census --help"),
        ("word -7", "-7 is negative: integers here begin at 1"),
        ("generate pretrain", "there is no folder pretrain: did you mean pretrained?"),
    ],
)
def test_unknown_names_get_a_suggestion(arguments: str, answer: str) -> None:
    assert refusal(*arguments.split()) == answer


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (
            ("find", "111000", "10"),
            "unexpected argument '10': the words of a sentence stand in quotes",
        ),
        (("census", "10", "20", "30"), "unexpected argument '20': see nt census --help"),
        (("census", "10", " "), "unexpected argument '': see nt census --help"),
        (("census", "10", ""), "unexpected argument '': see nt census --help"),
        (("horizon", "--accuracy", "40%"), "--accuracy: '40%' is no number"),
        (("words", "2", "3", "--format"), "--format needs a value"),
        (
            ("tree", "360", "--svg", "x.png"),
            "--svg writes SVG: the name must end in .svg, not 'x.png'",
        ),
        (
            ("train", "ntp-laptop", "--out", "."),
            "--out needs a folder other than the current one, such as runs/first",
        ),
        (("generate", "oracle-1000000"), "the number in oracle-1000000 must be from 1 to 999999"),
        (("explore", "oracle-0"), "the number in oracle-0 must be from 1 to 999999"),
        (("evaluate", "ngram-9"), "the number in ngram-9 must be from 1 to 8"),
        (
            ("stats", "divergence", "123456"),
            "N must be a multiple of --chunks, 10: try 123450, not 123456",
        ),
        (
            ("stats", "divergence", "15"),
            "N must be a multiple of --chunks, 10: try 20, not 15",
        ),
    ],
)
def test_messages_say_what_would_be_right(arguments: tuple[str, ...], answer: str) -> None:
    assert refusal(*arguments) == answer


class Endless(io.RawIOBase):
    """An endless file that counts how many bytes were read."""

    def __init__(self, content: bytes) -> None:
        self.content, self.read_so_far = content, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = (self.content * (len(buffer) // len(self.content) + 1))[: len(buffer)]
        buffer[:] = piece
        self.read_so_far += len(piece)
        return len(piece)


def set_stdin(monkeypatch: pytest.MonkeyPatch, content: bytes | Endless) -> None:
    """Replace standard input."""
    raw = io.BytesIO(content) if isinstance(content, bytes) else io.BufferedReader(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw, "utf-8"))


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    path = tmp_path_factory.mktemp("tokenizer") / "tok.json"
    BPE.train(16, lines=50).save(path)
    yield str(path)


@pytest.mark.parametrize(
    ("arguments", "content"),
    [
        ("locate", b"\0"),
        ("locate", b"1"),
        ("locate", b"10 1100 "),
        ("locate", b"\n"),
        ("locate", b"\xff\xfe"),
        ("tokenizer encode FILE", b"\0"),
        ("tokenizer encode FILE", b"1"),
        ("tokenizer encode FILE", b"\xff\xfe"),
        ("tokenizer encode FILE", b"10 1100 x "),
        ("tokenizer decode FILE", b"\0"),
        ("tokenizer decode FILE", b"1"),
        ("tokenizer decode FILE", b"\xff\xfe"),
        ("tokenizer decode FILE", b"1 "),
        ("tokenizer decode FILE", b"77 "),
    ],
)
def test_endless_input_is_refused(
    arguments: str, content: bytes, tokenizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = Endless(content)
    set_stdin(monkeypatch, endless)
    refusal(*arguments.replace("FILE", tokenizer).split())
    assert endless.read_so_far < 8 << 20


@pytest.mark.parametrize("arguments", ["locate FILE", "tokenizer encode FILE"])
def test_an_endless_file_is_refused(arguments: str) -> None:
    if not Path("/dev/zero").exists():
        pytest.skip("this system has no /dev/zero")
    assert "is too long: at most" in refusal(*arguments.replace("FILE", "/dev/zero").split())


@pytest.mark.parametrize(
    ("arguments", "content"),
    [
        ("locate", b""),
        ("locate", b"\0" * 100),
        ("locate", b"\xff" * 100),
        ("locate", b"1" * 5000),
        ("locate", b"10 x 10"),
        ("tokenizer encode FILE", b"\xff" * 100),
        ("tokenizer encode FILE", "10 é".encode()),
        ("tokenizer encode FILE", b"1" * 100_000),
        ("tokenizer decode FILE", b"-1"),
        ("tokenizer decode FILE", b"1e3"),
        ("tokenizer decode FILE", b"9" * 100),
    ],
)
def test_input_that_is_not_text_is_refused(
    arguments: str, content: bytes, tokenizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_stdin(monkeypatch, content)
    refusal(*arguments.replace("FILE", tokenizer).split())


@pytest.mark.parametrize("command", ["locate", "tokenizer encode", "tokenizer show"])
def test_unreadable_files_are_refused(command: str, tmp_path: Path) -> None:
    for file in (tmp_path, tmp_path / "missing"):
        assert "cannot read" in refusal(*command.split(), str(file))


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"{}", b"null", b"[" * 100_000, b'{"model": 1}', b"\xff\xfe", b"\0" * 1000],
)
def test_damaged_tokenizers_are_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "tok.json"
    path.write_bytes(content)
    for command in ("encode", "decode", "show"):
        assert str(path) in refusal("tokenizer", command, str(path))


@pytest.mark.parametrize("gap", ["\t", "\r\n", " \n "])
def test_any_white_space_separates_words(
    gap: str, tokenizer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = spell(words(2, 200_000)).replace(" ", gap)
    assert len(text) > 1 << 20  # more than one block
    set_stdin(monkeypatch, text.encode())
    with NT_COMMAND.make_context("nt", ["tokenizer", "encode", tokenizer]) as context:
        NT_COMMAND.invoke(context)
    expected = load(Path(tokenizer)).encode(words(2, 200_000))
    assert capsys.readouterr().out.split() == [str(i) for i in expected]


def test_output_before_an_error_is_kept(tokenizer: str, tmp_path: Path) -> None:
    """The first block of input is decoded and printed before the error in the second."""
    with (tmp_path / "words.txt").open("w") as file:
        answer = subprocess.run(
            [NT, "tokenizer", "decode", tokenizer],
            input="2 1 0" + " " * (1 << 20) + "x",
            stdout=file,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
        )
    assert (answer.returncode, answer.stderr) == (2, "nt: ids are whole numbers from 0 to 15\n")
    assert (tmp_path / "words.txt").read_text() == "10\n"


def test_error_messages_have_no_control_characters(refused: Callable[..., str]) -> None:
    line = refused("tree", "--word", "\x1b[2J")
    assert line.isprintable()
