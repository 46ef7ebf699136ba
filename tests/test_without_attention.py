"""The least loss without attention, against the batches themselves and scipy."""

from math import log
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import entropy

from arithmetext.evaluation.without_attention import (
    conditional_entropy,
    gaps,
    least_loss,
    not_seen,
)
from arithmetext.models.files import load
from arithmetext.models.gpt import GPT
from arithmetext.training.config import Config, changed
from arithmetext.training.loop import Loss, train
from arithmetext.training.recipes import recipe
from arithmetext.training.stream import VALIDATION, Batch, Stream

tables = st.lists(
    st.lists(st.integers(0, 1000), min_size=4, max_size=4), min_size=1, max_size=5
).filter(lambda rows: sum(map(sum, rows)) > 0)


def batch_of(config: Config, windows: int) -> Batch:
    stream = Stream(
        config.tokens.tokenizer(config.text, config.n),
        config.text.validation,
        task=config.task,
        context=config.model.context,
        seed=3,
        purpose=VALIDATION,
    )
    return stream.batch(0, range(windows))


@given(tables)
def test_the_entropy_of_a_column_is_what_it_adds_to_the_row(rows: list[list[int]]) -> None:
    joint = np.array(rows)
    added = entropy(joint.ravel()) - entropy(joint.sum(1))
    assert conditional_entropy(joint) == pytest.approx(added, abs=1e-9)
    assert conditional_entropy(joint / joint.sum()) == pytest.approx(added, abs=1e-9)


@pytest.mark.parametrize("kind", ["bpe", "words"])
@pytest.mark.parametrize("task", ["ntp", "mlm"])
def test_batches_have_it(task: str, kind: str) -> None:
    changes = [f"tokens.kind={kind}", "tokens.size=12", "n=10^7"]
    config = changed(recipe(f"{task}-laptop"), changes)
    batch = batch_of(config, 2000)
    shown = batch.inputs if batch.chosen is None else batch.inputs.gather(1, batch.chosen)
    joint = np.zeros((13, 12))
    np.add.at(joint, (shown.numpy(), batch.targets.numpy()), 1)
    counted = entropy(joint.ravel()) - entropy(joint.sum(1))
    assert least_loss(config) == pytest.approx(counted, rel=0.01)


@given(st.lists(st.integers(1, 100), min_size=2, max_size=9))
def test_behind_gaps_are_the_tokens_of_the_text(counts: list[int]) -> None:
    frequencies = np.array(counts) / sum(counts)
    assert gaps(frequencies).sum(0) == pytest.approx(frequencies)


def test_pairs_that_were_not_seen_are_made_up_for() -> None:
    """Tokens in any order, four for each possible pair: as counted they look less random."""
    random = np.random.default_rng(0)
    pairs = np.bincount(random.integers(64**2, size=4 * 64**2), minlength=64**2).reshape(64, 64)
    assert conditional_entropy(pairs) < log(64) - 0.1
    assert conditional_entropy(pairs) + not_seen(pairs) == pytest.approx(log(64), abs=0.03)


@pytest.mark.parametrize("steps, uses_others", [(40, False), (140, True)])
def test_on_its_plateau_a_model_uses_no_other_token(
    steps: int, uses_others: bool, tmp_path: Path
) -> None:
    """The other tokens can be put in any order; once the loss has left the plateau, they cannot."""
    changes = ["tokens.kind=bpe", "tokens.size=64", "model.context=64", f"training.steps={steps}"]
    small = ("batch=2^11", "device_batch=2^11", "validation=2^12")
    config = changed(recipe("mlm-laptop"), [*changes, *(f"training.{each}" for each in small)])
    train(config, tmp_path / "run")
    model, _ = load(tmp_path / "run" / "model")
    assert isinstance(model, GPT)
    batch = batch_of(config, 256)
    assert batch.chosen is not None
    random = torch.Generator().manual_seed(0)
    shuffled = batch.inputs.clone()
    for row, chosen in zip(shuffled, batch.chosen, strict=True):
        others = torch.ones(len(row), dtype=torch.bool)
        others[chosen] = False
        row[others] = row[others][torch.randperm(int(others.sum()), generator=random)]
    with torch.no_grad():
        loss, without_order = (
            Loss(model)(inputs, batch.targets, batch.chosen).item()
            for inputs in (batch.inputs, shuffled)
        )
    if uses_others:
        assert loss < least_loss(config) - 0.1
        assert without_order > loss + 0.3
    else:
        assert loss == pytest.approx(least_loss(config), rel=0.03)
        assert without_order == pytest.approx(loss, rel=0.001)
