"""All metrics of a model, and the commands that print them."""

import json
import math
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import arithmetext as api
from arithmetext.errors import InputError
from arithmetext.evaluation import evaluate as evaluating
from arithmetext.evaluation.codec import to_json
from arithmetext.evaluation.estimates import Estimate, ratio, share
from arithmetext.evaluation.evaluate import generation_metrics, measure
from arithmetext.evaluation.generation import continue_prompts
from arithmetext.evaluation.prompts import draw
from arithmetext.evaluation.subjects import EvaluatedModel, subject
from arithmetext.evaluation.words import accuracies
from arithmetext.integers import format_integer
from arithmetext.models.files import save
from arithmetext.models.gpt import GPT, GPTConfig
from arithmetext.models.hmm import HMM, HMMConfig
from arithmetext.models.language import Prompts
from arithmetext.models.locator import Locator
from arithmetext.models.ngram import NGram
from arithmetext.text.sieve import words
from arithmetext.text.splits import unseen
from arithmetext.tokens import BPE, WordTokens
from arithmetext.training.config import with_changes
from arithmetext.training.recipes import recipe
from arithmetext.trees import unpack
from conftest import tolerance
from stand_in import StandIn

AT = 10**13


def folder(tmp_path: Path, kind: str) -> Path:
    """An untrained model with a context of 16 tokens."""
    torch.manual_seed(0)
    causal, shape = kind != "masked", GPTConfig(layers=1, heads=1, context=16)
    tokenizer = BPE.train(64, lines=256)
    model: GPT | HMM
    if kind == "hmm":
        model = HMM(HMMConfig(states=8, context=16), vocabulary=64)
    else:
        model = GPT(shape, vocabulary=64 + (not causal), causal=causal)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter *= 4  # so that predictions differ
    save(model, tokenizer, tmp_path / kind)
    return tmp_path / kind


def in_float64(measured: EvaluatedModel) -> EvaluatedModel:
    """So that no choice between two tokens depends on the processor."""
    assert isinstance(measured.model, GPT | HMM)
    measured.model.double()
    return measured


# Intervals


def test_a_mean_and_its_interval() -> None:
    values = np.random.default_rng(1).normal(3, 2, 400)
    found = ratio(values)
    assert found.value == pytest.approx(values.mean())
    error = 1.96 * values.std() / math.sqrt(400)
    assert found.low == pytest.approx(values.mean() - error, abs=0.2 * error)
    assert found.high == pytest.approx(values.mean() + error, abs=0.2 * error)


def test_a_ratio_of_sums() -> None:
    assert ratio([1, 2, 0], [2, 2, 4]).value == pytest.approx(3 / 8)
    assert ratio([1, 1], [2, 2]) == pytest.approx((0.5, 0.5, 0.5))
    assert ratio([0, 0], [0, 0]) == Estimate(None, None, None)
    # Where some prompts have nothing to divide by, others still count.
    assert ratio([1, 0], [4, 0]) == (0.25, 0.25, 0.25)
    assert ratio([1.0, -math.inf]) == Estimate(None, None, None)
    many = ratio([3, 2, 1, 4, 2, 2, 2, 2], [1, 0, 0, 0, 0, 0, 0, 0])
    assert many.value == 18 and many.high is not None and many.high < math.inf


def test_shares_of_prompts() -> None:
    """Wilson's interval (1927) ends where p is z standard deviations away."""
    for hits, n in ((0, 8), (8, 8), (3, 8), (40, 128)):
        found = share([True] * hits + [False] * (n - hits))
        assert found.value == hits / n
        for end in found[1:]:
            assert end is not None
            away = abs(end - hits / n) / math.sqrt(max(1e-300, end * (1 - end) / n))
            extreme = end in (pytest.approx(0), pytest.approx(1))
            assert extreme or away == pytest.approx(1.959964, rel=1e-4)
    assert share([0, 0, 0]).high > 0.5 and share([1, 1, 1]).low < 0.5  # type: ignore[operator]
    assert share([1, 0, 1, 0], [True, False, True, True]).value == pytest.approx(2 / 3)
    assert share([1], [False]) == Estimate(None, None, None)


def test_intervals_hold_what_they_should() -> None:
    """They cover 19 times in 20, within five standard deviations."""
    random = np.random.default_rng(0)
    inside = 0
    for _ in range(300):
        low, high = ratio(random.exponential(2, 100))[1:]
        inside += low < 2 < high
    assert abs(inside - 285) <= 5 * math.sqrt(300 * 0.05 * 0.95) + 6  # skewed, so a little less


# Subjects


