"""The HMM: likelihoods against hmmlearn and all hidden paths, gradients, reading, training."""

import json
import math
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import example, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from torch import Tensor

from arithmetext.errors import InputError
from arithmetext.models import files
from arithmetext.models.gpt import GPT, GPTConfig
from arithmetext.models.hmm import HMM, MIN_PROBABILITY, HMMConfig, LogLikelihood
from arithmetext.models.language import Prompts
from arithmetext.tokens import WordTokens, load
from arithmetext.training.config import Config, differences, settings, with_changes
from arithmetext.training.devices import World
from arithmetext.training.loop import train
from arithmetext.training.monitor import read
from arithmetext.training.recipes import recipe
from arithmetext.training.run import Run
from arithmetext.training.stream import ProcessBatches
from conftest import Run as Command
from conftest import tolerance
from tiny_runs import SHORT_RUN

TINY = ("model.states=8", *SHORT_RUN)
each_condition = pytest.mark.parametrize("conditioned", ["token", "sequence"])


def hmm(
    states: int = 5, vocabulary: int = 4, *, scale: float = 1.0, seed: int = 0, **options: Any
) -> HMM:
    torch.manual_seed(seed)
    model = HMM(HMMConfig(states=states, context=8, **options), vocabulary=vocabulary)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter *= scale
    return model.double()


