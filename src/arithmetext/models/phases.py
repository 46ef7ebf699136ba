"""A model that tracks n modulo every prime power up to `bound`.

A prime power q divides exactly one of any q consecutive integers. For each q up to `bound` the
model keeps the probability that q divides n. It is told which numbers are prime powers, and Bayes'
rule. What each word says about its integer, and which word follows from what is known, it learns.

    b = 0                                  what is known of n from the words before it
    e = evidence(norm(b + word of n))      for each of the layers: how much speaks for q | n
    b = b + beliefs(posterior(e)) + averages
    b = b + 4d-wide tanh-GELU(norm(b))
    logits = out(norm(b))

`posterior` is Bayes' rule: it adds up the evidence at n - q, n - 2q, … and normalises over the q
places of a period. Each layer reads all words again, and knows what the layer before has found out
about their integers. The averages, over all words before n, tell the size of n.

What the model keeps of a text does not grow with its length, so it reads texts of any length.
docs/phases.md tells how good it is.
"""

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple, Self

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import InputError
from .config import AVERAGES, KNOTS
from .config import PhasesConfig as PhasesConfig
from .gpt import Hook, gelu, initialise
from .language import Prompts, TrainableModel
from .spelled import FIRST_WORD, SPACE

LIMIT = 3.0  # the most that one word can add to a logarithm of odds, or take from it
FLOOR = 8.0  # logarithms of probabilities below -8 are not told apart
AT_ONCE = 1 << 15  # tokens of prompts that are read together
PRIOR = 16  # averages begin as if 16 words had been read, with value 0


class PeriodWeights(nn.Module):
    """Weights for each period, part of which are a smooth function of its prime.

    Nearby primes need similar weights. So the weights of primes are a function of log p, linear
    between `KNOTS` points, plus weights of their own; those of squares and of higher powers are two
    more such functions.
    """

    def __init__(self, config: PhasesConfig, width: int) -> None:
        super().__init__()
        self.periods = config.periods
        self.own = nn.Parameter(torch.empty(len(self.periods), width))
        self.common = nn.Parameter(torch.empty(3 * KNOTS, width))

    def forward(self) -> Tensor:
        """[periods, width]."""
        basis = smooth_basis(self.periods, self.own.device).to(self.own.dtype)
        return self.own + basis @ self.common


