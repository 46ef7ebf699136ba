"""One integer: its tree, its word, its packed word, and back."""

import contextlib
import sys
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import arithmetext as nt
from arithmetext.drawing import svg_drawing, text_drawing
from arithmetext.trees import Tree, first_primes, least_labels

FIRST_PACKED = [2, 2, 12, 2, 10, 2, 12, 12, 10, 2, 50]  # n = 2, 3, 4, …

# Terms as the OEIS prints them, from n = 1.
A185102_HEIGHT = "0,1,1,2,1,1,1,2,2,1,1,2,1,1,1,3,1,2,1,2,1,1,1,2,2,1,2,2,1,1,1,2,1,1,1,2,1"
A106490_EDGES = (
    "0,1,1,2,1,2,1,2,2,2,1,3,1,2,2,3,1,3,1,3,2,2,1,3,2,2,2,3,1,3,1,2,2,2,2,4,1,2,2,3,"
    "1,3,1,3,3,2,1,4,2,3,2,3,1,3,2,3,2,2,1,4,1,2,3,3,2,3,1"
)
A064372_LEAVES = (
    "1,1,1,1,1,2,1,1,1,2,1,2,1,2,2,1,1,2,1,2,2,2,1,2,1,2,1,2,1,3,1,1,2,2,2,2,1,2,2,2,1,3,1,2,2,2,"
    "1,2,1,2,2,2,1,2,2,2,2,2,1,3,1,2,2,2,2,3,1,2,2,3,1,2,1,2,2,2,2,3,1,2,1,2,1,3,2,2,2,2,1,3,2,2,"
    "2,2,2,2,1,2,2,2,1,3,1,2,3"
)
A164336_ONE_LEAF = (
    "1,2,3,4,5,7,8,9,11,13,16,17,19,23,25,27,29,31,32,37,41,43,47,49,53,59,61,67,71,73,79,81,83,89,"
    "97,101,103,107,109,113,121,125,127,128,131,137,139,149,151,157,163,167,169,173,179,181,191,193,"
    "197,199,211,223,227"
)
A276230_LEAST_WITH_EDGES = "1,2,4,12,36,144,720,3600,25200"
A000040_PRIMES = "2,3,5,7,11,13,17,19,23,29,31,37,41,43,47,53,59,61,67,71"
A006881 = "6,10,14,15,21,22,26,33,34,35,38,39,46,51,55,57,58,62,65,69,74,77,82,85,86,87,91,93,94,95"
A007304 = "30,42,66,70,78,102,105,110,114,130,138,154,165,170,174,182,186,190,195"
A053810 = "4,8,9,25,27,32,49,121,125,128,169,243,289,343,361"


def terms(sequence: str) -> list[int]:
    return [int(term) for term in sequence.split(",")]


@pytest.mark.parametrize(
    ("n", "word"),
    [
        *[(1, ""), (2, "10"), (97, "10"), (4, "1100"), (8, "1100"), (9, "1100"), (12, "110010")],
        *[(16, "111000"), (2**64 * 3, "1110100010"), (360, "1100110010")],
    ],
)
def test_words_of_the_paper(n: int, word: str) -> None:
    assert nt.word(n) == word


def test_first_packed_words() -> None:
    assert [nt.packed(n) for n in range(2, 13)] == FIRST_PACKED


@pytest.mark.parametrize(
    ("sequence", "measure"),
    [(A185102_HEIGHT, "height"), (A106490_EDGES, "edges"), (A064372_LEAVES, "leaves")],
)
def test_measures_agree_with_the_oeis(sequence: str, measure: str) -> None:
    expected = terms(sequence)
    assert [getattr(nt.tree(n), measure) for n in range(1, len(expected) + 1)] == expected


def test_one_leaf_trees() -> None:
    expected = terms(A164336_ONE_LEAF)
    assert [n for n in range(1, expected[-1] + 1) if nt.tree(n).leaves == 1] == expected


def test_least_integer_with_k_edges() -> None:
    expected = terms(A276230_LEAST_WITH_EDGES)
    least: dict[int, int] = {}
    for n in range(1, expected[-1] + 1):
        least.setdefault(nt.tree(n).edges, n)
    assert [least[k] for k in range(len(expected))] == expected


@pytest.mark.parametrize(
    ("word", "sequence"),
    [("10", A000040_PRIMES), ("1010", A006881), ("101010", A007304), ("1100", A053810)],
)
def test_integers_with_one_word_agree_with_the_oeis(word: str, sequence: str) -> None:
    expected = terms(sequence)
    assert [n for n in range(1, expected[-1] + 1) if nt.word(n) == word] == expected


