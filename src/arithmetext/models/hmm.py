"""The paper's hidden Markov model: the baseline that a language model has to beat.

A hidden state moves by `transition` and emits a token by `emission`. The rows of these matrices,
and `initial`, are softmaxes of unconstrained parameters.

The forward algorithm, αₜ = (αₜ₋₁ · A) ∘ B[:, xₜ], takes one matrix product per token for all
windows together. Two rules keep it within float32, whatever the parameters and the length. α is
divided by its sum at every step. The emission of a token is taken relative to the state that emits
it best, and no transition is less likely than `MIN_PROBABILITY`, so the sum is at least
`MIN_PROBABILITY`, and float32 is precise enough.

The gradient with respect to the logarithm of a probability is the expected number of times that it
is used. The backward algorithm computes it with one more product per token, and a single
product over all tokens for the transitions. It stores the states of each step and nothing else;
autograd would store every intermediate result.

The model can be read in two ways. With `conditioned="token"` it predicts from the last token alone,
with `conditioned="sequence"` from all tokens, as a filter. Training, validation, generation and
scoring use the same reading; `conditioned_on` gives the other one with the same parameters.
"""

from copy import copy
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from ..errors import InputError
from .config import HMMConfig as HMMConfig
from .language import Prompts, Reading, TrainableModel

# float32 drops states with a probability below 1e-38. Later tokens can make such a state more
# important than another by at most a factor 1 / MIN_PROBABILITY, and another state has a
# probability of at least MIN_PROBABILITY, so the relative error is 1e-38 / 1e-15² = 1e-8.
MIN_PROBABILITY = 1e-15


class Probabilities(NamedTuple):
    """The matrices of the forward algorithm: H states, D tokens."""

    initial: Tensor  # [H]
    transition: Tensor  # [H, H], from row to column
    likelihood: Tensor  # [D, H], of a token in a state, relative to the best state for the token
    best: Tensor  # [D], log-probability of the token in its best state

    def start(self, tokens: Tensor) -> Tensor:
        """Distribution of the states after a first token: [B] to [B, H]."""
        return _normalised(self.initial * self.likelihood[tokens])

    def move(self, states: Tensor, tokens: Tensor) -> Tensor:
        """Distribution of the states after one more token: [B, H] and [B] to [B, H]."""
        return _normalised(states @ self.transition * self.likelihood[tokens])

    def predict(self, states: Tensor) -> Tensor:
        """Log-probabilities of the next token: [..., H] to [..., D]."""
        return (states @ self.transition @ self.likelihood.mT).log() + self.best