class Evidence(nn.Module):
    """How much each word speaks for each period dividing its integer, given what is known of it."""

    def __init__(self, config: PhasesConfig) -> None:
        super().__init__()
        width = config.width
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.periods = PeriodWeights(config, 4 * width)
        self.bias = nn.Parameter(torch.zeros(len(config.periods)))
        self.values = nn.Linear(4 * width, AVERAGES)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x: [batch, words, width]; the evidence, [batch, words, periods], and what is averaged,
        [batch, words, AVERAGES]. Both are in float32, as they are summed over the text.
        """
        wide = gelu(self.up(self.norm(x)))
        evidence = F.linear(wide, self.periods(), self.bias).float()
        return LIMIT * torch.tanh(evidence / LIMIT), self.values(wide).float()


class Block(nn.Module):
    def __init__(self, config: PhasesConfig) -> None:
        super().__init__()
        width = config.width
        self.periods = config.periods
        self.evidence = Evidence(config)
        self.probabilities, self.logarithms = (PeriodWeights(config, width) for _ in range(2))
        self.averages = nn.Linear(AVERAGES, width)
        self.mlp_norm = nn.LayerNorm(width)
        self.mlp_up, self.mlp_down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.posteriors, self.residual_after = Hook(), Hook()

    def forward(self, b: Tensor, words: Tensor) -> Tensor:
        """b: [batch, words + 1, width]; words: [batch, words, width]; result as b."""
        return self.add_up(b, *self.evidence(b[:, :-1] + words))

    def add_up(self, b: Tensor, evidence: Tensor, values: Tensor) -> Tensor:
        """b with what the words before each n tell of it: their evidence and values, added up."""
        before = torch.arange(b.shape[1], device=b.device)[:, None]
        averages = F.pad(values.cumsum(1), (0, 0, 1, 0)) / (before + PRIOR)
        return self.update(b, posteriors(evidence, self.periods), averages)

    def update(self, b: Tensor, logs: Tensor, averages: Tensor) -> Tensor:
        """b with these beliefs; logs: logarithms of probabilities, [batch, words, periods]."""
        logs = self.posteriors(logs)
        exact, rough = logs.exp().to(b.dtype), (logs.clamp(min=-FLOOR) / FLOOR).to(b.dtype)
        b = b + exact @ self.probabilities() + rough @ self.logarithms()
        b = b + self.averages(averages.to(b.dtype))
        known: Tensor = self.residual_after(b + self.mlp_down(gelu(self.mlp_up(self.mlp_norm(b)))))
        return known


class Phases(TrainableModel):
    """`vocabulary` is the number of tokens, which must be words and letters (`WordTokens`)."""

    config: PhasesConfig
    compiles = False  # each period has tensors of its own shape, so compiling takes minutes

    def __init__(self, config: PhasesConfig, *, vocabulary: int) -> None:
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        self.tokens = nn.Embedding(vocabulary, config.width)
        blocks = [Block(config) for _ in range(config.layers)]
        self.blocks: Sequence[Block] = nn.ModuleList(blocks)  # type: ignore[assignment]
        self.norm = nn.LayerNorm(config.width)
        self.out = nn.Linear(config.width, vocabulary)
        self.apply(initialise)
        for module in self.modules():
            if isinstance(module, PeriodWeights):
                nn.init.normal_(module.own, std=0.02)
                nn.init.normal_(module.common, std=0.02)
            if isinstance(module, Block):
                nn.init.normal_(module.mlp_down.weight, std=0.02 / math.sqrt(2 * config.layers))
                nn.init.normal_(module.averages.weight, std=0.5)  # averages are small

    def forward(self, ids: Tensor) -> Tensor:
        """The logits after every token: [batch, tokens] to [batch, tokens, vocabulary]."""
        stream, place = self._beliefs(ids)
        return self.logits(self._at_tokens(stream[-1], ids, place))

    def _beliefs(self, ids: Tensor) -> tuple[list[Tensor], Tensor]:
        """What is known of each integer after each layer, and how many words end by each token.

        The results are layers of [batch, words + 1, width], and [batch, tokens].
        """
        last, place = ended_words(ids)
        words = self.tokens(last)  # [batch, words, width]
        if torch.is_autocast_enabled(words.device.type):
            words = words.to(torch.get_autocast_dtype(words.device.type))
        stream = [torch.zeros_like(F.pad(words, (0, 0, 0, 1)))]
        for block in self.blocks:
            stream.append(block(stream[-1], words))
        return stream, place

    def _at_tokens(self, b: Tensor, ids: Tensor, place: Tensor) -> Tensor:
        """What is known after each token; letters of a word that has begun are added.

        b: [batch, words + 1, width]; ids and place: [batch, tokens].
        """
        x = b.gather(1, place[..., None].expand(-1, -1, b.shape[-1]))
        letter = self.tokens(ids).to(x.dtype)
        return x + torch.where(word_ends(ids)[..., None], torch.zeros_like(letter), letter)

    def logits(self, x: Tensor) -> Tensor:
        """Of the residual stream after the last block, in float32."""
        return F.linear(self.norm(x).float(), self.out.weight.float(), self.out.bias.float())

    def read(self, prompts: Prompts, *, stride: int = 1) -> "Tracked":
        """Read prompts of any length. Nothing is dropped, so `stride` does not matter."""
        return Tracked(self, prompts.ids.to(self.device))

    def loss(self, inputs: Tensor, targets: Tensor, chosen: Tensor | None = None) -> Tensor:
        return F.cross_entropy(self(inputs).flatten(0, 1), targets.flatten())

    def training_logits(self, inputs: Tensor, chosen: Tensor | None = None) -> Tensor:
        logits: Tensor = self(inputs)
        return logits

    @torch.no_grad()
    def residual_stream(self, ids: Tensor) -> Tensor:
        """ids: [windows, tokens]; result: [layers + 1, windows, tokens, width].

        The first is 0: before the first block nothing is known.
        """
        ids = ids.to(self.device)
        stream, place = self._beliefs(ids)
        return torch.stack([self._at_tokens(b, ids, place).float() for b in stream])

    def with_initial_weights(self, seed: int) -> "Phases":
        with torch.random.fork_rng(devices=[]), torch.device("cpu"):
            torch.manual_seed(seed)
            model = Phases(self.config, vocabulary=self.vocabulary)
        return model.to(self.device, self.tokens.weight.dtype).eval()

    @property
    def description(self) -> str:
        return (
            f"Phases of prime powers, {self.config.description},"
            f" {self.parameter_count / 1e6:.3g} M parameters, predicts next tokens"
        )


class Tracked:
    """Prompts that have been read, with the evidence so far on every place of every period.

    A word changes one place of each period. So a token costs the same however much was read.
    """

    @torch.no_grad()
    def __init__(self, model: Phases, prompts: Tensor) -> None:
        """prompts: [prompts, tokens]."""
        if prompts.shape[1] < 1:
            raise InputError("a prompt needs at least one token")
        self.model = model
        parts = [
            self._begun(part) for part in torch.split(prompts, max(1, AT_ONCE // prompts.shape[1]))
        ]
        self._read = torch.cat([part.read for part in parts])
        sums = zip(*(part.sums for part in parts), strict=True)
        self._sums = [PeriodSums.joined(layer) for layer in sums]
        values = zip(*(part.values for part in parts), strict=True)
        self._values = [torch.cat(layer) for layer in values]
        self._predict(prompts[:, -1])

    def _begun(self, prompts: Tensor) -> "Begun":
        """What some of the prompts tell; all of them at once would take 0.1 GB a prompt."""
        model = self.model
        last, place = ended_words(prompts)
        words = model.tokens(last)  # [prompts, words, width]
        begun = Begun(place[:, -1], [], [])
        ended = torch.arange(words.shape[1], device=prompts.device) < begun.read[:, None]
        b = torch.zeros_like(F.pad(words, (0, 0, 0, 1)))
        for block in model.blocks:
            evidence, values = block.evidence(b[:, :-1] + words)
            if block is not model.blocks[-1]:
                b = block.add_up(b, evidence, values)
            evidence = evidence.double() * ended[..., None]
            begun.sums.append(PeriodSums.of(evidence, model.config.periods))
            begun.values.append((values * ended[..., None]).sum(1))
        return begun

    def log_probabilities(self) -> Tensor:
        return self._logits.log_softmax(-1)

    @torch.no_grad()
    def append(self, tokens: Tensor) -> None:
        tokens = tokens.to(self.model.device)
        words, ended = self.model.tokens(tokens), word_ends(tokens)[:, None]
        for block, b, sums, values in zip(
            self.model.blocks, self._known, self._sums, self._values, strict=True
        ):
            evidence, value = block.evidence(b + words)
            sums.add(self._read, evidence * ended)
            values += value * ended
        self._read = self._read + ended[:, 0]
        self._predict(tokens)

    def _predict(self, tokens: Tensor) -> None:
        """Compute what is known of the next word, and the logits after these last tokens."""
        words = self.model.tokens(tokens)
        b = torch.zeros_like(words)
        self._known: list[Tensor] = []  # what each layer begins with, [prompts, width]
        for block, sums, values in zip(self.model.blocks, self._sums, self._values, strict=True):
            self._known.append(b)
            logs = sums.log_probabilities(self._read).float()
            b = block.update(b, logs, values / (self._read[:, None] + PRIOR))
        self._logits = self.model.logits(b + words * ~word_ends(tokens)[:, None])


class Begun(NamedTuple):
    """What prompts tell: words that have ended, and for each layer, sums of evidence and values."""

    read: Tensor  # [prompts]
    sums: list["PeriodSums"]
    values: list[Tensor]  # [prompts, AVERAGES]


class PeriodSums:
    """The evidence on each place of each period, and its sum over the places as a probability.

    Each period q has a binary tree in an array of 2q numbers: the places are q to 2q - 1, and
    number i is log(exp(2i) + exp(2i + 1)) of the numbers 2i and 2i + 1, so number 1 is that of all
    places. One change takes log2(q) steps, and small terms beside large ones are not lost.
    """

    def __init__(self, trees: Tensor, periods: tuple[int, ...]) -> None:
        """trees: [prompts, twice the sum of the periods]."""
        self._trees = trees
        self._all = periods
        self._periods = torch.tensor(periods, device=trees.device)
        self._begin = 2 * (self._periods.cumsum(0) - self._periods)  # of each tree
        self._depth = (2 * max(periods) - 1).bit_length() - 1

    @classmethod
    def of(cls, evidence: Tensor, periods: tuple[int, ...]) -> Self:
        """evidence: [prompts, words, periods]."""
        trees = []
        for channel, period in zip(evidence.unbind(-1), periods, strict=True):
            tree = F.pad(_rows(channel, period, channel.shape[1]).sum(1), (period, 0))
            for level in reversed(range(period.bit_length())):
                i = torch.arange(1 << level, min(2 << level, period), device=evidence.device)
                tree[:, i] = torch.logaddexp(tree[:, 2 * i], tree[:, 2 * i + 1])
            trees.append(tree)
        return cls(torch.cat(trees, 1), periods)

    @classmethod
    def joined(cls, parts: Sequence[Self]) -> Self:
        """Those of all prompts together."""
        return cls(torch.cat([part._trees for part in parts]), parts[0]._all)

    def log_probabilities(self, n: Tensor) -> Tensor:
        """The logarithm of the probability that each period divides n: [prompts, periods].

        n: [prompts], the number of words before it.
        """
        place = self._begin + self._periods + n[:, None] % self._periods
        return self._trees.gather(1, place) - self._trees[:, self._begin + 1]

    def add(self, n: Tensor, evidence: Tensor) -> None:
        """Add the evidence of word number n, [prompts, periods]."""
        node = self._periods + n[:, None] % self._periods
        self._trees.scatter_add_(1, self._begin + node, evidence.to(self._trees.dtype))
        for _ in range(self._depth):
            node = (node // 2).clamp(min=1)
            low, high = (self._trees.gather(1, self._begin + 2 * node + side) for side in (0, 1))
            self._trees.scatter_(1, self._begin + node, torch.logaddexp(low, high))


def word_ends(ids: Tensor) -> Tensor:
    """Whether a word ends with each token: with a word's own token, or with a space."""
    return (ids == SPACE) | (ids >= FIRST_WORD)


