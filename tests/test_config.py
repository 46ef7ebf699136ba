"""Configurations: what may be set and how, files, recipes, and shares of a batch."""

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from arithmetext.cli.train import recipes as list_recipes
from arithmetext.errors import InputError
from arithmetext.models.config import GPTConfig, HMMConfig, LongConvConfig, PhasesConfig
from arithmetext.training.config import (
    Config,
    TokensConfig,
    TrainingConfig,
    differences,
    settings,
    with_changes,
)
from arithmetext.training.recipes import RECIPES, recipe
from arithmetext.training.search import short_run
from arithmetext.training.stream import micro_batches

CONFIG = Config(
    task="ntp",
    n=10**6,
    seed=3,
    tokens=TokensConfig(kind="words", size=64),
    model=GPTConfig(layers=2, heads=3, context=32),
    training=TrainingConfig(steps=50, batch=256, device_batch=128, validation=64),
)


@st.composite
def configs(draw: st.DrawFn) -> Config:
    context = draw(st.integers(2, 2048))
    tokens = st.integers(1, 5000).map(lambda windows: windows * context)
    positive = st.floats(0, exclude_min=True, allow_infinity=False)
    few = st.integers(1, 10**6)
    return Config(
        task=draw(st.sampled_from(["ntp", "mlm"])),
        n=draw(st.integers(100, 10**18)),
        seed=draw(st.integers(0, 2**63 - 1)),
        surrogate=draw(st.none() | st.integers(0, 2**63 - 1)),
        tokens=TokensConfig(
            kind=draw(st.sampled_from(["bpe", "words"])), size=draw(st.integers(3, 2**16 - 1))
        ),
        model=GPTConfig(
            layers=draw(few),
            heads=draw(few),
            context=context,
            positions=draw(st.sampled_from(["learned", "rotary"])),
        ),
        training=TrainingConfig(
            steps=draw(few),
            batch=draw(tokens),
            device_batch=draw(tokens),
            optimizer=draw(st.sampled_from(["adamw", "muon"])),
            lr=draw(positive),
            warmup=draw(st.integers(0, 10**6)),
            weight_decay=draw(st.floats(0, allow_infinity=False)),
            clip=draw(positive),
            interval=draw(few),
            validation=draw(tokens),
            patience=draw(few),
        ),
    )


def flat(values: Any, prefix: str = "") -> dict[str, Any]:
    """{"training.lr": 0.001, …}"""
    if not isinstance(values, dict):
        return {prefix[:-1]: values}
    return {k: v for name in values for k, v in flat(values[name], f"{prefix}{name}.").items()}


def with_value(values: Any, name: str, value: Any) -> Any:
    first, _, rest = name.partition(".")
    return values | {first: with_value(values[first], rest, value) if rest else value}


def refusal(action: Any) -> str:
    """The one line that says why not."""
    with pytest.raises(InputError) as refused:
        action()
    message = str(refused.value)
    assert message
    assert "\n" not in message
    return message


# Changing


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("task=mlm", "mlm"),
        ("n=1e6", 10**6),
        ("n=10^11", 10**11),
        ("seed=0", 0),
        ("seed = 2**62*2 ", None),
        ("seed=2**62", 2**62),
        ("tokens.kind=bpe", "bpe"),
        ("tokens.size=2^10", 1024),
        ("model.layers=1_0", 10),
        ("model.positions=rotary", "rotary"),
        (" training.steps = 1.5e3 ", 1500),
        ("training.batch=2^17", 2**17),
        ("training.optimizer=muon", "muon"),
        ("training.lr=1e-3", 0.001),
        ("training.lr=3", 3.0),
        ("training.weight_decay=0", 0.0),
        ("training.clip=.5", 0.5),
    ],
)
def test_a_setting_is_changed_and_no_other(setting: str, expected: Any) -> None:
    if expected is None:
        assert refusal(lambda: with_changes(CONFIG, [setting])) == "seed must be below 2^63"
        return
    name = setting.partition("=")[0].strip()
    before, after = flat(asdict(CONFIG)), flat(asdict(with_changes(CONFIG, [setting])))
    assert after.pop(name) == expected
    assert type(expected) is type(before.pop(name))
    assert after == before


