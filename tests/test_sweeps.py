"""Sweeps: processes share the runs, a killed one holds nothing, and the statistics are right."""

import os
import time
from itertools import pairwise
from multiprocessing import Queue
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arithmetext.errors import InputError
from arithmetext.evaluation.estimates import overlaps
from arithmetext.evaluation.subjects import EvaluatedModel
from arithmetext.evaluation.sweeps import (
    SeedSpread,
    by_block,
    difference,
    mean,
    pooled_spread,
    power_law,
)
from arithmetext.paper import outputs, runs
from arithmetext.paper.runs import TrainedModel
from arithmetext.paper.studies.scaling import PLACES
from arithmetext.paper.study import papers_tokens
from arithmetext.paper.sweeps import (
    RATES,
    SAME_TIME,
    SEARCHED_SHARE,
    SEEDS,
    WORDS,
    WORDS_PER_TOKEN_OF,
    measure_all,
    sweep,
)
from arithmetext.text.sieve import words
from arithmetext.text.splits import blocks_near, splits
from arithmetext.tokens import BPE
from arithmetext.training import run_cache
from arithmetext.training.config import differences
from arithmetext.training.loop import Diverged
from arithmetext.training.recipes import WORDS_PER_TOKEN
from tiny_runs import PROCESSES, TINY

MODELS = TrainedModel("ntp-laptop", (*TINY, "training.steps=5")).with_seeds(3)


def work(cache: Path, found: "Queue[Any]", marker: Path | None) -> None:
    """A process that shares a sweep; with a marker it stops for ever after its first run."""
    os.environ["XDG_CACHE_HOME"] = str(cache)

    def measure(model: TrainedModel) -> int:
        tokens = model.record().tokens
        if marker:
            marker.touch()
            time.sleep(600)
        found.put(model.config.seed)
        return tokens

    found.put(list(measure_all(MODELS, measure).values()))


def test_a_killed_process_leaves_its_run_to_others(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    marker, found = tmp_path / "holds the first run", PROCESSES.Queue()
    killed, other = (
        PROCESSES.Process(target=work, args=(tmp_path, found, mark)) for mark in (marker, None)
    )
    try:
        killed.start()
        while not marker.exists():
            assert killed.is_alive()
            time.sleep(0.05)
        other.start()
        assert [found.get(timeout=120) for _ in range(2)] == [1, 2]
        assert other.is_alive()  # it waits for the first run
        killed.kill()
        assert found.get(timeout=120) == 0
        assert found.get(timeout=120) == [5 * 256] * 3
        other.join(timeout=120)
    finally:
        for process in (killed, other):
            if process.pid:
                process.kill()
                process.join()
    assert {path.name for path in (tmp_path / "arithmetext").glob("claims/*/*")} == set()


def test_an_interruption_loses_one_run_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    trained, train = [], run_cache.train
    monkeypatch.setattr(
        run_cache, "train", lambda config, *a, **k: (trained.append(config), train(config, *a, **k))
    )

    def interrupted(model: TrainedModel) -> int:
        if len(trained) == 2:
            raise KeyboardInterrupt
        return model.record().tokens

    with pytest.raises(KeyboardInterrupt):
        measure_all(MODELS, interrupted)
    measure_all(MODELS, lambda model: model.load().context)
    assert [config.seed for config in trained] == [0, 1, 2]  # none of them twice
    assert not list((tmp_path / "arithmetext/runs").glob("*/checkpoints"))
    assert "nt: run 2 of 3: ntp-laptop seed=1\n" in capsys.readouterr().err


def test_older_code_counts_only_if_asked_and_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    report, trained, train = tmp_path / "report", [], run_cache.train
    monkeypatch.setattr(
        run_cache,
        "train",
        lambda config, *a, **k: (trained.append(config.seed), train(config, *a, **k)),
    )

    def measure(model: TrainedModel) -> list[int]:
        squares = model.outputs(square, model.config.seed)["square"]
        return [model.record().tokens, *squares.tolist()]

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "earlier"))
    with outputs.saved_to(report):
        expected = measure_all(MODELS[:2], measure)
        MODELS[2].record()  # without its output
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "later"))
    runs._load.cache_clear()
    changed = outputs.sources.of_module("training.loop") | {"models/gpt.py": "changed"}
    monkeypatch.setattr(outputs.sources, "of_module", lambda module: changed)
    capsys.readouterr()

    with outputs.saved_to(report, older=True) as digests:
        assert dict(digests) == {}
        found = measure_all(MODELS, measure)
        assert digests["models/gpt.py"] != "changed"
    assert trained == [0, 1, 2, 2]
    assert [found[model] for model in MODELS] == [*expected.values(), [5 * 256, 4]]
    assert "nt: 2 of 3 runs are kept from before, whatever code" in capsys.readouterr().err

    with outputs.saved_to(report):
        assert measure_all(MODELS, measure) == found
    assert trained == [0, 1, 2, 2, 0, 1]


