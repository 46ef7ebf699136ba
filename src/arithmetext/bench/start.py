"""`nt bench start`: how long short commands take from start to exit.

The peer is the time to import typer and rich, which every command needs.
"""

import subprocess
import sys
import time
from statistics import median
from typing import Any

from .comparison import machine


def measure() -> dict[str, Any]:
    nt = [
        sys.executable,
        "-c",
        "from arithmetext.cli import main; main()",
    ]  # what the script `nt` does
    library = "import arithmetext as nt; nt.words(10**13, 10**13 + 100)"
    window = subprocess.run([*nt, "words", "31415926535897", "64"], capture_output=True, check=True)
    commands = {
        "nt --help": [*nt, "--help"],
        "nt word 360": [*nt, "word", "360"],
        "nt tree 360": [*nt, "tree", "360"],
        "nt recipes": [*nt, "recipes"],
        "nt words 1e13 100": [*nt, "words", "1e13", "100"],
        "nt.words(10**13, 10**13 + 100)": [sys.executable, "-c", library],
        "nt census 1e11": [*nt, "census", "1e11"],
        "nt find '111000 10' --to 1e6": [*nt, "find", "111000 10", "--to", "1e6"],
        "nt locate, 64 words": [*nt, "locate"],
    }
    peer = 'python -c "import typer, rich"'
    everything = {peer: [sys.executable, "-c", "import typer, rich"]} | commands
    rounds = 9
    times: dict[str, list[float]] = {name: [] for name in everything}
    for i in range(rounds + 1):
        for name, command in everything.items():
            begin = time.perf_counter()
            subprocess.run(command, input=window.stdout, capture_output=True, check=True)
            if i:  # the first round compiles kernels and fills caches
                times[name].append(time.perf_counter() - begin)
    seconds = {name: round(median(each), 4) for name, each in times.items()}
    theirs = seconds.pop(peer)
    return {
        "conditions": {"machine": machine(), "median of": rounds, "caches": "warm"},
        "unit": "seconds from start to end",
        "ours": seconds,
        "peers": {peer: dict.fromkeys(seconds, theirs)},
        "ratio": {peer: {name: round(each / theirs, 3) for name, each in seconds.items()}},
    }