def test_the_surrogate_is_a_seed_or_none() -> None:
    assert CONFIG.surrogate is None
    shifted = with_changes(CONFIG, ["surrogate=2^5"])
    assert shifted == replace(CONFIG, surrogate=32)
    for none in ("none", "None"):
        assert with_changes(shifted, [f"surrogate={none}"]) == CONFIG
    for nonsense in ("one", "", "1.5", "-1", "null"):
        assert "surrogate" in refusal(
            lambda given=nonsense: with_changes(CONFIG, [f"surrogate={given}"])
        )


def test_settings_follow_each_other() -> None:
    ours = with_changes(CONFIG, ["seed=1", "training.lr=1e-2", "seed=2"])
    assert (ours.seed, ours.training.lr) == (2, 0.01)
    assert with_changes(CONFIG, []) == CONFIG
    # Only the last word counts: on the way the batch is no multiple of the context.
    assert with_changes(CONFIG, ["model.context=64", "training.batch=640"]).windows_per_batch == 10
    assert with_changes(CONFIG, ["training.batch=640", "model.context=64"]).windows_per_batch == 10


def test_all_settings_have_names() -> None:
    assert settings() == list(flat(asdict(CONFIG)))
    for name, value in flat(asdict(CONFIG)).items():
        assert with_changes(CONFIG, [f"{name}={value}"]) == CONFIG


@given(configs())
def test_every_valid_value_can_be_written(config: Config) -> None:
    written = [f"{name}={value!s}" for name, value in flat(asdict(config)).items()]
    assert with_changes(CONFIG, written) == config


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.lrr=1", "no setting 'training.lrr'; did you mean training.lr?"),
        ("lr=1", "no setting 'lr'; did you mean training.lr?"),
        ("heads=3", "no setting 'heads'; did you mean model.heads?"),
        ("trainig.steps=3", "no setting 'trainig.steps'; did you mean training.steps?"),
        ("training.Steps=3", "no setting 'training.Steps'; did you mean training.steps?"),
        ("sead=1", "no setting 'sead'; did you mean seed?"),
        ("training.lr.more=1", "no setting 'training.lr.more'; did you mean training.lr?"),
        ("n.x=1", f"no setting 'n.x'; there are: {', '.join(settings())}"),
        ("=1", f"no setting ''; there are: {', '.join(settings())}"),
        ("zzz=1", f"no setting 'zzz'; there are: {', '.join(settings())}"),
        ("training.lr", "--set takes NAME=VALUE, such as training.lr=1e-3, not 'training.lr'"),
        ("", "--set takes NAME=VALUE, such as training.lr=1e-3, not ''"),
        ("task=clm", "task is one of ntp, mlm, not 'clm'"),
        ("tokens.kind=", "tokens.kind is one of bpe, words, not ''"),
        ("training.optimizer=Muon", "training.optimizer is one of adamw, muon, not 'Muon'"),
        ("model.positions=none", "model.positions is one of learned, rotary, not 'none'"),
        ("training.lr=fast", "training.lr is a number, not 'fast'"),
        ("training.lr=nan", "training.lr is a number, not 'nan'"),
        ("training.clip=inf", "training.clip is a number, not 'inf'"),
        ("training.lr=", "training.lr is a number, not ''"),
    ],
)
def test_settings_that_there_are_not(setting: str, message: str) -> None:
    assert refusal(lambda: with_changes(CONFIG, [setting])) == message


@pytest.mark.parametrize("group", ["tokens", "model", "training"])
def test_a_group_has_no_value(group: str) -> None:
    assert refusal(lambda: with_changes(CONFIG, [f"{group}=1"])).startswith(
        f"no setting '{group}'; "
    )


@pytest.mark.parametrize("value", ["1.5", "1e-3", "two", "", "-1", "0x10", "True"])
def test_not_an_integer(value: str) -> None:
    refusal(lambda: with_changes(CONFIG, [f"training.steps={value}"]))


@given(st.text(max_size=30))
def test_any_setting_is_taken_or_refused(setting: str) -> None:
    for text in (setting, f"training.lr={setting}", f"n={setting}", f"task={setting}"):
        try:
            with_changes(CONFIG, [text])
        except InputError as error:
            assert "\n" not in str(error)


