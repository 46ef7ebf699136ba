"""Interchange interventions: does a model use the residue of n that probes read?

A window of the text is paired with another one that starts `shift` integers later. `shift` is a
multiple of all prime powers q of `MODULUS` but one, so that n mod q differs for this one alone. At
one position, part of the residual stream is replaced by what the model computes in the other
window. If the model now predicts the words that suit the other residue, it uses what was replaced.

Only positions count before integers that differ in the exponent of this prime and of no other prime
up to 19. (If q divides n, the shift may change n mod q², and so the exponent of another prime.)

    residue            what a probe for n mod q reads there: its LEACE projection (linear.py)
    with parity        what a probe for n mod 2q reads there
    with 4             what a probe for n mod 4q reads there
    with an odd prime  what a probe for n mod 3q reads there, or n mod 5q for p = 3
    next word          what a probe for the next word reads there
    everything         the whole residual stream at this position
    …, word held       the same, without the part that a probe for the next word reads
    random …           as many random directions, drawn with the covariance of the stream

If the model has one code for n mod q whatever the other residues are, `residue` is enough. If its
code differs between even and odd n, only `with parity` and `with 4` hold it.

The oracles only differ where q, or another power of p, divides one of the two next integers. So an
effect of `residue` may be that of the residue as such, or of the guess of the next word that the
model has already made from it. `word held` tells them apart, as far as a linear probe reads the
guess: it leaves what this probe reads unchanged.

Two oracles say which words suit the residues: one distribution given the residues of this window,
and one given those of the other. The *response* of a prediction P is Σ (other − this) log P, the
nats by which P favours the other oracle. It is measured from the unchanged prediction, as a share
of the response of the model that reads the other window.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import lcm, prod

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from ..errors import InputError
from ..models.oracle import Oracle
from ..models.patching import PatchedWindow
from ..progress import Advance, progress
from ..search.residues import smooth_parts
from ..text.sieve import words
from ..tokens import Tokenizer, WordTokens
from ..tokens.training import FIRST
from .activations import LabelledWindows, check_shared, labelled_windows, windows_near
from .estimates import Estimate, ratio_over_blocks
from .linear import Moments, leace, random_projection
from .probes import one_hot
from .subjects import EvaluatedModel

POWERS = {2: 16, 3: 9, 5: 5, 7: 7, 11: 11, 13: 13, 17: 17, 19: 19}
MODULUS = prod(POWERS.values())  # lcm(1, …, 19)

RESIDUES = ("residue", "with parity", "with 4", "with an odd prime")
NEXT_WORD, EVERYTHING = "next word", "everything"
HELD = {name: f"{name}, word held" for name in ("residue", "with 4", EVERYTHING)}
RANDOM = {name: f"random {name}" for name in ("residue", "with 4", NEXT_WORD)}
PROJECTED = (*RESIDUES, NEXT_WORD, *HELD.values(), *RANDOM.values())
CONDITIONS = (*PROJECTED, EVERYTHING)
DOSES = (0.25, 0.5, 0.75, 1.25, 1.5, 2.0)

NEXT_WORDS = 64  # classes of next words: the commonest ones, and all others together
_TRAINING_SEEDS = 2000  # seeds of the windows that the projections are fitted on


@dataclass(frozen=True)
class InterventionSettings:
    primes: tuple[int, ...]
    at: int
    layers: tuple[int, ...]  # the stream is changed after so many blocks
    detailed: int  # of these layers, the one for doses and for the effect on other primes
    windows: int  # that the projections of one seed are fitted on
    tested: int
    blocks: int
    positions: int  # changed in each window, for each prime
    seeds: int  # of projections

    def checked(self) -> "InterventionSettings":
        """The settings, if they make sense."""
        if not set(self.primes) <= POWERS.keys():
            raise InputError(f"interventions are for the primes {', '.join(map(str, POWERS))}")
        if self.detailed not in self.layers:
            raise InputError(f"layer {self.detailed} is not among the layers {self.layers}")
        check_shared(self.tested, self.blocks)
        return self


def moduli(prime: int) -> tuple[int, ...]:
    """The moduli of the probes in `RESIDUES`.

    >>> moduli(2), moduli(3), moduli(7)
    ((16, 16, 16, 48), (9, 18, 36, 45), (7, 14, 28, 21))
    """
    return tuple(lcm(POWERS[prime], other) for other in (1, 2, 4, 5 if prime == 3 else 3))


_Projections = dict[str, Tensor]  # [layers, primes, width, width] each; for column vectors


def _changed(how: _Projections, condition: str, row: int, prime: int, difference: Tensor) -> Tensor:
    """The part of a difference, [positions, width], that a condition replaces."""
    return difference if condition == EVERYTHING else difference @ how[condition][row, prime].mT


def _projections(
    model: EvaluatedModel, how: InterventionSettings, seed: int, advance: Advance
) -> _Projections:
    """Fit the projections on the second halves of windows from the training text."""
    windows = labelled_windows(
        model.tokenizer,
        [model.trained],
        number=how.windows,
        length=model.context,
        seed=_TRAINING_SEEDS + seed,
    )
    commonest = torch.bincount(windows.ids.flatten()).argsort(descending=True, stable=True)
    next_words = torch.full((model.tokenizer.size,), NEXT_WORDS - 1)
    next_words[commonest[: NEXT_WORDS - 1]] = torch.arange(len(commonest[: NEXT_WORDS - 1]))
    sizes = [*(m for prime in how.primes for m in moduli(prime)), NEXT_WORDS]
    half = slice(model.context // 2, -1)
    sums: list[Moments] = []
    for _, batch in windows.batches():
        stream = model.model.residual_stream(batch.ids)[list(how.layers)][:, :, half]
        if not sums:
            sums = [Moments(stream.shape[-1], sum(sizes), stream.device) for _ in how.layers]
        words_after = F.one_hot(next_words[batch.ids[:, 1:]], NEXT_WORDS)[:, half.start :]
        y = torch.cat([one_hot(batch.integers[:, half], sizes[:-1]), words_after], -1)
        for moments, x in zip(sums, stream, strict=True):
            moments.add(x.flatten(0, 1), y.flatten(0, 1).to(stream.device))
        advance(len(batch))
    random = torch.Generator().manual_seed(seed)
    ends = np.cumsum(sizes)
    found: dict[str, list[Tensor]] = {name: [] for name in PROJECTED}
    for moments in sums:
        covariance = moments.covariance()
        *read, next_word = (
            leace(moments, slice(end - size, end)) for end, size in zip(ends, sizes, strict=True)
        )
        others = torch.eye(len(covariance), device=next_word.device) - next_word
        for k, prime in enumerate(how.primes):
            each = dict(zip(RESIDUES, read[k * len(RESIDUES) :], strict=False))
            each[NEXT_WORD] = next_word
            each |= {
                held: others if name == EVERYTHING else others @ each[name]
                for name, held in HELD.items()
            }
            counts = dict(zip(RESIDUES, moduli(prime), strict=True)) | {NEXT_WORD: NEXT_WORDS}
            for name, control in RANDOM.items():
                each[control] = random_projection(covariance, counts[name] - 1, random)
            for name, projection in each.items():
                found[name].append(projection)
    shape = len(how.layers), len(how.primes), len(covariance), len(covariance)
    return {name: torch.stack(each).view(shape) for name, each in found.items()}


class _WordProbabilities:
    """The probabilities of words given the residues modulo `MODULUS` and the size of n."""

    def __init__(self, at: int, tokens: WordTokens) -> None:
        self.oracle = Oracle.estimate(max(POWERS), at, tokens=tokens)

    def __call__(self, integers: Tensor) -> Tensor:
        """[integers, 1 + words]; all words without a token come first, together."""
        rests, n = self.oracle.rests, integers.numpy().astype(np.uint64)
        parts, beginnings = smooth_parts(n, rests.bound)
        pairs = zip(beginnings.tolist(), rests.grid.bins(n, parts).tolist(), strict=True)
        return torch.from_numpy(np.stack([self.oracle.by_rank(*pair) for pair in pairs]))


class _Window:
    """A window, the windows paired with it, and the positions that are changed."""

    def __init__(
        self,
        model: EvaluatedModel,
        how: InterventionSettings,
        oracle: _WordProbabilities,
        ids: Tensor,
        integers: Tensor,
        random: np.random.Generator,
    ) -> None:
        """ids and integers: [tokens]."""
        self.oracle, tokens = oracle, model.tokenizer
        self.here = model.model.patched(ids)
        half = len(ids) // 2
        # Positions that end a word: the next token begins the word of the next integer.
        self.places = half + torch.nonzero(_ends_word(tokens, ids)[half:-1])[:, 0]
        self.next = integers[self.places] + 1
        self.windows: list[PatchedWindow] = []
        self.there: list[Tensor] = []  # by prime: positions in the other window, −1 if none
        self.shifts: list[int] = []
        self.touched: list[NDArray[np.bool_]] = []  # by prime: whether its exponent differs
        self.chosen: list[NDArray[np.int64]] = []  # by prime: indices of places
        for prime in how.primes:
            shift = _random_shift(prime, random)
            other = _from_integer(tokens, int(integers[0]) + shift, len(ids))
            self.windows.append(model.model.patched(other.ids))
            there = _positions(tokens, other, self.next - 1 + shift)
            differ = {
                p: _exponents(self.next, p) != _exponents(self.next + shift, p) for p in POWERS
            }
            touched = differ.pop(prime)
            alone = touched & ~np.any(list(differ.values()), 0)
            usable = np.flatnonzero(alone & (there.numpy() >= 0))
            chosen = random.permutation(usable)[: how.positions]
            self.there.append(there)
            self.shifts.append(shift)
            self.touched.append(touched)
            self.chosen.append(np.sort(chosen))

    def direction(self, prime: int, chosen: NDArray[np.int64]) -> Tensor:
        """The other oracle minus this one at some of the places, [places, 1 + words]."""
        integers = self.next[chosen]
        return self.oracle(integers + self.shifts[prime]) - self.oracle(integers)

    def stream(self, prime: int, layer: int, chosen: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """The stream of this window at some of the places, and its difference to the other's."""
        here = self.here.stream[layer][self.places[chosen]].float()
        return here, self.windows[prime].stream[layer][self.there[prime][chosen]].float() - here


