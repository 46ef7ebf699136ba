"""Does the residual stream carry the posterior over n modulo small primes?

`posterior` has the reader whose beliefs are looked for.

**Beliefs in the stream.** Transformers trained on the output of a hidden Markov model carry its
posterior as a linear function of the residual stream (Shai et al., 2024). Here least squares reads
the posterior of n mod m from the stream at the token that ends the word of n. R² is one minus the
squared error on other text over the squared distance of the belief from 1/m. By symmetry 1/m is the
mean belief, so a constant prediction has R² = 0.

**Factored or joint.** For coprime moduli a, b with product m, the belief about n mod m is a sum of
three parts, each with mean 0:

- additive: (π_a − 1/a) / b + (π_b − 1/b) / a, with (a − 1) + (b − 1) dimensions;
- product: π_a π_b minus the additive part and 1/m. A stream with one factor per modulus does not
  carry it linearly, and a joint one does;
- correlation: π_m − π_a π_b, what the reader knows beyond the two separate beliefs.

A probe of true residues estimates the same function as a probe of beliefs, with more noise, because
a calibrated belief is the mean of the truth given the words. So beliefs are told from hard guesses
by what the outputs are closer to: the belief, or the residue that it holds to be likeliest.

Intervals are over blocks of the text and over seeds, each with its own training windows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import lcm, prod
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..text.sieve import words_of_windows
from ..text.splits import blocks_near
from ..text.windows import TEST, TRAIN, Windows, generator
from ..tokens import Tokenizer
from .activations import check_shared
from .estimates import Estimate, statistic_over_blocks
from .linear import Affine, Moments, regression
from .posterior import Floats, Reader
from .subjects import EvaluatedModel

_BATCH = 32  # windows read together
_SAMPLE = 1 << 21  # integers from which the probabilities of words are estimated
_GAP = 1 << 20  # test windows lie between a place and the integers counted for it

PARTS = ("whole", "additive", "product", "correlation")
_TIE = 1e-6  # residues are equally likely if their probabilities differ by less

Scores = dict[str, Floats]


@dataclass(frozen=True, kw_only=True)
class BeliefSettings:
    """How beliefs are measured; the defaults take half a minute for the model in the package."""

    places: tuple[int, ...] = (98 * 10**9, 10**13)  # tested near these integers
    training_windows: int = 512  # for each seed
    seeds: int = 3
    blocks: int = 10  # of the text, at each place
    windows: int = 160  # for testing at each place; a multiple of the blocks
    modulus: int = 5040  # 2^4 · 3^2 · 5 · 7
    # Coprime moduli, read together if there are several.
    sets: tuple[tuple[int, ...], ...] = (
        *((2,), (4,), (8,), (3,), (9,), (5,), (7,)),
        *((2, 3), (4, 3), (2, 5), (2, 7), (3, 5), (3, 7), (5, 7), (2, 3, 5)),
    )
    # Where ranges of the number of words read end; the places of each are measured apart.
    ends: tuple[int, ...] = (4, 8, 16, 32, 64)
    certain: float = 0.9  # a belief is uncertain if every residue has less than this

    @property
    def words(self) -> int:
        """Words read in each window."""
        return self.ends[-1]

    @property
    def singles(self) -> tuple[int, ...]:
        """The moduli of the sets of one modulus."""
        return tuple(moduli[0] for moduli in self.sets if len(moduli) == 1)

    @cached_property
    def columns(self) -> dict[tuple[int, ...], dict[str, slice]]:
        """Where the targets of each set stand among the targets of a probe, by kind."""
        begin, columns = 0, {}
        for moduli in self.sets:
            m = prod(moduli)
            kinds = ("belief", "shuffled", "truth") if len(moduli) == 1 else ("belief", "product")
            columns[moduli] = {
                kind: slice(begin + i * m, begin + (i + 1) * m) for i, kind in enumerate(kinds)
            }
            begin += m * len(kinds)
        return columns

    @property
    def ranges(self) -> list[slice]:
        """The ranges of the number of words read, as indices from 0."""
        return list(map(slice, (0, *self.ends), self.ends))

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups of places: all, by the number of words read, and where uncertain."""
        names = (f"{each.start + 1}–{each.stop}" for each in self.ranges)
        return "all", *names, "uncertain"