# What cannot be trained

IMPOSSIBLE = {
    "model.layers=0": "model.layers must be 1 or more, not 0",
    "model.heads=0": "model.heads must be 1 or more, not 0",
    "training.steps=0": "training.steps must be 1 or more, not 0",
    "training.interval=0": "training.interval must be 1 or more, not 0",
    "training.patience=0": "training.patience must be 1 or more, not 0",
    "model.context=1": "model.context must be 2 or more, not 1",
    "training.batch=0": "training.batch must be a multiple of model.context = 32 tokens, not 0",
    "training.batch=257": "training.batch must be a multiple of model.context = 32 tokens, not 257",
    "training.device_batch=16": "training.device_batch must be a multiple of model.context",
    "training.validation=33": "training.validation must be a multiple of model.context",
    "training.lr=0": "training.lr must be positive",
    "training.lr=-1": "training.lr must be positive",
    "training.clip=0": "training.clip must be positive",
    "training.weight_decay=-0.1": (
        "training.weight_decay, training.warmup and seed must be 0 or more"
    ),
    "seed=2^63": "seed must be below 2^63",
    "surrogate=2^63": "surrogate must be a seed from 0 to 2^63 - 1, or none for the real text, not",
    "n=99": "a text of 2..99 is too short to be split: n must be at least 100",
}


@pytest.mark.parametrize("setting", IMPOSSIBLE)
def test_what_cannot_be_trained(setting: str) -> None:
    assert refusal(lambda: with_changes(CONFIG, [setting])).startswith(IMPOSSIBLE[setting])


def test_negative_integers() -> None:
    for config in (
        replace(CONFIG, seed=-1),
        replace(CONFIG, surrogate=-1),
        replace(CONFIG, training=replace(CONFIG.training, warmup=-1)),
    ):
        assert re.search("0 or more|from 0 to", refusal(config.checked))


@pytest.mark.parametrize(
    "setting",
    ["n=100", "seed=0", "training.warmup=0", "training.warmup=1e9", "training.weight_decay=0"],
)
def test_what_is_just_possible(setting: str) -> None:
    with_changes(CONFIG, [setting])


# Files


@given(configs())
@examples(max_examples=50)
def test_round_trip(tmp_path_factory: pytest.TempPathFactory, config: Config) -> None:
    path = tmp_path_factory.getbasetemp() / "config.json"
    config.save(path)
    assert Config.load(path) == config == config.checked()
    assert hash(config) == hash(Config.load(path))


def saved(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "config.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def test_the_file_names_every_setting(tmp_path: Path) -> None:
    CONFIG.save(tmp_path / "config.json")
    assert list(flat(json.loads((tmp_path / "config.json").read_text()))) == settings()
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("sede", "seed"),
        ("training.learning_rate", None),
        ("model.head", "model.heads"),
        ("tokens.siz", "tokens.size"),
        ("width", None),
    ],
)
def test_unknown_keys_in_a_file(tmp_path: Path, name: str, nearest: str | None) -> None:
    path = saved(tmp_path, with_value(asdict(CONFIG), name, 1))
    message = refusal(lambda: Config.load(path))
    assert message.startswith(f"{path} is not the configuration of a run: no setting {name!r}; ")
    if nearest:
        assert message.endswith(f"did you mean {nearest}?")


@pytest.mark.parametrize("name", ["task", "training", "training.steps", "training.batch"])
def test_missing_keys(tmp_path: Path, name: str) -> None:
    values = asdict(CONFIG)
    *groups, last = name.split(".")
    del (values[groups[0]] if groups else values)[last]
    message = refusal(lambda: Config.load(saved(tmp_path, values)))
    assert "is not the configuration of a run" in message
    assert repr(last) in message


def test_files_from_before_the_surrogate(tmp_path: Path) -> None:
    values = asdict(CONFIG)
    assert values.pop("surrogate") is None
    assert Config.load(saved(tmp_path, values)) == CONFIG


