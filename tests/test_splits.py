"""The paper's training, validation and test ranges, and windows outside the trained ones."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arithmetext.errors import InputError
from arithmetext.text.splits import FAR_LENGTH, blocks_near, far_window, splits, unseen


@given(st.integers(100, 10**15))
def test_splits_cover_the_text_without_overlap(n: int) -> None:
    s = splits(n)
    ranges = sorted([*s.train, *s.validation, s.test])
    assert ranges[0][0] == 2
    assert ranges[-1][1] == n + 1
    assert all(a < b for a, b in ranges)
    assert all(before[1] == after[0] for before, after in pairwise(ranges))


def test_the_splits_of_the_paper() -> None:
    s = splits(10**11)
    assert len(s.train) == 10
    assert len(s.validation) == 9
    # The first chunk has 10^10 − 1 words, the others 10^10, three quarters of each for training.
    assert s.train[0] == (2, 7_500_000_001)
    assert s.validation[0] == (7_500_000_001, 10_000_000_001)
    assert s.train[9] == (90_000_000_001, 97_500_000_001)
    assert s.test == (97_500_000_001, 100_000_000_001)
    assert sum(b - a for a, b in [*s.train, *s.validation, s.test]) == 10**11 - 1


@pytest.mark.parametrize("power", [13, 14, 15])
def test_far_windows_lie_beyond_the_text(power: int) -> None:
    lo, hi = far_window(power)
    assert (lo, hi - 1) == (10**power, 10**power + 10**6)
    assert lo >= splits(10**11).test[1]


def test_a_text_that_is_too_short_to_split() -> None:
    with pytest.raises(InputError, match="too short"):
        splits(99)


BEGIN, END = 5 * 10**6, 10**7  # the trained range


@pytest.mark.parametrize(
    ("at", "window"),
    [
        # Directly after the range, and one integer too early.
        (END, (END, END + FAR_LENGTH + 1)),
        (END - 1, None),
        # Ending directly before it; one integer later, the window before `at` is returned instead.
        (BEGIN - FAR_LENGTH - 1, (BEGIN - FAR_LENGTH - 1, BEGIN)),
        (BEGIN - FAR_LENGTH, (BEGIN - 2 * FAR_LENGTH, BEGIN - FAR_LENGTH)),
        (BEGIN, (BEGIN - FAR_LENGTH, BEGIN)),
        (BEGIN + 1, None),
        # The text begins at 2.
        (2, (2, 2 + FAR_LENGTH + 1)),
    ],
)
def test_a_window_next_to_the_trained_range(at: int, window: tuple[int, int] | None) -> None:
    trained = [(BEGIN, END)]
    if window is None:
        with pytest.raises(InputError, match="used for training or validation"):
            unseen(at, trained)
    else:
        assert unseen(at, trained) == window


@pytest.mark.parametrize("gap", [FAR_LENGTH - 1, FAR_LENGTH, FAR_LENGTH + 1])
def test_a_window_between_two_trained_ranges_overlaps_neither(gap: int) -> None:
    trained = [(2, BEGIN), (BEGIN + gap, 10**8)]
    for at in (BEGIN, BEGIN + gap):
        fits = gap >= FAR_LENGTH + (at == BEGIN)
        if not fits:
            with pytest.raises(InputError, match="used for training or validation"):
                unseen(at, trained)
        else:
            lo, hi = unseen(at, trained)
            assert BEGIN <= lo < hi <= BEGIN + gap


@given(
    at=st.integers(2, 6 * 10**6),
    borders=st.lists(st.integers(2, 10**7), min_size=2, max_size=8, unique=True).map(sorted),
)
def test_a_window_overlaps_no_trained_range(at: int, borders: list[int]) -> None:
    trained = list(zip(borders[::2], borders[1::2], strict=False))
    after = range(at, at + FAR_LENGTH + 1)
    try:
        lo, hi = unseen(at, trained)
    except InputError:
        assert any(begin in after or at in range(begin, end) for begin, end in trained)
    else:
        assert lo >= 2 and hi - lo >= FAR_LENGTH and at in (lo, hi)
        assert not any(begin in range(lo, hi) or lo in range(begin, end) for begin, end in trained)


@pytest.mark.parametrize("at", [98 * 10**9, 10**13, 10**15])
def test_blocks_are_disjoint_and_unseen(at: int) -> None:
    seen = splits(10**11).seen
    blocks = blocks_near(at, seen, 10)
    assert blocks[0] == (at, at + FAR_LENGTH + 1)
    assert all(hi - lo == FAR_LENGTH + 1 for lo, hi in blocks)
    assert all(before[1] < after[0] for before, after in pairwise(blocks))
    assert blocks[-1][1] <= 1.02 * at
    assert not any(lo < end and begin < hi for lo, hi in blocks for begin, end in seen)


def test_blocks_that_would_be_seen_are_refused() -> None:
    """The tenth block from 99.8e9 on is beyond the text, the first from 9e9 is for validation."""
    seen = splits(10**11).seen
    assert blocks_near(998 * 10**8, seen, 10)[-1][0] > 10**11
    with pytest.raises(InputError, match="training or validation"):
        blocks_near(9 * 10**9, seen, 1)


def test_blocks_end_with_the_text() -> None:
    most = 2**63 - FAR_LENGTH - 1
    assert unseen(most, ()) == (most, 2**63)
    with pytest.raises(InputError, match=r"^9.22e18 is too large: .* would end beyond 2\^63$"):
        unseen(most + 1, ())
    # The last block is further on, but the message names the place.
    with pytest.raises(InputError, match=r"^9.2e18 is too large"):
        blocks_near(92 * 10**17, (), 10)


def test_a_refused_block_is_named_by_the_place() -> None:
    with pytest.raises(InputError, match=r"^the integers around 9.74e10 were used"):
        blocks_near(974 * 10**8, splits(10**11).seen, 10)
