"""Batches of windows: the same whoever reads them, and what is to be predicted in them."""

import hashlib
import itertools
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from arithmetext.errors import InputError
from arithmetext.models.gpt import GPTConfig
from arithmetext.text.sieve import words
from arithmetext.text.splits import Range, splits
from arithmetext.text.windows import TRAIN, VALIDATION, generator
from arithmetext.tokens.spelling import spell
from arithmetext.tokens.windows import ENCODER_WARMUP, cut
from arithmetext.training.config import Config, TrainingConfig
from arithmetext.training.stream import (
    Batch,
    Masks,
    ProcessBatches,
    Stream,
    mask,
    predicted_count,
    prefetch,
)
from test_windows import recorded, tokenizer

CONTEXT = 32
KINDS = ("words", "bpe 64", "bpe 256")
TASKS: tuple[Any, ...] = ("ntp", "mlm")
each_kind = pytest.mark.parametrize("kind", KINDS)
each_task = pytest.mark.parametrize("task", TASKS)


def make(
    kind: str = "words",
    *,
    n: int = 10**8,
    task: Any = "ntp",
    context: int = CONTEXT,
    seed: int = 0,
    purpose: int = TRAIN,
    ranges: Sequence[Range] | None = None,
    backward: bool = False,
    surrogate: int | None = None,
) -> Stream:
    return Stream(
        tokenizer(kind),
        ranges or splits(n).train,
        task=task,
        context=context,
        seed=seed,
        purpose=purpose,
        backward=backward,
        surrogate=surrogate,
    )


def rows(batch: Batch) -> list[tuple[bytes, ...]]:
    """The windows of a batch as bytes, which can be compared and counted."""
    tensors = [tensor for tensor in batch[:3] if tensor is not None]
    assert all(tensor.dtype == torch.int64 and tensor.is_contiguous() for tensor in tensors)
    return [tuple(row.numpy().tobytes() for row in window) for window in zip(*tensors, strict=True)]


@each_kind
def test_backward_windows_have_the_words_in_reverse_order(kind: str) -> None:
    """Both read the same integers, from one end or from the other."""
    forward, backward = make(kind), make(kind, backward=True)
    for k in range(5):
        start = forward.windows.random_start(generator(0, TRAIN, 0, k))
        text = words(start, start + forward.windows.length)[::-1]
        ids = cut(tokenizer(kind), text, CONTEXT + 1)
        [inputs], [targets], _, _ = backward.batch(0, range(k, k + 1))
        assert inputs.tolist() == ids[:-1].tolist()
        assert targets.tolist() == ids[1:].tolist()


# Window k of batch i


def simple_rows(stream: Stream, i: int, windows: range) -> list[tuple[bytes, ...]]:
    """`rows` of a batch that is made window by window and letter by letter."""
    found = []
    for k in windows:
        random = generator(stream.seed, stream.purpose, i, k)
        start = stream.windows.random_start(random)
        source = words if stream.windows.surrogate is None else stream.windows.surrogate.words
        text = source(start, start + stream.windows.length)
        text = text[::-1] if stream.windows.backward else text
        whole = stream.tokenizer.encode_text(spell(np.ascontiguousarray(text))).astype(np.int64)
        ids = whole[ENCODER_WARMUP : ENCODER_WARMUP + stream.context + 1]
        if stream.task == "ntp":
            found.append((ids[:-1].tobytes(), ids[1:].tobytes()))
            continue
        altered, size = ids[:-1].copy(), stream.tokenizer.size
        chosen = np.sort(random.choice(stream.context, stream.predicted, replace=False))
        originals = altered[chosen]
        others = (originals + random.integers(1, size, stream.predicted)) % size
        fates = random.random(stream.predicted)
        for place, fate, other in zip(chosen, fates, others, strict=True):
            if fate < 0.75:
                altered[place] = size
            elif fate < 0.9:
                altered[place] = other
        found.append(tuple(array.tobytes() for array in (altered, originals, chosen)))
    return found


@each_task
@each_kind
@settings(max_examples=20)
@given(
    st.integers(10**5, 10**12),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    st.integers(2, 70),
    st.booleans(),
    st.none() | st.integers(0, 2**63 - 1),
)
def test_a_batch_is_made_like_its_windows(
    kind: str,
    task: Any,
    n: int,
    seed: int,
    i: int,
    first: int,
    context: int,
    backward: bool,
    surrogate: int | None,
) -> None:
    stream = make(
        kind, n=n, task=task, context=context, seed=seed, backward=backward, surrogate=surrogate
    )
    windows = range(first, first + 4)
    assert rows(stream.batch(i, windows)) == simple_rows(stream, i, windows)


