"""Random windows of the text and of its tokens: which they are, and how they are cut."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from arithmetext.errors import InputError
from arithmetext.text.sieve import words
from arithmetext.text.splits import Range, splits
from arithmetext.text.windows import TRAIN, VALIDATION, Windows, generator, random_windows
from arithmetext.tokens import BPE, Tokenizer, WordTokens
from arithmetext.tokens import windows as module
from arithmetext.tokens.spelling import spell
from arithmetext.tokens.windows import ENCODER_WARMUP, TokenWindows, cut


@cache
def tokenizer(kind: str) -> Tokenizer:
    name, _, size = kind.partition(" ")
    if name == "words":
        return WordTokens.commonest(int(size or 64))
    return BPE.train(int(size), ranges=[(2, 10**6)], lines=256)


@contextmanager
def recorded() -> Iterator[list[Range]]:
    """The ranges of integers that are read meanwhile."""
    seen: list[Range] = []
    original = module.words_of_windows

    def words_of_windows(starts: list[int], length: int) -> Any:
        seen.extend((start, start + length) for start in starts)
        return original(starts, length)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "words_of_windows", words_of_windows)
        yield seen


class Plain:
    """A tokenizer whose token ids are the integers: a window shows where it is from."""

    words_ended = np.array([1])

    @staticmethod
    def encode_rows(rows: Any, tokens: int) -> Any:
        return rows[:, :tokens]


@contextmanager
def plain(ranges: Sequence[Range], tokens: int) -> Iterator[TokenWindows]:
    """Windows of integers instead of tokens."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            module,
            "words_of_windows",
            lambda starts, length: np.array(starts)[:, None] + np.arange(length),
        )
        tokenizer: Any = Plain
        yield TokenWindows(tokenizer, ranges, tokens)


# Which windows


def test_windows_do_not_share_random_numbers() -> None:
    """10,000 random numbers for each of 30 windows are all different."""
    drawn = [
        generator(0, TRAIN, i, k).integers(2**63, size=10_000) for i in range(5) for k in range(6)
    ]
    assert len(np.unique(drawn)) == 300_000


def test_seed_purpose_window_and_use_give_other_random_numbers() -> None:
    numbers = (0, 1, 2**40)
    drawn = [
        generator(seed, purpose, i, k, use).integers(2**63)
        for seed in (0, 1, 2**63 - 1)
        for purpose in (TRAIN, VALIDATION)
        for i in numbers
        for k in numbers
        for use in numbers
    ]
    assert len(set(drawn)) == len(drawn)
    assert generator(0, TRAIN, 1, 2).random() == generator(0, TRAIN, 1, 2, 0).random()


@given(
    st.lists(st.tuples(st.integers(2, 50), st.integers(0, 20)), min_size=1, max_size=6),
    st.integers(1, 12),
)
def test_windows_are_numbered_in_order(gaps: list[Range], length: int) -> None:
    ranges, at = [], 0
    for gap, size in gaps:
        ranges.append((at + gap, at + gap + size))
        at += gap + size
    starts = [start for lo, hi in ranges for start in range(lo, hi - length + 1)]
    if not starts:
        longest = max(hi - lo for lo, hi in ranges)
        with pytest.raises(InputError, match=f"needs {length} .* longest range has {longest}$"):
            Windows(ranges, length)
        return
    windows = Windows(ranges, length)
    assert [windows.start(index) for index in range(windows.count)] == starts
    assert {windows.random_start(generator(0, TRAIN, 0, k)) for k in range(9)} <= set(starts)
    for lo, hi in random_windows(ranges, 20, length, 0):
        assert lo in starts
        assert hi == lo + length


def test_the_seed_decides_random_windows() -> None:
    ranges = splits(10**9).train
    assert random_windows(ranges, 5, 100, 0) == random_windows(ranges, 5, 100, 0)
    assert random_windows(ranges, 5, 100, 0) != random_windows(ranges, 5, 100, 1)
    assert random_windows([(7, 10), (20, 23)], 50, 3, 0).count((7, 10)) in range(10, 41)


