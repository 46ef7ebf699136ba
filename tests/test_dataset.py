"""`nt export`: a folder that Hugging Face reads as a dataset."""

import re
from pathlib import Path
from typing import Any

import pytest

from arithmetext import cost, unpack, words
from arithmetext.text.dataset import SHARD, card, export
from tiny_runs import contents

pytest.importorskip("pyarrow", reason="pyarrow is not installed")
parquet: Any = pytest.importorskip("pyarrow.parquet")


def test_files(nt, tmp_path: Path) -> None:
    """The first file ends at a multiple of 2^24, the second has the rest."""
    lo, hi = SHARD - 300_000, SHARD + 100_000
    assert nt("export", lo, hi - lo, "--parquet", "text").returncode == 0
    assert [path.name for path in tmp_path.iterdir()] == ["text"]
    assert {path.name for path in (tmp_path / "text").iterdir()} == {"data", "README.md"}
    first, second = sorted((tmp_path / "text" / "data").iterdir())
    assert first.name == "train-00000-of-00002.parquet"
    assert second.name == "train-00001-of-00002.parquet"
    assert parquet.read_metadata(first).num_rows == 300_000
    table = parquet.read_table(tmp_path / "text" / "data")
    assert [f"{field.name}: {field.type}" for field in table.schema] == (
        ["n: int64", "word: string", "packed: uint64"]
    )
    expected = words(lo, hi).tolist()
    assert table["n"].to_pylist() == list(range(lo, hi))
    assert table["packed"].to_pylist() == expected
    assert table["word"].to_pylist() == [unpack(word) for word in expected]


def test_the_dataset_and_its_card(nt, tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets", reason="datasets is not installed")
    hub = pytest.importorskip("huggingface_hub")
    assert nt("export", "2", "5_000", "--parquet", "text").returncode == 0
    loaded = datasets.load_dataset(str(tmp_path / "text"), cache_dir=str(tmp_path / "cache"))
    assert list(loaded) == ["train"]
    assert {name: each.dtype for name, each in loaded["train"].features.items()} == (
        {"n": "int64", "word": "string", "packed": "uint64"}
    )
    assert len(loaded["train"]) == 5_000
    assert loaded["train"][358] == {"n": 360, "word": "1100110010", "packed": 0b1100110010}
    streamed = datasets.load_dataset(str(tmp_path / "text"), split="train", streaming=True)
    assert next(iter(streamed)) == {"n": 2, "word": "10", "packed": 2}

    description = hub.DatasetCard.load(tmp_path / "text" / "README.md")
    assert description.data.license == "mit"
    assert description.data.size_categories == ["1K<n<10K"]
    # The command in the card makes the same files again.
    command = re.search(r"^nt (.*)$", description.text, re.MULTILINE)[1]
    (tmp_path / "text").rename(tmp_path / "first")
    assert nt(*command.split()).returncode == 0
    assert contents(tmp_path / "text") == contents(tmp_path / "first")


def test_the_card_names_the_range() -> None:
    text = card("words", 10**12, 10**12 + 10**7)
    assert "nt export 1000000000000 10000000 --parquet words\n" in text
    assert "integer from\n1,000,000,000,000 to 1,000,009,999,999, in order: 10,000,000 rows" in text
    assert "- 10M<n<100M\n" in text


@pytest.mark.parametrize("at", [10**10, 10**15])
def test_files_are_about_as_large_as_estimated(tmp_path: Path, at: int) -> None:
    count = 200_000
    export(tmp_path / "words", at, at + count)
    size = sum(map(len, contents(tmp_path / "words").values()))
    assert 0.75 < size / cost.export(at, at + count, ".parquet").disk < 1.25


def test_a_failed_export_leaves_nothing(tmp_path: Path, monkeypatch) -> None:
    def failing(*_: object, **__: object):
        yield 2, words(2, 1000)
        raise RuntimeError("disk error")

    monkeypatch.setattr("arithmetext.text.dataset.segments", failing)
    with pytest.raises(RuntimeError, match="disk error"):
        export(tmp_path / "words", 2, 5000)
    assert list(tmp_path.iterdir()) == []


def test_the_last_integers_below_2_to_the_63(tmp_path: Path, monkeypatch) -> None:
    """With other words: those there would need 200 million primes."""
    first = 2**63 - 3
    monkeypatch.setattr(
        "arithmetext.text.dataset.segments", lambda *_, **__: iter([(first, words(2, 5))])
    )
    export(tmp_path / "words", first, 2**63)
    table = parquet.read_table(tmp_path / "words" / "data")
    assert table["n"].to_pylist() == [first, first + 1, first + 2]


def test_bad_input(refused, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    for arguments, complaint in {
        "1 10 --parquet new": "begins at 2",
        "2**63 1 --parquet new": "beyond 2^63",
        "2 10": "Missing option '--parquet'",
        "2 1e10 --parquet old": "exists already: choose another folder",
        "2 1e10 --parquet no/such/folder": "there is no folder",
    }.items():
        assert complaint in refused("export", *arguments.split())
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
