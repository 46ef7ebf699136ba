"""Tokenizers: training, ids, decoding and files, all compared with Hugging Face."""

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, trainers

from arithmetext.counting.census import census
from arithmetext.errors import InputError
from arithmetext.text.sieve import words
from arithmetext.text.splits import splits
from arithmetext.tokens import BPE, Tokenizer, WordTokens, load
from arithmetext.tokens.spelling import spell
from arithmetext.tokens.training import LINE, sample_lines, train_bpe
from arithmetext.trees import pack, tree_of_word

SIZES = (64, 256, 1024)
KINDS: dict[str, Callable[[int], Tokenizer]] = {
    "bpe": cache(lambda size: BPE.train(size, lines=1024)),
    "words": cache(lambda size: WordTokens.commonest(size)),
}
each_kind = pytest.mark.parametrize("kind", KINDS)
each_size = pytest.mark.parametrize("size", SIZES)
texts = st.text(" 01", max_size=300) | st.lists(
    st.sampled_from(["10 ", "1010 ", "1100 ", "110010 ", "0", "111", "  "]), max_size=60
).map("".join)


@cache
def hugging_face(tokenizer: Tokenizer) -> tokenizers.Tokenizer:
    return tokenizers.Tokenizer.from_str(json.dumps(tokenizer._content()))


def train_there(lines: list[str], size: int) -> list[tuple[int, int]]:
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=list(" 01"), show_progress=False
    )
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.train_from_iterator(lines, trainer)
    model = json.loads(tokenizer.to_str())["model"]
    # Every merge makes a token of its own.
    assert [model["vocab"][a + b] for a, b in model["merges"]] == list(
        range(3, len(model["vocab"]))
    )
    return [(model["vocab"][a], model["vocab"][b]) for a, b in model["merges"]]


# Training


@each_size
def test_merges_are_those_of_hugging_face(size: int) -> None:
    lines = [spell(line) for line in sample_lines(splits(10**11).train, 1000, seed=1)]
    assert train_bpe(lines, size) == train_there(lines, size)


@given(st.lists(st.text(" 01", max_size=60), min_size=1, max_size=8), st.integers(3, 60))
def test_ties_and_runs_are_merged_as_in_hugging_face(lines: list[str], size: int) -> None:
    there = train_there(lines, size)
    if len(there) == size - 3:
        assert train_bpe(lines, size) == there
    else:
        with pytest.raises(InputError, match=f"yields {len(there)} merges, .* not {size}"):
            train_bpe(lines, size)
        assert train_bpe(lines, 3 + len(there)) == there


@pytest.mark.parametrize("line", ["0" * 50, "1" * 7 + "0" * 9, "10" * 40, " " * 33, "00 " * 20])
def test_repetitions_are_merged_as_in_hugging_face(line: str) -> None:
    there = train_there([line, line[1:], line + "1"], 1000)
    assert train_bpe([line, line[1:], line + "1"], 3 + len(there)) == there


def test_sampled_lines_come_from_the_ranges() -> None:
    ranges = [(2, 2 + LINE), (1000, 1000 + LINE + 1), (10**6, 10**6 + 5)]
    places = {words(n, n + LINE).tobytes(): n for n in (2, 1000, 1001)}
    drawn = [places[line.tobytes()] for line in sample_lines(ranges, 3000, seed=0)]
    for n in places.values():
        assert 900 < drawn.count(n) < 1100
    assert np.array_equal(sample_lines(ranges, 9, seed=4), sample_lines(ranges, 9, seed=4))
    assert not np.array_equal(sample_lines(ranges, 9, seed=4), sample_lines(ranges, 9, seed=5))


def test_training_is_recorded(tmp_path: Path) -> None:
    BPE.train(8, ranges=[(2, 1000)], lines=20, seed=3).save(tmp_path / "tokenizer.json")
    assert load(tmp_path / "tokenizer.json").record == {
        "ranges": [[2, 1000]],
        "seed": 3,
        "lines": 20,
        "line": "128 consecutive words, each followed by a space",
    }


# Ids


@each_kind
@each_size
def test_ids_of_words_are_those_of_hugging_face(kind: str, size: int) -> None:
    tokenizer = KINDS[kind](size)
    for n in (2, 10**6, 10**10, 10**15):
        window = words(n, n + 10_000)
        text = spell(window)
        ids = tokenizer.encode(window)
        assert ids.dtype == np.uint16
        assert ids.tolist() == hugging_face(tokenizer).encode(text).ids
        assert ids.tolist() == tokenizer.encode_text(text).tolist()
        assert tokenizer.text(ids) == text


