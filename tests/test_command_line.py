"""Commands as a user types them."""

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

import arithmetext as api

DRAWING_OF_360 = """\
3   2
│   │
2   3   5
└───┼───┘
   360

360 = 2^3·3^2·5
word 1100110010, height 2, 3 leaves
"""

DRAWING_OF_110010 = """\
○
│
○   ○
└─┬─┘
  ●

least integer: 12
word 110010, height 2, 2 leaves
"""


def test_the_installed_command(process) -> None:
    answer = process("word", "360")
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "1100110010\n", "")
    answer = process("word", "abc")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert answer.stderr.startswith("nt: not a number: 'abc'")


@pytest.mark.parametrize("group", [[], ["stats"], ["tokenizer"]])
def test_without_a_command_the_help_is_printed(nt, group: list[str]) -> None:
    answer = nt(*group)
    assert answer.stdout == nt(*group, "--help").stdout
    assert (answer.returncode, answer.stderr) == (2, "")
    assert answer.stdout.startswith(
        " ".join(["Usage: nt", *group, "[OPTIONS] COMMAND [ARGS]...\n"])
    )


@pytest.mark.parametrize("command", ["census [OPTIONS] X", "tokenizer encode [OPTIONS] FILE"])
def test_usage_shows_required_arguments_without_braces(nt, command: str) -> None:
    usage, _, _ = nt(*command.split(" [OPTIONS]")[0].split(), "--help").stdout.partition("\n")
    assert usage == f"Usage: nt {command}"


def test_words(nt) -> None:
    assert nt("word", "2", "3", "360", "2**64*3").stdout.split() == (
        ["10", "10", "1100110010", "1110100010"]
    )


def test_tree_of_an_integer(nt) -> None:
    assert nt("tree", "360").stdout == DRAWING_OF_360


def test_digits_are_an_integer_unless_given_as_a_word(nt) -> None:
    assert "110010 = 2·3·5·19·193" in nt("tree", "110010").stdout
    assert nt("tree", "--word", "110010").stdout == DRAWING_OF_110010


def test_tree_as_json(nt) -> None:
    tree = json.loads(nt("tree", "--json", "2**64*3").stdout)
    assert tree["n"] == 2**64 * 3
    assert tree["word"] == "1110100010"
    assert tree["packed"] == 0b1110100010
    assert [child["prime"] for child in tree["children"]] == [2, 3]
    shape = json.loads(nt("tree", "--json", "--word", "110010").stdout)
    assert (shape["least"], shape["formula"]) == (12, "2^2·3")


def test_tree_as_svg(nt, tmp_path: Path) -> None:
    assert nt("tree", "12", "7", "--svg", "t.svg").returncode == 0
    svg = ET.parse(tmp_path / "t.svg").getroot()
    space = "{http://www.w3.org/2000/svg}"
    assert sorted(t.text for t in svg.iter(f"{space}text")) == ["12", "2", "2", "3", "7", "7"]
    assert len(list(svg.iter(f"{space}line"))) == 4
    # The root of 12 is at the bottom, and the child of its child at the top.
    height = {t.text: float(t.get("y")) for t in svg.iter(f"{space}text")}
    assert height["12"] > height["3"]


def test_an_integer_too_large_to_print_is_printed_as_a_formula(nt) -> None:
    assert "least integer: 2^2^2^2^2^2·3" in nt("tree", "--word", "11111100000010").stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("word 0", "0 has no tree"),
        ("word -5", "-5 is negative"),
        ("word abc", "not a number: 'abc'"),
        ("word 2 3 x", "not a number: 'x'"),
        ("word 2.5", "not a whole number"),
        ("word 9^9^9^9", "too large"),
        ("word", "Missing argument"),
        ("tree", "nothing to draw"),
        ("tree --word 1001", "not a Dyck word: 1001 goes below the root at place 3"),
        ("tree 6 --svg no/such/folder/t.svg", "cannot write"),
        ("tree --colour 6", "no option '--colour': see nt tree --help"),
        ("dictionary 1", "begins at 2"),
        ("reproduce --scale huge", "no scale 'huge'; there are: laptop, gpu, paper"),
        ("reproduce --only nothing", "no study 'nothing'; there are: dictionary_growth"),
        ("report nowhere", "no results in nowhere/data"),
        ("find 10,10", "word 1 of the sentence: not a Dyck word: 10,10 has ',' at place 3"),
        ("find 10 --from 100 --to 50", "--to 50 is below --from 100"),
        ("find 10 --from 1", "begins at 2"),
        ("find 10 --to 1e19", "beyond 2^63"),
        ("find 10 --to 1e6 --cluster tcp://127.0.0.1:1", "cannot reach a Dask cluster"),
        ("census 1", "x from 2 to 10^18"),
        ("census 1e19", "x from 2 to 10^18"),
        ("bench nothing", "nothing to measure called 'nothing'; try: sieve, encode"),
        ("frobnicate", "no command 'frobnicate': see nt --help"),
        ("tree --word " + "10" * 3000, "too long"),
        ("word 6 --timeout nan", "a timeout is a number of seconds"),
        ("word 6 --timeout -1", "a timeout is a number of seconds"),
        ("dictionary 1e60", "up to 10^45"),
        ("find 10 --from -5", "-5 is negative"),
        ("census 100 --top 0", "nt: --top must be at least 1, not 0"),
        ("census 100 --top x", "nt: --top: not a number: 'x'"),
        ("stats reversal 2 1e4 --seed 5-7", "nt: --seed must be at least 0, not 5-7"),
        ("stats reversal 2 1e4 --seed -1", "nt: --seed must be at least 0, not -1"),
        ("stats divergence 1e6 --chunks 1e5", "at most 10000"),
        (f"word {(10**45 + 9) * (10**44 + 31)} --timeout 0.5", "not factored within 0.5 s"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    refused, monkeypatch, arguments: str, complaint: str
) -> None:
    monkeypatch.setattr("arithmetext.text.ranges._TIMEOUT", 0.5)  # nobody listens there
    assert complaint in refused(*arguments.split())