def test_what_is_not_there_is_named(refused: Any, tmp_path: Path) -> None:
    message = refused("evaluate", "nowhere")
    assert "there is no folder nowhere; models without a folder are: pretrained," in message
    begun = tmp_path / "begun"
    (begun / "checkpoints").mkdir(parents=True)
    recipe("ntp-laptop").save(begun / "config.json")
    (tmp_path / "empty").mkdir()
    for name, wrong in {
        "oracle": "ngram-8 and oracle-13",
        "locator-3": r"did you mean locator\?",
        str(tmp_path / "empty"): "empty holds no model: it has no config.json",
        "": "there is no folder '';",
        str(begun): "not finished",
    }.items():
        with pytest.raises(InputError, match=wrong):
            subject(name, AT)


def test_text_that_was_trained_on_is_not_measured_on() -> None:
    seen = recipe("ntp-laptop").text.seen
    assert unseen(10**13, seen) == (10**13, 10**13 + 10**6 + 1)
    assert unseen(99 * 10**9, seen) == (99 * 10**9, 99 * 10**9 + 10**6 + 1)
    for at in (2, 10**6, 5 * 10**9, 9 * 10**9):  # the last is in a validation range
        with pytest.raises(InputError, match=f"around {format_integer(at)} were used for training"):
            unseen(at, seen)
    with pytest.raises(InputError, match=r"beyond 2\^63"):
        unseen(10**30, seen)


def test_what_models_were_trained_on_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = with_changes(recipe("ntp-laptop"), ["n=1e12"])
    run = tmp_path / "run"
    folder(run, "gpt").rename(run / "model")
    config.save(run / "config.json")
    for name in (run, run / "model"):
        known = subject(str(name), AT)
        assert known.trained == config.text.train
        assert known.seen == config.text.train + config.text.validation
    alone = (run / "model").rename(tmp_path / "alone")
    assert subject(str(alone), AT).trained == recipe("ntp-laptop").text.train
    few = partial(NGram.count, words=10**5)
    monkeypatch.setattr(NGram, "count", few)
    counted = subject("ngram-2", AT)
    assert counted.trained == recipe("ntp-laptop").text.train
    assert counted.model.description == "2-grams of words"


# Everything


