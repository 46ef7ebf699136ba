"""Tokenizers: byte-pair encoding, and one token per word.

A tokenizer has D tokens. The first three are space, 0 and 1, so any text can be encoded. The mask
token `[MASK]` has the id D.

- `BPE` merges pairs of tokens anywhere in the text, across spaces too (see `training`).
- `WordTokens` has a token for each of the most common words, with the space after it: `1100 `. All
  other words are spelled out, and so is anything that is not a word followed by a space.

A tokenizer is saved as a `tokenizer.json`. Hugging Face `tokenizers` and `transformers` read it and
give the same ids. For word tokens it is a BPE model without merges that looks up whole words first
(`ignore_merges`). The key `model.arithmetext` records how the tokenizer was trained; Hugging Face
accepts unknown keys there.
"""

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..counting.census import census
from ..counting.histograms import Counts, look_up, ranks_of
from ..errors import InputError
from ..files import make_folder, read_text, write_whole
from ..text.ranges import over_ranges
from ..text.sieve import Words
from ..text.splits import TRAINED_TO, Range, splits
from ..trees import pack, unpack
from .encoder import Encoder, fits
from .spelling import ALPHABET, Decoded, Ids, LongIds, letters, read, spell
from .training import FIRST, LINE, Merge, check_size, replay, sample_lines, train_bpe

MASK = "[MASK]"

MOST_BYTES = 1 << 26  # of a tokenizer.json: 65,535 tokens of 100 characters take 30 MB

_RECORD = "arithmetext"
_PIECE = 1 << 18  # words encoded at once
_MOST_LETTERS = 65  # of a word, with its space


class Tokenizer(ABC):
    """The interface of all tokenizers, and what they share: vocabulary, decoding and files."""

    def __init__(self, vocabulary: list[str], record: dict[str, Any] | None) -> None:
        """`vocabulary`: the tokens by id; `record`: how the tokenizer was trained, if known."""
        check_size(len(vocabulary))
        self.vocabulary = vocabulary
        self.record = record

    @property
    def size(self) -> int:
        """D, the number of tokens; the mask token is not one of them."""
        return len(self.vocabulary)

    @property
    def mask_id(self) -> int:
        """The id of the mask token: D."""
        return self.size

    @cached_property
    def words_ended(self) -> NDArray[np.int64]:
        """How many words end in each token, [D]: the number of its spaces."""
        return np.array([token.count(" ") for token in self.vocabulary])

    @abstractmethod
    def encode(self, words: Words, *, threads: int | None = None) -> Ids:
        """The ids of packed words; `threads` is by default the number of cores."""

    @abstractmethod
    def encode_rows(self, rows: Words, tokens: int) -> LongIds:
        """The first `tokens` ids of each row of packed words, [rows, tokens].

        One kernel encodes all rows, so other threads hardly wait for the GIL. If a row has too few
        ids, this raises ValueError.
        """

    @abstractmethod
    def encode_stream(self, stream: Iterable[Words]) -> Iterator[Ids]:
        """The ids of a long text whose words come in arrays; holds only a few arrays in memory."""

    @abstractmethod
    def encode_text(self, text: str) -> Ids:
        """The ids of any text of 0, 1 and space; for words, `encode` is faster."""

    def decode(self, ids: NDArray[np.integer[Any]], *, inside: bool = False) -> Decoded:
        """The words that tokens spell.

        Set `inside` for a continuation, which may begin inside a word. Then the characters before
        the first space become `head`: they complete the `tail` of the decoded prompt. Otherwise the
        first word is taken as complete.
        """
        return read(self.text(ids), inside=inside)

    def text(self, ids: NDArray[np.integer[Any]]) -> str:
        """The text that tokens spell."""
        ids = np.asarray(ids)
        wrong = (ids < 0) | (ids >= self.size)
        if wrong.any():
            place = int(np.argmax(wrong))
            what = "the mask token" if ids[place] == self.mask_id else "no token"
            raise InputError(
                f"id {ids[place]} at place {place + 1} is {what}:"
                f" only 0 to {self.size - 1} spell text"
            )
        return "".join(map(self.vocabulary.__getitem__, ids.tolist()))

    def save(self, path: Path) -> None:
        """Write a `tokenizer.json`, whole or not at all."""
        content = self._content()
        if self.record is not None:
            content["model"][_RECORD] = self.record
        write_whole(path, json.dumps(content, indent=1) + "\n")

    def save_pretrained(self, folder: Path, *, context: int) -> None:
        """Write the files that `transformers.AutoTokenizer.from_pretrained` needs for the same ids.

        In the folder of a model, `transformers` reads a `tokenizer.json` alone as that model's own
        kind of tokenizer, which gives other ids. `context` is the most tokens that the model reads.
        """
        make_folder(folder)
        configuration = {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "mask_token": MASK,
            "model_max_length": context,
            "clean_up_tokenization_spaces": False,
        }
        self.save(folder / "tokenizer.json")
        write_whole(folder / "tokenizer_config.json", json.dumps(configuration, indent=1) + "\n")

    @abstractmethod
    def _pre_tokenizer_and_merges(self) -> tuple[dict[str, Any] | None, list[list[str]]]:
        """The pre-tokenizer, and the merges as strings."""

    def _content(self) -> dict[str, Any]:
        """The content of `tokenizer.json` without the record, as Hugging Face writes it."""
        pre_tokenizer, merges = self._pre_tokenizer_and_merges()
        return {
            "version": "1.0",
            "truncation": None,
            "padding": None,
            "added_tokens": [
                {
                    "id": self.mask_id,
                    "content": MASK,
                    "single_word": False,
                    "lstrip": False,
                    "rstrip": False,
                    "normalized": False,
                    "special": True,
                }
            ],
            "normalizer": None,
            "pre_tokenizer": pre_tokenizer,
            "post_processor": None,
            "decoder": {"type": "Fuse"},
            "model": {
                "type": "BPE",
                "dropout": None,
                "unk_token": None,
                "continuing_subword_prefix": None,
                "end_of_word_suffix": None,
                "fuse_unk": False,
                "byte_fallback": False,
                "ignore_merges": pre_tokenizer is not None,
                "vocab": {token: number for number, token in enumerate(self.vocabulary)},
                "merges": merges,
            },
        }