# The first digits of SHA-256. Weights can be reproduced only while batches stay the same.
DIGESTS = {
    ("words", "ntp", False): "d1d97d4e5955d254",
    ("words", "ntp", True): "71ed646f2261c17a",
    ("words", "mlm", False): "bbe5a7ffa6bad857",
    ("words", "mlm", True): "bda65ac6fed0f6be",
    ("bpe 64", "ntp", False): "7fa12653407dbf79",
    ("bpe 64", "ntp", True): "89d207129b4f0979",
    ("bpe 64", "mlm", False): "8d8caa51e079e10d",
    ("bpe 64", "mlm", True): "e1f15ae306f46752",
    ("bpe 256", "ntp", False): "af07a9ab17659d2b",
    ("bpe 256", "ntp", True): "44bdfbe584166cef",
    ("bpe 256", "mlm", False): "66ada23c2fffa860",
    ("bpe 256", "mlm", True): "48ad07f69281cd42",
}


@each_task
@each_kind
@pytest.mark.parametrize("backward", [False, True])
def test_batches_stay_the_same(kind: str, task: Any, backward: bool) -> None:
    digest = hashlib.sha256()
    for n in (10**5, 10**11):
        stream = make(kind, n=n, task=task, backward=backward, seed=3, context=100)
        batch = stream.batch(5, range(2, 42))
        for row in rows(batch):
            for part in row:
                digest.update(part)
        digest.update(str(batch.words).encode())
    assert digest.hexdigest()[:16] == DIGESTS[kind, task, backward]


@each_task
@each_kind
def test_a_window_depends_only_on_its_numbers(kind: str, task: Any) -> None:
    stream, again = make(kind, task=task), make(kind, task=task)
    expected = {
        (i, k): row for i in (0, 7) for k, row in enumerate(rows(stream.batch(i, range(12))))
    }
    order = random.Random(0).sample(sorted(expected), len(expected))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda ik: rows(again.batch(ik[0], range(ik[1], ik[1] + 1))), order))
    assert found == [[expected[ik]] for ik in order]
    assert rows(again.batch(7, range(3, 6))) == [expected[7, k] for k in (3, 4, 5)]
    assert rows(again.batch(7, range(11, 0, -5))) == [expected[7, k] for k in (11, 6, 1)]


@each_task
def test_other_seeds_purposes_and_numbers_give_other_windows(task: Any) -> None:
    numbers = (0, 1, 2, 3, 1000, 2**40)
    found = [
        row[1]
        for seed in (0, 1, 2, 2**32, 2**63 - 1)
        for purpose in (TRAIN, VALIDATION)
        for i in numbers
        for k in numbers
        for row in rows(
            make(seed=seed, purpose=purpose, context=256, task=task).batch(i, range(k, k + 1))
        )
    ]
    assert len(set(found)) == len(found) == 5 * 2 * 36


def test_numpy_s_global_random_state_does_not_matter() -> None:
    state = np.random.get_state()
    try:
        np.random.seed(1)
        first = rows(make(task="mlm").batch(0, range(3)))
        np.random.seed(2)
        assert rows(make(task="mlm").batch(0, range(3))) == first
    finally:
        np.random.set_state(state)


@each_task
def test_a_surrogate_is_another_text_at_the_same_integers(task: Any) -> None:
    """Its words are replaced and nothing else: not the integers, and not what is predicted."""
    texts = {seed: make(task=task, n=10**11, surrogate=seed) for seed in (None, 1, 2)}
    starts = [texts[None].windows.random_start(generator(0, TRAIN, 0, k)) for k in range(4)]
    read = [stream.windows.with_warmup(starts) for stream in texts.values()]
    for one, other in itertools.combinations(read, 2):
        assert 0.02 < (one == other).mean() < 0.2  # as many equal tokens as by chance
    if task == "mlm":
        chosen = [stream.batch(0, range(4)).chosen for stream in texts.values()]
        assert all(torch.equal(each, chosen[0]) for each in chosen)


# Shares


def config(task: Any = "ntp", *, windows: int = 8, at_once: int = 8, **training: Any) -> Config:
    options: dict[str, Any] = {"steps": 3, "validation": 13 * CONTEXT} | training
    return Config(
        task=task,
        n=10**7,
        seed=5,
        model=GPTConfig(layers=1, heads=1, context=CONTEXT),
        training=TrainingConfig(batch=windows * CONTEXT, device_batch=at_once * CONTEXT, **options),
    ).checked()


