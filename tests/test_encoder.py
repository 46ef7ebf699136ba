"""The encoder compared with Hugging Face `tokenizers`; words compared with letters."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, trainers

from arithmetext.errors import InputError
from arithmetext.text.sieve import Words, words
from arithmetext.tokens import encoder
from arithmetext.tokens.encoder import Encoder

SIZES = (64, 256, 1024)


@pytest.fixture(scope="module", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def text_of(packed: Words) -> str:
    return "".join(f"{word:b} " if word else " " for word in packed.tolist())


def trained(size: int) -> Any:
    """A tokenizer from Hugging Face's trainer, on lines of 128 words around 10^10."""
    starts = np.random.default_rng(size).integers(9 * 10**9, 11 * 10**9, 2 * size)
    tokenizer = Tokenizer(models.BPE())
    trainer = trainers.BpeTrainer(vocab_size=size, show_progress=False)
    lines = [text_of(words(n, n + 128, threads=1)) for n in starts.tolist()]
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer


def encoder_of(tokenizer: Any) -> Encoder:
    model = json.loads(tokenizer.to_str())["model"]
    ids = model["vocab"]
    return Encoder(sorted(ids, key=ids.get), [(ids[a], ids[b]) for a, b in model["merges"]])


class Both(dict[int, tuple[Any, Encoder]]):
    """Tokenizer and encoder by size, made when a test first asks for them."""

    def __missing__(self, size: int) -> tuple[Any, Encoder]:
        tokenizer = trained(size)
        self[size] = tokenizer, encoder_of(tokenizer)
        return self[size]


@pytest.fixture(scope="session")
def both() -> Both:
    return Both()


@pytest.fixture(scope="session")
def small(both: dict[int, tuple[Any, Encoder]]) -> Encoder:
    return both[256][1]


@pytest.mark.parametrize("scale", [2, 10**6, 10**10, 10**15])
@pytest.mark.parametrize("size", SIZES)
def test_windows_of_the_text(both: Any, size: int, scale: int) -> None:
    reference, ours = both[size]
    packed = words(scale, scale + 8_000)
    expected = reference.encode(text_of(packed)).ids
    assert ours.encode(packed).tolist() == expected
    assert ours.encode_text(text_of(packed)).tolist() == expected


@pytest.mark.parametrize("size", SIZES)
def test_millions_of_words(both: Any, size: int) -> None:
    packed = words(10**10, 10**10 + 1_500_000)
    ours = both[size][1]
    expected = ours.encode_text(text_of(packed))
    for threads in 1, 2, 3:
        assert np.array_equal(ours.encode(packed, threads=threads), expected)


@pytest.mark.parametrize("size", SIZES)
@settings(max_examples=200)
@given(text=st.text("01 ", max_size=400) | st.text("0 ", max_size=99) | st.text("1", max_size=99))
def test_any_text(both: Any, size: int, text: str) -> None:
    reference, ours = both[size]
    assert ours.encode_text(text).tolist() == reference.encode(text).ids


@pytest.mark.parametrize("size", SIZES)
@given(packed=st.lists(st.sampled_from([2, 10, 12, 50]) | st.integers(0, 2**64 - 1), max_size=300))
def test_any_words(both: Any, size: int, packed: list[int]) -> None:
    """Rare, odd and empty words, up to 64 digits."""
    reference, ours = both[size]
    array = np.array(packed, np.uint64)
    assert ours.encode(array).tolist() == reference.encode(text_of(array)).ids