def intervention_responses(
    model: EvaluatedModel, how: InterventionSettings
) -> dict[str, NDArray[np.float64]]:
    """Responses, summed over the changed positions of each window.

    "there", [primes, windows]: of the model that reads the other window. The same for each
    condition, [seeds, layers, primes, windows]; for doses of `with 4` in the layer `detailed`,
    "doses", [seeds, doses, primes, windows]. "others", [seeds, changed primes, measured primes,
    windows], and "others there", without seeds: the response to the measured prime where the
    changed one does not matter. "right", "right here" and "right there": at how many positions the
    other oracle's likeliest word is also the likeliest of the changed (`with 4`), the unchanged and
    the other window's prediction; "positions": of how many.
    """
    how.checked()
    tokens = model.tokenizer
    if not isinstance(tokens, WordTokens):
        raise InputError("interventions need a model whose tokens are words")
    primes, layers, tested = len(how.primes), len(how.layers), how.tested
    arrays = {
        name: np.zeros(shape)
        for name, shape in {
            "there": (primes, tested),
            **dict.fromkeys(PROJECTED, (how.seeds, layers, primes, tested)),
            EVERYTHING: (1, layers, primes, tested),
            "doses": (how.seeds, len(DOSES), primes, tested),
            "others": (how.seeds, primes, primes, tested),
            "others there": (primes, primes, tested),
            "right": (how.seeds, layers, primes, tested),
            "right here": (primes, tested),
            "right there": (primes, tested),
            "positions": (primes, tested),
        }.items()
    }
    total = how.seeds * how.windows + tested
    with progress("interventions", total, "windows") as advance:
        fitted = [_projections(model, how, seed, advance) for seed in range(how.seeds)]
        windows = windows_near(model, how.at, number=tested, blocks=how.blocks, seed=1)
        oracle, random = _WordProbabilities(how.at, tokens), np.random.default_rng(0)
        for k in range(tested):
            window = _Window(model, how, oracle, windows.ids[k], windows.integers[k], random)
            for prime in range(primes):
                _measure(window, prime, how, fitted, {n: a[..., k] for n, a in arrays.items()})
            advance(1)
    return arrays


