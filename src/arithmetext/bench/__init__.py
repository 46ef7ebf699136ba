"""Speed, side by side with the peers that are installed, measured in one run."""

import logging
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

# Who → case → one run, which returns its seconds.
Runs = dict[str, dict[str, Callable[[], float]]]

ROUNDS = 5  # of everything in turn, the best counts: other work on the machine comes and goes


def sieve() -> dict[str, Any]:
    """Words made against integers factored (PARI/GP) and primes counted (primesieve)."""
    from ..text.ranges import over_ranges, spans
    from ..text.sieve import passing_words, piece_size, segment_size

    def ours(lo: int, count: int, threads: int) -> float:
        def made(a: int, b: int) -> int:
            return sum(len(passing_words(*span)) for span in spans(a, b, segment_size(b)))

        start = time.perf_counter()
        size = piece_size(lo + count)
        assert sum(over_ranges(made, lo, lo + count, size=size, threads=threads)) == count
        return time.perf_counter() - start

    ranges = {"1e10": (10**10, 10**7), "1e15": (10**15, 10**6)}
    # Two threads need a longer range to be seen at work.
    threads = {"1e10, 1 thread": 1, "1e10, 2 threads": 2}
    for lo, count in ranges.values():
        ours(lo, count, 1)  # compiles the kernels, makes the base primes
    runs: Runs = {"ours": {name: partial(ours, *span, 1) for name, span in ranges.items()}}
    for name, number in threads.items():
        runs["ours"][name] = partial(ours, 10**10, 4 * 10**8, number)
    counts = {name: count for name, (_, count) in ranges.items()}
    counts |= dict.fromkeys(threads, 4 * 10**8)
    if shutil.which("gp"):
        bodies = {"forfactored, empty loop": "", "forfactored, counting primes": "c+=#n[2]~"}
        for peer, body in bodies.items():
            runs[peer] = {name: partial(_forfactored, *span, body) for name, span in ranges.items()}
    if shutil.which("primesieve"):
        runs["primesieve, counting"] = {
            name: partial(_primesieve, *span) for name, span in ranges.items()
        }
    return _report(
        runs,
        counts,
        unit="million integers a second",
        conditions={
            "ranges": "1e7 integers from 1e10 and 1e6 from 1e15, one thread; 4e8 from 1e10 for"
            " the threads",
            "not in the figures": "compiling, starting a process, and, for ours, making the base"
            " primes, which are made once and kept",
        },
    )


def encode() -> dict[str, Any]:
    """Words to tokens against Hugging Face tokenizers and tiktoken, which take the text."""
    import tempfile
    from importlib.util import find_spec

    import numpy as np

    from ..text.sieve import words
    from ..tokens import BPE
    from ..tokens.spelling import spell

    def timed(work: Callable[[], Any]) -> float:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    tokenizer = BPE.train(256)
    short, long = words(10**10, 10**10 + 112_000), words(10**10, 10**10 + 10**7)
    text = spell(short)
    ids = tokenizer.encode(short)
    runs: Runs = {
        "ours": {
            "1 MB": partial(timed, lambda: tokenizer.encode(short, threads=1)),
            "1e7 words": partial(timed, lambda: tokenizer.encode(long, threads=1)),
            "1e7 words, 2 threads": partial(timed, lambda: tokenizer.encode(long, threads=2)),
        }
    }
    characters = len(spell(long))
    counts = {"1 MB": len(text), "1e7 words": characters, "1e7 words, 2 threads": characters}
    if find_spec("tokenizers"):
        from tokenizers import Tokenizer

        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            tokenizer.save(Path(file.name))
            theirs = Tokenizer.from_file(file.name)
        assert np.array_equal(theirs.encode(text).ids, ids)
        runs["Hugging Face tokenizers"] = {"1 MB": partial(timed, lambda: theirs.encode(text))}
    if find_spec("tiktoken"):
        from tiktoken import Encoding

        ranks = {token.encode(): rank for rank, token in enumerate(tokenizer.vocabulary)}
        tiktoken = Encoding(
            "arithmetext", pat_str=r"[\s\S]+", mergeable_ranks=ranks, special_tokens={}
        )
        assert np.array_equal(tiktoken.encode_ordinary(text), ids)
        runs["tiktoken"] = {"1 MB": partial(timed, lambda: tiktoken.encode_ordinary(text))}
    return _report(
        runs,
        counts,
        unit="MB of text a second",
        conditions={
            "text": "D = 256; integers from 1e10, 1 MB and 1e7 words, one thread unless said",
            "same ids": "checked for every peer",
            "not in the figures": "compiling, making the tables, spelling the text for the peers",
        },
    )


