"""The Hugging Face format, side by side with transformers."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save, save_file
from torch import Tensor

from arithmetext.errors import InputError
from arithmetext.models.gpt import GPT, GPTConfig
from arithmetext.models.hugging_face import load_pretrained, save_pretrained
from arithmetext.text.sieve import words
from arithmetext.tokens import BPE, Tokenizer, WordTokens
from arithmetext.tokens.spelling import spell

os.environ["HF_HUB_OFFLINE"] = "1"
transformers = pytest.importorskip("transformers")

POSITIONS = ("learned", "rotary")
each_kind_of_positions = pytest.mark.parametrize("positions", POSITIONS)
each_task = pytest.mark.parametrize("causal", [True, False], ids=["causal", "masked"])
each_size = pytest.mark.parametrize(
    ("layers", "heads", "context"), [(1, 1, 32), (2, 3, 48), (3, 2, 64)]
)


@cache
def tokenizer() -> Tokenizer:
    return WordTokens.commonest(64)


def moved(module: Any) -> Any:
    """Every parameter away from where it began, so that none can be forgotten or mistaken."""
    generator = torch.Generator().manual_seed(1)
    for parameter in module.parameters():
        parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator)
    return module.requires_grad_(False)


def make(
    positions: Any = "learned",
    *,
    causal: bool = True,
    layers: int = 2,
    heads: int = 2,
    context: int = 32,
) -> GPT:
    torch.manual_seed(0)
    config = GPTConfig(layers=layers, heads=heads, context=context, positions=positions)
    return moved(GPT(config, vocabulary=64 + (not causal), causal=causal))


def some(model: GPT, batch: int, length: int) -> Tensor:
    generator = torch.Generator().manual_seed(length)
    return torch.randint(model.vocabulary, (batch, length), generator=generator)


def load_there(folder: Path) -> Any:
    there, information = transformers.AutoModelForCausalLM.from_pretrained(
        folder, output_loading_info=True
    )
    assert not any(information.values()), information
    return there.requires_grad_(False)


def logits_there(there: Any, ids: Tensor, *, causal: bool) -> Tensor:
    batch, length = ids.shape
    mask = None if causal else torch.ones(batch, 1, length, length, dtype=torch.bool)
    return there(ids, attention_mask=mask).logits


def in_float64(model: GPT, there: Any) -> None:
    """Make both compute in float64, where the order of additions hardly matters."""
    if model.rope is not None:  # the angles are rounded another way there
        places = torch.arange(model.config.context)[None]
        embedding = there.gpt_neox.rotary_emb(torch.zeros(1), places)
        rope = torch.stack([part[0] for part in embedding], 1)
        torch.testing.assert_close(model.rope, rope, atol=1e-5, rtol=0)
        model.rope = rope
    model.double()
    there.double()


def assert_same_parameters(ours: GPT, theirs: GPT) -> None:
    expected = ours.state_dict()
    assert list(theirs.state_dict()) == list(expected)
    for name, parameter in theirs.state_dict().items():
        assert parameter.dtype == torch.float32
        assert torch.equal(parameter, expected[name].float()), name


# There


@each_size
@each_task
@each_kind_of_positions
def test_logits_are_those_of_transformers(
    tmp_path: Path, positions: str, causal: bool, layers: int, heads: int, context: int
) -> None:
    model = make(positions, causal=causal, layers=layers, heads=heads, context=context)
    save_pretrained(model, tokenizer(), tmp_path)
    there = load_there(tmp_path)
    kind = {"learned": "GPT2LMHeadModel", "rotary": "GPTNeoXForCausalLM"}[positions]
    assert type(there).__name__ == kind
    assert there.dtype == torch.float32
    in_float64(model, there)
    for length in range(1, context + 1):
        ids = some(model, 1 + length % 3, length)
        logits = logits_there(there, ids, causal=causal)
        torch.testing.assert_close(model(ids), logits, atol=1e-9, rtol=1e-9)
    # The task matters: with the other mask the logits are others.
    assert (model(ids) - logits_there(there, ids, causal=not causal)).abs().max() > 0.1


def test_the_greedy_continuation_is_ours_and_stops_at_no_token(tmp_path: Path) -> None:
    for favourite in (None, 0):
        model = make()
        if favourite is not None:  # a token that is thought to end the text would end it at once
            model.norm.bias.copy_(4 * model.tokens.weight[favourite])
        save_pretrained(model, tokenizer(), tmp_path)
        ids = some(model, 1, 4)
        there = load_there(tmp_path)
        in_float64(model, there)
        generated = there.generate(ids, max_new_tokens=20, do_sample=False)
        for _ in range(20):
            ids = torch.cat([ids, model(ids)[:, -1:].argmax(-1)], 1)
        assert generated.tolist() == ids.tolist()


@each_kind_of_positions
@pytest.mark.parametrize("kind", ["bpe", "words"])
def test_ids_are_those_of_transformers(tmp_path: Path, positions: str, kind: str) -> None:
    bpe = BPE.train(64, ranges=[(2, 10**6)], lines=64)
    ours = {"bpe": bpe, "words": tokenizer()}[kind]
    save_pretrained(make(positions), ours, tmp_path)
    there = transformers.AutoTokenizer.from_pretrained(tmp_path)
    window = words(10**6, 10**6 + 500)
    assert there(spell(window))["input_ids"] == ours.encode(window).tolist()
    assert there.mask_token_id == ours.mask_id
    assert there.model_max_length == 32


# The files


@each_kind_of_positions
@pytest.mark.parametrize(
    ("dtype", "stored"), [(torch.float32, "F32"), (torch.bfloat16, "BF16")], ids=str
)
def test_files(tmp_path: Path, positions: str, dtype: torch.dtype, stored: str) -> None:
    model = make(positions).bfloat16()
    save_pretrained(model, tokenizer(), tmp_path / "new" / "model", dtype=dtype)
    folder = tmp_path / "new" / "model"
    names = {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"}
    assert {path.name for path in folder.iterdir()} == names
    config = json.loads((folder / "config.json").read_text())
    assert config["dtype"] == str(dtype).removeprefix("torch.")
    assert config["arithmetext"] == {"causal": True}
    assert config["bos_token_id"] is config["eos_token_id"] is None
    dropouts = [value for key, value in config.items() if "drop" in key]
    assert len(dropouts) > 1
    assert not any(dropouts)
    with safe_open(folder / "model.safetensors", "pt") as file:
        assert file.metadata() == {"format": "pt"}
        assert not {"lm_head.weight", "embed_out.weight"} & set(file.keys())
        assert {file.get_slice(name).get_dtype() for name in file.keys()} == {stored}  # noqa: SIM118


@each_task
@each_kind_of_positions
def test_round_trip(tmp_path: Path, positions: str, causal: bool) -> None:
    model = make(positions, causal=causal, layers=3, heads=3, context=40)
    save_pretrained(model, tokenizer(), tmp_path)
    state = torch.get_rng_state()
    again = load_pretrained(tmp_path)
    assert torch.equal(torch.get_rng_state(), state)
    assert (again.config, again.vocabulary, again.causal) == (model.config, 65 - causal, causal)
    assert_same_parameters(model, again)
    assert all(p.requires_grad and p.is_contiguous() for p in again.parameters())
    ids = some(model, 2, 40)
    torch.testing.assert_close(again.double()(ids), model.double()(ids))


@each_task
@each_kind_of_positions
def test_what_transformers_makes_of_it_is_read(
    tmp_path: Path, positions: str, causal: bool
) -> None:
    model = make(positions, causal=causal)
    save_pretrained(model, tokenizer(), tmp_path / "ours")
    load_there(tmp_path / "ours").save_pretrained(tmp_path / "theirs")
    again = load_pretrained(tmp_path / "theirs")
    assert (again.config, again.causal) == (model.config, causal)
    assert_same_parameters(model, again)


def native(positions: str, **changes: Any) -> Any:
    """A model as a user of transformers makes it."""
    if positions == "learned":
        sizes = {"n_embd": 128, "n_head": 2, "n_layer": 2, "n_positions": 32}
        kind, config = transformers.GPT2LMHeadModel, transformers.GPT2Config
    else:
        sizes = {
            "hidden_size": 128,
            "intermediate_size": 512,
            "num_attention_heads": 2,
            "num_hidden_layers": 2,
            "max_position_embeddings": 32,
            "hidden_act": "gelu_new",
            "use_parallel_residual": False,
            "rotary_pct": 1.0,
            "tie_word_embeddings": True,
        }
        kind, config = transformers.GPTNeoXForCausalLM, transformers.GPTNeoXConfig
    ends = {"bos_token_id": 0, "eos_token_id": 0}
    return moved(kind(config(vocab_size=50, **ends, **{**sizes, **changes})).eval())


@each_kind_of_positions
def test_models_of_transformers_are_read(tmp_path: Path, positions: str) -> None:
    there = native(positions)
    there.save_pretrained(tmp_path)
    model = load_pretrained(tmp_path)
    assert model.config == GPTConfig(layers=2, heads=2, context=32, positions=positions)
    assert (model.vocabulary, model.causal) == (50, True)
    in_float64(model, there)
    for length in (1, 7, 32):
        ids = some(model, 2, length)
        torch.testing.assert_close(model(ids), there(ids).logits, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_precisions_are_converted(tmp_path: Path, dtype: torch.dtype) -> None:
    there = native("learned").to(dtype)
    there.save_pretrained(tmp_path)
    model = load_pretrained(tmp_path)
    assert model.tokens.weight.dtype == torch.float32
    assert torch.equal(model.tokens.weight, there.transformer.wte.weight.float())


def test_settings_that_transformers_fills_in_may_be_left_out(tmp_path: Path) -> None:
    model = make()
    save_pretrained(model, tokenizer(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    needed = ("model_type", "vocab_size", "n_positions", "n_embd", "n_head", "n_layer")
    (tmp_path / "config.json").write_text(json.dumps({field: config[field] for field in needed}))
    assert_same_parameters(model, load_pretrained(tmp_path))


def test_transformers_is_not_imported() -> None:
    code = "import sys, arithmetext.models.hugging_face; sys.exit('transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# Refusals


def refusal(folder: Path) -> str:
    with pytest.raises(InputError) as error:
        load_pretrained(folder)
    message = str(error.value)
    assert str(folder) in message
    assert "\n" not in message
    return message.replace(str(folder), "")


ABSENT = object()
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}


@pytest.mark.parametrize(
    ("positions", "field", "value", "complaint"),
    [
        ("learned", "model_type", "llama", '"model_type" is "llama"; only gpt2 and gpt_neox'),
        ("learned", "model_type", ["gpt2"], '"model_type" is ["gpt2"]; only'),
        ("learned", "model_type", ABSENT, '"model_type" is null; only gpt2 and gpt_neox'),
        ("learned", "activation_function", "gelu", 'is "gelu", not "gelu_pytorch_tanh"'),
        ("learned", "activation_function", ["relu"], 'is ["relu"], not "gelu_pytorch_tanh"'),
        ("learned", "n_embd", 96, '"n_embd" is 96, not 128: a head is 64 wide, and there are 2'),
        ("learned", "n_head", 4, '"n_embd" is 128, not 256: a head is 64 wide, and there are 4'),
        ("learned", "n_head", 0, '"n_head" is 0, not a number from 1 to 1048576'),
        ("learned", "n_head", True, '"n_head" is true, not a number'),
        ("learned", "n_layer", 10**30, f'"n_layer" is {10**30}, not a number'),
        ("learned", "n_layer", 10**6, "too few for 1000000 layers"),
        (
            "learned",
            "n_layer",
            1,
            'has "transformer.h.1.attn.c_attn.bias", which our GPT2LMHeadModel does not have',
        ),
        ("learned", "n_layer", 3, "lacks transformer.h.2.ln_1.weight; GPT2LMHeadModel has it"),
        ("learned", "n_positions", ABSENT, '"n_positions" is null, not a number from 1'),
        ("learned", "n_positions", 31, "wpe.weight is [32, 128] of torch.float32, not [31, 128]"),
        ("learned", "vocab_size", 65, "wte.weight is [64, 128] of torch.float32, not [65, 128]"),
        ("learned", "n_inner", 256, '"n_inner" is 256, not 512'),
        ("learned", "layer_norm_epsilon", 1e-6, '"layer_norm_epsilon" is 1e-06, not 1e-05'),
        ("learned", "scale_attn_weights", False, '"scale_attn_weights" is false, not true'),
        ("learned", "scale_attn_by_inverse_layer_idx", True, 'layer_idx" is true, not false'),
        ("learned", "tie_word_embeddings", False, '"tie_word_embeddings" is false, not true'),
        ("learned", "arithmetext", {"causal": 0}, '"arithmetext" is {"causal": 0}, not'),
        ("learned", "arithmetext", "masked", '"arithmetext" is "masked", not'),
        ("rotary", "hidden_act", "gelu", '"hidden_act" is "gelu", not "gelu_pytorch_tanh"'),
        ("rotary", "hidden_act", ABSENT, '"hidden_act" is "gelu", not "gelu_pytorch_tanh"'),
        ("rotary", "hidden_size", 100, '"hidden_size" is 100, not 128: a head is 64 wide'),
        ("rotary", "intermediate_size", 128, '"intermediate_size" is 128, not 512'),
        ("rotary", "layer_norm_eps", 1e-12, '"layer_norm_eps" is 1e-12, not 1e-05'),
        ("rotary", "max_position_embeddings", 10**9, "not a number from 1 to 1048576"),
        ("rotary", "use_parallel_residual", True, '"use_parallel_residual" is true, not false'),
        ("rotary", "use_parallel_residual", ABSENT, '"use_parallel_residual" is true, not false'),
        ("rotary", "attention_bias", False, '"attention_bias" is false, not true'),
        ("rotary", "tie_word_embeddings", False, '"tie_word_embeddings" is false, not true'),
        ("rotary", "tie_word_embeddings", ABSENT, '"tie_word_embeddings" is false, not true'),
        ("rotary", "rotary_pct", 0.25, '"rotary_pct" is 0.25, not 1.0'),
        ("rotary", "rotary_emb_base", 500, '"rotary_emb_base" is 500, not 10000.0'),
        ("rotary", "rope_parameters", {**ROPE, "rope_theta": 5e5}, "500000.0, not 10000.0"),
        ("rotary", "rope_parameters", {**ROPE, "partial_rotary_factor": 0.5}, "0.5, not 1.0"),
        ("rotary", "rope_parameters", {**ROPE, "rope_type": "yarn"}, '"yarn", not "default"'),
        ("rotary", "rope_scaling", {"type": "linear", "factor": 2}, '"linear", not "default"'),
    ],
)
def test_other_models(
    tmp_path: Path, positions: str, field: str, value: Any, complaint: str
) -> None:
    save_pretrained(make(positions), tokenizer(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config[field] = value
    if value is ABSENT:
        del config[field]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert complaint in refusal(tmp_path)


def test_a_quarter_turns_unless_something_else_is_said(tmp_path: Path) -> None:
    save_pretrained(make("rotary"), tokenizer(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["rotary_pct"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert load_pretrained(tmp_path).config.positions == "rotary"
    del config["rope_parameters"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert '"rotary_pct" is 0.25, not 1.0' in refusal(tmp_path)


def test_models_of_transformers_that_are_others(tmp_path: Path) -> None:
    for number, (positions, changes, complaint) in enumerate(
        [
            ("learned", {"activation_function": "relu"}, '"relu", not "gelu_pytorch_tanh"'),
            ("learned", {"n_head": 4}, "a head is 64 wide, and there are 4"),
            ("learned", {"tie_word_embeddings": False}, "is false, not true"),
            ("learned", {"add_cross_attention": True}, 'h.0.crossattention.c_attn.bias", which'),
            ("rotary", {"rotary_pct": 0.25}, "is 0.25, not 1.0"),
            ("rotary", {"use_parallel_residual": True}, "is true, not false"),
            ("rotary", {"attention_bias": False}, "is false, not true"),
        ]
    ):
        native(positions, **changes).save_pretrained(tmp_path / str(number))
        assert complaint in refusal(tmp_path / str(number))
    native("learned").transformer.save_pretrained(tmp_path / "base")
    assert "lacks transformer.wte.weight" in refusal(tmp_path / "base")


ATTENTION = "transformer.h.1.attn.c_attn.weight"


@pytest.mark.parametrize(
    ("name", "change", "complaint"),
    [
        (ATTENTION, lambda t: None, f"lacks {ATTENTION}; GPT2LMHeadModel has it"),
        (ATTENTION, lambda t: t.mT.contiguous(), "is [384, 128] of torch.float32, not [128, 384]"),
        (ATTENTION, lambda t: t[0].clone(), "is [384] of torch.float32, not [128, 384] of floats"),
        (ATTENTION, lambda t: t.int(), "is [128, 384] of torch.int32, not [128, 384] of floats"),
        (ATTENTION, lambda t: t[:0].clone(), "is [0, 384] of torch.float32, not [128, 384]"),
        ("lm_head.weight", lambda t: torch.zeros(64, 128), 'has "lm_head.weight", which our GPT2'),
        ("a\nb", lambda t: torch.zeros(1), 'has "a\\nb", which our GPT2LMHeadModel does not have'),
    ],
)
def test_other_tensors(
    tmp_path: Path, name: str, change: Callable[[Any], Any], complaint: str
) -> None:
    save_pretrained(make(), tokenizer(), tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    tensors[name] = change(tensors.get(name))
    save_file({k: t for k, t in tensors.items() if t is not None}, tmp_path / "model.safetensors")
    assert complaint in refusal(tmp_path)


@cache
def weights() -> bytes:
    return save({"transformer.wte.weight": torch.zeros(3, 5), "b": torch.ones(2).char()})


@settings(max_examples=200)
@given(st.data())
def test_spoilt_weights(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """No other exception, wherever the file ends and whatever is in it."""
    folder = tmp_path_factory.getbasetemp() / "spoilt"
    if not folder.exists():
        save_pretrained(make(), tokenizer(), folder)
    whole = weights()
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    place = data.draw(st.integers(0, len(whole)))
    mixed = whole[:place] + data.draw(st.binary(max_size=20)) + whole[place:]
    for content in (cut, mixed, data.draw(st.binary(max_size=100))):
        (folder / "model.safetensors").write_bytes(content)
        refusal(folder)


def test_truncated_weights(tmp_path: Path) -> None:
    save_pretrained(make(), tokenizer(), tmp_path)
    path = tmp_path / "model.safetensors"
    whole = path.read_bytes()
    for size in (0, 4, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert "is truncated, or not of the safetensors format" in refusal(tmp_path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "it is not JSON"),
        ("{", "it is not JSON"),
        ("\xff", "it is not JSON"),
        ("[" * 100_000, "it is not JSON"),
        ("[]", "it needs to be a JSON object"),
        ("7", "it needs to be a JSON object"),
        ("{}", '"model_type" is null'),
        ('{"model_type": "gpt2"}', '"vocab_size" is null'),
    ],
)
def test_spoilt_configs(tmp_path: Path, content: str, complaint: str) -> None:
    (tmp_path / "config.json").write_text(content, encoding="latin-1")
    assert complaint in refusal(tmp_path)


def test_missing_files(tmp_path: Path) -> None:
    assert "cannot read /config.json: No such file" in refusal(tmp_path)
    assert "cannot read /config.json: No such file" in refusal(tmp_path / "none")
    save_pretrained(make(), tokenizer(), tmp_path)
    (tmp_path / "model.safetensors").unlink()
    assert "cannot read /model.safetensors: No such file" in refusal(tmp_path)
    (tmp_path / "model.safetensors").mkdir()
    assert "cannot read /model.safetensors: Is a directory" in refusal(tmp_path)


def test_there_is_no_config_without_weights(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(InputError, match="cannot write"):
        save_pretrained(make(), tokenizer(), tmp_path)
    assert not (tmp_path / "config.json").exists()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot make the folder"):
        save_pretrained(make(), tokenizer(), tmp_path / "file" / "model")


def test_a_model_and_the_tokenizer_of_another(tmp_path: Path) -> None:
    for size in (62, 65):
        with pytest.raises(InputError, match=f"64 tokens does not go with a tokenizer of {size}"):
            save_pretrained(make(), WordTokens.commonest(size), tmp_path)
    assert not any(tmp_path.iterdir())


def test_a_model_without_values_draws_none() -> None:
    """It has shapes and takes no memory; torch is not made ready to compile for it."""
    code = (
        "import sys, torch\n"
        "from arithmetext.models.gpt import GPT, GPTConfig\n"
        "from arithmetext.models.hmm import HMM, HMMConfig\n"
        "from arithmetext.models.unfilled import unfilled\n"
        "with unfilled():\n"
        "    shape = GPTConfig(layers=2, heads=2, positions='rotary')\n"
        "    gpt = GPT(shape, vocabulary=9, causal=True)\n"
        "    hmm = HMM(HMMConfig(states=8), vocabulary=9)\n"
        "assert all(p.is_meta for model in (gpt, hmm) for p in model.parameters())\n"
        "assert hmm.emission.shape == (8, 9) and gpt.tokens.weight.shape == (9, 128)\n"
        "assert 'torch._dynamo' not in sys.modules\n"
        "assert not GPT(shape, vocabulary=9, causal=True).norm.weight.is_meta\n"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