def test_other_missing_keys_have_their_defaults(tmp_path: Path) -> None:
    path = saved(tmp_path, {"task": "mlm", "training": {"steps": 7, "batch": 2048}})
    assert Config.load(path) == Config(task="mlm", training=TrainingConfig(steps=7, batch=2048))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("training.steps", "7"),
        ("training.steps", None),
        ("training.lr", "1e-3"),
        ("training.warmup", [1]),
        ("model.context", "32"),
        ("n", "1e11"),
        ("seed", {}),
        ("tokens", 64),
        ("tokens", []),
        ("tokens", "words"),
        ("model", None),
        ("training", 1.5),
        ("training.batch", 100),
        ("training.steps", -1),
        ("seed", -1),
        ("task", "clm"),
        ("task", None),
        ("tokens.kind", "letters"),
        ("tokens.size", "64"),
        ("tokens.size", 64.5),
        ("model.positions", "none"),
        ("training.optimizer", "sgd"),
        ("training.steps", 2.5),
        ("n", 1e6),
        ("seed", 1.5),
        ("seed", True),
        ("surrogate", True),
        ("surrogate", "none"),
        ("surrogate", -1),
        ("training.lr", float("inf")),
        ("training.weight_decay", float("nan")),
    ],
)
def test_wrong_values_in_a_file(tmp_path: Path, name: str, value: Any) -> None:
    path = saved(tmp_path, with_value(asdict(CONFIG), name, value))
    assert str(path) in refusal(lambda: Config.load(path))


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "3", '"abc"', '["task"]', "\x00"])
def test_files_of_another_kind(tmp_path: Path, content: str) -> None:
    path = saved(tmp_path, content)
    message = refusal(lambda: Config.load(path))
    assert message.startswith(f"{path} is not the configuration of a run: ")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing = tmp_path / "config.json"
    assert refusal(lambda: Config.load(missing)) == (
        f"cannot read {missing}: No such file or directory"
    )
    assert refusal(lambda: Config.load(tmp_path)).startswith(f"cannot read {tmp_path}: ")
    missing.write_bytes(b"\xff\xfe\x00")
    assert "is not the configuration of a run" in refusal(lambda: Config.load(missing))


# Differences


def test_differences_are_named() -> None:
    assert differences(CONFIG, CONFIG) == []
    other = with_changes(CONFIG, ["training.lr=0.5", "task=mlm", "model.heads=4"])
    assert differences(CONFIG, other) == [
        "task = ntp and mlm",
        "model.heads = 3 and 4",
        "training.lr = 0.001 and 0.5",
    ]


@given(configs(), configs())
def test_differences_are_complete(ours: Config, theirs: Config) -> None:
    a, b = flat(asdict(ours)), flat(asdict(theirs))
    expected = [f"{name} = {a[name]} and {b[name]}" for name in a if a[name] != b[name]]
    assert differences(ours, theirs) == expected
    assert (ours == theirs) == (not expected)


# Recipes

PAPER = re.compile(r"(ntp|mlm)-paper(?:-d(64|1024))?(?:-rho(0\.25|0\.5|2))?")


def test_the_names_of_recipes(capsys: pytest.CaptureFixture[str]) -> None:
    expected = {f"{task}-laptop" for task in ("ntp", "mlm")} | {
        f"{task}-paper{size}{rho}"
        for task in ("ntp", "mlm")
        for size in ("-d64", "", "-d1024")
        for rho in ("-rho0.25", "-rho0.5", "", "-rho2")
    }
    expected |= {"hmm-laptop", "pretrained", "longconv", "longconv-laptop", "sprint", "record"} | {
        f"hmm-{kind}{size}" for kind in ("paper", "sequence") for size in ("-d64", "", "-d1024")
    }
    assert set(RECIPES) == expected
    list_recipes()
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[0] == "recipe"
    assert [line.split()[0] for line in lines] == list(RECIPES)
    for line in lines:
        name, kind, size, context, steps, _, *model = line.split()
        config = recipe(name)
        assert (kind, int(size)) == (config.tokens.kind, config.tokens.size)
        assert int(context) == config.model.context
        assert int(steps) == config.training.steps
        if isinstance(config.model, GPTConfig):
            width = f"{config.model.width},"
            assert model[:4] == [str(config.model.layers), "layers,", "width", width]
        elif isinstance(config.model, HMMConfig):
            assert model[:4] == ["HMM", "of", str(config.model.states), "states,"]
        elif isinstance(config.model, PhasesConfig):
            bound = f"{config.model.bound},"
            assert model[2:] == [
                *("width", f"{config.model.width},", "prime", "powers", "up", "to", bound),
                *("muon,", f"{config.training.lr:g}"),
            ]
        else:
            taps = str(config.model.context)
            assert model[2:] == [
                *("width", f"{config.model.width},", "filters", "over", taps, "tokens,"),
                *("muon,", f"{config.training.lr:g}"),
            ]
    list_recipes(as_json=True)
    listed = json.loads(capsys.readouterr().out)
    assert listed == {name: asdict(recipe(name)) for name in RECIPES}


