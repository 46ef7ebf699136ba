"""What holds for each of our own kinds of models: long convolutions and phases."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from arithmetext.errors import InputError
from arithmetext.evaluation.generation import continue_prompts
from arithmetext.evaluation.prompts import draw
from arithmetext.evaluation.subjects import subject
from arithmetext.models import files
from arithmetext.models.config import LongConvConfig, PhasesConfig
from arithmetext.models.language import Prompts
from arithmetext.models.longconv import BLOCK
from arithmetext.text.splits import unseen
from arithmetext.tokens import WordTokens
from arithmetext.training.config import with_changes
from arithmetext.training.loop import train
from arithmetext.training.recipes import recipe

D = 12
SHAPES = {
    "longconv": LongConvConfig(layers=2, width=16, context=40),
    "phases": PhasesConfig(layers=2, width=16, bound=30, context=40),
}


@pytest.fixture(scope="module", params=SHAPES)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def model(kind: str) -> Any:
    """Its weights are large, so that far tokens count."""
    torch.manual_seed(1)
    model = SHAPES[kind].build(D, "ntp").eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    return model


def text(rows: int, tokens: int, seed: int = 0) -> Tensor:
    """Word tokens and, among them, letters."""
    return torch.randint(D, (rows, tokens), generator=torch.Generator().manual_seed(seed))


@given(st.integers(1, 59), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_later_tokens_change_nothing(model: Any, place: int, seed: int) -> None:
    ids = text(1, 60, seed)
    other = ids.clone()
    other[:, place:] = (other[:, place:] + 1) % D
    with torch.no_grad():
        before, after = model(ids), model(other)
    torch.testing.assert_close(before[:, :place], after[:, :place], atol=1e-4, rtol=1e-4)
    assert (before[:, place] - after[:, place]).abs().max() > 1e-3


@pytest.mark.parametrize("length", [1, 39, 40, 41, 100])
def test_reading_on_is_reading_all(kind: str, model: Any, length: int) -> None:
    """Over several blocks of long convolutions, and beyond the reach of their filters."""
    more = 2 * BLOCK + 3 if kind == "longconv" else 70
    ids = text(3, length + more)
    with torch.no_grad():
        expected = model(ids).log_softmax(-1)
    reading = model.read(Prompts(ids[:, :length]), stride=7)
    for i in range(more):
        torch.testing.assert_close(
            reading.log_probabilities(), expected[:, length + i - 1], atol=1e-3, rtol=1e-3
        )
        reading.append(ids[:, length + i])


def test_a_prompt_needs_a_token(model: Any) -> None:
    with pytest.raises(InputError, match="at least one token"):
        model.read(Prompts(text(2, 0)))


def test_initial_weights_depend_on_the_seed(model: Any) -> None:
    first, again, other = (model.with_initial_weights(seed) for seed in (0, 0, 1))
    for name, weights in first.named_parameters():
        assert torch.equal(weights, again.get_parameter(name))
    assert not torch.equal(first.tokens.weight, other.tokens.weight)


def test_files_give_the_same_model(kind: str, model: Any, tmp_path: Path) -> None:
    tokenizer = WordTokens.commonest(D, x=1000)
    files.save(model, tokenizer, tmp_path)
    loaded, _ = files.load(tmp_path)
    assert type(loaded) is type(model) and loaded.config == SHAPES[kind]
    assert torch.equal(loaded(text(2, 50)), model(text(2, 50)))

    files.save(model, tokenizer, tmp_path, dtype=torch.bfloat16)
    rounded, _ = files.load(tmp_path)
    for name, weights in rounded.named_parameters():
        assert torch.equal(weights, model.get_parameter(name).bfloat16().float())

    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"width": 17}))
    with pytest.raises(InputError, match=f"do not make a model of kind {kind} together"):
        files.load(tmp_path)


def test_transformers_has_our_logits(model: Any, tmp_path: Path) -> None:
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


SMALL = {
    "longconv": ("longconv-laptop", "model.layers=1", "model.width=64"),
    "phases": ("record", "model.layers=1", "model.width=32", "model.bound=16"),
}


def test_training_teaches_small_primes(kind: str, tmp_path: Path) -> None:
    """A run on the real text, resumed, measured and continued; without context 2.8 nats a word."""
    name, *shape = SMALL[kind]
    changes = (
        *(*shape, "model.context=256", "tokens.size=256"),
        *("training.steps=40", "training.batch=4096", "training.warmup=10"),
        *("training.interval=20", "training.validation=4096"),
    )
    config = with_changes(recipe(name), changes)
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