def test_the_first_packed_word_beyond_32_bits() -> None:
    assert nt.packed(178264394708400).bit_length() == 34
    assert nt.packed(178264394708400 // 2).bit_length() <= 32


def test_a_tree_carries_its_primes() -> None:
    tree = nt.tree(2**64 * 3)
    assert [child.label for child in tree.children] == [2, 3]
    assert [child.label for child in tree.children[0].children] == [2]
    assert [child.label for child in tree.children[0].children[0].children] == [2, 3]
    assert tree.formula() == "2^2^(2·3)·3"
    assert tree.value == tree.label == 2**64 * 3


@given(st.integers(1, 10**12) | st.integers(1, 2**100).map(lambda n: n * n))
def test_integer_tree_word_packed_and_back(n: int) -> None:
    tree = nt.tree(n)
    assert tree.value == n
    assert nt.unpack(tree.packed) == tree.word == nt.word(n)
    assert len(tree.word) == 2 * tree.packed.bit_count() == 2 * tree.edges
    shape = nt.tree_of_word(tree.word)
    assert shape.word == tree.word
    assert (shape.height, shape.edges, shape.leaves) == (tree.height, tree.edges, tree.leaves)


dyck_words = st.recursive(
    st.just(""), lambda inner: st.lists(inner.map("1{}0".format), max_size=4).map("".join)
).filter(lambda word: 0 < len(word) <= 24)


@given(dyck_words)
def test_word_tree_least_integer_and_back(word: str) -> None:
    shape = nt.tree_of_word(word)
    assert shape.word == word
    assert nt.pack(word) == shape.packed
    assert nt.unpack(nt.pack(word)) == word
    labelled = least_labels(shape)
    assert labelled.word == word
    with contextlib.suppress(OverflowError):  # towers too high to write
        assert nt.word(nt.least(word)) == word


def test_least_is_least() -> None:
    seen: set[str] = set()
    for n in range(1, 3000):
        word = nt.word(n)
        if word not in seen:
            seen.add(word)
            assert nt.least(word) == n


def test_a_tower_too_high_to_write() -> None:
    with pytest.raises(OverflowError, match="more than 4000 digits"):
        nt.least("111111000000")


@pytest.mark.parametrize("n", [0, -1, -360])
def test_integers_below_one_are_refused(n: int) -> None:
    with pytest.raises(nt.InputError, match="has no tree"):
        nt.tree(n)


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("0", "below the root at place 1"),
        ("1001", "below the root at place 3"),
        ("1", "ends 1 above"),
        ("110", "ends 1 above"),
        ("1a0", "'a' at place 2"),
        ("1" * 300 + "0" * 300, "higher than 200 levels"),
    ],
)
def test_words_that_are_not_dyck_words_are_refused(word: str, complaint: str) -> None:
    with pytest.raises(nt.InputError, match=complaint):
        nt.tree_of_word(word)


def test_only_integers_have_words() -> None:
    with pytest.raises(TypeError):
        nt.word(6.5)  # type: ignore[arg-type]


def test_factoring_ends_at_the_timeout() -> None:
    # A product of two primes of 45 digits takes days.
    hard = (10**45 + 9) * (10**44 + 31)
    with pytest.raises(nt.InputError, match=r"89|90 digits was not factored within 0\.5 s"):
        nt.factor(hard, timeout=0.5)


def test_large_easy_numbers_are_factored_in_another_process() -> None:
    assert nt.factor(2**200 * 3**100, timeout=60) == [(2, 200), (3, 100)]


def lines_run(task: Callable[[], object]) -> int:
    """How many lines of Python a task runs; a comprehension counts once per item."""
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        task()
    finally:
        sys.settrace(before)
    return count


DRAWINGS: dict[str, Callable[[Tree], object]] = {
    "text": text_drawing,
    "SVG": lambda tree: svg_drawing([tree]),
    "forest": lambda tree: svg_drawing([tree, tree]),
    "measures": lambda tree: (tree.height, tree.leaves, tree.edges, least_labels(tree).formula()),
}


@pytest.mark.parametrize("drawing", DRAWINGS)
@pytest.mark.parametrize("shape", ["{}", "1{}0", "1" * 20 + "{}" + "0" * 20, "1{0}01{0}01{0}0"])
def test_drawing_twice_as_many_children_takes_twice_as_long(shape: str, drawing: str) -> None:
    few, many = (
        lines_run(partial(DRAWINGS[drawing], nt.tree_of_word(shape.format("10" * children))))
        for children in (100, 200)
    )
    assert many < 2.4 * few


def test_first_primes() -> None:
    assert first_primes(20) == terms(A000040_PRIMES)
    primes = first_primes(2000)
    assert primes[-1] == 17389
    assert primes == [n for n in range(2, 17390) if nt.word(n) == "10"]