def shares_of(settings: Config, processes: int) -> list[ProcessBatches]:
    return [
        ProcessBatches(settings, tokenizer("words"), rank, processes) for rank in range(processes)
    ]


def test_training_and_validation_read_the_surrogate() -> None:
    settings = replace(config(), surrogate=4)
    [share] = shares_of(settings, 1)
    text = partial(make, n=settings.n, seed=settings.seed, surrogate=4)
    [first, *_] = share.parts(0)
    assert rows(first) == rows(text().batch(0, range(8)))
    held_out = text(purpose=VALIDATION, ranges=settings.text.validation).batch(0, range(13))
    assert [row for batch in share.validation for row in rows(batch)] == rows(held_out)


@each_task
@pytest.mark.parametrize("at_once", [1, 3, 4, 8, 100])
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_processes_share_each_batch(processes: int, at_once: int, task: Any) -> None:
    settings = config(task, at_once=at_once)
    stream = make(n=settings.n, task=task, seed=settings.seed)
    parts = [list(share.parts(0)) for share in shares_of(settings, processes)]
    for step in range(3):
        taken, counted = [], 0
        for own in parts:
            times, left = divmod(len(own), 3)
            assert not left
            for part in own[step * times : (step + 1) * times]:
                assert 1 <= len(part.inputs) <= at_once
                taken += rows(part)
                counted += part.words
        whole = stream.batch(step, range(8))
        assert taken == rows(whole)
        assert counted == whole.words


@pytest.mark.parametrize("processes", [1, 2])
def test_a_resumed_run_reads_the_same_batches(processes: int) -> None:
    for share in shares_of(config(at_once=2), processes):
        parts = [rows(part) for part in share.parts(0)]
        each = len(parts) // 3
        for step in range(4):
            assert [rows(part) for part in share.parts(step)] == parts[step * each :]


@each_task
@pytest.mark.parametrize("at_once", [1, 3, 100])
@pytest.mark.parametrize("processes", [1, 2, 4])
def test_processes_share_the_validation(processes: int, at_once: int, task: Any) -> None:
    settings = config(task, at_once=at_once)
    ranges = settings.text.validation
    whole = make(task=task, seed=5, purpose=VALIDATION, ranges=ranges).batch(0, range(13))
    batches = [batch for share in shares_of(settings, processes) for batch in share.validation]
    assert sorted(row for batch in batches for row in rows(batch)) == sorted(rows(whole))
    assert sum(batch.words for batch in batches) == whole.words


def test_more_processes_than_validation_windows() -> None:
    shares = shares_of(config(validation=CONTEXT), 4)
    assert [len(share.validation) for share in shares] == [1, 0, 0, 0]


@each_task
@each_kind
@settings(max_examples=15)
@given(st.integers(10**5, 10**11), st.sampled_from([2, 9, 64]), st.integers(0, 2**63 - 1))
def test_training_and_validation_read_their_own_ranges(
    kind: str, task: Any, n: int, context: int, seed: int
) -> None:
    settings = Config(
        task=task,
        n=n,
        seed=seed,
        model=GPTConfig(layers=1, heads=1, context=context),
        training=TrainingConfig(
            steps=2, batch=4 * context, device_batch=4 * context, validation=5 * context
        ),
    ).checked()
    text = splits(n)
    with recorded() as seen:
        share = ProcessBatches(settings, tokenizer(kind), 0, 1)
        read = len(seen)
        assert read == 5
        for _ in share.parts(0):
            pass
    assert len(seen) == read + 8
    for ranges, places in ((text.validation, seen[:read]), (text.train, seen[read:])):
        for lo, hi in places:
            assert any(first <= lo < hi <= last for first, last in ranges)


@each_kind
@each_task
def test_ranges_too_short_for_a_window(kind: str, task: Any) -> None:
    length = make(kind, task=task).windows.length
    exactly = [(2, 5), (1000, 1000 + length), (9000, 9010)]
    stream = make(kind, task=task, ranges=exactly)
    with recorded() as seen:
        stream.batch(0, range(3))
    assert seen == [exactly[1]] * 3
    with pytest.raises(InputError) as refusal:
        make(kind, task=task, ranges=[(2, 5), (1000, 999 + length), (9000, 9010)])
    assert str(refusal.value) == (
        f"a window needs {length} integers, but the longest range has {length - 1}:"
        " raise n or lower model.context"
    )