@pytest.mark.parametrize("kind", ["gpt", "hmm"])
def test_a_model_is_measured_alike_however_many_prompts_are_read_together(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = in_float64(subject(str(folder(tmp_path, kind)), AT))
    monkeypatch.setattr(evaluating, "BETAS", (1.0,))
    monkeypatch.setattr(evaluating, "SEQUENCES_PER_PROMPT", 2)
    together = measure(measured, AT, prompts=5, seed=3)
    monkeypatch.setattr("arithmetext.evaluation.prompts.BATCH", 2)
    monkeypatch.setattr("arithmetext.evaluation.scoring.BATCH_TOKENS", 16)
    apart = measure(measured, AT, prompts=5, seed=3)
    assert json.dumps(apart["generation"]) == json.dumps(together["generation"])
    assert apart["nats_per_word"]["value"] == pytest.approx(
        together["nats_per_word"]["value"], abs=16 * tolerance(64)
    )  # a word is no more than 16 tokens of 64
    for a, b in zip(apart["likelihood"], together["likelihood"], strict=True):
        assert a["true"]["value"] == pytest.approx(b["true"]["value"], abs=tolerance(64))
    json.dumps(together, allow_nan=False)
    other = measure(measured, AT, prompts=5, seed=4)
    assert other["generation"]["words"] != together["generation"]["words"]
    assert set(together["generation"]["slides"]) == (
        {"exact", "block"} if kind == "gpt" else {"exact"}
    )


class Flawed(StandIn):
    """A model that recites the text with some given errors."""

    def __init__(self, tokens: Tensor, size: int) -> None:
        self.tokens, self.size, self.place = tokens, size, 0

    def read(self, prompts: Prompts, *, stride: int = 1) -> "Flawed":
        self.place = 0
        return self

    def log_probabilities(self) -> Tensor:
        sure = torch.full((len(self.tokens), self.size), -30.0)
        return sure.scatter(1, self.tokens[:, self.place, None], 0.0)

    def append(self, tokens: Tensor) -> None:
        self.place += 1


def test_every_figure_of_a_flawed_reciter() -> None:
    """Compared with counts made here, word by word, in plain dictionaries."""
    tokens = WordTokens.commonest(256)
    prompts = draw(tokens, (AT, AT + 10**5), number=12, length=300, following=300)
    wrong = prompts.following.clone()
    prime, other = (3 + list(tokens.words).index(word) for word in (2, 10))
    wrong[:, 7:200:9] = prime
    wrong[:, 3:200:11] = other
    wrong[:5, 150:-4] = prompts.following[:5, 154:]  # five of them leave out four tokens
    wrong[3, 40:43] = torch.tensor([0, 0, 0])  # three empty words
    made = to_json(generation_metrics(Flawed(wrong, tokens.size), prompts, seed=0))

    said = [tokens.text(row.numpy()).split(" ")[:-1] for row in wrong]
    said = [
        [begun + first, *rest] for begun, (first, *rest) in zip(prompts.begun(), said, strict=True)
    ]
    true = [[unpack(int(w)) for w in row] for row in prompts.true_words([len(r) for r in said])]
    pairs = [list(zip(a, b, strict=True)) for a, b in zip(said, true, strict=True)]
    every = [pair for row in pairs for pair in row]
    quality = made["slides"]["exact"]
    shares = [sum(a == b for a, b in row) / len(row) for row in pairs]
    assert quality["accuracy"]["value"] == pytest.approx(np.mean(shares))
    assert quality["malformed"]["value"] == pytest.approx(3 / len(every))
    paper, left_out, shannon = [], [], []
    for row in pairs:
        p, q = (Counter(words) for words in zip(*((b, a) for a, b in row), strict=True))
        n = len(row)
        paper.append(sum(p[w] / n * math.log(p[w] / q[w]) for w in p if q[w]))
        left_out.append(sum(p[w] for w in p if not q[w]) / n)
        halves = [sum(c[w] / n * math.log(2 * c[w] / (p[w] + q[w])) for w in c) for c in (p, q)]
        shannon.append(sum(halves) / 2)
    assert quality["kl_paper"]["value"] == pytest.approx(np.mean(paper))
    assert quality["kl_left_out"]["value"] == pytest.approx(np.mean(left_out))
    assert quality["jensen_shannon"]["value"] == pytest.approx(np.mean(shannon))
    assert quality["kl_infinite"]["value"] == np.mean(np.array(left_out) > 0)
    scores = {row["word"]: row for row in made["words"]}
    for word in ("10", "1010", "101010"):
        right = sum(a == b == word for a, b in every)
        of_said, of_true = (sum(pair[k] == word for pair in every) for k in (0, 1))
        assert (scores[word]["true"], scores[word]["predicted"]) == (of_true, of_said)
        assert scores[word]["precision"]["value"] == pytest.approx(right / of_said)
        assert scores[word]["recall"]["value"] == pytest.approx(right / of_true)
        assert scores[word]["f1"]["value"] == pytest.approx(2 * right / (of_said + of_true))
    table = made["confusion"]
    row, column = table["true"].index("1010"), table["generated"].index("10")
    assert table["counts"][row][column] == sum(pair == ("10", "1010") for pair in every) > 0
    assert sum(line[-1] for line in table["counts"]) == 3
    generated = Counter(a or "malformed" for a, b in every if b == "10")
    assert made["primes"]["generated"] == dict(generated)
    assert made["primes"]["standing"] == dict(Counter(b for a, b in every if a == "10"))
    assert generated != Counter(b for a, b in every if a == "10")
    first = made["by_tokens"][4]
    assert first["tokens"] == 16
    for share_, row_, tokens_ in zip(first["each"], pairs, wrong, strict=True):
        count = tokens.text(tokens_[:16].numpy()).count(" ")
        assert share_ == pytest.approx(sum(a == b for a, b in row_[:count]) / count)
    aligned = made["alignment"]
    assert aligned["slipped"]["value"] == pytest.approx(5 / 12)
    slipped = [each["last_shift"] > 0 for each in aligned["each"]]
    assert slipped == [True] * 5 + [False] * 7
    assert aligned["accuracy_of_slipped"]["value"] == pytest.approx(np.mean(shares[:5]))
    assert aligned["accuracy_of_others"]["value"] == pytest.approx(np.mean(shares[5:]))
    assert aligned["realigned_accuracy"]["value"] > quality["accuracy"]["value"] + 0.1
    assert aligned["last_shifts"]["0"] == 7
    assert aligned["collapsed"]["value"] == 0
    assert aligned["slips_per_1000_words"]["value"] == pytest.approx(5000 / len(every))


def test_every_beta_and_both_strides_are_generated(tmp_path: Path) -> None:
    measured = in_float64(subject(str(folder(tmp_path, "gpt")), AT))
    prompts = draw(measured.tokenizer, (AT, AT + 10**5), number=9, length=16, following=16)
    made = generation_metrics(measured.model, prompts, seed=6)

    def accuracy(**options: Any) -> float:
        there = continue_prompts(measured.model, prompts, 16, **options)
        return float(accuracies(there.predicted, there.true).mean())

    exact, block = (made["slides"][name].accuracy.value for name in ("exact", "block"))
    assert (exact, block) == (accuracy(), accuracy(stride=4))
    tokens = [continue_prompts(measured.model, prompts, 16, stride=k).tokens for k in (1, 4)]
    assert not torch.equal(*tokens)
    for row in made["betas"]:
        expected = accuracy(stride=4, beta=row["beta"], seed=6)
        assert row["accuracy"].value == pytest.approx(expected)
    assert [row["beta"] for row in made["betas"]] == [*evaluating.BETAS, math.inf]
    assert len({round(row["malformed"].value, 6) for row in made["betas"]}) > 5


def test_likelihoods_are_measured_as_they_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of text around AT, against frequencies of the training ranges, at all lengths."""
    calls: dict[str, Any] = {}

    def noted(name: str) -> Any:
        real = getattr(evaluating, name)

        def call(*positional: Any, **named: Any) -> Any:
            calls[name] = (*positional[1:], named)
            return real(*positional, **named)

        return call

    for name in ("compare_with_controls", "runs", "impossible", "nats_and_words"):
        monkeypatch.setattr(evaluating, name, noted(name))
    monkeypatch.setattr(evaluating, "BETAS", ())
    monkeypatch.setattr(evaluating, "SEQUENCES_PER_PROMPT", 1)
    torch.manual_seed(0)
    tokens, trained = WordTokens.commonest(64), recipe("ntp-laptop").text.train
    model = HMM(HMMConfig(states=8, context=80), vocabulary=64)
    found = measure(
        EvaluatedModel("it", model, tokens, 80, trained, trained), AT, prompts=8, seed=5
    )
    window = (AT, AT + 10**6 + 1)
    shared = {"number": 8, "seed": 5}
    lengths = [2, 4, 8, 16, 32, 64, 80]
    assert calls["compare_with_controls"] == (
        tokens,
        [window],
        trained,
        shared | {"lengths": lengths},
    )
    by_frequency = shared | {"lengths": [80], "ways": ("by frequency",)}
    assert calls["runs"] == (tokens, [window], trained, by_frequency)
    assert calls["impossible"] == (tokens, [window], trained, shared | {"length": 80})
    assert calls["nats_and_words"][0].following.shape == (8, 32)
    assert set(found) >= {"context", "likelihood", "square_free_runs", "impossible"}
    assert len(found["likelihood"]) == 7 * 5


def test_the_perfect_predictor() -> None:
    bpe = BPE.train(256)
    model = EvaluatedModel("locator", Locator(bpe), bpe, 256, (), ())
    found = measure(model, AT, prompts=2, seed=0)
    assert found["nats_per_word"]["value"] == 0
    made = found["generation"]
    quality = made["slides"]["exact"]
    assert quality["accuracy"] == {"value": 1.0, "low": 1.0, "high": 1.0}
    assert quality["kl_paper"]["value"] == quality["jensen_shannon"]["value"] == 0
    assert quality["kl_infinite"]["value"] == quality["malformed"]["value"] == 0
    assert all(row["f1"]["value"] == 1 for row in made["words"])
    assert made["primes"]["generated"] == made["primes"]["standing"]
    assert made["alignment"]["collapsed"]["value"] == made["alignment"]["slipped"]["value"] == 0
    assert [row["tokens"] for row in made["by_tokens"]] == [2**k for k in range(9)]
    assert all(share in (None, 1) for row in made["by_tokens"] for share in row["each"])
    assert "likelihood" not in found  # it has no opinion on text that is none


def test_masked_models_fill_gaps(tmp_path: Path) -> None:
    measured = subject(str(folder(tmp_path, "masked")), AT)
    found = measure(measured, AT, prompts=4, seed=0)
    assert set(found) == {"at", "window", "masked"}
    rows = found["masked"]
    assert len(rows) == len(evaluating.MASKING_SHARES) * (1 + len(evaluating.BETAS))
    assert rows[-1]["beta"] == "inf" and 0 <= rows[-1]["accuracy"]["value"] <= 1


def test_plain_data() -> None:
    assert to_json(Estimate(1.0, math.nan, math.inf)) == {"value": 1.0, "low": None, "high": "inf"}
    assert to_json({"a": [np.arange(2), (-math.inf,)]}) == {"a": [[0, 1], ["-inf"]]}


# Commands


def test_evaluate_command(nt: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluating, "BETAS", (0.7, 1.0))
    path = folder(tmp_path, "gpt")
    options = ("--prompts", 8, "--seed", 7)
    answer = nt("evaluate", path, "--at", "1e13", "--at", "98e9", *options, "--json")
    assert answer.returncode == 0, answer.stderr
    report = json.loads(answer.stdout)
    assert (report["prompts"], report["seed"], report["context"]) == (8, 7, 16)
    assert [window["at"] for window in report["windows"]] == [10**13, 98 * 10**9]
    evaluation = api.evaluate(path, AT, prompts=8, seed=7)
    here = json.loads(json.dumps(evaluation.metrics))
    assert report["windows"][0] == here
    assert {name: getattr(evaluation, name) for name in report if name != "windows"} | {
        "windows": report["windows"]
    } == report
    shown = nt("evaluate", path, *options)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith(str(evaluation))
    lines = [line.split() for line in shown.stdout.splitlines()]

    def figures(estimate: dict[str, float]) -> list[str]:
        low, high = f"[{estimate['low']:.3f},", f"{estimate['high']:.3f}]"
        return [f"{estimate['value']:.3f}", low, high]

    made = here["generation"]
    exact = figures(made["slides"]["exact"]["accuracy"])
    assert ["stride", "of", "one", "token", *exact] in lines
    beta = next(row for row in made["betas"] if row["beta"] == 0.7)
    columns = ("accuracy", "kl_paper", "jensen_shannon", "malformed")
    assert ["0.7", *(part for column in columns for part in figures(beta[column]))] in lines
    word = made["words"][0]
    columns = ("precision", "recall", "f1")
    if word["predicted"]:
        scores = (part for column in columns for part in figures(word[column]))
        assert [word["word"], str(word["true"]), str(word["predicted"]), *scores] in lines
    assert max(map(len, shown.stdout.splitlines())) <= 106 + len(str(path))


def test_nothing_is_measured_if_a_place_is_refused(refused: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one prompt, not 0"):
        api.evaluate("locator", prompts=0)
    places = ("--at", "1e13", "--at", "5e9")
    assert "around 5e9 were used for training" in refused(
        "evaluate", folder(tmp_path, "gpt"), *places
    )
    assert "at most 9223372036854775807" in refused("evaluate", "locator", "--seed", "1e30")
    # An oracle is estimated at each place; the first one is not measured before the second fails.
    assert refused("evaluate", "oracle-13", "--at", "1e9", "--at", "1e7", "--prompts", 8) == (
        "nt: an oracle needs n of 41943040 or more, not 10000000: it is estimated from the 5242880"
        " integers after n, which must be of about the same size"
    )


def test_evaluate_command_of_a_masked_model(nt: Any, tmp_path: Path) -> None:
    shown = nt("evaluate", folder(tmp_path, "masked"), "--prompts", 8)
    assert shown.returncode == 0, shown.stderr
    assert "share of masked tokens predicted right" in shown.stdout and "β = ∞" in shown.stdout


def test_generate_command(nt: Any, tmp_path: Path) -> None:
    answer = nt("generate", "locator", "--at", "1e13", "--words", 20)
    assert answer.returncode == 0, answer.stderr
    rows = [line.split() for line in answer.stdout.splitlines() if "✓" in line]
    assert [int(row[0]) for row in rows] == list(range(10**13, 10**13 + 20))
    assert all(truth == said for _, _, truth, said in rows)
    [last] = words(10**13 + 19, 10**13 + 20).tolist()
    assert rows[-1][2] == unpack(last)
    assert "words are right: 1.000" in answer.stdout


def test_generate_command_as_json(nt: Any, tmp_path: Path) -> None:
    path = folder(tmp_path, "gpt")
    options = ("--words", 5, "--beta", 0.5, "--json")
    first, other = (nt("generate", path, *options, "--seed", seed).stdout for seed in (1, 2))
    made = json.loads(first)
    assert made["words"] != json.loads(other)["words"]
    assert [row["n"] for row in made["words"]] == list(range(10**13, 10**13 + 5))
    assert (made["beta"], made["seed"], made["at"], made["context"]) == (0.5, 1, 10**13, 16)
    right = sum(row["truth"] == row["prediction"] for row in made["words"])
    assert made["right"] == right


def test_generate_command_refuses(refused: Any, tmp_path: Path) -> None:
    path = folder(tmp_path, "gpt")
    assert "beta must be positive" in refused("generate", path, "--beta", 0)
    assert "does not fit before 20" in refused("generate", path, "--at", 20)


def test_generation_that_cannot_end_is_refused(refused: Any) -> None:
    for count in (10**6 + 1, 10**18):
        answer = refused("generate", "locator", "--words", count)
        assert f"--words must be at most 1000000, not {count}" in answer