def random_ids(vocabulary: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randint(vocabulary, shape, generator=torch.Generator().manual_seed(seed))


IDS = random_ids(5, 3, 8)


def in_hmmlearn(model: HMM) -> Any:
    """The same model in hmmlearn, with our least probability for states and transitions.

    It matters where a rare transition explains the tokens best.
    """
    library = pytest.importorskip("hmmlearn.hmm")
    initial, transition, emission = (logs.detach().exp() for logs in model.logarithms())
    floored = (initial.clamp_min(MIN_PROBABILITY), transition.clamp_min(MIN_PROBABILITY), emission)
    rows = [(row / row.sum(-1, keepdim=True)).numpy() for row in floored]
    theirs = library.CategoricalHMM(model.config.states, n_features=model.vocabulary)
    theirs.startprob_, theirs.transmat_, theirs.emissionprob_ = rows
    return theirs


def in_log_space(logarithms: tuple[Tensor, ...], ids: Tensor) -> Tensor:
    """The forward algorithm in float64, every sum by log-sum-exp, no move below the least."""

    def floored(logs: Tensor) -> Tensor:
        return logs + (logs.clamp_min(math.log(MIN_PROBABILITY)) - logs).detach()

    initial, transition, emission = (logs.double() for logs in logarithms)
    initial, transition = floored(initial), floored(transition)
    state = initial + emission.mT[ids[:, 0]]
    for tokens in ids.mT[1:]:
        state = (state[..., None] + transition).logsumexp(1) + emission.mT[tokens]
    return state.logsumexp(1)


# Likelihood


def over_all_paths(model: HMM, ids: list[int]) -> float:
    initial, transition, emission = (logs.exp().tolist() for logs in model.logarithms())
    total = 0.0
    for path in product(range(model.config.states), repeat=len(ids)):
        p = initial[path[0]] * emission[path[0]][ids[0]]
        for before, after, token in zip(path, path[1:], ids[1:], strict=False):
            p *= transition[before][after] * emission[after][token]
        total += p
    return math.log(total)


@pytest.mark.parametrize("length", [1, 2, 6])
def test_the_likelihood_is_the_sum_over_all_hidden_paths(length: int) -> None:
    model = hmm(3, 4, scale=2.0)
    for seed in range(3):
        ids = random_ids(4, 1, length, seed=seed)
        expected = over_all_paths(model, ids[0].tolist())
        assert model.log_likelihood(ids).item() == pytest.approx(expected, rel=1e-12)


@given(
    states=st.integers(1, 40),
    vocabulary=st.integers(2, 30),
    windows=st.integers(1, 5),
    length=st.integers(1, 60),
    scale=st.floats(0, 3),
    seed=st.integers(0, 1000),
)
@examples(max_examples=40)
@example(states=12, vocabulary=4, windows=2, length=25, scale=3.0, seed=189)  # needs the floor
def test_the_likelihood_is_that_of_hmmlearn(
    states: int, vocabulary: int, windows: int, length: int, scale: float, seed: int
) -> None:
    model = hmm(states, vocabulary, scale=scale, seed=seed)
    ids = random_ids(vocabulary, windows, length, seed=seed)
    theirs = in_hmmlearn(model)
    ours = model.log_likelihood(ids)
    for window, value in zip(ids, ours.tolist(), strict=True):
        assert value == pytest.approx(theirs.score(window[:, None].numpy()), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
def test_nothing_is_lost_in_float32(scale: float) -> None:
    """Probabilities down to e^-6000, thousands of tokens: each adds the error of one step."""
    model = hmm(13, 7, scale=scale, conditioned="sequence").float()
    ids = random_ids(7, 2, 4096)
    ours, exact = model.log_likelihood(ids), in_log_space(model.logarithms(), ids)
    assert ours.dtype == torch.float32
    step = tolerance(13)  # a sum over the states
    torch.testing.assert_close(ours.double(), exact, rtol=step, atol=0)
    gradients = [torch.autograd.grad(x.sum(), list(model.parameters())) for x in (ours, exact)]
    for one, other in zip(*gradients, strict=True):
        assert one.isfinite().all()
        assert (one - other).abs().max() <= step * ids.numel()  # it counts tokens
    for value in (model(ids), model.table(), model.read(Prompts(ids[:, :50])).log_probabilities()):
        assert value.isfinite().all()
        torch.testing.assert_close(value.exp().sum(-1), torch.ones(value.shape[:-1]))


# Gradients


def test_the_gradient_of_the_likelihood_is_that_of_finite_differences() -> None:
    logarithms = [logs.detach().requires_grad_() for logs in hmm(3, 4).logarithms()]
    ids = random_ids(4, 2, 5)

    def weighed(*logs: Tensor) -> Tensor:  # sequences differ in what they count
        whole: Tensor = LogLikelihood.apply(*logs, ids)
        return whole * torch.tensor([1.0, -3.0])

    assert torch.autograd.gradcheck(weighed, logarithms)


@each_condition
def test_the_gradient_of_the_loss_is_that_of_finite_differences(conditioned: str) -> None:
    model = hmm(3, 4, scale=2.0, conditioned=conditioned)
    inputs, targets = random_ids(4, 2, 5), random_ids(4, 2, 5, seed=1)
    names, parameters = zip(*model.named_parameters(), strict=True)

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self) -> Tensor:
            return model.loss(inputs, targets)

    def loss(*values: Tensor) -> Tensor:
        given = {f"model.{name}": value for name, value in zip(names, values, strict=True)}
        result: Tensor = torch.func.functional_call(Loss(), given, ())
        return result

    assert torch.autograd.gradcheck(loss, parameters)


def test_gradients_add_up_over_windows() -> None:
    model = hmm(6, 5)
    ids = random_ids(5, 3, 9)
    parameters = list(model.parameters())
    together = torch.autograd.grad(model.log_likelihood(ids).sum(), parameters)
    each = [torch.autograd.grad(model.log_likelihood(row[None]).sum(), parameters) for row in ids]
    for whole, *parts in zip(together, *each, strict=True):
        torch.testing.assert_close(whole, torch.stack(parts).sum(0))


# What the losses are


def test_the_loss_of_sequences_is_conditioned_on_their_first_token() -> None:
    model = hmm(4, 5, conditioned="sequence")
    ids = random_ids(5, 3, 8)
    first, whole = model.log_likelihood(ids[:, :1]), model.log_likelihood(ids)
    expected = (first - whole).mean() / 7
    torch.testing.assert_close(model.loss(ids[:, :-1], ids[:, 1:]), expected)


def test_the_loss_of_tokens_is_conditioned_on_one_token() -> None:
    model = hmm(4, 5, conditioned="token")
    ids = random_ids(5, 3, 8)
    pairs = torch.stack([ids[:, :-1], ids[:, 1:]], -1).flatten(0, 1)
    expected = (model.log_likelihood(pairs[:, :1]) - model.log_likelihood(pairs)).mean()
    torch.testing.assert_close(model.loss(ids[:, :-1], ids[:, 1:]), expected)


@each_condition
def test_validation_takes_the_loss_that_is_trained(conditioned: str) -> None:
    model = hmm(4, 5, conditioned=conditioned)
    ids = random_ids(5, 3, 8)
    logs = model.training_logits(ids[:, :-1]).gather(-1, ids[:, 1:, None])
    torch.testing.assert_close(-logs.mean(), model.loss(ids[:, :-1], ids[:, 1:]).detach())


# Predictions


def test_predictions_multiply_to_the_likelihood() -> None:
    model = hmm(6, 5, scale=2.0, conditioned="sequence")
    ids = random_ids(5, 3, 10)
    logs = model(ids)
    torch.testing.assert_close(logs.exp().sum(-1), torch.ones(3, 10, dtype=torch.float64))
    steps = logs[:, :-1].gather(-1, ids[:, 1:, None])[..., 0].sum(1)
    torch.testing.assert_close(model.log_likelihood(ids[:, :1]) + steps, model.log_likelihood(ids))


@each_condition
def test_predictions_sum_over_all_hidden_paths(conditioned: str) -> None:
    """Bayes' rule: the likelihood of the context and the token, divided by that of the context."""
    model = hmm(3, 4, scale=2.0, conditioned=conditioned)
    ids = random_ids(4, 2, 5)
    logs = model.read(Prompts(ids)).log_probabilities()
    for row, found in zip(ids.tolist(), logs.tolist(), strict=True):
        context = row[-1:] if conditioned == "token" else row
        before = over_all_paths(model, context)
        expected = [over_all_paths(model, [*context, token]) - before for token in range(4)]
        assert found == pytest.approx(expected, rel=1e-12)


@given(
    states=st.integers(1, 20),
    vocabulary=st.integers(2, 10),
    length=st.integers(1, 20),
    seed=st.integers(0, 1000),
)
@examples(max_examples=20)
def test_both_readings_are_those_of_hmmlearn(
    states: int, vocabulary: int, length: int, seed: int
) -> None:
    model = hmm(states, vocabulary, seed=seed)
    ids = random_ids(vocabulary, length + 1, seed=seed)
    theirs = in_hmmlearn(model)
    contexts: dict[Any, Tensor] = {"token": ids[length - 1 :], "sequence": ids}
    for conditioned, window in contexts.items():
        read = model.conditioned_on(conditioned).read(Prompts(ids[None, :-1]))
        expected = theirs.score(window[:, None].numpy()) - theirs.score(window[:-1, None].numpy())
        assert read.log_probabilities()[0, ids[-1]].item() == pytest.approx(expected, abs=1e-9)


def test_both_readings_share_the_parameters() -> None:
    model = hmm(4, 5, conditioned="token")
    other = model.conditioned_on("sequence")
    assert (model.config.conditioned, other.config.conditioned) == ("token", "sequence")
    torch.testing.assert_close(other.conditioned_on("token")(IDS), model(IDS))
    assert not torch.allclose(other(IDS), model(IDS))
    with torch.no_grad():
        model.emission.mul_(2)
    assert other.emission is model.emission
    assert other.description.endswith("predicts from all tokens")
    assert model.description.endswith("predicts from the last token")


def test_from_one_token_nothing_before_the_last_token_counts() -> None:
    model = hmm(6, 5, conditioned="token")
    whole, last = (model.read(Prompts(ids)).log_probabilities() for ids in (IDS, IDS[:, -1:]))
    torch.testing.assert_close(whole, last, atol=0, rtol=0)
    filtered = model.conditioned_on("sequence")
    assert not torch.allclose(filtered.read(Prompts(IDS)).log_probabilities(), last)


@each_condition
def test_reading_on_is_reading_more(conditioned: str) -> None:
    model = hmm(6, 5, conditioned=conditioned)
    ids = random_ids(5, 3, 10)
    logs = model(ids)
    reading = model.read(Prompts(ids[:, :1]))
    for t in range(10):
        torch.testing.assert_close(reading.log_probabilities(), logs[:, t])
        at_once = model.read(Prompts(ids[:, : t + 1])).log_probabilities()
        torch.testing.assert_close(at_once, logs[:, t])
        if t < 9:
            reading.append(ids[:, t + 1])


@each_condition
def test_an_empty_prompt_is_refused(conditioned: str) -> None:
    with pytest.raises(InputError, match="a prompt needs at least one token"):
        hmm(conditioned=conditioned).read(Prompts(torch.empty(2, 0, dtype=torch.int64)))


# Settings


def tiny(*settings: str) -> Config:
    return with_changes(recipe("hmm-laptop"), [*TINY, *settings])


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("model.layers=2", "no setting 'model.layers'; there are: task, n, "),
        ("model.heads=2", "no setting 'model.heads'; "),
        ("states=2", "no setting 'states'; did you mean model.states?"),
        ("zzz=2", f"no setting 'zzz'; there are: {', '.join(settings(HMMConfig))}"),
        ("model.states=0", "model.states must be 1 or more, not 0"),
        ("model.conditioned=word", "model.conditioned is one of token, sequence, not 'word'"),
        ("task=mlm", "HMM models take only task=ntp and training.optimizer=adamw"),
        ("training.optimizer=muon", "HMM models take only task=ntp and training.optimizer=adamw"),
    ],
)
def test_settings_that_an_hmm_has_not(setting: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        tiny(setting)
    assert str(refused.value).startswith(message)


def test_settings_of_an_hmm() -> None:
    config = tiny("model.states=2^4", "model.conditioned=token", "model.spread=2")
    assert config.model == HMMConfig(states=16, context=32, conditioned="token", spread=2)
    assert "model.states" in settings(HMMConfig)
    assert "model.layers" not in settings(HMMConfig)
    with pytest.raises(InputError, match=r"no setting 'model\.states'"):
        with_changes(recipe("ntp-laptop"), ["model.states=2"])


def test_a_file_says_by_its_settings_which_model_it_is(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    config = tiny()
    config.save(path)
    assert Config.load(path) == config
    values = json.loads(path.read_text())
    for model, expected in {
        "states": HMMConfig(states=3),
        "conditioned": HMMConfig(conditioned="sequence"),
        "layers": GPTConfig(layers=3),
    }.items():
        given = {model: getattr(expected, model)}
        batch = {"steps": 1, "batch": 1024}
        path.write_text(json.dumps(values | {"model": given, "training": batch}))
        assert Config.load(path).model == expected
    path.write_text(json.dumps(values | {"model": values["model"] | {"heads": 2}}))
    with pytest.raises(InputError, match=r"no setting 'model.heads'"):
        Config.load(path)


def test_differences_between_models_are_named() -> None:
    ours = recipe("hmm-laptop")
    found = differences(ours, with_changes(recipe("ntp-laptop"), []))
    assert "model.states = 256 and nothing" in found
    assert "model.layers = nothing and 2" in found


@pytest.mark.parametrize("size", [64, 256, 1024])
def test_recipes_of_the_paper(size: int) -> None:
    suffix = "" if size == 256 else f"-d{size}"
    for name, conditioned in {"hmm-paper": "token", "hmm-sequence": "sequence"}.items():
        config = recipe(name + suffix)
        assert (config.tokens.kind, config.tokens.size) == ("bpe", size)
        assert isinstance(config.model, HMMConfig)
        assert (config.model.states, config.model.conditioned) == (2 * size, conditioned)
        assert config.training.weight_decay == 0  # AdamW is Adam


# Training


def command(out: Path, *settings: str) -> list[str]:
    changes = [word for setting in (*TINY, *settings) for word in ("--set", setting)]
    return ["train", "hmm-laptop", *changes, "--out", str(out)]


def test_a_run_is_resumed_without_a_trace(tmp_path: Path, nt: Command) -> None:
    train(tiny(), tmp_path / "whole")
    out = tmp_path / "run"
    changes = [word for setting in TINY for word in ("--set", setting)]
    command = ["train", "hmm-laptop", *changes, "--out", out]
    # Something is in the way of the third checkpoint.
    (out / "checkpoints").mkdir(parents=True)
    (out / "checkpoints" / ".00000015.part").touch()
    answer = nt(*command)
    assert answer.returncode == 2, answer
    assert "--resume goes on from step 10" in answer.stderr
    (out / "checkpoints" / ".00000015.part").unlink()
    answer = nt(*command, "--resume")
    assert answer.returncode == 0, answer.stderr
    weights = "model/model.safetensors"
    assert (out / weights).read_bytes() == (tmp_path / "whole" / weights).read_bytes()
    rows = [row for row in read(out / "metrics.jsonl") if "loss" in row]
    assert [row["step"] for row in rows] == list(range(1, 41))
    assert rows[-1]["loss"] < rows[0]["loss"] - 0.5
    assert json.loads((out / "environment.json").read_text())["precision"] == "float32"


@each_condition
def test_the_exported_model_has_the_recorded_loss(conditioned: str, tmp_path: Path) -> None:
    config = tiny(f"model.conditioned={conditioned}")
    outcome = train(config, tmp_path / "run")
    model, tokenizer = files.load(tmp_path / "run" / "model")
    assert isinstance(model, HMM)
    assert model.config == config.model
    assert tokenizer.vocabulary == load(tmp_path / "run" / "tokenizer.json").vocabulary
    run = Run(config, World(0, 1, torch.device("cpu")))
    run.model = model
    validated = run.validate(ProcessBatches(config, tokenizer, 0, 1).validation)
    assert validated["validation_loss"] == pytest.approx(outcome.validation_loss, abs=1e-6)


def test_an_hmm_learns_more_than_pairs(tmp_path: Path) -> None:
    """Below the entropy of a token after the one before it, which no table of pairs can be."""
    sizes = ["model.states=32", "model.context=64", "training.batch=2^10", "tokens.size=64"]
    steps = ["training.steps=100", "training.validation=2^15"]
    config = with_changes(recipe("hmm-laptop"), [*sizes, *steps])
    outcome = train(config, tmp_path / "run")
    batches = ProcessBatches(config, load(tmp_path / "run" / "tokenizer.json"), 0, 1).validation
    inputs = torch.cat([batch.inputs for batch in batches]).flatten()
    pairs = inputs * 64 + torch.cat([batch.targets for batch in batches]).flatten()

    def entropy(ids: Tensor) -> float:
        shares = torch.bincount(ids).double() / len(ids)
        return -float(torch.xlogy(shares, shares).sum())

    assert outcome.validation_loss < entropy(pairs) - entropy(inputs) - 0.1


# Files


@pytest.fixture(scope="module")
def tokenizer() -> WordTokens:
    return WordTokens.commonest(16, x=10**4)


def test_models_are_read_as_they_were_written(tmp_path: Path, tokenizer: WordTokens) -> None:
    gpt = GPT(GPTConfig(layers=1, heads=1, context=8), vocabulary=16, causal=True)
    for name, model in {"hmm": hmm(5, 16, conditioned="sequence").float(), "gpt": gpt}.items():
        files.save(model, tokenizer, tmp_path / name)
        again, tokens = files.load(tmp_path / name)
        assert type(again) is type(model)
        assert again.config == model.config
        assert tokens.vocabulary == tokenizer.vocabulary
        torch.testing.assert_close(again.state_dict(), model.state_dict(), atol=0, rtol=0)


def test_folders_without_a_model(tmp_path: Path, tokenizer: WordTokens) -> None:
    def refusal(action: Callable[[], Any]) -> str:
        with pytest.raises(InputError) as refused:
            action()
        assert "\n" not in str(refused.value)
        return str(refused.value)

    folder = tmp_path / "model"
    assert "holds no model" in refusal(lambda: files.load(folder))
    with pytest.raises(InputError, match="a model of 9 tokens does not go with a tokenizer of 16"):
        files.save(hmm(5, 9), tokenizer, folder)
    assert not folder.exists()
    files.save(hmm(5, 16).float(), tokenizer, folder)
    config = folder / "config.json"
    right = json.loads(config.read_text())
    for wrong in ({"states": 6}, {"states": "5"}, {"colour": 1}, {"states": -1}):
        config.write_text(json.dumps(right | wrong))
        assert "do not make a model of kind hmm" in refusal(lambda: files.load(folder))
    config.write_text(json.dumps(right | {"model_type": "llama"}))
    assert "holds no model" in refusal(lambda: files.load(folder))
    config.write_text(json.dumps(right))
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-10])
    assert "truncated" in refusal(lambda: files.load(folder))
