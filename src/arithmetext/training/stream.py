"""The batches that a training run reads, made in background threads.

A batch consists of random windows of the training ranges (`tokens.windows`). Window k of batch i is
a pure function of (seed, i, k), so each process makes its own part of a batch (`ProcessBatches`),
and runs with the same seed read the same text on any number of devices.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..compiled import kernel
from ..errors import InputError
from ..text.philox import below, choose, philox, uniform
from ..text.splits import Range
from ..text.windows import TRAIN, VALIDATION
from ..tokens import Tokenizer
from ..tokens.windows import ENCODER_WARMUP, LongIds, TokenWindows
from .config import DECADES, MASK_SHARE, PREDICTED_SHARE, REPLACED_SHARE, Config

T = TypeVar("T")

THREADS = 2  # each makes 6 to 37 million tokens a second near 10^10, more than a GPU reads


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
        surrogate: int | None = None,
        log_share: float = 0.0,
    ) -> None:
        self.log_share = log_share
        self.tokenizer, self.task, self.seed, self.purpose = tokenizer, task, seed, purpose
        self.context, self.predicted = context, predicted_count(predicted, context)
        try:
            self.windows = TokenWindows(
                tokenizer, ranges, context + 1, backward=backward, surrogate=surrogate
            )
        except InputError as error:
            raise InputError(f"{error}: raise n or lower model.context") from None

    def batch(self, i: int, windows: range) -> Batch:
        """Batch i, or the part of it that has these window numbers.

        A few kernels make the whole batch without the GIL, so the thread that trains hardly waits
        for this one.
        """
        masked = self.task == "mlm"
        indices = np.empty(len(windows), np.int64)
        numbers = np.array(windows, np.uint64)
        masks = Masks.empty(len(windows), self.predicted if masked else 0)
        size, key = self.tokenizer.size, (np.uint64(self.seed), np.uint64(self.purpose))
        count, share = self.windows.count, self.log_share
        _draw(*key, np.uint64(i), numbers, count, share, self.context, size, indices, masks)
        starts = [self.windows.start(index) for index in indices.tolist()]
        ids = self.windows.with_warmup(starts)[:, ENCODER_WARMUP:]
        if masked:
            return self._batch(*mask(ids[:, :-1], size, masks))
        return self._batch(ids[:, :-1], ids[:, 1:], None)

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
            surrogate=config.surrogate,
        )
        self.stream = stream(config.text.train, purpose=TRAIN, log_share=config.training.log_share)
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


class Masks(NamedTuple):
    """Random numbers that decide what happens to windows, each [windows, predicted]."""

    chosen: LongIds  # positions, in increasing order
    shifts: LongIds  # from 1 to D - 1: how far a replaced token is from the true one, modulo D
    fates: NDArray[np.float64]  # from 0 to 1: masked, replaced or kept

    @classmethod
    def empty(cls, windows: int, predicted: int) -> "Masks":
        shape = windows, predicted
        return cls(np.empty(shape, np.int64), np.empty(shape, np.int64), np.empty(shape))


@kernel
def _draw(
    seed: Any,
    purpose: Any,
    i: Any,
    windows: Any,
    count: Any,
    log_share: Any,
    context: Any,
    size: Any,
    indices: Any,
    masks: Any,
) -> Any:
    """Draw the index, below `count`, of each of these windows of batch i, and its masks.

    A `log_share` of the windows is drawn evenly in the logarithm of the index.

    The random numbers of a window are those of `text.windows.generator`, in a fixed order.
    """
    predicted = masks.chosen.shape[1]
    for row in range(len(windows)):
        state = philox(seed, purpose, i, windows[row])
        if log_share and uniform(state) < log_share:  # windows are numbered in order of n
            indices[row] = min(count - 1, np.int64(count * 10.0 ** (-DECADES * uniform(state))))
        else:
            indices[row] = below(state, count)
        if predicted:
            choose(state, context, masks.chosen[row])
            for j in range(predicted):
                masks.shifts[row, j] = 1 + below(state, size - 1)
            for j in range(predicted):
                masks.fates[row, j] = uniform(state)


def mask(ids: LongIds, size: int, masks: Masks) -> tuple[LongIds, LongIds, LongIds]:
    """Mask tokens of windows, [windows, context]; `size` is D, the id of the mask token.

    Returns the altered ids, [windows, context], the true ids at the chosen positions, [windows,
    predicted], and these positions, [windows, predicted].
    """
    originals = np.take_along_axis(ids, masks.chosen, axis=1)
    others = (originals + masks.shifts) % size  # each of the other D - 1 tokens is equally likely
    new = np.where(masks.fates < MASK_SHARE + REPLACED_SHARE, others, originals)
    altered = ids.copy()
    np.put_along_axis(altered, masks.chosen, np.where(masks.fates < MASK_SHARE, size, new), axis=1)
    return altered, originals, masks.chosen


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