@each_kind
@settings(max_examples=200)
@given(texts, st.sampled_from(SIZES))
def test_ids_of_any_text_are_those_of_hugging_face(kind: str, text: str, size: int) -> None:
    tokenizer = KINDS[kind](size)
    ids = tokenizer.encode_text(text)
    assert ids.tolist() == hugging_face(tokenizer).encode(text).ids
    assert tokenizer.text(ids) == text == hugging_face(tokenizer).decode(ids.tolist())


def test_words_without_a_token_are_spelled() -> None:
    tokenizer = WordTokens.commonest(64)
    assert [pack(token[:-1]) for token in tokenizer.vocabulary[3:]] == list(census(10**11))[:61]
    rare = np.array([0b10, pack("1" * 32 + "0" * 32), 0b10], np.uint64)
    ids = tokenizer.encode(rare).tolist()
    two = tokenizer.vocabulary.index("10 ")
    assert ids == [two, *[2] * 32, *[1] * 32, 0, two]


@each_kind
def test_the_alphabet_alone(kind: str) -> None:
    tokenizer = KINDS[kind](3)
    assert tokenizer.vocabulary == [" ", "0", "1"]
    assert tokenizer.encode(words(2, 5)).tolist() == [2, 1, 0, 2, 1, 0, 2, 2, 1, 1, 0]
    assert tokenizer.encode(np.zeros(0, np.uint64)).tolist() == []
    assert tokenizer.encode_text("").tolist() == []


# Decoding


@each_kind
@given(st.integers(2, 2**63 - 200), st.integers(1, 100), st.sampled_from(SIZES))
@settings(max_examples=15)  # the primes for the far end of the text take a while
def test_round_trip(kind: str, n: int, count: int, size: int) -> None:
    tokenizer = KINDS[kind](size)
    window = words(n % 10**14 + 2, n % 10**14 + 2 + count)
    decoded = tokenizer.decode(tokenizer.encode(window))
    assert np.array_equal(decoded.words, window)
    assert (len(decoded.malformed), decoded.head, decoded.tail) == (0, "", "")


@each_kind
@given(texts, st.booleans())
def test_decoded_text_is_complete(kind: str, text: str, inside: bool) -> None:
    """Head, words and tail give the text back, except for malformed words."""
    tokenizer = KINDS[kind](256)
    decoded = tokenizer.decode(tokenizer.encode_text(text), inside=inside)
    if inside and " " in text:
        head, text = text.split(" ", 1)
        assert decoded.head == head
    elif inside:
        assert decoded.head == text
        text = ""
    *spelled, tail = text.split(" ")
    assert decoded.tail == tail
    assert [bin(word)[2:] if word else None for word in decoded.words.tolist()] == [
        word if is_dyck(word) else None for word in spelled
    ]
    assert decoded.malformed.tolist() == [i for i, w in enumerate(spelled) if not is_dyck(w)]


def is_dyck(word: str) -> bool:
    try:
        tree_of_word(word)
    except InputError:
        return False
    return 0 < len(word) <= 64


@each_kind
def test_words_end_where_tokens_have_a_space(kind: str) -> None:
    tokenizer = KINDS[kind](256)
    ids = tokenizer.encode(words(10**9, 10**9 + 1000))
    assert tokenizer.words_ended.shape == (256,)
    assert tokenizer.words_ended[ids].sum() == 1000


def test_decoding_by_hand() -> None:
    tokenizer = KINDS["bpe"](64)
    ids = tokenizer.encode_text("0 10  01 1100 " + "1" * 32 + "0" * 32 + " " + "10" * 33 + " 110")
    decoded = tokenizer.decode(ids, inside=True)
    assert (decoded.head, decoded.tail) == ("0", "110")
    assert decoded.words.tolist() == [0b10, 0, 0, 0b1100, 2**64 - 2**32, 0]
    assert decoded.malformed.tolist() == [1, 2, 5]
    whole = tokenizer.decode(ids)
    assert (whole.head, whole.words.tolist()) == ("", [0, *decoded.words.tolist()])
    assert tokenizer.decode(tokenizer.encode_text(" 10 "), inside=True).words.tolist() == [0b10]


