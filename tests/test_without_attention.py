"""The lowest loss without attention, compared with counts in batches and with scipy."""

from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from arithmetext.evaluation import without_attention
from arithmetext.evaluation.without_attention import conditional_entropy, lowest_loss, miller_madow
from arithmetext.models.files import load
from arithmetext.models.gpt import GPT
from arithmetext.text.windows import VALIDATION
from arithmetext.training.config import Config, with_changes
from arithmetext.training.loop import train
from arithmetext.training.recipes import recipe
from arithmetext.training.stream import Batch, Stream

tables = st.lists(
    st.lists(st.integers(0, 1000), min_size=4, max_size=4), min_size=1, max_size=5
).filter(lambda rows: sum(map(sum, rows)) > 0)


def batch_of(config: Config, windows: int) -> Batch:
    """A batch of the training ranges, but of other windows than training reads."""
    stream = Stream(
        config.tokens.tokenizer(config.text, config.n),
        config.text.train,
        task=config.task,
        context=config.model.context,
        seed=3,
        purpose=VALIDATION,
    )
    return stream.batch(0, range(windows))


@given(tables)
def test_conditional_entropy_is_joint_minus_row_entropy(rows: list[list[int]]) -> None:
    joint = np.array(rows)
    added = entropy(joint.ravel()) - entropy(joint.sum(1))
    assert conditional_entropy(joint) == pytest.approx(added, abs=1e-9)
    assert conditional_entropy(joint / joint.sum()) == pytest.approx(added, abs=1e-9)


@pytest.mark.parametrize("kind", ["bpe", "words"])
@pytest.mark.parametrize("task", ["ntp", "mlm"])
def test_least_loss_equals_that_of_batches(task: str, kind: str) -> None:
    changes = [f"tokens.kind={kind}", "tokens.size=12", "n=10^7"]
    config = with_changes(recipe(f"{task}-laptop"), changes)
    batch = batch_of(config, 2000)
    shown = batch.inputs if batch.chosen is None else batch.inputs.gather(1, batch.chosen)
    joint = np.zeros((13, 12))
    np.add.at(joint, (shown.numpy(), batch.targets.numpy()), 1)
    counted = entropy(joint.ravel()) - entropy(joint.sum(1))
    assert lowest_loss(config) == pytest.approx(counted, rel=0.005)


def test_miller_madow_corrects_finite_counts() -> None:
    """With four random tokens per possible pair, raw counts underestimate the entropy."""
    random = np.random.default_rng(0)
    pairs = np.bincount(random.integers(64**2, size=4 * 64**2), minlength=64**2).reshape(64, 64)
    assert conditional_entropy(pairs) < log(64) - 0.1
    assert conditional_entropy(pairs) + miller_madow(pairs) == pytest.approx(log(64), abs=0.03)


def test_the_correction_makes_few_pairs_sufficient(monkeypatch: pytest.MonkeyPatch) -> None:
    config = with_changes(recipe("ntp-laptop"), ["tokens.kind=bpe", "tokens.size=64"])
    many = lowest_loss(config)
    monkeypatch.setattr(without_attention, "MIN_TOKENS", 2**14)
    monkeypatch.setattr(without_attention, "TOKENS_PER_PAIR", 4)
    few = lowest_loss(config)
    assert few != many
    assert few == pytest.approx(many, rel=0.01)


SLOW = ("model.heads=1", "model.context=64", "training.batch=2^11", "training.steps=60")
FAST = ("model.heads=2", "model.context=32", "training.batch=2^10", "training.steps=140")


@pytest.mark.parametrize(("learning", "uses_others"), [(SLOW, False), (FAST, True)])
def test_on_its_plateau_a_model_hardly_uses_other_tokens(
    learning: tuple[str, ...], uses_others: bool, tmp_path: Path
) -> None:
    """On the plateau, other tokens may come from another window; after it, they may not."""
    small = ("tokens.kind=bpe", "tokens.size=64", "model.layers=1", "training.validation=2^12")
    config = with_changes(recipe("mlm-laptop"), [*small, *learning])
    train(config, tmp_path / "run")
    model, _ = load(tmp_path / "run" / "model")
    assert isinstance(model, GPT)
    batch = batch_of(config, 256)
    assert batch.chosen is not None
    gaps = batch.inputs.gather(1, batch.chosen)
    among_others = batch.inputs.roll(1, 0).scatter(1, batch.chosen, gaps)
    with torch.no_grad():
        loss, misled = (
            model.loss(inputs, batch.targets, batch.chosen).item()
            for inputs in (batch.inputs, among_others)
        )
    if uses_others:
        assert loss < lowest_loss(config) - 0.1
        assert misled > loss + 0.3
    else:
        assert loss == pytest.approx(lowest_loss(config), rel=0.03)
        assert misled == pytest.approx(loss, abs=0.03)  # the mixture of a window tells a little
