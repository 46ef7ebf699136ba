"""Checkpoints on a full disk: one line, and nothing is lost."""

import errno
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

from arithmetext.errors import InputError
from arithmetext.training import checkpoints
from arithmetext.training.checkpoints import State, steps
from checkpoint_cases import FILES, FIRST, SECOND, Trained, contents, drafts
from tiny_runs import PROCESSES

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
    copied: Path,
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
        assert_refused(copied, lambda: trained.save(copied, state), "step 200")
        new = tmp_path / "runs" / "new"
        assert_refused(new, lambda: trained.save(new, state), "the beginning")
    assert len(written) == 2 * (whole_files + 1)
    assert Trained(seed=1).restore(copied) == SECOND
    trained.save(copied, state)
    assert steps(copied) == [100, 200, 300]


def test_a_disk_that_is_full_at_the_last_file(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path, *_: Any, **__: Any) -> int:
        path.write_bytes(b"{")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", fails)
        trained = Trained(count=1)
        assert_refused(copied, lambda: trained.save(copied, State(step=300)), "step 200")


def test_a_place_where_no_folder_can_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make the folder"):
        Trained().save(tmp_path / "file" / "checkpoints", State(step=1))


def limited(folder: Path) -> list[str]:
    """Save with less and less room for a file, and return what is said."""
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
    return said


def test_no_room_for_a_file(tmp_path: Path) -> None:
    """The operating system refuses to write on, as it does on a full disk."""
    pytest.importorskip("resource")
    folder = tmp_path / "checkpoints"
    with PROCESSES.Pool(1) as pool:
        said = pool.apply(limited, (folder,))
    assert len(said) == 5
    for message in said:
        assert message.startswith(f"cannot write the checkpoint {folder / '00000200'}: ")
        assert "File too large" in message
        assert message.endswith("; make room, then --resume goes on from step 100")
        assert "\n" not in message
    trained = Trained("adamw", seed=1)
    assert trained.restore(folder) == FIRST
    assert trained.bits() == Trained("adamw", count=1).bits()