class HMM(TrainableModel):
    """`vocabulary` is D, the number of tokens."""

    config: HMMConfig
    compiles = False  # the steps from token to token would be compiled one by one
    precision = "float32"  # in fewer bits, rounding errors would add up over a window

    def __init__(self, config: HMMConfig, *, vocabulary: int) -> None:
        super().__init__()
        self.config, self.vocabulary = config, vocabulary
        states = config.states
        self.initial = nn.Parameter(nn.init.normal_(torch.empty(states)))
        random = nn.init.normal_(torch.empty(states, states), std=config.spread)
        self.transition = nn.Parameter(random)
        self.emission = nn.Parameter(nn.init.normal_(torch.empty(states, vocabulary)))

    def logarithms(self) -> tuple[Tensor, Tensor, Tensor]:
        """Logarithms of the initial [H], transition [H, H] and emission [H, D] probabilities."""
        rows = self.initial, self.transition, self.emission
        initial, transition, emission = (row.log_softmax(-1) for row in rows)
        return initial, transition, emission

    def log_likelihood(self, ids: Tensor) -> Tensor:
        """Log-likelihood of whole sequences, the first token included: [B, L] to [B]."""
        whole: Tensor = LogLikelihood.apply(*self.logarithms(), ids)  # type: ignore[no-untyped-call]
        return whole

    def loss(self, inputs: Tensor, targets: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Nats per token, of targets that follow the inputs."""
        if self.config.conditioned == "token":
            table = self.table().flatten()
            pairs = (inputs * self.vocabulary + targets).flatten()
            counts = torch.zeros_like(table).index_add_(0, pairs, table.new_ones(len(pairs)))
            return -(counts @ table) / len(pairs)
        initial, _, emission = self.logarithms()
        first = (initial + emission.mT[inputs[:, 0]]).logsumexp(-1)
        whole = self.log_likelihood(torch.cat([inputs[:, :1], targets], 1))
        return (first - whole).mean() / targets.shape[1]

    def table(self) -> Tensor:
        """Log-probabilities of a second token after the first, [D, D]."""
        p = probabilities(*self.logarithms())
        return p.predict(p.start(torch.arange(self.vocabulary, device=self.initial.device)))

    def conditioned_on(self, context: Literal["token", "sequence"]) -> "HMM":
        """The same parameters, read from one token or as a filter, however they were trained."""
        view = copy(self)
        view.config = replace(self.config, conditioned=context)
        return view

    @torch.no_grad()
    def forward(self, ids: Tensor) -> Tensor:
        """Log-probabilities of each next token given the token before it, or all, [B, L, D].

        The result has no gradient: train with `loss`.
        """
        if self.config.conditioned == "token":
            return self.table()[ids]
        p = probabilities(*self.logarithms())
        return p.predict(filtered(p, ids)[0].transpose(0, 1))

    def training_logits(self, inputs: Tensor, chosen: Tensor | None = None) -> Tensor:
        logits: Tensor = self(inputs)
        return logits

    @torch.no_grad()
    def read(self, prompts: Prompts, *, stride: int = 1) -> Reading:
        ids = prompts.ids.to(self.device)
        if ids.shape[1] < 1:
            raise InputError("a prompt needs at least one token")
        if self.config.conditioned == "token":
            return LastToken(self.table(), ids[:, -1])
        return Filter(probabilities(*self.logarithms()), ids)

    @property
    def description(self) -> str:
        context = {"token": "the last token", "sequence": "all tokens"}[self.config.conditioned]
        return f"hidden Markov model, {self.config.states} states, predicts from {context}"


class LastToken:
    """Prompts of which only the last token counts, [prompts]."""

    def __init__(self, table: Tensor, tokens: Tensor) -> None:
        """table: [D, D], log-probabilities of a token after another; tokens: [prompts]."""
        self.table, self.tokens = table, tokens

    def log_probabilities(self) -> Tensor:
        return self.table[self.tokens]

    def append(self, tokens: Tensor) -> None:
        self.tokens = tokens.to(self.table.device)


class Filter:
    """Prompts that have been read: the distribution of their states, [prompts, H]."""

    def __init__(self, p: Probabilities, prompts: Tensor) -> None:
        """prompts: [prompts, tokens]."""
        self.p, self.states = p, p.start(prompts[:, 0])
        for tokens in prompts.mT[1:]:
            self.append(tokens)

    def log_probabilities(self) -> Tensor:
        return self.p.predict(self.states)

    def append(self, tokens: Tensor) -> None:
        self.states = self.p.move(self.states, tokens.to(self.states.device))


def probabilities(initial: Tensor, transition: Tensor, emission: Tensor) -> Probabilities:
    """The matrices of the forward algorithm, from the logarithms of the probabilities."""
    best = emission.detach().amax(0)
    return Probabilities(
        initial.exp().clamp_min(MIN_PROBABILITY),
        transition.exp().clamp_min(MIN_PROBABILITY),
        (emission - best).mT.exp().contiguous(),
        best,
    )


def filtered(p: Probabilities, ids: Tensor) -> tuple[Tensor, Tensor]:
    """State distributions after each token, [L, B, H], and the sums that divide them, [L, B, 1]."""
    states = p.likelihood[ids.mT]
    sums = states.new_empty((*states.shape[:2], 1))
    moved = p.initial.repeat(len(ids), 1)
    for state, total in zip(states, sums, strict=True):  # in place: a GPU pays for each call
        torch.sum(state.mul_(moved), -1, keepdim=True, out=total)
        torch.mm(state.div_(total), p.transition, out=moved)
    return states, sums


class LogLikelihood(torch.autograd.Function):
    """Log-likelihood of sequences [B, L], from the logarithms of the probabilities: [B]."""

    @staticmethod
    def forward(
        ctx: Any, initial: Tensor, transition: Tensor, emission: Tensor, ids: Tensor
    ) -> Tensor:
        p = probabilities(initial, transition, emission)
        states, sums = filtered(p, ids)
        ctx.save_for_backward(ids, p.transition, p.likelihood, states, sums)
        return sums[..., 0].log().sum(0) + p.best[ids].sum(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        ids, transition, likelihood, states, sums = ctx.saved_tensors
        later = torch.empty_like(states)  # β: what later tokens say about each state, [L, B, H]
        later[-1] = gradient[:, None]
        # Emission of the token at step t in each state, divided by the sum at step t, [L, B, H].
        emission_ratio = likelihood[ids.mT].div_(sums)
        for t in range(len(later) - 1, 0, -1):
            torch.mm(emission_ratio[t].mul_(later[t]), transition.mT, out=later[t - 1])
        moves = transition * (states[:-1].flatten(0, 1).mT @ emission_ratio[1:].flatten(0, 1))
        visits = later.mul_(states)
        emissions = torch.zeros_like(likelihood)
        emissions.index_add_(0, ids.mT.flatten(), visits.flatten(0, 1))
        return visits[0].sum(0), moves, emissions.mT, None


def _normalised(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)