def train() -> dict[str, Any]:
    """Steps of training against Hugging Face's GPT-2 in a plain loop, same shape and batches.

    On a card the paper's model with half a million tokens a step, elsewhere that of `ntp-laptop`.
    """
    from importlib.util import find_spec

    from ..training.config import changed
    from ..training.devices import world
    from ..training.loop import Run
    from ..training.recipes import recipe
    from ..training.stream import Share

    waited, worked = 0.0, 0.0

    def ours(run: Run, parts: Iterator[Any]) -> float:
        nonlocal waited, worked
        start = time.perf_counter()
        rows = [run.step(i, parts) for i in range(steps)]
        rows[-1].seconds()  # waits for its end
        seconds = time.perf_counter() - start
        waited, worked = waited + sum(row.waited for row in rows), worked + seconds
        return seconds

    with world() as here:
        card = here.device.type == "cuda"
        steps = 4 if card else 8
        settings = ["model.positions=learned", "training.steps=1e6"]
        config = changed(recipe("ntp-paper" if card else "ntp-laptop"), settings)
        shape = config.model
        tokenizer = config.tokens.tokenizer(config.text, config.n)
        parts = Share(config, tokenizer, here.rank, here.size).parts(0)
        runs: Runs = {"ours": {}}
        for optimizer, name in {"adamw": "AdamW", "muon": "Muon"}.items():
            run = Run(changed(config, [f"training.optimizer={optimizer}"]), here)
            ours(run, parts)  # compiles
            runs["ours"][name] = partial(ours, run, parts)
        if find_spec("transformers"):
            kinds = {"Hugging Face GPT-2": False} | ({"the same, compiled": True} if card else {})
            for peer, compiled in kinds.items():
                runs[peer] = {
                    "AdamW": _hugging_face_loop(run, next(parts), steps, compiled=compiled)
                }
        waited = worked = 0.0
        report = _report(
            runs,
            dict.fromkeys(runs["ours"], steps * config.training.batch),
            per=1e3,
            rounds=3 if card else ROUNDS,
            unit="thousand tokens a second",
            conditions={
                "device": here.name,
                "model": f"{shape.description}, L = {shape.context}, D = {config.tokens.size},"
                f" {'bfloat16' if here.bf16 else 'float32'}",
                "batch": f"{config.training.batch} tokens, {run.micro} windows at once",
                "not in the figures": "compiling",
            },
        )
        report["conditions"]["time spent waiting for text"] = f"{waited / worked:.2%}"
        mfu = run.mfu(report["ours"]["AdamW"] * 1e3)
        if mfu is not None:
            report["conditions"]["MFU"] = f"{mfu:.1%} (AdamW)"
        return report


