"""Sentences found in the text, and sentences that arithmetic forbids."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import arithmetext as nt
from arithmetext.search.sentences import ANY, find, find_runs, law, parse_sentence, possible_starts
from arithmetext.text.sieve import words


def starts(text: str, lo: int, hi: int, **options: int) -> list[int]:
    return [int(n) for piece in find(parse_sentence(text), lo, hi, **options) for n in piece]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10 10", [2]),
        ("1100 10", [4]),
        ("1100 1100", [8]),
        ("111000 10", [16, 256]),
        ("10 111000", []),
        ("10 1100", [3, 7, 31, 127, 8191, 131071, 524287]),
    ],
)
def test_sentences_of_the_paper(text: str, expected: list[int]) -> None:
    assert starts(text, 2, 2 * 10**6) == expected


def runs(kind: str, length: int, hi: int) -> list[int]:
    return [int(n) for piece in find_runs(kind, length, 2, hi) for n in piece]


def test_three_in_a_row_share_a_word_first_at_33_and_four_never_do() -> None:
    assert runs("same word", 3, 10**5)[0] == 33
    assert runs("same word", 4, 10**7) == []


def test_runs_of_square_free_integers() -> None:
    square_free = [set(nt.word(n)[::2]) == {"1"} for n in range(2, 5000)]
    for length in (1, 2, 3):
        expected = [
            n + 2 for n in range(len(square_free)) if all(square_free[n : n + length]) and n < 4900
        ]
        assert [n for n in runs("square-free", length, 5000) if n < 4902] == expected
    assert runs("square-free", 4, 10**7) == []


@settings(max_examples=30)
@given(st.integers(2, 10**6), st.integers(1, 4), st.integers(0, 15))
def test_against_a_plain_search(at: int, length: int, holes: int) -> None:
    lo, hi = max(2, at - 300), at + 2000
    text = words(lo, hi).tolist()
    sentence = [int(w) for w in words(at, at + length)]
    sentence = [ANY if holes >> j & 1 else w for j, w in enumerate(sentence)]
    if not any(sentence):
        sentence[0] = int(words(at, at + 1)[0])
    expected = [
        lo + i
        for i in range(len(text) - length + 1)
        if all(w in (ANY, text[i + j]) for j, w in enumerate(sentence))
    ]
    found = [int(n) for piece in find(tuple(sentence), lo, hi) for n in piece]
    assert found == expected
    assert at in found


def test_numpy_integers_are_accepted_as_bounds() -> None:
    lo, hi = 2**31 - 300, 2**31 - 1
    expected = starts("10", lo, hi)
    assert starts("10", np.int32(lo), np.int32(hi)) == expected
    assert starts("10", np.uint32(lo), np.uint64(hi)) == expected
    found = find_runs("square-free", 1, np.int32(lo), np.int32(hi))
    assert [n for piece in found for n in piece] == [
        n for n in range(lo, hi) if nt.trees.is_square_free(nt.word(n))
    ]


def test_a_run_of_no_words_is_refused() -> None:
    with pytest.raises(nt.InputError, match="at least one word, not 0"):
        list(find_runs("same word", 0, 2, 100))


def test_sentences_across_the_border_of_pieces() -> None:
    for border in (2**18, 2**22):  # of segments, of pieces
        text = " ".join(nt.unpack(int(w)) for w in words(border - 2, border + 3))
        found = starts(text, 2, border + 1000)
        assert border - 2 in found
        assert starts(text, 2, border + 1000, threads=1) == found


def test_a_sentence_ends_inside_the_range() -> None:
    assert starts("111000 10", 2, 17) == []
    assert starts("111000 10", 2, 18) == [16]
    assert starts("111000 10", 17, 256) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("10 10", "the sentence can begin at 2 only"),
        ("10 * * 10", "begin at 2 only"),
        ("10 1010 1010 1010", "divisible by 4, and no place"),
        ("10 10 10 10", "divisible by 4"),
        (" ".join(["10"] * 2 + ["*"] * 7), "begin at 2 only"),
        ("1010 10 10", "only 2 is: the sentence never occurs"),
    ],
)
def test_sentences_that_arithmetic_decides(text: str, says: str) -> None:
    assert says in (law(parse_sentence(text)) or "")


@pytest.mark.parametrize("text", ["10", "10 * 10", "111000 10", "10 111000", "1010 1010 1010"])
def test_sentences_that_arithmetic_does_not_decide(text: str) -> None:
    assert law(parse_sentence(text)) is None
    assert possible_starts(parse_sentence(text)) is None


@settings(max_examples=100)
@given(st.integers(2, 10**9), st.integers(1, 12))
def test_no_law_forbids_what_occurs(at: int, length: int) -> None:
    said = law(tuple(int(w) for w in words(at, at + length)))
    assert said is None or f"begin at {at} only" in said or f" or {at} only" in said


@pytest.mark.parametrize("text", ["10 10", "10 10 10", "1010 10 10", "10 10 10 10", "10 * * 10"])
def test_a_sentence_begins_only_where_arithmetic_allows(text: str) -> None:
    assert set(starts(text, 2, 10**6)) <= set(possible_starts(parse_sentence(text)) or [])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "at least one word"),
        ("* *", "at least one word"),
        ("10 1001 10", "word 2 of the sentence: not a Dyck word: 1001 goes below"),
        ("10 x", "word 2 of the sentence: .* 'x' at place 1"),
        ("10" * 40, "longer than any word below"),
    ],
)
def test_refused_sentences(text: str, complaint: str) -> None:
    with pytest.raises(nt.InputError, match=complaint):
        parse_sentence(text)