@pytest.mark.parametrize(
    ("ids", "complaint"),
    [
        ([5, 64], "id 64 at place 2 is the mask token: only 0 to 63"),
        ([65], "id 65 at place 1 is no token"),
        ([0, 0, -1], "id -1 at place 3 is no token"),
    ],
)
def test_ids_out_of_range(ids: list[int], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        KINDS["bpe"](64).decode(np.array(ids))


# Files


@each_kind
@each_size
def test_files(tmp_path: Path, kind: str, size: int) -> None:
    tokenizer = KINDS[kind](size)
    path = tmp_path / "tokenizer.json"
    tokenizer.save(path)
    there = tokenizers.Tokenizer.from_file(str(path))
    assert there.get_vocab_size(with_added_tokens=False) == size
    assert there.token_to_id("[MASK]") == tokenizer.mask_id == size
    window = words(10**10, 10**10 + 5000)
    assert there.encode(spell(window)).ids == tokenizer.encode(window).tolist()
    there.save(str(tmp_path / "theirs.json"))
    for name, record in (("tokenizer.json", tokenizer.record), ("theirs.json", None)):
        again = load(tmp_path / name)
        assert type(again) is type(tokenizer)
        assert again.vocabulary == tokenizer.vocabulary
        assert again.record == record
        assert np.array_equal(again.encode(window), tokenizer.encode(window))


@each_kind
def test_transformers_gives_the_same_ids(tmp_path: Path, kind: str) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = KINDS[kind](256)
    tokenizer.save_pretrained(tmp_path, context=1024)
    window = words(10**6, 10**6 + 3000)
    text, ids = spell(window), tokenizer.encode(window).tolist()
    for there in (
        transformers.AutoTokenizer.from_pretrained(tmp_path),
        transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json")),
    ):
        assert there(text)["input_ids"] == ids
        assert there.decode(ids) == text
    configured = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert configured.mask_token_id == 256
    assert configured.model_max_length == 1024
    assert configured(f"10 {configured.mask_token}10 ")["input_ids"].count(256) == 1


def change(*path: Any, to: Any) -> Callable[[dict[str, Any]], None]:
    """Set the field of a tokenizer.json at the end of a path."""

    def apply(content: dict[str, Any]) -> None:
        *way, last = path
        for step in way:
            content = content[step]
        content[last] = to

    return apply


SPLIT = {"type": "Whitespace"}


@pytest.mark.parametrize(
    ("kind", "spoil", "complaint"),
    [
        ("bpe", change("pre_tokenizer", to=SPLIT), '"pre_tokenizer" is not what'),
        ("bpe", change("normalizer", to={"type": "Lowercase"}), '"normalizer" is not what'),
        ("bpe", change("decoder", to=None), '"decoder" is not what'),
        ("bpe", change("added_tokens", to=[]), '"added_tokens" is not what'),
        ("bpe", change("added_tokens", 0, "id", to=7), '"added_tokens" is not what'),
        ("bpe", change("model", "byte_fallback", to=True), '"byte_fallback" is not what'),
        ("bpe", change("model", "type", to="WordPiece"), '"type" is not what'),
        ("bpe", change("model", "vocab", "0", to=9), "its 64 ids are not 0 to 63"),
        ("bpe", change("model", "vocab", "0", to=99), "its 64 ids are not 0 to 63"),
        ("bpe", change("model", "vocab", "0", to="one"), "its 64 ids are not 0 to 63"),
        ("bpe", change("model", "vocab", "0", to=1.0), "its 64 ids are not 0 to 63"),
        ("bpe", change("model", "vocab", to={"a": 0, "b": 1}), "needs a model of type BPE"),
        ("bpe", change("model", "merges", to=[["x", "y"]]), "needs a model of type BPE"),
        ("bpe", change("model", "merges", to=["1 0"]), "needs a model of type BPE"),
        ("bpe", change("model", "merges", to=[]), '"vocab" is not what'),
        ("bpe", change("model", "merges", 0, to=["10 ", "10 "]), "is made later"),
        ("bpe", change("model", to=7), "needs a model of type BPE"),
        ("words", change("pre_tokenizer", to=None), '"pre_tokenizer" is not what'),
        ("words", change("model", "merges", to=[["1", "0"]]), '"merges" is not what'),
        ("words", change("model", "vocab", "word ", to=64), "token 64, 'word ', is not a word"),
        ("words", change("model", "vocab", "1" * 65 + " ", to=64), "is not a word and a space"),
    ],
)
def test_foreign_files(tmp_path: Path, kind: str, spoil: Any, complaint: str) -> None:
    path = tmp_path / "tokenizer.json"
    KINDS[kind](64).save(path)
    content = json.loads(path.read_text())
    spoil(content)
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=complaint) as error:
        load(path)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "7", '{"model": {}}', '{"model": null}', "\xff"]
)
def test_corrupt_files(tmp_path: Path, content: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(InputError, match=r"is not (a tokenizer\.json|text)"):
        load(path)


def test_another_alphabet(tmp_path: Path) -> None:
    trainer = trainers.BpeTrainer(vocab_size=20, show_progress=False)
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.train_from_iterator(["the quick brown fox"], trainer)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match="for another text"):
        load(tmp_path / "tokenizer.json")