# What is predicted


@each_kind
def test_targets_are_the_next_tokens(kind: str) -> None:
    stream = make(kind)
    batch = stream.batch(4, range(10))
    windows = np.stack([stream.windows.draw(generator(0, TRAIN, 4, k)) for k in range(10)])
    assert batch.chosen is None
    assert batch.inputs.tolist() == windows[:, :-1].tolist()
    assert batch.targets.tolist() == windows[:, 1:].tolist()
    assert torch.equal(batch.inputs[:, 1:], batch.targets[:, :-1])


@each_kind
@each_task
def test_words_are_counted_by_the_spaces_of_the_targets(kind: str, task: Any) -> None:
    batch = make(kind, task=task, context=100).batch(0, range(10))
    text = tokenizer(kind).text(batch.targets.flatten().numpy())
    assert batch.words == text.count(" ") > 100


@each_kind
@pytest.mark.parametrize("context", [2, 3, 10, 30, 100, 1000])
def test_both_tasks_read_the_same_windows(kind: str, context: int) -> None:
    """Masked modelling predicts 15 % of the positions and changes nothing else."""
    batch = make(kind, task="mlm", context=context).batch(2, range(6))
    originals = make(kind, context=context).batch(2, range(6)).inputs
    assert batch.chosen is not None
    assert batch.chosen.shape == batch.targets.shape == (6, max(1, round(0.15 * context)))
    assert (batch.chosen.diff(dim=1) > 0).all()
    assert torch.equal(originals.gather(1, batch.chosen), batch.targets)
    assert torch.equal(batch.inputs.scatter(1, batch.chosen, batch.targets), originals)
    assert batch.inputs.max() <= tokenizer(kind).mask_id
    if context == 1000:
        assert batch.inputs.max() == tokenizer(kind).mask_id
        # Each window has its own positions.
        assert len({tuple(row) for row in batch.chosen.tolist()}) == 6


def random_masks(length: int, size: int, count: int, rng: np.random.Generator) -> Masks:
    """The masks of one window, from numpy's random numbers."""
    chosen = np.sort(rng.choice(length, count, replace=False))
    return Masks(chosen[None], rng.integers(1, size, (1, count)), rng.random((1, count)))


@given(
    st.integers(1, 400).flatmap(
        lambda size: st.tuples(st.just(size + 1), st.lists(st.integers(0, size), min_size=1))
    ),
    st.floats(0.001, 1),
    st.integers(0, 2**32),
)
def test_masking(text: tuple[int, list[int]], share: float, seed: int) -> None:
    size, written = text
    ids = np.array(written)
    count = predicted_count(share, len(ids))
    assert count == max(1, round(share * len(ids)))
    masks = random_masks(len(ids), size, count, np.random.default_rng(seed))
    [altered], [originals], [chosen] = mask(ids[None].copy(), size, masks)
    assert len(originals) == len(chosen) == count
    assert sorted(set(chosen.tolist())) == chosen.tolist()
    assert set(chosen.tolist()) <= set(range(len(ids)))
    assert originals.tolist() == ids[chosen].tolist()
    assert 0 <= altered.min() <= altered.max() <= size
    restored = altered.copy()
    restored[chosen] = originals
    assert restored.tolist() == ids.tolist()


def test_masking_does_not_change_its_input() -> None:
    ids = np.arange(100)[None]
    mask(ids, 100, random_masks(100, 100, 15, np.random.default_rng(0)))
    assert ids.tolist() == [list(range(100))]


def test_shares_of_masks_and_other_tokens() -> None:
    """60,000 positions of 2,000 windows, seed 0: within four standard deviations."""
    rng, size, count = np.random.default_rng(0), 7, 60_000
    fates: Counter[str] = Counter()
    places: Counter[int] = Counter()
    moves: Counter[tuple[int, int]] = Counter()
    for _ in range(2000):
        ids = rng.integers(size, size=(1, 200))
        [altered], [originals], [chosen] = mask(ids, size, random_masks(200, size, 30, rng))
        places.update(chosen.tolist())
        for new, old in zip(altered[chosen].tolist(), originals.tolist(), strict=True):
            fates["masked" if new == size else "kept" if new == old else "other"] += 1
            if new not in (size, old):
                moves[old, new] += 1
    assert fates.total() == count
    for fate, share in {"masked": 0.75, "other": 0.15, "kept": 0.10}.items():
        deviation = (count * share * (1 - share)) ** 0.5
        assert abs(fates[fate] - count * share) < 4 * deviation, (fate, fates)
    # Every other token is as likely, whatever the token was; so is every position.
    pairs = list(itertools.permutations(range(size), 2))
    assert set(moves) == set(pairs)
    assert chisquare([moves[pair] for pair in pairs]).pvalue > 1e-3
    assert chisquare([places[place] for place in range(200)]).pvalue > 1e-3


