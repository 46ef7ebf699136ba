"""Windows as a PyTorch dataset: which integers the tokens belong to, workers, and resuming."""

import json
import pickle
from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.data import DataLoader

import arithmetext as nt
from arithmetext.errors import InputError
from arithmetext.tokens import BPE, Tokenizer, WordTokens
from arithmetext.torch import WindowDataset

RANGES = [(2, 10_000), (10**12, 10**12 + 10_000)]


@cache
def tokenizer(kind: str, size: int) -> Tokenizer:
    if kind == "words":
        return WordTokens.commonest(size)
    return BPE.train(size, ranges=[(2, 10**6)], lines=256)


def dataset(length: int = 8, **options: Any) -> WindowDataset:
    return WindowDataset(tokenizer("words", 32), RANGES, length, **options)


@settings(max_examples=30)
@given(
    st.sampled_from([("bpe", 3), ("bpe", 12), ("bpe", 200), ("words", 8), ("words", 64)]),
    st.integers(1, 100),
    st.integers(0, 2**63 - 1),
)
def test_each_token_has_the_integer_of_its_last_character(
    kind: tuple[str, int], length: int, seed: int
) -> None:
    """Found again from the text: the spaces before a character tell which word it belongs to."""
    here = tokenizer(*kind)
    window = WindowDataset(here, RANGES, length, seed=seed, moduli=(3, 4, 97)).window(0)
    ids, n = window["ids"].tolist(), window["n"].tolist()
    assert len(ids) == len(n) == length
    text, earlier = "", set()
    for token, integer in zip(ids, n, strict=True):
        text += here.vocabulary[token]
        earlier.add(integer - text[:-1].count(" "))
    (first,) = earlier
    assert any(lo <= first and n[-1] < hi for lo, hi in RANGES)
    begun, *whole = text.split(" ")
    assert begun in nt.word(first)
    if whole:
        assert nt.word(first).endswith(begun)
        *whole, unfinished = whole
        assert whole == [nt.word(first + 1 + k) for k in range(len(whole))]
        assert nt.word(first + 1 + len(whole)).startswith(unfinished)
    assert window["residues"].tolist() == [[each % 3, each % 4, each % 97] for each in n]


def test_a_window_is_a_function_of_seed_and_number() -> None:
    here, copy = dataset(), pickle.loads(pickle.dumps(dataset()))
    for i in (5, 0, 10**12):
        assert here.window(i)["n"].tolist() == copy.window(i)["n"].tolist()
    others = [here.window(0), here.window(1), dataset(seed=1).window(0)]
    assert len({tuple(each["n"].tolist()) for each in others}) == 3


def numbers(windows: Any) -> list[int]:
    """The windows by their first integers; two windows rarely have the same."""
    return [int(n) for window in windows for n in window["n"].reshape(-1, 8)[:, 0]]


def test_every_iteration_begins_with_window_0() -> None:
    here = dataset()
    expected = [int(here.window(i)["n"][0]) for i in range(6)]
    assert len(set(expected)) == 6
    assert numbers(islice(here, 6)) == expected
    one, two = iter(here), iter(here)
    assert [numbers(islice(each, 2)) for each in (one, two, one)] == (
        [expected[:2], expected[:2], expected[2:4]]
    )


STATE = {"seed": 0, "length": 8}


def test_a_dataset_resumes_from_one_integer() -> None:
    here = dataset()
    assert here.state_dict() == STATE | {"next": 0}
    windows = iter(here)
    expected = numbers(islice(windows, 5))
    state = json.loads(json.dumps(here.state_dict()))
    assert state == STATE | {"next": 5}
    here.load_state_dict(STATE | {"next": 2})
    assert here.state_dict() == STATE | {"next": 2}
    again = iter(here)
    assert here.state_dict() == STATE | {"next": 2}
    assert numbers(islice(again, 3)) == expected[2:]
    assert numbers(islice(here, 5)) == expected  # a state counts for one iteration
    assert here.state_dict() == STATE | {"next": 5}


def test_a_state_of_another_dataset_is_refused() -> None:
    for other, complaint in (
        (dataset(seed=1), "a dataset with seed 1, not 0"),
        (dataset(length=9), "a dataset with length 9, not 8"),
    ):
        with pytest.raises(InputError, match=complaint):
            dataset().load_state_dict(other.state_dict())


def test_workers_share_the_windows() -> None:
    here = dataset()
    expected = [int(here.window(i)["n"][0]) for i in range(12)]
    loaded = numbers(islice(DataLoader(here, batch_size=2, num_workers=2), 6))
    assert loaded == [expected[i] for i in (0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11)]


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_share_the_windows_after_a_loaded_state(workers: int) -> None:
    here = dataset()
    expected = {int(here.window(i)["n"][0]) for i in range(10, 16)}
    here.load_state_dict(here.state_dict() | {"next": 10})
    loaded = numbers(islice(DataLoader(here, batch_size=1, num_workers=workers), 6))
    assert set(loaded) == expected


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_resumes_in_the_middle(workers: int) -> None:
    stateful = pytest.importorskip(
        "torchdata.stateful_dataloader", reason="torchdata is not installed"
    )

    def loader() -> Any:
        return stateful.StatefulDataLoader(dataset(), batch_size=2, num_workers=workers)

    def batches(iterator: Iterator[Any], count: int) -> list[list[int]]:
        return [numbers([batch]) for batch in islice(iterator, count)]

    whole = loader()
    iterator = iter(whole)
    states = [whole.state_dict()]
    expected = batches(iterator, 3)  # with two workers, one of them is a batch ahead
    states.append(pickle.loads(pickle.dumps(whole.state_dict())))
    expected += batches(iterator, 4)
    assert len({number for batch in expected for number in batch}) == 14

    for _ in range(2):  # the same state serves twice
        for state, at in zip(states, (0, 3), strict=True):
            again = loader()
            again.load_state_dict(state)
            assert batches(iter(again), 4) == expected[at : at + 4]
    # Resume what was resumed, in the same loader.
    again.load_state_dict(states[1])
    assert batches(iter(again), 1) == expected[3:4]
    again.load_state_dict(again.state_dict())
    assert batches(iter(again), 3) == expected[4:]


def test_tensors() -> None:
    window = dataset(moduli=(2, 3, 5, 7)).window(0)
    assert {name: (tensor.dtype, *tensor.shape) for name, tensor in window.items()} == {
        "ids": (torch.int64, 8),
        "n": (torch.int64, 8),
        "residues": (torch.int64, 8, 4),
    }


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"length": 0}, "1 token or more, not 0"),
        ({"seed": -1}, "from 0 to 2^63 - 1, not -1"),
        ({"moduli": (2, 0)}, "from 1 to 2^63 - 1, not 0"),
        ({"moduli": (2**63,)}, f"from 1 to 2^63 - 1, not {2**63}"),
        ({"ranges": [(0, 10_000)]}, "begins at 2"),
        ({"ranges": [(2, 50)]}, "the longest range has 48"),
        ({"ranges": []}, "the longest range has 0"),
    ],
)
def test_bad_input(options: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InputError) as error:
        WindowDataset(**{"tokenizer": tokenizer("words", 32), "ranges": RANGES, **options})
    assert complaint in str(error.value)
