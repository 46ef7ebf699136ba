"""Commands announce long work before they start, and refuse what the machine cannot do."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arithmetext import InputError, cost, memory
from arithmetext.cli import arithmetic, search, stats, text, tokenizer
from arithmetext.cost import Cost
from arithmetext.counting.census import _tabulate
from arithmetext.counting.histograms import HashTable
from arithmetext.text.export import export


def test_short_work_is_not_announced(capsys: pytest.CaptureFixture[str]) -> None:
    cost.check(Cost(seconds=9, memory=5e8, disk=5e8))
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("needed", "line"),
    [
        (Cost(seconds=90), "This will take about 90 s.\n"),
        (Cost(seconds=16_000, memory=2.1e9), "This will take about 4.4 h, 2.1 GB of memory.\n"),
        (Cost(seconds=2e7), "This will take about 230 days.\n"),
    ],
)
def test_long_work_is_announced(
    needed: Cost, line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "machine_memory", lambda: 4e9)
    cost.check(needed)
    assert capsys.readouterr() == ("", line)


@pytest.mark.parametrize(
    ("needed", "complaint"),
    [
        (Cost(seconds=3.5e9), "this would take about 110 years: ask for less"),
        (Cost(memory=1e18), r"this needs about 1e9 GB of memory, and this machine has \S+ GB"),
        (Cost(disk=8e18), r"this needs about 8e9 GB on disk, and \S+ GB are free"),
    ],
)
def test_work_beyond_the_machine_is_refused(needed: Cost, complaint: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=complaint):
        cost.check(needed, tmp_path)


@given(st.integers(2, 2**62), st.integers(1, 2**60))
def test_twice_as_many_integers_take_longer(lo: int, count: int) -> None:
    once, twice = cost.visit(lo, lo + count), cost.visit(lo, lo + 2 * count)
    assert 0 < once.seconds < twice.seconds


@given(st.integers(2, 10**18 - 1))
def test_a_larger_census_takes_more(x: int) -> None:
    small, large = cost.census(x), cost.census(10**18)
    assert 0 < small.seconds <= large.seconds
    assert 0 < small.memory <= large.memory


@pytest.mark.parametrize("suffix", [".txt", ".npy", ".npz"])
@pytest.mark.parametrize("at", [10**6, 10**15])
def test_files_are_about_as_large_as_estimated(tmp_path: Path, suffix: str, at: int) -> None:
    path, count = tmp_path / f"words{suffix}", 50_000
    export(path, at, at + count)
    said = cost.export(at, at + count, suffix).disk
    assert 0.75 < path.stat().st_size / said < 1.25


def test_a_census_needs_about_as_much_memory_as_estimated() -> None:
    x = 10**11
    kept = sum(array.nbytes for array in _tabulate(x))
    assert kept < cost.census(x).memory < 4 * kept


def test_only_windowed_models_read_their_context_again() -> None:
    """A GPT reads its whole context for each generated token; long convolutions do not."""

    def seconds(context: int, windowed: bool) -> float:
        return cost.evaluation(
            8, context, 10**6, generates=True, windowed=windowed, gpu=False
        ).seconds

    assert seconds(2048, False) == pytest.approx(2 * seconds(1024, False))
    assert seconds(4096, True) > 10 * seconds(4096, False)


def test_a_table_larger_than_the_memory_is_refused() -> None:
    table = HashTable(10**30)
    with pytest.raises(InputError, match="of memory, and this machine has"):
        table._new(10**17)


COMMANDS: dict[str, Callable[..., Any]] = {
    "words": lambda folder: text.words("2", "1e4", folder / "words.npy"),
    "export": lambda folder: text.export("2", "1e4", folder / "words"),
    "arrays": lambda folder: arithmetic.arrays("2", "1e4", "omega", folder / "omega.npy"),
    "sequence": lambda folder: arithmetic.sequence("omega", "1e4"),
    "find": lambda folder: search.find("10 10", "2", "1e4"),
    "census": lambda folder: text.census("1e4"),
    "divergence": lambda folder: stats.divergence("1e4", 4),
    "ranks": lambda folder: stats.ranks("1e4"),
    "entropy": lambda folder: stats.entropy("2", "1e4"),
    "compression": lambda folder: stats.compression("2", "1e3"),
    "reversal": lambda folder: stats.reversal("2", "1e4"),
    "tokenizer": lambda folder: tokenizer.train(8, folder / "tok.json", lines=10),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_announce_their_cost(
    command: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cost, "LONG", 0.0)
    COMMANDS[command](tmp_path)
    assert capsys.readouterr().err.startswith("This will take about ")
