"""The model with long convolutions."""

import json
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from arithmetext.errors import InputError
from arithmetext.evaluation.generation import continue_prompts
from arithmetext.evaluation.prompts import draw
from arithmetext.evaluation.subjects import subject
from arithmetext.models import files
from arithmetext.models.config import LongConvConfig
from arithmetext.models.language import Prompts
from arithmetext.models.longconv import BLOCK, LongConv, convolve
from arithmetext.text.splits import unseen
from arithmetext.tokens import WordTokens
from arithmetext.training.config import TrainingConfig, with_changes
from arithmetext.training.loop import train
from arithmetext.training.optimizers import make_optimizers
from arithmetext.training.recipes import recipe

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


@given(st.integers(1, 59), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_later_tokens_change_nothing(model: LongConv, place: int, seed: int) -> None:
    ids = text(1, 60, seed)
    other = ids.clone()
    other[:, place:] = (other[:, place:] + 1) % D
    with torch.no_grad():
        before, after = model(ids), model(other)
    torch.testing.assert_close(before[:, :place], after[:, :place], atol=1e-4, rtol=1e-4)
    assert (before[:, place] - after[:, place]).abs().max() > 1e-3


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


@pytest.mark.parametrize("length", [1, 39, 40, 41, 100])
def test_reading_on_is_reading_all(model: LongConv, length: int) -> None:
    """Over several blocks, and beyond the reach of the filters."""
    more = 2 * BLOCK + 3
    ids = text(3, length + more)
    with torch.no_grad():
        expected = model(ids).log_softmax(-1)
    reading = model.read(Prompts(ids[:, :length]), stride=7)
    for i in range(more):
        torch.testing.assert_close(
            reading.log_probabilities(), expected[:, length + i - 1], atol=1e-3, rtol=1e-3
        )
        reading.append(ids[:, length + i])


def test_a_prompt_needs_a_token(model: LongConv) -> None:
    with pytest.raises(InputError, match="at least one token"):
        model.read(Prompts(text(2, 0)))


def test_the_residual_stream_ends_in_the_logits(model: LongConv) -> None:
    ids = text(2, 30)
    stream = model.residual_stream(ids)
    assert stream.shape == (3, 2, 30, 16)
    assert torch.equal(stream[0], model.tokens(ids))
    assert torch.equal(model.logits(stream[-1]), model.predict_next(ids))


def test_initial_weights_depend_on_the_seed(model: LongConv) -> None:
    first, again, other = (model.with_initial_weights(seed) for seed in (0, 0, 1))
    for name, weights in first.named_parameters():
        assert torch.equal(weights, again.get_parameter(name))
    assert not torch.equal(first.blocks[0].filter, other.blocks[0].filter)


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


def test_files_give_the_same_model(model: LongConv, tmp_path: Path) -> None:
    tokenizer = WordTokens.commonest(D, x=1000)
    files.save(model, tokenizer, tmp_path)
    loaded, _ = files.load(tmp_path)
    assert isinstance(loaded, LongConv) and loaded.config == SHAPE
    assert torch.equal(loaded(text(2, 50)), model(text(2, 50)))

    files.save(model, tokenizer, tmp_path, dtype=torch.bfloat16)
    rounded, _ = files.load(tmp_path)
    for name, weights in rounded.named_parameters():
        assert torch.equal(weights, model.get_parameter(name).bfloat16().float())

    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"width": 17}))
    with pytest.raises(InputError, match="do not make a model of kind longconv together"):
        files.load(tmp_path)


def test_transformers_has_our_logits(model: LongConv, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    import arithmetext.transformers  # noqa: F401

    tokenizer = WordTokens.commonest(D, x=1000)
    files.save(model, tokenizer, tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path).eval()
    read = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ids = read("10 1100 10 110010 10 ", return_tensors="pt")["input_ids"]
    assert ids.tolist() == [tokenizer.encode_text("10 1100 10 110010 10 ").tolist()]
    with torch.no_grad():
        assert torch.equal(theirs(ids).logits, model(ids))
        made = theirs.generate(ids, max_new_tokens=4, do_sample=False)[:, ids.shape[1] :]
    reading = model.read(Prompts(ids))
    for token in made.T:
        assert torch.equal(reading.log_probabilities().argmax(-1), token)
        reading.append(token)
    # With all that the tokenizer returns, as `pipeline` does; and the loss.
    encoded = read("10 1100 10 110010 10 ", return_tensors="pt")
    assert "attention_mask" in encoded
    assert torch.equal(theirs.generate(**encoded, max_new_tokens=4, do_sample=False)[:, -4:], made)
    loss = theirs(ids, labels=ids).loss
    assert loss.item() == pytest.approx(model.loss(ids[:, :-1], ids[:, 1:]).item())
    padded = torch.ones_like(ids)
    padded[0, 0] = 0
    with pytest.raises(InputError, match="prompts of equal length"):
        theirs(ids, attention_mask=padded)


def test_training_teaches_small_primes(tmp_path: Path) -> None:
    """A run on the real text, resumed, measured and continued; without context 2.8 nats a word."""
    changes = (
        *("model.layers=1", "model.width=64", "model.context=256", "tokens.size=256"),
        *("training.steps=40", "training.batch=4096", "training.warmup=10"),
        *("training.interval=20", "training.validation=4096"),
    )
    config = with_changes(recipe("longconv-laptop"), changes)
    outcome = train(config, tmp_path)
    assert outcome.nats_per_word is not None and outcome.nats_per_word < 2.4
    last = tmp_path / "checkpoints"
    weights = {name: p.clone() for name, p in files.load(tmp_path / "model")[0].named_parameters()}
    newest = max(last.iterdir(), key=lambda path: path.name)
    for path in [newest] if newest.is_file() else [*newest.iterdir()]:
        path.unlink()
    again = train(None, tmp_path, resume=True)
    assert again.nats_per_word == outcome.nats_per_word
    for name, p in files.load(tmp_path / "model")[0].named_parameters():
        assert torch.equal(p, weights[name])

    trained = subject(str(tmp_path), 10**13)
    prompts = draw(
        trained.tokenizer, unseen(10**13, trained.seen), number=2, length=256, following=32
    )
    made = continue_prompts(trained.model, prompts, 32)
    assert made.tokens.shape == (2, 32)
