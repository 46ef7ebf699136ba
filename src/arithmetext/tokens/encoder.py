"""Exact byte-pair encoding without a pre-tokenizer, one step per word instead of one per merge.

The encoding of a text ends with a token that is a suffix of the text, and the tokens before it are
the encoding of the rest. Exactly one suffix token is right: the one that is *stable* after the last
token of the rest, that is, their joint text encodes to these two. So a pass forward finds the last
token of every prefix, and a walk back gives the encoding: the last token, then the last token of
the text before it, and so on.

The pass forward is a finite automaton over the three letters, and each transition gives the last
token (`automaton.py`). Since the text consists of words, two tables take a whole word per step:

- forward: the state before a word and the word give the state after it;
- back: the *offset* at the end of a word (how many letters before it the next token of the walk
  ends) gives the tokens that end inside the word and the offset at the end of the word before.

Rare words are not in the tables and are encoded letter by letter. Where the text is cut into
pieces, tokens near the cut depend on words on both sides, at an unknown distance. So a piece is
encoded from a guessed state, and encoded again if the guess was wrong. The walk back starts some
words after the piece, from every possible offset, and is valid only if all walks reach the same
offset.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compiled import kernel
from ..errors import InputError
from ..files import cache_folder, whole_file
from ..text.ranges import over_ranges
from ..text.sieve import Words
from ..text.sieve import words as words_of
from .automaton import automaton, numbered, stable_pairs
from .spelling import ALPHABET, Ids, LongIds, letters

_U = np.uint64

_START = 0  # the state before any text
_WORD_BITS = 9  # the tables hold up to 2^9 - 1 words: all but one word in thousands
_DIGITS = 18  # the most digits of a word in the tables
_RARE = 1 << 31  # marks a step over a word that is not in the tables
_MOST_TOKENS = 4096  # stability is a matrix of all pairs
_LONGEST_TOKEN = 255  # letters

_PIECE = 1 << 16  # words encoded at once: their path fits into the CPU cache
_AROUND = 64  # words read before a piece to guess its state, and after it to settle its end

_VERSION = 1  # version of the tables in the cache


class EncoderTables(NamedTuple):
    """The tables of the kernels. States that follow a space have the lowest numbers."""

    moves: NDArray[np.uint64]  # [3 state + letter]: 3 next state << 16 | last token
    lengths: NDArray[np.uint64]  # [token]: its number of letters
    numbers: NDArray[np.uint16]  # [packed word]: its number, or 0 if it is rare
    states: NDArray[np.uint16]  # [state << 9 | number]: next state
    rows: NDArray[np.uint32]  # [state << 9 | number]: where the row in `back` begins
    # [row + offset]: from bit 16 on, up to three tokens, the last one first; in bits 0 and 1, the
    # number of these tokens; in bit 2, whether more tokens end in this word; from bit 3 on, the
    # next offset.
    back: NDArray[np.uint64]


class Encoder:
    """Words to ids, the same ids that Hugging Face `tokenizers` gives for their text.

    In the text, each word is written in binary and followed by one space. `merges` are pairs of ids
    in the order of their rank. Computing the tables takes seconds, so they are cached on disk.
    """

    def __init__(self, vocabulary: list[str], merges: list[tuple[int, int]]) -> None:
        self.vocabulary, self.merges = vocabulary, merges
        self._tables = _cached_tables(vocabulary, merges)

    def encode(self, words: Words, *, threads: int | None = None) -> Ids:
        """The ids of the text of these words; `threads` is by default the number of cores."""
        pieces = self._pieces(words, _START, ended=True, threads=threads)
        return np.concatenate([np.empty(0, np.uint16), *(ids for _, _, ids in pieces)])

    def encode_rows(self, rows: Words, tokens: int) -> LongIds:
        """The first `tokens` ids of each row of words, [rows, tokens]."""
        ids = np.empty((len(rows), tokens), np.int64)
        _encode_rows(rows, self._tables, ids)
        return ids

    def encode_stream(
        self, stream: Iterable[Words], *, threads: int | None = None
    ) -> Iterator[Ids]:
        """The ids of one text whose words come in arrays of any size; holds only a few in memory.

        The arrays yielded join to the ids of the whole text. They are cut at other places than the
        arrays of words.
        """
        waiting, state = np.empty(0, np.uint64), _START
        for words in stream:
            waiting = np.concatenate([waiting, words], dtype=np.uint64, casting="unsafe")
            done = 0
            for end, after, ids in self._pieces(waiting, state, ended=False, threads=threads):
                yield ids
                done, state = end, after
            waiting = waiting[done:]
        for _, _, ids in self._pieces(waiting, state, ended=True, threads=threads):
            yield ids

    def encode_text(self, text: str) -> Ids:
        """The ids of any text of 0, 1 and space."""
        ids: Ids = _encode_letters(letters(text), self._tables)
        return ids

    def _pieces(
        self, words: Words, state: int, *, ended: bool, threads: int | None
    ) -> Iterator[tuple[int, int, Ids]]:
        """For each piece: how many words are done, the state after them, and the piece's ids.

        If the text has not ended, the last words are left undone.
        """
        words = np.ascontiguousarray(words, np.uint64)

        def encoded(begin: int, end: int, state: int) -> tuple[int, Ids]:
            ahead = _AROUND
            while True:
                whole = end + ahead >= len(words)
                piece = words[begin : end + ahead]
                after, ids = _encode(piece, end - begin, state, whole and ended, self._tables)
                if after >= 0 or whole:
                    return after, ids
                ahead *= 2

        def job(begin: int, end: int) -> tuple[int, int, int, Ids]:
            before = state
            if begin:
                before = _state_after(words[max(0, begin - _AROUND) : begin], _START, self._tables)
            return end, before, *encoded(begin, end, before)

        size = len(words) if ended else max(0, len(words) - _AROUND)
        done = 0
        for end, guess, after, ids in over_ranges(job, 0, size, size=_PIECE, threads=threads):
            if guess != state:
                after, ids = encoded(done, end, state)
            if after < 0:  # the end of this piece depends on words that have not come yet
                return
            yield end, after, ids
            done, state = end, after


@kernel
def _spell(word: Any, state: Any, moves: Any, last: Any) -> Any:
    """Write the last token after each letter of a word and its space; return (count, state)."""
    digits = 0
    rest = word
    while rest:
        rest >>= _U(1)
        digits += 1
    at = _U(state) * _U(3)
    for i in range(digits + 1):
        letter = _U(0) if i == digits else _U(1) + (word >> _U(digits - 1 - i) & _U(1))
        move = moves[at + letter]
        last[i] = move & _U(0xFFFF)
        at = move >> _U(16)
    return digits + 1, np.int64(at) // 3


@kernel
def _forward(words: Any, state: Any, tables: Any, path: Any) -> Any:
    """Write the step over each word to `path`; return the state after the last word."""
    last = np.empty(65, np.uint64)
    numbers, states = tables.numbers, tables.states
    state = _U(state)
    for i in range(len(words)):
        word = words[i]
        number = _U(numbers[word]) if word < _U(1 << _DIGITS) else _U(0)
        if number:
            step = state << _U(_WORD_BITS) | number
            path[i] = step
            state = _U(states[step])
        else:
            path[i] = _U(_RARE) | state
            state = _U(_spell(word, state, tables.moves, last)[1])
    return np.int64(state)


@kernel
def _state_after(words: Any, state: Any, tables: Any) -> Any:
    return _forward(words, state, tables, np.empty(len(words), np.uint32))


@kernel
def _back(words: Any, path: Any, offset: Any, tables: Any, ids: Any) -> Any:
    """Write the tokens that end in the words to the end of `ids`.

    Returns where they begin in `ids`, and the offset at the beginning of the words. The first three
    elements of `ids` are only room for writing three tokens at once.
    """
    last = np.empty(65, np.uint64)
    rows, back = tables.rows, tables.back
    at, offset = _U(len(ids)), _U(offset)
    for k in range(len(words)):
        i = _U(len(words) - 1 - k)
        step = _U(path[i])
        if step & _U(_RARE):
            length, _ = _spell(words[i], step ^ _U(_RARE), tables.moves, last)
            length = _U(length)
            while offset < length:
                token = last[length - _U(1) - offset]
                at -= _U(1)
                ids[at] = token
                offset += tables.lengths[token]
            offset -= length
            continue
        row = _U(rows[step])
        more = _U(1)
        while more:
            entry = back[row + offset]
            # Always write three; the superfluous ones are overwritten by the tokens before.
            ids[at - _U(1)] = entry >> _U(16)
            ids[at - _U(2)] = entry >> _U(32)
            ids[at - _U(3)] = entry >> _U(48)
            at -= entry & _U(3)
            offset = entry >> _U(3) & _U(0x1FFF)
            more = entry & _U(4)
    return at, np.int64(offset)


@kernel
def _settle(words: Any, path: Any, ended: Any, tables: Any) -> Any:
    """The offset at the beginning of these words, or -1 if it depends on the words after them."""
    ids = np.empty(3 + 65, np.uint16)
    longest = np.int64(tables.lengths.max())
    offsets = np.arange(1 if ended else longest)
    seen = np.full(longest, -1)
    for i in range(len(words) - 1, -1, -1):
        count = 0
        for offset in offsets:
            _, offset = _back(words[i : i + 1], path[i : i + 1], offset, tables, ids)
            if seen[offset] != i:
                seen[offset] = i
                offsets[count] = offset
                count += 1
        offsets = offsets[:count]
    return offsets[0] if len(offsets) == 1 else -1


@kernel
def _encode(words: Any, count: Any, state: Any, ended: Any, tables: Any) -> Any:
    """The state after the first `count` words, and the tokens that end in them.

    The words after these determine where the last token ends. If they are too few, the state is -1.
    """
    path = np.empty(len(words), np.uint32)
    after = _forward(words[:count], state, tables, path[:count])
    _forward(words[count:], after, tables, path[count:])
    offset = _settle(words[count:], path[count:], ended, tables)
    if offset < 0:
        return -1, np.empty(0, np.uint16)
    ids = np.empty(3 + 65 * count, np.uint16)  # untouched memory pages cost nothing
    at, _ = _back(words[:count], path[:count], offset, tables, ids)
    return after, ids[at:].copy()


@kernel
def _encode_rows(rows: Any, tables: Any, ids: Any) -> Any:
    for k in range(len(rows)):
        _, whole = _encode(rows[k], rows.shape[1], _START, True, tables)
        ids[k] = whole[: ids.shape[1]]


@kernel
def _encode_letters(letters: Any, tables: Any) -> Any:
    last = np.empty(len(letters), np.uint16)
    moves, lengths = tables.moves, tables.lengths
    at = _U(_START) * _U(3)
    for i in range(len(letters)):
        move = moves[at + _U(letters[i])]
        last[i] = move & _U(0xFFFF)
        at = move >> _U(16)
    # The walk back writes its tokens over the part of `last` that it has passed.
    end, first = _U(len(last)), _U(len(last))
    while end:
        token = last[end - _U(1)]
        end -= lengths[token]
        first -= _U(1)
        last[first] = token
    return last[first:].copy()


def _cached_tables(vocabulary: list[str], merges: list[tuple[int, int]]) -> EncoderTables:
    """Read the tables from the user's cache; if missing or damaged, compute and write them."""
    key = hashlib.sha256(json.dumps([_VERSION, vocabulary, merges]).encode()).hexdigest()
    path = cache_folder() / f"encoder-{key[:32]}.npz"
    try:
        with np.load(path) as arrays:
            return EncoderTables(**arrays)
    except Exception:  # whatever is wrong with the file, write a new one
        tables = _make_tables(vocabulary, merges)
    # If the file cannot be written (full disk), go on without it.
    with suppress(InputError), whole_file(path) as draft, draft.open("wb") as file:
        np.savez(file, **tables._asdict())
    return tables


