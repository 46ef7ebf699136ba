"""Exported models in the libraries that people study models with: TransformerLens and nnsight."""

from importlib import metadata
from pathlib import Path

import pytest
import torch
from packaging.version import Version

from arithmetext.models.gpt import GPT
from arithmetext.models.hugging_face import save_pretrained
from arithmetext.text.sieve import words
from arithmetext.tokens.spelling import spell
from test_hugging_face import each_kind_of_positions, make, some, tokenizer

BLOCKS = 2
WIDTH = 128


@pytest.fixture
def model(positions: str, tmp_path: Path) -> GPT:
    """A model that is also saved in `tmp_path`."""
    model = make(positions, layers=BLOCKS, heads=WIDTH // 64)
    save_pretrained(model, tokenizer(), tmp_path)
    return model


def needs(distribution: str, least: str) -> None:
    """Skip the test without this version of a package or a newer one."""
    try:
        installed = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{distribution} is not installed")
    if Version(installed) < Version(least):
        pytest.skip(f"{distribution} {installed} is older than {least}")


def assert_same(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Equal but for rounding in float32; the logits are of the size of ten."""
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)


@each_kind_of_positions
def test_transformer_lens(model: GPT, tmp_path: Path) -> None:
    # Version 3.0 does not know the names that GPT-NeoX has in transformers 5.
    needs("transformer-lens", "3.9")
    from transformer_lens.model_bridge import TransformerBridge

    bridge = TransformerBridge.boot_transformers(str(tmp_path), device="cpu")
    ids = some(model, 2, 32)
    logits, cache = bridge.run_with_cache(ids)
    assert_same(model(ids), logits)
    for block in range(BLOCKS):
        assert cache[f"blocks.{block}.hook_resid_post"].shape == (2, 32, WIDTH)
    last = cache[f"blocks.{BLOCKS - 1}.hook_resid_post"]
    assert_same(model.norm(last) @ model.tokens.weight.T, logits)
    few = words(10**6, 10**6 + 8)
    ids = bridge.to_tokens(spell(few), prepend_bos=False)
    assert ids.tolist() == [tokenizer().encode(few).tolist()]


@each_kind_of_positions
def test_nnsight(model: GPT, positions: str, tmp_path: Path) -> None:
    needs("nnsight", "0.8")  # the first with TransformersModel
    from nnsight import TransformersModel

    traced = TransformersModel(str(tmp_path), task="text-generation")
    blocks = traced.transformer.h if positions == "learned" else traced.gpt_neox.layers
    ids = some(model, 2, 32)
    with traced.trace(ids):
        last = blocks[BLOCKS - 1].output.save()
        logits = traced.lm_head.output.save()
    assert_same(model(ids), logits)
    assert_same(model.norm(last) @ model.tokens.weight.T, logits)
