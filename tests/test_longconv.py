"""The model with long convolutions."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from arithmetext.models.config import LongConvConfig
from arithmetext.models.longconv import LongConv, convolve
from arithmetext.training.config import TrainingConfig
from arithmetext.training.optimizers import make_optimizers

D = 12
SHAPE = LongConvConfig(layers=2, width=16, context=40)


@pytest.fixture(scope="module")
def model() -> LongConv:
    """Its filters are large, so that far tokens count."""
    torch.manual_seed(1)
    model = LongConv(SHAPE, vocabulary=D).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model


def text(rows: int, tokens: int, seed: int = 0) -> Tensor:
    return torch.randint(D, (rows, tokens), generator=torch.Generator().manual_seed(seed))


# The convolution


@given(
    st.integers(1, 3), st.integers(1, 4), st.integers(1, 70), st.integers(1, 50), st.integers(0, 99)
)
@settings(max_examples=50, deadline=None)
def test_a_convolution_is_that_of_torch(
    batch: int, width: int, tokens: int, distances: int, seed: int
) -> None:
    random = torch.Generator().manual_seed(seed)
    values = torch.randn(batch, width, tokens, generator=random)
    filter = torch.randn(width, distances, generator=random)
    padded = F.pad(values.double(), (distances - 1, 0))
    expected = F.conv1d(padded, filter.double().flip(-1)[:, None], groups=width)
    torch.testing.assert_close(convolve(values, filter).double(), expected, atol=1e-4, rtol=1e-4)


# The model


def test_a_layer_sees_as_many_tokens_as_its_filter_has_distances() -> None:
    torch.manual_seed(0)
    model = LongConv(LongConvConfig(layers=1, width=16, context=40), vocabulary=D).eval()
    with torch.no_grad():
        model.blocks[0].filter.normal_()
        ids = text(1, 60)
        other = ids.clone()
        other[:, 5] = (other[:, 5] + 1) % D
        moved = (model(ids) - model(other)).abs().amax(-1)[0] > 1e-4
    assert moved.nonzero().flatten().tolist() == list(range(5, 45))


def test_the_residual_stream_ends_in_the_logits(model: LongConv) -> None:
    ids = text(2, 30)
    stream = model.residual_stream(ids)
    assert stream.shape == (3, 2, 30, 16)
    assert torch.equal(stream[0], model.tokens(ids))
    assert torch.equal(model.logits(stream[-1]), model.predict_next(ids))


def test_parameters_are_counted() -> None:
    model = LongConv(SHAPE, vocabulary=D)
    matrices = sum(p.numel() for p in model.parameters() if p.ndim > 1)
    assert SHAPE.matrix_weights(D) == matrices
    assert model.description.startswith("Long convolutions, 2 layers, width 16, filters over 40")


# Training and files


def test_adamw_trains_filters_and_muon_matrices() -> None:
    model = LongConv(SHAPE, vocabulary=D)
    muon, adamw = make_optimizers(
        model, TrainingConfig(steps=1, batch=80, optimizer="muon", weight_decay=0.1)
    )

    def names(groups: list[dict[str, list[Tensor]]]) -> set[str]:
        ours = {id(p) for group in groups for p in group["params"]}
        return {name.split(".")[-2] for name, p in model.named_parameters() if id(p) in ours}

    assert names(muon.param_groups) == {"filter_in", "filter_out", "mlp_up", "mlp_down"}
    decaying = {id(p) for p in adamw.param_groups[0]["params"]}
    assert decaying == {id(model.tokens.weight), *(id(b.filter) for b in model.blocks)}
