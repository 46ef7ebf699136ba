"""`nt tokenizer` as a user types it, and the pictures of tokens."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from arithmetext.text.sieve import words
from arithmetext.tokens import BPE, load
from arithmetext.tokens.picture import svg_picture, text_picture

# The cut of 5..14 that the paper shows.
PAPER_TOKENS = ["10 1010 ", "10 1100", " 1100", " 1010", " ", "10 1100", "10 ", "10 1010"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokenizer") / "tok.json"
    BPE.train(64, lines=500).save(path)
    return path


def test_train_encode_decode(nt, file: Path, tmp_path: Path) -> None:
    arguments = ("train", "--size", "64", "--lines", "500", "--out", "trained.json")
    assert nt("tokenizer", *arguments).returncode == 0
    tokenizer = load(tmp_path / "trained.json")
    assert tokenizer.vocabulary == load(file).vocabulary
    assert tokenizer.size == 64
    text = nt("words", "1e10", "200_000").stdout  # more than one block
    ids = nt("tokenizer", "encode", file, input=text).stdout
    assert ids.split() == [str(i) for i in tokenizer.encode(words(10**10, 10**10 + 200_000))]
    back = nt("tokenizer", "decode", file, input=ids)
    assert (back.stdout, back.stderr) == (text, "")


def test_a_folder_for_transformers(nt, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    assert (
        nt("tokenizer", "train", "--size", "64", "--lines", "500", "--out", "tok").returncode == 0
    )
    # Beside the configuration of a model, which would otherwise decide how the file is read.
    (tmp_path / "tok/config.json").write_text('{"model_type": "gpt2"}')
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "tok")
    ours = load(tmp_path / "tok/tokenizer.json")
    text = "10 10 1100 10 1010 "
    assert theirs(text)["input_ids"] == ours.encode_text(text).tolist()
    assert theirs.mask_token_id == ours.mask_id


def test_word_tokens(nt, tmp_path: Path) -> None:
    assert nt("tokenizer", "train", "--words", "--size", "64", "--out", "w.json").returncode == 0
    text = nt("words", "1e15", "100").stdout
    ids = nt("tokenizer", "encode", "w.json", input=text).stdout
    assert nt("tokenizer", "decode", "w.json", input=ids).stdout == text


def test_malformed_and_unfinished_words_are_reported(nt, file: Path) -> None:
    answer = nt("tokenizer", "decode", file, input="1 1 2 0 2 1 0 2")
    assert answer.stdout == "001\n10\n"
    assert "unfinished word at the end: 1" in answer.stderr
    assert "malformed: 1 of 2 words" in answer.stderr


def test_show(nt, file: Path, tmp_path: Path) -> None:
    shown = nt("tokenizer", "show", file, "--at", "5", "--count", "10").stdout
    assert "64 tokens (bpe), mask token 64" in shown
    assert "1 + 0" in shown
    figures = json.loads(nt("tokenizer", "show", file, "--json").stdout)
    assert 1.1 < figures["words_per_token"] < 1.4
    assert figures["vocabulary"][:3] == [" ", "0", "1"]
    assert nt("tokenizer", "show", file, "--svg", "t.svg").returncode == 0
    ET.parse(tmp_path / "t.svg")


@pytest.mark.parametrize(
    ("arguments", "given", "complaint"),
    [
        ("train --size 2 --out x.json", "", "at least 3"),
        ("train --size 1e3 --lines 1 --out x.json", "", "merges"),
        ("train --size 64 --out no/such/folder/x.json", "", "cannot write"),
        ("show missing.json", "", "cannot read missing.json"),
        ("encode FILE", "10 x", "word 2 is not a Dyck word: 'x'"),
        ("encode FILE", "10\n\n 1100 1001", "word 3 is not a Dyck word: '1001'"),
        ("decode FILE", "1 two", "ids are whole numbers from 0 to 63"),
        ("train --size 64 --lines 1e30 --out x.json", "", "too many to keep in memory"),
        ("train --size 64 --words --seed 3 --out x.json", "", "leave out --lines and --seed"),
        ("decode FILE", "64", "the mask token"),
        ("decode FILE", "65", "no token"),
        ("decode FILE", "9" * 5000, "ids are whole numbers from 0 to 63"),
    ],
)
def test_bad_input(nt, file: Path, arguments: str, given: str, complaint: str) -> None:
    answer = nt("tokenizer", *arguments.replace("FILE", str(file)).split(), input=given)
    assert answer.returncode == 2
    assert complaint in answer.stderr
    assert answer.stderr.count("\n") == 1


def test_the_picture_of_the_paper() -> None:
    above, below = text_picture(PAPER_TOKENS, 5).split("\n")
    assert below == "│10·1010·│10·1100│·1100│·1010│·│10·1100│10·│10·1010│"
    assert above.split() == ["5", "6", "7", "8", "9", "10", "11", "12", "13"]
    # Each integer is above its word.
    assert below[above.index("5")] in "10"
    assert abs(above.index("9") - below.index("│·1100│") - 3) <= 1


def test_long_pictures_are_broken_between_tokens() -> None:
    lines = text_picture(PAPER_TOKENS, 5, width=20).split("\n")
    assert all(len(line) <= 21 for line in lines)
    cut = [line for line in lines if line.startswith("│")]
    assert "".join(line.strip("│") + "│" for line in cut).replace("│", "") == (
        "".join(PAPER_TOKENS).replace(" ", "·")
    )


def test_the_svg_has_a_box_for_each_token_and_a_tree_for_each_word() -> None:
    svg = ET.fromstring(svg_picture(PAPER_TOKENS, 5))
    space = "{http://www.w3.org/2000/svg}"
    assert len(svg.findall(f"{space}rect")) == 1 + len(PAPER_TOKENS)  # and the ground
    labels = [t.text for t in svg.findall(f"{space}text") if t.get("class") == "n"]
    assert labels == [str(n) for n in range(5, 14)]
    assert len([c for c in svg.findall(f"{space}circle") if c.get("class") == "root"]) == 9