@settings(max_examples=60)
@given(
    st.integers(1, 2**62) | st.integers(1, 10**5),
    st.integers(2, 2000),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**40),
)
def test_windows_lie_inside_the_ranges(more: int, tokens: int, seed: int, i: int) -> None:
    n = 20 * (tokens + 100) + more
    parts = splits(n)
    with plain(parts.train, tokens) as windows:
        for k in range(10):
            window = windows.draw(generator(seed, TRAIN, i, k)).tolist()
            assert window == list(range(window[0], window[0] + tokens))
            first = window[0] - ENCODER_WARMUP  # dropped, but read
            assert any(lo <= first and window[-1] < hi for lo, hi in parts.train)


@pytest.mark.parametrize(
    "ranges",
    [
        splits(1500).train,
        # Of these the second is too short by one, the third has room for one window.
        [(2, 90), (100, 100 + 84), (200, 200 + 85), (1000, 1042), (2000, 2200)],
    ],
)
def test_windows_begin_anywhere_with_equal_chance(ranges: Sequence[Range]) -> None:
    length = ENCODER_WARMUP + 5
    allowed = [start for lo, hi in ranges for start in range(lo, hi - length + 1)]
    draws = 60 * len(allowed)
    with plain(ranges, 5) as windows:
        drawn = Counter(
            int(windows.draw(generator(1, TRAIN, i, k))[0]) - ENCODER_WARMUP
            for i in range(draws // 20)
            for k in range(20)
        )
    # The first and the last place of each range are among them.
    assert sorted(drawn) == allowed
    assert chisquare([drawn[start] for start in allowed]).pvalue > 1e-3


@pytest.mark.parametrize("kind", ["bpe 64", "bpe 256", "words"])
@pytest.mark.parametrize("n", [10**5, 10**11])
def test_a_window_is_cut_from_the_tokens_of_the_whole_text(kind: str, n: int) -> None:
    """A window has the same tokens if encoding begins 500 words earlier and ends 500 later."""
    tokens = tokenizer(kind)
    windows = TokenWindows(tokens, splits(n).train, 33)
    lengths = np.array([len(token) for token in tokens.vocabulary])
    inside = 0  # windows that begin inside a word
    for k in range(40):
        with recorded() as seen:
            window = windows.draw(generator(0, TRAIN, 3, k))
        [(lo, hi)] = seen
        begin = max(2, lo - 500)
        ids = tokens.encode(words(begin, hi + 500))
        starts = np.cumsum(lengths[ids]) - lengths[ids]
        assert cut(tokens, words(lo, hi), 33).tolist() == window.tolist()
        # The window's first token follows the warm-up of an encoding that begins at lo.
        skipped = tokens.encode(words(lo, hi))[:ENCODER_WARMUP]
        character = len(spell(words(begin, lo)) if begin < lo else "") + lengths[skipped].sum()
        place = int(np.searchsorted(starts, character))
        assert starts[place] == character
        assert ids[place : place + 33].tolist() == window.tolist()
        inside += not tokens.text(ids[:place]).endswith(" ")
    assert inside > 5 or kind == "words"


@pytest.mark.parametrize("size", [64, 256, 1024])
@pytest.mark.parametrize("n", [2, 10**6, 10**11])
def test_encodings_agree_after_the_warm_up(size: int, n: int) -> None:
    """They do after ENCODER_WARMUP characters, which are no more than as many tokens."""
    tokens = tokenizer(f"bpe {size}")
    lengths = np.array([len(token) for token in tokens.vocabulary])
    text = words(n, n + 1000)

    offsets = np.cumsum([0, *(len(f"{word:b} ") for word in text.tolist())])

    def cuts(begin: int, end: int) -> Any:
        """Where tokens begin if these words are the text."""
        ids = tokens.encode(text[begin:end], threads=1)
        return offsets[begin] + np.cumsum(lengths[ids]) - lengths[ids]

    whole = cuts(0, 1000)
    for begin in range(1, 800):
        first, last = offsets[begin] + ENCODER_WARMUP, offsets[begin + 60]
        here = cuts(begin, begin + 100)
        expected = whole[(first <= whole) & (whole < last)]
        assert here[(first <= here) & (here < last)].tolist() == expected.tolist()


@pytest.mark.parametrize("kind", ["bpe 3", "bpe 12", "bpe 1024", "words 3", "words 300"])
def test_a_window_is_never_short(kind: str) -> None:
    for tokens in (1, 500):
        windows = TokenWindows(tokenizer(kind), splits(10**6).train, tokens)
        for k in range(20):
            assert windows.draw(generator(0, TRAIN, 0, k)).shape == (tokens,)
