"""The models that come with the package, and how they are made from a run."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import arithmetext as api
from arithmetext.errors import InputError
from arithmetext.evaluation import evaluate as evaluating
from arithmetext.evaluation.estimates import Estimate, ratio
from arithmetext.evaluation.generation import continue_prompts
from arithmetext.evaluation.prompts import draw
from arithmetext.evaluation.publish import PROMPTS, main, model_card, publish
from arithmetext.evaluation.scoring import score
from arithmetext.evaluation.subjects import subject
from arithmetext.evaluation.words import accuracies
from arithmetext.integers import parse_integer
from arithmetext.models import files
from arithmetext.models.files import PACKAGED, PRETRAINED
from arithmetext.models.gpt import GPT
from arithmetext.models.language import TrainableModel
from arithmetext.paper import outputs, runs
from arithmetext.paper import study as studies
from arithmetext.paper.runs import PromptSettings, TrainedModel
from arithmetext.text.splits import far_window
from arithmetext.training import run_cache
from arithmetext.training.config import from_json
from arithmetext.training.recipes import RECIPES, recipe
from tiny_runs import tiny

AT = 10**13
FILES = {
    *("README.md", "config.json", "model.safetensors", "record.json", "tokenizer.json"),
    "tokenizer_config.json",
}


def table(card: str) -> dict[str, tuple[Estimate, Estimate]]:
    """The accuracies and the nats per word in a model card, by place."""
    estimate = r"(\d\.\d{3}) \[(\d\.\d{3}), (\d\.\d{3})\]"
    rows = re.findall(rf"^\| (\S+) \| {estimate} \| {estimate} \|$", card, re.M)
    return {
        at: (Estimate(*map(float, numbers[:3])), Estimate(*map(float, numbers[3:])))
        for at, *numbers in rows
    }


# The models in the package


@pytest.mark.parametrize("folder", PACKAGED.values(), ids=PACKAGED)
def test_the_folder(folder: Path) -> None:
    assert {path.name for path in folder.iterdir()} == FILES
    assert (folder / "model.safetensors").stat().st_size < 10 * 10**6
    tensors = load_file(folder / "model.safetensors")
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    card = (folder / "README.md").read_text("utf-8")
    assert max(map(len, card.splitlines())) <= 100
    assert list(table(card)) == ["9.76e10", "1e13", "1e14", "1e15"]


@pytest.mark.parametrize("name", PACKAGED)
def test_the_card_is_the_one_that_publish_writes(name: str) -> None:
    """With these numbers, so that a new wording is in both cards."""
    card = (PACKAGED[name] / "README.md").read_text("utf-8")
    record = json.loads((PACKAGED[name] / "record.json").read_text("utf-8"))
    config = from_json(record["config"])
    curves = {"seconds": [(0, record["seconds"])]} | {
        key: [(row["step"], row[key]) for row in record["validation"]]
        for key in ("validation_nats_per_word",)
    }
    about: Any = SimpleNamespace(
        config=config,
        environment=record["environment"],
        steps=config.training.steps,
        curve=curves.__getitem__,
    )
    rows = [(parse_integer(at), *estimates) for at, estimates in table(card).items()]
    assert model_card(name, about, files.load(PACKAGED[name])[0], rows, PROMPTS) == card


def test_transformers_reads_the_gpt_in_bfloat16() -> None:
    assert json.loads((PRETRAINED / "config.json").read_text("utf-8"))["dtype"] == "bfloat16"


@pytest.mark.parametrize("name", PACKAGED)
def test_the_model_is_that_of_the_recipe(name: str) -> None:
    ours, config = subject(name, AT), recipe(name)
    assert isinstance(ours.model, TrainableModel)
    assert ours.model.config == config.model
    tokenizer = config.tokens.tokenizer(config.text, config.n)
    assert ours.tokenizer.vocabulary == tokenizer.vocabulary
    assert (ours.name, ours.context) == (name, config.model.context)
    assert (ours.trained, ours.seen) == (config.text.train, config.text.seen)


@pytest.mark.parametrize(
    ("name", "length"), [("pretrained", 640), ("longconv", 3072), ("record", 4096)]
)
def test_the_model_is_as_good_as_its_card_says(name: str, length: int) -> None:
    """Short continuations, and a wide margin: the last bits differ between processors."""
    said, nats_said = table((PACKAGED[name] / "README.md").read_text("utf-8"))["1e13"]
    ours = subject(name, AT)
    prompts = draw(ours.tokenizer, far_window(13), number=16, length=length, following=32)
    made = continue_prompts(ours.model, prompts, 32)
    accuracy = ratio(accuracies(made.predicted, made.true)).value
    assert said.low - 0.08 < accuracy < said.high + 0.08
    windows, half = ours.windows(AT, number=4, seed=0), ours.context // 2
    scored = -score(ours.model, windows).logs[:, half - 1 :].sum()
    nats = scored / ours.tokenizer.words_ended[windows[:, half:].numpy()].sum()
    assert nats_said.low - 0.1 < nats < nats_said.high + 0.1


@pytest.mark.parametrize("name", ["longconv", "record"])
def test_the_cards_of_our_own_kinds_work(name: str) -> None:
    pytest.importorskip("transformers")
    names: dict[str, Any] = {}
    card = (PACKAGED[name] / "README.md").read_text("utf-8")
    for code in re.findall(r"```python\n(.*?)```", card, re.DOTALL):
        exec(code, names)
    shape = recipe(name).model
    assert names["ours"].config == shape
    assert names["text"].count(" ") == len(names["window"]) == shape.context
    ids = files.load(PACKAGED[name])[1].encode(names["window"][:300])[None].astype("int64")
    with torch.no_grad():
        expected = names["ours"](torch.from_numpy(ids))
        assert torch.equal(names["model"].eval()(torch.from_numpy(ids)).logits, expected)
    continuation = files.load(PACKAGED[name])[1].decode(names["answer"].numpy(), inside=False)
    assert len(continuation.words) >= 6


def test_the_examples_of_the_card_work() -> None:
    """As they stand; transformers then has our logits."""
    transformers = pytest.importorskip("transformers")
    from test_hugging_face import in_float64

    card = (PRETRAINED / "README.md").read_text("utf-8")
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)```", card, re.DOTALL):
        exec(code, names)
    ours, model, ids = names["ours"], names["model"], names["ids"]
    assert isinstance(model, transformers.GPTNeoXForCausalLM)
    assert ids.tolist() == [
        files.load(PRETRAINED)[1].encode(names["window"])[-ids.shape[1] :].tolist()
    ]
    assert names["answer"].shape == (8,)
    in_float64(ours, model)
    with torch.no_grad():
        part = ids[:, -100:]
        torch.testing.assert_close(ours(part), model(part).logits, atol=1e-9, rtol=1e-9)
    assert transformers.AutoConfig.from_pretrained(PRETRAINED).dtype == torch.bfloat16


# Studies with this model

STUDIED, HOW = TrainedModel("pretrained"), PromptSettings(2, tokens=16, stride=4, seed=0, blocks=1)


@pytest.fixture
def untrained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, and no training."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(run_cache, "train", None)
    runs._load.cache_clear()


def test_studies_use_the_model_in_the_package(untrained: None) -> None:
    facts = STUDIED.training()
    minutes = re.search(r"Time: (\d+) minutes", (PRETRAINED / "README.md").read_text("utf-8"))
    assert minutes is not None
    assert (facts.tokens, round(facts.seconds / 60)) == (STUDIED.trained_on, int(minutes[1]))
    assert STUDIED.record().validation[-1]["step"] == STUDIED.config.training.steps
    assert not run_cache.would_train(STUDIED.config)
    ours = STUDIED.load().model
    assert isinstance(ours, GPT)
    expected = files.load(PRETRAINED)[0].state_dict()
    assert all(torch.equal(expected[name], ours.state_dict()[name]) for name in expected)
    with pytest.raises(TypeError):  # another model, which would have to be trained
        STUDIED.with_seeds(2)[1].load()


def test_its_outputs_are_kept_and_carried(tmp_path: Path, untrained: None) -> None:
    with outputs.saved_to(tmp_path / "report"):
        made = STUDIED.continuations(AT, HOW)[1]
        losses = STUDIED.record().training
    runs._load.cache_clear()
    with outputs.only_kept(tmp_path / "report") as older:
        assert STUDIED.continuations(AT, HOW)[1].tokens.equal(made.tokens)
        assert STUDIED.record().training == losses
        assert older == {}
        with pytest.raises(run_cache.NotKept):
            STUDIED.load()


def test_other_weights_are_measured_again(
    tmp_path: Path, untrained: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = studies.all_studies()["horizon"]
    monkeypatch.setattr(study, "settings", lambda scale: (STUDIED,))
    monkeypatch.setattr(study, "run", lambda settings: {})
    monkeypatch.setattr(study, "Result", dict)
    made = [STUDIED.continuations(AT, HOW)[1].tokens]
    studies.perform(study, "laptop", tmp_path)
    assert studies.cached_result(study, "laptop", tmp_path) is not None

    other = shutil.copytree(PRETRAINED, tmp_path / "pretrained")
    model, tokenizer = files.load(other)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.neg_()
    files.save(model, tokenizer, other)
    monkeypatch.setitem(PACKAGED, "pretrained", other)
    runs._load.cache_clear()
    made.append(STUDIED.continuations(AT, HOW)[1].tokens)
    assert not made[0].equal(made[1])
    why = studies.why_recomputed(study, "laptop", tmp_path)
    assert why == "models/pretrained/model.safetensors changed"


def test_a_folder_with_this_name_comes_first(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    finished.rename("pretrained")
    assert subject("pretrained", AT).context == 32


# Making it


@pytest.fixture
def tiny_recipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recipe `pretrained` is the configuration of the run `finished`."""
    monkeypatch.setitem(RECIPES, "pretrained", lambda: tiny("ntp", "training.steps=10"))


