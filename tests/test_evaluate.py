"""Everything measured of a model, and the commands that show it."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from arithmetext.errors import InputError
from arithmetext.evaluation import evaluate as evaluating
from arithmetext.evaluation.evaluate import evaluate, plain
from arithmetext.evaluation.intervals import Estimate, ratio
from arithmetext.evaluation.subjects import Subject, subject
from arithmetext.models.files import save
from arithmetext.models.gpt import GPT, GPTConfig
from arithmetext.models.hmm import HMM, HMMConfig
from arithmetext.models.locator import Locator
from arithmetext.text.sieve import words
from arithmetext.tokens import BPE
from arithmetext.training.recipes import recipe
from arithmetext.trees import unpack

AT = 10**13


def folder(tmp_path: Path, kind: str) -> Path:
    """A model of 16 tokens of context that has learned nothing."""
    torch.manual_seed(0)
    causal, shape = kind != "masked", GPTConfig(layers=1, heads=1, context=16)
    tokenizer = BPE.train(64, lines=256)
    model: GPT | HMM
    if kind == "hmm":
        model = HMM(HMMConfig(states=8, context=16), vocabulary=64)
    else:
        model = GPT(shape, vocabulary=64 + (not causal), causal=causal)
    save(model, tokenizer, tmp_path / kind)
    return tmp_path / kind


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
    assert ratio([1, 0], [4, 0]).value == 0.25


def test_intervals_hold_what_they_should() -> None:
    """19 of 20, within five deviations of the binomial distribution."""
    random = np.random.default_rng(0)
    inside = 0
    for _ in range(300):
        low, high = ratio(random.exponential(2, 100))[1:]
        inside += low < 2 < high
    assert abs(inside - 285) <= 5 * math.sqrt(300 * 0.05 * 0.95) + 6  # skewed, so a little less


# Subjects


def test_what_is_not_there_is_named(refused: Any, tmp_path: Path) -> None:
    assert "there is no folder nowhere" in refused("evaluate", "nowhere")
    begun = tmp_path / "begun"
    (begun / "checkpoints").mkdir(parents=True)
    recipe("ntp-laptop").save(begun / "config.json")
    (tmp_path / "empty").mkdir()
    for name, wrong in {
        "oracle": "ngram-8 and oracle-13",
        "locator-3": "ngram-8 and oracle-13",
        str(tmp_path / "empty"): "holds no model",
        str(begun): "not finished",
    }.items():
        with pytest.raises(InputError, match=wrong):
            subject(name, AT)


def test_text_that_was_trained_on_is_not_measured_on() -> None:
    trained = recipe("ntp-laptop").text.train
    model = Subject("it", Locator(BPE.train(64, lines=256)), BPE.train(64, lines=256), 16, trained)
    assert model.unseen(10**13) == (10**13, 10**13 + 10**6 + 1)
    assert model.unseen(10**11) == (10**11, 10**11 + 10**6 + 1)
    assert model.unseen(10**10) == (10**10 - 10**6, 10**10)  # the end of a validation range
    assert model.unseen(99 * 10**9) == (99 * 10**9, 99 * 10**9 + 10**6 + 1)
    for at in (2, 10**6, 5 * 10**9):
        with pytest.raises(InputError, match=f"trained around {at}"):
            model.unseen(at)


# Everything


@pytest.mark.parametrize("kind", ["gpt", "hmm"])
def test_a_model_is_measured_alike_however_many_prompts_are_read_together(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = subject(str(folder(tmp_path, kind)), AT)
    monkeypatch.setattr(evaluating, "BETAS", (1.0,))
    monkeypatch.setattr(evaluating, "SCORED", 2)
    together = evaluate(measured, AT, prompts=5, seed=3)
    monkeypatch.setattr("arithmetext.evaluation.prompts.BATCH", 2)
    monkeypatch.setattr("arithmetext.evaluation.scoring.TOKENS", 16)
    apart = evaluate(measured, AT, prompts=5, seed=3)
    assert json.dumps(apart["generation"]) == json.dumps(together["generation"])
    assert apart["nats_per_word"]["value"] == pytest.approx(together["nats_per_word"]["value"])
    for a, b in zip(apart["likelihood"], together["likelihood"], strict=True):
        assert a["true"]["value"] == pytest.approx(b["true"]["value"], rel=1e-4)
    json.dumps(together, allow_nan=False)
    other = evaluate(measured, AT, prompts=5, seed=4)
    assert other["generation"]["words"] != together["generation"]["words"]
    assert set(together["generation"]["slides"]) == (
        {"exact", "block"} if kind == "gpt" else {"exact"}
    )


def test_the_perfect_predictor() -> None:
    bpe = BPE.train(256)
    model = Subject("locator", Locator(bpe), bpe, 256, ())
    found = evaluate(model, AT, prompts=2, seed=0)
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
    found = evaluate(measured, AT, prompts=4, seed=0)
    assert set(found) == {"at", "window", "masked"}
    rows = found["masked"]
    assert len(rows) == len(evaluating.MASKED) * (1 + len(evaluating.BETAS))
    assert rows[-1]["beta"] == "inf" and 0 <= rows[-1]["accuracy"]["value"] <= 1


def test_plain_data() -> None:
    assert plain(Estimate(1.0, math.nan, math.inf)) == {"value": 1.0, "low": None, "high": "inf"}
    assert plain({"a": [np.arange(2), (-math.inf,)]}) == {"a": [[0, 1], ["-inf"]]}


# Commands


def test_evaluate_command(nt: Any, tmp_path: Path) -> None:
    path = folder(tmp_path, "gpt")
    answer = nt("evaluate", path, "--at", "1e13", "--at", "1e10", "--prompts", 2, "--json")
    assert answer.returncode == 0, answer.stderr
    report = json.loads(answer.stdout)
    assert (report["prompts"], report["seed"], report["context"]) == (2, 0, 16)
    assert [window["at"] for window in report["windows"]] == [10**13, 10**10]
    shown = nt("evaluate", path, "--prompts", 2, "--seed", 7)
    assert shown.returncode == 0, shown.stderr
    for part in (
        "window read for each token",
        "a quarter forgotten",
        "Jensen",
        "unigram",
        "impossible",
    ):
        assert part in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 104 + len(str(path))


def test_evaluate_command_of_a_masked_model(nt: Any, tmp_path: Path) -> None:
    shown = nt("evaluate", folder(tmp_path, "masked"), "--prompts", 2)
    assert shown.returncode == 0, shown.stderr
    assert "share of hidden tokens found" in shown.stdout and "β = ∞" in shown.stdout


def test_generate_command(nt: Any, tmp_path: Path) -> None:
    answer = nt("generate", "locator", "--at", "1e13", "--words", 20)
    assert answer.returncode == 0, answer.stderr
    rows = [line.split() for line in answer.stdout.splitlines() if "✓" in line]
    assert int(rows[-1][0]) == 10**13 + 19
    assert all(truth == said for _, _, truth, said in rows)
    [last] = words(10**13 + 19, 10**13 + 20).tolist()
    assert rows[-1][2] == unpack(last)
    assert "words are right: 1.000" in answer.stdout


def test_generate_command_as_json(nt: Any, tmp_path: Path) -> None:
    path = folder(tmp_path, "gpt")
    options = ("--words", 5, "--beta", 0.5, "--json")
    first, again = (nt("generate", path, *options, "--seed", 1).stdout for _ in range(2))
    assert first == again != nt("generate", path, *options, "--seed", 2).stdout
    made = json.loads(first)
    assert made["words"][-1]["n"] == 10**13 + 4
    right = sum(row["truth"] == row["prediction"] for row in made["words"])
    assert made["right"] == right


def test_generate_command_refuses(refused: Any, tmp_path: Path) -> None:
    path = folder(tmp_path, "gpt")
    assert "beta must be positive" in refused("generate", path, "--beta", 0)
    assert "at least 1" in refused("generate", path, "--words", 0)
    assert "does not fit before 20" in refused("generate", path, "--at", 20)
    assert "masked text" in refused("generate", folder(tmp_path, "masked"))