@dataclass(frozen=True)
class _Sample:
    """Windows that begin with a whole word, and what there is to know about them."""

    ids: Tensor  # [windows, tokens]
    ends: Tensor  # [windows, words]: the token that ends each word
    targets: Tensor  # [windows, words, columns]
    uncertain: Tensor  # [windows, words, sets]

    def activations(self, model: EvaluatedModel) -> Iterator[tuple[slice, Tensor]]:
        """The stream at the ends of the words, [layers + 1, windows, words, width], in batches."""
        for first in range(0, len(self.ids), _BATCH):
            part = slice(first, first + _BATCH)
            stream = model.model.residual_stream(self.ids[part])
            ends = self.ends[part].to(stream.device)[None, :, :, None]
            yield part, stream.gather(2, ends.expand(len(stream), -1, -1, stream.shape[3]))


def belief_scores(model: EvaluatedModel, how: BeliefSettings) -> Scores:
    """Sums of squares and products from which `summarise` computes R² and its intervals.

    Sums over the places of each group and each block of the text, in float64. `square` and `error`
    belong to each part of each belief, and `kept` to beliefs predicted from the first dimensions:

    - count: places, [places, sets, groups, blocks]
    - square: [places, sets, parts, groups, blocks]
    - error: [places, seeds, layers, sets, parts, groups, blocks]
    - apart_error: as `error` for whole beliefs, with one probe for each range of words read,
      [places, seeds, layers, sets, groups, blocks]
    - shuffled_square, shuffled_error: the same of beliefs of other windows, for single moduli,
      [places, singles, groups, blocks] and [places, seeds, layers, singles, groups, blocks]
    - guess_square: of hard guesses, [places, singles, groups, blocks]
    - truth_square, truth_error, truth_by_belief, truth_by_guess: squares of outputs of a probe of
      true residues, its errors, and products of its outputs with beliefs and with hard guesses,
      [places, seeds, layers, singles, groups, blocks]
    - kept_error: the error from the first 1, 2, … dimensions of what is read, over all places,
      [places, seeds, layers, sets, dimensions, blocks]
    - kept_exact: the share of the belief's own variance in its first dimensions,
      [places, sets, dimensions]
    """
    _check(model, how)
    training = model.trained[-1]
    at = training[1]
    reader = Reader.estimate(how.modulus, at, (max(training[0], at - _SAMPLE), at))
    fits = []
    for seed in range(how.seeds):
        windows = Windows([training], how.words)
        starts = [
            windows.random_start(generator(seed, TRAIN, 0, k)) for k in range(how.training_windows)
        ]
        fits.append(_fit(model, _sample(model.tokenizer, reader, starts, how), how))
    found = [_test(model, place, fits, how) for place in how.places]
    return {name: np.stack([each[name] for each in found]) for name in found[0]}


def _check(model: EvaluatedModel, how: BeliefSettings) -> None:
    if not model.model.causal:
        raise InputError("beliefs are read from a model that predicts next tokens")
    if any(" " in token[:-1] for token in model.tokenizer.vocabulary):
        raise InputError(
            "a belief belongs to the end of a word, but tokens of this tokenizer go on after it:"
            " take a model with word tokens"
        )
    if not model.trained:
        raise InputError(f"{model.name} has no training ranges to fit probes on")
    check_shared(how.windows, how.blocks)
    for moduli in how.sets:
        if how.modulus % prod(moduli) or lcm(*moduli) != prod(moduli):
            raise InputError(
                f"the moduli {moduli} must be coprime, and their product must divide {how.modulus}"
            )


