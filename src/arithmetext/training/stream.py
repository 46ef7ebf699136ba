"""The batches that a training run reads, made in background threads.

A batch consists of random windows of the training ranges (`tokens.windows`). Window k of batch i is
a pure function of (seed, i, k), so each process makes its own part of a batch (`ProcessBatches`),
and runs with the same seed read the same text on any number of devices.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..text.splits import Range
from ..text.windows import TRAIN, VALIDATION, generator
from ..tokens import Tokenizer
from ..tokens.windows import LongIds, TokenWindows
from .config import MASK_SHARE, PREDICTED_SHARE, REPLACED_SHARE, Config

T = TypeVar("T")

THREADS = 2  # each makes two million tokens a second; a third would slow down the training


class Batch(NamedTuple):
    """The inputs and the targets of a model, as token ids."""

    inputs: Tensor  # [windows, context]
    targets: Tensor  # [windows, predicted]
    chosen: Tensor | None  # [windows, predicted], positions of the targets; None: all positions
    words: int  # words that end in the targets

    def pinned(self) -> "Batch":
        """The batch in page-locked memory, which a GPU copies from without waiting."""
        return self._each(Tensor.pin_memory)

    def to(self, device: torch.device) -> "Batch":
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def _each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        chosen = None if self.chosen is None else change(self.chosen)
        return Batch(change(self.inputs), change(self.targets), chosen, self.words)


class Stream:
    """Batches from one set of ranges; `purpose` gives training and validation their own windows."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        ranges: Sequence[Range],
        *,
        task: Literal["ntp", "mlm"],
        context: int,
        seed: int,
        purpose: int,
        predicted: float = PREDICTED_SHARE,
        backward: bool = False,
    ) -> None:
        self.tokenizer, self.task, self.seed, self.purpose = tokenizer, task, seed, purpose
        self.predicted = predicted_count(predicted, context)
        try:
            self.windows = TokenWindows(tokenizer, ranges, context + 1, backward=backward)
        except InputError as error:
            raise InputError(f"{error}: raise n or lower model.context") from None

    def batch(self, i: int, windows: range) -> Batch:
        """Batch i, or the part of it that has these window numbers."""
        return self._masked(i, windows) if self.task == "mlm" else self._next(i, windows)

    def random(self, i: int, k: int) -> np.random.Generator:
        """The random numbers for window k of batch i."""
        return generator(self.seed, self.purpose, i, k)

    def _next(self, i: int, windows: range) -> Batch:
        ids = np.stack([self.windows.draw(self.random(i, k)) for k in windows])
        return self._batch(ids[:, :-1], ids[:, 1:], None)

    def _masked(self, i: int, windows: range) -> Batch:
        rows = []
        for k in windows:
            random = self.random(i, k)
            ids = self.windows.draw(random)[:-1]
            rows.append(mask(ids, self.tokenizer.size, self.predicted, random))
        inputs, targets, chosen = map(np.stack, zip(*rows, strict=True))
        return self._batch(inputs, targets, chosen)

    def _batch(self, inputs: LongIds, targets: LongIds, chosen: LongIds | None) -> Batch:
        def tensor(ids: LongIds) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(ids))

        words = int(self.tokenizer.words_ended[targets].sum())
        return Batch(
            tensor(inputs), tensor(targets), None if chosen is None else tensor(chosen), words
        )


class ProcessBatches:
    """The batches of process number `rank` of `processes`: its part of training and validation."""

    def __init__(self, config: Config, tokenizer: Tokenizer, rank: int, processes: int) -> None:
        self.tokenizer = tokenizer
        self.micro, self.accumulation = micro_batches(config, processes)
        self.first_window = rank * self.micro * self.accumulation  # of this process in each batch
        self.steps = config.training.steps
        stream = partial(
            Stream,
            tokenizer,
            task=config.task,
            context=config.model.context,
            seed=config.seed,
            predicted=config.training.predicted,
            backward=config.direction == "backward",
        )
        self.stream = stream(config.text.train, purpose=TRAIN)
        held_out = stream(config.text.validation, purpose=VALIDATION)
        own = range(rank, config.training.validation // config.model.context, processes)
        self.validation = [
            held_out.batch(0, own[i : i + self.micro]) for i in range(0, len(own), self.micro)
        ]

    def parts(self, step: int) -> Generator[Batch, None, None]:
        """The micro-batches from this step on; `accumulation` of them make a step."""
        pinned = torch.cuda.is_available()

        def make(part: int) -> Batch:
            i, a = divmod(part, self.accumulation)
            begin = self.first_window + a * self.micro
            batch = self.stream.batch(i, range(begin, begin + self.micro))
            return batch.pinned() if pinned else batch

        indices = range(step * self.accumulation, self.steps * self.accumulation)
        return prefetch(make, indices, threads=THREADS)


def micro_batches(config: Config, processes: int) -> tuple[int, int]:
    """Windows in a micro-batch, and micro-batches that a process accumulates in a step."""
    windows, left = divmod(config.windows_per_batch, processes)
    if left or not windows:
        raise InputError(
            f"training.batch = {config.training.batch} tokens are"
            f" {config.windows_per_batch} windows,"
            f" which {processes} processes cannot share evenly"
        )
    most = config.training.device_batch // config.model.context
    at_once = next(w for w in range(min(windows, most), 0, -1) if windows % w == 0)
    return at_once, windows // at_once


def predicted_count(share: float, length: int) -> int:
    """How many positions of a window are predicted in masked modelling."""
    return max(1, round(share * length))


def mask(
    ids: LongIds, size: int, count: int, random: np.random.Generator
) -> tuple[LongIds, LongIds, LongIds]:
    """Mask `count` tokens of a window; `size` is D, the id of the mask token.

    Returns the altered ids, [context], the true ids at the chosen positions, [predicted], and these
    positions, [predicted].
    """
    chosen = np.sort(random.choice(len(ids), count, replace=False))
    originals = ids[chosen]
    # One of the other D - 1 tokens, each equally likely: add a random number from 1 to D - 1,
    # modulo D.
    others = (originals + random.integers(1, size, count)) % size
    fate = random.random(count)
    altered = ids.copy()
    altered[chosen] = np.select(
        [fate < MASK_SHARE, fate < MASK_SHARE + REPLACED_SHARE], [size, others], originals
    )
    return altered, originals, chosen


def prefetch(make: Callable[[int], T], indices: range, *, threads: int) -> Generator[T, None, None]:
    """make(i) for each index, in order; background threads run a few indices ahead."""
    pool = ThreadPoolExecutor(threads, thread_name_prefix="stream")
    coming: deque[Future[T]] = deque()
    try:
        left = iter(indices)
        for i in left:
            coming.append(pool.submit(make, i))
            if len(coming) > 2 * threads:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
