"""Arithmetic functions of ranges: against python-flint, the OEIS, exact counts, and PARI/GP."""

import ast
import json
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from flint import fmpz
from hypothesis import given, settings
from hypothesis import strategies as st

import arithmetext as nt_api
from arithmetext import InputError, cost
from arithmetext.cli import arithmetic as commands
from arithmetext.text import arithmetic
from arithmetext.text.arithmetic import FIELDS, arrays, terms
from arithmetext.text.sieve import base_primes, segment_size, words
from arithmetext.text.tables import write_table

FUNCTIONS = {
    "packed": words,
    "omega": nt_api.omega,
    "big_omega": nt_api.big_omega,
    "mobius": nt_api.mobius,
    "squarefree": nt_api.is_squarefree,
    "prime": nt_api.is_prime,
    "height": nt_api.heights,
    "leaves": nt_api.leaves,
    "edges": nt_api.edges,
}


def by_flint(n: int) -> dict[str, int]:
    """All fields of n, from FLINT's factorisation and FLINT's own functions."""

    def exponents(n: int) -> list[int]:
        return [int(a) for _, a in sorted(fmpz(n).factor())]

    def word(n: int) -> str:
        return "".join(f"1{word(a)}0" for a in exponents(n))

    def height(n: int) -> int:
        return 1 + max(map(height, exponents(n))) if n > 1 else 0

    def leaves(n: int) -> int:
        return sum(map(leaves, exponents(n))) if n > 1 else 1

    return {
        "packed": int(word(n) or "0", 2),
        "omega": len(exponents(n)),
        "big_omega": sum(exponents(n)),
        "mobius": int(fmpz(n).moebius_mu()),
        "squarefree": set(exponents(n)) <= {1},
        "prime": fmpz(n).is_prime(),
        "height": height(n),
        "leaves": leaves(n),
        "edges": len(word(n)) // 2,
    }


def check(lo: int, hi: int) -> None:
    truth = [by_flint(n) for n in range(lo, hi)]
    for name, function in FUNCTIONS.items():
        if name == "packed" and lo == 1:
            continue  # the text begins at 2
        values = function(lo, hi)
        assert values.dtype == FIELDS[name].dtype
        assert values.tolist() == [each[name] for each in truth], name