def ended_words(ids: Tensor) -> tuple[Tensor, Tensor]:
    """The token that ends each word, and how many words have ended by each token.

    Both are [batch, tokens]; if there are fewer words than tokens, spaces follow them.
    """
    ended = word_ends(ids)
    place = ended.cumsum(1)
    last = ids.new_full((ids.shape[0], ids.shape[1] + 1), SPACE)
    # Tokens that end no word go to one more place, which is cut off.
    last = last.scatter(1, torch.where(ended, place - 1, ids.shape[1]), ids)
    return last[:, :-1], place


def posteriors(evidence: Tensor, periods: tuple[int, ...]) -> Tensor:
    """The logarithms of the probabilities that each period divides n, from the words before n.

    evidence: [batch, words, periods]; result: [batch, words + 1, periods].
    """
    channels = evidence.mT.contiguous()  # [batch, periods, words], four times as fast to work on
    logs = [posterior(channels[:, i], period) for i, period in enumerate(periods)]
    return torch.stack(logs, 1).mT


def posterior(evidence: Tensor, period: int) -> Tensor:
    """The logarithm of the probability that the period divides n, from the words before n.

    evidence: [batch, words]; result: [batch, words + 1].

    At n, the evidence on each place of the period is a sum over its words before n. For the places
    from n to the end of its row this is the sum of the rows above; for those before n in its row,
    that of the rows above the next row:

        sums[row]        .  .  n  x  x  x
        sums[row + 1]    y  y  .  .  .  .

    """
    words = evidence.shape[1]
    table = _rows(evidence, period, words + 1 + period)
    sums = table.cumsum(1) - table  # [batch, rows, period]: of the rows above
    here, below = sums[:, :-1], sums[:, 1:]
    largest = torch.maximum(here, below).amax(-1, keepdim=True).detach()
    after = (here - largest).exp().flip(-1).cumsum(-1).flip(-1)
    before = F.pad((below - largest).exp().cumsum(-1)[..., :-1], (1, 0))
    logs: Tensor = here - largest - (after + before).log()
    return logs.flatten(1)[:, : words + 1]


