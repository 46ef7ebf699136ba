"""Checkpoints: they bring back every bit, and whatever is wrong with one is noticed."""

import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from arithmetext.errors import InputError
from arithmetext.models.gpt import GPT, GPTConfig
from arithmetext.training import checkpoints
from arithmetext.training.checkpoints import State, load_weights, newest, restore, save, steps
from arithmetext.training.config import TrainingConfig
from arithmetext.training.optimizers import make_optimizers
from test_files import assert_synced, recorded

FILES = ("model.safetensors", "optimizer.safetensors", "state.json")
each_optimizer = pytest.mark.parametrize("optimizer", ["adamw", "muon"])
each_file = pytest.mark.parametrize("file", FILES)


class Trained:
    """A model and its optimizers after some steps; every state is away from where it began."""

    def __init__(self, optimizer: Any = "muon", *, seed: int = 0, count: int = 0) -> None:
        torch.manual_seed(seed)
        config = GPTConfig(layers=1, heads=1, context=8)
        self.model = GPT(config, vocabulary=7, causal=True)
        training = TrainingConfig(steps=10, batch=8, optimizer=optimizer, lr=0.01)
        self.optimizers: Sequence[torch.optim.Optimizer] = make_optimizers(self.model, training)
        self.count = 0
        self.train(count)

    def train(self, count: int) -> None:
        for _ in range(count):
            self.count += 1
            generator = torch.Generator().manual_seed(self.count)
            for p in self.model.parameters():
                p.grad = torch.randn(p.shape, generator=generator)
            for optimizer in self.optimizers:
                optimizer.step()

    def save(self, folder: Path, state: State) -> None:
        save(folder, self.model, self.optimizers, state)

    def restore(self, folder: Path) -> State:
        return restore(newest(folder), self.model, self.optimizers)

    def bits(self) -> dict[str, Any]:
        """All there is to it."""
        names = {p: name for name, p in self.model.named_parameters()}
        tensors = {f"model/{name}": t for name, t in self.model.state_dict().items()}
        for number, optimizer in enumerate(self.optimizers):
            for p, values in optimizer.state.items():
                for quantity, value in values.items():
                    tensors[f"{number}/{names[p]}/{quantity}"] = value
        return {
            name: (t.dtype, tuple(t.shape), t.detach().numpy().tobytes())
            for name, t in tensors.items()
        }


def drafts(folder: Path) -> list[str]:
    """What is there besides whole checkpoints."""
    return [path.name for path in folder.iterdir() if not path.name.isdigit()]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


FIRST = State(step=100, seconds=1.25, best=2.5, best_step=100)
SECOND = State(step=200, seconds=1 / 3, best=1.5, best_step=100, intervals_since=1)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any], dict[str, Any]]:
    """The folder of two checkpoints, and the bits of both."""
    folder = tmp_path_factory.mktemp("two") / "checkpoints"
    trained = Trained(count=1)
    trained.save(folder, FIRST)
    first = trained.bits()
    trained.train(1)
    trained.save(folder, SECOND)
    return folder, first, trained.bits()


@pytest.fixture
def copy(two: tuple[Path, Any, Any], tmp_path: Path) -> Path:
    return shutil.copytree(two[0], tmp_path / "checkpoints")


# There and back


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


def test_the_weights_alone(two: tuple[Path, Any, Any], capsys: pytest.CaptureFixture[str]) -> None:
    folder, first, second = two
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


