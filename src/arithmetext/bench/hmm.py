"""`nt bench hmm`: the speed of the HMM's log-likelihood and its gradient, on the CPU.

The peers run the same forward and backward algorithms: hmmlearn and pomegranate in one iteration of
expectation–maximisation, dynamax for the gradient.
"""

import logging
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch

from ..models.hmm import HMM, HMMConfig
from .comparison import Timers, compare


def measure() -> dict[str, Any]:
    states, tokens, windows, length = 512, 256, 64, 64
    torch.manual_seed(0)
    model = HMM(HMMConfig(states=states, conditioned="sequence"), vocabulary=tokens)
    few = torch.randint(tokens, (windows, length))
    many = torch.randint(tokens, (4 * windows, 4 * length))

    def ours(ids: torch.Tensor, threads: int) -> float:
        torch.set_num_threads(threads)
        start = time.perf_counter()
        model.log_likelihood(ids).sum().backward()  # type: ignore[no-untyped-call]
        return time.perf_counter() - start

    same, more = f"{windows} windows of {length}", f"{4 * windows} windows of {4 * length}"
    both = f"{more}, 2 threads"
    timers: Timers = {
        "ours": {
            same: partial(ours, few, 1),
            more: partial(ours, many, 1),
            both: partial(ours, many, 2),
        }
    }
    parameters = [logs.detach().exp() for logs in model.logarithms()]
    peers: dict[str, Callable[..., Callable[[], float]]] = {
        "hmmlearn": _hmmlearn,
        "pomegranate": _pomegranate,
        "dynamax": _dynamax,
    }
    for peer, prepare in peers.items():
        if find_spec(peer):
            timers[peer] = {same: prepare(*parameters, few)}
    return compare(
        timers,
        {same: few.numel(), more: many.numel(), both: many.numel()},
        per=1e3,
        rounds=3,
        unit="thousand tokens a second",
        conditions={
            "model": f"H = {states}, D = {tokens}, the same parameters for all",
            "sequences": f"random tokens, the same for all; {more} for ours alone",
            "threads": "ours one if not named; the others as many as they take",
            "not in the figures": "compiling, and setting the parameters",
        },
    )


def _hmmlearn(initial: Any, transition: Any, emission: Any, ids: Any) -> Callable[[], float]:
    """One iteration of EM, with the faster of its two implementations."""
    library: Any = import_module("hmmlearn.hmm")
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)  # it warns that there is little data
    states, tokens = emission.shape

    def work() -> float:
        model = library.CategoricalHMM(
            states, n_features=tokens, n_iter=1, init_params="", implementation="scaling"
        )
        model.startprob_ = _normalized(initial)
        model.transmat_, model.emissionprob_ = _normalized(transition), _normalized(emission)
        start = time.perf_counter()
        model.fit(ids.numpy().reshape(-1, 1), [ids.shape[1]] * len(ids))
        return time.perf_counter() - start

    return work


def _pomegranate(initial: Any, transition: Any, emission: Any, ids: Any) -> Callable[[], float]:
    """The expectation step of one iteration of EM."""
    library: Any = import_module("pomegranate.hmm")
    categorical: Any = import_module("pomegranate.distributions").Categorical
    model = library.DenseHMM(
        [categorical(row[None]) for row in emission],
        edges=transition,
        starts=initial,
        ends=torch.full_like(initial, 1 / len(initial)),
    )

    def work() -> float:
        start = time.perf_counter()
        model.summarize(ids[..., None])
        return time.perf_counter() - start

    return work


def _dynamax(initial: Any, transition: Any, emission: Any, ids: Any) -> Callable[[], float]:
    """The log-likelihood and its gradient, compiled, for all windows at once."""
    jax: Any = import_module("jax")
    library: Any = import_module("dynamax.hidden_markov_model")
    states, tokens = emission.shape
    hmm = library.CategoricalHMM(states, 1, tokens)
    parameters, _ = hmm.initialize(
        jax.random.PRNGKey(0),
        initial_probs=jax.numpy.array(initial.numpy()),
        transition_matrix=jax.numpy.array(transition.numpy()),
        emission_probs=jax.numpy.array(emission.numpy())[:, None],
    )
    windows = jax.numpy.array(ids.numpy())[..., None]

    def whole(parameters: Any) -> Any:
        each = jax.vmap(lambda window: hmm.marginal_log_prob(parameters, window))
        return each(windows).sum()

    compiled = jax.jit(jax.value_and_grad(whole))

    def work() -> float:
        start = time.perf_counter()
        jax.block_until_ready(compiled(parameters))
        return time.perf_counter() - start

    work()  # compile
    return work


def _normalized(probabilities: Any) -> Any:
    """The probabilities in float64, with rows that sum to 1 in that precision."""
    rows = probabilities.double().numpy()
    return rows / rows.sum(-1, keepdims=True)