def fits(vocabulary: list[str]) -> bool:
    """Whether this vocabulary is small enough for the tables."""
    return len(vocabulary) <= _MOST_TOKENS and max(map(len, vocabulary)) <= _LONGEST_TOKEN


def _make_tables(vocabulary: list[str], merges: list[tuple[int, int]]) -> EncoderTables:
    if not fits(vocabulary):
        raise InputError(
            f"the encoder takes {_MOST_TOKENS} tokens of {_LONGEST_TOKEN} characters at most"
        )
    step, last = automaton(vocabulary, stable_pairs(vocabulary, merges))
    lengths = np.array([len(token) for token in vocabulary], np.uint64)
    moves = (3 * step.astype(np.uint64) << _U(16) | last.astype(np.uint64)).ravel()
    common = _common_words()
    numbers = np.zeros(1 << _DIGITS, np.uint16)
    numbers[common] = np.arange(1, len(common) + 1)

    after_space = int(step[:, 0].max()) + 1
    if after_space > 1 << 16:
        raise InputError(f"{after_space} states after a space are more than the encoder can number")
    width = max(int(lengths.max()), _DIGITS + 1)  # number of offsets, also of those inside a word
    states = np.zeros((after_space, 1 << _WORD_BITS), np.uint16)
    rows = np.zeros((after_space, 1 << _WORD_BITS), np.uint32)
    kinds: list[tuple[int, int]] = []  # (state, word), one for each sequence of last tokens
    for number, word in enumerate(common.tolist(), 1):
        at, kind = np.arange(after_space), np.zeros(after_space, np.int64)
        for letter in map(ALPHABET.index, f"{word:b} "):
            kind = numbered(kind, last[at, letter])
            at = step[at, letter]
        states[:, number] = at
        rows[:, number] = (len(kinds) + kind) * width
        kinds += [(int(state), word) for state in np.unique(kind, return_index=True)[1]]

    if len(kinds) * width > 1 << 32:
        raise InputError("the tables of this vocabulary would take more than 32 GB")

    tables = EncoderTables(
        moves, lengths, numbers, states.ravel(), rows.ravel(), np.empty(0, np.uint64)
    )
    return tables._replace(back=_back_table(np.array(kinds), width, tables))


def _common_words() -> NDArray[np.int64]:
    """The words of the tables, most frequent first, so that these share lines of the CPU cache."""
    sample = np.concatenate([words_of(lo, lo + (1 << 20)) for lo in (2, 10**12)])
    words, counts = np.unique(sample, return_counts=True)
    words = words[np.argsort(-counts)].astype(np.int64)
    return words[words < 1 << _DIGITS][: (1 << _WORD_BITS) - 1]


@kernel
def _back_table(kinds: Any, width: Any, tables: Any) -> Any:
    back = np.empty((len(kinds), width), np.uint64)
    last = np.empty(65, np.uint64)
    for k in range(len(kinds)):
        length, _ = _spell(_U(kinds[k, 1]), kinds[k, 0], tables.moves, last)
        for offset in range(width):
            then, count, tokens = offset, 0, _U(0)
            while then < length and count < 3:
                token = last[length - 1 - then]
                tokens |= token << _U(16 + 16 * count)
                count += 1
                then += int(tables.lengths[token])
            more = then < length
            then -= 0 if more else length
            back[k, offset] = tokens | _U(then << 3 | more << 2 | count)
    return back.ravel()