def _sample(
    tokenizer: Tokenizer, reader: Reader, starts: Sequence[int], how: BeliefSettings
) -> _Sample:
    """Windows of whole words from each of these integers on."""
    words = words_of_windows(starts, how.words).copy()
    rows = [tokenizer.encode(row, threads=1).astype(np.int64) for row in words]
    # Short rows are filled up at the end, which a causal model does not see from before.
    ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
    ends = np.empty(words.shape, np.int64)
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
        ends[i] = np.flatnonzero(tokenizer.words_ended[row])
    moduli = {m for each in how.sets for m in (*each, prod(each))}
    beliefs = reader.marginals(words, sorted(moduli))
    integers = torch.tensor(starts)[:, None] + torch.arange(how.words)
    targets = []  # in the order of the columns
    for each in how.sets:
        m = prod(each)
        targets.append(beliefs[m])
        if len(each) > 1:
            targets.append(_factored(beliefs, each) - 1 / m - _additive(beliefs[m], each))
        else:
            truth = torch.nn.functional.one_hot(integers % m, m).float()
            targets += [beliefs[m].roll(1, 0), truth]
    certain = [beliefs[prod(each)].amax(2) >= how.certain for each in how.sets]
    return _Sample(
        torch.from_numpy(ids),
        torch.from_numpy(ends),
        torch.cat(targets, 2),
        ~torch.stack(certain, 2),
    )


def _factored(beliefs: Mapping[int, Tensor], moduli: tuple[int, ...]) -> Tensor:
    """The product of the separate beliefs, by n modulo the product of the moduli."""
    residues = torch.arange(prod(moduli))
    product = torch.ones(())
    for a in moduli:
        product = product * beliefs[a][..., residues % a]
    return product