@settings(max_examples=60)
@given(data=st.data())
def test_any_merges(data: st.DataObject) -> None:
    """Also merges that no trainer would find, and several ways to make one token."""
    vocabulary, merges = [" ", "0", "1"], []
    for _ in range(data.draw(st.integers(0, 25))):
        pair = tuple(data.draw(st.integers(0, len(vocabulary) - 1)) for _ in range(2))
        token = vocabulary[pair[0]] + vocabulary[pair[1]]
        if pair not in merges and len(token) < 20:
            merges.append(pair)
            vocabulary += [token] if token not in vocabulary else []
    ids = {token: number for number, token in enumerate(vocabulary)}
    pairs = [(vocabulary[a], vocabulary[b]) for a, b in merges]
    reference = Tokenizer(models.BPE(vocab=ids, merges=pairs))
    # Few words with tables of their own: most of the time goes into making these.
    few = np.array([2, 10, 12, 42, 50, 52, 170, 202, 204, 210])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoder, "_common_words", lambda: few)
        ours = Encoder(vocabulary, merges)
    text = data.draw(st.text("01 ", max_size=200))
    assert ours.encode_text(text).tolist() == reference.encode(text).ids
    packed = words(10**6, 10**6 + 100)
    assert ours.encode(packed).tolist() == reference.encode(text_of(packed)).ids


@pytest.fixture
def tiny_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny pieces: guessed states fail, and ends of pieces do not settle."""
    monkeypatch.setattr(encoder, "_PIECE", 3)
    monkeypatch.setattr(encoder, "_AROUND", 1)


@pytest.mark.usefixtures("tiny_pieces")
@pytest.mark.parametrize("size", SIZES)
def test_pieces_cut_everywhere(both: Any, size: int) -> None:
    ours = both[size][1]
    for scale in 10**6, 10**15:
        packed = words(scale, scale + 2000)
        expected = ours.encode_text(text_of(packed)).tolist()
        assert ours.encode(packed, threads=1).tolist() == expected
        assert ours.encode(packed, threads=2).tolist() == expected
        in_twos = np.array_split(packed, 1000)
        assert np.concatenate(list(ours.encode_stream(in_twos, threads=1))).tolist() == expected


@given(cuts=st.lists(st.integers(0, 500)))
def test_streams_cut_anywhere(small: Encoder, cuts: list[int]) -> None:
    packed = words(10**10, 10**10 + 500)
    stream = np.split(packed, sorted(cuts))
    assert np.array_equal(np.concatenate(list(small.encode_stream(stream))), small.encode(packed))


def test_a_long_stream(small: Encoder) -> None:
    packed = words(10**10, 10**10 + 10**6)
    answers = list(small.encode_stream(np.array_split(packed, 7)))
    assert len(answers) > 7
    assert np.array_equal(np.concatenate(answers), small.encode(packed))


def test_empty_text_has_no_tokens(small: Encoder) -> None:
    nothing = np.empty(0, np.uint64)
    for ids in small.encode(nothing), small.encode_text(""), *small.encode_stream([nothing]):
        assert ids.dtype == np.uint16
        assert len(ids) == 0
    assert list(small.encode_stream([])) == []


def test_foreign_letters_raise(small: Encoder) -> None:
    with pytest.raises(InputError, match="'2'"):
        small.encode_text("10 20 ")
    with pytest.raises(InputError, match="é"):
        small.encode_text("10 é")


def test_a_token_that_is_too_long_raises() -> None:
    vocabulary, merges = [" ", "0", "1"], [(1, 1)]
    for number in range(3, 12):
        vocabulary.append("00" if number == 3 else 2 * vocabulary[-1])
        merges.append((number, number))
    with pytest.raises(InputError, match="at most"):
        Encoder(vocabulary, merges[:-1])


def test_tables_are_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    arguments = [" ", "0", "1", "10"], [(2, 1)]
    packed = words(2, 200)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    expected = Encoder(*arguments).encode(packed).tolist()
    (made,) = tmp_path.glob("arithmetext/*")
    whole = made.read_bytes()
    assert Encoder(*arguments).encode(packed).tolist() == expected
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    for content in b"", b"nonsense", whole[: len(whole) // 2], bytes(damaged):
        made.write_bytes(content)
        assert Encoder(*arguments).encode(packed).tolist() == expected
        assert made.read_bytes() == whole
    with monkeypatch.context() as patch:
        patch.setattr(encoder, "_make_tables", None)  # not needed any more
        assert Encoder(*arguments).encode(packed).tolist() == expected

    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # where no folder can be
    assert Encoder(*arguments).encode(packed).tolist() == expected