@pytest.fixture(params=["kernels", "FLINT"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A few values are made from trees before the kernels are loaded, all others by kernels."""
    monkeypatch.setattr(arithmetic, "flint_is_faster", lambda count: request.param == "FLINT")


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("lo", [1, 2, 4000, 65500, 10**10, 5**20 - 100, 10**15])
def test_windows_against_flint(lo: int) -> None:
    check(lo, lo + 200)


@settings(max_examples=40)
@given(st.integers(2, 10**13), st.integers(1, 40))
def test_any_window_against_flint(lo: int, count: int) -> None:
    check(lo, lo + count)


@settings(max_examples=40)
@given(st.integers(2, 43), st.sampled_from([2, 3, 5, 7, 13]), st.integers(0, 30))
def test_high_powers(exponent: int, p: int, reach: int) -> None:
    power = p ** min(exponent, int(43 / np.log2(p)))
    check(max(2, power - reach), power + reach + 1)


@pytest.mark.parametrize(("p", "k"), [(2, 62), (3, 39), (5, 27), (13, 17), (2097143, 3)])
def test_exponents_next_to_2_to_the_63(p: int, k: int) -> None:
    """Only the part of Ω that words do not tell: words there would need 200 million primes."""
    lo = p**k - 20
    added = np.zeros(40, np.uint8)
    arithmetic._add_exponents_above_2(lo, base_primes(1 << 21), added)
    assert added[20] == k - 2
    assert added.tolist() == [
        sum(max(0, int(a) - 2) for _, a in fmpz(n).factor()) for n in range(lo, lo + 40)
    ]


# The first terms in the OEIS.
OEIS = {
    "A001221": "0,1,1,1,1,2,1,1,1,2,1,2,1,2,2,1,1,2,1,2,2,2,1,2,1,2,1,2,1,3,1,1,2,2,2,2,1,2,2,2",
    "A001222": "0,1,1,2,1,2,1,3,2,2,1,3,1,2,2,4,1,3,1,3,2,2,1,4,2,2,3,3,1,3,1,5,2,2,2,4,1,2,2,4",
    "A008683": "1,-1,-1,0,-1,1,-1,0,0,1,-1,0,-1,1,1,0,-1,0,-1,0,1,1,-1,0,0,1,0,0,-1,-1,-1,0,1,1",
    "A008966": "1,1,1,0,1,1,1,0,0,1,1,0,1,1,1,0,1,0,1,0,1,1,1,0,0,1,0,0,1,1,1,0,1,1,1,0,1,1,1,0",
    "A010051": "0,1,1,0,1,0,1,0,0,0,1,0,1,0,0,0,1,0,1,0,0,0,1,0,0,0,0,0,1,0,1,0,0,0,0,0,1,0,0,0",
    "A185102": "0,1,1,2,1,1,1,2,2,1,1,2,1,1,1,3,1,2,1,2,1,1,1,2,2,1,2,2,1,1,1,2,1,1,1,2,1,1,1,2,1,"
    "1,1,2,2,1,1,3,2,2,1,2,1,2,1,2,1,1,1,2,1,1,2,2,1,1,1,2,1,1,1,2,1,1,2,2,1,1,1,3,3,1,1,2",
    "A064372": "1,1,1,1,1,2,1,1,1,2,1,2,1,2,2,1,1,2,1,2,2,2,1,2,1,2,1,2,1,3,1,1,2,2,2,2,1,2,2,2,1,"
    "3,1,2,2,2,1,2,1,2,2,2,1,2,2,2,2,2,1,3,1,2,2,2,2,3,1,2,2,3,1,2,1,2,2,2,2,3,1,2,1,2,1,3",
    "A106490": "0,1,1,2,1,2,1,2,2,2,1,3,1,2,2,3,1,3,1,3,2,2,1,3,2,2,2,3,1,3,1,2,2,2,2,4,1,2,2,3",
}


@pytest.mark.parametrize("name", [name for name in FIELDS if name != "packed"])
def test_sequences_are_those_of_the_oeis(nt, name: str) -> None:
    """Under the number that the help gives."""
    numbers = dict(re.findall(r"(\w+)(?:\s+is)?\s+(A\d{6})", nt("sequence", "--help").stdout))
    stored = OEIS[numbers[name]].split(",")
    assert nt("sequence", name, "--to", len(stored)).stdout.split("\n") == [*stored, ""]


def test_known_sums() -> None:
    assert nt_api.omega(10**10, 10**10 + 10**6).sum(dtype=int) == 3422995
    assert nt_api.omega(10**15, 10**15 + 10**6).sum(dtype=int) == 3820061
    mertens = 1 + np.cumsum(nt_api.mobius(2, 10**7 + 1), dtype=int)
    assert mertens[[10**k - 2 for k in range(1, 8)]].tolist() == [-1, 1, 2, -23, -48, 212, 1037]
    assert nt_api.is_prime(2, 10**7 + 1).sum() == 664579
    assert 1 + nt_api.is_squarefree(2, 10**7 + 1).sum() == 6079291
    # Each power p^k of a prime divides ⌊x / p^k⌋ of the integers up to x.
    x = 10**6
    powers = [int(p) ** k for p in base_primes(x) if p <= x for k in range(1, 20) if p**k <= x]
    assert nt_api.big_omega(2, x + 1).sum(dtype=int) == sum(x // q for q in powers)


def test_counts_by_shape_are_those_of_the_census() -> None:
    x = 10**6
    counted: dict[str, Counter[int]] = {
        "height": Counter(),
        "leaves": Counter(),
        "edges": Counter(),
    }
    for packed, number in nt_api.census(x).items():
        tree = nt_api.tree_of_word(nt_api.unpack(packed))
        for name, counts in counted.items():
            counts[getattr(tree, name)] += number
    for name, counts in counted.items():
        assert Counter(FUNCTIONS[name](2, x + 1).tolist()) == counts


def test_pieces_are_the_parts_of_the_whole() -> None:
    lo, hi = 10**6, 10**6 + 2 * segment_size(10**6) + 5
    pieces = list(arrays(lo, hi, ["mobius", "packed"]))
    assert len(pieces) > 2
    assert [first for first, _ in pieces] == (
        [lo, *(lo + np.cumsum([len(piece["packed"]) for _, piece in pieces])[:-1])]
    )
    for name in "mobius", "packed":
        whole = np.concatenate([piece[name] for _, piece in pieces])
        assert np.array_equal(whole, FUNCTIONS[name](lo, hi))
    assert np.array_equal(nt_api.omega(lo, hi, threads=1), nt_api.omega(lo, hi))
    listed = [value for _, values in terms("omega", 70_000) for value in values]
    assert listed == [0, *nt_api.omega(2, 70_001).tolist()]


@pytest.mark.parametrize(("lo", "hi"), [(0, 5), (1, 1), (5, 5), (2**63 - 1, 2**63 + 1)])
def test_ranges_are_checked(lo: int, hi: int) -> None:
    with pytest.raises(InputError):
        nt_api.mobius(lo, hi)
    with pytest.raises(InputError):
        next(arrays(lo, hi, ["mobius"]))


def test_a_table_as_csv(nt) -> None:
    answer = nt("arrays", "63", "2", "--fields", "big_omega, mobius,prime")
    assert answer.stdout == "n,big_omega,mobius,prime\n63,3,0,0\n64,6,0,0\n"
    lines = nt("arrays", "60", "1").stdout.split()
    assert lines == [",".join(["n", *FIELDS]), "60,202,3,4,0,0,0,2,3,4"]
    assert list(commands.NAMES) == list(FIELDS)


def load(path: Path) -> dict[str, np.ndarray]:
    """The columns of a file, as other programs read them."""
    if path.suffix == ".csv":
        names, *_ = path.read_text().split("\n", 1)
        table = np.loadtxt(path, np.int64, delimiter=",", skiprows=1)
        return dict(zip(names.split(","), table.T, strict=True))
    if path.suffix == ".parquet":
        table = pytest.importorskip("pyarrow.parquet").read_table(path)
        return {name: table[name].to_numpy() for name in table.column_names}
    stored = np.load(path)
    return {name: stored[name] for name in getattr(stored, "files", None) or stored.dtype.names}


@pytest.mark.parametrize("suffix", [".csv", ".npy", ".npz", ".parquet"])
def test_files(nt, tmp_path: Path, suffix: str) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    path, lo, count = tmp_path / f"table{suffix}", 10**6, 300_000
    answer = nt("arrays", lo, count, "--fields", "prime,packed,mobius", "--out", path)
    assert answer == (0, "", "")
    assert list(tmp_path.iterdir()) == [path]
    columns = load(path)
    if suffix == ".npz":
        assert columns.pop("start") == lo
    elif suffix != ".npy":
        assert np.array_equal(columns.pop("n"), np.arange(lo, lo + count))
    assert set(columns) == {"prime", "packed", "mobius"}
    for name, values in columns.items():
        assert np.array_equal(values, FUNCTIONS[name](lo, lo + count))
        assert suffix == ".csv" or values.dtype == FIELDS[name].dtype


def test_one_field_is_a_plain_array(tmp_path: Path) -> None:
    write_table(tmp_path / "height.npy", 2, 5000, ["height"])
    assert np.array_equal(np.load(tmp_path / "height.npy"), nt_api.heights(2, 5000))


@pytest.mark.parametrize("suffix", [".csv", ".npy", ".npz"])
def test_files_are_about_as_large_as_estimated(tmp_path: Path, suffix: str) -> None:
    path, lo, fields = tmp_path / f"table{suffix}", 10**15, list(FIELDS)
    write_table(path, lo, lo + 50_000, fields)
    said = cost.arrays(lo, lo + 50_000, fields, suffix).disk
    assert 0.6 < path.stat().st_size / said < 1.4


def test_a_b_file(nt) -> None:
    """`n a(n)` from the offset 1 on, ASCII, one space, and a newline after the last line."""
    content = nt("sequence", "mobius", "--to", "10000", "--bfile").stdout
    assert content.isascii() and re.fullmatch(r"(\d+ (0|-?[1-9]\d*)\n)+", content)
    rows = [tuple(map(int, line.split(" "))) for line in content.splitlines()]
    assert rows == [(n, int(fmpz(n).moebius_mu())) for n in range(1, 10001)]
    assert nt("sequence", "leaves", "--to", "1", "--bfile").stdout == "1 1\n"


LISTS = {
    "sequence mobius --to 3000": [int(fmpz(n).moebius_mu()) for n in range(1, 3001)],
    "sequence prime --to 5": [0, 1, 1, 0, 1],
    "find 10 --to 30": [2, 3, 5, 7, 11, 13, 17, 19, 23, 29],
    "find 1100 --from 50 --to 100": [],
    "words 11 3": ["10", "110010", "10"],
}


@pytest.mark.parametrize("command", LISTS)
def test_lists(nt, command: str) -> None:
    printed = {name: nt(*command.split(), "--format", name).stdout for name in ("json", "sage")}
    assert json.loads(printed["json"]) == LISTS[command]
    assert ast.literal_eval(printed["sage"]) == LISTS[command]


@pytest.mark.skipif(shutil.which("gp") is None, reason="PARI/GP is not installed")
@pytest.mark.parametrize("command", LISTS)
def test_lists_in_gp(nt, command: str, tmp_path: Path) -> None:
    (tmp_path / "list.gp").write_text(nt(*command.split(), "--format", "gp").stdout)
    script = 'v = read("list.gp"); print(type(v)); print(v)\n'
    answer = subprocess.run(
        ["gp", "-q", "-f"], input=script, capture_output=True, text=True, cwd=tmp_path
    )
    kind, value = answer.stdout.splitlines()
    assert kind == "t_VEC" and answer.stderr == ""
    assert ast.literal_eval(value) == LISTS[command]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("arrays 2 10 --fields omega,tau", "no field 'tau': there are packed, omega, big_omega"),
        ("arrays 2 10 --fields omega,omega", "the field omega is named twice"),
        ("arrays 2 1e12 --out x.txt", "it should end in .csv, .npy, .npz or .parquet"),
        ("arrays 2 1e12 --out no/x.csv", "there is no folder"),
        ("arrays 0 10", "begin at 1, not at 0"),
        ("arrays 1 0", "an empty range"),
        ("arrays 2 1e18 --out x.csv", "on disk, and"),
        ("sequence tau", "no field 'tau'"),
        ("sequence is_prime", "no field 'is_prime': did you mean prime? There are packed, omega"),
        ("sequence omega --to 0", "begin at 1"),
        ("sequence omega --to 2^63", "beyond 2^63"),
        ("sequence omega --to 1e18", "this would take about"),
        ("sequence omega --format maple", "'maple' is not one of 'gp', 'sage', 'json'"),
        ("sequence omega --bfile --format gp", "choose one of them"),
        ("find 10 --to 30 --count --format gp", "choose one of them"),
        ("words 2 10 --format gp --out x.txt", "--format is for printing"),
    ],
)
def test_bad_input(refused, tmp_path: Path, arguments: str, complaint: str) -> None:
    assert complaint in refused(*arguments.split())
    assert list(tmp_path.iterdir()) == []


def test_fields_are_a_list() -> None:
    with pytest.raises(InputError, match=r"such as \['omega'\]"):
        arrays(2, 10, "omega")