def test_drafts_are_ignored_and_replaced(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run that was killed while it wrote a checkpoint leaves a part of it."""
    draft = copy / ".00000300.part"
    draft.mkdir()
    (draft / "model.safetensors").write_bytes(b"half of it")
    (draft / "what is this").write_bytes(b"")
    trained = Trained(seed=1)
    assert steps(copy) == [100, 200]
    assert trained.restore(copy) == SECOND
    trained.train(1)
    trained.save(copy, State(step=300, best=1.5, best_step=100))
    assert drafts(copy) == []
    assert {path.name for path in (copy / "00000300").iterdir()} == set(FILES)
    again = Trained(seed=2)
    assert again.restore(copy).step == 300
    assert again.bits() == trained.bits()
    assert capsys.readouterr() == ("", "")


def test_a_damaged_one_is_replaced(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy / "00000200" / "model.safetensors").unlink()
    (copy / "00000200" / "rubbish").write_text("")
    trained = Trained(seed=1)
    assert trained.restore(copy) == FIRST
    capsys.readouterr()
    trained.train(1)
    trained.save(copy, SECOND)
    assert {path.name for path in (copy / "00000200").iterdir()} == set(FILES)
    again = Trained(seed=2)
    assert again.restore(copy) == SECOND
    assert again.bits() == trained.bits()
    assert capsys.readouterr().err == ""


def test_damaged_ones_do_not_drive_out_new_ones(copy: Path) -> None:
    for step in ("00000100", "00000200"):
        (copy / step / "model.safetensors").unlink()
    trained = Trained(seed=1)
    assert trained.restore(copy) == State()  # all over again
    for step in (50, 75):
        trained.train(1)
        trained.save(copy, State(step=step, best=1.0, best_step=50))
    again = Trained(seed=2)
    assert again.restore(copy).step == 75
    assert again.bits() == trained.bits()


# Damage


def truncated(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


def lengthened(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\1")


def altered(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def replaced_by_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def from_another_step(path: Path) -> None:
    shutil.copy(path.parent.parent / "00000100" / path.name, path)


Damage = Callable[[Path], None]
each_damage = pytest.mark.parametrize(
    "damage",
    [truncated, emptied, lengthened, altered, Path.unlink, replaced_by_a_folder, from_another_step],
    ids=lambda damage: damage.__name__,
)


@each_file
@each_damage
def test_the_one_before_is_used(
    two: tuple[Path, Any, Any],
    copy: Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    damage: Damage,
) -> None:
    damage(copy / "00000200" / file)
    trained = Trained(seed=1, count=1)
    assert trained.restore(copy) == FIRST
    assert trained.bits() == two[1]
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"nt: {copy / '00000200'} is damaged (")
    assert err.count("\n") == 1


@each_file
@each_damage
def test_lost_weights_are_reported(copy: Path, file: str, damage: Damage) -> None:
    damage(copy / "00000200" / file)
    trained = Trained(seed=1)
    kept = trained.bits()
    with pytest.raises(InputError, match=rf"^{copy / '00000200'} is damaged \(.*weights are lost$"):
        load_weights(copy, 200, trained.model)
    assert trained.bits() == kept


@each_file
def test_all_are_damaged(copy: Path, capsys: pytest.CaptureFixture[str], file: str) -> None:
    for step in ("00000100", "00000200"):
        truncated(copy / step / file)
    trained = Trained(seed=1)
    kept = trained.bits()
    assert trained.restore(copy) == State()
    assert trained.bits() == kept
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" is damaged")[0] for line in lines] == [
        f"nt: {copy / step}" for step in ("00000200", "00000100")
    ]


def test_a_file_in_the_place_of_a_checkpoint(
    copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copy / "00000300").write_text("")
    assert Trained(seed=1).restore(copy) == SECOND
    assert f"{copy / '00000300'} is damaged" in capsys.readouterr().err


def restored_with(path: Path, content: bytes) -> tuple[State, str]:
    """What is restored, and what is said, while a file has other content."""
    original, said = path.read_bytes(), io.StringIO()
    path.write_bytes(content)
    try:
        with redirect_stderr(said):
            return Trained(seed=1).restore(path.parent.parent), said.getvalue()
    finally:
        path.write_bytes(original)


def means(content: bytes) -> Any:
    try:
        return json.loads(content)
    except ValueError:
        return None


def judge(path: Path, content: bytes) -> None:
    state, said = restored_with(path, content)
    if path.suffix == ".json" and means(content) == means(path.read_bytes()):
        assert (state, said) == (SECOND, "")  # another blank says the same
    else:
        assert state == FIRST
        assert said.startswith(f"nt: {path.parent} is damaged (")
        assert said.count("\n") == 1


@each_file
@settings(max_examples=60)
@given(st.data())
def test_any_altered_byte_is_noticed(two: Any, file: str, data: st.DataObject) -> None:
    path = two[0] / "00000200" / file
    content = bytearray(path.read_bytes())
    # The first thousand bytes hold what the tensors are, and more of them are drawn.
    limit = data.draw(st.sampled_from([1000, len(content)]))
    place = data.draw(st.integers(0, min(limit, len(content)) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    judge(path, bytes(content))


@each_file
@settings(max_examples=30)
@given(st.data())
def test_any_missing_end_is_noticed(two: Any, file: str, data: st.DataObject) -> None:
    path = two[0] / "00000200" / file
    content = path.read_bytes()
    judge(path, content[: data.draw(st.integers(0, len(content) - 1))])


@pytest.mark.parametrize("field", asdict(SECOND))
def test_the_state_is_part_of_the_digest(two: Any, field: str) -> None:
    path = two[0] / "00000200" / "state.json"
    about = json.loads(path.read_bytes())
    about["state"][field] = 7
    state, said = restored_with(path, json.dumps(about).encode())
    assert (state, said.count("is damaged")) == (FIRST, 1)
    del about["state"][field]
    state, said = restored_with(path, json.dumps(about).encode())
    assert (state, said.count("is damaged")) == (FIRST, 1)


@pytest.mark.parametrize(
    "content", ["null", "[]", "3", '{"state": 3}', '{"state": {}}', '{"digest": ""}', "{}"]
)
def test_a_state_of_another_kind(two: Any, content: str) -> None:
    state, said = restored_with(two[0] / "00000200" / "state.json", content.encode())
    assert (state, said.count("is damaged")) == (FIRST, 1)


def with_digest(path: Path, content: Any) -> bytes:
    """A state.json of this content, with the digest that it should have."""
    return json.dumps({"state": content, "digest": checkpoints._digest(path, content)}).encode()


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=100)
@given(st.sampled_from([*asdict(SECOND), "state", "digest", None]), anything)
def test_a_state_that_says_anything(two: Any, field: str | None, value: Any) -> None:
    """With the right digest; what is restored has fields of the right types, and the right step."""
    path = two[0] / "00000200"
    about = {"state": asdict(SECOND), "digest": ""}
    content = json.dumps(value).encode()
    if field in about:
        content = json.dumps(about | {field: value}).encode()
    elif field is not None:
        content = with_digest(path, asdict(SECOND) | {field: value})
    state, said = restored_with(path / "state.json", content)
    if said:
        assert (state, said.count("\n")) == (FIRST, 1)
        assert said.startswith(f"nt: {path} is damaged (")
    else:
        assert state.step == SECOND.step
        for name, was in asdict(SECOND).items():
            kinds = {type(was)} | ({float, type(None)} if name.startswith("best") else set())
            assert type(getattr(state, name)) in kinds
        assert min(state.step, state.best_step, state.intervals_since) >= 0


@pytest.mark.parametrize("deep", ["[", '{"state":', '{"state": {"step": ['], ids=len)
def test_a_state_of_deeply_nested_json(
    copy: Path, capsys: pytest.CaptureFixture[str], deep: str
) -> None:
    """It is damage like any other, also when older checkpoints are tidied away."""
    (copy / "00000200" / "state.json").write_text(deep * 100_000)
    trained = Trained(seed=1)
    assert trained.restore(copy) == FIRST
    assert capsys.readouterr().err.startswith(f"nt: {copy / '00000200'} is damaged (")
    trained.save(copy, State(step=300, best=1.0, best_step=300))
    assert steps(copy) == [200, 300]
    with pytest.raises(InputError, match="its weights are lost"):
        load_weights(copy, 200, trained.model)


def test_other_names_are_not_steps(copy: Path) -> None:
    for name in ("7", "200", "000000200", "0000000²", "0000000٣", "9" * 200):
        (copy / name).mkdir()
    assert steps(copy) == [100, 200, int("9" * 200)]


# Another model


def test_a_checkpoint_of_another_model_or_optimizer_is_refused(copy: Path) -> None:
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
        with pytest.raises(InputError, match=rf"^{copy / '00000200'} does not fit config.json"):
            trained.restore(copy)
        with pytest.raises(InputError, match=rf"^{copy / '00000200'} does not fit config.json"):
            load_weights(copy, 200, other)
        assert trained.bits() == kept
    with pytest.raises(InputError, match=r"config.json: .*/exp_avg is missing in the checkpoint"):
        Trained("adamw").restore(copy)


def test_a_checkpoint_is_on_disk_before_it_has_its_name(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with recorded(monkeypatch) as log:
        Trained(count=1).save(copy, State(step=300))
    assert assert_synced(log) == ["00000300"]
    [files] = [inodes for event, inodes, _ in log if event == "rename"]
    assert len(files) == len(FILES) + 1


# A full disk

FULL = (
    OSError(errno.ENOSPC, "No space left on device"),
    SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
)


def assert_refused(folder: Path, action: Callable[[], None], goes_on: str) -> None:
    """One line, and everything is as it was."""
    before = contents(folder) if folder.exists() else {}
    with pytest.raises(InputError) as refused:
        action()
    message = str(refused.value)
    assert message.startswith(f"cannot write the checkpoint {folder / '00000300'}: ")
    assert "No space left on device" in message
    assert message.endswith(f"make room, then --resume goes on from {goes_on}")
    assert "\n" not in message
    assert contents(folder) == before
    assert drafts(folder) == []


@pytest.mark.parametrize("error", FULL, ids=["system", "safetensors"])
@pytest.mark.parametrize("whole_files", [0, 1])
def test_a_full_disk(
    copy: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    whole_files: int,
) -> None:
    written: list[Path] = []

    def fails(tensors: Any, path: Path) -> None:
        if len(written) % (whole_files + 1) == whole_files:
            written.append(path)
            path.write_bytes(b"part of it")
            raise error
        written.append(path)
        save_file(tensors, path)

    state = State(step=300, best=1.5, best_step=300)
    trained = Trained(count=1)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "save_file", fails)
        assert_refused(copy, lambda: trained.save(copy, state), "step 200")
        new = tmp_path / "runs" / "new"
        assert_refused(new, lambda: trained.save(new, state), "the beginning")
    assert len(written) == 2 * (whole_files + 1)
    assert Trained(seed=1).restore(copy) == SECOND
    trained.save(copy, state)
    assert steps(copy) == [100, 200, 300]


def test_a_disk_that_is_full_at_the_last_file(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(path: Path, *_: Any, **__: Any) -> int:
        path.write_bytes(b"{")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", fails)
        trained = Trained(count=1)
        assert_refused(copy, lambda: trained.save(copy, State(step=300)), "step 200")


def test_a_place_where_no_folder_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make the folder"):
        Trained().save(tmp_path / "file" / "checkpoints", State(step=1))


def limited(folder: Path) -> None:
    """Save with less and less room for a file; what is said goes to standard output."""
    import resource

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    torch.set_num_threads(1)
    trained = Trained("adamw", count=1)
    trained.save(folder, FIRST)
    sizes = [(folder / "00000100" / file).stat().st_size for file in FILES[:2]]
    # The last one has room for the weights, but not for the two moments of the optimizer.
    assert sizes[0] < sizes[1] - 1
    limits = [0, 100, sizes[0] // 2, sizes[0] - 1, sizes[1] - 1]
    no_limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    said = []
    for limit in limits:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, no_limit[1]))
        try:
            trained.save(folder, SECOND)
            said.append("")
        except InputError as error:
            said.append(str(error))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, no_limit)
        assert steps(folder) == [100], limit
        assert drafts(folder) == [], limit
    print(json.dumps(said))


def test_no_room_for_a_file(tmp_path: Path) -> None:
    """The operating system refuses to write on, as it does on a full disk."""
    pytest.importorskip("resource")
    folder = tmp_path / "checkpoints"
    code = "import sys, pathlib, test_checkpoints as t; t.limited(pathlib.Path(sys.argv[1]))"
    answer = subprocess.run(
        [sys.executable, "-c", code, folder],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
    )
    assert answer.returncode == 0, answer.stderr
    said = json.loads(answer.stdout)
    assert len(said) == 5
    for message in said:
        assert message.startswith(f"cannot write the checkpoint {folder / '00000200'}: ")
        assert "File too large" in message
        assert message.endswith("; make room, then --resume goes on from step 100")
        assert "\n" not in message
    trained = Trained("adamw", seed=1)
    assert trained.restore(folder) == FIRST
    assert trained.bits() == Trained("adamw", count=1).bits()