def test_older_outputs_must_be_of_one_version_and_of_a_form_that_is_still_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, model = tmp_path / "report", MODELS[0]

    def measure(model: TrainedModel) -> list[int]:
        model.record()
        return [*model.outputs(square, 2)["square"], *model.outputs(square, 3)["square"]]

    def from_older(compute: Any) -> Any:
        with outputs.saved_to(report, older=True):
            return outputs.from_older_code([model], compute)

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "earlier"))
    with outputs.saved_to(report):
        measure(model)
    assert from_older(measure) == {model: [4, 9]}
    assert from_older(lambda model: model.outputs(square, 2)["another array"]) == {}

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "later"))
    now = outputs.sources.of_function("paper.runs", "generated_tokens")
    monkeypatch.setattr(outputs.sources, "of_function", lambda *_: now | {"models/gpt.py": "new"})
    with outputs.saved_to(report):
        model.outputs(square, 2)  # an interruption follows; the other output is an older one
    assert from_older(measure) == {}


def square(model: EvaluatedModel, number: int) -> dict[str, np.ndarray]:
    return {"square": np.array([number**2])}


def test_bad_input_is_not_taken_for_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = []

    def measure(model: TrainedModel) -> None:
        asked.append(model)
        raise InputError("the disk is full")

    with pytest.raises(InputError, match="disk"):
        measure_all(MODELS, measure)
    assert asked == [MODELS[0]]


@pytest.mark.parametrize("scale", ["laptop", "gpu", "paper"])
def test_one_parameter_changes_at_a_time(scale: str) -> None:
    found = sweep(scale)
    changed = {"L": {"model.context"}, "n": {"n"}, "D": {"tokens.size"}}
    changed["ρ"] = {"model.layers", "model.heads", "training.lr", "training.device_batch"}
    reference = found.shared.models[0].config
    for axis, points in found.axes.items():
        assert points[found.reference[axis]] == found.shared
        for value, point in points.items():
            names = {d.partition(" = ")[0] for d in differences(point.models[0].config, reference)}
            assert names <= changed[axis] | {"training.steps"}  # as many words, in other tokens
            assert bool(names) == (value != found.reference[axis])
            assert point.rho in found.searches
    assert len(found.points) == sum(len(points) - 1 for points in found.axes.values()) + 1


def test_every_model_reads_the_same_number_of_words() -> None:
    found = sweep("gpu")

    def words_read(model: TrainedModel, value: str = "") -> float:
        size = model.config.tokens.size
        return model.trained_on * WORDS_PER_TOKEN_OF.get(value, WORDS_PER_TOKEN[size]) / WORDS

    for points in found.axes.values():
        for value, point in points.items():
            expected = SAME_TIME if "words" in value else 1
            assert words_read(point.models[0], value) == pytest.approx(expected, rel=1e-3)
            assert len(point.models) == (1 if "words" in value else SEEDS.get(value, 2))
    for rho, models in found.searches.items():
        shares = [words_read(model) for model in models]
        assert shares == pytest.approx([SEARCHED_SHARE[rho]] * len(RATES[rho]), rel=1e-3)


def test_at_paper_scale_every_model_is_trained_as_long_as_the_papers() -> None:
    found = sweep("paper")
    assert found.shared.models[0].trained_on == papers_tokens()
    for point in found.points:
        training = point.models[0].config.training
        assert training.steps / training.interval < training.patience  # no run stops early


def test_a_run_that_diverges_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = []

    def measure(model: TrainedModel) -> None:
        asked.append(model)
        if model == MODELS[0]:
            raise Diverged("the loss is nan")

    with pytest.raises(Diverged, match="nan"):
        measure_all(MODELS, measure)
    assert asked == list(MODELS)  # each of them once