def _hugging_face_loop(run: Any, part: Any, steps: int, *, compiled: bool) -> Callable[[], float]:
    """The loop of a tutorial: precision and batch of `run`, fused AdamW, clipping.

    It reads the same text again and again, so nothing of ours is in its way.
    """
    import torch

    here = run.here
    model = _hugging_face_gpt(run.model).to(here.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    forward = torch.compile(model, dynamic=False) if compiled else model
    inputs = part.inputs.to(here.device)

    def work() -> float:
        start = time.perf_counter()
        for _ in range(steps):
            for _ in range(run.accumulation):
                with here.precision():
                    loss = forward(input_ids=inputs, labels=inputs).loss / run.accumulation
                loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        loss.item()
        return time.perf_counter() - start

    work()  # compiles
    return work


def _hugging_face_gpt(ours: Any) -> Any:
    """Their GPT-2 of the same shape."""
    from importlib import import_module

    transformers: Any = import_module("transformers")
    transformers.logging.set_verbosity_error()
    shape = ours.config
    return transformers.GPT2LMHeadModel(
        transformers.GPT2Config(
            vocab_size=ours.vocabulary,
            n_positions=shape.context,
            n_embd=shape.width,
            n_layer=shape.layers,
            n_head=shape.heads,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=None,
            eos_token_id=None,
        )
    )


def generate() -> dict[str, Any]:
    """Tokens after a full context, against loops with Hugging Face's GPT-2 of the same shape.

    On a card the paper's model and 128 prompts, elsewhere that of `ntp-laptop` and 16.
    """
    from importlib.util import find_spec

    import torch

    from ..evaluation.generation import generate as go_on
    from ..models.gpt import GPT, GPTConfig
    from ..models.language import Prompts
    from ..training.devices import world

    with world() as here:
        card = here.device.type == "cuda"
        shape = GPTConfig() if card else GPTConfig(layers=2, heads=2, context=256)
        prompts, exactly = (128, 32) if card else (16, 16)
        torch.manual_seed(0)
        model = GPT(shape, vocabulary=256, causal=True).for_inference(here.device)
        ids = torch.randint(256, (prompts, shape.context), device=here.device)
        block = shape.context // 4

        def ours(count: int, stride: int) -> float:
            start = time.perf_counter()
            go_on(model.read(Prompts(ids), stride=stride), count).cpu()
            return time.perf_counter() - start

        exact, blocks = "exact: the window read for each token", "by blocks: a quarter forgotten"
        counts = {exact: exactly, blocks: shape.context}
        strides = {exact: 1, blocks: block}
        runs: Runs = {"ours": {case: partial(ours, counts[case], strides[case]) for case in counts}}
        if find_spec("transformers"):
            theirs = _hugging_face_gpt(model).to(here.device, next(model.parameters()).dtype).eval()
            runs["Hugging Face GPT-2, no cache"] = {
                exact: partial(_without_cache, theirs, ids, counts[exact])
            }
            runs["Hugging Face GPT-2, its cache"] = {
                blocks: partial(_with_cache, theirs, ids, block, counts[blocks])
            }
        for cases in runs.values():
            for run in cases.values():
                run()  # warms up
        figures = _report(
            runs,
            {case: prompts * count for case, count in counts.items()},
            per=1e3,
            rounds=3,
            unit="thousand tokens a second",
            conditions={
                "device": here.name,
                "model": f"{shape.layers} layers of {shape.heads} heads, L = {shape.context},"
                f" D = 256, {'bfloat16' if here.bf16 else 'float32'}",
                "prompts": f"{prompts} of {shape.context} tokens, all at once; {exactly} tokens"
                f" generated exactly, {shape.context} by blocks",
            },
        )
        rates = figures["ours"]
        figures["conditions"]["by blocks against exact"] = f"{rates[blocks] / rates[exact]:.1f}×"
        whole = prompts * shape.context / rates[exact] / 1e3
        figures["conditions"][f"{shape.context} tokens of each prompt, exactly"] = f"{whole:.1f} s"
        return figures


def _without_cache(model: Any, ids: Any, count: int) -> float:
    """The window is read for each token, as it must be where it slides."""
    import torch

    start = time.perf_counter()
    with torch.no_grad():
        for _ in range(count):
            token = model(input_ids=ids, use_cache=False).logits[:, -1:].argmax(-1)
            ids = torch.cat([ids[:, 1:], token], 1)
    ids.cpu()
    return time.perf_counter() - start


def _with_cache(model: Any, ids: Any, block: int, count: int) -> float:
    """The window is read when it is full, without its oldest block; in between there is a cache."""
    import torch

    start = time.perf_counter()
    with torch.no_grad():
        for _ in range(count // block):
            ids = new = ids[:, block:]
            past = None
            for _ in range(block):
                answer = model(input_ids=new, past_key_values=past, use_cache=True)
                past, new = answer.past_key_values, answer.logits[:, -1:].argmax(-1)
                ids = torch.cat([ids, new], 1)
    ids.cpu()
    return time.perf_counter() - start


def hmm() -> dict[str, Any]:
    """Log-likelihood and its gradient on the CPU, against a pass of other libraries.

    Theirs is an iteration of expectation–maximisation, or for dynamax the gradient too; all
    of these are the forward and the backward algorithm.
    """
    from importlib.util import find_spec

    import torch

    from ..models.hmm import HMM, HMMConfig

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
    runs: Runs = {
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
            runs[peer] = {same: prepare(*parameters, few)}
    return _report(
        runs,
        {same: few.numel(), more: many.numel(), both: many.numel()},
        per=1e3,
        rounds=3,
        unit="thousand tokens a second",
        conditions={
            "model": f"H = {states}, D = {tokens}, the same parameters for all",
            "sequences": f"random tokens, the same for all; {more} for ours alone",
            "threads": "ours one unless said; the others as many as they take",
            "not in the figures": "compiling, and setting the parameters",
        },
    )


def _hmmlearn(initial: Any, transition: Any, emission: Any, ids: Any) -> Callable[[], float]:
    """One iteration, by the faster of its two implementations."""
    from importlib import import_module

    library: Any = import_module("hmmlearn.hmm")
    logging.getLogger("hmmlearn").setLevel(logging.ERROR)  # it warns of too little data
    states, tokens = emission.shape

    def work() -> float:
        model = library.CategoricalHMM(
            states, n_features=tokens, n_iter=1, init_params="", implementation="scaling"
        )
        model.startprob_ = _rows(initial)
        model.transmat_, model.emissionprob_ = _rows(transition), _rows(emission)
        start = time.perf_counter()
        model.fit(ids.numpy().reshape(-1, 1), [ids.shape[1]] * len(ids))
        return time.perf_counter() - start

    return work


def _pomegranate(initial: Any, transition: Any, emission: Any, ids: Any) -> Callable[[], float]:
    """The expectations of one iteration."""
    from importlib import import_module

    import torch

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
    """The log-likelihood and its gradient, compiled, all windows together."""
    from importlib import import_module

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

    work()  # compiles
    return work


def _rows(probabilities: Any) -> Any:
    """In float64, with sums of one to its precision."""
    rows = probabilities.double().numpy()
    return rows / rows.sum(-1, keepdims=True)


def start() -> dict[str, Any]:
    """Short commands from start to end against importing typer and rich, which all of them do."""
    nt = [sys.executable, "-c", "from arithmetext.cli import main; main()"]  # as `nt` itself does
    library = "import arithmetext as nt; nt.words(10**13, 10**13 + 100)"
    window = subprocess.run([*nt, "words", "31415926535897", "64"], capture_output=True, check=True)
    commands = {
        "nt --help": [*nt, "--help"],
        "nt word 360": [*nt, "word", "360"],
        "nt tree 360": [*nt, "tree", "360"],
        "nt recipes": [*nt, "recipes"],
        "nt words 1e13 100": [*nt, "words", "1e13", "100"],
        "nt.words(10**13, 10**13 + 100)": [sys.executable, "-c", library],
        "nt census 1e11": [*nt, "census", "1e11"],
        "nt find '111000 10' --to 1e6": [*nt, "find", "111000 10", "--to", "1e6"],
        "nt locate, 64 words": [*nt, "locate"],
    }
    peer = 'python -c "import typer, rich"'
    everything = {peer: [sys.executable, "-c", "import typer, rich"]} | commands
    rounds = 9
    times: dict[str, list[float]] = {name: [] for name in everything}
    for i in range(rounds + 1):
        for name, command in everything.items():
            begin = time.perf_counter()
            subprocess.run(command, input=window.stdout, capture_output=True, check=True)
            if i:  # the first round compiles kernels and fills caches
                times[name].append(time.perf_counter() - begin)
    seconds = {name: round(median(each), 4) for name, each in times.items()}
    theirs = seconds.pop(peer)
    return {
        "conditions": {"machine": _machine(), "median of": rounds, "caches": "warm"},
        "unit": "seconds from start to end",
        "ours": seconds,
        "peers": {peer: dict.fromkeys(seconds, theirs)},
        "ratio": {peer: {name: round(each / theirs, 3) for name, each in seconds.items()}},
    }


SUBJECTS = {
    "sieve": sieve,
    "encode": encode,
    "train": train,
    "hmm": hmm,
    "generate": generate,
    "start": start,
}


def _report(
    runs: Runs,
    counts: dict[str, int],
    *,
    unit: str,
    conditions: dict[str, Any],
    per: float = 1e6,
    rounds: int = ROUNDS,
) -> dict[str, Any]:
    """Run everything in turn, several times; so many of `per` a second, and ratios to the peers."""
    best: dict[tuple[str, str], float] = {}
    for _ in range(rounds):
        for who, cases in runs.items():
            for case, run in cases.items():
                best[who, case] = min(run(), best.get((who, case), float("inf")))
    rates = {
        who: {case: round(counts[case] / best[who, case] / per, 3) for case in cases}
        for who, cases in runs.items()
    }
    ours = rates.pop("ours")
    return {
        "conditions": {"machine": _machine(), "best of": rounds} | conditions,
        "unit": unit,
        "ours": ours,
        "peers": rates,
        "ratio": {
            who: {case: round(ours[case] / rate, 3) for case, rate in cases.items()}
            for who, cases in rates.items()
        },
    }


def _forfactored(lo: int, count: int, body: str) -> float:
    script = (
        f"c=0;t=getwalltime();\nforfactored(n={lo},{lo + count - 1},{body});\n"
        'print("ms ",getwalltime()-t)\n'
    )
    answer = subprocess.run(
        ["gp", "-q", "-f", "-s", "1G"], input=script, capture_output=True, text=True, check=True
    )
    return float(re.findall(r"ms (\d+)", answer.stdout)[0]) / 1000


def _primesieve(lo: int, count: int) -> float:
    # Its own clock has three digits after the point, too few here: the difference of two whole
    # runs, one of them over nearly nothing, leaves the start of the process out as well.
    def run(length: int) -> float:
        start = time.perf_counter()
        subprocess.run(
            ["primesieve", str(lo), f"-d{length}", "-t1", "--quiet"],
            capture_output=True,
            check=True,
        )
        return time.perf_counter() - start

    return max(run(count) - run(1), 1e-4)


def _machine() -> str:
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as cpuinfo:
            name = re.findall(r"model name\s*: (.*)", cpuinfo.read())[0]
    except (OSError, IndexError):
        pass
    return f"{name}, Python {platform.python_version()}"