def _measure(
    window: _Window,
    prime: int,
    how: InterventionSettings,
    fitted: Sequence[_Projections],
    arrays: dict[str, NDArray[np.float64]],
) -> None:
    """Fill in the responses of one window for one prime; the arrays have no axis of windows."""
    chosen = window.chosen[prime]
    if not len(chosen):
        return
    direction, places = window.direction(prime, chosen), window.places[chosen]
    suited = window.oracle(window.next[chosen] + window.shifts[prime]).argmax(1)

    def response(logits: Tensor) -> float:
        return float((direction * _by_word(logits)).sum())

    def right(logits: Tensor) -> int:
        return int((_by_word(logits).argmax(1) == suited).sum())

    here = window.here.logits[places]
    there = window.windows[prime].logits[window.there[prime][chosen]]
    unchanged = response(here)
    arrays["there"][prime] = response(there) - unchanged
    arrays["right here"][prime], arrays["right there"][prime] = right(here), right(there)
    arrays["positions"][prime] = len(chosen)
    for row, layer in enumerate(how.layers):
        stream, difference = window.stream(prime, layer, chosen)

        def predict(change: Tensor, layer: int = layer, stream: Tensor = stream) -> Tensor:
            return window.here.predict(layer, places, stream + change)

        for seed, projections in enumerate(fitted):
            for condition in PROJECTED:
                logits = predict(_changed(projections, condition, row, prime, difference))
                arrays[condition][seed, row, prime] = response(logits) - unchanged
                if condition == "with 4":
                    arrays["right"][seed, row, prime] = right(logits)
            change = _changed(projections, "with 4", row, prime, difference)
            if layer == how.detailed:
                for i, dose in enumerate(DOSES):
                    arrays["doses"][seed, i, prime] = response(predict(dose * change)) - unchanged
        arrays[EVERYTHING][0, row, prime] = response(predict(difference)) - unchanged
    _measure_others(window, prime, how, fitted, arrays)


