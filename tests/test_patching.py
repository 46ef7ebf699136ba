"""The residual stream and heads of a GPT: read, changed, and computed from there on."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

from arithmetext.errors import InputError
from arithmetext.models.config import GPTConfig, HMMConfig
from arithmetext.models.gpt import GPT, HEAD_DIM
from arithmetext.models.language import LanguageModel
from arithmetext.models.ngram import NGram
from arithmetext.models.oracle import Oracle
from arithmetext.tokens import WordTokens
from test_gpt import CONTEXT, VOCABULARY, Rounded, assert_close, each_kind_of_positions, make, some

LAYERS = 3
EVERY_POSITION = torch.arange(CONTEXT)


def hooked(model: GPT, ids: Tensor, layer: int, position: int, x: Tensor) -> Tensor:
    """Brute force: read the whole window, with another stream at one position after a layer."""

    def replace(_: Any, __: Any, stream: Tensor) -> Tensor:
        changed = stream.clone()
        changed[:, position] = x
        return changed

    name = f"blocks.{layer - 1}.residual_after" if layer else "blocks.0.residual_before"
    handle = model.get_submodule(name).register_forward_hook(replace)
    try:
        logits: Tensor = model(ids[None])[0, position]
    finally:
        handle.remove()
    return logits


# Changes of single positions


@each_kind_of_positions
def test_an_unchanged_stream_predicts_what_the_model_does(positions: str) -> None:
    model, [ids] = make(positions, layers=LAYERS), some(1)
    window = model.patched(ids)
    assert_close(window.logits, model(ids[None])[0])
    assert len(window.stream) == LAYERS + 1
    for layer, stream in enumerate(window.stream):
        assert_close(window.predict(layer, EVERY_POSITION, stream), window.logits)


@each_kind_of_positions
def test_a_changed_position_is_that_of_a_run_with_this_change(positions: str) -> None:
    model, [ids] = make(positions, layers=LAYERS), some(1)
    window = model.patched(ids)
    places = torch.tensor([0, 17, 5, 31])
    random = torch.Generator().manual_seed(0)
    for layer, stream in enumerate(window.stream):
        x = stream[places] + torch.randn(4, stream.shape[1], generator=random).double()
        found = window.predict(layer, places, x)
        for row, place in enumerate(places.tolist()):
            assert_close(found[row], hooked(model, ids, layer, place, x[row]))
        assert (found - window.logits[places]).abs().amax(1).min() > 0.1


def test_changes_do_not_see_each_other() -> None:
    model, [ids] = make(layers=LAYERS), some(1)
    window = model.patched(ids)
    x = window.stream[1][3:5] + 1
    both = window.predict(1, torch.tensor([3, 4]), x)
    assert_close(both[1:], window.predict(1, torch.tensor([4]), x[1:]))


def test_single_positions_of_masked_models_are_refused() -> None:
    with pytest.raises(InputError, match="only in a model of next tokens"):
        make(causal=False).patched(some(1)[0])


# Whole windows


@each_kind_of_positions
@pytest.mark.parametrize("length", [1, 11, CONTEXT])
def test_finish_goes_on_from_any_layer(positions: str, length: int) -> None:
    model, ids = make(positions, layers=LAYERS), some(2, length)
    streams = model.residual_stream(ids)
    assert streams.shape == (LAYERS + 1, 2, length, model.config.width)
    for layer, stream in enumerate(streams):
        assert_close(model.finish(stream, layer), model(ids), 1e-3)  # the stream is in float32


@each_kind_of_positions
def test_the_stream_begins_with_the_embedding(positions: str) -> None:
    model, ids = make(positions, layers=LAYERS), some(2)
    expected = model.tokens.weight[ids]
    if model.positions is not None:
        expected = expected + model.positions.weight
    assert torch.equal(model.residual_stream(ids)[0], expected.float())


# Heads


@each_kind_of_positions
def test_head_outputs_make_what_attention_adds(positions: str) -> None:
    model, ids = make(positions), some(2)
    outputs = model.head_outputs(ids).double()
    assert outputs.shape == (2, 2, CONTEXT, 2, HEAD_DIM)
    stream = model.residual_stream(ids)
    for layer, block in enumerate(model.blocks):
        middle = stream[layer].double() + block.attention.out(outputs[layer].flatten(2))
        assert_close(middle + block.mlp(middle), stream[layer + 1].double(), 1e-3)


def test_a_head_is_replaced_in_its_layer_alone() -> None:
    model, ids = make(layers=LAYERS), some(2)
    instead = torch.arange(HEAD_DIM) / HEAD_DIM
    before = model.head_outputs(ids)
    with model.without_head(1, 0, instead):
        found = model.head_outputs(ids)
        logits = model(ids)
    # The hook that shows outputs runs after the one that replaces them.
    assert torch.equal(found[1, :, :, 0], instead.expand(2, CONTEXT, HEAD_DIM).float())
    assert torch.equal(found[0], before[0])
    assert torch.equal(found[1, :, :, 1], before[1, :, :, 1])
    assert (found[2] - before[2]).abs().max() > 0.01
    assert (logits - model(ids)).abs().max() > 0.01


def test_a_head_that_writes_what_it_wrote_changes_nothing() -> None:
    """The first position attends to itself alone: its output is known without the other tokens."""
    model, ids = make(), some(1, 1)
    logits = model(ids)
    outputs = model.head_outputs(ids)
    for layer in range(2):
        for head in range(2):
            with model.without_head(layer, head, outputs[layer, 0, 0, head]):
                assert_close(model(ids), logits, 1e-4)


def test_no_hook_is_left_after_an_error() -> None:
    model, ids = make(), some(1)
    logits = model(ids)
    with pytest.raises(ZeroDivisionError), model.without_head(0, 0, torch.zeros(HEAD_DIM)):
        assert not torch.equal(model(ids), logits)
        _ = 1 / 0
    assert torch.equal(model(ids), logits)


# Other models, other numbers


def test_initial_weights() -> None:
    model = make("rotary")
    before = torch.get_rng_state()
    first, again, other = (model.with_initial_weights(seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert (first.config, first.vocabulary, first.causal) == (model.config, VOCABULARY, True)
    assert first.tokens.weight.dtype == torch.float64
    assert first.tokens.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert torch.equal(first.tokens.weight, again.tokens.weight)
    assert not torch.equal(first.tokens.weight, other.tokens.weight)


@each_kind_of_positions
def test_in_half_precision(positions: Any) -> None:
    """As on a GPU: weights in bfloat16, streams in float32 where they leave the model."""
    torch.manual_seed(0)
    config = GPTConfig(layers=2, heads=2, context=CONTEXT, positions=positions)
    model = GPT(config, vocabulary=VOCABULARY, causal=True).requires_grad_(False).bfloat16()
    ids = some(2)
    with Rounded(), sdpa_kernel(SDPBackend.MATH):
        logits, stream = model(ids), model.residual_stream(ids)
        assert (logits.dtype, stream.dtype) == (torch.float32, torch.float32)
        for layer, each in enumerate(stream):
            assert torch.equal(model.finish(each, layer), logits)
        window = model.patched(ids[0])
        for layer in range(3):
            found = window.predict(layer, EVERY_POSITION, stream[layer, 0])
            assert (found - logits[0]).abs().max() < 0.02 * logits.abs().max()
        with model.without_head(0, 1, model.head_outputs(ids).mean((1, 2))[0, 1]):
            assert model.finish(stream[0], 0).isfinite().all()
        fresh = model.with_initial_weights(0)
        assert fresh.residual_stream(ids).isfinite().all()
    assert fresh.tokens.weight.dtype == torch.bfloat16


def others() -> list[LanguageModel]:
    tokens = WordTokens.commonest(16)
    return [
        HMMConfig(states=4).build(16, "ntp"),
        NGram(2, [(2, 2000)], [(3000, 4000)], tokens=tokens),
        Oracle.estimate(3, 10**9, tokens=tokens, count=2000),
    ]


def test_models_without_layers_refuse_in_one_line() -> None:
    ids = torch.zeros(1, 4, dtype=torch.int64)
    for model in others():
        for call in (
            lambda model=model: model.residual_stream(ids),
            lambda model=model: model.head_outputs(ids),
            lambda model=model: model.without_head(0, 0, torch.zeros(HEAD_DIM)),
            lambda model=model: model.patched(ids[0]),
            lambda model=model: model.finish(torch.zeros(1, 4, 8), 0),
            lambda model=model: model.with_initial_weights(0),
        ):
            with pytest.raises(InputError, match=r"^[^\n]*: this model has no [^\n]*$") as refusal:
                call()
            assert str(refusal.value).startswith(model.description)