class BPE(Tokenizer):
    """Byte-pair encoding without splitting at spaces."""

    def __init__(self, merges: Sequence[Merge], record: dict[str, Any] | None = None) -> None:
        vocabulary = list(ALPHABET)
        for a, b in merges:
            vocabulary.append(vocabulary[a] + vocabulary[b])
        super().__init__(vocabulary, record)
        self.merges = list(merges)

    @classmethod
    def train(
        cls, size: int, *, ranges: Sequence[Range] | None = None, lines: int = 8192, seed: int = 0
    ) -> "BPE":
        """Train on random lines of the ranges; by default, 9 MB of the paper's training ranges."""
        check_size(size)
        ranges = splits(TRAINED_TO).train if ranges is None else ranges
        windows = sample_lines(ranges, lines, seed)
        record = {
            "ranges": [list(bounds) for bounds in ranges],
            "seed": seed,
            "lines": lines,
            "line": f"{LINE} consecutive words, each followed by a space",
        }
        return cls(train_bpe([spell(window) for window in windows], size), record)

    def encode(self, words: Words, *, threads: int | None = None) -> Ids:
        if self._encoder is None:
            return self.encode_text(spell(np.asarray(words, np.uint64)))
        return self._encoder.encode(words, threads=threads)

    def encode_rows(self, rows: Words, tokens: int) -> LongIds:
        if self._encoder is None:
            ids = np.empty((len(rows), tokens), np.int64)
            for k, row in enumerate(rows):
                ids[k] = self.encode(row)[:tokens]
            return ids
        return self._encoder.encode_rows(rows, tokens)

    @cached_property
    def _encoder(self) -> Encoder | None:
        """The fast encoder; None if tokens are too many or too long for its tables."""
        return Encoder(self.vocabulary, self.merges) if fits(self.vocabulary) else None

    def encode_stream(self, stream: Iterable[Words]) -> Iterator[Ids]:
        if self._encoder is None:
            raise InputError(
                f"a vocabulary of {self.size} tokens, the longest of"
                f" {max(map(len, self.vocabulary))} characters, cannot encode streams:"
                " its tables would be too large"
            )
        return self._encoder.encode_stream(stream)

    def encode_text(self, text: str) -> Ids:
        if self._encoder is None:
            return replay(letters(text), np.array(self.merges, np.int64).reshape(-1, 2)).copy()
        return self._encoder.encode_text(text)

    def _pre_tokenizer_and_merges(self) -> tuple[None, list[list[str]]]:
        return None, [[self.vocabulary[a], self.vocabulary[b]] for a, b in self.merges]