def _measure_others(
    window: _Window,
    prime: int,
    how: InterventionSettings,
    fitted: Sequence[_Projections],
    arrays: dict[str, NDArray[np.float64]],
) -> None:
    """The response to other primes where this one is changed but does not matter."""
    matched = window.there[prime].numpy() >= 0
    for other in range(len(how.primes)):
        chosen = window.chosen[other]
        if other == prime:
            keep = chosen[matched[chosen]]
        else:
            keep = chosen[~window.touched[prime][chosen] & matched[chosen]]
        if not len(keep):
            continue
        direction, places = window.direction(other, keep), window.places[keep]
        stream, difference = window.stream(prime, how.detailed, keep)
        row = how.layers.index(how.detailed)

        def response(logits: Tensor, direction: Tensor = direction) -> float:
            return float((direction * _by_word(logits)).sum())

        here = response(window.here.logits[places])
        there = response(window.windows[other].logits[window.there[other][keep]])
        arrays["others there"][prime, other] = there - here
        for seed, projections in enumerate(fitted):
            change = _changed(projections, "with 4", row, prime, difference)
            changed = response(window.here.predict(how.detailed, places, stream + change))
            arrays["others"][seed, prime, other] = changed - here


def _by_word(logits: Tensor) -> Tensor:
    """Log-probabilities of all words without a token together, then of each word with one."""
    logs = logits.double().log_softmax(-1)
    return torch.cat([logs[:, :FIRST].logsumexp(1, keepdim=True), logs[:, FIRST:]], 1).cpu()


