"""The processes of a run, and the device of each."""

import atexit
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from platform import platform, python_version
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from ..files import sole_writer
from ..memory import machine_memory
from ..version import __version__

T = TypeVar("T")

# Dense bfloat16 operations per second, from the makers' data sheets.
PEAKS = {
    "H200": 989e12,
    "H100": 989e12,
    "H800": 989e12,
    "GH200": 989e12,
    "B200": 2250e12,
    "A100": 312e12,
    "A800": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "RTX 4090": 165e12,
    "RTX 3090": 71e12,
}


@dataclass(frozen=True)
class World:
    """This process among the processes that train together."""

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        return self.rank == 0

    @property
    def bf16(self) -> bool:
        return self.device.type == "cuda" and torch.cuda.is_bf16_supported(False)

    def precision(self) -> AbstractContextManager[Any]:
        """bfloat16 on GPUs that support it, float32 elsewhere."""
        return torch.autocast("cuda", torch.bfloat16) if self.bf16 else nullcontext()

    @property
    def name(self) -> str:
        return torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"

    @property
    def memory(self) -> float:
        """Bytes of memory of the device; infinite if unknown."""
        if self.device.type == "cuda":
            return float(torch.cuda.get_device_properties(self.device).total_memory)
        return machine_memory()

    @property
    def peak(self) -> float | None:
        """Peak bfloat16 operations per second of the device; None if unknown."""
        rates = [rate for gpu, rate in PEAKS.items() if gpu in self.name.split("/")[0]]
        return max(rates) if rates and self.bf16 else None

    def sum(self, values: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.size > 1:
            dist.all_reduce(values)
        return values

    def wait(self) -> None:
        if self.size > 1:
            dist.barrier()

    def from_first(self, make: Callable[[], T]) -> T:
        """Call `make` in the first process only; every process gets its result or its exception.

        So only the first process needs access to the folder of the run.
        """
        if self.size == 1:
            return make()
        answer: list[Any] = [None, None]
        if self.first:
            try:
                answer[0] = make()
            except Exception as error:  # or the other processes would wait forever
                answer[1] = error
        dist.broadcast_object_list(answer, 0)
        if answer[1] is not None:
            raise answer[1]
        result: T = answer[0]
        return result

    @contextmanager
    def sole_writers(self, folder: Path, *, wait: bool) -> Iterator[None]:
        """The first process locks the folder; if it is refused, all processes raise an error."""
        with ExitStack() as lock:
            self.from_first(lambda: lock.enter_context(sole_writer(folder, wait=wait)))
            yield


@contextmanager
def world() -> Iterator[World]:
    """This process alone, or among the processes that torchrun started."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    gpu = torch.cuda.is_available()
    device = torch.device(f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if gpu else "cpu")
    if gpu:
        torch.cuda.set_device(device)
        torch.set_float32_matmul_precision("high")
    if size == 1:
        yield World(0, 1, device)
        return
    if not dist.is_initialized():  # a learning-rate search trains several times
        dist.init_process_group("nccl" if gpu else "gloo")
        atexit.register(dist.destroy_process_group)
    yield World(dist.get_rank(), size, device)


def environment(world: World) -> dict[str, Any]:
    """The environment of a run: versions, commit, device."""
    return {
        "arithmetext": __version__,
        "commit": _commit(),
        "python": python_version(),
        "torch": torch.__version__,
        "platform": platform(),
        "device": world.name,
        "processes": world.size,
        "threads": torch.get_num_threads(),
        "precision": "bfloat16" if world.bf16 else "float32",
    }


def _commit() -> str | None:
    """The commit of the source; None if it is not a git checkout."""
    try:
        answer = subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=Path(__file__).parent,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()