def test_a_run_is_published(
    finished: Path, tmp_path: Path, tiny_recipe: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "published"
    publish(finished, folder, places=[AT], prompts=8)
    assert {path.name for path in folder.iterdir()} == FILES
    run, ours = files.load(finished / "model")[0], files.load(folder)[0]
    for name, parameter in run.named_parameters():
        assert torch.equal(ours.get_parameter(name), parameter.bfloat16().float())
    monkeypatch.setitem(PACKAGED, "pretrained", folder)
    assert TrainedModel("pretrained").training().tokens == 10 * 256
    assert run_cache._read(folder / "record.json")["sources"] == run_cache.of_weights(
        "pretrained", folder
    )
    card = (folder / "README.md").read_text("utf-8")
    assert "10 steps of 256 tokens" in card and "`nt train pretrained`" in card
    assert not re.search(r"[{}]|\bnan\b", card)
    # The card's numbers are those of `nt.evaluate`.
    monkeypatch.setattr(evaluating, "BETAS", ())
    there = api.evaluate(folder, AT, prompts=8).metrics
    measured = (
        there["generation"]["slides"]["block"]["accuracy"],
        there["context"][-1]["nats_per_word"],
    )
    for said, estimate in zip(table(card)["1e13"], measured, strict=True):
        assert said == pytest.approx(tuple(estimate.values()), abs=0.00051)


def test_publishing_again_replaces_the_files(
    finished: Path, tmp_path: Path, tiny_recipe: None
) -> None:
    folder = tmp_path / "published"
    for prompts in (8, 9):
        publish(finished, folder, places=[AT], prompts=prompts)
    assert {path.name for path in folder.iterdir()} == FILES
    assert "At each place 9 prompts of" in (folder / "README.md").read_text("utf-8")


def test_other_runs_are_not_published(
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(InputError, match=r"no run of the recipe pretrained: tokens\.size = 32 and"):
        publish(finished, tmp_path / "published")
    with pytest.raises(InputError, match="not the folder of a run"):
        publish(tmp_path / "nowhere", tmp_path / "published")
    assert not (tmp_path / "published").exists()
    monkeypatch.setattr("sys.argv", ["publish", str(tmp_path / "nowhere")])
    with pytest.raises(SystemExit) as refused:
        main()
    answer = capsys.readouterr()
    assert (refused.value.code, answer.out, answer.err.count("\n")) == (2, "", 1)
