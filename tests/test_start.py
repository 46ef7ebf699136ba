"""Commands start quickly because they import only what they need."""

import json
import os
import subprocess
import sys

# One process runs them all, the lightest first: modules that one command imports stay loaded.
COMMANDS = [
    ["--help"],
    ["stats", "--help"],
    ["tokenizer", "--help"],
    ["word", "360"],
    ["tree", "360"],
    ["recipes"],
    ["words", "1e13", "100"],
    ["arrays", "1e13", "100"],
    ["census", "1e3"],
]
SCRIPT = """
import json, sys
from arithmetext.cli import main
for command in json.loads(sys.argv[1]):
    sys.argv[1:] = command
    try:
        main()
    except SystemExit as end:
        assert not end.code
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def test_commands_import_only_what_they_need() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(COMMANDS)],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert answer.returncode == 0, answer
    loaded = [set(json.loads(line)) for line in answer.stderr.splitlines()]
    assert "  Draw the tree of an integer, or of a word.\n" in answer.stdout
    cut = [line for line in answer.stdout.splitlines() if line.endswith("...")]
    assert all(line.startswith("Usage: ") for line in cut)  # no summary in the help is cut short
    assert "ntp-laptop" in answer.stdout
    assert "11001100\n101010\n" in answer.stdout  # 10^13 = 2^13 · 5^13, and the next
    light, words, arrays, census = loaded[:6], loaded[6], loaded[7], loaded[8]
    for modules in light:
        assert not modules & {"numpy", "numba", "torch", "scipy", "rich.console"}
    assert "numpy" in words
    assert "numba" not in words | arrays
    assert "numba" in census
    assert not census & {"torch", "scipy", "matplotlib", "rich.console"}


def test_the_library_makes_few_words_without_numba() -> None:
    code = (
        "import sys, arithmetext as nt; few = nt.words(4000, 4200);"
        " nt.sentence(2, 100)._repr_html_(); assert 'numba' not in sys.modules;"
        " import numba; assert (few == nt.words(4000, 4200)).all()"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
