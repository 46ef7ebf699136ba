"""Commands start at once because they load only what they need."""

import json
import os
import subprocess
import sys

# One process runs them all, the lightest first: what one of them loads stays for the next.
COMMANDS = [
    ["--help"],
    ["word", "360"],
    ["tree", "360"],
    ["recipes"],
    ["words", "1e13", "100"],
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


def test_what_commands_load() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(COMMANDS)],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "80"},
    )
    assert answer.returncode == 0, answer
    loaded = [set(json.loads(line)) for line in answer.stderr.splitlines()]
    assert "  Draw the tree of an integer, or of a word.\n" in answer.stdout
    assert "...\n" not in answer.stdout.split("\n", 1)[1]  # no summary in the help is cut short
    assert "ntp-laptop" in answer.stdout
    assert "11001100\n101010\n" in answer.stdout  # 10^13 = 2^13 · 5^13, and the next
    for modules in loaded[:4]:
        assert not modules & {"numpy", "numba", "torch", "scipy", "rich.console"}
    assert "numpy" in loaded[4]
    assert "numba" not in loaded[4]
    assert "numba" in loaded[5]
    assert not loaded[5] & {"torch", "scipy", "matplotlib", "rich.console"}


def test_the_library_makes_few_words_without_numba() -> None:
    code = (
        "import sys, arithmetext as nt; few = nt.words(4000, 4200); assert 'numba' not in"
        " sys.modules; import numba; assert (few == nt.words(4000, 4200)).all()"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