@pytest.mark.parametrize(("n", "expected"), WORDS_PER_TOKEN_OF.items())
def test_words_per_token(n: str, expected: float) -> None:
    ranges = splits(int(float(n))).train
    tokenizer = BPE.train(256, ranges=ranges)
    starts = [(lo + hi) // 2 for lo, hi in ranges]
    tokens = sum(len(tokenizer.encode(words(at, at + 10_000))) for at in starts)
    assert 10_000 * len(starts) / tokens == pytest.approx(expected, rel=0.01)


def test_no_place_is_in_training_or_validation_text() -> None:
    for point in sweep("gpu").points:
        seen = point.models[0].config.text.seen
        for at in PLACES:
            for lo, hi in blocks_near(at, seen, 8):  # it refuses what a model has seen
                assert not any(lo < end and begin < hi for begin, end in seen)


def test_long_runs_come_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    order: list[TrainedModel] = []
    measure_all(sweep("gpu").short_runs, order.append)
    costs = [model.trained_on * model.parameters() for model in order]
    assert all(a >= b for a, b in pairwise(costs))


@given(st.integers(1, 5), st.integers(1, 6))
def test_prompts_are_grouped_by_block(blocks: int, rows: int) -> None:
    grouped = by_block(np.arange(2.0 * rows * blocks).reshape(2, -1), blocks)
    assert grouped.shape == (2, blocks, rows)
    assert (grouped[0] % blocks == np.arange(blocks)[:, None]).all()


numbers = st.floats(-1, 1)
tables = st.lists(st.lists(numbers, min_size=4, max_size=4), min_size=1, max_size=3).map(np.array)


@given(tables, tables, st.floats(0, 0.1), st.integers(0, 20))
def test_differences_of_models(a, b, deviation: float, freedom: int) -> None:
    spread = SeedSpread(deviation, freedom)
    found, reverse = difference(a, b, spread), difference(b, a, spread)
    assert found.value == pytest.approx(a.mean() - b.mean(), abs=1e-12)
    assert (found.low, found.high) == pytest.approx((-(reverse.high or 0), -(reverse.low or 0)))
    certain = difference(a, b, SeedSpread(0.0, 1))  # seeds that never differ
    assert (found.low or 0) <= (certain.low or 0) + 1e-12
    alone = difference(a, np.zeros_like(a[:1]), SeedSpread(0.0, 0))
    assert alone == pytest.approx(mean(a, SeedSpread(0.0, 0)))


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Thirteen models of two seeds, alike but for chance: over other seeds and other blocks."""
    random = np.random.default_rng(0)
    held = []
    for _ in range(600):
        blocks = random.normal(0, 0.01, (1, 1, 8))  # the same text for all
        seeds = random.normal(0, 0.01, (13, 2, 1))
        sampled = list(0.4 + blocks + seeds + random.normal(0, 0.01, (13, 2, 8)))
        spread = pooled_spread(sampled)
        assert spread.freedom == 13
        held.append(overlaps(difference(sampled[0], sampled[1], spread), 0, 0))
    assert 0.93 <= np.mean(held) <= 0.99


def test_one_seed_tells_nothing_about_others() -> None:
    one = [np.array([[0.1, 0.2, 0.3]])] * 3
    assert pooled_spread(one) == SeedSpread(0.0, 0)
    assert mean(one[0], SeedSpread(0.0, 0)).value == pytest.approx(0.2)


@given(st.floats(-2, 2), st.floats(0.1, 10))
def test_a_power_law_is_found(exponent: float, factor: float) -> None:
    sizes = [1e6, 1e7, 1e8, 1e9]
    found = power_law(sizes, [factor * size**exponent for size in sizes])
    assert found == pytest.approx((exponent,) * 3, abs=1e-9)
    assert power_law([1, 2], [2, 1]).value is None


def test_the_interval_of_an_exponent_is_that_of_four_points() -> None:
    random, sizes = np.random.default_rng(0), np.array([1.0, 10, 100, 1000])
    held = [
        overlaps(power_law(sizes, sizes**-0.1 * np.exp(random.normal(0, 0.05, 4))), -0.1, -0.1)
        for _ in range(1000)
    ]
    assert 0.93 <= np.mean(held) <= 0.97
