"""Results as JSON and back.

`to_json` turns dataclasses, named tuples and arrays into what JSON can hold. `from_json` restores
them from the type annotations of their fields, so a result on disk needs no schema besides its
class.

>>> from arithmetext.evaluation.estimates import Estimate
>>> to_json(Estimate(0.4, 0.3, float("inf")))
{'value': 0.4, 'low': 0.3, 'high': 'inf'}
>>> from_json(Estimate, {"value": 0.4, "low": 0.3, "high": "inf"})
Estimate(value=0.4, low=0.3, high=inf)
"""

import dataclasses
import math
import types
import typing
from functools import lru_cache
from typing import Any

import numpy as np

_INFINITE = {"inf": math.inf, "-inf": -math.inf}  # JSON has no infinity


def to_json(value: Any) -> Any:
    """`value` as JSON can hold it: fields by name, infinity as a string, NaN as null."""
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: to_json(getattr(value, name)) for name in names}
    if hasattr(value, "_asdict"):
        return to_json(value._asdict())
    if isinstance(value, dict):
        return {_key(key): to_json(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return to_json(value.tolist())
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else None
    return value


def from_json(kind: Any, value: Any) -> Any:
    """The object of type `kind` that `to_json` made `value` from.

    Raises ValueError where the two do not fit, for instance because a field is missing.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin in (types.UnionType, typing.Union):
        return _first_that_fits(arguments, value)
    if kind is float and isinstance(value, str) and value in _INFINITE:
        return _INFINITE[value]
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
        return _restore(kind, value)
    if origin is dict and isinstance(value, dict):
        of_key, of_item = arguments
        return {_parse_key(of_key, key): from_json(of_item, item) for key, item in value.items()}
    if origin is list and isinstance(value, list):
        return [from_json(arguments[0], item) for item in value]
    if origin is tuple and isinstance(value, list):
        if arguments[-1] is ...:
            return tuple(from_json(arguments[0], item) for item in value)
        if len(arguments) == len(value):
            return tuple(map(from_json, arguments, value))
    accepted = (int, float) if kind is float else origin or kind
    if isinstance(value, accepted) and (kind is bool or not isinstance(value, bool)):
        return value
    raise ValueError(f"{str(value)[:40]!r} is no {getattr(kind, '__name__', kind)}")


def _restore(kind: Any, value: Any) -> Any:
    """A dataclass or named tuple from its fields by name."""
    if not isinstance(value, dict):
        raise ValueError(f"{str(value)[:40]!r} has no fields of {kind.__name__}")
    hints = _field_types(kind)
    if value.keys() != hints.keys():
        raise ValueError(f"{kind.__name__} has other fields: {sorted(value.keys() ^ hints.keys())}")
    return kind(**{name: from_json(hints[name], item) for name, item in value.items()})


@lru_cache(None)
def _field_types(kind: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(kind)
    names = getattr(kind, "_fields", None) or [field.name for field in dataclasses.fields(kind)]
    return {name: hints[name] for name in names}


def _first_that_fits(kinds: tuple[Any, ...], value: Any) -> Any:
    if value is None and types.NoneType in kinds:
        return None
    problem: ValueError | None = None
    for kind in kinds:
        if kind is not types.NoneType:
            try:
                return from_json(kind, value)
            except ValueError as error:
                problem = problem or error
    assert problem is not None
    raise problem


def _key(key: Any) -> str:
    """A key of an object: JSON has only strings."""
    return key if isinstance(key, str) else str(to_json(key))


def _parse_key(kind: Any, key: str) -> Any:
    return from_json(kind, key) if kind is str or key in _INFINITE else kind(key)
