"""Linear probes: can n modulo m be read off a model's residual stream?

A probe is a linear classifier (linear.py) for one modulus, one layer and one range of positions. It
is fitted on windows from the training text and tested on other text. The controls share code and
tested windows with the probes:

    untrained        the same model with its initial random weights
    shuffled labels  a random integer in place of n at each token of the training windows: at chance
                     by construction, so this checks the code alone
    position         sines and cosines of the position, with the periods of all moduli
    16 tokens        which tokens the last 16 are, in order: the 32 commonest, and all others
    64 tokens        the same of the last 64: the 12 commonest, and all others
    256 tokens       the same of the last 256: the 4 commonest, and all others
    counts           how often each token is among the last 64

The last four are linear maps of the text. They have up to 1024 features, so that they need more
windows than the probes; these cost little, since no model reads them.

Layer 0 is the embedding: the token alone, and its position if positions are learned.

Whether a linear probe succeeds depends on the functions of n mod m that it is asked for. So the
regressions behind the probes are also scored on single functions: the indicators of the classes,
the Fourier modes cos and sin of 2πkn/m, and, for prime m, the characters of the multiplicative
group. The functions that are not constant have the same mean R² in every orthogonal basis, because
the regressions are linear in them. So only the spread within a basis can tell bases apart.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from math import isqrt, pi
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..progress import progress
from .activations import check_shared, labelled_windows, windows_near
from .estimates import UNKNOWN, Estimate, over_seeds_and_blocks, ratio_over_blocks
from .linear import Affine, Moments, classifier, regression
from .seeds import averaged
from .subjects import EvaluatedModel

PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61)
POWERS = (4, 8, 16, 9, 27, 25, 49)

MODEL, UNTRAINED, SHUFFLED = "model", "untrained", "shuffled labels"
POSITION, COUNTS = "position", "counts"
ORDERED = {"16 tokens": (16, 32), "64 tokens": (64, 12), "256 tokens": (256, 4)}  # with classes
SHORTEST = "16 tokens"
TOKENS = (*ORDERED, COUNTS)  # linear maps of the text
CONTROLS = (UNTRAINED, SHUFFLED, POSITION, *TOKENS)

_COUNTED = 64  # tokens

_TRAINING_SEEDS = 1000  # seeds of training windows begin here, those of test windows at 0

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ProbeSettings:
    moduli: tuple[int, ...]
    places: tuple[int, ...]
    windows: int  # that the probes of one seed are fitted on
    token_windows: int  # that the maps of the text of one seed are fitted on
    tested: int  # windows at each place
    blocks: int  # of a million integers each, that the tested windows are drawn from
    seeds: int  # sets of training windows

    def checked(self) -> "ProbeSettings":
        """The settings, if they make sense."""
        if not self.moduli or len(set(self.moduli)) < len(self.moduli):
            raise InputError("name one modulus or more, each once")
        for modulus in self.moduli:
            if not 2 <= modulus <= 1000:
                raise InputError(f"a modulus is from 2 to 1000, not {modulus}")
        check_shared(self.tested, self.blocks)
        return self


def position_ranges(context: int) -> list[tuple[int, int]]:
    """Positions that are probed together: the last half of the window, and shorter ones before.

    >>> position_ranges(1024)
    [(8, 32), (32, 128), (128, 512), (512, 1024)]
    """
    ends = [max(1, context >> shift) for shift in (7, 5, 3, 1)] + [context]
    return [(a, b) for a, b in pairwise(ends) if a < b]


class Functions(NamedTuple):
    """Functions of n mod m, some of them pairs that are scored together."""

    names: list[tuple[str, int]]  # the basis (class, frequency or character) and the index in it
    values: Floats  # [m, columns]: by class
    owners: NDArray[np.int64]  # [columns]: the function that each column belongs to


@cache
def functions(modulus: int) -> Functions:
    """The functions of n mod m that regressions are scored on.

    >>> functions(5).names[5:]
    [('frequency', 1), ('frequency', 2), ('character', 1), ('character', 2)]
    """
    n = np.arange(modulus)
    found = {("class", r): (n == r)[:, None].astype(float) for r in range(modulus)}
    for k in range(1, modulus // 2 + 1):
        found["frequency", k] = _waves(k * n / modulus)
    if modulus > 2 and _is_prime(modulus):
        logarithms = _discrete_logarithms(modulus)
        for j in range(1, (modulus - 1) // 2 + 1):
            values = _waves(j * logarithms / (modulus - 1))
            values[0] = 0  # characters vanish at the multiples of p
            found["character", j] = values
    widths = [values.shape[1] for values in found.values()]
    columns = np.concatenate(list(found.values()), 1)
    return Functions(list(found), columns, np.repeat(np.arange(len(found)), widths))


def _waves(turns: Floats) -> Floats:
    """Cosines and sines; the sines are left out if all are 0."""
    waves = np.stack([np.cos(2 * pi * turns), np.sin(2 * pi * turns)], 1)
    return waves if np.abs(waves[:, 1]).max() > 1e-9 else waves[:, :1]


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, isqrt(n) + 1))


def _discrete_logarithms(prime: int) -> Floats:
    """The logarithm of each class to the least primitive root; 0 for the class of 0."""
    for root in range(1, prime):
        powers = [pow(root, k, prime) for k in range(prime - 1)]
        if len(set(powers)) == prime - 1:
            logs = np.zeros(prime)
            logs[powers] = np.arange(prime - 1)
            return logs
    raise AssertionError(f"{prime} is no prime")


def probe_scores(model: EvaluatedModel, how: ProbeSettings) -> dict[str, NDArray[Any]]:
    """Fit all probes and test them at each place.

    "model AT": hits, [seeds, layers, ranges, moduli, windows]; each control the same, with the last
    range alone. "errors model AT", [seeds, layers, functions, blocks]: squared errors of the
    regressions in the last range; the same for the untrained model and the maps of the text.
    "variances AT", [functions, blocks]: variances of the functions.
    """
    how.checked()
    ranges = position_ranges(model.context)
    reader = _Reader(model, how.moduli)
    fitted: list[_Probes] = []
    total = how.seeds * (how.windows + how.token_windows) + len(how.places) * how.tested
    with progress("probes", total, "windows") as advance:
        for seed in range(how.seeds):
            sums = _Sums(how.moduli, ranges, seed)
            for read, number in (
                (reader.activations, how.windows),
                (reader.tokens, how.token_windows),
            ):
                windows = labelled_windows(
                    model.tokenizer,
                    [model.trained],
                    number=number,
                    length=model.context,
                    seed=_TRAINING_SEEDS + seed,
                )
                for _, batch in windows.batches():
                    sums.add(read(batch.ids), batch.integers)
                    advance(len(batch))
            fitted.append(sums.fit())
        arrays: dict[str, NDArray[Any]] = {}
        for at in how.places:
            windows = windows_near(model, at, number=how.tested, blocks=how.blocks, seed=0)
            test = _Test(how, ranges)
            for part, batch in windows.batches():
                features = reader.activations(batch.ids) | reader.tokens(batch.ids)
                for seed, probes in enumerate(fitted):
                    test.add(seed, probes, features, batch.integers, part)
                advance(len(batch))
            arrays |= {f"{name} {at}": array for name, array in test.arrays().items()}
    return arrays


class _Reader:
    """The features of windows, by source: [layers, windows, tokens, features] each."""

    def __init__(self, model: EvaluatedModel, moduli: Sequence[int]) -> None:
        self.model, self.moduli = model.model, moduli
        self.untrained = model.model.with_initial_weights(0)
        self.device = model.model.device
        self.vocabulary = model.tokenizer.size
        sample = labelled_windows(
            model.tokenizer, [model.trained], number=8, length=model.context, seed=_TRAINING_SEEDS
        )
        counts = torch.bincount(sample.ids.flatten(), minlength=self.vocabulary)
        self.ranks = counts.argsort(descending=True, stable=True).argsort()  # 0 for the commonest

    def activations(self, ids: Tensor) -> dict[str, Tensor]:
        return {
            MODEL: self.model.residual_stream(ids),
            UNTRAINED: self.untrained.residual_stream(ids),
            POSITION: self._position(ids),
        }

    def tokens(self, ids: Tensor) -> dict[str, Tensor]:
        ordered = {name: self._ordered(ids, *each) for name, each in ORDERED.items()}
        return {**ordered, COUNTS: self._counts(ids)}

    def _position(self, ids: Tensor) -> Tensor:
        turns = torch.arange(ids.shape[1])[:, None] * 2 * pi / torch.tensor(self.moduli)
        waves = torch.cat([turns.cos(), turns.sin()], 1).to(self.device)
        return waves.expand(1, *ids.shape, -1)

    def _counts(self, ids: Tensor) -> Tensor:
        before = F.one_hot(ids, self.vocabulary).cumsum(1)
        earlier = F.pad(before, (0, 0, _COUNTED, 0))[:, : ids.shape[1]]
        return (before - earlier)[None].float().to(self.device)

    def _ordered(self, ids: Tensor, length: int, classes: int) -> Tensor:
        """Which of the commonest tokens each of the last `length` is; all others are zeros."""
        tokens = F.pad(self.ranks[ids], (length - 1, 0), value=self.vocabulary).to(self.device)
        last = tokens.unfold(1, length, 1)  # [windows, tokens, length]
        features = last[..., None] == torch.arange(classes, device=self.device)
        return features.flatten(2)[None].float()


class _Sums:
    """Moments of all features, by source, range of positions and layer."""

    def __init__(self, moduli: Sequence[int], ranges: Sequence[tuple[int, int]], seed: int) -> None:
        self.moduli, self.ranges = moduli, ranges
        self.random = torch.Generator().manual_seed(seed)
        self.moments: dict[tuple[str, tuple[int, int]], list[Moments]] = {}

    def add(self, features: dict[str, Tensor], integers: Tensor) -> None:
        targets = one_hot(integers, self.moduli)
        # Not one shift for a whole window: the probe would learn the commonest shift, and be nearly
        # always right or nearly always wrong.
        anything = torch.randint(1 << 40, integers.shape, generator=self.random)
        shuffled = one_hot(anything, self.moduli)
        for source, x in features.items():
            for where in self.ranges if source == MODEL else self.ranges[-1:]:
                self._add(source, where, x, targets)
            if source == MODEL:
                self._add(SHUFFLED, self.ranges[-1], x, shuffled)

    def _add(self, source: str, where: tuple[int, int], x: Tensor, y: Tensor) -> None:
        """x: [layers, windows, tokens, features]; y: [windows, tokens, targets]."""
        part = slice(*where)
        y = y[:, part].flatten(0, 1).to(x.device).float()
        if (source, where) not in self.moments:
            self.moments[source, where] = [
                Moments(x.shape[-1], y.shape[-1], x.device) for _ in range(len(x))
            ]
        for moments, layer in zip(self.moments[source, where], x, strict=True):
            moments.add(layer[:, part].flatten(0, 1), y)

    def fit(self) -> "_Probes":
        return _Probes(
            {key: [classifier(m, self.moduli) for m in each] for key, each in self.moments.items()},
            {
                source: [regression(moments) for moments in self.moments[source, self.ranges[-1]]]
                for source in (MODEL, UNTRAINED, *TOKENS)
            },
        )


@dataclass(frozen=True)
class _Probes:
    """Fitted on the windows of one seed."""

    classifiers: dict[tuple[str, tuple[int, int]], list[Affine]]  # by source and range; layers
    regressions: dict[str, list[Affine]]  # in the last range, by layer


class _Test:
    """Hits and squared errors of probes in the windows of one place."""

    def __init__(self, how: ProbeSettings, ranges: Sequence[tuple[int, int]]) -> None:
        self.how, self.ranges = how, ranges
        self.hits: dict[str, NDArray[np.int32]] = {}
        self.count = sum(len(functions(modulus).names) for modulus in how.moduli)
        self.errors: dict[str, Floats] = {}
        self.variances = np.zeros((self.count, how.blocks))

    def add(
        self,
        seed: int,
        probes: _Probes,
        features: dict[str, Tensor],
        integers: Tensor,
        windows: slice,
    ) -> None:
        """Test the probes of one seed on some of the windows."""
        for (source, where), layers in probes.classifiers.items():
            x = features[MODEL if source == SHUFFLED else source]
            hits = self._hits_of(source, len(layers))
            index = self.ranges.index(where) if source == MODEL else 0
            n = integers[:, slice(*where)].to(x.device)
            for layer, probe in enumerate(layers):
                logits = probe(x[layer][:, slice(*where)]).movedim(-1, 0).contiguous()
                groups = torch.split(logits, list(self.how.moduli))
                for k, (modulus, each) in enumerate(zip(self.how.moduli, groups, strict=True)):
                    right = (each.argmax(0) == n % modulus).sum(1)
                    hits[seed, layer, index, k, windows] = right.cpu().numpy()
        last = slice(*self.ranges[-1])
        n = integers[:, last]
        targets = one_hot(n, self.how.moduli).to(features[MODEL].device).float()
        if seed == 0:
            for part, y in self._by_modulus(targets):
                self._add_squares(self.variances[part], y - 1 / y.shape[-1], windows)
        for source, layers in probes.regressions.items():
            errors = self._errors_of(source, len(layers))
            for layer, probe in enumerate(layers):
                wrong = targets - probe(features[source][layer][:, last])
                for part, off in self._by_modulus(wrong):
                    self._add_squares(errors[seed, layer, part], off, windows)

    def _hits_of(self, source: str, layers: int) -> NDArray[np.int32]:
        if source not in self.hits:
            ranges = len(self.ranges) if source == MODEL else 1
            shape = self.how.seeds, layers, ranges, len(self.how.moduli), self.how.tested
            self.hits[source] = np.zeros(shape, np.int32)
        return self.hits[source]

    def _errors_of(self, source: str, layers: int) -> Floats:
        shape = self.how.seeds, layers, self.count, self.how.blocks
        return self.errors.setdefault(source, np.zeros(shape))

    def _by_modulus(self, values: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """The functions of each modulus, and its part of values of all, [..., Σ moduli]."""
        start = 0
        for each in torch.split(values, list(self.how.moduli), -1):
            stop = start + len(functions(each.shape[-1]).names)
            yield slice(start, stop), each
            start = stop

    def _add_squares(self, sums: Floats, values: Tensor, windows: slice) -> None:
        """Add the squares of all functions; sums: [functions, blocks], values: [windows, …, m]."""
        blocks = np.arange(windows.start, windows.start + len(values)) % self.how.blocks
        np.add.at(sums.T, blocks, _squares(values))

    def arrays(self) -> dict[str, NDArray[Any]]:
        errors = {f"errors {source}": each for source, each in self.errors.items()}
        return {**self.hits, **errors, "variances": self.variances}


def _squares(x: Tensor) -> Floats:
    """Sums over tokens of the squares of all functions, [windows, functions].

    x: [windows, tokens, m]
    """
    _, values, owners = functions(x.shape[-1])
    squares = (x @ torch.from_numpy(values).to(x)).square().sum(1)
    sums = squares.new_zeros(len(x), int(owners[-1]) + 1)
    owner = torch.from_numpy(owners).to(x.device)
    return sums.index_add_(1, owner, squares).cpu().numpy().astype(np.float64)


def one_hot(integers: Tensor, moduli: Sequence[int]) -> Tensor:
    """The classes modulo all moduli, one after the other: [..., Σ moduli]."""
    return torch.cat([F.one_hot(integers % modulus, modulus) for modulus in moduli], -1)


@dataclass(frozen=True)
class Decoded:
    """How well n modulo m is decoded at one place."""

    modulus: int
    layers: list[list[Estimate]]  # accuracy by range of positions and layer
    # In the last range of positions; of the untrained model's best layer:
    controls: dict[str, Estimate]  # accuracy
    margins: dict[str, Estimate]  # by how much the best layer is more accurate, window by window
    explained: dict[str, list[list[float]]]  # by basis: by layer, R² of each function
    # R² of whether n + 1 is a multiple of m: of the model's last layer, and of controls
    ahead: dict[str, Estimate]

    @property
    def chance(self) -> float:
        return 1 / self.modulus

    @property
    def best_layer(self) -> int:
        """The layer with the highest accuracy in the last range of positions."""
        return _highest([estimate.value or 0.0 for estimate in self.layers[-1]])


def _highest(values: Sequence[float] | Floats) -> int:
    return int(np.argmax(values))


def summarise(
    models: Sequence[dict[str, NDArray[Any]]], how: ProbeSettings, context: int, at: int
) -> list[Decoded]:
    """Accuracies and R² at one place, from the arrays of `probe_scores`.

    There is one model, or several that differ in their seed and have one best layer in common.
    """
    hits = np.mean([arrays[f"{MODEL} {at}"][:, :, -1].mean((0, -1)) for arrays in models], 0)
    best_layers = [_highest(column) for column in hits.T]  # hits: [layers, moduli]
    found = averaged([_summary(arrays, how, context, at, best_layers) for arrays in models])
    return [
        replace(
            each,
            layers=[list(map(_within_0_and_1, row)) for row in each.layers],
            controls={name: _within_0_and_1(share) for name, share in each.controls.items()},
        )
        for each in found
    ]


def _summary(
    arrays: dict[str, NDArray[Any]],
    how: ProbeSettings,
    context: int,
    at: int,
    best_layers: Sequence[int],
) -> list[Decoded]:
    """Of one model; `best_layers` has the layer of each modulus that controls are compared with."""
    ranges = position_ranges(context)
    lengths = [b - a for a, b in ranges]
    variances = arrays[f"variances {at}"]  # [functions, blocks]
    errors = {name: arrays[f"errors {name} {at}"] for name in (MODEL, UNTRAINED, *TOKENS)}
    explained = 1 - errors[MODEL].sum((0, -1)) / (how.seeds * variances.sum(-1))
    found, start = [], 0
    for k, modulus in enumerate(how.moduli):
        shares = [  # [seeds, layers, windows] of each range
            arrays[f"{MODEL} {at}"][:, :, i, k] / length for i, length in enumerate(lengths)
        ]
        best = shares[-1][:, best_layers[k]]
        controls = {
            name: _best(arrays[f"{name} {at}"][:, :, 0, k] / lengths[-1]) for name in CONTROLS
        }
        names = [basis for basis, _ in functions(modulus).names]
        part = explained[:, start : start + len(names)]
        next_multiple = start + names.index("class") + modulus - 1  # n is −1 modulo m
        start += len(names)
        found.append(
            Decoded(
                modulus,
                [
                    [_accuracy(each[:, layer], how.blocks) for layer in range(each.shape[1])]
                    for each in shares
                ],
                {name: _accuracy(each, how.blocks) for name, each in controls.items()},
                {
                    name: over_seeds_and_blocks(best - each, how.blocks)
                    for name, each in controls.items()
                },
                {
                    basis: part[:, [name == basis for name in names]].tolist()
                    for basis in dict.fromkeys(names)
                },
                {
                    name: _r2(each[:, :, next_multiple], variances[next_multiple], name == MODEL)
                    for name, each in errors.items()
                },
            )
        )
    return found


def _best(shares: Floats) -> Floats:
    """Of the layer with the highest mean, [seeds, windows]; shares: [seeds, layers, windows]."""
    return shares[:, _highest(shares.mean((0, 2)))]


def _accuracy(shares: Floats, blocks: int) -> Estimate:
    """shares: [seeds, windows]; the interval ends at 0 and 1."""
    return _within_0_and_1(over_seeds_and_blocks(shares, blocks))


def _within_0_and_1(share: Estimate) -> Estimate:
    value, low, high = share
    return Estimate(value, None if low is None else max(0.0, low), high and min(1.0, high))


def _r2(errors: Floats, variances: Floats, last: bool) -> Estimate:
    """Of the last layer or the best one; errors: [seeds, layers, blocks], variances: [blocks]."""
    layer = -1 if last else int(errors.sum((0, 2)).argmin())
    wrong = errors[:, layer]
    value, low, high = ratio_over_blocks(
        wrong, np.broadcast_to(variances, wrong.shape), len(variances)
    )
    if value is None or low is None or high is None:
        return UNKNOWN
    return Estimate(1 - value, 1 - high, 1 - low)