@pytest.mark.parametrize("name", RECIPES)
def test_recipes(name: str) -> None:
    config = RECIPES[name]()
    assert config.checked() == config == recipe(name)
    begin = {
        GPTConfig: (f"{config.task}-", "pretrained"),
        HMMConfig: "hmm-",
        LongConvConfig: ("longconv", "sprint"),
        PhasesConfig: "record",
    }
    assert name.startswith(begin[type(config.model)])
    assert config.n == 10**11
    for processes in (p for p in (1, 2, 4, 8) if config.windows_per_batch % p == 0):
        micro, times = micro_batches(config, processes)
        assert micro * config.model.context <= config.training.device_batch
        assert micro * times * processes * config.model.context == config.training.batch
    if match := PAPER.fullmatch(name):
        assert isinstance(config.model, GPTConfig)
        rho = float(match[3] or 1)
        assert config.tokens == TokensConfig(kind="bpe", size=int(match[2] or 256))
        assert config.model.layers == config.model.heads == 12 * rho
        assert config.model.width == 768 * rho
        assert (config.model.context, config.model.positions) == (1024, "learned")
        assert config.training.optimizer == "adamw"
    elif isinstance(config.model, GPTConfig):
        assert name in (f"{config.task}-laptop", "pretrained")


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("ntp-papers", "did you mean ntp-paper?"),
        ("mlm-laptop ", "did you mean mlm-laptop?"),
        ("", "`nt recipes` lists them"),
        ("zzz", "`nt recipes` lists them"),
    ],
)
def test_a_recipe_that_there_is_not(name: str, hint: str) -> None:
    assert refusal(lambda: recipe(name)) == f"no recipe {name!r}; {hint}"


def test_recipes_are_written_as_the_types_say() -> None:
    tasks = {RECIPES[name]().task for name in RECIPES}
    assert tasks == set(get_args(Config.__annotations__["task"]))


@given(configs(), st.floats(1e-6, 1))
def test_short_runs_differ_in_length_alone(config: Config, lr: float) -> None:
    tried = short_run(config, lr).checked()
    assert tried.training.steps == max(1, config.training.steps // 20)
    assert tried.training.lr == lr
    assert tried.training.interval <= tried.training.steps
    assert tried.training.warmup <= config.training.warmup
    names = {line.split(" ")[0] for line in differences(config, tried)}
    assert names <= {f"training.{name}" for name in ("lr", "steps", "warmup", "interval")}


# Shares of a batch


@given(st.integers(1, 600), st.integers(1, 600), st.integers(1, 40), st.integers(2, 64))
def test_shares_make_the_batch(windows: int, at_once: int, processes: int, context: int) -> None:
    config = Config(
        task="ntp",
        model=GPTConfig(context=context),
        training=TrainingConfig(
            steps=1,
            batch=windows * context,
            device_batch=at_once * context,
            validation=context,
        ),
    ).checked()
    if windows % processes:
        assert refusal(lambda: micro_batches(config, processes)) == (
            f"training.batch = {windows * context} tokens are {windows} windows,"
            f" which {processes} processes cannot share evenly"
        )
        return
    micro, times = micro_batches(config, processes)
    assert micro * times * processes == windows == config.windows_per_batch
    assert micro <= at_once
    # As many at once as may be.
    own = windows // processes
    assert micro == max(size for size in range(1, at_once + 1) if own % size == 0)