@pytest.mark.parametrize("module", ["typer", "arithmetext.cli.evaluate"])
def test_an_interrupt_during_imports_prints_one_line(module: str) -> None:
    interrupt = f"""
import runpy, sys
class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupt())
sys.argv = ["nt", "word", "6"]
runpy.run_module("arithmetext", run_name="__main__")
"""
    answer = subprocess.run([sys.executable, "-c", interrupt], capture_output=True, text=True)
    assert (answer.returncode, answer.stdout, answer.stderr) == (130, "", "nt: interrupted\n")


def test_nothing_is_printed_if_one_argument_is_wrong(refused) -> None:
    refused("word", "2", "3", "0")  # standard output stays empty


def test_dictionary(nt) -> None:
    assert nt("dictionary", "1e11").stdout == "3266\n"
    assert json.loads(nt("dictionary", "1e30", "--json").stdout) == {"x": 10**30, "words": 7743611}


def test_find(nt) -> None:
    answer = nt("find", "111000 10", "--to", "1e6")
    assert answer.stdout == "16\n256\n"
    assert "2 occurrences in 2..1000000, every start examined. This does not" in answer.stderr
    answer = nt("find", "10 10", "--to", "1e6", "--count")
    assert answer.stdout == "1\n"
    assert "By arithmetic, an even number would have to be prime" in answer.stderr
    assert nt("find", "10 * 10", "--from", "100", "--to", "110").stdout == "101\n107\n"


def test_a_word_with_very_many_children(nt) -> None:
    assert "least integer: 2·3·5·7·11" in nt("tree", "--word", "10" * 1500).stdout


def test_a_terminal_that_cannot_show_box_characters(process) -> None:
    answer = process("tree", "360", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert answer.returncode == 0
    assert "360 = 2^3?3^2?5" in answer.stdout


def test_census(nt) -> None:
    counts = json.loads(nt("census", "100", "--json").stdout)["counts"]
    assert counts["10"] == 25
    assert sum(counts.values()) == 99
    assert "\n1010 " in nt("census", "1e6", "--top", "1").stdout


def test_public_names_are_imported_on_first_use() -> None:
    assert api.words(2, 5).tolist() == [2, 2, 12]
    assert api.census(10) == {2: 4, 12: 3, 10: 2}
    assert set(api.__all__) <= set(dir(api)) | set(api._LAZY)
    with pytest.raises(AttributeError, match="no attribute 'frobnicate'"):
        _ = api.frobnicate


def test_importing_the_package_loads_no_large_library() -> None:
    code = "import sys, arithmetext; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    heavy = {"torch", "numpy", "numba", "matplotlib", "flint", "rich", "typer"}
    assert not heavy & set(modules.split())


@pytest.mark.parametrize(
    ("arguments", "shows"),
    [
        ("divergence 1e5 --chunks 4", "largest of all pairs: 0.0"),
        ("ranks 1e6", "230 words"),
        ("entropy 2 1e5 --longest 2", " 2         99,999 "),
        ("compression 1e6 5000", "xz ranks"),
        ("reversal 2 1e5", "A divergence above the floor shows a direction"),
        ("walk 10 2 1e5", "9,592 occurrences"),
    ],
)
def test_stats(nt, arguments: str, shows: str) -> None:
    answer = nt("stats", *arguments.split())
    assert shows in answer.stdout, answer
    json.loads(nt("stats", *arguments.split(), "--json").stdout)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("stats divergence 1e5 --chunks 7", "try 99995, not 100000"),
        ("stats divergence 9 --chunks 9", "cannot be cut into 9 equal chunks"),
        ("stats walk 1001 2 1e5", "not a Dyck word"),
        ("stats walk 10 2 1e9", "too many to keep in memory"),
        ("stats entropy 1 10", "begins at 2"),
        ("stats entropy 2 10 --longest 20", "no blocks of 20 words"),
        ("stats entropy 2 1e5 --cluster nonsense", "cannot reach a Dask cluster at nonsense"),
    ],
)
def test_stats_refuse_bad_input(refused, arguments: str, complaint: str) -> None:
    assert complaint in refused(*arguments.split())
