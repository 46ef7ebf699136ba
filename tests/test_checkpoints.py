"""Checkpoints: every bit comes back, old ones are removed, those of other models are refused."""

import errno
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from arithmetext.errors import InputError
from arithmetext.models.gpt import GPT, GPTConfig
from arithmetext.training import checkpoints
from arithmetext.training.checkpoints import State, Writer, load_weights, steps
from arithmetext.training.config import TrainingConfig
from arithmetext.training.optimizers import make_optimizers
from checkpoint_cases import FILES, FIRST, SECOND, Trained, contents, drafts, with_digest
from test_files import assert_synced, recorded

each_optimizer = pytest.mark.parametrize("optimizer", ["adamw", "muon"])


# Save and restore


@each_optimizer
@pytest.mark.parametrize(
    "state",
    [
        State(),
        State(step=123, seconds=0.1 + 0.2, best=1 / 3, best_step=23, intervals_since=4),
        State(step=99_999_999, seconds=1e9, best=5e-324, best_step=99_999_999, finished=True),
        State(step=123_456_789, best=float("inf")),
    ],
)
def test_every_bit_comes_back(tmp_path: Path, optimizer: str, state: State) -> None:
    ours = Trained(optimizer, count=3)
    kept = ours.bits()
    names = {name.rpartition("/")[2] for name in kept if not name.startswith("model/")}
    assert names == {"step", "exp_avg", "exp_avg_sq"} | (
        {"momentum"} if optimizer == "muon" else set()
    )
    ours.save(tmp_path, state)
    assert ours.bits() == kept
    again = Trained(optimizer, seed=1, count=1)
    assert again.bits() != kept
    restored = again.restore(tmp_path)
    assert restored == state
    assert {k: type(v) for k, v in asdict(restored).items()} == {
        k: type(v) for k, v in asdict(state).items()
    }
    assert again.bits() == kept
    # A run that goes on and one that was never stopped are the same.
    again.count = ours.count
    for trained in (ours, again):
        trained.train(3)
    assert again.bits() == ours.bits() != kept


@each_optimizer
def test_before_the_first_step(tmp_path: Path, optimizer: str) -> None:
    ours = Trained(optimizer)
    ours.save(tmp_path, State())
    again = Trained(optimizer, seed=1)
    assert again.restore(tmp_path) == State()
    assert again.bits() == ours.bits()