@each_task
def test_all_tensors_of_a_batch_move_to_a_device(task: Any) -> None:
    batch = make(task=task).batch(0, range(3))
    moved = batch.to(torch.device("meta"))
    assert moved.words == batch.words
    for before, after in zip(batch[:3], moved[:3], strict=True):
        if before is None:
            assert after is None
        else:
            assert (after.device.type, after.shape) == ("meta", before.shape)


# Prefetching


def settled(made: list[int], least: int) -> int:
    """Wait for at least `least` items, then until no more come; return how many there are."""
    deadline = time.monotonic() + 30
    while len(made) < least and time.monotonic() < deadline:
        time.sleep(0.001)
    before = -1
    while len(made) != before:
        before = len(made)
        time.sleep(0.03)
    return before


def wait_for_threads(others: set[threading.Thread]) -> None:
    """Wait until all threads except these are gone."""
    for thread in set(threading.enumerate()) - others:
        thread.join(10)
        assert not thread.is_alive()


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_prefetched_items_come_in_order(threads: int) -> None:
    rng = random.Random(0)
    pauses = [rng.random() / 200 for _ in range(60)]

    def make_one(i: int) -> int:
        time.sleep(pauses[i])
        return i * i

    others = set(threading.enumerate())
    indices = range(7, 60, 3)
    assert list(prefetch(make_one, indices, threads=threads)) == [i * i for i in indices]
    wait_for_threads(others)


def test_nothing_to_make() -> None:
    assert list(prefetch(lambda i: i, range(4, 4), threads=2)) == []
    unused = prefetch(lambda i: i, range(4), threads=2)
    unused.close()


@pytest.mark.parametrize("threads", [1, 3])
def test_prefetching_is_bounded(threads: int) -> None:
    made: list[int] = []

    def make_one(i: int) -> int:
        made.append(i)
        return i

    items = prefetch(make_one, range(10**9), threads=threads)
    for taken in range(1, 9):
        assert next(items) == taken - 1
        assert taken + threads <= settled(made, taken + threads) <= taken + 2 * threads
    items.close()
    assert settled(made, 0) <= 8 + 2 * threads


def test_prefetching_uses_all_threads() -> None:
    meeting = threading.Barrier(3)
    assert list(prefetch(lambda i: meeting.wait(10) * 0 + i, range(6), threads=3)) == [*range(6)]


def test_an_exception_is_raised_at_its_index() -> None:
    made: list[int] = []

    def make_one(i: int) -> int:
        made.append(i)
        if i >= 5:
            raise ZeroDivisionError(i)
        return i

    others = set(threading.enumerate())
    items = prefetch(make_one, range(10**6), threads=2)
    assert list(itertools.islice(items, 5)) == [0, 1, 2, 3, 4]
    with pytest.raises(ZeroDivisionError, match=r"^5$"):
        next(items)
    assert next(items, None) is None
    wait_for_threads(others)
    assert len(made) <= 5 + 1 + 2 * 2


def test_closing_does_not_wait_and_leaves_no_threads() -> None:
    made: list[int] = []
    go_on = threading.Event()

    def make_one(i: int) -> int:
        made.append(i)
        if i:
            assert go_on.wait(30)
        return i

    others = set(threading.enumerate())
    items = prefetch(make_one, range(100), threads=2)
    assert next(items) == 0
    settled(made, 3)
    items.close()
    assert set(threading.enumerate()) - others  # they are still at work
    go_on.set()
    wait_for_threads(others)
    assert sorted(made) == [0, 1, 2]  # what had been waiting was never begun


def test_a_run_that_ends_early_stops_its_threads() -> None:
    others = set(threading.enumerate())
    [share] = shares_of(config(steps=10**6), 1)
    parts = share.parts(10)
    expected = make(n=10**7, seed=5).batch(10, range(8))
    assert rows(next(parts)) == rows(expected)
    parts.close()
    wait_for_threads(others)
