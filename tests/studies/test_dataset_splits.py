from typing import Any

import pytest

from arithmetext.paper.studies.dataset_splits import Result, SplitRange, summarise, verdicts

from .cases import Case, check

# Chunks have 1e10 words; a share of training may be off by one word.
CASES: list[Case] = [
    ({"chunks.1": 10**10 - 1}, {"chunks": False}),
    ({"chunks.0": 10**10}, {"chunks": False}),
    ({"training_shares.1": 0.75 + 2e-10}, {"quarters": False}),
    ({"training_shares.0": 0.75 - 2e-10}, {"quarters": False}),
    ({"training_shares.0": 0.75 - 0.9e-10, "training_shares.1": 0.75 + 0.9e-10}, {}),
    ({"ranges.19.chunk": 9}, {"quarters": False}),
    ({"ranges.19.words": 10**9}, {"quarters": False}),
    ({"totals.training": 75 * 10**9}, {"training-in-all": False}),
    ({"ranges.-3.first": 10**12}, {"far-windows": False}),
    ({"ranges.-1.words": 10**6}, {"far-windows": False}),
    ({"overlaps": 1}, {"disjoint": False}),
]


@pytest.mark.parametrize("case", CASES)
def test_verdicts(case: Case) -> None:
    check("dataset_splits", case)


def small(
    *,
    longer: dict[int, int] | None = None,
    shorter: tuple[int, ...] = (),
    tested: int = 10,
    starts: tuple[int, ...] = (10**13, 10**14, 10**15),
    words: int = 10**6 + 1,
) -> Result:
    """A text of 2..4000 in chunks of 400.

    `longer` lengthens the training part of some chunks. Chunks in `shorter` end one word earlier.
    """
    ranges = [SplitRange("test", None, start, start + words - 1, words) for start in starts]
    for chunk in range(1, 11):
        start = 400 * (chunk - 1) + 1
        first, middle = start + (chunk == 1), start + 300 + (longer or {}).get(chunk, 0)
        last = start + 399 - (chunk in shorter)
        use = "test" if chunk == tested else "validation"
        ranges.append(SplitRange("training", chunk, first, middle - 1, middle - first))
        ranges.append(SplitRange(use, chunk, middle, last, last - middle + 1))
    return summarise(4000, ranges)


@pytest.mark.parametrize(
    ("changes", "differ"),
    [
        ({}, set()),
        ({"longer": {3: 4}}, {"quarters", "training-in-all"}),
        ({"longer": {3: 4, 4: -4}}, {"quarters"}),
        ({"shorter": (2,)}, {"chunks"}),
        ({"shorter": (10,)}, {"chunks", "quarters"}),
        ({"tested": 9}, {"quarters"}),
        ({"words": 10**6}, {"far-windows"}),
        ({"starts": (10**12, 10**14, 10**15)}, {"far-windows"}),
        ({"starts": (10**13, 10**13 + 5, 10**15)}, {"far-windows", "disjoint"}),
    ],
)
def test_ranges_are_summarised(changes: dict[str, Any], differ: set[str]) -> None:
    found = {verdict.key: verdict.outcome for verdict in verdicts(small(**changes))}
    expected = dict.fromkeys(found, "agrees by construction") | dict.fromkeys(differ, "differs")
    assert found == expected
