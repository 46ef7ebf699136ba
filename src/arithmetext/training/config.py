"""The configuration of a run: everything that decides its final weights.

A recipe makes a configuration, `with_changes` changes its fields, and the run saves it as
`config.json`. A field that does not exist is an error, never ignored.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from difflib import get_close_matches
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from ..errors import InputError
from ..integers import parse_integer
from ..models.config import GPTConfig, HMMConfig, LongConvConfig, PhasesConfig
from ..text.ranges import MAX
from ..text.splits import TRAINED_TO, Splits, splits

if TYPE_CHECKING:
    from ..tokens import Tokenizer

T = TypeVar("T")
DECADES = 4  # of the text over which `log_share` spreads windows
Model = type[GPTConfig] | type[HMMConfig] | type[LongConvConfig] | type[PhasesConfig]

# Masked modelling.
PREDICTED_SHARE = 0.15  # share of positions that are predicted, unless a run sets another
MASK_SHARE = 0.75  # share of predicted positions that show [MASK]
REPLACED_SHARE = 0.15  # share of them that show a random other token; the others show the true one


@dataclass(frozen=True, kw_only=True)
class TokensConfig:
    """The tokenizer; `size` is D."""

    kind: Literal["bpe", "words"] = "bpe"
    size: int = 256

    def tokenizer(self, text: Splits, n: int) -> "Tokenizer":
        """Train BPE on the training ranges, or take the commonest words of 2..n."""
        from ..tokens import BPE, WordTokens

        if self.kind == "words":
            return WordTokens.commonest(self.size, x=n)
        return BPE.train(self.size, ranges=text.train)


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How to train. Batch sizes are in tokens and do not depend on the number of devices."""

    steps: int
    batch: int  # tokens per step
    device_batch: int = 1 << 16  # most tokens in one pass of a device; gradients accumulate
    optimizer: Literal["adamw", "muon"] = "adamw"
    lr: float = 1e-3
    warmup: int = 100  # steps of linear warm-up; a cosine to zero follows
    weight_decay: float = 0.1
    clip: float = 1.0  # largest norm of the gradient
    interval: int = 100  # steps between validations; the paper calls it an epoch
    validation: int = 1 << 18  # tokens of validation text, always the same ones
    patience: int = 6  # intervals without improvement after which the run stops
    predicted: float = PREDICTED_SHARE  # masked modelling: share of positions, at least one
    # Share of windows that are drawn evenly in log n over the last `DECADES` decades of the text,
    # so that the model learns how words depend on the size of n. The others are drawn evenly in n.
    log_share: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Config:
    """The configuration of one run."""

    task: Literal["ntp", "mlm"]  # next-token prediction or masked language modelling
    n: int = TRAINED_TO  # the text is the words of 2..n
    seed: int = 0
    direction: Literal["forward", "backward"] = "forward"  # the order in which words are read
    surrogate: int | None = None  # the seed of a surrogate text; None: the real text
    tokens: TokensConfig = field(default_factory=TokensConfig)
    model: GPTConfig | HMMConfig | LongConvConfig | PhasesConfig = field(default_factory=GPTConfig)
    training: TrainingConfig

    @property
    def text(self) -> Splits:
        return splits(self.n)

    @property
    def windows_per_batch(self) -> int:
        """Number of windows in a batch."""
        return self.training.batch // self.model.context

    def checked(self) -> "Config":
        """This configuration; refused if it cannot be trained."""
        model = self.model
        at_least_one = {f"model.{name}": getattr(model, name) for name in model.sizes} | {
            "training.steps": self.training.steps,
            "training.interval": self.training.interval,
            "training.patience": self.training.patience,
        }
        for name, value in at_least_one.items():
            if value < 1:
                raise InputError(f"{name} must be 1 or more, not {value}")
            if value >= 1 << 63:
                raise InputError(f"{name} must be below 2^63")
        if self.model.context < 2:
            raise InputError(f"model.context must be 2 or more, not {self.model.context}")
        for name in "batch", "device_batch", "validation":
            tokens = getattr(self.training, name)
            if tokens < self.model.context or tokens % self.model.context:
                raise InputError(
                    f"training.{name} must be a multiple of model.context ="
                    f" {self.model.context} tokens, not {tokens}"
                )
            if tokens >= 1 << 32:  # more than any machine can hold
                raise InputError(f"training.{name} must be below 2^32 tokens, not {tokens}")
        for name in "lr", "clip":
            if not getattr(self.training, name) > 0:
                raise InputError(f"training.{name} must be positive")
        if not 0 < self.training.predicted <= 1:
            raise InputError("training.predicted must be a share above 0, at most 1")
        if not 0 <= self.training.log_share <= 1:
            raise InputError("training.log_share must be a share from 0 to 1")
        if self.training.weight_decay < 0 or self.training.warmup < 0 or self.seed < 0:
            raise InputError("training.weight_decay, training.warmup and seed must be 0 or more")
        if self.seed >= 1 << 63:
            raise InputError("seed must be below 2^63")
        if self.surrogate is not None and not 0 <= self.surrogate < 1 << 63:
            raise InputError(
                "surrogate must be a seed from 0 to 2^63 - 1, or none for the real text,"
                f" not {self.surrogate}"
            )
        if self.n >= MAX:
            raise InputError(f"n = {self.n} is beyond 2^63, the limit of the sieve")
        splits(self.n)
        if self.task not in model.tasks or self.training.optimizer not in model.optimizers:
            raise InputError(
                f"{model.kind} models take only task={'|'.join(model.tasks)}"
                f" and training.optimizer={'|'.join(model.optimizers)}"
            )
        if self.tokens.kind not in model.tokenizers:
            raise InputError(
                f"{model.kind} models take only tokens.kind={'|'.join(model.tokenizers)}"
            )
        if isinstance(model, PhasesConfig) and not 2 <= model.bound <= model.context:
            raise InputError(
                f"model.bound must be from 2 to model.context = {model.context}, not {model.bound}"
            )
        return self

    def save(self, path: Path) -> None:
        from ..files import write_whole

        write_whole(path, json.dumps(asdict(self), indent=1) + "\n")

    @classmethod
    def load(cls, path: Path) -> "Config":
        try:
            return from_json(json.loads(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from None
        except (ValueError, TypeError, RecursionError) as error:
            raise InputError(f"{path} is not the configuration of a run: {error}") from None


def from_json(values: Any) -> Config:
    """The configuration that was saved as this JSON; settings it lacks have their defaults."""
    return _build(Config, values, "", _model_of(values)).checked()


def with_changes(config: Config, settings: Sequence[str]) -> Config:
    """A copy with some fields changed, each given as `training.lr=1e-3`."""
    for setting in settings:
        name, sign, value = setting.partition("=")
        if not sign:
            raise InputError(f"--set takes NAME=VALUE, such as training.lr=1e-3, not {setting!r}")
        model = type(config.model)
        config = _set(config, name.strip().split("."), value.strip(), name.strip(), model)
    return config.checked()


def differences(ours: Config, theirs: Config) -> list[str]:
    """The fields in which two configurations differ, with both values."""

    def flat(config: Any, prefix: str = "") -> dict[str, Any]:
        values: dict[str, Any] = {}
        for f in fields(config):
            value = getattr(config, f.name)
            inner = flat(value, f"{prefix}{f.name}.") if is_dataclass(value) else None
            values |= inner if inner is not None else {prefix + f.name: value}
        return values

    a, b = flat(ours), flat(theirs)
    both = [(name, a.get(name, "nothing"), b.get(name, "nothing")) for name in a | b]
    return [f"{name} = {one} and {other}" for name, one, other in both if one != other]


def _set(config: Any, path: list[str], value: str, name: str, model: Model) -> Any:
    types = _types(type(config), model)
    first, *rest = path
    if first not in types or is_dataclass(types[first]) != bool(rest):
        raise InputError(f"no setting {name!r}{_nearest(name, model)}")
    old = getattr(config, first)
    new = _set(old, rest, value, name, model) if rest else _parse(types[first], value, name)
    return replace(config, **{first: new})


def _nearest(name: str, model: Model) -> str:
    names = settings(model)
    close = get_close_matches(name, names, 1) or [n for n in names if n.endswith(f".{name}")]
    return f"; did you mean {close[0]}?" if close else f"; there are: {', '.join(names)}"


def settings(model: Model = GPTConfig) -> list[str]:
    """The names of all fields, as `--set` takes them, of a run with this kind of model."""
    names = []
    for name, kind in _types(Config, model).items():
        names += [f"{name}.{f.name}" for f in fields(kind)] if is_dataclass(kind) else [name]
    return names


def _types(kind: type, model: Model) -> dict[str, Any]:
    """The types of the fields; `model` is the kind of model that the run has."""
    types = get_type_hints(kind)
    return types | {"model": model} if "model" in types else types


def _model_of(values: Any) -> Model:
    """The kind of model with most of the settings in a file; any other setting is refused later."""
    given = values.get("model") if isinstance(values, dict) else None
    names = set(given) if isinstance(given, dict) else set()
    models: tuple[Model, ...] = get_args(get_type_hints(Config)["model"])
    return max(models, key=lambda model: len(names & {f.name for f in fields(model)}))


def _parse(kind: Any, value: str, name: str) -> Any:
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise InputError(f"{name} is one of {', '.join(get_args(kind))}, not {value!r}")
        return value
    if kind is int:
        return parse_integer(value)
    if kind == int | None:
        if value.lower() == "none":
            return None
        try:
            return parse_integer(value)
        except InputError as error:
            raise InputError(f"{name} is an integer or none: {error}") from None
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if not isfinite(number):
        raise InputError(f"{name} is a number, not {value!r}")
    return number


def _build(kind: type[T], values: Any, prefix: str, model: Model) -> T:
    """A configuration from JSON; a value that does not fit raises ValueError or TypeError."""
    if not isinstance(values, dict):
        shown = _shown(values)
        raise InputError(f"{prefix.rstrip('.') or 'it'} is {shown}, not a group of settings")
    types = _types(kind, model)
    given = {}
    for name, value in values.items():
        if name not in types:
            raise InputError(f"no setting {_shown(prefix + name)}{_nearest(prefix + name, model)}")
        if is_dataclass(types[name]):
            given[name] = _build(types[name], value, f"{prefix}{name}.", model)
        elif not _fits(types[name], value):
            raise InputError(f"{prefix}{name} cannot be {_shown(value)}")
        else:
            given[name] = value
    return kind(**given)


def _shown(value: Any) -> str:
    """A value from a file, cut to fit into one line."""
    text = repr(value)
    return text if len(text) <= 80 else text[:79] + "…"


def _fits(kind: Any, value: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if kind == int | None and value is None:
        return True
    if kind in (int, int | None):
        return type(value) is int
    return type(value) in (int, float) and abs(value) <= sys.float_info.max
