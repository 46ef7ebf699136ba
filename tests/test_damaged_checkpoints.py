"""Damaged checkpoints: any damage is noticed, and the checkpoint before is used."""

import io
import json
import os
import shutil
from collections.abc import Callable
from contextlib import redirect_stderr
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arithmetext.errors import InputError
from arithmetext.training.checkpoints import State, load_weights, steps
from checkpoint_cases import FILES, FIRST, SECOND, Trained, with_digest

each_file = pytest.mark.parametrize("file", FILES)


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
    two_checkpoints: tuple[Path, Any, Any],
    copied: Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    damage: Damage,
) -> None:
    damage(copied / "00000200" / file)
    trained = Trained(seed=1, count=1)
    assert trained.restore(copied) == FIRST
    assert trained.bits() == two_checkpoints[1]
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"nt: {copied / '00000200'} is damaged (")
    assert err.count("\n") == 1


@each_file
@each_damage
def test_lost_weights_are_reported(copied: Path, file: str, damage: Damage) -> None:
    damage(copied / "00000200" / file)
    trained = Trained(seed=1)
    kept = trained.bits()
    with pytest.raises(
        InputError, match=rf"^{copied / '00000200'} is damaged \(.*weights are lost$"
    ):
        load_weights(copied, 200, trained.model)
    assert trained.bits() == kept


@each_file
def test_all_are_damaged(copied: Path, capsys: pytest.CaptureFixture[str], file: str) -> None:
    for step in ("00000100", "00000200"):
        truncated(copied / step / file)
    trained = Trained(seed=1)
    kept = trained.bits()
    assert trained.restore(copied) == State()
    assert trained.bits() == kept
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(" is damaged")[0] for line in lines] == [
        f"nt: {copied / step}" for step in ("00000200", "00000100")
    ]


def test_a_damaged_one_is_replaced(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copied / "00000200" / "model.safetensors").unlink()
    (copied / "00000200" / "rubbish").write_text("")
    trained = Trained(seed=1)
    assert trained.restore(copied) == FIRST
    capsys.readouterr()
    trained.train(1)
    trained.save(copied, SECOND)
    assert {path.name for path in (copied / "00000200").iterdir()} == set(FILES)
    again = Trained(seed=2)
    assert again.restore(copied) == SECOND
    assert again.bits() == trained.bits()
    assert capsys.readouterr().err == ""


def test_damaged_ones_do_not_drive_out_new_ones(copied: Path) -> None:
    for step in ("00000100", "00000200"):
        (copied / step / "model.safetensors").unlink()
    trained = Trained(seed=1)
    assert trained.restore(copied) == State()  # all over again
    for step in (50, 75):
        trained.train(1)
        trained.save(copied, State(step=step, best=1.0, best_step=50))
    again = Trained(seed=2)
    assert again.restore(copied).step == 75
    assert again.bits() == trained.bits()


def test_a_file_in_the_place_of_a_checkpoint(
    copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied / "00000300").write_text("")
    assert Trained(seed=1).restore(copied) == SECOND
    assert f"{copied / '00000300'} is damaged" in capsys.readouterr().err


# Any content


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
def test_any_altered_byte_is_noticed(two_checkpoints: Any, file: str, data: st.DataObject) -> None:
    path = two_checkpoints[0] / "00000200" / file
    content = bytearray(path.read_bytes())
    # The first thousand bytes hold what the tensors are, and more of them are drawn.
    limit = data.draw(st.sampled_from([1000, len(content)]))
    place = data.draw(st.integers(0, min(limit, len(content)) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    judge(path, bytes(content))


@each_file
@settings(max_examples=30)
@given(st.data())
def test_any_missing_end_is_noticed(two_checkpoints: Any, file: str, data: st.DataObject) -> None:
    path = two_checkpoints[0] / "00000200" / file
    content = path.read_bytes()
    judge(path, content[: data.draw(st.integers(0, len(content) - 1))])


@pytest.mark.parametrize("field", asdict(SECOND))
def test_the_state_is_part_of_the_digest(two_checkpoints: Any, field: str) -> None:
    path = two_checkpoints[0] / "00000200" / "state.json"
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
def test_a_state_of_another_kind(two_checkpoints: Any, content: str) -> None:
    state, said = restored_with(two_checkpoints[0] / "00000200" / "state.json", content.encode())
    assert (state, said.count("is damaged")) == (FIRST, 1)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=100)
@given(st.sampled_from([*asdict(SECOND), "state", "digest", None]), anything)
def test_a_state_that_says_anything(two_checkpoints: Any, field: str | None, value: Any) -> None:
    """With the right digest; what is restored has fields of the right types, and the right step."""
    path = two_checkpoints[0] / "00000200"
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
    copied: Path, capsys: pytest.CaptureFixture[str], deep: str
) -> None:
    """It is damage like any other, also when older checkpoints are tidied away."""
    (copied / "00000200" / "state.json").write_text(deep * 100_000)
    trained = Trained(seed=1)
    assert trained.restore(copied) == FIRST
    assert capsys.readouterr().err.startswith(f"nt: {copied / '00000200'} is damaged (")
    trained.save(copied, State(step=300, best=1.0, best_step=300))
    assert steps(copied) == [200, 300]
    with pytest.raises(InputError, match="its weights are lost"):
        load_weights(copied, 200, trained.model)