def test_bad_input(tmp_path: Path) -> None:
    for make in KINDS.values():
        for size in (-1, 2, 2**16):
            with pytest.raises(InputError, match=f"from 3 .* to 65535 tokens, not {size}"):
                make(size)
        with pytest.raises(InputError, match="'2' at place 2: the text has only 0, 1 and space"):
            make(64).encode_text("12")
        with pytest.raises(InputError, match="'é' at place 1"):
            make(64).encode_text("é")
        with pytest.raises(InputError, match="cannot write"):
            make(64).save(tmp_path / "none" / "tokenizer.json")
    with pytest.raises(InputError, match=r"yields \d+ merges, .* not 65535"):
        BPE.train(2**16 - 1, lines=2)
    with pytest.raises(InputError, match="1 line or more, not 0"):
        BPE.train(8, lines=0)
    with pytest.raises(
        InputError, match="a window needs 128 integers, but the longest range has 98"
    ):
        BPE.train(8, ranges=[(2, 100)])
    with pytest.raises(InputError, match=r"has 4 words, .* at most 7 tokens, not 8"):
        WordTokens.commonest(8, x=12)
    with pytest.raises(InputError, match="cannot read"):
        load(tmp_path / "none.json")


@given(st.lists(st.sampled_from([0, 2, 10, 12]) | st.integers(0, 2**64 - 1), max_size=50))
def test_numbers_that_are_no_words_are_spelled_alike_by_all(packed: list[int]) -> None:
    """`decode` writes 0, the empty word, for a malformed word; encoding 0 must be safe."""
    array = np.array(packed, np.uint64)
    expected = "".join(f"{number:b} " if number else " " for number in packed)
    assert spell(array) == expected
    merges = [(2, 1), (3, 3), (0, 4)]
    for tokenizer in (BPE(merges), WordTokens([2, 12])):
        assert tokenizer.text(tokenizer.encode(array)) == expected
        assert tokenizer.encode(array).tolist() == tokenizer.encode_text(expected).tolist()


@pytest.mark.parametrize(
    "tokenizer",
    [
        BPE([(2, 1), (3, 3), (0, 4)]),
        BPE([(1, 1)] + [(k, k) for k in range(3, 11)]),  # too long for the tables
        WordTokens([2, 12]),
        WordTokens([]),
    ],
)
@given(
    st.lists(
        st.lists(
            st.sampled_from([0, 2, 10, 12]) | st.integers(0, 2**64 - 1), min_size=9, max_size=9
        ),
        min_size=1,
        max_size=5,
    )
)
def test_rows_are_encoded_like_texts(tokenizer: Tokenizer, rows: list[list[int]]) -> None:
    packed = np.array(rows, np.uint64)
    whole = [tokenizer.encode_text(spell(row)).tolist() for row in packed]
    for tokens in (1, min(map(len, whole))):
        found = tokenizer.encode_rows(packed, tokens)
        assert (found.shape, found.dtype) == ((len(rows), tokens), np.int64)
        assert found.tolist() == [ids[:tokens] for ids in whole]
    with pytest.raises(ValueError):
        tokenizer.encode_rows(packed, max(map(len, whole)) + 1)


def test_streams_of_both_kinds() -> None:
    text = words(10**10, 10**10 + 5000)
    for tokenizer in (BPE([(2, 1), (3, 3), (0, 4)]), WordTokens([2, 12])):
        pieces = tokenizer.encode_stream(np.array_split(text, 7))
        assert np.array_equal(np.concatenate(list(pieces)), tokenizer.encode(text))


def test_tokens_too_long_for_the_tables_are_still_encoded() -> None:
    merges = [(1, 1)] + [(k, k) for k in range(3, 11)]  # up to 512 zeros
    tokenizer = BPE(merges)
    assert tokenizer.encode_text("0" * 1024).tolist() == [11, 11]
    with pytest.raises(InputError, match="cannot encode streams"):
        tokenizer.encode_stream([])


@pytest.mark.parametrize(
    "content", ["[" * 100_000, '{"model": {"vocab": [[" ", 0]], "merges": []}}', "{", "\0"]
)
def test_files_that_are_no_tokenizers(tmp_path: Path, content: str) -> None:
    (tmp_path / "tok.json").write_text(content)
    with pytest.raises(InputError, match=r"is not a tokenizer\.json"):
        load(tmp_path / "tok.json")