def _ends_word(tokens: Tokenizer, ids: Tensor) -> Tensor:
    return torch.from_numpy(tokens.words_ended)[ids] > 0


def _random_shift(prime: int, random: np.random.Generator) -> int:
    """Changes the residue of n modulo the prime, and of no other prime power of `MODULUS`."""
    power = POWERS[prime]
    times = int(random.choice([k for k in range(1, power) if k % prime]))
    return MODULUS // power * times


def _from_integer(tokens: Tokenizer, first: int, length: int) -> LabelledWindows:
    """One window that begins with the word of this integer."""
    [ids] = tokens.encode_rows(words(first, first + length, threads=1)[None], length)
    ended = np.cumsum(tokens.words_ended[ids])
    integers = first + ended - (tokens.words_ended[ids] > 0)
    return LabelledWindows(torch.from_numpy(ids), torch.from_numpy(integers))


def _positions(tokens: Tokenizer, window: LabelledWindows, integers: Tensor) -> Tensor:
    """The position of the token that ends each integer's word, or −1."""
    ends = torch.nonzero(_ends_word(tokens, window.ids))[:, 0]
    found = torch.searchsorted(window.integers[ends], integers)
    inside = found < len(ends)
    return torch.where(inside, ends[found.clamp_max(len(ends) - 1)], -1)


def _exponents(integers: Tensor, prime: int) -> NDArray[np.int64]:
    """The exponent of the prime in each integer."""
    n, exponents = integers.numpy().copy(), np.zeros(len(integers), np.int64)
    divisible = n % prime == 0
    while divisible.any():
        exponents += divisible
        n = np.where(divisible, n // prime, n)
        divisible &= n % prime == 0
    return exponents


@dataclass(frozen=True)
class Intervention:
    """What changing the residue modulo (a power of) one prime does to predictions.

    Shares are of the response of the model that reads the other window.
    """

    prime: int
    power: int
    response: Estimate  # of the model that reads the other window, in nats per position
    conditions: dict[str, list[Estimate]]  # shares by layer
    doses: list[Estimate]  # shares
    others: list[Estimate]  # shares of the responses to each prime, itself included
    right_here: Estimate  # share of positions where the likeliest word suits the other residue
    right: list[Estimate]  # after changing `with 4`, by layer
    right_there: Estimate


def summarise(
    arrays: dict[str, NDArray[np.float64]], how: InterventionSettings
) -> list[Intervention]:
    """Estimates with intervals over blocks of the text, and over seeds where there are several."""
    found = []
    for a, prime in enumerate(how.primes):
        there, positions = arrays["there"][a], arrays["positions"][a]

        def share(
            part: NDArray[np.float64], whole: NDArray[np.float64] = there
        ) -> Estimate:  # part: [seeds, windows]
            return ratio_over_blocks(part, np.broadcast_to(whole, part.shape), how.blocks)

        found.append(
            Intervention(
                prime,
                POWERS[prime],
                share(there[None], positions),
                {
                    name: [share(arrays[name][:, row, a]) for row in range(len(how.layers))]
                    for name in CONDITIONS
                },
                [share(arrays["doses"][:, i, a]) for i in range(len(DOSES))],
                [
                    share(arrays["others"][:, a, b], arrays["others there"][a, b])
                    for b in range(len(how.primes))
                ],
                share(arrays["right here"][None, a], positions),
                [share(arrays["right"][:, row, a], positions) for row in range(len(how.layers))],
                share(arrays["right there"][None, a], positions),
            )
        )
    return found