class WordTokens(Tokenizer):
    """One token per word for the most common words; other words are spelled out."""

    def __init__(self, words: Sequence[int], record: dict[str, Any] | None = None) -> None:
        """`words`: the packed words that have tokens, in the order of their ids."""
        super().__init__([*ALPHABET, *(f"{unpack(word)} " for word in words)], record)
        self.words = np.array(words, np.uint64)

    @classmethod
    def commonest(cls, size: int, *, x: int = TRAINED_TO) -> "WordTokens":
        """Tokens for the most common words of 2..x: `size` tokens in all, with space, 0 and 1."""
        check_size(size)
        words = list(census(x))
        if size > FIRST + len(words):
            raise InputError(
                f"2..{x} has {len(words)} words, which make at most"
                f" {FIRST + len(words)} tokens, not {size}"
            )
        return cls(words[: size - FIRST], {"census": x})

    def encode(self, words: Words, *, threads: int | None = None) -> Ids:
        words = np.ascontiguousarray(words, np.uint64)

        def job(begin: int, end: int) -> Ids:
            ids = np.empty(_MOST_LETTERS * (end - begin), np.uint16)  # untouched pages cost nothing
            return ids[: _word_ids(words[begin:end], *self._ranks, len(ids), ids)].copy()

        pieces = over_ranges(job, 0, len(words), size=_PIECE, threads=threads)
        return np.concatenate([np.empty(0, np.uint16), *pieces])

    def encode_stream(self, stream: Iterable[Words]) -> Iterator[Ids]:
        return map(self.encode, stream)

    def encode_rows(self, rows: Words, tokens: int) -> LongIds:
        ids = np.empty((len(rows), tokens), np.int64)
        _word_ids_of_rows(rows, *self._ranks, ids)
        return ids

    def encode_text(self, text: str) -> Ids:
        letters(text)  # raises for other characters
        ids = {token: [number] for number, token in enumerate(self.vocabulary)}
        pieces = re.findall("[01]+ ?| ", text)
        return np.array(
            [number for piece in pieces for number in ids.get(piece) or letters(piece)], np.uint16
        )

    @cached_property
    def _ranks(self) -> tuple[Words, Counts, Any]:
        table = ranks_of(self.words)
        return table.keys, table.values, table.shift

    def _pre_tokenizer_and_merges(self) -> tuple[dict[str, Any], list[list[str]]]:
        pattern = {"Regex": "[01]+ "}
        return {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}, []


@kernel
def _word_ids(words: Any, keys: Any, values: Any, shift: Any, enough: Any, ids: Any) -> Any:
    """Write the ids of words until there are `enough`; return how many were written.

    `keys`, `values` and `shift` are a hash table of the ranks of the words that have tokens. `ids`
    has room for the letters of the word that makes them enough.
    """
    ranks = np.empty(len(words), np.int64)
    look_up(words, keys, values, shift, ranks)
    count = 0
    for i in range(len(words)):
        if count >= enough:
            break
        if ranks[i]:
            ids[count] = ranks[i] + (FIRST - 1)
        else:  # spell it out: 0 has id 1, 1 has id 2, and the space after the word has id 0
            digits = 0
            while digits < 64 and words[i] >> np.uint64(digits):
                digits += 1
            for place in range(digits - 1, -1, -1):
                ids[count] = np.uint64(1) + (words[i] >> np.uint64(place) & np.uint64(1))
                count += 1
            ids[count] = 0
        count += 1
    return count


@kernel
def _word_ids_of_rows(rows: Any, keys: Any, values: Any, shift: Any, ids: Any) -> Any:
    tokens = ids.shape[1]
    whole = np.empty(tokens + _MOST_LETTERS, np.uint16)
    for k in range(len(rows)):
        count = _word_ids(rows[k], keys, values, shift, tokens, whole)
        ids[k] = whole[: min(count, tokens)]


def load(path: Path) -> Tokenizer:
    """Read a `tokenizer.json` written by `save`, or by Hugging Face after reading such a file.

    The tokenizer is built from the tokens and merges alone. Then the file that it would write is
    compared with the file read, so that no setting that changes the ids goes unnoticed.
    """
    text = read_text(Path(path), MOST_BYTES)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        raise InputError(f"{path} is not a tokenizer.json: it is not JSON") from None
    try:
        model = content["model"]
        vocab, record = {**model["vocab"]}, model.pop(_RECORD, None)
        tokens = {number: token for token, number in vocab.items()}
        merges = [(vocab[a], vocab[b]) for a, b in model["merges"]]
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InputError(
            f"{path} is not a tokenizer.json of byte-pair encoding: it needs a model of type BPE"
            " with a vocab, and merges of two tokens each"
        ) from None
    if set(tokens) != set(range(len(vocab))) or not all(type(number) is int for number in tokens):
        raise InputError(f"{path}: its {len(vocab)} ids are not 0 to {len(vocab) - 1}, each once")
    vocabulary = [tokens[number] for number in range(len(vocab))]
    if vocabulary[:FIRST] != list(ALPHABET):
        raise InputError(f"{path} is for another text: its tokens 0, 1, 2 are not space, 0, 1")
    tokenizer: Tokenizer
    if model.get("ignore_merges"):
        for number, token in enumerate(vocabulary[FIRST:], start=FIRST):
            if not re.fullmatch("[01]+ ", token) or not read(token, inside=False).words.all():
                raise InputError(f"{path}: token {number}, {token!r}, is not a word and a space")
        tokenizer = WordTokens([pack(token[:-1]) for token in vocabulary[FIRST:]], record)
    else:
        for new, pair in enumerate(merges, start=FIRST):
            if max(pair) >= new:
                raise InputError(f"{path}: token {new} is merged from a token that is made later")
        tokenizer = BPE(merges, record)
    ours = tokenizer._content()
    for theirs, expected in ((model, ours["model"]), (content, ours)):
        for field in [*expected, *theirs]:
            if theirs.get(field) != expected.get(field):
                raise InputError(
                    f'{path} is not a tokenizer of this text: its "{field}" is not what'
                    " `nt tokenizer train` writes"
                )
    return tokenizer