def test_nothing_to_restore(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained = Trained(count=1)
    kept = trained.bits()
    for folder in (tmp_path, tmp_path / "missing"):
        assert steps(folder) == []
        assert trained.restore(folder) == State()
    assert trained.bits() == kept
    assert capsys.readouterr() == ("", "")


def test_what_was_restored_is_no_longer_the_file_s(tmp_path: Path) -> None:
    trained = Trained(count=1)
    trained.save(tmp_path, State(step=1))
    before = contents(tmp_path)
    trained.restore(tmp_path)
    trained.train(2)
    assert contents(tmp_path) == before


def test_the_weights_alone(
    two_checkpoints: tuple[Path, Any, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, first, second = two_checkpoints
    for step, bits in ((100, first), (200, second)):
        trained = Trained(seed=1)
        load_weights(folder, step, trained.model)
        expected = {name: value for name, value in bits.items() if name.startswith("model/")}
        assert trained.bits() == expected
    assert capsys.readouterr().err == ""


@each_optimizer
def test_checkpoints_with_older_names_of_parameters(tmp_path: Path, optimizer: str) -> None:
    ours = Trained(optimizer, count=1)
    ours.save(tmp_path, FIRST)
    path = tmp_path / "00000100"
    for file in FILES[:2]:
        tensors = {
            name.replace("mlp_up", "widen").replace("mlp_down", "narrow"): tensor
            for name, tensor in load_file(path / file).items()
        }
        assert any(".widen." in name for name in tensors)
        save_file(tensors, path / file)
    (path / "state.json").write_bytes(with_digest(path, asdict(FIRST)))
    again = Trained(optimizer, seed=1)
    assert again.restore(tmp_path) == FIRST
    assert again.bits() == ours.bits()
    weights = Trained(optimizer, seed=1)
    load_weights(tmp_path, 100, weights.model)
    assert weights.model.state_dict().keys() == ours.model.state_dict().keys()


# Which are kept


def test_two_and_the_best_are_kept(tmp_path: Path) -> None:
    """And the best that the older of the two knows: should the newer be damaged, it is needed."""
    trained = Trained(count=1)
    kept = []
    for step, best in ((1, 1), (2, 1), (3, 1), (4, 1), (5, 5), (6, 5), (7, 5), (8, 5), (9, 9)):
        trained.save(tmp_path, State(step=step, best=1.0, best_step=best))
        kept.append(steps(tmp_path))
        assert drafts(tmp_path) == []
    assert kept[:4] == [[1], [1, 2], [1, 2, 3], [1, 3, 4]]
    assert kept[4:] == [[1, 4, 5], [5, 6], [5, 6, 7], [5, 7, 8], [5, 8, 9]]
    assert {path.name for path in (tmp_path / "00000009").iterdir()} == set(FILES)


def test_steps_are_numbers(tmp_path: Path) -> None:
    trained = Trained(count=1)
    trained.save(tmp_path, State(step=99_999_999))
    trained.save(tmp_path, State(step=100_000_000))
    assert steps(tmp_path) == [99_999_999, 100_000_000]
    (tmp_path / "00000003.bak").mkdir()
    (tmp_path / "notes").mkdir()
    assert trained.restore(tmp_path).step == 100_000_000


def test_other_names_are_not_steps(copied: Path) -> None:
    for name in ("7", "200", "000000200", "0000000²", "0000000٣", "9" * 200):
        (copied / name).mkdir()
    assert steps(copied) == [100, 200, int("9" * 200)]


def test_drafts_are_ignored_and_replaced(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that was killed while it wrote a checkpoint leaves a part of it."""
    draft = copied / ".00000300.part"
    draft.mkdir()
    (draft / "model.safetensors").write_bytes(b"half of it")
    (draft / "what is this").write_bytes(b"")
    trained = Trained(seed=1)
    assert steps(copied) == [100, 200]
    assert trained.restore(copied) == SECOND
    trained.train(1)
    trained.save(copied, State(step=300, best=1.5, best_step=100))
    assert drafts(copied) == []
    assert {path.name for path in (copied / "00000300").iterdir()} == set(FILES)
    again = Trained(seed=2)
    assert again.restore(copied).step == 300
    assert again.bits() == trained.bits()
    assert capsys.readouterr() == ("", "")


# Written in the background


@contextmanager
def stalled_disk(monkeypatch: pytest.MonkeyPatch, error: Exception | None = None) -> Iterator[Any]:
    """Files are written only after the event that this gives is set, or not at all."""
    ready = threading.Event()

    def slow_save_file(tensors: Any, path: Path) -> None:
        assert ready.wait(30)
        if error is not None:
            raise error
        save_file(tensors, path)

    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "save_file", slow_save_file)
        yield ready


@each_optimizer
def test_training_goes_on_while_a_checkpoint_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimizer: str
) -> None:
    """The checkpoint has the weights and the state of its own step."""
    ours = Trained(optimizer, count=3)
    kept, state = ours.bits(), replace(FIRST)
    with stalled_disk(monkeypatch) as ready, Writer(tmp_path) as writer:
        writer.save(ours.model, ours.optimizers, state)
        ours.train(2)
        state.step, state.finished = 102, True
        writer.raise_error()  # there is none so far
        assert steps(tmp_path) == []
        ready.set()
        writer.wait()
        assert steps(tmp_path) == [100]
    again = Trained(optimizer, seed=1)
    assert again.restore(tmp_path) == FIRST
    assert again.bits() == kept != ours.bits()


def test_checkpoints_are_written_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Trained(count=1)
    with stalled_disk(monkeypatch) as ready, Writer(tmp_path) as writer:
        writer.save(ours.model, ours.optimizers, FIRST)
        threading.Timer(0.1, ready.set).start()
        writer.save(ours.model, ours.optimizers, SECOND)
        assert 100 in steps(tmp_path)
    assert steps(tmp_path) == [100, 200]


def test_an_interrupted_run_finishes_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = Trained(count=1)
    with (
        pytest.raises(KeyboardInterrupt),
        stalled_disk(monkeypatch) as ready,
        Writer(tmp_path) as writer,
    ):
        writer.save(ours.model, ours.optimizers, FIRST)
        ready.set()
        raise KeyboardInterrupt
    assert steps(tmp_path) == [100]
    assert drafts(tmp_path) == []


@pytest.mark.parametrize("call", ["raise_error", "wait", "save", "end"])
def test_an_error_in_the_background_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    ours = Trained(count=1)
    full = OSError(errno.ENOSPC, "No space left on device")

    def failing() -> None:
        with stalled_disk(monkeypatch, full) as ready, Writer(tmp_path) as writer:
            writer.save(ours.model, ours.optimizers, FIRST)
            ready.set()
            while call == "raise_error":
                writer.raise_error()
            if call == "wait":
                writer.wait()
            if call == "save":
                writer.save(ours.model, ours.optimizers, SECOND)
            assert call == "end"

    with pytest.raises(InputError, match=r"cannot write the checkpoint .*No space left on device"):
        failing()
    assert steps(tmp_path) == drafts(tmp_path) == []


# Another model


def test_a_checkpoint_of_another_model_or_optimizer_is_refused(copied: Path) -> None:
    """It is whole, so it is not passed over: config.json is not the one it was written with."""
    for other in (
        GPT(GPTConfig(layers=2, heads=1, context=8), vocabulary=7, causal=True),
        GPT(GPTConfig(layers=1, heads=2, context=8), vocabulary=7, causal=True),
        GPT(GPTConfig(layers=1, heads=1, context=9), vocabulary=7, causal=True),
        GPT(GPTConfig(layers=1, heads=1, context=8), vocabulary=8, causal=False),
        GPT(GPTConfig(layers=1, heads=1, context=8, positions="rotary"), vocabulary=7, causal=True),
    ):
        trained = Trained()
        trained.model = other
        trained.optimizers = make_optimizers(other, TrainingConfig(steps=10, batch=8))
        kept = trained.bits()
        with pytest.raises(InputError, match=rf"^{copied / '00000200'} does not fit config.json"):
            trained.restore(copied)
        with pytest.raises(InputError, match=rf"^{copied / '00000200'} does not fit config.json"):
            load_weights(copied, 200, other)
        assert trained.bits() == kept
    with pytest.raises(InputError, match=r"config.json: .*/exp_avg is missing in the checkpoint"):
        Trained("adamw").restore(copied)


def test_a_checkpoint_is_on_disk_before_it_has_its_name(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recorded(monkeypatch) as log:
        Trained(count=1).save(copied, State(step=300))
    assert assert_synced(log) == ["00000300"]
    [files] = [inodes for event, inodes, _ in log if event == "rename"]
    assert len(files) == len(FILES) + 1