def _additive(belief: Tensor, moduli: tuple[int, ...]) -> Tensor:
    """The additive part of a belief about n modulo the product of the moduli; it is linear in it.

    belief: [..., m]; result: the same.
    """
    m = prod(moduli)
    residues = torch.arange(m, device=belief.device)
    total = torch.zeros_like(belief)
    for a in moduli:
        # The residues modulo m that are r modulo a are r, r + a, …
        alone = (
            belief.reshape(*belief.shape[:-1], m // a, a).sum(-2) - belief.sum(-1, keepdim=True) / a
        )
        total += alone[..., residues % a] * (a / m)
    return total


class _Fit(NamedTuple):
    """What is fitted to one layer."""

    moments: Moments  # of all places
    probe: Affine
    by_words: list[Affine]  # one probe for each range of the number of words read


def _fit(model: EvaluatedModel, sample: _Sample, how: BeliefSettings) -> list[_Fit]:
    """The fits of each layer."""
    moments: list[list[Moments]] = []  # [layers][all places, then each range]
    ranges = [slice(None), *how.ranges]
    for part, stream in sample.activations(model):
        targets = sample.targets[part].to(stream.device)
        if not moments:
            sizes = stream.shape[3], targets.shape[2]
            moments = [[Moments(*sizes, stream.device) for _ in ranges] for _ in stream]
        for of_layer, x in zip(moments, stream, strict=True):
            for each, places in zip(of_layer, ranges, strict=True):
                each.add(x[:, places].flatten(0, 1), targets[:, places].flatten(0, 1))
    return [_Fit(all_, regression(all_), list(map(regression, rest))) for all_, *rest in moments]


class _Sums:
    """Sums over the places of each group in each block of the text."""

    def __init__(self, how: BeliefSettings) -> None:
        # [groups without the last, words]
        self._groups = torch.zeros(1 + len(how.ranges), how.words, dtype=torch.float64)
        for group, part in zip(self._groups, [slice(None), *how.ranges], strict=True):
            group[part] = 1
        self._blocks = how.blocks

    def by_block(self, values: Tensor) -> Tensor:
        """values: [windows, words, ...]; result: [words, ..., blocks].

        Window k is from block k % blocks.
        """
        rows = values.double().reshape(-1, self._blocks, *values.shape[1:])
        return rows.sum(0).movedim(0, -1)

    def __call__(self, values: Tensor, uncertain: Tensor) -> Floats:
        """values, uncertain: [windows, words]; result: [groups, blocks]."""
        grouped = self._groups.to(values.device) @ self.by_block(values)
        last = self.by_block(values * uncertain).sum(0, keepdim=True)
        found: Floats = torch.cat([grouped, last]).cpu().numpy()
        return found


class _Exact:
    """The exact beliefs of one set in test windows, with which outputs of probes are compared."""

    def __init__(
        self, moduli: tuple[int, ...], targets: Mapping[str, Tensor], uncertain: Tensor, sums: _Sums
    ) -> None:
        """targets: [windows, words, residues] by kind; uncertain: [windows, words]."""
        self._moduli, self._uncertain, self._sums = moduli, uncertain, sums
        # Relative to their mean, which is the same for each residue.
        self._targets = {
            kind: target - (kind != "product") / prod(moduli) for kind, target in targets.items()
        }
        self._parts = self._split(self._targets)
        if "truth" in targets:
            belief = targets["belief"]
            likeliest = (belief >= belief.amax(2, keepdim=True) - _TIE).float()
            self._guess = likeliest / likeliest.sum(2, keepdim=True) - 1 / prod(moduli)

    def _split(self, values: Mapping[str, Tensor]) -> list[Tensor]:
        """The parts of a belief, from its values and those of its product, relative to the mean."""
        whole = values["belief"]
        additive = _additive(whole, self._moduli)
        product = values.get("product", torch.zeros_like(whole))
        return [whole, additive, product, whole - additive - product]

    def _dot(self, a: Tensor, b: Tensor) -> Floats:
        return self._sums((a * b).sum(2), self._uncertain)

    def scores(self, dimensions: int) -> Scores:
        """What does not depend on a model; names as in `belief_scores`."""
        whole = self._parts[0].flatten(0, 1).double()
        variances = torch.linalg.eigvalsh(whole.mT @ whole).flip(0)
        found = {
            "count": self._sums(torch.ones_like(self._uncertain).double(), self._uncertain),
            "square": np.stack([self._dot(part, part) for part in self._parts]),
            "kept_exact": _extended(variances.cumsum(0) / variances.sum(), dimensions),
        }
        if "truth" in self._targets:
            shuffled = self._targets["shuffled"]
            found["shuffled_square"] = self._dot(shuffled, shuffled)
            found["guess_square"] = self._dot(self._guess, self._guess)
        return found

    def error(self, output: Tensor) -> Floats:
        """The squared error of a belief, [windows, words, residues]."""
        wrong = output - 1 / prod(self._moduli) - self._parts[0]
        return self._dot(wrong, wrong)

    def compare(self, outputs: Mapping[str, Tensor], basis: Tensor, dimensions: int) -> Scores:
        """What probes read, [windows, words, residues] by kind, compared with what is exact.

        basis: [residues, residues], the directions in which outputs vary most, in decreasing order.
        """
        read = {
            kind: output - (kind != "product") / prod(self._moduli)
            for kind, output in outputs.items()
        }
        errors = [a - b for a, b in zip(self._split(read), self._parts, strict=True)]
        # Dimension i of the output, instead of 0, reduces the square of the error by a gain.
        output, exact = read["belief"] @ basis, self._parts[0] @ basis
        gains = self._sums.by_block(output * (2 * exact - output)).sum(0)  # [residues, blocks]
        square = self._sums.by_block((exact**2).sum(2)).sum(0)
        found = {
            "error": np.stack([self._dot(error, error) for error in errors]),
            "kept_error": _extended(square - gains.cumsum(0), dimensions),
        }
        if "truth" in self._targets:
            wrong, others = (read[kind] - self._targets[kind] for kind in ("truth", "shuffled"))
            found |= {
                "shuffled_error": self._dot(others, others),
                "truth_error": self._dot(wrong, wrong),
                "truth_square": self._dot(read["truth"], read["truth"]),
                "truth_by_belief": self._dot(read["truth"], self._parts[0]),
                "truth_by_guess": self._dot(read["truth"], self._guess),
            }
        return found


def _extended(values: Tensor, length: int) -> Floats:
    """The first `length` values; where there are fewer, the last one is repeated."""
    last = values[-1:].expand(max(0, length - len(values)), *values.shape[1:])
    found: Floats = torch.cat([values, last])[:length].cpu().numpy()
    return found


def _test(
    model: EvaluatedModel,
    place: int,
    fits: Sequence[Sequence[_Fit]],
    how: BeliefSettings,
) -> Scores:
    """The scores near one place; fits by seed and layer."""
    blocks = blocks_near(place, model.seen, how.blocks)
    after = place + _GAP
    reader = Reader.estimate(how.modulus, place, (after, after + _SAMPLE))
    starts = [
        Windows([blocks[k % how.blocks]], how.words).random_start(generator(0, TEST, place, k))
        for k in range(how.windows)
    ]
    sample = _sample(model.tokenizer, reader, starts, how)
    stream = torch.cat([each for _, each in sample.activations(model)], 1)
    columns, sums = how.columns, _Sums(how)
    targets, uncertain = sample.targets.to(stream.device), sample.uncertain.to(stream.device)
    exact = [
        _Exact(moduli, _by_kind(targets, columns[moduli]), uncertain[..., i], sums)
        for i, moduli in enumerate(how.sets)
    ]
    dimensions = max(map(prod, how.sets)) - 1
    by_seed = []
    for of_seed in fits:
        by_layer = []
        for x, fit in zip(stream, of_seed, strict=True):
            outputs, cross = fit.probe(x), fit.moments.cross_covariance()
            apart = torch.cat(
                [probe(x[:, part]) for probe, part in zip(fit.by_words, how.ranges, strict=True)], 1
            )
            by_set = []
            for each, moduli in zip(exact, how.sets, strict=True):
                part = columns[moduli]["belief"]
                covariance = fit.probe.weights[:, part].double().mT @ cross[:, part]  # of outputs
                basis = torch.linalg.eigh(covariance + covariance.mT).eigenvectors.flip(1).float()
                found = each.compare(_by_kind(outputs, columns[moduli]), basis, dimensions)
                found["apart_error"] = each.error(apart[..., part])
                by_set.append(found)
            by_layer.append(_stack(by_set))
        by_seed.append(_stack(by_layer))
    return _stack([each.scores(dimensions) for each in exact]) | _stack(by_seed)


def _by_kind(values: Tensor, columns: Mapping[str, slice]) -> dict[str, Tensor]:
    return {kind: values[..., column] for kind, column in columns.items()}


def _stack(found: Sequence[Scores]) -> Scores:
    """Scores of several sets, layers or seeds together; a name may be missing in some sets."""
    names = dict.fromkeys(name for each in found for name in each)
    return {name: np.stack([each[name] for each in found if name in each]) for name in names}


@dataclass(frozen=True, kw_only=True)
class Part:
    """One part of the beliefs about several moduli together."""

    share: float  # of the variance of the exact belief; all shares add up to about 1
    r2: tuple[Estimate, ...]  # by layer


@dataclass(frozen=True, kw_only=True)
class Controls:
    """The controls for a single modulus, by layer."""

    shuffled: tuple[Estimate, ...]  # R² of the beliefs of other windows
    truth: tuple[Estimate, ...]  # R² of the true residues
    # Of the outputs of a probe of true residues, where the belief is uncertain: the squared
    # correlation with the belief and with the likeliest residue, and the difference of both.
    like_belief: tuple[Estimate, ...]
    like_guess: tuple[Estimate, ...]
    difference: tuple[Estimate, ...]


@dataclass(frozen=True, kw_only=True)
class SetSummary:
    """What the stream carries of the belief about n modulo one set, near one place."""

    place: int
    moduli: tuple[int, ...]
    uncertain: float  # the share of places where the belief is uncertain
    # R² of the belief by group of places and layer: with one probe, and with one for each range of
    # the number of words read
    r2: dict[str, tuple[Estimate, ...]]
    r2_apart: dict[str, tuple[Estimate, ...]]
    # By layer, R² from the first 1, 2, … dimensions of what is read; and the share of the exact
    # belief's own variance in as many
    kept: tuple[tuple[float, ...], ...]
    kept_exact: tuple[float, ...]
    parts: dict[str, Part]  # of several moduli
    controls: Controls | None  # of a single modulus

    @property
    def dimensions(self) -> tuple[int, int]:
        """Of a factored representation, and of a joint one."""
        return sum(self.moduli) - len(self.moduli), prod(self.moduli) - 1

    def needed(self, layer: int, share: float = 0.95) -> int:
        """How many dimensions reach this share of the highest R² of the layer."""
        kept = np.array(self.kept[layer])
        return int(np.argmax(kept >= share * kept.max())) + 1


def summarise(scores: Mapping[str, Floats], how: BeliefSettings) -> list[SetSummary]:
    """What each set shows near each place, with intervals over blocks and seeds."""
    return [
        _summary(scores, how, i, j) for i in range(len(how.places)) for j in range(len(how.sets))
    ]


def _summary(scores: Mapping[str, Floats], how: BeliefSettings, i: int, j: int) -> SetSummary:
    moduli, groups, m = how.sets[j], how.groups, prod(how.sets[j])
    square, count = scores["square"][i, j], scores["count"][i, j]
    error, apart = scores["error"][i, :, :, j], scores["apart_error"][i, :, :, j]
    kept = scores["kept_error"][i, :, :, j, : m - 1].mean(0).sum(2)
    parts, controls = {}, None
    if len(moduli) > 1:
        parts = {
            part: Part(
                share=float(square[p, 0].sum() / square[0, 0].sum()),
                r2=_by_layer(_r2, error[:, :, p, 0], square[p, 0]),
            )
            for p, part in enumerate(PARTS)
            if p
        }
    else:
        alone, last = how.singles.index(m), groups.index("uncertain")
        by_belief, by_guess, output = (
            scores[f"truth_{name}"][i, :, :, alone, last]
            for name in ("by_belief", "by_guess", "square")
        )
        belief, guess = square[0, last], scores["guess_square"][i, alone, last]
        wrong, of_others = scores["truth_error"], scores["shuffled_error"]
        others = scores["shuffled_square"][i, alone, 0]
        controls = Controls(
            shuffled=_by_layer(_r2, of_others[i, :, :, alone, 0], others),
            truth=_by_layer(_r2, wrong[i, :, :, alone, 0], count[0] * (1 - 1 / m)),
            like_belief=_by_layer(_likeness, by_belief, output, belief),
            like_guess=_by_layer(_likeness, by_guess, output, guess),
            difference=_by_layer(_more_alike, by_belief, by_guess, output, belief, guess),
        )
    return SetSummary(
        place=how.places[i],
        moduli=moduli,
        uncertain=float(count[-1].sum() / count[0].sum()),
        r2={name: _by_layer(_r2, error[:, :, 0, g], square[0, g]) for g, name in enumerate(groups)},
        r2_apart={
            name: _by_layer(_r2, apart[:, :, g], square[0, g]) for g, name in enumerate(groups)
        },
        kept=tuple(map(tuple, (1 - kept / square[0, 0].sum()).tolist())),
        kept_exact=tuple(scores["kept_exact"][i, j, : m - 1].tolist()),
        parts=parts,
        controls=controls,
    )


def _by_layer(
    statistic: Callable[..., float], first: Floats, *others: Floats
) -> tuple[Estimate, ...]:
    """Estimates of a statistic of sums, [seeds, layers, blocks]; only the first needs all axes."""
    columns = [np.broadcast_to(column, first.shape) for column in (first, *others)]
    layers, blocks = first.shape[1:]
    return tuple(
        statistic_over_blocks(statistic, [column[:, layer] for column in columns], blocks)
        for layer in range(layers)
    )


def _r2(error: Floats, square: Floats) -> float:
    return float(1 - error.sum() / square.sum())


def _likeness(product: Floats, square: Floats, other: Floats) -> float:
    """The squared correlation."""
    return float(product.sum() ** 2 / (square.sum() * other.sum()))


def _more_alike(
    by_belief: Floats, by_guess: Floats, square: Floats, belief: Floats, guess: Floats
) -> float:
    return _likeness(by_belief, square, belief) - _likeness(by_guess, square, guess)