def _rows(evidence: Tensor, period: int, words: int) -> Tensor:
    """The evidence in rows of one period each, at least `words` in all: [batch, rows, period]."""
    rows = -(-words // period)
    padded = F.pad(evidence, (0, rows * period - evidence.shape[1]))
    return padded.view(len(evidence), rows, period)


@cache  # not a buffer, which transformers would leave unfilled
@torch.inference_mode(False)
def smooth_basis(periods: tuple[int, ...], device: torch.device) -> Tensor:
    """How much each knot counts for each period, [periods, 3 · KNOTS].

    The knots are equally spaced in log p, from 2 to the largest period; the first `KNOTS` columns
    are for primes, the next for their squares, and the last for higher powers.
    """
    powers = np.array(periods, np.float64)
    primes = np.array([prime_of(period) for period in periods], np.float64)
    exponents = np.rint(np.log(powers) / np.log(primes)).astype(int)
    places = np.log(primes / 2) / np.log(max(3, powers.max()) / 2) * (KNOTS - 1)
    near = np.maximum(0, 1 - np.abs(places[:, None] - np.arange(KNOTS)))
    kinds = np.minimum(exponents, 3)[:, None] == [1, 2, 3]
    basis = (kinds[:, :, None] * near[:, None]).reshape(len(periods), -1)
    return torch.from_numpy(basis).to(device, torch.float32)


def prime_of(power: int) -> int:
    """The prime of which this is a power."""
    return next(p for p in range(2, power + 1) if power % p == 0)
